// SPDX-License-Identifier: GPL-2.0-only
/*
 * ring_walk: see ring_walk.h. The bytes are the kernel's own, but a walk is bounded all the same.
 */
#include "ring_walk.h"

#include <linux/errno.h>
#include <linux/sched.h>

#include "ring.h"

void rt_view_of_ring(const struct rt_ring *ring, struct rt_view *view)
{
	u64 subbuf_mask = ring->subbuf_bytes - 1;
	u64 end = smp_load_acquire(&ring->page->producer_pos);
	u64 start = READ_ONCE(ring->page->consumer_pos_seen);

	/*
	 * The oldest sub-buffer that is there whole: the producer's own is complete in its next lap
	 * only, and at a border it is about to enter the next.
	 */
	if (ring->policy == RT_POLICY_OVERWRITE) {
		u64 whole = (end + subbuf_mask) & ~subbuf_mask;

		start = whole > ring->size_bytes ? whole - ring->size_bytes : 0;
	}
	*view = (struct rt_view){
		.data = ring->data,
		.size_bytes = ring->size_bytes,
		.subbuf_bytes = ring->subbuf_bytes,
		.key = ring->key,
		.start = max(start, ring->floor),
		.end = end,
	};
}

enum rt_walk rt_walk(const struct rt_view *view, u64 pos, u32 *bytes)
{
	u64 left = view->subbuf_bytes - (pos & (view->subbuf_bytes - 1));
	u64 commit;

	if (pos >= view->end)
		return RT_WALK_END;
	/* Pairs with the writer's release: the rest of the record is there. */
	commit = smp_load_acquire(&rt_view_at(view, pos)->commit);
	if ((commit & RT_TAG_MASK) != rt_record_tag(pos, view->key))
		return RT_WALK_END;
	*bytes = rt_commit_words(commit) * 8;
	if (!*bytes || *bytes > left)
		return RT_WALK_END;
	switch (rt_commit_probe(commit)) {
	case RT_PROBE_PAD:
	case RT_PROBE_SUBBUF:
		return RT_WALK_OWN;
	default:
		return *bytes < RT_RECORD_HEADER_BYTES ? RT_WALK_END : RT_WALK_RECORD;
	}
}

static u64 count_records(const struct rt_view *view, u64 pos, u64 end)
{
	u64 count = 0;
	u32 bytes;

	while (pos < end) {
		enum rt_walk walk = rt_walk(view, pos, &bytes);

		if (walk == RT_WALK_END)
			break;
		count += walk == RT_WALK_RECORD;
		pos += bytes;
	}
	return count;
}

/* The index-th record at or after pos. */
static int walk_on(const struct rt_view *view, u64 index, u64 *pos, u32 *bytes)
{
	for (;;) {
		switch (rt_walk(view, *pos, bytes)) {
		case RT_WALK_END:
			return -ENOENT;
		case RT_WALK_RECORD:
			if (!index--)
				return 0;
			break;
		case RT_WALK_OWN:
			break;
		}
		*pos += *bytes;
		if ((*pos & (view->subbuf_bytes - 1)) == 0)
			cond_resched();
	}
}

int rt_walk_oldest(const struct rt_view *view, u64 index, u64 *pos, u32 *bytes)
{
	*pos = view->start;
	return walk_on(view, index, pos, bytes);
}

/* Sub-buffer by sub-buffer back: a record does not say where the one before it began. */
int rt_walk_newest(const struct rt_view *view, u64 index, u64 *pos, u32 *bytes)
{
	u64 end = view->end;

	while (end > view->start) {
		u64 start = max((end - 1) & ~(view->subbuf_bytes - 1), view->start);
		u64 count = count_records(view, start, end);

		if (index < count) {
			*pos = start;
			return walk_on(view, count - 1 - index, pos, bytes);
		}
		index -= count;
		end = start;
		cond_resched();
	}
	return -ENOENT;
}
