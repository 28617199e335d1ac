#include "daemon/source/bpf_places.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define UNITS		"/sys/bus/event_source/devices/"
#define IS_RETURN	1ull	/* format/retprobe has said so since the units were made, */
#define SEMAPHORE_SHIFT	32	/* and format/ref_ctr_offset this */

void probe_unit_read(const char *name, struct probe_unit *unit)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), UNITS "%s/type", name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%u", &unit->type) != 1)
		unit->type = 0;
	if (file)
		fclose(file);
}

/*
 * The event keeps the program attached on every CPU, whichever one it is opened for. The sandbox looks at the
 * arguments as they are in the registers, whole.
 */
int probe_unit_open(const struct probe_unit *unit, const struct probe_place *place)
{
	struct perf_event_attr event = {
		.type = unit->type, .size = sizeof(event),
		.config = (place->is_return ? IS_RETURN : 0) | (uint64_t)place->semaphore << SEMAPHORE_SHIFT,
		.config1 = (uintptr_t)place->of, .config2 = place->offset,
	};
	int fd = (int)syscall(SYS_perf_event_open, &event, -1L, 0L, -1L, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int probe_unit_link(int event, int program)
{
	int link, err;

	if (event < 0)
		return event;
	link = bpf_link_create(program, event, BPF_PERF_EVENT, NULL);
	err = errno;
	close(event);
	return link < 0 ? -err : link;
}

/* ---- One link to many places of a file ----------------------------------------------------- */

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
