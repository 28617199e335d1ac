// SPDX-License-Identifier: GPL-2.0-only
/*
 * provider_sched: see provider_sched.h. Some of these run under a run queue's lock: nothing here
 * wakes anybody, and the bell goes through irq_work.
 */
#include "provider_sched.h"

#include <linux/binfmts.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <trace/events/sched.h>

#include "consumer.h"
#include "emit.h"

/* As ftrace shows it: a thread that was preempted is in a state of its own. */
static u64 state_of(bool preempt, const struct task_struct *prev, unsigned int prev_state)
{
	if (preempt)
		return TASK_REPORT_MAX;
	if ((prev_state & TASK_IDLE) == TASK_IDLE)
		return TASK_REPORT_IDLE;
	return (prev_state | prev->exit_state) & TASK_REPORT;
}

static void probe_switch(void *data, bool preempt, struct task_struct *prev,
			 struct task_struct *next, unsigned int prev_state)
{
	struct rt_emit emit;

	rt_emit_thread(data, RT_PROBE_SCHED_SWITCH, next, next);
	if (!rt_emit_begin_for(&emit, data, RT_PROBE_SCHED_SWITCH, 4, NULL, next))
		return;
	emit.payload[0] = (s64)prev->prio;
	emit.payload[1] = state_of(preempt, prev, prev_state);
	emit.payload[2] = next->pid;
	emit.payload[3] = (s64)next->prio;
	rt_emit_end(&emit);
	if (unlikely(prev_state == TASK_DEAD))
		rt_emit_thread_exited(data, prev);
}

/* Also that of a new thread, which has a tracepoint of its own. */
static void probe_wakeup(void *data, struct task_struct *task)
{
	struct rt_emit emit;

	rt_emit_thread(data, RT_PROBE_SCHED_WAKEUP, task, NULL);
	if (!rt_emit_begin(&emit, data, RT_PROBE_SCHED_WAKEUP, 3, NULL))
		return;
	emit.payload[0] = task->pid;
	emit.payload[1] = (s64)task->prio;
	emit.payload[2] = task_cpu(task);
	rt_emit_end(&emit);
}

static void probe_fork(void *data, struct task_struct *parent, struct task_struct *child)
{
	struct rt_emit emit;

	rt_emit_thread(data, RT_PROBE_SCHED_FORK, child, NULL);
	if (!rt_emit_begin(&emit, data, RT_PROBE_SCHED_FORK, 2, NULL))
		return;
	emit.payload[0] = child->pid;
	emit.payload[1] = child->tgid;
	rt_emit_end(&emit);
}

static void probe_exec(void *data, struct task_struct *task, pid_t old_tid,
		       struct linux_binprm *bprm)
{
	struct rt_attach_extra extra = {
		/* The name is at hand, and an exec without it is little. */
		.always = RT_FLAG_STRINGS,
		.texts = 1,
		.text[0] = {.kernel = bprm->filename, .arg = 1},
	};
	struct rt_emit emit;

	if (!rt_emit_begin(&emit, data, RT_PROBE_SCHED_EXEC, 2, &extra))
		return;
	emit.payload[0] = old_tid;
	emit.payload[1] = 0;
	rt_emit_end(&emit);
}

static void emit_exit(void *data, struct task_struct *task, bool group_dead)
{
	struct rt_emit emit;

	if (!rt_emit_begin(&emit, data, RT_PROBE_SCHED_EXIT, 6, NULL))
		return;
	emit.payload[0] = (s64)task->prio;
	emit.payload[1] = group_dead;
	emit.payload[2] = (s64)task->exit_code;
	emit.payload[3] = rt_exit_status(task->exit_code);
	emit.payload[4] = rt_exit_signal(task->exit_code);
	emit.payload[5] = rt_exit_core(task->exit_code);
	rt_emit_end(&emit);
	rt_emit_thread_exited(data, task);
}

#ifndef RT_EXIT_TAKES_GROUP_DEAD
/* Two threads that exit at the same moment may both find that none is left. */
static void probe_exit(void *data, struct task_struct *task)
{
	emit_exit(data, task, atomic_read(&task->signal->live) == 0);
}
#else
static void probe_exit(void *data, struct task_struct *task, bool group_dead)
{
	emit_exit(data, task, group_dead);
}
#endif

#define ONE(probe) {{probe, (probe) + 1}}

struct rt_hook rt_sched_hooks[] = {
	{"sched_switch", probe_switch, ONE(RT_PROBE_SCHED_SWITCH)},
	{"sched_wakeup", probe_wakeup, ONE(RT_PROBE_SCHED_WAKEUP)},
	{"sched_wakeup_new", probe_wakeup, ONE(RT_PROBE_SCHED_WAKEUP)},
	{"sched_process_fork", probe_fork, ONE(RT_PROBE_SCHED_FORK)},
	{"sched_process_exec", probe_exec, ONE(RT_PROBE_SCHED_EXEC)},
	{"sched_process_exit", probe_exit, ONE(RT_PROBE_SCHED_EXIT)},
};

const u32 rt_sched_hooks_count = ARRAY_SIZE(rt_sched_hooks);

void rt_sched_check_types(void)
{
	check_trace_callback_type_sched_switch(probe_switch);
	check_trace_callback_type_sched_wakeup(probe_wakeup);
	check_trace_callback_type_sched_wakeup_new(probe_wakeup);
	check_trace_callback_type_sched_process_fork(probe_fork);
	check_trace_callback_type_sched_process_exec(probe_exec);
	check_trace_callback_type_sched_process_exit(probe_exit);
}
