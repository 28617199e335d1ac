// SPDX-License-Identifier: GPL-2.0-only
/*
 * snapshot: see snapshot.h.
 *
 * The ring is copied sub-buffer by sub-buffer while its producer goes on. In RT_POLICY_OVERWRITE
 * the copy of one counts only if the producer had not come back to it by the end of the copy; what
 * it took meanwhile is missing at the old end. In the other policies nothing unread is overwritten.
 */
#include "snapshot.h"

#include <linux/cpumask.h>
#include <linux/err.h>
#include <linux/mm.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "consumer.h"

struct part {
	u8 *data;
	struct rt_view view;
};

struct rt_snapshot {
	u32 cpus;
	struct part part[];
};

static void copy(const struct rt_ring *ring, struct part *part)
{
	struct rt_view *view = &part->view;
	u64 pos, next;

	rt_view_of_ring(ring, view);
	for (pos = view->start; pos < view->end; pos = next) {
		u64 place = pos & (ring->size_bytes - 1);

		next = min((pos | (ring->subbuf_bytes - 1)) + 1, view->end);
		memcpy(part->data + place, ring->data + place, next - pos);
		/* Pairs with the producer's barrier between its swap and its new bytes. */
		smp_rmb();
		if (ring->policy == RT_POLICY_OVERWRITE &&
		    READ_ONCE(ring->page->producer_pos) > pos - (pos & (ring->subbuf_bytes - 1)) +
							  ring->size_bytes)
			view->start = next;
		cond_resched();
	}
	view->data = part->data;
}

static int take_part(const struct rt_ring *ring, struct part *part)
{
	part->data = vmalloc(ring->size_bytes);
	if (!part->data)
		return -ENOMEM;
	copy(ring, part);
	return 0;
}

struct rt_snapshot *rt_snapshot_take(struct rt_consumer *consumer)
{
	struct rt_snapshot *snapshot;
	u32 cpu;

	snapshot = kvzalloc(struct_size(snapshot, part, nr_cpu_ids), GFP_KERNEL_ACCOUNT);
	if (!snapshot)
		return ERR_PTR(-ENOMEM);
	snapshot->cpus = nr_cpu_ids;
	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);

		if (ring && take_part(ring, &snapshot->part[cpu])) {
			rt_snapshot_free(snapshot);
			return ERR_PTR(-ENOMEM);
		}
	}
	return snapshot;
}

void rt_snapshot_free(struct rt_snapshot *snapshot)
{
	u32 cpu;

	if (!snapshot)
		return;
	for (cpu = 0; cpu < snapshot->cpus; cpu++)
		vfree(snapshot->part[cpu].data);
	kvfree(snapshot);
}

int rt_snapshot_view(const struct rt_snapshot *snapshot, u32 cpu, struct rt_view *view)
{
	if (cpu >= snapshot->cpus || !snapshot->part[cpu].data)
		return -ENXIO;
	*view = snapshot->part[cpu].view;
	return 0;
}
