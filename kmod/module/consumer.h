/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * consumer: one open of the device, with its own probes, filters, rings and counters.
 *
 * Locks, outermost first:
 *	lock		what a person controls: plan, configuration, recording or not. Probes are
 *			attached under it, which takes the kernel's hotplug lock inside.
 *	modules_lock	of provider_module.c: modules that have probes, and who asks for them.
 *	rings_lock	which rings there are: one for each CPU that there can be.
 * Probes take no lock: they read `plan` under RCU, and rings that do not change while probes are
 * attached.
 */
#ifndef RT_CONSUMER_H
#define RT_CONSUMER_H

#include <linux/atomic.h>
#include <linux/bitmap.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "kmod/uapi/ringtail_ioctl.h"
#include "plan.h"
#include "ring.h"

#define RT_HOOKS_MAX 64

struct eventfd_ctx;
struct rt_calls;
struct rt_exec_texts;
struct rt_interval;
struct rt_kprobes;
struct rt_profile;
struct rt_snapshot;

struct rt_consumer {
	/* Read by probes. */
	struct rt_plan __rcu *plan;
	struct rt_ring * __percpu *ring;	/* one pointer for each CPU; NULL: none */
	struct rt_calls *calls;
	struct rt_exec_texts *exec_texts;
	u32 excluded_pids[RT_EXCLUDED_MAX + 1];	/* the last: who opened the device */

	/* Counted by probes, seldom. */
	atomic64_t homeless;
	atomic64_t crowded;

	/* lock */
	struct mutex lock;
	u32 opener_pid;
	bool recording;
	u64 generation;
	struct rt_config config;
	struct rt_snapshot *snapshot;
	DECLARE_BITMAP(hooks, RT_HOOKS_MAX);	/* tracepoint.c: which are attached */
	struct rt_profile *profile;
	struct rt_interval *interval;
	struct rt_kprobes *kprobes;

	/* provider_module.c */
	struct list_head of_modules;		/* among all consumers */
	const struct rt_plan *module_plan;	/* NULL: it does not record */
	struct eventfd_ctx *module_watch;

	/* rings_lock */
	struct mutex rings_lock;
	bool has_rings;
	struct rt_geometry geometry;

	/* Any context. */
	atomic_t maps;				/* of rings, by user space */
	atomic_t consumer_maps;			/* of consumer pages */
	wait_queue_head_t wait;
	struct delayed_work wake;
	bool due;				/* the interval is over, something unread */
	struct mutex read_lock;			/* one read(2) at a time */
};

/* NULL when out of memory. Destroying detaches everything first; NULL is safe. */
struct rt_consumer *rt_consumer_create(void);
void rt_consumer_destroy(struct rt_consumer *consumer);

/*
 * All of the following under `lock`, and may sleep.
 *
 * Puts a plan, which it takes, into force: -errno of whatever could not be attached, and then the
 * old one stays. Nothing of the old is recorded any more when it returns.
 */
int rt_consumer_set_plan(struct rt_consumer *consumer, struct rt_plan *plan);
/* -EBUSY if recording, -ENOENT if no probe is enabled, -ENOMEM. */
int rt_consumer_start(struct rt_consumer *consumer);
/* -EBUSY if not recording. */
int rt_consumer_stop(struct rt_consumer *consumer);
/* Makes the rings where there are none yet. */
int rt_consumer_make_rings(struct rt_consumer *consumer);
/* rings_lock is held too, nobody reads, and nothing records. */
void rt_consumer_drop_rings(struct rt_consumer *consumer);
/* Copies the configuration's exclusions to where probes look. */
void rt_consumer_exclude(struct rt_consumer *consumer);

struct rt_plan *rt_consumer_plan_locked(struct rt_consumer *consumer);

/*
 * The ring of a CPU, or NULL; also for a CPU there cannot be. Under lock, rings_lock or a mapping.
 */
struct rt_ring *rt_consumer_ring(struct rt_consumer *consumer, u32 cpu);

/* irq_work: the bell of one ring. */
void rt_consumer_ring_bell(struct rt_ring *ring);
/* Whether poll and read have something to say. */
bool rt_consumer_ready(struct rt_consumer *consumer);

/* For probes, with preemption off. */
static inline const struct rt_plan *rt_consumer_plan(const struct rt_consumer *consumer)
{
	return rcu_dereference_raw(consumer->plan);
}

static inline struct rt_ring *rt_consumer_this_ring(const struct rt_consumer *consumer)
{
	return *this_cpu_ptr(consumer->ring);
}

static inline bool rt_consumer_excludes(const struct rt_consumer *consumer, u32 pid)
{
	const u32 *excluded = consumer->excluded_pids;

	/* The idle thread's pid is 0, and so is an unused place. */
	return pid && (READ_ONCE(excluded[0]) == pid || READ_ONCE(excluded[1]) == pid ||
		       READ_ONCE(excluded[2]) == pid || READ_ONCE(excluded[3]) == pid ||
		       READ_ONCE(excluded[4]) == pid);
}

#endif
