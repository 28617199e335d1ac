/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * tracepoint: finds the kernel's tracepoints by name, since few are exported, and attaches
 * consumers to those that their plan needs.
 */
#ifndef RT_TRACEPOINT_H
#define RT_TRACEPOINT_H

#include <linux/types.h>

#include "kmod/uapi/ringtail_ioctl.h"

struct rt_consumer;
struct rt_plan;
struct tracepoint;

struct rt_probe_range {
	u32 first, end;
};

/*
 * One function on one tracepoint, called with the consumer as its data. Each table of them has a
 * function that holds their types to those of this kernel, by check_trace_callback_type_*().
 */
struct rt_hook {
	const char *tracepoint_name;
	void *function;
	struct rt_probe_range serves[2];
	bool needed;			/* the module is of no use without it */
	struct tracepoint *tracepoint;	/* NULL: this kernel has none of that name */
};

/* -ENOENT, said in the log, where a needed tracepoint is not there. */
int rt_tracepoint_init(void);

/* Whether some hook serves the probe. */
bool rt_tracepoint_serves(u32 probe);

/* Brings what is attached to what the plan wants; NULL: nothing. Under the consumer's lock. */
int rt_tracepoint_update(struct rt_consumer *consumer, const struct rt_plan *plan);

#endif
