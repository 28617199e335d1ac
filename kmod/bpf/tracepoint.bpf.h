/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * tracepoint: any tracepoint of the kernel. This program is never attached: daemon/source/bpf_tracepoint.c
 * makes a copy of it for each tracepoint that is asked for, with that one's numbers (request.h) and with a
 * subprogram that stores its fields.
 */
#ifndef RINGTAIL_BPF_TRACEPOINT_H
#define RINGTAIL_BPF_TRACEPOINT_H

#include "attach.bpf.h"
#include "event.bpf.h"

__u8 made_wishes[2][RT_PROBES_MADE_MAX];

#define made_number_as_text(number)	#number
#define made_number_expanded(number)	made_number_as_text(number)
#define made_number(number) ({ \
	__u64 value__; \
	asm volatile("%0 = " made_number_expanded(number) " ll" : "=r"(value__)); \
	value__; \
})

inlined __u32 made_wishes_for(__u32 of_generation, __u64 index)
{
	barrier_var(index);
	return made_wishes[of_generation & 1][index & (RT_PROBES_MADE_MAX - 1)];
}

/* Replaced: stores the fields of the kernel's record `ctx` as words. Returns 0. */
outlined __u64 tracepoint_store(void *ctx, __u64 *to)
{
	__u64 none;

	asm volatile("%0 = " made_number_expanded(MADE_STORES) " ll"
		     : "=r"(none) : "r"(ctx), "r"(to) : "memory");
	return none;
}

/* One attachment, if there is room for it. */
inlined void tracepoint_attach(void *ctx, struct attach *attach, __u32 text)
{
	struct rt_attachment *place = attach_place(attach);
	__u64 offset = made_text_offset(text);
	__u32 bytes = made_text_bytes(text), location;

	if (!attach_has_room(attach, ATTACH_STRING_BYTES))
		return;
	if (text & MADE_TEXT_LOCATED) {
		if (bpf_probe_read_kernel(&location, sizeof(location), ctx + offset))
			return;
		offset = (text & MADE_TEXT_RELATIVE ? offset + sizeof(location) : 0) +
			 (location & 0xffff);
		bytes = location >> 16;
	}
	if (bytes > RT_STRING_BYTES_MAX)
		bytes = RT_STRING_BYTES_MAX;
	barrier_var(bytes);
	if (bytes > RT_STRING_BYTES_MAX || bpf_probe_read_kernel(place->data, bytes, ctx + offset))
		return;
	attach_trim(attach, bytes);
	attach_end(attach, RT_ATTACH_STRING, made_text_arg(text), bytes);
}

outlined void tracepoint_attach_all(void *ctx, struct attach *attach)
{
	__u64 texts[MADE_TEXTS_MAX / 2] = {
		made_number(MADE_TEXTS_0), made_number(MADE_TEXTS_1),
		made_number(MADE_TEXTS_2), made_number(MADE_TEXTS_3),
	};

	if (!attach)
		return;
	for (int i = 0; i < MADE_TEXTS_MAX / 2; i++) {
		if (!(texts[i] & MADE_TEXT_USED))
			return;
		tracepoint_attach(ctx, attach, texts[i]);
		if (!(texts[i] >> 32 & MADE_TEXT_USED))
			return;
		tracepoint_attach(ctx, attach, texts[i] >> 32);
	}
}

/*
 * The event of a probe of which no record is wanted: it is counted, if that is wanted. A function of its own, so that an
 * event that is recorded pays nothing for it. An interrupt may come in between, and count as well.
 */
outlined int tracepoint_count(__u32 of_generation, __u32 wishes)
{
	struct event event = { .request = request_of(of_generation) };
	__u64 place = RT_SYSCALLS_MAX + made_number(MADE_INDEX);

	if (!(wishes & MADE_COUNTED))
		return 0;
	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, THREAD_CONTEXT_LOCKED);
	if (event_begin(&event, wishes & MADE_UNFILTERED))
		__sync_fetch_and_add(&ring_counted(&event.ring, place)->good, 1);
	return 0;
}

inlined bool tracepoint_is_recorded(__u32 wishes)
{
	return (wishes & (MADE_WANTED | MADE_COUNTED)) == MADE_WANTED;
}

SEC("tp")
int any_tracepoint(void *ctx)
{
	__u32 now = read_once(generation), wishes = made_wishes_for(now, made_number(MADE_INDEX));
	struct event event = { .request = request_of(now) };
	__u32 words = made_number(MADE_WORDS);
	__u32 bytes = RT_RECORD_HEADER_BYTES + 8 * words;
	struct attach *attach = NULL;
	struct reservation place;
	bool is_past;

	if (!tracepoint_is_recorded(wishes))
		return tracepoint_count(now, wishes);
	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, THREAD_CONTEXT_LOCKED);
	is_past = thread_is_past(event.task, event.thread);
	if (!event_begin(&event, wishes & MADE_UNFILTERED) ||
	    !event_names(&event, event.task, event.thread))
		return 0;
	if (made_number(MADE_TEXTS_0) ||
	    unlikely(event.request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK))) {
		attach = attach_begin(ATTACH_TRACEPOINT);
		tracepoint_attach_all(ctx, attach);
		attach_stacks(ctx, attach, event.request->flags);
		if (attach)
			bytes += attach->bytes;
	}
	if (ring_reserve(&event.ring, bytes, event.task->pid, &place)) {
		__u64 none = tracepoint_store(ctx, place.record->payload);

		barrier_var(none);	/* or the compiler would leave out that it returns at all */
		if (attach)
			attach_copy(attach, place.record->payload + words);
		ring_commit(&event.ring, &place, bytes,
			    RT_PROBE_MADE + (__u32)made_number(MADE_INDEX));
	}
	thread_after_exit(event.task, is_past);
	return 0;
}

/*
 * The same of a tracepoint of which daemon/source/tracepoint_args.def says where the fields are: in what the
 * kernel passes to it, or what that points to. This program is of the type TRACING: it runs without perf's
 * record of the event, which takes as long to make as our own, and without the guard that is told of below. The
 * kernel does not run it inside itself, and counts that, but does run the copy of another tracepoint inside it.
 */

#define RAW_TEXT_WORDS	4	/* of a text that is written at once; interfaces and interrupts have shorter names */

/* A struct rt_attachment with its bytes. */
struct raw_text {
	__u16 kind, arg;
	__u32 bytes;
	__u64 word[RAW_TEXT_WORDS];
};

/* The payload, of which `gathered` is all that there is if it has a text. */
inlined void raw_store(void *ctx, const __u64 *gathered, __u32 text_bytes, __u64 *to)
{
	__u32 words = made_number(MADE_WORDS), arg = made_text_arg(made_number(MADE_TEXTS_0));
	__u64 none;

	if (gathered) {
#pragma unroll
		for (__u32 i = 0; i < MADE_RAW_WORDS_MAX; i++)
			if (i < words)
				to[i] = gathered[i];
		/* There it says where the text is; the record is to say how long it is. */
		to[arg] = text_bytes;
	} else {
		none = tracepoint_store(ctx, to);
		barrier_var(none);	/* or the compiler would leave out that it returns at all */
	}
}

/* Writes the record, with the attachments that were gathered, or with `text`, or with none. */
inlined void raw_write(void *ctx, struct event *event, const struct attach *attach, const __u64 *gathered,
		       const struct raw_text *text, __u32 text_bytes)
{
	__u32 words = made_number(MADE_WORDS), bytes = RT_RECORD_HEADER_BYTES + 8 * words;
	struct reservation place;

	if (attach)
		bytes += attach->bytes;
	else if (text)
		bytes += sizeof(struct rt_attachment) + ((text_bytes + 7) & ~7u);
	if (!ring_reserve(&event->ring, bytes, event->task->pid, &place))
		return;
	raw_store(ctx, gathered, text_bytes, place.record->payload);
	if (attach) {
		attach_copy(attach, place.record->payload + words);
	} else if (text) {
		place.record->payload[words] = *(const __u64 *)text;
#pragma unroll
		for (int i = 0; i < RAW_TEXT_WORDS; i++)
			if (8 * i < text_bytes)
				place.record->payload[words + 1 + i] = text->word[i];
	}
	ring_commit(&event->ring, &place, bytes, RT_PROBE_MADE + (__u32)made_number(MADE_INDEX));
}

struct raw_words {
	__u64 word[MADE_RAW_WORDS_MAX];
};

/*
 * With stacks, or with a text that is long, which lies at that word of `gathered`; NULL: there is no text.
 * Returns 0: what a function without a result leaves in its place may be a pointer, which the verifier lets
 * nobody return.
 */
outlined __u64 raw_write_slowly(void *ctx, struct event *event, const struct raw_words *gathered)
{
	__u32 arg = made_text_arg(made_number(MADE_TEXTS_0)) & (MADE_RAW_WORDS_MAX - 1);
	struct attach *attach = attach_take();
	long bytes = 0;
	__u64 none = 0;

	barrier_var(none);
	if (!attach) {
		ring_lose(RT_LOST_NEST);
		return none;
	}
	if (gathered) {
		bytes = bpf_probe_read_kernel_str(attach_place(attach)->data, RT_STRING_BYTES_MAX,
						  (void *)gathered->word[arg]);
		if (bytes > 0 && bytes <= RT_STRING_BYTES_MAX) {
			attach_trim(attach, bytes);
			attach_end(attach, RT_ATTACH_STRING, arg, bytes);
		} else {
			bytes = 0;
		}
	}
	if (event) {
		attach_stacks(ctx, attach, event->request->flags);
		raw_write(ctx, event, attach, gathered ? gathered->word : NULL, NULL, bytes);
	}
	attach_give_back(attach);
	return none;
}

outlined __u64 raw_write_text(void *ctx, struct event *event, __u32 flags)
{
	__u32 arg = made_text_arg(made_number(MADE_TEXTS_0)) & (MADE_RAW_WORDS_MAX - 1);
	struct raw_words gathered = {0};
	struct raw_text text = {0};
	__u64 none = tracepoint_store(ctx, gathered.word);
	long bytes;

	barrier_var(none);
	if (!event)
		return none;
	bytes = bpf_probe_read_kernel_str(text.word, sizeof(text.word), (void *)gathered.word[arg]);
	if (bytes <= 0 || bytes >= (long)sizeof(text.word) || unlikely(flags)) {
		return raw_write_slowly(ctx, event, &gathered);
	}
	text.kind = RT_ATTACH_STRING;
	text.arg = arg;
	text.bytes = bytes;
	raw_write(ctx, event, NULL, gathered.word, &text, bytes);
	return none;
}

SEC("raw_tp")
int any_raw_tracepoint(void *ctx)
{
	__u32 now = read_once(generation), wishes = made_wishes_for(now, made_number(MADE_INDEX)), flags;
	struct event event = { .request = request_of(now) };
	__u64 none = 0;
	bool is_past;

	if (!tracepoint_is_recorded(wishes))
		return tracepoint_count(now, wishes);
	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, THREAD_CONTEXT_LOCKED);
	is_past = thread_is_past(event.task, event.thread);
	if (!event_begin(&event, wishes & MADE_UNFILTERED) ||
	    !event_names(&event, event.task, event.thread))
		return 0;
	flags = event.request->flags & (RT_FLAG_KSTACK | RT_FLAG_USTACK);
	if (made_number(MADE_TEXTS_0))
		none = raw_write_text(ctx, &event, flags);
	else if (unlikely(flags))
		none = raw_write_slowly(ctx, &event, NULL);
	else
		raw_write(ctx, &event, NULL, NULL, NULL, 0);
	barrier_var(none);
	thread_after_exit(event.task, is_past);
	return 0;
}

/*
 * Programs of the type TRACEPOINT share one guard on each CPU, bpf_prog_active: while one of them runs, or a
 * kprobe's, or a map is changed, the kernel runs none in an interrupt, and before 6.7 counts nothing. This one,
 * of another type, is not refused then: of a tracepoint that any_tracepoint is attached to, it sees every
 * event, and counts in their place those that any_tracepoint does not get. Both see the same guard: whatever
 * comes in between has put it back by then.
 */

/* How often it has met the guard taken, wanted or not: what the kernel has refused beyond that, nobody has seen. */
__u64 made_refused[RT_PROBES_MADE_MAX];

/* Replaced: returns the guard of this CPU. Not every kernel has a name for it. */
outlined __u64 refused_now(void)
{
	__u64 active;

	asm volatile("%0 = " made_number_expanded(MADE_STORES) " ll" : "=r"(active));
	return active;
}

SEC("raw_tp")
int any_refused(void *ctx)
{
	struct event event;
	__u32 now, wishes;
	bool is_past;

	if (likely(!(__u32)refused_now()))
		return 0;
	__sync_fetch_and_add(&made_refused[made_number(MADE_INDEX) & (RT_PROBES_MADE_MAX - 1)], 1);
	now = read_once(generation);
	wishes = made_wishes_for(now, made_number(MADE_INDEX));
	if (!(wishes & MADE_WANTED))
		return 0;
	event.request = request_of(now);
	event.task = bpf_get_current_task_btf();
	event.thread = thread_of(event.task, THREAD_CONTEXT_LOCKED);
	is_past = thread_is_past(event.task, event.thread);
	if (event_begin(&event, wishes & MADE_UNFILTERED))
		ring_lose_of(RT_PROBE_MADE + (__u32)made_number(MADE_INDEX),
			     RT_PROBE_MADE + (__u32)made_number(MADE_INDEX), RT_LOST_REFUSED);
	thread_after_exit(event.task, is_past);
	return 0;
}

/*
 * What the kernel has refused where no program could see it: it counts that of each program, and not where nor when.
 * The daemon reads its counts, and runs this one with what is new of one program, and with the probes of which that
 * was: user space writes to no ring.
 */
__u64 refused_told[REFUSED_SLOTS];	/* so many of each, in all runs of the daemon */

/* No flood: what was lost is not to make the ring lose more. The consumer's word only makes this wait. */
inlined bool refused_fits(void)
{
	struct ring ring;

	return ring_of_this_cpu(&ring) && read_once(ring.producer->producer_pos) -
					  read_once(ring.consumer->consumer_pos) < ring_size / 2;
}

SEC("raw_tp")
int refused_tell(__u64 *ctx)
{
	__u64 count = ctx[0], slot = ctx[1];
	__u32 first = ctx[2], last = ctx[3];

	for (int i = 0; i < REFUSED_TELL_MAX && i < count && refused_fits(); i++) {
		/* If it is one of the ring's losses instead, it is told, too. */
		ring_lose_of(first, last, RT_LOST_REFUSED);
		__sync_fetch_and_add(&refused_told[slot & (REFUSED_SLOTS - 1)], 1);
	}
	return 0;
}

#endif
