// SPDX-License-Identifier: GPL-2.0-only
/*
 * provider_profile: see provider_profile.h. One high-resolution timer on each CPU; the hotplug
 * machinery starts and cancels them, so that a CPU which goes takes none along and one which comes
 * has its own.
 */
#include "provider_profile.h"

#include <linux/cpuhotplug.h>
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <asm/irq_regs.h>
#include <asm/ptrace.h>

#include "compat.h"
#include "consumer.h"
#include "emit.h"

struct rt_profile {
	struct rt_consumer *consumer;
	struct hlist_node hotplug;
	u32 rate_hz;
	ktime_t period;
	struct profile_timer __percpu *timer;
};

struct profile_timer {
	struct hrtimer hrtimer;
	struct rt_profile *profile;
};

static enum cpuhp_state hotplug_state;

static enum hrtimer_restart expire(struct hrtimer *hrtimer)
{
	struct profile_timer *timer = container_of(hrtimer, struct profile_timer, hrtimer);
	struct pt_regs *regs = get_irq_regs();
	struct rt_attach_extra extra = {.regs = regs};
	struct rt_emit emit;

	hrtimer_forward_now(hrtimer, timer->profile->period);
	if (!rt_emit_begin(&emit, timer->profile->consumer, RT_PROBE_PROFILE, 2,
			   regs && !user_mode(regs) ? &extra : NULL))
		return HRTIMER_RESTART;
	emit.payload[0] = regs && !user_mode(regs) ? instruction_pointer(regs) : 0;
	emit.payload[1] = regs && user_mode(regs) ? instruction_pointer(regs) : 0;
	rt_emit_end(&emit);
	return HRTIMER_RESTART;
}

/* Both on the CPU itself. */
static int start_cpu(unsigned int cpu, struct hlist_node *node)
{
	struct rt_profile *profile = hlist_entry(node, struct rt_profile, hotplug);
	struct profile_timer *timer = per_cpu_ptr(profile->timer, cpu);

	timer->profile = profile;
	rt_hrtimer_setup(&timer->hrtimer, expire, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	hrtimer_start(&timer->hrtimer, profile->period, HRTIMER_MODE_REL_PINNED_HARD);
	return 0;
}

static int stop_cpu(unsigned int cpu, struct hlist_node *node)
{
	struct rt_profile *profile = hlist_entry(node, struct rt_profile, hotplug);

	hrtimer_cancel(&per_cpu_ptr(profile->timer, cpu)->hrtimer);
	return 0;
}

static void stop(struct rt_profile *profile)
{
	cpuhp_state_remove_instance(hotplug_state, &profile->hotplug);
	free_percpu(profile->timer);
	kfree(profile);
}

static struct rt_profile *start(struct rt_consumer *consumer, u32 rate_hz)
{
	struct rt_profile *profile = kzalloc(sizeof(*profile), GFP_KERNEL_ACCOUNT);

	if (!profile)
		return NULL;
	profile->consumer = consumer;
	profile->rate_hz = rate_hz;
	profile->period = ns_to_ktime(NSEC_PER_SEC / rate_hz);
	profile->timer = alloc_percpu(struct profile_timer);
	if (!profile->timer)
		goto free;
	if (cpuhp_state_add_instance(hotplug_state, &profile->hotplug))
		goto free_percpu;
	return profile;

free_percpu:
	free_percpu(profile->timer);
free:
	kfree(profile);
	return NULL;
}

int rt_profile_update(struct rt_consumer *consumer, const struct rt_plan *plan)
{
	u32 rate_hz = rt_plan_rate_hz(plan, RT_PROBE_PROFILE);

	if (rate_hz == (consumer->profile ? consumer->profile->rate_hz : 0))
		return 0;
	if (consumer->profile)
		stop(consumer->profile);
	consumer->profile = NULL;
	if (!rate_hz)
		return 0;
	consumer->profile = start(consumer, rate_hz);
	return consumer->profile ? 0 : -ENOMEM;
}

int __init rt_profile_init(void)
{
	int state = cpuhp_setup_state_multi(CPUHP_AP_ONLINE_DYN, "ringtail:profile", start_cpu,
					    stop_cpu);

	if (state < 0)
		return state;
	hotplug_state = state;
	return 0;
}

void rt_profile_fini(void)
{
	cpuhp_remove_multi_state(hotplug_state);
}
