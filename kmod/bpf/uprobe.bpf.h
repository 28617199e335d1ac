/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * uprobe: a place in a program's code, its return, or a USDT probe. This program is never attached:
 * daemon/source/bpf_uprobe.c makes a copy of it for each, as tracepoint.bpf.h has it for tracepoints.
 *
 * It runs in the thread that came to that place, never in an interrupt. Since 6.0 the kernel keeps it on its CPU,
 * but lets another thread have the CPU in the middle of it, which may come to such a place, too. A ring bears
 * that; where attachments are gathered, whoever finds a place free takes it.
 */
#ifndef RINGTAIL_BPF_UPROBE_H
#define RINGTAIL_BPF_UPROBE_H

#include "attach.bpf.h"
#include "event.bpf.h"
#include "tracepoint.bpf.h"

/* NULL: all are taken, by threads that are preempted. */
inlined struct attach *uprobe_take_attach(void)
{
#pragma unroll
	for (__u32 i = 0; i < ATTACH_UPROBES; i++) {
		__u32 key = ATTACH_UPROBE + i;
		struct attach *attach = bpf_map_lookup_elem(&attaches, &key);

		if (attach && !__sync_val_compare_and_swap(&attach->taken, 0, 1)) {
			attach->bytes = 0;
			return attach;
		}
	}
	return NULL;
}

outlined void uprobe_write(void *ctx, struct event *event, struct attach *attach)
{
	__u32 words = made_number(MADE_WORDS);
	__u32 bytes = RT_RECORD_HEADER_BYTES + 8 * words + (attach ? attach->bytes : 0);
	struct reservation place;
	__u64 none;

	if (!event || !ring_reserve(&event->ring, bytes, event->task->pid, &place))
		return;
	none = tracepoint_store(ctx, place.record->payload);
	barrier_var(none);	/* or the compiler would leave out that it returns at all */
	if (attach)
		attach_copy(attach, place.record->payload + words);
	ring_commit(&event->ring, &place, bytes, RT_PROBE_MADE + (__u32)made_number(MADE_INDEX));
}

SEC("uprobe")
int any_uprobe(void *ctx)
{
	__u32 now = read_once(generation), wishes = made_wishes_for(now, made_number(MADE_INDEX));
	struct event event = { .request = request_of(now) };
	struct attach *attach = NULL;

	if (!(wishes & MADE_WANTED))
		return 0;
	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, THREAD_CONTEXT_TASK);
	if (!event_begin(&event, wishes & MADE_UNFILTERED) ||
	    !event_names(&event, event.task, event.thread))
		return 0;
	if (unlikely(event.request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK))) {
		attach = uprobe_take_attach();
		if (!attach) {
			ring_lose(RT_LOST_NEST);
			return 0;
		}
		attach_stacks(ctx, attach, event.request->flags);
	}
	uprobe_write(ctx, &event, attach);
	if (attach)
		__sync_lock_test_and_set(&attach->taken, 0);
	return 0;
}

#endif
