/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * call: the system calls that threads are in, from entry to return.
 *
 * A bounded hash of one cache line for each thread. An entry belongs to its thread alone from its
 * first call until it exits, so nothing but the claim of an entry is atomic.
 */
#ifndef RT_CALL_H
#define RT_CALL_H

#include <linux/types.h>

#include "kmod/uapi/ringtail.h"

struct task_struct;

#define RT_CALL_ARGS_KEPT 5

struct rt_call {
	struct task_struct *task;	/* only compared; NULL: free */
	u64 start_ns;
	u32 generation;			/* low half of the plan's that was in force */
	u16 nr;
	u16 open;			/* 1: it has begun and not returned */
	u64 arg[RT_CALL_ARGS_KEPT];
};

struct rt_calls;

/* `threads`: how many entries, rounded up to a power of two. NULL when out of memory. */
struct rt_calls *rt_calls_create(u32 threads);
void rt_calls_destroy(struct rt_calls *calls);
/* Forgets everything; nobody uses it now. */
void rt_calls_reset(struct rt_calls *calls);

/* The current thread's entry; NULL if it has none. Task context. */
struct rt_call *rt_call_find(struct rt_calls *calls);
/* ... or a new one; NULL where the table is too full. */
struct rt_call *rt_call_claim(struct rt_calls *calls);
/* The current thread makes no more calls. */
void rt_call_release(struct rt_calls *calls);

#endif
