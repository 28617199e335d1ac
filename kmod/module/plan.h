/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * plan: what one consumer wants recorded, as the probes read it.
 *
 * A plan never changes: enabling makes a copy, which replaces the old one under RCU. Probes read it
 * with preemption off; making and freeing happen under the consumer's lock.
 */
#ifndef RT_PLAN_H
#define RT_PLAN_H

#include <linux/types.h>

#include "kmod/uapi/ringtail_ioctl.h"

#define RT_SELECTIONS_MAX 64

/* With which flags, rate and filter a probe is enabled. */
struct rt_selection {
	u32 flags;
	u32 rate_hz;
	u32 clauses;
	struct rt_filter_clause clause[RT_FILTER_CLAUSES_MAX];
};

struct rt_plan {
	u64 generation;				/* of this consumer's plans */
	u64 since[RT_SYSCALLS_MAX];		/* the generation from which a call is on */
	u32 enabled;				/* probes */
	u32 selections;
	u8 of_probe[RT_PROBE_MAX];		/* 0: off, otherwise 1 + index of its selection */
	struct rt_selection selection[RT_SELECTIONS_MAX];
};

/* All return -errno as an error pointer; `old` may be NULL, and is not freed. */
struct rt_plan *rt_plan_enable(const struct rt_plan *old, u32 probe,
			       const struct rt_selection *selection);
struct rt_plan *rt_plan_disable(const struct rt_plan *old, u32 probe);
struct rt_plan *rt_plan_select(const struct rt_plan *old, const u8 *probes, const u8 *unfiltered,
			       const struct rt_selection *selection);
/*
 * Numbers a plan that follows `old` without a break; NULL: nothing was recorded before it. A call
 * that began while its probe was off, and ends while it is on, can so be told from one seen whole.
 */
void rt_plan_follow(struct rt_plan *plan, const struct rt_plan *old, u64 generation);
void rt_plan_free(struct rt_plan *plan);

/* Whether any probe of [first, end) is enabled; NULL: none. */
bool rt_plan_has(const struct rt_plan *plan, u32 first, u32 end);
/* The rate of a probe that is enabled, otherwise 0. */
u32 rt_plan_rate_hz(const struct rt_plan *plan, u32 probe);

static inline const struct rt_selection *rt_plan_get(const struct rt_plan *plan, u32 probe)
{
	u8 of_probe = plan->of_probe[probe];

	return of_probe ? &plan->selection[of_probe - 1] : NULL;
}

#endif
