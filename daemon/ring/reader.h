/*
 * ring_reader: takes records out of one ring of kmod/uapi/ringtail.h, in order, and numbers them.
 *
 * In: a mapped ring. Out: records and losses, as data, in the order of the attempts. One thread owns
 * a reader. Records are borrowed from the ring until ring_reader_release().
 */
#ifndef RINGTAIL_DAEMON_RING_READER_H
#define RINGTAIL_DAEMON_RING_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmod/uapi/ringtail.h"
#include "proto/losses.h"
#include "query/error.h"

#define RING_SUBBUFS_MIN 4

/* A mapped ring's description of itself, checked once and copied: nothing reads it in shared memory again. */
struct ring_geometry {
	uint64_t size_bytes, subbuf_bytes;
	uint64_t key;			/* its bits of RT_TAG_MASK */
	enum rt_policy policy;
	uint32_t cpu;
	uint64_t consumer_pos;		/* where an earlier reader stopped; 0 in a fresh ring */
	uint32_t counted_places;	/* struct rt_counted behind the slack */
};

/* map: producer page, data and slack. -EPROTO with *error if they are no ring of this ABI. */
int ring_geometry_read(const void *map, size_t map_bytes, const struct rt_ring_consumer *consumer,
		       struct ring_geometry *geometry, struct error *error);

struct ring_reader;

enum ring_read {
	RING_EMPTY,		/* nothing committed; also where a writer is unfinished */
	RING_RECORD,
	RING_LOST,		/* attempts that left no record stand here */
	RING_CORRUPT,		/* the ring breaks its own rules; every later call returns this, too */
};

struct ring_item {
	uint64_t seq;		/* record: its number; lost: the first of them */
	/* record */
	uint64_t time_ns;
	uint32_t tid;
	uint16_t probe;
	uint16_t words;		/* of payload */
	const uint64_t *payload;
	/* lost */
	uint64_t count;
	enum rt_lost reason;
};

/*
 * Since this reader was made, whatever an earlier one has read. The terms come from three places that do
 * not know of each other: the reader's reports (`lost`), the ring's counter of each reason (the losses in
 * `produced`), and its lost_total (those in `in_flight`). So that
 *
 *	produced = records + sum of lost + in_flight
 *
 * can fail, where the reader misses or doubles a loss, or the producer counts it in one place only.
 */
struct ring_usage {
	uint64_t produced;	/* records, unread, and what the producer counts as lost */
	uint64_t records;	/* read (the ring's own among them; fillers are no attempts) */
	uint64_t lost[RT_LOST_REASONS];	/* reported as RING_LOST */
	uint64_t unread;	/* attempts between reader and producer, counted as ring_unread_count() says */
	uint64_t in_flight;	/* unread, and what is lost and not reported yet */
	uint64_t unread_bytes;	/* reserved and not released */
	uint64_t size_bytes;
	uint64_t torn;		/* RT_POLICY_OVERWRITE: copies thrown away because they were lapped */

	/* The ring's own, since it was made: of what never was an attempt. */
	uint64_t foreign, unpaired, faults, consumer_bad;
};

/* Why a loss of the ring is lost, as everywhere behind it. Its inverse; what no ring loses for is full. */
enum loss_reason ring_loss_reason(enum rt_lost lost);
enum rt_lost ring_lost_for(uint32_t reason);

/*
 * map: producer page, data and slack, map_bytes long; consumer: its page, writable. Both borrowed.
 * -EPROTO with *error if it is not a ring of this ABI.
 */
int ring_reader_create(const void *map, size_t map_bytes, struct rt_ring_consumer *consumer,
		       struct ring_reader **reader, struct error *error);
void ring_reader_destroy(struct ring_reader *reader);

/* The next item; RT_PROBE_PAD and RT_PROBE_SUBBUF are passed over and never seen outside. */
enum ring_read ring_reader_next(struct ring_reader *reader, struct ring_item *item);

/* Events of one probe that the producer has counted instead of recording them: as many attempts. */
struct ring_counted {
	uint16_t probe;
	uint64_t good, bad;	/* as in struct rt_counted */
};

/* Looks after the probe's count from now on; true if the producer may count it. */
bool ring_reader_watch_counted(struct ring_reader *reader, uint16_t probe);
void ring_reader_unwatch_counted(struct ring_reader *reader);	/* after none any more */

/*
 * What is new in the counts that are watched: `max` probes at most; returns how many. Its attempts are numbered behind
 * those that were read. An event may be counted before a record that is read already, or after one that is not.
 */
uint32_t ring_reader_take_counted(struct ring_reader *reader, struct ring_counted *counted, uint32_t max);

/* Attempts that were counted while nobody read the ring, of whatever probes: numbered now. 0 the second time. */
uint64_t ring_reader_take_counted_before(struct ring_reader *reader);

/* Gives what was read back to the producer, and leaves word for a later reader of how far it is. */
void ring_reader_release(struct ring_reader *reader);

/*
 * Asks for a bell once `bytes` more than the consumer position are reserved (at least 1). False if
 * they already are, and nobody will ring: read on, or come back soon.
 */
bool ring_reader_arm(struct ring_reader *reader, uint64_t bytes);
void ring_reader_disarm(struct ring_reader *reader);

/* Whether something is reserved that was not read. */
bool ring_reader_pending(const struct ring_reader *reader);

/* Where it stands: as long as that does not change, nothing was read. */
uint64_t ring_reader_pos(const struct ring_reader *reader);

/* The number of the next attempt. */
uint64_t ring_reader_seq(const struct ring_reader *reader);

/*
 * Within what its numbers hold: that of the earlier reader that this one goes on from, or 0 where
 * there was none, or it has left no word that can be true. Set it before the first record is read.
 */
uint64_t ring_reader_epoch(const struct ring_reader *reader);
void ring_reader_set_epoch(struct ring_reader *reader, uint64_t epoch);

/* Walks over what is unread, UNREAD_LOOKS_MAX at most: for once a pass. */
void ring_reader_usage(const struct ring_reader *reader, struct ring_usage *usage);
uint32_t ring_reader_cpu(const struct ring_reader *reader);

/* After RING_CORRUPT: which CPU's ring, which rule, at which position. NULL before. Borrowed. */
const char *ring_reader_error(const struct ring_reader *reader);

/*
 * A reader leaves its place in the consumer page, so that the next reader continues to count there,
 * however this one ended: two notes, written in turn (struct rt_ring_note).
 */

/* No ring makes as many attempts in a hundred years: one that says so is wrong. */
#define RING_SEQ_MAX (1ull << 62)

/* Puts down what belongs to note->pos, which is to become consumer_pos next, or is it. */
void ring_note_write(struct rt_ring_consumer *consumer, const struct rt_ring_note *note);

/*
 * The note that belongs to `pos`, the consumer_pos. False: there is none, or none that can be true of
 * a ring that has lost `lost_total` by now: nobody knows how its attempts were numbered.
 */
bool ring_note_read(const struct rt_ring_consumer *consumer, uint64_t pos, uint64_t lost_total,
		    struct rt_ring_note *note);

/* A part of a ring that was not read yet: from the reader's place to what is reserved. */
struct ring_span {
	const uint8_t *data;		/* the ring's, size_bytes long; borrowed */
	uint64_t size_bytes;
	uint64_t key;
	uint64_t pos, end;		/* at most size_bytes apart */
};

/*
 * Attempts in the span that have a record, or will have one, while producers run beside it; fillers and
 * heads of sub-buffers are none.
 * Exact, but for two cases, where it is too low: unfinished records that follow one another at once
 * count as one, since nothing tells how long they are; and it looks at `looks_max` places at most.
 */
uint64_t ring_unread_count(const struct ring_span *span, uint64_t looks_max);

#endif
