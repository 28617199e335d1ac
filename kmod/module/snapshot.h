/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * snapshot: a copy of what all rings of a consumer hold now, to be read at leisure while recording
 * goes on. Under the consumer's lock, in process context.
 */
#ifndef RT_SNAPSHOT_H
#define RT_SNAPSHOT_H

#include <linux/types.h>

#include "ring_walk.h"

struct rt_consumer;
struct rt_snapshot;

/* An error pointer where memory is short; NULL is safe to free. */
struct rt_snapshot *rt_snapshot_take(struct rt_consumer *consumer);
void rt_snapshot_free(struct rt_snapshot *snapshot);

/* One CPU's part; -ENXIO if it had no ring. Borrowed. */
int rt_snapshot_view(const struct rt_snapshot *snapshot, u32 cpu, struct rt_view *view);

#endif
