// SPDX-License-Identifier: GPL-2.0-only
/*
 * tracepoint: see tracepoint.h.
 *
 * Every consumer attaches itself: one that is alone is called by the kernel directly, and several
 * do not know of each other. Only tracepoints of the kernel itself are used, none of other modules,
 * so that modules may come and go.
 */
#define pr_fmt(format) KBUILD_MODNAME ": " format

#include "tracepoint.h"

#include <linux/bitmap.h>
#include <linux/printk.h>
#include <linux/string.h>
#include <linux/tracepoint.h>

#include "consumer.h"
#include "provider_sched.h"
#include "provider_syscall.h"
#include "provider_tracepoint.h"

static struct {
	struct rt_hook *hook;
	const u32 *hooks;
} tables[] = {
	{rt_syscall_hooks, &rt_syscall_hooks_count},
	{rt_sched_hooks, &rt_sched_hooks_count},
	{rt_tracepoint_hooks, &rt_tracepoint_hooks_count},
};

/* Calls `visit` with each hook and its number, until one returns an error. */
static int each_hook(int (*visit)(struct rt_hook *hook, u32 number, void *data), void *data)
{
	u32 table, i, number = 0;

	for (table = 0; table < ARRAY_SIZE(tables); table++) {
		for (i = 0; i < *tables[table].hooks; i++, number++) {
			int err = visit(&tables[table].hook[i], number, data);

			if (err)
				return err;
		}
	}
	return 0;
}

static int match(struct rt_hook *hook, u32 number, void *data)
{
	struct tracepoint *tracepoint = data;

	if (strcmp(hook->tracepoint_name, tracepoint->name) == 0)
		hook->tracepoint = tracepoint;
	return 0;
}

static void found(struct tracepoint *tracepoint, void *data)
{
	each_hook(match, tracepoint);
}

static int check_found(struct rt_hook *hook, u32 number, void *data)
{
	if (number >= RT_HOOKS_MAX)
		return -E2BIG;
	if (hook->tracepoint)
		return 0;
	if (hook->needed) {
		pr_err("this kernel has no tracepoint %s: not loaded\n", hook->tracepoint_name);
		return -ENOENT;
	}
	pr_info("this kernel has no tracepoint %s: its probes are not offered\n",
		hook->tracepoint_name);
	return 0;
}

int rt_tracepoint_init(void)
{
	rt_syscall_check_types();
	rt_sched_check_types();
	rt_tracepoint_check_types();
	for_each_kernel_tracepoint(found, NULL);
	return each_hook(check_found, NULL);
}

static bool serves(const struct rt_hook *hook, u32 probe)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(hook->serves); i++)
		if (probe >= hook->serves[i].first && probe < hook->serves[i].end)
			return true;
	return false;
}

static int find_server(struct rt_hook *hook, u32 number, void *data)
{
	return hook->tracepoint && serves(hook, *(u32 *)data);
}

bool rt_tracepoint_serves(u32 probe)
{
	return each_hook(find_server, &probe);
}

struct update {
	struct rt_consumer *consumer;
	const struct rt_plan *plan;
};

static bool wanted(const struct rt_hook *hook, const struct rt_plan *plan)
{
	return rt_plan_has(plan, hook->serves[0].first, hook->serves[0].end) ||
	       rt_plan_has(plan, hook->serves[1].first, hook->serves[1].end);
}

static int attach(struct rt_hook *hook, u32 number, void *data)
{
	struct update *update = data;
	struct rt_consumer *consumer = update->consumer;
	int err;

	if (!hook->tracepoint || test_bit(number, consumer->hooks) || !wanted(hook, update->plan))
		return 0;
	err = tracepoint_probe_register(hook->tracepoint, hook->function, consumer);
	if (!err)
		set_bit(number, consumer->hooks);
	return err;
}

static int detach(struct rt_hook *hook, u32 number, void *data)
{
	struct update *update = data;
	struct rt_consumer *consumer = update->consumer;

	if (!test_bit(number, consumer->hooks) || wanted(hook, update->plan))
		return 0;
	tracepoint_probe_unregister(hook->tracepoint, hook->function, consumer);
	clear_bit(number, consumer->hooks);
	return 0;
}

int rt_tracepoint_update(struct rt_consumer *consumer, const struct rt_plan *plan)
{
	struct update update = {.consumer = consumer, .plan = plan};
	int err = each_hook(attach, &update);

	if (!err)
		each_hook(detach, &update);
	return err;
}
