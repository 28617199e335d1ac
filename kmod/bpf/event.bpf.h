/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * event: what every event does before its record: is its thread wanted, which ring is here, and has
 * its reader been told who the thread is.
 */
#ifndef RINGTAIL_BPF_EVENT_H
#define RINGTAIL_BPF_EVENT_H

#include "filter.bpf.h"
#include "ring.bpf.h"
#include "thread.bpf.h"

struct event {
	const struct bpf_request *request;
	struct task_struct *task;	/* the current one; the record's tid */
	struct bpf_thread *thread;	/* NULL: nothing is remembered of it */
	struct ring ring;
};

/* Whether the event's thread passes the filter, or need not; then this CPU's ring is at hand. */
inlined bool event_begin(struct event *event, bool unfiltered)
{
	return filter_passes(event->request, event->thread, unfiltered) &&
	       ring_of_this_cpu(&event->ring);
}

/*
 * Introduces a thread that the event names, its own or another. An event whose thread could not be
 * introduced is lost with it.
 */
inlined bool event_names(struct event *event, struct task_struct *task, struct bpf_thread *thread)
{
	if (likely(thread_is_known(task, thread, event->ring.cpu)))
		return true;
	ring_lose(RT_LOST_FULL);
	return false;
}

inlined void event_count(__u64 *counter)
{
	__sync_fetch_and_add(counter, 1);
}

#endif
