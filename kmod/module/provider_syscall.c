// SPDX-License-Identifier: GPL-2.0-only
/*
 * provider_syscall: system calls of this architecture's own table. Called in the calling thread,
 * with preemption on since 6.13.
 *
 * Arguments are kept at entry, since execve and rt_sigreturn come back with other registers.
 * Strings are read when the record is written: for a call that is at its return, when the call
 * itself has brought them into memory.
 */
#include "provider_syscall.h"

#include <linux/binfmts.h>
#include <linux/compat.h>
#include <linux/kernel.h>
#include <linux/nospec.h>
#include <linux/sched.h>
#include <linux/timekeeping.h>
#include <linux/tracepoint.h>
#include <asm/syscall.h>
#include <asm/unistd.h>
#include <trace/events/sched.h>
#include <trace/events/syscalls.h>

#include "arch.h"
#include "call.h"
#include "consumer.h"
#include "emit.h"
#include "exec_text.h"
#include "syscall_table.h"

#define CALL_FIXED_FIELDS 2	/* duration_ns, ret */

static void count_in_ring(struct rt_consumer *consumer, size_t counter)
{
	struct rt_ring *ring;

	preempt_disable_notrace();
	ring = rt_consumer_this_ring(consumer);
	if (ring)
		rt_ring_count((void *)ring->page + counter);
	preempt_enable_notrace();
}

/* A call of the 32-bit table, or of x32; or of a number that no table has. */
static bool is_foreign(long nr)
{
	return in_compat_syscall() || nr < 0 || nr >= RT_SYSCALLS_MAX;
}

static u64 cut(const struct rt_syscall_shape *shape, u32 i, u64 value)
{
	if (shape->sign_extend & (1u << i))
		return (s64)(s32)value;
	return shape->zero_extend & (1u << i) ? (u32)value : value;
}

static void fill_args(u64 *payload, const struct rt_syscall_shape *shape, const u64 *arg)
{
	u32 i;

	for (i = 0; i < shape->args; i++)
		payload[i] = cut(shape, i, arg[i]);
}

/* The texts among the arguments, for whoever asked for strings; NULL where there can be none. */
static struct rt_attach_extra *find_texts(struct rt_attach_extra *extra,
					  const struct rt_syscall_shape *shape, const u64 *arg)
{
	u32 i;

	if (!shape->strings)
		return NULL;
	*extra = (struct rt_attach_extra){};
	for (i = 0; i < shape->args && extra->texts < RT_ATTACH_STRINGS_MAX; i++) {
		if (!(shape->strings & (1u << i)))
			continue;
		extra->text[extra->texts++] = (struct rt_attach_text){
			.user = (const char __user *)arg[i],
			.arg = i,
		};
	}
	return extra;
}

static bool is_exec(u32 nr)
{
	return nr == __NR_execve || nr == __NR_execveat;
}

static u32 exec_name_arg(u32 nr)
{
	return nr == __NR_execve ? 0 : 1;
}

/* The name that was kept takes the place of what its address has become. */
static void find_exec_text(struct rt_consumer *consumer, struct rt_attach_extra *extra, u32 nr)
{
	const char *text = rt_exec_text_find(consumer->exec_texts);

	if (!text || !extra)
		return;
	extra->texts = 1;
	extra->text[0].kernel = text;
	extra->text[0].arg = exec_name_arg(nr);
}

static void read_args(struct pt_regs *regs, u64 *arg)
{
	BUILD_BUG_ON(sizeof(unsigned long) != sizeof(u64));
	syscall_get_arguments(current, regs, (unsigned long *)arg);
}

static void emit_entry(struct rt_consumer *consumer, u32 nr, const u64 *arg)
{
	const struct rt_syscall_shape *shape = &rt_syscall_shape[nr];
	struct rt_attach_extra space, *extra = find_texts(&space, shape, arg);
	struct rt_emit emit;

	if (!rt_emit_begin(&emit, consumer, RT_PROBE_SYSCALL_ENTRY + nr, shape->args, extra))
		return;
	fill_args(emit.payload, shape, arg);
	rt_emit_end(&emit);
}

static void emit_return(struct rt_consumer *consumer, u32 nr, long ret)
{
	struct rt_emit emit;

	if (!rt_emit_begin(&emit, consumer, RT_PROBE_SYSCALL_RETURN + nr, 1, NULL))
		return;
	emit.payload[0] = ret;
	rt_emit_end(&emit);
}

static void emit_call(struct rt_consumer *consumer, u32 nr, const u64 *arg, u64 start_ns, long ret)
{
	const struct rt_syscall_shape *shape = &rt_syscall_shape[nr];
	struct rt_attach_extra space, *extra = find_texts(&space, shape, arg);
	struct rt_emit emit;

	if (unlikely(is_exec(nr)))
		find_exec_text(consumer, extra, nr);
	if (!rt_emit_begin(&emit, consumer, RT_PROBE_SYSCALL_CALL + nr,
			   CALL_FIXED_FIELDS + shape->args, extra))
		return;
	/* Another CPU's clock may have been a little ahead when the call began there. */
	emit.payload[0] = start_ns == RT_DURATION_NEVER ? RT_DURATION_NEVER :
			  emit.time_ns > start_ns ? emit.time_ns - start_ns : 0;
	emit.payload[1] = ret;
	fill_args(emit.payload + CALL_FIXED_FIELDS, shape, arg);
	rt_emit_end(&emit);
}

static void begin_call(struct rt_consumer *consumer, const struct rt_plan *plan, u32 nr,
		       const u64 *arg)
{
	struct rt_call *call;

	if (nr == __NR_exit || nr == __NR_exit_group) {
		emit_call(consumer, nr, arg, RT_DURATION_NEVER, 0);
		return;
	}
	call = rt_call_claim(consumer->calls);
	if (!call) {
		atomic64_inc(&consumer->crowded);
		return;
	}
	memcpy(call->arg, arg, sizeof(call->arg));
	call->generation = (u32)plan->generation;
	call->nr = nr;
	call->open = 1;
	call->start_ns = ktime_get_mono_fast_ns();
}

/* Called with preemption off, as the plan must not go. */
static void enter(struct rt_consumer *consumer, struct pt_regs *regs, u32 nr)
{
	const struct rt_plan *plan = rt_consumer_plan(consumer);
	bool call = plan->of_probe[RT_PROBE_SYSCALL_CALL + nr];
	bool entry = plan->of_probe[RT_PROBE_SYSCALL_ENTRY + nr];
	u64 arg[RT_SYSCALL_ARGS_MAX];

	if (!call && !entry) {
		if (unlikely(!rt_syscall_get(nr)))
			count_in_ring(consumer, offsetof(struct rt_ring_producer, foreign));
		return;
	}
	if (rt_consumer_excludes(consumer, current->tgid))
		return;
	read_args(regs, arg);
	if (entry)
		emit_entry(consumer, nr, arg);
	if (call)
		begin_call(consumer, plan, nr, arg);
}

static void probe_sys_enter(void *data, struct pt_regs *regs, long id)
{
	struct rt_consumer *consumer = data;

	if (unlikely(is_foreign(id))) {
		count_in_ring(consumer, offsetof(struct rt_ring_producer, foreign));
		return;
	}
	preempt_disable_notrace();
	enter(consumer, regs, array_index_nospec(id, RT_SYSCALLS_MAX));
	preempt_enable_notrace();
}

/* Whether the entry was made by a call that has been watched ever since it began. */
static bool was_watched(const struct rt_plan *plan, const struct rt_call *call, u32 nr)
{
	return call->open && call->nr == nr &&
	       (s32)(call->generation - (u32)plan->since[nr]) >= 0;
}

static void finish_call(struct rt_consumer *consumer, const struct rt_plan *plan,
			struct rt_call *call, struct pt_regs *regs, u32 nr, long ret)
{
	u64 arg[RT_SYSCALL_ARGS_MAX];

	if (!call || !was_watched(plan, call, nr)) {
		if (rt_emit_wants(consumer, RT_PROBE_SYSCALL_CALL + nr))
			count_in_ring(consumer, offsetof(struct rt_ring_producer, unpaired));
		return;
	}
	call->open = 0;
	memcpy(arg, call->arg, sizeof(call->arg));
	/* The sixth is not kept: no call that has one changes its registers. */
	arg[RT_CALL_ARGS_KEPT] = rt_arch_sixth_argument(regs);
	emit_call(consumer, nr, arg, call->start_ns, ret);
	if (unlikely(is_exec(nr)))
		rt_exec_text_forget(consumer->exec_texts);
}

static void leave(struct rt_consumer *consumer, struct pt_regs *regs, long id, long ret)
{
	const struct rt_plan *plan = rt_consumer_plan(consumer);
	struct rt_call *call = NULL;
	u32 nr;

	/* rt_sigreturn has put the interrupted program's registers back; its entry knows better. */
	if (id < 0) {
		call = consumer->calls ? rt_call_find(consumer->calls) : NULL;
		if (!call || !call->open)
			return;
		id = call->nr;
	}
	nr = array_index_nospec(id, RT_SYSCALLS_MAX);
	if (plan->of_probe[RT_PROBE_SYSCALL_RETURN + nr])
		emit_return(consumer, nr, ret);
	if (!plan->of_probe[RT_PROBE_SYSCALL_CALL + nr] || rt_consumer_excludes(consumer, current->tgid))
		return;
	if (!call)
		call = rt_call_find(consumer->calls);
	finish_call(consumer, plan, call, regs, nr, ret);
}

static void probe_sys_exit(void *data, struct pt_regs *regs, long ret)
{
	long id = syscall_get_nr(current, regs);

	/* -1 is rt_sigreturn's mark, in which x32's bit is set like all others. */
	if (unlikely(id >= 0 && is_foreign(id)))
		return;
	preempt_disable_notrace();
	leave(data, regs, id, ret);
	preempt_enable_notrace();
}

static bool wants_strings(const struct rt_plan *plan, u32 nr)
{
	const struct rt_selection *selection = rt_plan_get(plan, RT_PROBE_SYSCALL_CALL + nr);

	return selection && selection->flags & RT_FLAG_STRINGS;
}

/* An exec has succeeded; its call returns soon, in the new program. */
static void probe_exec(void *data, struct task_struct *task, pid_t old_tid,
		       struct linux_binprm *bprm)
{
	struct rt_consumer *consumer = data;
	const struct rt_plan *plan;

	preempt_disable_notrace();
	plan = rt_consumer_plan(consumer);
	if ((wants_strings(plan, __NR_execve) || wants_strings(plan, __NR_execveat)) &&
	    rt_exec_text_keep(consumer->exec_texts, bprm->filename))
		count_in_ring(consumer, offsetof(struct rt_ring_producer, faults));
	preempt_enable_notrace();
}

#ifndef RT_EXIT_TAKES_GROUP_DEAD
static void probe_forget(void *data, struct task_struct *task)
#else
static void probe_forget(void *data, struct task_struct *task, bool group_dead)
#endif
{
	struct rt_consumer *consumer = data;

	rt_exec_text_forget(consumer->exec_texts);
	rt_call_release(consumer->calls);
	rt_emit_thread_exited(consumer, task);
}

#define CALLS	{RT_PROBE_SYSCALL_CALL, RT_PROBE_SYSCALL_CALL + RT_SYSCALLS_MAX}
#define ENTRIES	{RT_PROBE_SYSCALL_ENTRY, RT_PROBE_SYSCALL_ENTRY + RT_SYSCALLS_MAX}
#define RETURNS	{RT_PROBE_SYSCALL_RETURN, RT_PROBE_SYSCALL_RETURN + RT_SYSCALLS_MAX}

#define ONE_CALL(nr) {RT_PROBE_SYSCALL_CALL + (nr), RT_PROBE_SYSCALL_CALL + (nr) + 1}

/* In this order: no thread enters the table whose exit is not watched. */
struct rt_hook rt_syscall_hooks[] = {
	{"sched_process_exit", probe_forget, {CALLS}, .needed = true},
	{"sched_process_exec", probe_exec, {ONE_CALL(__NR_execve), ONE_CALL(__NR_execveat)},
	 .needed = true},
	{"sys_exit", probe_sys_exit, {CALLS, RETURNS}, .needed = true},
	{"sys_enter", probe_sys_enter, {CALLS, ENTRIES}, .needed = true},
};

const u32 rt_syscall_hooks_count = ARRAY_SIZE(rt_syscall_hooks);

void rt_syscall_check_types(void)
{
	check_trace_callback_type_sched_process_exit(probe_forget);
	check_trace_callback_type_sched_process_exec(probe_exec);
	check_trace_callback_type_sys_exit(probe_sys_exit);
	check_trace_callback_type_sys_enter(probe_sys_enter);
}
