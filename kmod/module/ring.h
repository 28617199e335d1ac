/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ring: one CPU's ring of kmod/uapi/ringtail.h, as its producer sees it.
 *
 * Made and freed in process context. Everything between rt_ring_reserve() and rt_ring_commit() runs
 * on the ring's own CPU with preemption off, in any context, NMI included: contexts nest last-in
 * first-out and meet nothing but each other, so compare-and-swap needs no lock prefix.
 */
#ifndef RT_RING_H
#define RT_RING_H

#include <linux/irq_work.h>
#include <linux/types.h>
#include <asm/local64.h>

#include "kmod/uapi/ringtail.h"

struct eventfd_ctx;
struct rt_consumer;
struct rt_thread_cache;

/* What comes of an attempt to reserve: a place, or why there is none. */
enum rt_reserve {
	RT_RESERVE_OK,
	RT_RESERVE_ELSEWHERE,	/* the wanted sub-buffer has no room: try again, in the next */
	RT_RESERVE_LOST,	/* + enum rt_lost */
};

struct rt_geometry {
	u64 size_bytes;
	u64 subbuf_bytes;
	enum rt_policy policy;
};

struct rt_ring {
	/* Set when made, then only read. User space sees copies, which nothing here reads back. */
	struct rt_ring_producer *page;	/* RT_RING_MAP_BYTES of vmalloc_user(), mapped read-only */
	u8 *data;			/* one page after it */
	struct rt_ring_consumer *consumer;	/* a page of vmalloc_user(), mapped writable */
	u64 size_bytes;
	u64 subbuf_bytes;
	u64 key;
	enum rt_policy policy;
	u32 cpu;
	u32 subbuf_shift;
	u64 floor;			/* rt_ring_clear() left nothing before it */

	/* Owned by this CPU's contexts. */
	u64 last_ns;			/* no record is older than the one before it */
	local64_t records;		/* committed; of the ring's own only those that count */
	u64 counted;			/* RT_POLICY_OVERWRITE: {records reserved, position} */
	u64 counted_base;
	local64_t *committed;		/* RT_POLICY_OVERWRITE: bytes ever, of each sub-buffer */
	struct rt_thread_cache *threads;	/* thread.c's; NULL: it introduces nobody */

	/* The bell. */
	struct irq_work bell;
	void (*rung)(struct rt_ring *ring);	/* in any context but an NMI */
	struct rt_consumer *owner;		/* for whoever has rung */
	struct eventfd_ctx *eventfd;	/* set under owner->rings_lock */
};

/* What reserve hands to commit: a record's place. */
struct rt_reservation {
	struct rt_record *record;
	u64 pos;
	u64 time_ns;
	u32 words;
};

/* Asks for any sub-buffer, in rt_ring_reserve(). */
#define RT_SUBBUF_ANY		(~0ULL)
/* NULL when out of memory. May sleep. */
struct rt_ring *rt_ring_create(u32 cpu, const struct rt_geometry *geometry,
			       void (*rung)(struct rt_ring *ring), struct rt_consumer *owner);
/* Nothing may write any more. Pages that are mapped live on until they are unmapped. */
void rt_ring_destroy(struct rt_ring *ring);

/* Empties a ring that nobody writes to and user space has not mapped; what was lost stays lost. */
void rt_ring_clear(struct rt_ring *ring);
/* Lets a ring that RT_POLICY_STOP had stopped go on. */
void rt_ring_resume(struct rt_ring *ring);

/*
 * Takes a place for a record of `words`, header included. `room_words`, at least as many, must be
 * free in the same sub-buffer, or the record goes to the next; `subbuf`: only there, or
 * RT_SUBBUF_ANY. Header, time and losses are written; the caller writes tid and payload, all of it.
 * A loss is the caller's to count, by rt_ring_lose().
 */
enum rt_reserve rt_ring_reserve(struct rt_ring *ring, u32 words, u32 room_words, u64 subbuf,
		    struct rt_reservation *reservation);

void rt_ring_commit(struct rt_ring *ring, const struct rt_reservation *reservation, u32 probe);

/* Counts an attempt that left no record. */
void rt_ring_lose(struct rt_ring *ring, enum rt_reserve refused);

/* The sub-buffer where a record of `words` would go now, counted from the ring's first ever. */
static inline u64 rt_ring_subbuf(const struct rt_ring *ring, u32 words)
{
	return (READ_ONCE(ring->page->producer_pos) + words * 8 - 1) >> ring->subbuf_shift;
}

static inline void *rt_ring_at(const struct rt_ring *ring, u64 pos)
{
	return ring->data + (pos & (ring->size_bytes - 1));
}

/* A cold counter of the page: one instruction, so that a nested context cannot be lost in it. */
static inline void rt_ring_count(u64 *counter)
{
	local64_inc((local64_t *)counter);
}

/* Whether anything is unread, and how much at most; user space's position is taken as it is. */
u64 rt_ring_unread(const struct rt_ring *ring);
/* Where read(2) goes on: user space's position, or the last believable one. */
u64 rt_ring_consumer_pos(const struct rt_ring *ring);
/* Whether the bell that user space asked for is due. */
bool rt_ring_bell_due(const struct rt_ring *ring);

#endif
