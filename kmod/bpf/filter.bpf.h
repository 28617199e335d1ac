/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * filter: which threads' events are wanted, as the current request says.
 *
 * What it asks about a thread hardly ever changes, so the answer is kept with the thread under the
 * request's generation: a filter of any length costs an event one load and one comparison.
 */
#ifndef RINGTAIL_BPF_FILTER_H
#define RINGTAIL_BPF_FILTER_H

#include "kernel.bpf.h"
#include "thread.bpf.h"
#include "kmod/bpf/request.h"

struct bpf_request requests[2];
__u32 syscall_words[2][RT_SYSCALLS_MAX];	/* of the same requests */
__u32 generation;

/*
 * By system call, for calls that began while a request had them counted: the time of the first request that no longer
 * does. 0: no request has had it counted. UINT64_MAX: the current request has, or the next one's time is not noted yet.
 */
__u64 counted_until_ns[RT_SYSCALLS_MAX];

/* The request an event is judged by. Asked for once for each event. */
inlined const struct bpf_request *request_of(__u32 of_generation)
{
	return &requests[of_generation & 1];
}

/* The compiler must not think the mask away where it knows better than the verifier. */
inlined __u32 request_syscall_word(__u32 of_generation, __u64 nr)
{
	barrier_var(nr);
	return syscall_words[of_generation & 1][nr & (RT_SYSCALLS_MAX - 1)];
}

inlined bool filter_number(__u8 op, __u32 wanted, __u32 value)
{
	return op == RT_FILTER_ANY || (op == RT_FILTER_EQ) == (wanted == value);
}

#define FILTER_PASSES	(1u << 0)
#define FILTER_LASTS	(1u << 1)	/* until the thread is renamed or the request changes */

struct filter_comm {
	__u64 half[RT_COMM_BYTES / 8];
};

/*
 * What one clause says of the current task, whose name is `comm`: FILTER_*. The credentials by helper,
 * as in thread_write().
 */
verified_once __u32 filter_clause(__u32 of_generation, __u32 i, const struct filter_comm *comm)
{
	const struct bpf_request *request = request_of(of_generation);
	const struct rt_filter_clause *clause = &request->clause[i & (RT_FILTER_CLAUSES_MAX - 1)];
	const struct filter_comm *name = (const void *)clause->comm;
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 lasts = clause->uid_op == RT_FILTER_ANY ? FILTER_LASTS : 0;
	bool same;

	if (!comm || !filter_number(clause->pid_op, clause->pid, task->tgid) ||
	    !filter_number(clause->tid_op, clause->tid, task->pid) ||
	    !filter_number(clause->uid_op, clause->uid, BPF_CORE_READ(task, cred, uid.val)))
		return lasts;
	if (clause->comm_op == RT_FILTER_ANY)
		return lasts | FILTER_PASSES;
	same = name->half[0] == comm->half[0] && name->half[1] == comm->half[1];
	return lasts | ((clause->comm_op == RT_FILTER_EQ) == same ? FILTER_PASSES : 0);
}

/* Whether a process is one of which nobody may want the events. */
verified_once bool filter_excludes_process(__u32 of_generation, __u32 tgid)
{
	const struct bpf_request *request = request_of(of_generation);

	for (int i = 0; i < REQUEST_EXCLUDED_MAX; i++)
		if (request->excluded[i] && request->excluded[i] == tgid)
			return true;
	return false;
}

/* Whether the current task's is. */
inlined bool filter_excludes(__u32 of_generation)
{
	return filter_excludes_process(of_generation, bpf_get_current_task_btf()->tgid);
}

enum filter_of {
	FILTER_OF_OTHERS,	/* the excluded ones do not pass */
	FILTER_OF_ALL,
};

/* What the clauses say of the current task, which `thread` may remember. */
verified_once bool filter_evaluate(__u32 of_generation, struct bpf_thread *thread, enum filter_of of)
{
	const struct bpf_request *request = request_of(of_generation);
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 lasts = FILTER_LASTS, said = FILTER_PASSES;
	struct filter_comm comm;

	if (of == FILTER_OF_OTHERS && filter_excludes(of_generation))
		goto refused;
	thread_comm(thread, task, (char *)&comm);
	for (__u32 i = 0; i < RT_FILTER_CLAUSES_MAX && i < request->clauses; i++) {
		said = filter_clause(of_generation, i, &comm);
		lasts &= said;
		if (said & FILTER_PASSES)
			break;
	}
	if (!(said & FILTER_PASSES))
		goto refused;
	if (thread && lasts)
		write_once(thread->passed, request->generation);
	return true;
refused:
	if (thread && lasts)
		write_once(thread->refused, request->generation);
	return false;
}

/* Whether the current task's events are wanted; those that are unfiltered, whatever the clauses say. */
inlined bool filter_passes(const struct bpf_request *request, struct bpf_thread *thread,
			   bool unfiltered)
{
	if (likely(thread)) {
		if (thread->passed == request->generation)
			return true;
		if (thread->refused == request->generation)
			return unfiltered && !filter_excludes(request->generation);
	}
	return filter_evaluate(request->generation, thread, FILTER_OF_OTHERS) ||
	       (unfiltered && !filter_excludes(request->generation));
}

/* The same of an event in which the current task, an excluded one, makes way for `other`. */
inlined bool filter_passes_other(const struct bpf_request *request, const struct task_struct *other,
				 bool unfiltered)
{
	return other->pid && filter_excludes(request->generation) &&
	       !filter_excludes_process(request->generation, other->tgid) &&
	       (unfiltered || filter_evaluate(request->generation, NULL, FILTER_OF_ALL));
}

#endif
