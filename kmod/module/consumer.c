// SPDX-License-Identifier: GPL-2.0-only
/*
 * consumer: see consumer.h.
 */
#define pr_fmt(format) KBUILD_MODNAME ": " format

#include "consumer.h"

#include <linux/cpumask.h>
#include <linux/eventfd.h>
#include <linux/poll.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/tracepoint.h>

#include "call.h"
#include "compat.h"
#include "exec_text.h"
#include "param.h"
#include "provider_interval.h"
#include "provider_kprobe.h"
#include "provider_module.h"
#include "provider_profile.h"
#include "snapshot.h"
#include "thread.h"
#include "tracepoint.h"

#define RING_BYTES_DEFAULT	(1u << 20)
#define SUBBUFS_MIN		4	/* kmod/uapi/ringtail.h */
#define SUBBUF_BYTES_DEFAULT	(64u << 10)
#define WAKE_MS_DEFAULT		100

/* Each brings what it feeds to what a plan wants, or stops it where the plan is NULL. */
static int (*const provider_update[])(struct rt_consumer *, const struct rt_plan *) = {
	rt_tracepoint_update,
	rt_module_update,
	rt_kprobe_update,
	rt_profile_update,
	rt_interval_update,
};

struct rt_plan *rt_consumer_plan_locked(struct rt_consumer *consumer)
{
	return rcu_dereference_protected(consumer->plan, lockdep_is_held(&consumer->lock));
}

struct rt_ring *rt_consumer_ring(struct rt_consumer *consumer, u32 cpu)
{
	if (cpu >= nr_cpu_ids || !cpu_possible(cpu))
		return NULL;
	return READ_ONCE(*per_cpu_ptr(consumer->ring, cpu));
}

void rt_consumer_exclude(struct rt_consumer *consumer)
{
	u32 i;

	for (i = 0; i < RT_EXCLUDED_MAX; i++)
		WRITE_ONCE(consumer->excluded_pids[i], consumer->config.excluded_pids[i]);
	WRITE_ONCE(consumer->excluded_pids[RT_EXCLUDED_MAX],
		   consumer->config.flags & RT_CONFIG_SELF ? 0 : consumer->opener_pid);
}

/* ---- Bells ---- */

static void wake(struct rt_consumer *consumer)
{
	wake_up_interruptible_poll(&consumer->wait, EPOLLIN | EPOLLRDNORM);
}

void rt_consumer_ring_bell(struct rt_ring *ring)
{
	struct eventfd_ctx *eventfd = READ_ONCE(ring->eventfd);

	if (eventfd)
		rt_eventfd_signal(eventfd);
	wake(ring->owner);
}

static bool is_stopped(const struct rt_ring *ring)
{
	return READ_ONCE(ring->page->state) == RT_RING_STOPPED;
}

bool rt_consumer_ready(struct rt_consumer *consumer)
{
	u64 watermark = max(READ_ONCE(consumer->config.watermark_bytes), 1ULL);
	bool due = READ_ONCE(consumer->due);
	u32 cpu;

	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);
		u64 unread = ring ? rt_ring_unread(ring) : 0;

		if (unread >= watermark || (due && unread))
			return true;
		if (ring && (is_stopped(ring) || rt_ring_bell_due(ring)))
			return true;
	}
	return false;
}

/*
 * The wake interval: what lies unread under the watermark, or whose bell was lost, is not
 * forgotten.
 */
static void wake_work(struct work_struct *work)
{
	struct rt_consumer *consumer = container_of(work, struct rt_consumer, wake.work);
	u32 wake_ms = READ_ONCE(consumer->config.wake_ms);
	u32 cpu;

	mutex_lock(&consumer->rings_lock);
	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);

		if (!ring || !rt_ring_unread(ring))
			continue;
		WRITE_ONCE(consumer->due, true);
		rt_consumer_ring_bell(ring);
	}
	mutex_unlock(&consumer->rings_lock);
	if (wake_ms)
		schedule_delayed_work(&consumer->wake, msecs_to_jiffies(wake_ms));
}

/* ---- Rings ---- */

static int make_ring(struct rt_consumer *consumer, u32 cpu)
{
	struct rt_ring **slot = per_cpu_ptr(consumer->ring, cpu);
	struct rt_ring *ring;

	if (*slot)
		return 0;
	ring = rt_ring_create(cpu, &consumer->geometry, rt_consumer_ring_bell, consumer);
	if (!ring)
		return -ENOMEM;
	ring->threads = rt_thread_cache_create(cpu_to_node(cpu));
	if (!ring->threads) {
		rt_ring_destroy(ring);
		return -ENOMEM;
	}
	/* Pairs with the dependency of whoever loads the pointer: the ring is there whole. */
	smp_store_release(slot, ring);
	return 0;
}

void rt_consumer_drop_rings(struct rt_consumer *consumer)
{
	u32 cpu;

	consumer->has_rings = false;
	for_each_possible_cpu(cpu) {
		struct rt_ring **slot = per_cpu_ptr(consumer->ring, cpu);

		if (!*slot)
			continue;
		rt_thread_cache_destroy((*slot)->threads);
		rt_ring_destroy(*slot);
		*slot = NULL;
	}
}

static struct rt_geometry geometry_of(const struct rt_config *config)
{
	u64 subbuf_bytes = min_t(u64, config->ring_bytes / SUBBUFS_MIN, SUBBUF_BYTES_DEFAULT);

	return (struct rt_geometry){
		.size_bytes = config->ring_bytes,
		.subbuf_bytes = max_t(u64, subbuf_bytes, RT_SUBBUF_BYTES_MIN),
		.policy = config->policy,
	};
}

int rt_consumer_make_rings(struct rt_consumer *consumer)
{
	int err = 0;
	u32 cpu;

	mutex_lock(&consumer->rings_lock);
	if (consumer->has_rings)
		goto unlock;
	consumer->geometry = geometry_of(&consumer->config);
	/* Whoever maps the rings does so once: a CPU that is added later has its own by then. */
	for_each_possible_cpu(cpu) {
		err = make_ring(consumer, cpu);
		if (err)
			goto drop;
	}
	consumer->has_rings = true;
	goto unlock;

drop:
	rt_consumer_drop_rings(consumer);
unlock:
	mutex_unlock(&consumer->rings_lock);
	return err;
}

/* ---- Recording ---- */

static int update_providers(struct rt_consumer *consumer, const struct rt_plan *plan)
{
	u32 i;

	for (i = 0; i < ARRAY_SIZE(provider_update); i++) {
		int err = provider_update[i](consumer, plan);

		if (err)
			return err;
	}
	return 0;
}

/*
 * Timing calls takes a table of threads. It starts empty whenever nothing has fed it for a while.
 */
static int prepare_calls(struct rt_consumer *consumer, const struct rt_plan *old,
			 const struct rt_plan *plan)
{
	u32 first = RT_PROBE_SYSCALL_CALL, end = first + RT_SYSCALLS_MAX;

	if (!rt_plan_has(plan, first, end))
		return 0;
	if (!consumer->exec_texts)
		consumer->exec_texts = rt_exec_texts_create();
	if (!consumer->calls)
		consumer->calls = rt_calls_create(rt_param_threads());
	else if (!rt_plan_has(old, first, end))
		rt_calls_reset(consumer->calls);
	return consumer->calls && consumer->exec_texts ? 0 : -ENOMEM;
}

static int attach(struct rt_consumer *consumer, const struct rt_plan *old, struct rt_plan *plan)
{
	int err = prepare_calls(consumer, old, plan);

	if (err)
		return err;
	rt_plan_follow(plan, old, ++consumer->generation);
	rcu_assign_pointer(consumer->plan, plan);
	return update_providers(consumer, plan);
}

static void detach(struct rt_consumer *consumer)
{
	update_providers(consumer, NULL);
	/* No probe runs any more, nor reads the plan it had. */
	tracepoint_synchronize_unregister();
}

int rt_consumer_set_plan(struct rt_consumer *consumer, struct rt_plan *plan)
{
	struct rt_plan *old = rt_consumer_plan_locked(consumer);
	int err;

	if (!consumer->recording) {
		rcu_assign_pointer(consumer->plan, plan);
		rt_plan_free(old);
		return 0;
	}
	err = attach(consumer, old, plan);
	if (err) {
		rcu_assign_pointer(consumer->plan, old);
		update_providers(consumer, old);
	}
	tracepoint_synchronize_unregister();
	rt_plan_free(err ? plan : old);
	return err;
}

int rt_consumer_start(struct rt_consumer *consumer)
{
	struct rt_plan *plan = rt_consumer_plan_locked(consumer);
	u32 cpu;
	int err;

	if (consumer->recording)
		return -EBUSY;
	if (!plan || !plan->enabled)
		return -ENOENT;
	err = rt_consumer_make_rings(consumer);
	if (err)
		return err;
	for_each_possible_cpu(cpu) {
		struct rt_ring *ring = rt_consumer_ring(consumer, cpu);

		if (ring)
			rt_ring_resume(ring);
	}
	err = attach(consumer, NULL, plan);
	if (err) {
		detach(consumer);
		return err;
	}
	consumer->recording = true;
	if (consumer->config.wake_ms)
		schedule_delayed_work(&consumer->wake, msecs_to_jiffies(consumer->config.wake_ms));
	return 0;
}

int rt_consumer_stop(struct rt_consumer *consumer)
{
	if (!consumer->recording)
		return -EBUSY;
	cancel_delayed_work_sync(&consumer->wake);
	detach(consumer);
	consumer->recording = false;
	/* Whoever waits reads what is left. */
	WRITE_ONCE(consumer->due, true);
	wake(consumer);
	return 0;
}

/* ---- Life ---- */

struct rt_consumer *rt_consumer_create(void)
{
	struct rt_consumer *consumer = kzalloc(sizeof(*consumer), GFP_KERNEL_ACCOUNT);

	if (!consumer)
		return NULL;
	mutex_init(&consumer->lock);
	mutex_init(&consumer->rings_lock);
	mutex_init(&consumer->read_lock);
	init_waitqueue_head(&consumer->wait);
	INIT_DELAYED_WORK(&consumer->wake, wake_work);
	consumer->opener_pid = current->tgid;
	consumer->config.ring_bytes = RING_BYTES_DEFAULT;
	consumer->config.watermark_bytes = RING_BYTES_DEFAULT / SUBBUFS_MIN;
	consumer->config.wake_ms = WAKE_MS_DEFAULT;
	rt_consumer_exclude(consumer);
	consumer->ring = alloc_percpu(struct rt_ring *);
	if (!consumer->ring) {
		kfree(consumer);
		return NULL;
	}
	rt_module_join(consumer);
	return consumer;
}

void rt_consumer_destroy(struct rt_consumer *consumer)
{
	if (!consumer)
		return;
	mutex_lock(&consumer->lock);
	if (consumer->recording)
		rt_consumer_stop(consumer);
	rt_kprobe_free(consumer);
	rt_module_leave(consumer);
	mutex_unlock(&consumer->lock);
	rt_consumer_drop_rings(consumer);
	rt_snapshot_free(consumer->snapshot);
	rt_exec_texts_destroy(consumer->exec_texts);
	rt_calls_destroy(consumer->calls);
	rt_plan_free(rcu_dereference_protected(consumer->plan, true));
	free_percpu(consumer->ring);
	kfree(consumer);
}
