/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * stuck: which threads are in which system call now: an iterator over all tasks, which the daemon
 * reads when a client asks (daemon/source/bpf_stuck.c). It writes one struct stuck_thread for each
 * thread that is in a call, and changes nothing of what is remembered of threads.
 *
 * Two places say that a thread is in a call: its registers, as long as it does not run, and its slot,
 * if the call was recorded from its beginning. Only the slot says since when.
 */
#ifndef RINGTAIL_BPF_STUCK_H
#define RINGTAIL_BPF_STUCK_H

#include "filter.bpf.h"
#include "kernel.bpf.h"
#include "thread.bpf.h"

/* The daemon's question: leave out calls that are known to be younger. */
__u64 stuck_longer_than_ns;

/* One reader at a time: the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stuck_thread);
} stuck_threads SEC(".maps");

struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} __attribute__((preserve_access_index));

struct stuck_iter {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

/* As thread_of(), but takes no slot and makes no storage for a thread that has none. */
inlined const struct bpf_thread *stuck_remembered(struct task_struct *task)
{
	struct bpf_thread *thread = thread_slot(task->pid);

	if (thread->owner == (__u64)task)
		return thread;
	thread = bpf_task_storage_get(&threads_without_slot, task, 0, 0);
	return thread && thread->epoch == epoch ? thread : NULL;
}

/* Whether calls of that number are recorded of this thread, from their beginning to their return. */
inlined bool stuck_is_recorded(const struct bpf_request *request, __u32 word,
			       const struct bpf_thread *thread)
{
	if (!(word & SYSCALL_WANTS_CALL) || word & SYSCALL_NEVER_RETURNS)
		return false;
	return !request->clauses || word & SYSCALL_UNFILTERED ||
	       (thread && thread->passed == request->generation);
}

/* Fills in the call. False: it is in none, as far as anybody can say, or in one that is young. */
inlined bool stuck_find_call(struct stuck_thread *found, struct task_struct *task, __u64 nr)
{
	__u32 now = read_once(generation);
	const struct bpf_request *request = request_of(now);
	const struct bpf_thread *thread = stuck_remembered(task);
	__u64 place = nr < RT_SYSCALLS_MAX && request_syscall_word(now, nr) & SYSCALL_IS_KNOWN ?
			      nr : RT_SYSCALL_UNKNOWN;
	bool runs = read_once(task->on_cpu);
	__u64 entry_word;

	found->entry_ns = 0;
	if (stuck_is_recorded(request, request_syscall_word(now, place), thread))
		found->flags |= STUCK_IS_RECORDED;
	if (thread) {
		found->entry_ns = read_once(thread->entry_ns);
		entry_word = read_once(thread->entry_word);
		if (read_once(thread->entry_generation) && !(entry_word & SYSCALL_IS_COUNTED) &&
		    thread->entry_generation >= request->syscalls_since &&
		    (entry_word >> 32 == place || (__u32)entry_word & SYSCALL_SAVES_ARGS) &&
		    read_once(thread->entry_ns) == found->entry_ns)
			found->flags |= STUCK_SINCE_ENTRY;
	}
	if (!(found->flags & STUCK_SINCE_ENTRY))
		return !runs && task->__state;
	return bpf_ktime_get_ns() - found->entry_ns >= stuck_longer_than_ns;
}

inlined void stuck_name(struct stuck_thread *found, struct task_struct *task)
{
	found->tid = task->pid;
	found->pid = task->tgid;
	found->ppid = BPF_CORE_READ(task, real_parent, tgid);
	found->uid = BPF_CORE_READ(task, cred, uid.val);
	__builtin_memset(found->comm, 0, sizeof(found->comm));
	bpf_probe_read_kernel_str(found->comm, sizeof(found->comm), task->comm);
}

/* Nobody can walk the stack of a thread while it runs on another CPU. */
inlined void stuck_take_stack(struct stuck_thread *found, struct task_struct *task)
{
	long bytes = 0;

	if (!read_once(task->on_cpu))
		bytes = bpf_get_task_stack(task, found->frame, sizeof(found->frame), 0);
	found->frames = bytes > 0 ? bytes / 8 : 0;
}

inlined bool stuck_is_excluded(__u32 pid)
{
	const struct bpf_request *request = request_of(read_once(generation));

	for (int i = 0; i < REQUEST_EXCLUDED_MAX; i++)
		if (request->excluded[i] && request->excluded[i] == pid)
			return true;
	return false;
}

SEC("iter/task")
int stuck(struct stuck_iter *ctx)
{
	struct task_struct *task = ctx->task;
	struct stuck_thread *found;
	struct pt_regs *regs;
	__u32 zero = 0;
	long nr;

	found = bpf_map_lookup_elem(&stuck_threads, &zero);
	if (!task || !found || task->exit_state || task->flags & PF_NO_CALLS ||
	    stuck_is_excluded(task->tgid))
		return 0;
	regs = (struct pt_regs *)bpf_task_pt_regs(task);
	nr = regs_syscall(regs);
	if (nr < 0)
		return 0;
	found->nr = nr;
	found->flags = call_is_foreign(task, regs) ? STUCK_IS_FOREIGN : 0;
	if (!stuck_find_call(found, task, nr))
		return 0;
	found->arg[0] = regs_arg0(regs);
	found->arg[1] = regs_arg1(regs);
	found->arg[2] = regs_arg2(regs);
	found->arg[3] = regs_arg3(regs);
	found->arg[4] = regs_arg4(regs);
	found->arg[5] = regs_arg5(regs);
	found->state = task->__state;
	found->on_cpu = task->on_cpu;
	stuck_name(found, task);
	stuck_take_stack(found, task);
	bpf_seq_write(ctx->meta->seq, found, sizeof(*found));
	return 0;
}

#endif
