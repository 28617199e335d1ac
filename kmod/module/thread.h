/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * thread: which threads a ring has introduced already.
 *
 * A small direct-mapped cache in each ring: what is not in it is introduced again, which costs a
 * record and harms nothing. Used on the ring's CPU with preemption off, in any context.
 */
#ifndef RT_THREAD_H
#define RT_THREAD_H

#include <linux/types.h>

#include "kmod/uapi/ringtail.h"
#include "ring.h"

struct task_struct;

#define RT_THREAD_WORDS		((RT_RECORD_HEADER_BYTES + sizeof(struct rt_thread)) / 8)

/* NULL when out of memory. */
struct rt_thread_cache *rt_thread_cache_create(int node);
void rt_thread_cache_destroy(struct rt_thread_cache *cache);

/*
 * Sees to it that `task` was introduced on the ring before what is recorded next. `room_words`: how
 * long that will be, so that both come into one sub-buffer. RT_RESERVE_OK, with *subbuf what to ask
 * of rt_ring_reserve(); or why the record must be given up.
 */
enum rt_reserve rt_thread_introduce(struct rt_ring *ring, struct task_struct *task,
				    u32 room_words, u64 *subbuf);

/*
 * Writes that a thread which the ring has introduced exits. If it does more, it is introduced anew.
 */
void rt_thread_say_exited(struct rt_ring *ring, struct task_struct *task);

#endif
