// SPDX-License-Identifier: GPL-2.0-only
/*
 * plan: see plan.h.
 */
#include "plan.h"

#include <linux/err.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/string.h>

/*
 * The index of a selection, which many probes may share; -ENOSPC when there are too many of them.
 */
static int selection_index(struct rt_plan *plan, const struct rt_selection *selection)
{
	u32 i;

	for (i = 0; i < plan->selections; i++)
		if (memcmp(&plan->selection[i], selection, sizeof(*selection)) == 0)
			return i;
	if (plan->selections == RT_SELECTIONS_MAX)
		return -ENOSPC;
	plan->selection[plan->selections] = *selection;
	return plan->selections++;
}

static int set(struct rt_plan *plan, u32 probe, const struct rt_selection *selection)
{
	int index = selection_index(plan, selection);

	if (index < 0)
		return index;
	if (!plan->of_probe[probe])
		plan->enabled++;
	plan->of_probe[probe] = index + 1;
	return 0;
}

/* A copy without `skip`, and without the selections that nothing uses any more. */
static struct rt_plan *copy_without(const struct rt_plan *old, u32 skip)
{
	struct rt_plan *plan = kvzalloc(sizeof(*plan), GFP_KERNEL_ACCOUNT);
	u32 probe;

	if (!plan)
		return ERR_PTR(-ENOMEM);
	for (probe = 0; old && probe < RT_PROBE_MAX; probe++)
		if (old->of_probe[probe] && probe != skip)
			set(plan, probe, rt_plan_get(old, probe));
	return plan;
}

struct rt_plan *rt_plan_enable(const struct rt_plan *old, u32 probe,
			       const struct rt_selection *selection)
{
	struct rt_plan *plan = copy_without(old, probe);
	int err;

	if (IS_ERR(plan))
		return plan;
	err = set(plan, probe, selection);
	if (err) {
		rt_plan_free(plan);
		return ERR_PTR(err);
	}
	return plan;
}

struct rt_plan *rt_plan_disable(const struct rt_plan *old, u32 probe)
{
	return copy_without(old, probe);
}

/* Timers keep the rate they had, since a selection of many probes has none to give. */
static struct rt_selection with_rate(const struct rt_plan *old, u32 probe,
				     const struct rt_selection *selection)
{
	struct rt_selection rated = *selection;

	rated.rate_hz = 0;
	if (probe == RT_PROBE_PROFILE || probe == RT_PROBE_INTERVAL) {
		rated.rate_hz = rt_plan_rate_hz(old, probe);
		if (!rated.rate_hz)
			rated.rate_hz = probe == RT_PROBE_PROFILE ? RT_PROFILE_HZ : RT_INTERVAL_HZ;
	}
	return rated;
}

struct rt_plan *rt_plan_select(const struct rt_plan *old, const u8 *probes, const u8 *unfiltered,
			       const struct rt_selection *selection)
{
	struct rt_plan *plan = kvzalloc(sizeof(*plan), GFP_KERNEL_ACCOUNT);
	u32 probe;

	if (!plan)
		return ERR_PTR(-ENOMEM);
	for (probe = 0; probe < RT_PROBE_MAX; probe++) {
		struct rt_selection rated;

		if (!(probes[probe >> 3] & (1u << (probe & 7))))
			continue;
		/* At most four differ: two timers, and the rest with clauses and without. */
		rated = with_rate(old, probe, selection);
		if (unfiltered[probe >> 3] & (1u << (probe & 7))) {
			rated.clauses = 0;
			memset(rated.clause, 0, sizeof(rated.clause));
		}
		set(plan, probe, &rated);
	}
	return plan;
}

void rt_plan_follow(struct rt_plan *plan, const struct rt_plan *old, u64 generation)
{
	u32 nr;

	plan->generation = generation;
	for (nr = 0; nr < RT_SYSCALLS_MAX; nr++) {
		bool was_on = old && old->of_probe[RT_PROBE_SYSCALL_CALL + nr];

		plan->since[nr] = was_on ? old->since[nr] : generation;
	}
}

void rt_plan_free(struct rt_plan *plan)
{
	kvfree(plan);
}

bool rt_plan_has(const struct rt_plan *plan, u32 first, u32 end)
{
	u32 probe;

	for (probe = first; plan && probe < end; probe++)
		if (plan->of_probe[probe])
			return true;
	return false;
}

u32 rt_plan_rate_hz(const struct rt_plan *plan, u32 probe)
{
	const struct rt_selection *selection = plan ? rt_plan_get(plan, probe) : NULL;

	return selection ? selection->rate_hz : 0;
}
