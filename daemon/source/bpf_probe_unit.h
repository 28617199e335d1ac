/*
 * bpf_probe_unit: the kernel's perf units `uprobe` and `kprobe`: places of code to which a BPF program of the type KPROBE
 * is attached one by one.
 *
 * In: what sysfs says of the unit, read while files can be opened; a place, a program. Out: a link. It takes
 * CAP_PERFMON; and of uprobes CAP_SYS_ADMIN, in kernels of 2025 and later. The loader's one thread, and the finder's.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_PROBE_UNIT_H
#define RINGTAIL_DAEMON_SOURCE_BPF_PROBE_UNIT_H

#include <stdbool.h>
#include <stdint.h>

struct probe_unit {
	uint32_t type;			/* 0: this kernel has none such */
};

struct probe_place {
	const char *of;			/* the path of a file that can be mapped; a function of the kernel */
	uint64_t offset;		/* in it */
	uint32_t semaphore;		/* in the file; 0: none */
	bool is_return;
};

/* Of "uprobe" or "kprobe". */
void probe_unit_read(const char *name, struct probe_unit *unit);

/* The place as an event, or -errno. */
int probe_unit_open(const struct probe_unit *unit, const struct probe_place *place);

/* The link of a program to such an event, which is closed; or -errno. */
int probe_unit_link(int event, int program);

#endif
