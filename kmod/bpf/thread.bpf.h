/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * thread: what is remembered of each thread, and its introduction on each ring.
 *
 * A thread takes the slot at its tid's low bits with its first event and keeps it until
 * sched_process_exit; where another has that slot, it gets task storage. A thread that is past its
 * exit takes neither, so nothing outlives its thread: its last events (it wakes its parent, it is
 * switched away from) introduce it, happen, and take it off again. What ends while no program is
 * attached is cleared by the daemon before it attaches again.
 */
#ifndef RINGTAIL_BPF_THREAD_H
#define RINGTAIL_BPF_THREAD_H

#include "context.bpf.h"
#include "kernel.bpf.h"
#include "ring.bpf.h"
#include "kmod/bpf/request.h"

struct bpf_thread threads[THREAD_SLOTS] __attribute__((aligned(64)));

/* The idle threads all have tid 0; each CPU remembers its own. */
struct bpf_thread idle_threads[RT_CPUS_MAX] __attribute__((aligned(64)));

/* Counts the times that programs were attached after none was; older task storage is void. */
__u32 epoch;

/*
 * Counts the runs of the daemon that have gone on with these programs: each must be told again who
 * the threads are. For those with a slot it sees to that itself. Threads that go to another cgroup
 * count, too: of those without a slot, nobody knows which they are (move.bpf.h).
 */
__u32 reader;

const volatile __u32 cpu_words = 1;	/* of bpf_thread.known that are in use */

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct bpf_thread);
} threads_without_slot SEC(".maps");

/*
 * Making task storage allocates. Before 6.4 that must not happen under a run queue's lock, where
 * the scheduler's tracepoints are: a thread without a slot then goes unremembered there, which costs
 * an introduction for each event.
 */
inlined bool thread_storage_is_lock_safe(void)
{
	return bpf_core_field_exists(struct bpf_local_storage_map, selem_ma) ||
	       bpf_core_field_exists(struct bpf_local_storage_map, use_kmalloc_nolock);
}

enum thread_context {
	THREAD_CONTEXT_TASK,
	THREAD_CONTEXT_LOCKED,	/* under a run queue's lock */
};

inlined struct bpf_thread *thread_slot(__u32 tid)
{
	return &threads[tid & (THREAD_SLOTS - 1)];
}

/*
 * From here on every ring must be told again who the thread is. Partner: thread_introduce(), which reads
 * `known` before it reads who the thread is: what has changed is there when the version is.
 */
inlined void thread_make_unknown(struct bpf_thread *thread)
{
	ordered();
	for (__u32 i = 0; i < cpu_words && i < RT_CPUS_MAX / THREAD_KNOWN_CPUS; i++) {
		__sync_fetch_and_add(&thread->known[i], 1ULL << 32);
		__sync_fetch_and_and(&thread->known[i], ~0ULL << 32);
	}
}

/*
 * Whoever has storage keeps it: a slot that becomes free must not part a thread from what it knows.
 * Two CPUs that meet a thread for the first time at once, one when its slot was taken and one when
 * it had become free, may still give it both; then the slot counts, and a call that was begun in the
 * storage ends as `unpaired`.
 */
outlined struct bpf_thread *thread_without_slot(struct task_struct *task,
						enum thread_context context)
{
	struct bpf_thread *slot = thread_slot(task->pid), *thread;

	if (!task->pid)
		return &idle_threads[bpf_get_smp_processor_id() & (RT_CPUS_MAX - 1)];
	thread = bpf_task_storage_get(&threads_without_slot, task, 0, 0);
	if (thread && thread->epoch == epoch) {
		if (unlikely(thread->reader != reader)) {
			thread_make_unknown(thread);
			thread->reader = reader;
		}
		return thread;
	}
	if (task->flags & PF_EXITING)
		return NULL;
	if (!read_once(slot->owner)) {
		__u64 owner = __sync_val_compare_and_swap(&slot->owner, 0, (__u64)task);

		if (!owner || owner == (__u64)task)
			return slot;
	}
	if (context == THREAD_CONTEXT_TASK || thread_storage_is_lock_safe())
		thread = bpf_task_storage_get(&threads_without_slot, task, 0,
					      BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (thread && thread->epoch != epoch) {
		__builtin_memset(thread, 0, sizeof(*thread));
		thread->owner = (__u64)task;
		thread->epoch = epoch;
		thread->reader = reader;
	}
	return thread;
}

/* NULL: nothing is remembered of it. */
inlined struct bpf_thread *thread_of(struct task_struct *task, enum thread_context context)
{
	struct bpf_thread *slot = thread_slot(task->pid);

	if (likely(slot->owner == (__u64)task))
		return slot;
	return thread_without_slot(task, context);
}

/* The owner goes last, for whoever takes the slot next. */
inlined void thread_free_slot(struct bpf_thread *slot)
{
	slot->entry_generation = 0;
	slot->passed = 0;
	slot->refused = 0;
	slot->renamed = 0;
	thread_make_unknown(slot);
	__sync_lock_test_and_set(&slot->owner, 0);
}

/* At its exit. */
inlined void thread_forget(struct task_struct *task)
{
	struct bpf_thread *slot = thread_slot(task->pid);

	if (slot->owner == (__u64)task)
		thread_free_slot(slot);
	bpf_task_storage_delete(&threads_without_slot, task);
}

/* The name as it is, or is about to be, padded with zeros. */
inlined void thread_comm(const struct bpf_thread *thread, struct task_struct *task, char *comm)
{
	if (thread && thread->renamed) {
		__builtin_memcpy(comm, thread->comm, RT_COMM_BYTES);
		return;
	}
	__builtin_memset(comm, 0, RT_COMM_BYTES);
	bpf_probe_read_kernel_str(comm, RT_COMM_BYTES, task->comm);
}

/*
 * A thread's name is about to change: who knew it must be told again. A name that another thread
 * gives is not kept, because the slot may not be its any more by then; an event between here and
 * the kernel's own change, some instructions later, would still tell the old one.
 */
inlined void thread_rename(struct bpf_thread *thread, const char *name, bool by_itself)
{
	char comm[RT_COMM_BYTES] = {};

	if (by_itself) {
		bpf_probe_read_kernel_str(comm, sizeof(comm), name);
		__builtin_memcpy(thread->comm, comm, sizeof(comm));
		ordered();
	}
	write_once(thread->renamed, by_itself);
	write_once(thread->passed, 0);
	write_once(thread->refused, 0);
	thread_make_unknown(thread);
}

/* Tells this CPU's ring the texts of a thread. False: there was no room. */
inlined bool thread_tell(struct context *context)
{
	__u32 exe = context->exe ? text_tell(context->exe, reader) : TEXT_TOLD;
	__u32 cgroup = context->cgroup ? text_tell(context->cgroup, reader) : TEXT_TOLD;

	if (exe == TEXT_GONE)
		context->exe = 0;
	if (cgroup == TEXT_GONE)
		context->cgroup = 0;
	context->bare |= exe == TEXT_GONE || cgroup == TEXT_GONE;
	return exe != TEXT_LOST && cgroup != TEXT_LOST;
}

/*
 * Writes RT_PROBE_THREAD on this CPU's ring. Pointers are followed by helper: for each that is
 * followed directly, the verifier looks for a type through the whole BTF of the kernel.
 */
verified_once bool thread_write(const struct context *context, const struct bpf_thread *thread,
				__u32 flags)
{
	const __u32 bytes = RT_RECORD_HEADER_BYTES + sizeof(struct rt_thread);
	struct task_struct *task;
	char comm[RT_COMM_BYTES];
	struct reservation place;
	struct rt_thread *who;
	struct ring ring;

	if (!context || !ring_of_this_cpu(&ring))
		return false;
	task = (struct task_struct *)context->task;
	thread_comm(thread, task, comm);
	place.pos = ring_reserve_slowly(bytes, BPF_CORE_READ(task, pid));
	if (place.pos == RING_NO_PLACE)
		return false;
	place.record = ring_place(&ring, place.pos);
	place.end = place.pos + bytes;
	who = (void *)place.record->payload;
	who->pid = BPF_CORE_READ(task, tgid);
	who->ppid = BPF_CORE_READ(task, real_parent, tgid);
	who->uid = BPF_CORE_READ(task, cred, uid.val);
	who->flags = flags | (BPF_CORE_READ(task, flags) & PF_KTHREAD ? RT_THREAD_KERNEL : 0) |
		     (context->bare ? RT_THREAD_BARE : 0);
	who->start_ns = BPF_CORE_READ(task, start_time);
	__builtin_memcpy(who->comm, comm, sizeof(comm));
	who->cgroup_id = BPF_CORE_READ(task, cgroups, dfl_cgrp, kn, id);
	who->cgroup = context->cgroup;
	who->exe = context->exe;
	ring_commit(&ring, &place, bytes, RT_PROBE_THREAD);
	return true;
}

/* Its last record on this ring. */
inlined void thread_write_exited(struct task_struct *task)
{
	struct context nothing = { .task = (__u64)task };

	thread_write(&nothing, NULL, RT_THREAD_EXITED);
}

/*
 * Finds what a thread's texts are and tells them to this CPU's ring. One that is made may push out
 * another that was there: the second time both are among the newest. False: there was no room.
 */
inlined bool thread_tell_context(const struct bpf_thread *slot, struct bpf_thread *thread,
				 struct context *context)
{
	for (int tries = 0; tries < 2; tries++) {
		context_find(slot, thread, context);
		if (!thread_tell(context))
			return false;
		if (likely(!context->bare))
			return true;
		if (thread)
			write_once(thread->found, 0);
	}
	return true;
}

/*
 * Its slot may be freed and taken meanwhile: bpf_thread has the reason why this is safe. Who lacks
 * what another try may find is introduced with the next event, too.
 */
verified_once bool thread_introduce(struct context *context, struct bpf_thread *thread)
{
	__u32 cpu = bpf_get_smp_processor_id() & (RT_CPUS_MAX - 1), tid;
	__u64 *word = NULL, before = 0;
	struct task_struct *task;

	if (!context)
		return false;
	task = (struct task_struct *)context->task;
	tid = BPF_CORE_READ(task, pid);
	if (thread) {
		word = &thread->known[cpu / THREAD_KNOWN_CPUS];
		before = read_once(*word);
		ordered();
		if (tid && read_once(thread->owner) != (__u64)task)
			thread = NULL;
	}
	if (!thread_tell_context(thread_slot(tid), thread, context) ||
	    !thread_write(context, thread, 0))
		return false;
	if (thread && !context->bare)
		__sync_val_compare_and_swap(word, before,
					    before | 1ULL << (cpu % THREAD_KNOWN_CPUS));
	return true;
}

inlined bool thread_is_marked(const struct bpf_thread *thread, __u32 cpu)
{
	cpu &= RT_CPUS_MAX - 1;
	return thread->known[cpu / THREAD_KNOWN_CPUS] & 1ULL << (cpu % THREAD_KNOWN_CPUS);
}

/* Whether this ring's reader knows the thread, if need be from now on. */
inlined bool thread_is_known(struct task_struct *task, struct bpf_thread *thread, __u32 cpu)
{
	struct context context;

	if (likely(thread && thread_is_marked(thread, cpu)))
		return true;
	context = (struct context){ .task = (__u64)task };
	return thread_introduce(&context, thread);
}

/*
 * Whether a thread that nothing remembers is past its exit. Asked before its event is written, so that
 * the verifier need not follow each kind of memory that a thread may have through the writing.
 */
inlined bool thread_is_past(const struct task_struct *task, const struct bpf_thread *thread)
{
	return unlikely(!thread && task->flags & PF_EXITING);
}

/* After the event of such a thread. */
inlined void thread_after_exit(struct task_struct *task, bool is_past)
{
	if (unlikely(is_past))
		thread_write_exited(task);
}

#endif
