/* ring_reader_private: the inside of a reader, shared by ring_reader.c and ring_usage.c alone. */
#ifndef RINGTAIL_DAEMON_RING_READER_PRIVATE_H
#define RINGTAIL_DAEMON_RING_READER_PRIVATE_H

#include "daemon/ring/reader.h"

#define RING_CORRUPT_TEXT_BYTES	160

struct ring_reader {
	/* What the fast path needs, in one cache line. */
	const uint8_t *base;		/* the ring's data; `copy` where the oldest may go */
	uint64_t mask;			/* place of a position in `base` */
	uint64_t key;
	uint64_t pos;			/* of the next record */
	uint64_t limit;		/* what ends by here may be taken: reserved, in one sub-buffer */
	uint64_t seq;			/* of the next attempt */
	uint64_t lost_seen;		/* lost_total as far as it was located */
	const struct rt_ring_producer *producer;

	struct rt_ring_consumer *consumer;
	const uint8_t *data;
	uint64_t *copy;			/* RT_POLICY_OVERWRITE: one sub-buffer, and slack */
	uint64_t size_bytes, subbuf_bytes;
	uint64_t released;		/* our consumer_pos, */
	uint64_t released_seq;		/* and the attempt that is next there */
	uint64_t first_seq;		/* where this reader began to count */
	uint64_t epoch;			/* of its numbers; 0: nobody counted before */
	uint64_t owed;			/* counted by the ring, located, not reported yet */
	uint64_t missed;		/* overwritten before they were read, not reported yet */
	uint64_t charged[RT_LOST_REASONS];	/* of producer->lost[], how much was reported, */
	uint64_t charged_before;		/* and by the reader before this one */
	uint64_t lost[RT_LOST_REASONS];
	uint64_t overwritten;			/* of these, what was `missed` */
	uint64_t torn;
	enum rt_policy policy;
	uint32_t cpu;
	bool corrupt;
	char corrupt_text[RING_CORRUPT_TEXT_BYTES];
};

static inline uint64_t load_acquire(const __u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline uint64_t subbuf_end(const struct ring_reader *reader, uint64_t pos)
{
	return (pos | (reader->subbuf_bytes - 1)) + 1;
}

#endif
