// SPDX-License-Identifier: GPL-2.0-only
/*
 * ring: see ring.h; docs/ring-abi.md has the whole argument. In short:
 *
 * A writer reads producer_pos, sees whether its record fits, reads the clock and swaps
 * producer_pos. A context that nested inside and reserved makes the swap fail, and all of it is
 * done again, so that order of time is order of place. Space between two positions has exactly one
 * owner, who writes it in any order and publishes each record by the release store of its first
 * word.
 */
#include "ring.h"

#include <linux/cpumask.h>
#include <linux/eventfd.h>
#include <linux/random.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

#include "kmod/uapi/ringtail_ioctl.h"

static_assert(PAGE_SIZE == RT_PAGE_BYTES);
static_assert(sizeof(struct rt_record) == RT_RECORD_HEADER_BYTES);
static_assert(sizeof(struct rt_ring_producer) <= RT_PAGE_BYTES);
static_assert(sizeof(local64_t) == sizeof(u64));

#define SUBBUF_WORDS ((RT_RECORD_HEADER_BYTES + sizeof(struct rt_subbuf)) / 8)

/* Where a record would go: [filler][sub-buffer header] record, from `head` to `end`. */
struct place {
	u64 head;
	u64 subbuf;		/* where the sub-buffer header goes, if has_subbuf */
	u64 record;
	u64 end;
	bool has_subbuf;
};

static void bell_work(struct irq_work *work)
{
	struct rt_ring *ring = container_of(work, struct rt_ring, bell);

	ring->rung(ring);
}

static void init_page(struct rt_ring *ring)
{
	struct rt_ring_producer *page = ring->page;

	page->version = RT_ABI_VERSION;
	page->cpu = ring->cpu;
	page->size_bytes = ring->size_bytes;
	page->subbuf_bytes = ring->subbuf_bytes;
	page->key = ring->key;
	page->policy = ring->policy;
	page->state = RT_RING_RUNNING;
	ring->consumer->bell_at = RT_BELL_NEVER;
	page->bell_answered = RT_BELL_NEVER;
	/* Pairs with whoever maps the page and looks for the magic first. */
	smp_store_release(&page->magic, RT_RING_MAGIC);
}

struct rt_ring *rt_ring_create(u32 cpu, const struct rt_geometry *geometry,
			       void (*rung)(struct rt_ring *ring), struct rt_consumer *owner)
{
	u64 subbufs = geometry->size_bytes / geometry->subbuf_bytes;
	struct rt_ring *ring = kzalloc_node(sizeof(*ring), GFP_KERNEL, cpu_to_node(cpu));

	if (!ring)
		return NULL;
	ring->cpu = cpu;
	ring->rung = rung;
	ring->owner = owner;
	ring->size_bytes = geometry->size_bytes;
	ring->subbuf_bytes = geometry->subbuf_bytes;
	ring->subbuf_shift = ilog2(geometry->subbuf_bytes);
	ring->policy = geometry->policy;
	ring->key = get_random_u64() & RT_TAG_MASK;
	init_irq_work(&ring->bell, bell_work);
	ring->page = vmalloc_user(RT_RING_MAP_BYTES(geometry->size_bytes));
	ring->consumer = vmalloc_user(RT_PAGE_BYTES);
	ring->committed = kvcalloc(subbufs, sizeof(*ring->committed), GFP_KERNEL);
	if (!ring->page || !ring->consumer || !ring->committed) {
		rt_ring_destroy(ring);
		return NULL;
	}
	ring->data = (u8 *)ring->page + RT_PAGE_BYTES;
	init_page(ring);
	return ring;
}

void rt_ring_destroy(struct rt_ring *ring)
{
	if (!ring)
		return;
	irq_work_sync(&ring->bell);
	if (ring->eventfd)
		eventfd_ctx_put(ring->eventfd);
	kvfree(ring->committed);
	vfree(ring->consumer);
	vfree(ring->page);
	kfree(ring);
}

void rt_ring_clear(struct rt_ring *ring)
{
	u64 pos = ring->page->producer_pos;

	/* What is skipped was written whole: nobody writes now. The reader goes on at the end. */
	ring->page->consumer_pos_seen = pos;
	WRITE_ONCE(ring->consumer->consumer_pos, pos);
	ring->floor = pos;
	rt_ring_resume(ring);
}

void rt_ring_resume(struct rt_ring *ring)
{
	WRITE_ONCE(ring->page->state, RT_RING_RUNNING);
}

u64 rt_ring_unread(const struct rt_ring *ring)
{
	u64 consumer_pos = READ_ONCE(ring->consumer->consumer_pos);
	u64 unread = READ_ONCE(ring->page->producer_pos) - consumer_pos;

	/* A position from nowhere makes for a reader that is woken in vain, and nothing else. */
	return unread > ring->size_bytes && ring->policy != RT_POLICY_OVERWRITE ? 0 : unread;
}

bool rt_ring_bell_due(const struct rt_ring *ring)
{
	return READ_ONCE(ring->page->producer_pos) >= READ_ONCE(ring->consumer->bell_at);
}

static struct place place_of(const struct rt_ring *ring, u64 head, u32 bytes, u32 room)
{
	u64 at = head & (ring->subbuf_bytes - 1);
	struct place place = {.head = head, .subbuf = head, .record = head};

	if (at == 0 || at + room > ring->subbuf_bytes) {
		place.subbuf = at ? head - at + ring->subbuf_bytes : head;
		place.record = place.subbuf + SUBBUF_WORDS * 8;
		place.has_subbuf = true;
	}
	place.end = place.record + bytes;
	return place;
}

/* A position is taken only if it is aligned and lies between the last one and what has been reserved. */
static bool is_believable(u64 pos, u64 seen, u64 head)
{
	return !(pos & 7) && pos - seen <= head - seen;
}

u64 rt_ring_consumer_pos(const struct rt_ring *ring)
{
	u64 seen = READ_ONCE(ring->page->consumer_pos_seen);
	u64 pos = READ_ONCE(ring->consumer->consumer_pos);

	return is_believable(pos, seen, READ_ONCE(ring->page->producer_pos)) ? pos : seen;
}

/* The last believable position of the consumer. Its page belongs to user space: the position is read once. */
static u64 refresh_consumer(struct rt_ring *ring)
{
	struct rt_ring_producer *page = ring->page;
	u64 seen = READ_ONCE(page->consumer_pos_seen);
	/* Pairs with the reader's release: it has finished with what it gives back. */
	u64 pos = smp_load_acquire(&ring->consumer->consumer_pos);
	u64 head = READ_ONCE(page->producer_pos);

	if (!is_believable(pos, seen, head)) {
		rt_ring_count(&page->consumer_bad);
		return seen;
	}
	/* A nested context may have gone further and be set back here, which costs a refresh. */
	WRITE_ONCE(page->consumer_pos_seen, pos);
	return pos;
}

static u64 used_after(struct rt_ring *ring, const struct place *place, u64 bound)
{
	u64 used = place->end - READ_ONCE(ring->page->consumer_pos_seen);

	return used > bound ? place->end - refresh_consumer(ring) : used;
}

/*
 * Entering a sub-buffer again takes that its last lap is committed whole: a writer that was
 * interrupted in there would write over what is new.
 */
static bool lap_is_whole(const struct rt_ring *ring, const struct place *place)
{
	u64 index = (place->subbuf & (ring->size_bytes - 1)) >> ring->subbuf_shift;
	u64 lap = place->subbuf / ring->size_bytes;

	return local64_read(&ring->committed[index]) == lap << ring->subbuf_shift;
}

static enum rt_reserve ask_policy(struct rt_ring *ring, const struct place *place)
{
	switch (ring->policy) {
	case RT_POLICY_OVERWRITE:
		return place->has_subbuf && !lap_is_whole(ring, place) ?
			RT_RESERVE_LOST + RT_LOST_BUSY : RT_RESERVE_OK;
	case RT_POLICY_STOP:
		if (READ_ONCE(ring->page->state) == RT_RING_STOPPED)
			return RT_RESERVE_LOST + RT_LOST_STOPPED;
		fallthrough;
	case RT_POLICY_DROP:
	default:
		return used_after(ring, place, ring->size_bytes) > ring->size_bytes ?
			RT_RESERVE_LOST + RT_LOST_FULL : RT_RESERVE_OK;
	}
}

/* RT_POLICY_STOP: the record that leaves less than one sub-buffer free is the last one. */
static void stop_if_nearly_full(struct rt_ring *ring, const struct place *place)
{
	u64 bound = ring->size_bytes - ring->subbuf_bytes;

	if (used_after(ring, place, bound) <= bound)
		return;
	WRITE_ONCE(ring->page->state, RT_RING_STOPPED);
	rt_ring_count(&ring->page->bells);
	irq_work_queue(&ring->bell);
}

static u64 clock_of(struct rt_ring *ring)
{
	u64 now = ktime_get_mono_fast_ns();
	u64 last = READ_ONCE(ring->last_ns);

	/* The NMI-safe clock may step back by a little where its rate is adjusted. */
	if (now < last)
		now = last;
	WRITE_ONCE(ring->last_ns, now);
	return now;
}

/*
 * RT_POLICY_OVERWRITE keeps the number of records reserved up to a position, since the header of
 * each sub-buffer says how many came before. It cannot be swapped together with producer_pos, so
 * `counted` holds both {count, low bits of position} in one word, and whoever reserves next brings
 * it up to date first: it is never more than the one reservation behind that was interrupted
 * between its two swaps. The count's upper half follows in counted_base.
 */
static u64 counted_word(u64 count, u64 pos)
{
	return count << 32 | ((pos >> 3) & U32_MAX);
}

static void count_up(struct rt_ring *ring, u64 word, u64 pos)
{
	cmpxchg_local(&ring->counted, word, counted_word((word >> 32) + 1, pos));
}

/*
 * The word for `head`; or another, where a nested context was quicker: then the swap fails too.
 * That the word is behind is known only if `head` is still the producer's position once it was
 * read.
 */
static u64 counted_at(struct rt_ring *ring, u64 head)
{
	u64 word = READ_ONCE(ring->counted);

	barrier();
	if ((u32)word == (u32)(head >> 3) || READ_ONCE(ring->page->producer_pos) != head)
		return word;
	count_up(ring, word, head);
	return READ_ONCE(ring->counted);
}

static u64 records_before(struct rt_ring *ring, u64 word)
{
	u64 base = READ_ONCE(ring->counted_base);
	/* In the other policies all of it is 0, and stays 0. */
	u64 count = base + (u32)((u32)(word >> 32) - (u32)base);

	/* Written once a sub-buffer; an older value than the newest does as well. */
	WRITE_ONCE(ring->counted_base, count);
	return count;
}

static void publish(struct rt_ring *ring, struct rt_record *record, u64 pos, u32 words, u32 probe)
{
	/* Pairs with the reader's acquire of commit: the rest of the record is there. */
	smp_store_release(&record->commit, rt_record_commit(pos, ring->key, words, probe));
	if (ring->policy == RT_POLICY_OVERWRITE)
		local64_add((u64)words * 8,
			    &ring->committed[(pos & (ring->size_bytes - 1)) >> ring->subbuf_shift]);
}

static void write_header(struct rt_record *record, u64 time_ns, u32 tid, u64 lost)
{
	record->time_ns = time_ns;
	record->tid = tid;
	record->lost = (u32)lost;
}

/* Fillers up to the end of a sub-buffer: one, or two where one record's length is not enough. */
static void write_filler(struct rt_ring *ring, u64 pos, u64 end, u64 time_ns, u64 lost)
{
	while (pos < end) {
		u32 words = min_t(u64, (end - pos) / 8, RT_RECORD_WORDS_MAX);
		struct rt_record *record = rt_ring_at(ring, pos);

		if (words >= RT_RECORD_HEADER_BYTES / 8)
			write_header(record, time_ns, 0, lost);
		publish(ring, record, pos, words, RT_PROBE_PAD);
		pos += (u64)words * 8;
	}
}

static void write_subbuf(struct rt_ring *ring, u64 pos, u64 time_ns, u64 lost, u64 records)
{
	struct rt_record *record = rt_ring_at(ring, pos);
	struct rt_subbuf *subbuf = (struct rt_subbuf *)record->payload;

	write_header(record, time_ns, 0, lost);
	subbuf->pos = pos;
	subbuf->records = records;
	subbuf->lost_total = lost;
	publish(ring, record, pos, SUBBUF_WORDS, RT_PROBE_SUBBUF);
}

enum rt_reserve rt_ring_reserve(struct rt_ring *ring, u32 words, u32 room_words, u64 subbuf,
				struct rt_reservation *reservation)
{
	struct rt_ring_producer *page = ring->page;
	u64 time_ns, lost, counted = 0;
	struct place place;
	enum rt_reserve refused;
	int try;

	for (try = 0; try < RT_RESERVE_TRIES; try++) {
		u64 head = READ_ONCE(page->producer_pos);

		place = place_of(ring, head, words * 8, room_words * 8);
		if (subbuf != RT_SUBBUF_ANY && place.record >> ring->subbuf_shift != subbuf)
			return RT_RESERVE_ELSEWHERE;
		refused = ask_policy(ring, &place);
		if (refused)
			return refused;
		if (ring->policy == RT_POLICY_OVERWRITE)
			counted = counted_at(ring, head);
		lost = READ_ONCE(page->lost_total);
		time_ns = clock_of(ring);
		if (cmpxchg_local(&page->producer_pos, head, place.end) == head)
			goto reserved;
	}
	return RT_RESERVE_LOST + RT_LOST_NEST;

reserved:
	if (ring->policy == RT_POLICY_OVERWRITE) {
		count_up(ring, counted, place.end);
		/* Pairs with the reader's barrier between its copy and its look at producer_pos. */
		smp_wmb();
	} else if (ring->policy == RT_POLICY_STOP) {
		stop_if_nearly_full(ring, &place);
	}
	if (unlikely(place.has_subbuf)) {
		write_filler(ring, place.head, place.subbuf, time_ns, lost);
		write_subbuf(ring, place.subbuf, time_ns, lost, records_before(ring, counted));
	}
	reservation->record = rt_ring_at(ring, place.record);
	reservation->pos = place.record;
	reservation->time_ns = time_ns;
	reservation->words = words;
	write_header(reservation->record, time_ns, 0, lost);
	return RT_RESERVE_OK;
}

/*
 * The bell. Whoever arms it looks at producer_pos once more after a full barrier, and here is none:
 * it would cost every record what a lost bell costs once. So the bell may be late by one record of
 * this CPU, or by the consumer's wake interval, never for ever.
 */
static void ring_bell_if_due(struct rt_ring *ring)
{
	struct rt_ring_producer *page = ring->page;
	u64 bell_at = READ_ONCE(ring->consumer->bell_at);

	if (likely(READ_ONCE(page->producer_pos) < bell_at || page->bell_answered == bell_at))
		return;
	WRITE_ONCE(page->bell_answered, bell_at);
	rt_ring_count(&page->bells);
	irq_work_queue(&ring->bell);
}

void rt_ring_commit(struct rt_ring *ring, const struct rt_reservation *reservation, u32 probe)
{
	publish(ring, reservation->record, reservation->pos, reservation->words, probe);
	local64_inc(&ring->records);
	ring_bell_if_due(ring);
}

void rt_ring_lose(struct rt_ring *ring, enum rt_reserve refused)
{
	rt_ring_count(&ring->page->lost[refused - RT_RESERVE_LOST]);
	/*
	 * Pairs with the reader's acquire of lost_total: who sees a sum finds its reasons counted, and
	 * what was reserved before it.
	 */
	smp_wmb();
	rt_ring_count(&ring->page->lost_total);
}
