/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * sched: the scheduler's tracepoints, each with a small producer of its own, and what keeps the
 * memory of threads true: renames, execs and exits.
 */
#ifndef RINGTAIL_BPF_SCHED_H
#define RINGTAIL_BPF_SCHED_H

#include "attach.bpf.h"
#include "event.bpf.h"
#include "syscall.bpf.h"

/* Whether sched_process_exit says if it is the last of its process, or we must look. */
inlined bool sched_exit_says_group_dead(void)
{
	return bpf_core_type_exists(btf_trace_sched_process_exit);
}

inlined bool sched_wants(const struct bpf_request *request, enum rt_probe probe)
{
	return request->sched & REQUEST_SCHED(probe);
}

inlined bool sched_begin(struct event *event, enum rt_probe probe)
{
	return event_begin(event, event->request->sched_unfiltered & REQUEST_SCHED(probe));
}

/* Reserves a record of `words` payload words and whatever stacks are asked for behind them. */
inlined bool sched_reserve(void *ctx, struct event *event, __u32 words, __u32 program,
			   struct reservation *place, __u32 *bytes)
{
	struct attach *attach = NULL;

	*bytes = RT_RECORD_HEADER_BYTES + 8 * words;
	if (unlikely(event->request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK))) {
		attach = attach_begin(program);
		attach_stacks(ctx, attach, event->request->flags);
	}
	if (attach)
		*bytes += attach->bytes;
	if (!ring_reserve(&event->ring, *bytes, event->task->pid, place))
		return false;
	if (attach)
		attach_copy(attach, place->record->payload + words);
	return true;
}

inlined __u64 sched_state(bool preempt, struct task_struct *prev, __u32 prev_state)
{
	if (preempt)
		return TASK_REPORT_MAX;
	if ((prev_state & TASK_IDLE) == TASK_IDLE)
		return TASK_REPORT_IDLE;
	return (prev_state | prev->exit_state) & TASK_REPORT;
}

/*
 * A switch from one of the daemon's threads to another's begins the other's time on the CPU: the event is the
 * other's. It feeds no loop, because one follows on the same CPU that is recorded in any case: the one that ends
 * that time.
 */
inlined bool sched_begin_switch(struct event *event, const struct task_struct *next)
{
	bool unfiltered = event->request->sched_unfiltered & REQUEST_SCHED(RT_PROBE_SCHED_SWITCH);

	return event_begin(event, unfiltered) ||
	       (filter_passes_other(event->request, next, unfiltered) && ring_of_this_cpu(&event->ring));
}

SEC("tp_btf/sched_switch")
int sched_switch(__u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	struct event event = { .request = request_of(read_once(generation)), .task = prev };
	struct bpf_thread *next_thread;
	struct reservation place;
	bool prev_past, next_past;
	__u32 bytes;

	if (!sched_wants(event.request, RT_PROBE_SCHED_SWITCH))
		return 0;
	event.thread = thread_of(prev, THREAD_CONTEXT_LOCKED);
	if (!sched_begin_switch(&event, next))
		return 0;
	next_thread = thread_of(next, THREAD_CONTEXT_LOCKED);
	prev_past = thread_is_past(prev, event.thread);
	next_past = thread_is_past(next, next_thread);
	if (!event_names(&event, prev, event.thread) || !event_names(&event, next, next_thread))
		return 0;
	if (sched_reserve(ctx, &event, 4, ATTACH_SWITCH, &place, &bytes)) {
		place.record->payload[0] = (__s64)prev->prio;
		place.record->payload[1] = sched_state(ctx[0] & 0xff, prev, ctx[3]);
		place.record->payload[2] = next->pid;
		place.record->payload[3] = (__s64)next->prio;
		ring_commit(&event.ring, &place, bytes, RT_PROBE_SCHED_SWITCH);
	}
	thread_after_exit(prev, prev_past);
	thread_after_exit(next, next_past);
	return 0;
}

inlined int sched_wake(__u64 *ctx, __u32 program)
{
	struct task_struct *target = (void *)ctx[0];
	struct event event = { .request = request_of(read_once(generation)) };
	struct bpf_thread *target_thread;
	struct reservation place;
	bool waker_past, target_past;
	__u32 bytes;

	if (!sched_wants(event.request, RT_PROBE_SCHED_WAKEUP))
		return 0;
	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, THREAD_CONTEXT_LOCKED);
	if (!sched_begin(&event, RT_PROBE_SCHED_WAKEUP))
		return 0;
	target_thread = thread_of(target, THREAD_CONTEXT_LOCKED);
	waker_past = thread_is_past(event.task, event.thread);
	target_past = thread_is_past(target, target_thread);
	if (!event_names(&event, event.task, event.thread) ||
	    !event_names(&event, target, target_thread))
		return 0;
	if (sched_reserve(ctx, &event, 3, program, &place, &bytes)) {
		place.record->payload[0] = target->pid;
		place.record->payload[1] = (__s64)target->prio;
		place.record->payload[2] = target->thread_info.cpu;
		ring_commit(&event.ring, &place, bytes, RT_PROBE_SCHED_WAKEUP);
	}
	thread_after_exit(event.task, waker_past);
	thread_after_exit(target, target_past);
	return 0;
}

SEC("tp_btf/sched_wakeup")
int sched_wakeup(__u64 *ctx)
{
	return sched_wake(ctx, ATTACH_WAKEUP);
}

SEC("tp_btf/sched_wakeup_new")
int sched_wakeup_new(__u64 *ctx)
{
	return sched_wake(ctx, ATTACH_WAKEUP_NEW);
}

SEC("tp_btf/sched_process_fork")
int sched_process_fork(__u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	struct event event = { .request = request_of(read_once(generation)), .task = parent };
	struct bpf_thread *child_thread;
	struct reservation place;
	__u32 bytes;

	if (!sched_wants(event.request, RT_PROBE_SCHED_FORK))
		return 0;
	event.thread = thread_of(parent, THREAD_CONTEXT_TASK);
	if (!sched_begin(&event, RT_PROBE_SCHED_FORK))
		return 0;
	child_thread = thread_of(child, THREAD_CONTEXT_TASK);
	if (!event_names(&event, parent, event.thread) ||
	    !event_names(&event, child, child_thread) ||
	    !sched_reserve(ctx, &event, 2, ATTACH_FORK, &place, &bytes))
		return 0;
	place.record->payload[0] = child->pid;
	place.record->payload[1] = child->tgid;
	ring_commit(&event.ring, &place, bytes, RT_PROBE_SCHED_FORK);
	return 0;
}

/* The filename is kernel memory here, so this event has it whatever the flags. */
inlined void sched_write_exec(__u64 *ctx, struct event *event, __u32 old_tid)
{
	__u32 bytes = RT_RECORD_HEADER_BYTES + 2 * 8;
	struct linux_binprm *program = (void *)ctx[2];
	struct attach *attach = attach_begin(ATTACH_EXEC);
	struct reservation place;

	if (attach) {
		attach_string(attach, 1, program->filename, ATTACH_KERNEL);
		attach_stacks(ctx, attach, event->request->flags);
		bytes += attach->bytes;
	}
	if (!ring_reserve(&event->ring, bytes, event->task->pid, &place))
		return;
	place.record->payload[0] = old_tid;
	place.record->payload[1] = 0;
	if (attach)
		attach_copy(attach, place.record->payload + 2);
	ring_commit(&event->ring, &place, bytes, RT_PROBE_SCHED_EXEC);
}

/*
 * Another program, perhaps another user, and for a thread that was not its group's first another
 * tid: the entry of this execve moves to the slot of the new one.
 */
SEC("tp_btf/sched_process_exec")
int sched_process_exec(__u64 *ctx)
{
	struct event event = {
		.request = request_of(read_once(generation)),
		.task = (void *)ctx[0],
	};
	__u32 old_tid = ctx[1];
	struct bpf_thread *old = thread_slot(old_tid);

	syscall_exec_succeeds(event.task, (struct linux_binprm *)ctx[2]);
	event.thread = thread_of(event.task, THREAD_CONTEXT_TASK);
	if (event.thread) {
		if (old != event.thread && old->owner == (__u64)event.task) {
			event.thread->entry_ns = old->entry_ns;
			event.thread->entry_word = old->entry_word;
			event.thread->entry_generation = old->entry_generation;
			thread_free_slot(old);
		}
		event.thread->passed = 0;
		event.thread->refused = 0;
		thread_make_unknown(event.thread);
	}
	if (sched_wants(event.request, RT_PROBE_SCHED_EXEC) &&
	    sched_begin(&event, RT_PROBE_SCHED_EXEC) &&
	    event_names(&event, event.task, event.thread))
		sched_write_exec(ctx, &event, old_tid);
	return 0;
}

SEC("tp_btf/task_rename")
int task_rename(__u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	struct bpf_thread *thread = thread_of(task, THREAD_CONTEXT_TASK);

	if (thread)
		thread_rename(thread, (void *)ctx[1], task == bpf_get_current_task_btf());
	return 0;
}

inlined void sched_write_exit(__u64 *ctx, struct event *event)
{
	struct task_struct *task = event->task;
	struct reservation place;
	__u32 bytes;

	if (!sched_reserve(ctx, event, 6, ATTACH_EXIT, &place, &bytes))
		return;
	place.record->payload[0] = (__s64)task->prio;
	place.record->payload[1] = sched_exit_says_group_dead() ? ctx[1] & 0xff :
					task->signal->live.counter == 0;
	place.record->payload[2] = (__s64)task->exit_code;
	place.record->payload[3] = rt_exit_status(task->exit_code);
	place.record->payload[4] = rt_exit_signal(task->exit_code);
	place.record->payload[5] = rt_exit_core(task->exit_code);
	ring_commit(&event->ring, &place, bytes, RT_PROBE_SCHED_EXIT);
}

SEC("tp_btf/sched_process_exit")
int sched_process_exit(__u64 *ctx)
{
	struct event event = {
		.request = request_of(read_once(generation)),
		.task = (void *)ctx[0],
	};
	bool told = false;

	event.thread = thread_of(event.task, THREAD_CONTEXT_TASK);
	if (sched_wants(event.request, RT_PROBE_SCHED_EXIT) &&
	    sched_begin(&event, RT_PROBE_SCHED_EXIT) &&
	    event_names(&event, event.task, event.thread)) {
		sched_write_exit(ctx, &event);
		told = true;
	}
	/* Forgotten first: an interrupt between the two must introduce the thread again. */
	if (event.thread) {
		told = thread_is_marked(event.thread, bpf_get_smp_processor_id());
		thread_forget(event.task);
	}
	if (told)
		thread_write_exited(event.task);
	return 0;
}

#endif
