/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * text: what is long and is said of many threads (the path of an executable file, of a cgroup) is
 * told once on each ring, under an id that thread records name: RT_PROBE_TEXT.
 *
 * A text is kept with its id, because it outlives what it was read from: a thread past its exit has
 * no executable file any more. The oldest goes when there are TEXTS_KEPT, however many rings know
 * it; who names it then makes it anew and tells it again. So what a ring was told is among the last
 * 2 * TEXTS_KEPT = RT_TEXTS_MAX texts that it was told.
 */
#ifndef RINGTAIL_BPF_TEXT_H
#define RINGTAIL_BPF_TEXT_H

#include "kernel.bpf.h"
#include "ring.bpf.h"
#include "kmod/bpf/request.h"

#define TEXTS_KEPT		(RT_TEXTS_MAX / 2)
#define TEXTS_SPARE		64		/* for CPUs that put one in between */
#define TEXT_NAME_BYTES		256		/* of a component, its end included */
#define TEXT_NAMES_MAX		RT_TEXT_NAMES_MAX
#define TEXT_PLACES		4		/* on a CPU: a task, and what interrupts it */
#define TEXT_MASK		0x3ff		/* says to the verifier what our bounds say to us */

struct text {
	__u64 id;
	__u32 bytes;
	__u32 zero0;
	__u64 known[RT_CPUS_MAX / THREAD_KNOWN_CPUS];	/* as bpf_thread's; above the bits, `reader` */
	char data[TEXT_MASK + 1];	/* zeros up to the alignment */
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TEXTS_KEPT + TEXTS_SPARE);
	__type(key, __u64);
	__type(value, struct text);
} texts SEC(".maps");

__u64 texts_kept[TEXTS_KEPT];	/* their ids, in the order in which they came */
__u64 texts_made;

/* How far context.bpf.h has come. */
struct text_walk {
	__u64 at;		/* the dentry, or the kernfs_node */
	__u64 root;		/* the dentry where the mount begins */
	__u64 mount;
	__u32 cgroups;		/* that are worth telling: */
	__u32 zero0;
	__u64 cgroup[RT_TEXT_CGROUPS_MAX];	/* the kernfs_node */
	__u32 hash[RT_TEXT_CGROUPS_MAX];	/* of its last component */
};

/*
 * Where a text is made: of one CPU, taken by whoever finds it free. What its making counts is here,
 * too, rather than in registers: so the verifier sees the same state after each step of a loop.
 */
struct text_place {
	__u32 taken;
	__u32 names;
	__u32 begins;		/* where a path does, behind those before it */
	__u32 whole;		/* its names go up to the root */
	__u64 id;
	struct text_walk walk;
	__u64 name[TEXT_NAMES_MAX];		/* addresses, the last component first */
	struct text text;
	char slack[TEXT_NAME_BYTES];		/* the verifier wants it */
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, TEXT_PLACES);
	__type(key, __u32);
	__type(value, struct text_place);
} text_places SEC(".maps");

/* NULL: all are taken, by what we interrupt. */
inlined struct text_place *text_begin(void)
{
#pragma unroll
	for (int i = 0; i < TEXT_PLACES; i++) {
		__u32 key = i;
		struct text_place *place = bpf_map_lookup_elem(&text_places, &key);

		if (place && !__sync_val_compare_and_swap(&place->taken, 0, 1)) {
			place->names = 0;
			place->whole = 0;
			place->id = 0;
			place->text.bytes = 0;
			return place;
		}
	}
	return NULL;
}

inlined void text_end(struct text_place *place)
{
	__sync_lock_test_and_set(&place->taken, 0);
}

/* One more component, before those that were added; `differs` is of that component alone. */
inlined bool text_add_name(struct text_place *place, const void *name, __u64 differs)
{
	__u32 i = place->names;

	if (i >= TEXT_NAMES_MAX)
		return false;
	place->name[i & (TEXT_NAMES_MAX - 1)] = (__u64)name;
	place->names = i + 1;
	place->id = (place->id ^ differs) * 0x9e3779b97f4a7c15ULL;
	place->id ^= place->id >> 29;
	return true;
}

/* Adds a component, after a slash. False: there is no room for it. */
inlined bool text_append(struct text_place *place, const void *name)
{
	__u32 at = place->text.bytes & TEXT_MASK;
	long bytes;

	place->text.data[at] = '/';
	bytes = bpf_probe_read_kernel_str(&place->text.data[at + 1], TEXT_NAME_BYTES, name);
	if (bytes <= 0 || bytes > TEXT_NAME_BYTES)
		bytes = 1;
	if (at + bytes > RT_TEXT_BYTES_MAX - 1)
		return false;
	place->text.bytes = at + bytes;
	return true;
}

/* In front of a path whose beginning is missing: a whole one begins with a slash. */
inlined void text_append_cut(struct text_place *place)
{
	__u32 at = place->text.bytes & TEXT_MASK;

	if (at > RT_TEXT_BYTES_MAX - 1 - RT_TEXT_CUT_BYTES)
		return;
	place->text.data[at] = '.';
	place->text.data[at + 1] = '.';
	place->text.data[at + 2] = '.';
	place->text.bytes = at + RT_TEXT_CUT_BYTES;
}

/* Adds the i-th component of the path, 1: it was the last. */
static long text_append_step(__u32 i, struct text_place **of)
{
	struct text_place *place = *of;
	__u32 names = place->names;

	if (i >= names)
		return 1;
	if (text_append(place, (const void *)place->name[(names - 1 - i) & (TEXT_NAMES_MAX - 1)]))
		return 0;
	place->text.bytes = place->begins;
	text_append_cut(place);
	text_append(place, (const void *)place->name[0]);
	return 1;
}

/*
 * Adds the names as a path; none: "/". After "..." if they do not go up to the root, and then, or where
 * the path is too long, the last alone. There is always room for one more byte behind it.
 */
inlined void text_append_names(struct text_place *place)
{
	__u32 bytes = place->text.bytes;

	place->begins = bytes;
	if (place->names) {
		if (!place->whole)
			text_append_cut(place);
		bpf_loop(TEXT_NAMES_MAX, text_append_step, &place, 0);
		return;
	}
	place->text.data[bytes & TEXT_MASK] = '/';
	place->text.bytes = bytes + 1;
}

/* Keeps a text that is made, in the place of the oldest. False: this CPU is just at the map. */
inlined bool text_keep(struct text_place *place)
{
	__u64 id = place->id, *kept, oldest;
	long err;

	*(__u64 *)&place->text.data[place->text.bytes & TEXT_MASK & ~7] &=
		(1ULL << (8 * (place->text.bytes & 7))) - 1;
	place->text.id = id;
	err = bpf_map_update_elem(&texts, &id, &place->text, BPF_NOEXIST);
	if (err)
		return err == -17;	/* EEXIST: another CPU was first */
	kept = &texts_kept[__sync_fetch_and_add(&texts_made, 1) & (TEXTS_KEPT - 1)];
	oldest = __sync_lock_test_and_set(kept, id);
	if (oldest)
		bpf_map_delete_elem(&texts, &oldest);
	return true;
}

/*
 * Writes RT_PROBE_TEXT on this CPU's ring. The text may be taken for another meanwhile: then the
 * record holds none. False: there was no room.
 */
inlined bool text_write(const struct ring *ring, struct text *text, __u64 id)
{
	__u32 bytes = text->bytes & TEXT_MASK;
	__u32 data_bytes = (bytes + 7) & TEXT_MASK & ~7u;
	__u32 words_bytes = RT_RECORD_HEADER_BYTES + sizeof(struct rt_text) + data_bytes;
	struct reservation place = { .pos = ring_reserve_slowly(words_bytes, 0) };
	struct rt_text *to;

	if (place.pos == RING_NO_PLACE)
		return false;
	place.record = ring_place(ring, place.pos);
	place.end = place.pos + words_bytes;
	to = (void *)place.record->payload;
	to->id = id;
	to->bytes = bytes;
	to->zero0 = 0;
	bpf_probe_read_kernel(to->data, data_bytes, text->data);
	ordered();
	if (read_once(text->id) != id || read_once(text->bytes) != bytes)
		to->bytes = 0;
	ring_commit(ring, &place, words_bytes, RT_PROBE_TEXT);
	return true;
}

enum text_told {
	TEXT_TOLD,
	TEXT_GONE,	/* it is not kept any more */
	TEXT_LOST,	/* the ring has no room; counted */
};

/* Sees to it that this CPU's ring knows the text. Returns enum text_told. */
verified_once __u32 text_tell(__u64 id, __u32 of_reader)
{
	struct text *text;
	struct ring ring;
	__u64 *word, before, bit;

	text = bpf_map_lookup_elem(&texts, &id);
	if (!text || !ring_of_this_cpu(&ring))
		return TEXT_GONE;
	word = &text->known[(ring.cpu & (RT_CPUS_MAX - 1)) / THREAD_KNOWN_CPUS];
	bit = 1ULL << (ring.cpu % THREAD_KNOWN_CPUS);
	before = read_once(*word);
	if (before >> 32 == of_reader && before & bit)
		return TEXT_TOLD;
	if (!text_write(&ring, text, id))
		return TEXT_LOST;
	/* Should another CPU be at the same word, one of us tells it once more. */
	if (before >> 32 != of_reader)
		__sync_val_compare_and_swap(word, before, (__u64)of_reader << 32 | bit);
	else
		__sync_val_compare_and_swap(word, before, before | bit);
	return TEXT_TOLD;
}

#endif
