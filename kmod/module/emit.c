// SPDX-License-Identifier: GPL-2.0-only
/*
 * emit: see emit.h.
 */
#include "emit.h"

#include <linux/preempt.h>
#include <linux/sched.h>

#include "consumer.h"
#include "filter.h"
#include "thread.h"

/*
 * A switch from one of the daemon's threads to another's begins the other's time on the CPU: the event is the
 * other's. It feeds no loop, because one follows on the same CPU that is recorded in any case: the one that ends
 * that time. The idle thread is nobody.
 */
static bool is_excluded(const struct rt_consumer *consumer, const struct task_struct *next)
{
	return rt_consumer_excludes(consumer, current->tgid) &&
	       (!next || !next->pid || rt_consumer_excludes(consumer, next->tgid));
}

/* With which selection the current context's event is recorded; NULL: not at all. */
static const struct rt_selection *wanted(struct rt_consumer *consumer, u32 probe,
					 const struct task_struct *next)
{
	const struct rt_plan *plan = rt_consumer_plan(consumer);
	const struct rt_selection *selection = plan ? rt_plan_get(plan, probe) : NULL;

	if (!selection || is_excluded(consumer, next))
		return NULL;
	if (selection->clauses && !rt_filter_pass(selection->clause, selection->clauses))
		return NULL;
	return selection;
}

bool rt_emit_wants(struct rt_consumer *consumer, u32 probe)
{
	bool wants;

	preempt_disable_notrace();
	wants = wanted(consumer, probe, NULL);
	preempt_enable_notrace();
	return wants;
}

/*
 * The thread's introduction and the event's place. In the flight recorder both must share a
 * sub-buffer; a context that nests in between may have used the room up, and it is done again.
 */
static enum rt_reserve reserve(struct rt_emit *emit, u32 words)
{
	enum rt_reserve refused;
	int try;

	for (try = 0; try < RT_RESERVE_TRIES; try++) {
		u64 subbuf;

		refused = rt_thread_introduce(emit->ring, current, words, &subbuf);
		if (refused)
			return refused;
		refused = rt_ring_reserve(emit->ring, words, words, subbuf, &emit->reservation);
		if (refused != RT_RESERVE_ELSEWHERE)
			return refused;
	}
	return RT_RESERVE_LOST + RT_LOST_NEST;
}

/* Kept out of line, so that what every event passes through stays short. */
static noinline void write_attachments(struct rt_emit *emit, u32 fields,
				       const struct rt_attachments *attachments)
{
	memcpy(emit->payload + fields, attachments->word, attachments->words * sizeof(u64));
}

noinline bool rt_emit_begin_for(struct rt_emit *emit, struct rt_consumer *consumer, u32 probe,
				u32 fields, const struct rt_attach_extra *extra,
				const struct task_struct *next)
{
	u32 words = RT_RECORD_HEADER_BYTES / 8 + fields;
	struct rt_attachments *attachments = NULL;
	const struct rt_selection *selection;
	enum rt_reserve refused;
	u32 flags;

	preempt_disable_notrace();
	selection = wanted(consumer, probe, next);
	if (!selection)
		goto not_recorded;
	emit->ring = rt_consumer_this_ring(consumer);
	if (unlikely(!emit->ring)) {
		atomic64_inc(&consumer->homeless);
		goto not_recorded;
	}
	flags = selection->flags | (extra ? extra->always : 0);
	if (unlikely(flags)) {
		attachments = rt_attach_take(flags, emit->ring, extra);
		words += attachments ? attachments->words : 0;
	}
	refused = reserve(emit, words);
	if (unlikely(refused)) {
		rt_ring_lose(emit->ring, refused);
		goto give_back;
	}
	emit->probe = probe;
	emit->time_ns = emit->reservation.time_ns;
	emit->reservation.record->tid = current->pid;
	emit->payload = emit->reservation.record->payload;
	if (attachments) {
		write_attachments(emit, fields, attachments);
		rt_attach_give_back(attachments);
	}
	return true;

give_back:
	rt_attach_give_back(attachments);
not_recorded:
	preempt_enable_notrace();
	return false;
}

void rt_emit_end(struct rt_emit *emit)
{
	rt_ring_commit(emit->ring, &emit->reservation, emit->probe);
	preempt_enable_notrace();
}

void rt_emit_thread(struct rt_consumer *consumer, u32 probe, struct task_struct *task,
		    const struct task_struct *next)
{
	struct rt_ring *ring;
	u64 subbuf;

	preempt_disable_notrace();
	ring = rt_consumer_this_ring(consumer);
	if (ring && wanted(consumer, probe, next))
		rt_thread_introduce(ring, task, 0, &subbuf);
	preempt_enable_notrace();
}

void rt_emit_thread_exited(struct rt_consumer *consumer, struct task_struct *task)
{
	struct rt_ring *ring;

	preempt_disable_notrace();
	ring = rt_consumer_this_ring(consumer);
	if (ring)
		rt_thread_say_exited(ring, task);
	preempt_enable_notrace();
}
