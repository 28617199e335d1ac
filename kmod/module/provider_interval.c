// SPDX-License-Identifier: GPL-2.0-only
/*
 * provider_interval: see provider_interval.h. Its event counts the periods since the start, so that
 * one that came late shows.
 */
#include "provider_interval.h"

#include <linux/hrtimer.h>
#include <linux/slab.h>

#include "compat.h"
#include "consumer.h"
#include "emit.h"

struct rt_interval {
	struct hrtimer hrtimer;
	struct rt_consumer *consumer;
	u32 rate_hz;
	ktime_t period;
	u64 periods;
};

static enum hrtimer_restart expire(struct hrtimer *hrtimer)
{
	struct rt_interval *interval = container_of(hrtimer, struct rt_interval, hrtimer);
	struct rt_emit emit;

	interval->periods += hrtimer_forward_now(hrtimer, interval->period);
	if (!rt_emit_begin(&emit, interval->consumer, RT_PROBE_INTERVAL, 1, NULL))
		return HRTIMER_RESTART;
	emit.payload[0] = interval->periods;
	rt_emit_end(&emit);
	return HRTIMER_RESTART;
}

int rt_interval_update(struct rt_consumer *consumer, const struct rt_plan *plan)
{
	u32 rate_hz = rt_plan_rate_hz(plan, RT_PROBE_INTERVAL);
	struct rt_interval *interval = consumer->interval;

	if (rate_hz == (interval ? interval->rate_hz : 0))
		return 0;
	if (interval)
		hrtimer_cancel(&interval->hrtimer);
	kfree(interval);
	consumer->interval = NULL;
	if (!rate_hz)
		return 0;
	interval = kzalloc(sizeof(*interval), GFP_KERNEL_ACCOUNT);
	if (!interval)
		return -ENOMEM;
	interval->consumer = consumer;
	interval->rate_hz = rate_hz;
	interval->period = ns_to_ktime(NSEC_PER_SEC / rate_hz);
	consumer->interval = interval;
	rt_hrtimer_setup(&interval->hrtimer, expire, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	hrtimer_start(&interval->hrtimer, interval->period, HRTIMER_MODE_REL_HARD);
	return 0;
}
