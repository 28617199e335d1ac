/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * move: threads go to another cgroup, so every ring must be told again who they are.
 *
 * One tracepoint for each move, rather than a look at the cgroup for each event: events are many and
 * moves are few. A child that is born in another cgroup needs none: nobody has told of it yet.
 */
#ifndef RINGTAIL_BPF_MOVE_H
#define RINGTAIL_BPF_MOVE_H

#include "thread.bpf.h"

#define MOVE_THREADS_MAX	(1u << 16)	/* of one process; more keep their cgroup's old name */

struct move {
	__u64 head;		/* of the list, in the signal_struct */
	__u64 node;		/* of the thread that is next */
};

/* One thread of a process, by its place in the list. 1: it was the last. */
static long move_thread(__u32 i, struct move *move)
{
	__u32 offset = bpf_core_field_offset(struct task_struct, thread_node);
	struct task_struct *task = (void *)(move->node - offset);
	struct list_head *node = (void *)move->node;
	struct bpf_thread *slot;

	if (!move->node || move->node == move->head)
		return 1;
	slot = thread_slot(BPF_CORE_READ(task, pid));
	if (slot->owner == (__u64)task)
		thread_make_unknown(slot);
	move->node = (__u64)BPF_CORE_READ(node, next);
	return 0;
}

SEC("tp_btf/cgroup_attach_task")
int cgroup_attach_task(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[2];
	struct bpf_thread *thread = thread_of(task, THREAD_CONTEXT_LOCKED);
	struct signal_struct *signal = BPF_CORE_READ(task, signal);
	struct move move = {
		.head = (__u64)signal + bpf_core_field_offset(struct signal_struct, thread_head),
	};

	if (thread)
		thread_make_unknown(thread);
	if (!(ctx[3] & 0xff))
		return 0;
	move.node = (__u64)BPF_CORE_READ(signal, thread_head.next);
	bpf_loop(MOVE_THREADS_MAX, move_thread, &move, 0);
	/* Those without a slot can not be found by name: all of them are told again. */
	__sync_fetch_and_add(&reader, 1);
	return 0;
}

#endif
