#include "daemon/source/bpf_uprobe_multi.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

int uprobe_multi_link(struct uprobe_multi *multi)
{
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, multi, sizeof(*multi));

	return fd < 0 ? -errno : fd;
}

/* A kernel that knows of it looks at the path before it misses the program's type. */
bool uprobe_multi_is_here(void)
{
	uint64_t offset = 0;
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = ATTACH_UPROBE_MULTI);
	int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "any_uprobe", "Dual BSD/GPL", nothing, 2, &options);
	struct uprobe_multi multi = {
		.program = (uint32_t)program, .attach_type = ATTACH_UPROBE_MULTI,
		.path = (uintptr_t)"/", .offsets = (uintptr_t)&offset, .count = 1,
	};
	int link = program < 0 ? program : uprobe_multi_link(&multi);

	if (link >= 0)
		close(link);
	if (program >= 0)
		close(program);
	return link == -EBADF;		/* "/" is no file */
}
