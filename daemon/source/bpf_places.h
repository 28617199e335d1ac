/*
 * bpf_places: the kernel's two ways to attach a program to places of code: its perf units `uprobe` and `kprobe`, to which
 * a BPF program of the type KPROBE is attached one by one; and a link to many places of a file, from Linux 6.6 on.
 *
 * In: what sysfs says of a unit, read while files can be opened; places, a program. Out: a link. Both take CAP_PERFMON;
 * the units, for uprobes, CAP_SYS_ADMIN, in kernels of 2025 and later. The loader's one thread, and the finder's.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_PLACES_H
#define RINGTAIL_DAEMON_SOURCE_BPF_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- One place -------------------------------------------------------------------------------- */

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

/* ---- One link to many places ------------------------------------------------------------------ */

/* The headers that we are built with may be older. */
#define ATTACH_UPROBE_MULTI	48
#define UPROBE_MULTI_RETURN	1u

/* As the kernel takes it; the pointers are numbers. */
struct uprobe_multi {
	uint32_t program, target, attach_type, flags;
	uint64_t path, offsets, semaphores, cookies;
	uint32_t count, how, pid;
	uint32_t rest;		/* the kernel refuses any byte behind `pid` that is not 0: no padding */
};
_Static_assert(offsetof(struct uprobe_multi, rest) + sizeof(uint32_t) == sizeof(struct uprobe_multi),
	       "what is padding a compiler need not clear");

/* The link's descriptor, or -errno. */
int uprobe_multi_link(struct uprobe_multi *multi);

/* Whether the kernel has such links, and lets us make them. */
bool uprobe_multi_is_here(void);

#endif
