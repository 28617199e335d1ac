// SPDX-License-Identifier: GPL-2.0-only
/*
 * call: see call.h. Open addressing, a bounded number of steps from an entry's home; a free entry
 * does not end a search, since threads exit in any order.
 */
#include "call.h"

#include <linux/hash.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/overflow.h>
#include <linux/sched.h>
#include <linux/slab.h>

#define STEPS_MAX 16

struct rt_calls {
	u32 bits;
	u32 entries;		/* 1 << bits */
	struct rt_call entry[] ____cacheline_aligned;
};

static_assert(sizeof(struct rt_call) == 64);

struct rt_calls *rt_calls_create(u32 threads)
{
	u32 entries = roundup_pow_of_two(max(threads, 2u * STEPS_MAX));
	struct rt_calls *calls;

	calls = kvzalloc(struct_size(calls, entry, entries), GFP_KERNEL_ACCOUNT);
	if (!calls)
		return NULL;
	calls->entries = entries;
	calls->bits = ilog2(entries);
	return calls;
}

void rt_calls_destroy(struct rt_calls *calls)
{
	kvfree(calls);
}

void rt_calls_reset(struct rt_calls *calls)
{
	memset(calls->entry, 0, calls->entries * sizeof(calls->entry[0]));
}

static struct rt_call *entry_at(struct rt_calls *calls, u32 home, u32 step)
{
	return &calls->entry[(home + step) & (calls->entries - 1)];
}

static u32 home_of(const struct rt_calls *calls)
{
	return hash_ptr(current, calls->bits);
}

struct rt_call *rt_call_find(struct rt_calls *calls)
{
	u32 step, home = home_of(calls);

	for (step = 0; step < STEPS_MAX; step++) {
		struct rt_call *call = entry_at(calls, home, step);

		if (READ_ONCE(call->task) == current)
			return call;
	}
	return NULL;
}

struct rt_call *rt_call_claim(struct rt_calls *calls)
{
	struct rt_call *call = rt_call_find(calls);
	u32 step, home;

	if (likely(call))
		return call;
	home = home_of(calls);
	for (step = 0; step < STEPS_MAX; step++) {
		call = entry_at(calls, home, step);
		/* Pairs with the release of the thread that had it: its stores come before ours. */
		if (!READ_ONCE(call->task) && !cmpxchg(&call->task, NULL, current))
			return call;
	}
	return NULL;
}

void rt_call_release(struct rt_calls *calls)
{
	struct rt_call *call = rt_call_find(calls);

	if (!call)
		return;
	call->open = 0;
	smp_store_release(&call->task, NULL);
}
