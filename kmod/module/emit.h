/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * emit: one event, from the decision to record it to its commit. What all probes are made of.
 *
 *	if (!rt_emit_begin(&emit, consumer, RT_PROBE_..., fields, NULL))
 *		return;
 *	emit.payload[0] = ...;		every one of the fields
 *	rt_emit_end(&emit);
 *
 * Any context. Preemption is off from begin to end.
 */
#ifndef RT_EMIT_H
#define RT_EMIT_H

#include <linux/types.h>

#include "attach.h"
#include "ring.h"

struct rt_consumer;
struct task_struct;

struct rt_emit {
	u64 *payload;
	u64 time_ns;		/* of the record */
	struct rt_ring *ring;
	struct rt_reservation reservation;
	u32 probe;
};

/*
 * True if the event is to be recorded and has a place. `extra`: texts and registers for
 * attachments, or NULL. False also where it was lost, which has been counted.
 */
static inline bool rt_emit_begin(struct rt_emit *emit, struct rt_consumer *consumer, u32 probe,
				 u32 fields, const struct rt_attach_extra *extra);
/* `next`: who the current thread makes way for. The event is next's where the current thread is excluded; or NULL. */
bool rt_emit_begin_for(struct rt_emit *emit, struct rt_consumer *consumer, u32 probe, u32 fields,
		       const struct rt_attach_extra *extra, const struct task_struct *next);
void rt_emit_end(struct rt_emit *emit);

/* Whether the current context's event would be recorded, if there were room. */
bool rt_emit_wants(struct rt_consumer *consumer, u32 probe);

/*
 * Introduces a thread that the next event names, which is begun with the same `next`. It may be lost, and so may
 * what is said about the thread: no event of its own is concerned.
 */
void rt_emit_thread(struct rt_consumer *consumer, u32 probe, struct task_struct *task,
		    const struct task_struct *next);

/* Tells this CPU's reader, if it knows the thread, that it is gone. */
void rt_emit_thread_exited(struct rt_consumer *consumer, struct task_struct *task);

static inline bool rt_emit_begin(struct rt_emit *emit, struct rt_consumer *consumer, u32 probe,
				 u32 fields, const struct rt_attach_extra *extra)
{
	return rt_emit_begin_for(emit, consumer, probe, fields, extra, NULL);
}

#endif
