/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ring: reserve and commit in this CPU's ring, RT_POLICY_DROP.
 *
 * Any context. A program stays on its CPU, so only programs that nest inside (interrupt, NMI) or
 * run while it is preempted compete for `producer_pos`; one compare-and-swap orders them, and
 * nothing waits. The reader's half is daemon/ring/reader.c.
 */
#ifndef RINGTAIL_BPF_RING_H
#define RINGTAIL_BPF_RING_H

#include "kernel.bpf.h"
#include "kmod/uapi/ringtail.h"

/* Geometry, known before the programs are verified: the verifier bounds places with it. */
const volatile __u64 ring_place_mask = RT_RING_BYTES_MIN - 8;
const volatile __u64 ring_size = RT_RING_BYTES_MIN;
const volatile __u64 subbuf_mask = RT_SUBBUF_BYTES_MIN - 1;

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	/* The daemon sets this and max_entries before it loads. */
	__uint(value_size, RT_PAGE_BYTES + RT_RING_BYTES_MIN + RT_PAGE_BYTES + RT_COUNTED_BYTES);
} rings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__uint(value_size, RT_PAGE_BYTES);
} consumers SEC(".maps");

struct bell {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, RT_PAGE_BYTES);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(__u32));
	__array(values, struct bell);
} bells SEC(".maps");

struct ring {
	struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	__u32 cpu;
};

/* A place that is ours until ring_commit(). */
struct reservation {
	struct rt_record *record;
	__u64 pos;
	__u64 end;
	__u64 time_ns;
};

/* What is no position: those are multiples of 8. */
#define RING_NO_PLACE		(~0ULL)
#define RING_INTERRUPTED	(~1ULL)	/* another reserved meanwhile */

#define SUBBUF_RECORD_BYTES (RT_RECORD_HEADER_BYTES + sizeof(struct rt_subbuf))

inlined bool ring_of_this_cpu(struct ring *ring)
{
	__u32 cpu = bpf_get_smp_processor_id();

	ring->cpu = cpu;
	ring->producer = bpf_map_lookup_elem(&rings, &cpu);
	ring->consumer = bpf_map_lookup_elem(&consumers, &cpu);
	return ring->producer && ring->consumer;
}

inlined void *ring_place(const struct ring *ring, __u64 pos)
{
	return (void *)ring->producer + RT_PAGE_BYTES + (pos & ring_place_mask);
}

/*
 * The commit: everything written before it is seen by whoever sees it. Partner: the acquire load
 * of `commit` in ring_reader_next(). x86 keeps stores in order: only the compiler must be stopped.
 */
inlined void ring_publish(const struct ring *ring, struct rt_record *record, __u64 pos, __u32 words,
			  __u32 probe)
{
	__u64 commit = rt_record_commit(pos, ring->producer->key, words, probe);

#if defined(__TARGET_ARCH_x86)
	barrier();
	write_once(record->commit, commit);
#else
	__sync_lock_test_and_set(&record->commit, commit);
#endif
}

/*
 * Whether `end` is within a lap of the consumer. Its page is read only when the position we last
 * believed does not do. What it says is a stranger's word: read once, then believed only if it lies
 * between the last one and what is reserved by now. That may be more than `pos`, if others nested
 * inside us; then the swap will fail, and the distance is negative rather than huge.
 */
inlined bool ring_has_room(const struct ring *ring, __u64 end)
{
	struct rt_ring_producer *producer = ring->producer;
	__u64 seen = read_once(producer->consumer_pos_seen);
	__u64 consumer_pos;

	if (likely((__s64)(end - seen) <= (__s64)ring_size))
		return true;
	consumer_pos = read_once(ring->consumer->consumer_pos);
	barrier();
	if ((consumer_pos & 7) || consumer_pos - seen > read_once(producer->producer_pos) - seen) {
		__sync_fetch_and_add(&producer->consumer_bad, 1);
		return false;
	}
	/* One that nests inside us may have stored a newer one: the older only costs a look. */
	write_once(producer->consumer_pos_seen, consumer_pos);
	return (__s64)(end - consumer_pos) <= (__s64)ring_size;
}

/*
 * Partner: the reader's acquire of lost_total. Who sees a sum finds its reasons counted, and what was
 * reserved before it.
 */
inlined void ring_count_lost(struct rt_ring_producer *producer, __u32 reason)
{
	__sync_fetch_and_add(&producer->lost[reason & (RT_LOST_REASONS - 1)], 1);
	ordered();
	__sync_fetch_and_add(&producer->lost_total, 1);
}

/* Counts what is lost on this CPU's ring. */
verified_once bool ring_lose(__u32 reason)
{
	struct ring ring;

	if (!ring_of_this_cpu(&ring))
		return false;
	ring_count_lost(ring.producer, reason);
	return true;
}

/* Fills the end of one sub-buffer and the head of the next; returns where the record goes. */
inlined __u64 ring_cross(const struct ring *ring, __u64 pos, __u64 start, __u64 now, __u64 lost)
{
	struct rt_record *record;
	struct rt_subbuf *subbuf;

	if (start != pos)
		ring_publish(ring, ring_place(ring, pos), pos, (start - pos) / 8, RT_PROBE_PAD);
	record = ring_place(ring, start);
	subbuf = (void *)record->payload;
	record->time_ns = now;
	record->tid = 0;
	record->lost = lost;
	subbuf->pos = start;
	subbuf->records = 0;
	subbuf->lost_total = lost;
	ring_publish(ring, record, start, SUBBUF_RECORD_BYTES / 8, RT_PROBE_SUBBUF);
	return start + SUBBUF_RECORD_BYTES;
}

/* One try of ring_reserve_slowly(). It calls none: the kernel allows eight calls inside each other. */
verified_once __u64 ring_try(__u32 bytes, __u32 tid)
{
	struct rt_record *record;
	struct ring ring;
	__u64 lost, pos, at, start, end, now;
	bool crosses;

	if (!ring_of_this_cpu(&ring))
		return RING_NO_PLACE;
	lost = read_once(ring.producer->lost_total);
	pos = start = read_once(ring.producer->producer_pos);
	end = pos + bytes;
	at = pos & subbuf_mask;
	crosses = !at || at + bytes > subbuf_mask + 1;
	if (crosses) {
		start = (pos + subbuf_mask) & ~subbuf_mask;
		end = start + SUBBUF_RECORD_BYTES + bytes;
	}
	if (!ring_has_room(&ring, end)) {
		ring_count_lost(ring.producer, RT_LOST_FULL);
		return RING_NO_PLACE;
	}
	now = bpf_ktime_get_ns();
	if (__sync_val_compare_and_swap(&ring.producer->producer_pos, pos, end) != pos)
		return RING_INTERRUPTED;
	if (crosses)
		start = ring_cross(&ring, pos, start, now, lost);
	record = ring_place(&ring, start);
	record->time_ns = now;
	record->tid = tid;
	record->lost = lost;
	return start;
}

/*
 * Reserves `bytes`, a multiple of 8 and at most RT_RECORD_BYTES_MAX, on this CPU's ring and writes
 * the record's header but for `commit`. The clock is read between the look at producer_pos and its
 * swap, so that the order of records is the order of their times. Returns the record's position or
 * RING_NO_PLACE, with the loss counted.
 */
verified_once __u64 ring_reserve_slowly(__u32 bytes, __u32 tid)
{
	for (int tries = 0; tries < RT_RESERVE_TRIES; tries++) {
		__u64 pos = ring_try(bytes, tid);

		if (pos != RING_INTERRUPTED)
			return pos;
	}
	ring_lose(RT_LOST_NEST);
	return RING_NO_PLACE;
}

/*
 * The common case, with nothing in it that a plain record does not need: inside a
 * sub-buffer, with room by the consumer position already believed, at the first try. False: nothing
 * was done; ring_reserve_slowly() knows the rest.
 */
inlined bool ring_reserve_plainly(const struct ring *ring, __u64 bytes, __u32 tid,
				  struct reservation *place)
{
	struct rt_ring_producer *producer = ring->producer;
	__u64 pos = read_once(producer->producer_pos);
	__u64 mask = subbuf_mask, lost, now;

	/* At 0 a sub-buffer begins: that is the largest of differences. */
	if (unlikely((pos & mask) - 8 > mask + 1 - 8 - bytes))
		return false;
	if (unlikely((__s64)(pos + bytes - read_once(producer->consumer_pos_seen)) >
		     (__s64)ring_size))
		return false;
	now = bpf_ktime_get_ns();
	lost = read_once(producer->lost_total);
	if (unlikely(__sync_val_compare_and_swap(&producer->producer_pos, pos, pos + bytes) != pos))
		return false;
	place->record = ring_place(ring, pos);
	place->pos = pos;
	place->end = pos + bytes;
	place->time_ns = now;
	place->record->time_ns = now;
	place->record->tid = tid;
	place->record->lost = lost;
	return true;
}

/* Reserves `bytes` as ring_reserve_slowly() says. False: there was no room, and that is counted. */
inlined bool ring_reserve(const struct ring *ring, __u32 bytes, __u32 tid,
			  struct reservation *place)
{
	if (likely(ring_reserve_plainly(ring, bytes, tid, place)))
		return true;
	place->pos = ring_reserve_slowly(bytes, tid);
	if (place->pos == RING_NO_PLACE)
		return false;
	place->record = ring_place(ring, place->pos);
	place->end = place->pos + bytes;
	place->time_ns = place->record->time_ns;
	return true;
}

/*
 * Wakes the reader, once for each bell_at. It counts as answered only when the bell did ring: in an
 * NMI it may be busy, and the next record tries again.
 */
verified_once bool ring_bell(__u64 bell_at)
{
	__u64 nothing = 0;
	struct ring ring;
	void *bell;

	if (!ring_of_this_cpu(&ring))
		return false;
	bell = bpf_map_lookup_elem(&bells, &ring.cpu);
	if (!bell || bpf_ringbuf_output(bell, &nothing, sizeof(nothing), BPF_RB_FORCE_WAKEUP))
		return false;
	write_once(ring.producer->bell_answered, bell_at);
	__sync_fetch_and_add(&ring.producer->bells, 1);
	return true;
}

/*
 * Publishes a record whose payload is written. The compare-and-swap of its reservation is the full
 * barrier between our producer_pos and the look at bell_at; partner: ring_reader_arm(), which sets
 * bell_at, passes a full barrier, and looks at producer_pos.
 */
inlined void ring_commit(const struct ring *ring, const struct reservation *place, __u64 bytes,
			 __u32 probe)
{
	__u64 bell_at;

	ring_publish(ring, place->record, place->pos, bytes / 8, probe);
	bell_at = read_once(ring->consumer->bell_at);
	if (unlikely(place->end >= bell_at && ring->producer->bell_answered != bell_at))
		ring_bell(bell_at);
}

/* Where the events of a probe are counted on this CPU. */
inlined struct rt_counted *ring_counted(const struct ring *ring, __u64 place)
{
	barrier_var(place);
	return (void *)ring->producer + RT_PAGE_BYTES + ring_size + RT_PAGE_BYTES +
	       (place & (RT_COUNTED_PLACES - 1)) * sizeof(struct rt_counted);
}

/* An event of one of these probes is lost here. False: there was no room to say of which, and that is counted. */
verified_once bool ring_lose_of(__u32 first, __u32 last, __u32 reason)
{
	__u32 bytes = RT_RECORD_HEADER_BYTES + 8 * RT_LOSS_WORDS;
	struct reservation place;
	struct rt_loss *loss;
	struct ring ring;

	if (!ring_of_this_cpu(&ring) || !ring_reserve(&ring, bytes, 0, &place))
		return false;
	loss = (void *)place.record->payload;
	loss->first = first;
	loss->last = last;
	loss->reason = reason;
	ring_commit(&ring, &place, bytes, RT_PROBE_LOSS);
	return true;
}

#endif
