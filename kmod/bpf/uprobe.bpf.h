/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * uprobe: a place in a program's code, its return, or a USDT probe; or a function of the kernel, or its return. This
 * program is never attached: daemon/source/bpf_uprobe.c and bpf_function.c make a copy of it for each, as
 * tracepoint.bpf.h has it for tracepoints.
 *
 * Of a program's code, it runs in the thread that came to that place, never in an interrupt. Since 6.0 the kernel
 * keeps it on its CPU, but lets another thread have the CPU in the middle of it, which may come to such a place,
 * too. A function of the kernel may be called anywhere, and may be one that another copy's helper calls. A ring
 * bears that; where attachments are gathered, whoever finds a place free takes it.
 */
#ifndef RINGTAIL_BPF_UPROBE_H
#define RINGTAIL_BPF_UPROBE_H

#include "attach.bpf.h"
#include "event.bpf.h"
#include "tracepoint.bpf.h"

/* The strings among a function's arguments, of this program or of the kernel; those that cannot be had are counted. */
inlined void function_attach(struct event *event, struct attach *attach, __u32 text)
{
	__u16 arg = made_text_arg(text);
	__u64 string = attach->words[arg & (ATTACH_WORDS - 1)];

	if (string && !attach_any_string(attach, arg, string))
		event_count(&event->ring.producer->faults);
}

outlined void function_attach_all(void *ctx, struct event *event, struct attach *attach)
{
	__u64 texts[MADE_TEXTS_MAX / 2] = {
		made_number(MADE_TEXTS_0), made_number(MADE_TEXTS_1),
		made_number(MADE_TEXTS_2), made_number(MADE_TEXTS_3),
	};
	__u64 none;

	if (!event || !attach)
		return;
	none = tracepoint_store(ctx, attach->words);
	barrier_var(none);
#pragma clang loop unroll(disable)
	for (int i = 0; i < MADE_TEXTS_MAX; i++) {
		__u32 text = texts[i / 2] >> (i & 1 ? 32 : 0);

		if (!(text & MADE_TEXT_USED))
			return;
		function_attach(event, attach, text);
	}
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
	const bool is_function = made_number(MADE_OF_KERNEL);
	struct event event = { .request = request_of(now) };
	struct attach *attach = NULL;
	__u32 flags;
	bool is_past;

	if (!(wishes & MADE_WANTED))
		return 0;
	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, is_function ? THREAD_CONTEXT_LOCKED : THREAD_CONTEXT_TASK);
	is_past = thread_is_past(event.task, event.thread);
	if (!event_begin(&event, wishes & MADE_UNFILTERED) ||
	    !event_names(&event, event.task, event.thread))
		return 0;
	flags = event.request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK);
	if (is_function && made_number(MADE_TEXTS_0))
		flags |= event.request->flags & RT_FLAG_STRINGS;
	if (unlikely(flags)) {
		attach = attach_take();
		if (!attach) {
			ring_lose(RT_LOST_NEST);
			return 0;
		}
		if (is_function && flags & RT_FLAG_STRINGS)
			function_attach_all(ctx, &event, attach);
		attach_stacks(ctx, attach, flags);
	}
	uprobe_write(ctx, &event, attach);
	if (attach)
		attach_give_back(attach);
	thread_after_exit(event.task, is_past);
	return 0;
}

#endif
