/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ring_walk: reads a ring's records inside the kernel: of the live ring for read(2), of one that
 * stands still for RT_IOC_READ. In process context.
 */
#ifndef RT_RING_WALK_H
#define RT_RING_WALK_H

#include <linux/types.h>

#include "kmod/uapi/ringtail.h"

struct rt_ring;

/* The bytes of a ring, live or copied. */
struct rt_view {
	const u8 *data;
	u64 size_bytes;
	u64 subbuf_bytes;
	u64 key;
	u64 start;		/* the oldest record or, RT_POLICY_OVERWRITE, its sub-buffer */
	u64 end;		/* the end of what is reserved */
};

/* The view of a ring whose producer may go on writing: whatever it has not overwritten. */
void rt_view_of_ring(const struct rt_ring *ring, struct rt_view *view);

enum rt_walk {
	RT_WALK_END,		/* nothing there, or not committed yet */
	RT_WALK_RECORD,
	RT_WALK_OWN,		/* a filler or a sub-buffer's header */
};

/*
 * What lies at pos, and its length; the length of a record is not 0 and not beyond its sub-buffer.
 */
enum rt_walk rt_walk(const struct rt_view *view, u64 pos, u32 *bytes);

static inline const struct rt_record *rt_view_at(const struct rt_view *view, u64 pos)
{
	return (const struct rt_record *)(view->data + (pos & (view->size_bytes - 1)));
}

/*
 * The index-th record from the newest back, or from the oldest on: its position, or -ENOENT. The
 * view stands still.
 */
int rt_walk_newest(const struct rt_view *view, u64 index, u64 *pos, u32 *bytes);
int rt_walk_oldest(const struct rt_view *view, u64 index, u64 *pos, u32 *bytes);

#endif
