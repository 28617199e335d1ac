// SPDX-License-Identifier: GPL-2.0-only
/*
 * registry: see registry.h.
 */
#include "registry.h"

#include <linux/kernel.h>
#include <linux/string.h>
#include <asm/unistd.h>

#include "provider_module.h"
#include "syscall_table.h"
#include "tracepoint.h"

#define FIELDS_MAX 6

struct described {
	u32 id;
	const char *provider, *function, *name;
	u32 fields;
	struct rt_field_info field[FIELDS_MAX];
};

#define U(name)		{RT_FIELD_UNSIGNED, 64, name, "u64"}
#define U32(name)	{RT_FIELD_UNSIGNED, 32, name, "unsigned int"}
#define S(name)		{RT_FIELD_SIGNED, 32, name, "int"}
#define HEX(name)	{RT_FIELD_HEX, 64, name, "unsigned long"}
#define PTR(name, type)	{RT_FIELD_HEX, 64, name, type}
#define TID(name)	{RT_FIELD_THREAD, 32, name, "pid_t"}
#define TEXT(name)	{RT_FIELD_STRING, 64, name, "const char *"}

#define PROBE(id, provider, function, name, ...)					\
	{id, provider, function, name,							\
	 sizeof((struct rt_field_info[]){__VA_ARGS__}) / sizeof(struct rt_field_info),	\
	 {__VA_ARGS__}}
#define TRACEPOINT(id, system, event, ...) PROBE(id, "tracepoint", system, event, __VA_ARGS__)

static const struct described table[] = {
	TRACEPOINT(RT_PROBE_SCHED_SWITCH, "sched", "sched_switch", S("prev_prio"),
		   HEX("prev_state"), TID("next_tid"), S("next_prio")),
	TRACEPOINT(RT_PROBE_SCHED_WAKEUP, "sched", "sched_wakeup", TID("target_tid"), S("prio"),
		   S("target_cpu")),
	TRACEPOINT(RT_PROBE_SCHED_FORK, "sched", "sched_process_fork", TID("child_tid"),
		   U32("child_pid")),
	TRACEPOINT(RT_PROBE_SCHED_EXEC, "sched", "sched_process_exec", U32("old_tid"),
		   TEXT("filename")),
	TRACEPOINT(RT_PROBE_SCHED_EXIT, "sched", "sched_process_exit", S("prio"),
		   {RT_FIELD_UNSIGNED, 1, "group_dead", "bool"}, S("exit_code"), U32("status"),
		   U32("signal"), {RT_FIELD_UNSIGNED, 1, "core", "bool"}),
	TRACEPOINT(RT_PROBE_IRQ_ENTRY, "irq", "irq_handler_entry", S("irq"), TEXT("name")),
	TRACEPOINT(RT_PROBE_IRQ_EXIT, "irq", "irq_handler_exit", S("irq"), S("ret")),
	TRACEPOINT(RT_PROBE_SOFTIRQ_ENTRY, "irq", "softirq_entry", U32("vec")),
	TRACEPOINT(RT_PROBE_SOFTIRQ_EXIT, "irq", "softirq_exit", U32("vec")),
	TRACEPOINT(RT_PROBE_TIMER_START, "timer", "timer_start",
		   PTR("timer", "struct timer_list *"), HEX("function"), U("expires"),
		   {RT_FIELD_SIGNED, 64, "timeout", "long"}),
	TRACEPOINT(RT_PROBE_TIMER_EXPIRE, "timer", "timer_expire_entry",
		   PTR("timer", "struct timer_list *"), HEX("function"), U("late")),
	TRACEPOINT(RT_PROBE_PAGE_ALLOC, "kmem", "mm_page_alloc", HEX("pfn"), U32("order"),
		   HEX("gfp_flags"), S("migratetype")),
	TRACEPOINT(RT_PROBE_PAGE_FREE, "kmem", "mm_page_free", HEX("pfn"), U32("order")),
	TRACEPOINT(RT_PROBE_BLOCK_ISSUE, "block", "block_rq_issue", HEX("dev"), U("sector"),
		   U32("bytes"), HEX("cmd_flags")),
	TRACEPOINT(RT_PROBE_BLOCK_COMPLETE, "block", "block_rq_complete", HEX("dev"), U("sector"),
		   U32("bytes"), HEX("cmd_flags"), S("error")),
	TRACEPOINT(RT_PROBE_NET_XMIT, "net", "net_dev_xmit", S("ifindex"), U32("len"), S("rc")),
	TRACEPOINT(RT_PROBE_NET_RECEIVE, "net", "netif_receive_skb", S("ifindex"), U32("len"),
		   HEX("protocol")),
	TRACEPOINT(RT_PROBE_NAPI_POLL, "napi", "napi_poll", S("ifindex"), S("work"), S("budget")),
	TRACEPOINT(RT_PROBE_SIGNAL_DELIVER, "signal", "signal_deliver", S("sig"), S("code"),
		   HEX("handler"), HEX("flags")),
	PROBE(RT_PROBE_PROFILE, "profile", "hz", "99", HEX("kernel_ip"), HEX("user_ip")),
	PROBE(RT_PROBE_INTERVAL, "interval", "s", "1", U("periods")),
};

static const struct rt_field_info call_field[] = {
	{RT_FIELD_DURATION, 64, "duration_ns", "u64"},
	{RT_FIELD_RESULT, 64, "ret", "long"},
};

static const struct rt_field_info kprobe_field[] = {
	HEX("arg0"), HEX("arg1"), HEX("arg2"), HEX("arg3"), HEX("arg4"), HEX("arg5"),
};

static const struct rt_field_info kretprobe_field = {RT_FIELD_SIGNED, 64, "ret", "long"};

static const struct described *find(u32 probe)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].id == probe)
			return &table[i];
	return NULL;
}

/* The call that a system call probe is about. */
static const struct rt_syscall *syscall_of(u32 probe)
{
	if (probe < RT_PROBE_SYSCALL_CALL || probe >= RT_PROBE_MADE)
		return NULL;
	return rt_syscall_get((probe - RT_PROBE_SYSCALL_CALL) % RT_SYSCALLS_MAX);
}

static bool is_timer(u32 probe)
{
	return probe == RT_PROBE_PROFILE || probe == RT_PROBE_INTERVAL;
}

/* What never returns has no return to be recorded. */
static bool never_returns(u32 probe)
{
	return probe == RT_PROBE_SYSCALL_RETURN + __NR_exit ||
	       probe == RT_PROBE_SYSCALL_RETURN + __NR_exit_group;
}

bool rt_registry_has(u32 probe)
{
	if (syscall_of(probe))
		return !never_returns(probe);
	if (probe >= RT_PROBE_MADE)
		return rt_module_has(probe);
	return find(probe) && (is_timer(probe) || rt_tracepoint_serves(probe));
}

u32 rt_registry_count(void)
{
	u32 probe, count = 0;

	for (probe = 0; probe < RT_PROBE_MAX; probe++)
		count += rt_registry_has(probe);
	return count;
}

static void describe_syscall(u32 probe, const struct rt_syscall *call, struct rt_probe_info *info)
{
	const char *name = "call";

	info->fields = ARRAY_SIZE(call_field) + call->args;
	if (probe >= RT_PROBE_SYSCALL_RETURN) {
		name = "return";
		info->fields = 1;
	} else if (probe >= RT_PROBE_SYSCALL_ENTRY) {
		name = "entry";
		info->fields = call->args;
	}
	strscpy(info->provider, "syscall", sizeof(info->provider));
	strscpy(info->function, call->name, sizeof(info->function));
	strscpy(info->name, name, sizeof(info->name));
}

static u32 kprobe_fields(u32 probe)
{
	if (probe < RT_PROBE_KPROBE || probe >= RT_PROBE_KRETPROBE + RT_KPROBES_MAX)
		return 0;
	return probe < RT_PROBE_KRETPROBE ? ARRAY_SIZE(kprobe_field) : 1;
}

bool rt_registry_describe(u32 probe, struct rt_probe_info *info)
{
	const struct rt_syscall *call = syscall_of(probe);
	const struct described *described = find(probe);

	/* Padded with zeros: it goes to user space as it is. */
	memset(info, 0, sizeof(*info));
	info->id = probe;
	if (call) {
		describe_syscall(probe, call, info);
		return true;
	}
	if (probe >= RT_PROBE_MADE)
		return rt_module_describe(probe, info);
	if (!described) {
		info->fields = kprobe_fields(probe);
		return info->fields;
	}
	info->fields = described->fields;
	strscpy(info->provider, described->provider, sizeof(info->provider));
	strscpy(info->function, described->function, sizeof(info->function));
	strscpy(info->name, described->name, sizeof(info->name));
	return true;
}

void rt_registry_field(u32 probe, u32 i, struct rt_field_info *field)
{
	const struct rt_syscall *call = syscall_of(probe);

	if (probe >= RT_PROBE_MADE)
		rt_module_field(probe, i, field);
	else if (!call)
		*field = find(probe) ? find(probe)->field[i] :
			 probe < RT_PROBE_KRETPROBE ? kprobe_field[i] : kretprobe_field;
	else if (probe >= RT_PROBE_SYSCALL_RETURN)
		*field = call_field[1];
	else if (probe >= RT_PROBE_SYSCALL_ENTRY)
		*field = call->arg[i];
	else
		*field = i < ARRAY_SIZE(call_field) ? call_field[i] :
			 call->arg[i - ARRAY_SIZE(call_field)];
}
