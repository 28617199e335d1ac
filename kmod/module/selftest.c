// SPDX-License-Identifier: GPL-2.0-only
/*
 * selftest: see selftest.h. Some milliseconds of writing into rings of its own, in each policy,
 * with a timer's interrupts nesting inside the writer, and a walk that holds what is there to what
 * was counted.
 */
#define pr_fmt(format) KBUILD_MODNAME ": " format

#include "selftest.h"

#include <linux/hrtimer.h>
#include <linux/printk.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include "call.h"
#include "compat.h"
#include "consumer.h"
#include "plan.h"
#include "ring.h"
#include "ring_walk.h"

#define RING_BYTES	RT_RING_BYTES_MIN
#define PROBE_THREAD	RT_PROBE_SCHED_SWITCH	/* who wrote: the thread, or the timer in it */
#define PROBE_TIMER	RT_PROBE_SCHED_WAKEUP
#define WRITES		20000
#define TIMER_NS	20000

#define expect(condition) do {							\
	if (!(condition)) {							\
		pr_err("self-test: %s:%d: %s\n", __func__, __LINE__, #condition); \
		return -EINVAL;							\
	}									\
} while (0)

/* A writer's own count, in its own context. */
struct writer {
	struct rt_ring *ring;
	struct hrtimer timer;
	u64 thread_tries, timer_tries;
	u32 random;
};

static void write_one(struct writer *writer, u32 probe)
{
	struct rt_reservation reservation;
	enum rt_reserve refused;
	u32 words, i;

	writer->random = writer->random * 1664525 + 1013904223;
	words = RT_RECORD_HEADER_BYTES / 8 + (writer->random >> 16) % 40;
	refused = rt_ring_reserve(writer->ring, words, words, RT_SUBBUF_ANY, &reservation);
	if (refused) {
		rt_ring_lose(writer->ring, refused);
		return;
	}
	reservation.record->tid = words;
	for (i = 0; i < words - RT_RECORD_HEADER_BYTES / 8; i++)
		reservation.record->payload[i] = reservation.pos ^ i;
	rt_ring_commit(writer->ring, &reservation, probe);
}

static enum hrtimer_restart interrupt(struct hrtimer *timer)
{
	struct writer *writer = container_of(timer, struct writer, timer);

	writer->timer_tries++;
	write_one(writer, PROBE_TIMER);
	hrtimer_forward_now(timer, ns_to_ktime(TIMER_NS));
	return HRTIMER_RESTART;
}

struct walked {
	u64 records, last_ns, pos;
};

/* Walks from walked->pos to the end of what is committed. */
static int walk(struct rt_ring *ring, struct walked *walked)
{
	struct rt_view view;
	u32 bytes, i;

	rt_view_of_ring(ring, &view);
	if (ring->policy == RT_POLICY_OVERWRITE)
		walked->pos = view.start;
	for (;;) {
		const struct rt_record *record = rt_view_at(&view, walked->pos);
		enum rt_walk found = rt_walk(&view, walked->pos, &bytes);

		if (found == RT_WALK_END)
			break;
		if (found == RT_WALK_RECORD) {
			expect(record->tid == bytes / 8);
			expect(record->time_ns >= walked->last_ns);
			for (i = 0; i < bytes / 8 - RT_RECORD_HEADER_BYTES / 8; i++)
				expect(record->payload[i] == (walked->pos ^ i));
			walked->last_ns = record->time_ns;
			walked->records++;
		}
		walked->pos += bytes;
	}
	expect(walked->pos == view.end);
	return 0;
}

/* Writes with the timer inside; in RT_POLICY_DROP what is there is read now and then. */
static int write_all(struct writer *writer, struct walked *walked)
{
	bool reads = writer->ring->policy == RT_POLICY_DROP;
	int err = 0;
	u32 i;

	rt_hrtimer_setup(&writer->timer, interrupt, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	preempt_disable();
	hrtimer_start(&writer->timer, ns_to_ktime(TIMER_NS), HRTIMER_MODE_REL_PINNED_HARD);
	for (i = 0; i < WRITES && !err; i++) {
		writer->thread_tries++;
		write_one(writer, PROBE_THREAD);
		if (!reads || i % 128)
			continue;
		local_irq_disable();
		err = walk(writer->ring, walked);
		local_irq_enable();
		smp_store_release(&writer->ring->consumer->consumer_pos, walked->pos);
	}
	preempt_enable();
	hrtimer_cancel(&writer->timer);
	return err;
}

static int check_counts(struct writer *writer, const struct walked *walked)
{
	struct rt_ring *ring = writer->ring;
	u64 records = local64_read(&ring->records), lost = ring->page->lost_total;

	expect(records + lost == writer->thread_tries + writer->timer_tries);
	if (ring->policy == RT_POLICY_DROP) {
		expect(walked->records == records);
	} else if (ring->policy == RT_POLICY_STOP) {
		expect(walked->records == records);
		expect(ring->page->state == RT_RING_STOPPED);
		expect(ring->page->lost[RT_LOST_STOPPED] + ring->page->lost[RT_LOST_NEST] == lost);
	} else {
		expect(walked->records <= records && walked->records > 0);
		expect((u32)(ring->counted >> 32) == (u32)records);
	}
	return 0;
}

static int test_policy(struct rt_consumer *owner, enum rt_policy policy)
{
	const struct rt_geometry geometry = {
		.size_bytes = RING_BYTES, .subbuf_bytes = RT_SUBBUF_BYTES_MIN, .policy = policy,
	};
	struct writer *writer = kzalloc(sizeof(*writer), GFP_KERNEL);
	struct walked walked = {};
	int err = -ENOMEM;

	if (!writer)
		return err;
	writer->random = 1;
	writer->ring = rt_ring_create(raw_smp_processor_id(), &geometry,
				      rt_consumer_ring_bell, owner);
	if (writer->ring) {
		err = write_all(writer, &walked);
		if (!err)
			err = walk(writer->ring, &walked);
		if (!err)
			err = check_counts(writer, &walked);
	}
	rt_ring_destroy(writer->ring);
	kfree(writer);
	return err;
}

/* Positions that no reader can have are refused, each counted, and change nothing. */
static int test_bad_consumer(struct rt_ring *ring, struct writer *writer)
{
	static const u64 bad[] = {1, 12, RING_BYTES * 2, ~0ULL, 1ULL << 63};
	u64 last = 0;
	u32 i, k;

	for (i = 0; i < ARRAY_SIZE(bad); i++) {
		ring->consumer->consumer_pos = bad[i];
		for (k = 0; k < 1000; k++)
			write_one(writer, PROBE_THREAD);
		expect(ring->page->consumer_pos_seen == 0);
		expect(ring->page->consumer_bad > last);
		expect(ring->page->producer_pos <= RING_BYTES);
		last = ring->page->consumer_bad;
	}
	return 0;
}

static int test_consumer_page(struct rt_consumer *owner)
{
	const struct rt_geometry geometry = {
		.size_bytes = RING_BYTES, .subbuf_bytes = RT_SUBBUF_BYTES_MIN,
	};
	struct writer *writer = kzalloc(sizeof(*writer), GFP_KERNEL);
	int err = -ENOMEM;

	if (!writer)
		return err;
	writer->ring = rt_ring_create(raw_smp_processor_id(), &geometry,
				      rt_consumer_ring_bell, owner);
	if (writer->ring) {
		preempt_disable();
		err = test_bad_consumer(writer->ring, writer);
		preempt_enable();
	}
	rt_ring_destroy(writer->ring);
	kfree(writer);
	return err;
}

static int check_plans(struct rt_plan *first, struct rt_plan *second, struct rt_plan *third)
{
	const u32 call = RT_PROBE_SYSCALL_CALL + 7;

	if (IS_ERR(first) || IS_ERR(second) || IS_ERR(third))
		return -ENOMEM;
	rt_plan_follow(first, NULL, 1);
	rt_plan_follow(second, first, 2);
	rt_plan_follow(third, second, 3);
	expect(first->enabled == 1 && second->enabled == 2 && third->enabled == 1);
	expect(rt_plan_get(second, call) && !rt_plan_get(second, call + 1));
	expect(rt_plan_rate_hz(second, RT_PROBE_PROFILE) == 99);
	/* On since the first, and on again in none. */
	expect(second->since[7] == 1 && third->since[7] == 1);
	expect(second->selections == 2 && third->selections == 1);
	expect(rt_plan_has(third, RT_PROBE_SYSCALL_CALL, RT_PROBE_MAX));
	expect(!rt_plan_has(third, 0, RT_PROBE_SYSCALL_CALL));
	return 0;
}

static int test_plan(void)
{
	struct rt_selection plain = {}, rated = {.rate_hz = 99};
	struct rt_plan *first = rt_plan_enable(NULL, RT_PROBE_SYSCALL_CALL + 7, &plain);
	struct rt_plan *second, *third;
	int err;

	if (IS_ERR(first))
		return -ENOMEM;
	second = rt_plan_enable(first, RT_PROBE_PROFILE, &rated);
	third = IS_ERR(second) ? second : rt_plan_disable(second, RT_PROBE_PROFILE);
	err = check_plans(first, second, third);
	if (!IS_ERR(third) && third != second)
		rt_plan_free(third);
	if (!IS_ERR(second))
		rt_plan_free(second);
	rt_plan_free(first);
	return err;
}

static int test_calls(void)
{
	struct rt_calls *calls = rt_calls_create(1);
	struct rt_call *call;

	if (!calls)
		return -ENOMEM;
	expect(!rt_call_find(calls));
	call = rt_call_claim(calls);
	expect(call && rt_call_claim(calls) == call && rt_call_find(calls) == call);
	rt_call_release(calls);
	expect(!rt_call_find(calls));
	rt_calls_destroy(calls);
	return 0;
}

int __init rt_selftest(void)
{
	struct rt_consumer *owner = rt_consumer_create();
	enum rt_policy policy;
	int err = 0;

	if (!owner)
		return -ENOMEM;
	for (policy = RT_POLICY_DROP; policy <= RT_POLICY_STOP && !err; policy++)
		err = test_policy(owner, policy);
	if (!err)
		err = test_consumer_page(owner);
	if (!err)
		err = test_plan();
	if (!err)
		err = test_calls();
	rt_consumer_destroy(owner);
	if (!err)
		pr_info("self-test passed\n");
	return err;
}
