/*
 * bpf_uprobe_multi: the kernel's link from one program to many places of a file, from 6.6 on. The headers that we are built
 * with may be older. It takes CAP_BPF and CAP_PERFMON. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_UPROBE_MULTI_H
#define RINGTAIL_DAEMON_SOURCE_BPF_UPROBE_MULTI_H

#include <stdbool.h>
#include <stdint.h>

#define ATTACH_UPROBE_MULTI	48
#define UPROBE_MULTI_RETURN	1u

/* As the kernel takes it; the pointers are numbers. */
struct uprobe_multi {
	uint32_t program, target, attach_type, flags;
	uint64_t path, offsets, semaphores, cookies;
	uint32_t count, how, pid;
	uint32_t rest;		/* the kernel refuses any byte behind `pid` that is not 0: no padding */
};

/* The link's descriptor, or -errno. */
int uprobe_multi_link(struct uprobe_multi *multi);

/* Whether the kernel has such links, and lets us make them. */
bool uprobe_multi_is_here(void);

#endif
