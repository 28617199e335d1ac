/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * timer: profile:hz:* and interval:*, from perf events of the CPU's clock; and software:* and
 * hardware:*, from those that count something else.
 *
 * They tick in an interrupt, on an idle CPU, too, where nothing is recorded: so the time since the
 * last tick says how many were missed, whatever kept them (interrupts that were off, a hypervisor,
 * the kernel's guard against BPF programs inside each other). What counts has its own count to say so.
 */
#ifndef RINGTAIL_BPF_TIMER_H
#define RINGTAIL_BPF_TIMER_H

#include "attach.bpf.h"
#include "event.bpf.h"

/* As bpf_perf_event_data, whose header has other registers than ours. */
struct timer_context {
	__u64 regs[TIMER_CONTEXT_REGS];
	__u64 sample_period;
	__u64 addr;
};

struct timer_last {
	__u64 time_ns;		/* or the count */
	__u32 attachment;	/* whose tick that was */
	__u32 zero0;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, RT_TIMERS_MAX);
	__type(key, __u32);
	__type(value, struct timer_last);
} timers SEC(".maps");

/* Where the event stands: its own count, or the time. */
inlined __u64 timer_now(void *ctx, const struct request_timer *timer)
{
	struct bpf_perf_event_value value = {};

	if (!(timer->flags & TIMER_COUNTS))
		return bpf_ktime_get_ns();
	bpf_perf_prog_read_value(ctx, &value, sizeof(value));
	return value.counter;
}

/* Periods since the last tick here: 1, unless some were missed. */
inlined __u64 timer_periods(void *ctx, const struct request_timer *timer, __u32 slot)
{
	struct timer_last *last = bpf_map_lookup_elem(&timers, &slot);
	__u64 now = timer_now(ctx, timer), periods = 1;

	if (!last)
		return 1;
	if (last->attachment == timer->attachment && timer->period_ns)
		periods = (now - last->time_ns + timer->period_ns / 2) / timer->period_ns;
	last->time_ns = now;
	last->attachment = timer->attachment;
	return periods ? periods : 1;
}

/* One event a tick, whoever runs and whatever the filter says: it is not about a thread. */
inlined void timer_tick(struct event *event, __u32 probe, __u64 periods)
{
	const __u32 bytes = RT_RECORD_HEADER_BYTES + 8;
	struct reservation place;

	if (!ring_of_this_cpu(&event->ring) || !event_names(event, event->task, event->thread) ||
	    !ring_reserve(&event->ring, bytes, event->task->pid, &place))
		return;
	place.record->payload[0] = periods;
	ring_commit(&event->ring, &place, bytes, probe);
}

outlined void timer_sample(struct timer_context *ctx, struct event *event,
			   const struct request_timer *timer, __u64 ip, __u64 periods)
{
	__u32 words = timer && timer->flags & TIMER_COUNTS ? 4 : 3;
	__u32 bytes = RT_RECORD_HEADER_BYTES + words * 8;
	struct attach *attach = NULL;
	struct reservation place;

	if (!event || !timer)
		return;
	if (event->request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK)) {
		attach = attach_begin(ATTACH_TIMER);
		attach_stacks(ctx, attach, event->request->flags);
	}
	if (attach)
		bytes += attach->bytes;
	if (!ring_reserve(&event->ring, bytes, event->task->pid, &place))
		return;
	place.record->payload[0] = place_is_kernel(ip) ? ip : 0;
	place.record->payload[1] = place_is_kernel(ip) ? 0 : ip;
	place.record->payload[2] = periods;
	if (words == 4)
		place.record->payload[3] = ctx->addr;
	if (attach)
		attach_copy(attach, place.record->payload + words);
	ring_commit(&event->ring, &place, bytes, timer->probe);
}

SEC("perf_event")
int timer(struct timer_context *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), periods, ip;
	bool is_past;
	__u32 slot = timer_cookie_slot(cookie);
	struct event event = { .request = request_of(read_once(generation)) };
	const struct request_timer *timer = &event.request->timer[slot];

	if (timer->attachment != timer_cookie_attachment(cookie))
		return 0;
	periods = timer_periods(ctx, timer, slot);
	event.task = bpf_get_current_task_btf();
	if (!event.task->pid && !(timer->flags & TIMER_INTERVAL))
		return 0;
	event.thread = thread_of(event.task, THREAD_CONTEXT_LOCKED);
	if (timer->flags & TIMER_INTERVAL) {
		timer_tick(&event, timer->probe, periods);
		return 0;
	}
	is_past = thread_is_past(event.task, event.thread);
	if (!event_begin(&event, timer->flags & TIMER_UNFILTERED) ||
	    !event_names(&event, event.task, event.thread))
		return 0;
	ip = regs_place((struct pt_regs *)ctx);
	timer_sample(ctx, &event, timer, ip, periods);
	thread_after_exit(event.task, is_past);
	return 0;
}

#endif
