/*
 * bpf_floor: two BPF programs that do nothing, at every system call's entry and return.
 *
 * What is left of a benchmark's speed under them is the most that any BPF tracer of system calls
 * can leave. Prints "ready" and stays until a signal ends it. Needs -lbpf.
 */
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int attach_nothing(const char *tracepoint)
{
	static const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_RAW_TP);
	int type_id, program;

	type_id = libbpf_find_vmlinux_btf_id(tracepoint, BPF_TRACE_RAW_TP);
	if (type_id < 0)
		return type_id;
	options.attach_btf_id = (__u32)type_id;
	program = bpf_prog_load(BPF_PROG_TYPE_TRACING, tracepoint, "GPL", nothing,
				sizeof(nothing) / sizeof(*nothing), &options);
	if (program < 0)
		return program;
	return bpf_raw_tracepoint_open(NULL, program);
}

int main(void)
{
	static const char *const tracepoints[] = {"sys_enter", "sys_exit"};

	for (unsigned i = 0; i < sizeof(tracepoints) / sizeof(*tracepoints); i++) {
		int error = attach_nothing(tracepoints[i]);

		if (error < 0) {
			fprintf(stderr, "bpf_floor: %s: %s\n", tracepoints[i], strerror(-error));
			return 1;
		}
	}
	puts("ready");
	fflush(stdout);
	pause();
	return 0;
}
