/*
 * In: a ring in shared memory. Out: its records and losses,
 * numbered. On the one thread that owns the reader; the producer runs beside it in any context.
 *
 * Who meets whom (the argument is in docs/ring-abi.md):
 *
 *	here						the producer
 *	load acquire record.commit			store release record.commit, last of all
 *	load acquire producer_pos			compare-and-swap of producer_pos
 *	load acquire lost_total, then lost[]		adds to lost[reason], then to lost_total
 *	store release consumer_pos			load acquire consumer_pos, before reuse
 *		(a note for the next reader before it)
 *	load acquire of a struct rt_counted		adds to it
 *	store bell_at, full barrier, load producer_pos	swap of producer_pos (full), load bell_at
 *	copy with acquire loads, load producer_pos	swap of producer_pos, barrier, new bytes
 *
 * Geometry is copied and checked once; after that only `commit`, the positions and the counters are
 * read from shared memory, each once per use, and nothing read from there can lead an access out of
 * the mapping: a record lies within one sub-buffer, or the ring is corrupt.
 */
#include "daemon/ring/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "kmod/uapi/ringtail.h"

/* ---- Geometry -------------------------------------------------------------------------------- */

static bool is_power_of_two(uint64_t n)
{
	return n && !(n & (n - 1));
}

static int check_size(const struct ring_geometry *geometry, size_t map_bytes, struct error *error)
{
	uint64_t size = geometry->size_bytes, subbuf = geometry->subbuf_bytes;

	if (!is_power_of_two(size) || size < RT_RING_BYTES_MIN || size > RT_RING_BYTES_MAX)
		return error_set(error, EPROTO, "ring-geometry",
				 "a ring of %" PRIu64 " bytes: not a power of two from %u to %u",
				 size, RT_RING_BYTES_MIN, RT_RING_BYTES_MAX);
	if (!is_power_of_two(subbuf) || subbuf < RT_SUBBUF_BYTES_MIN ||
	    subbuf > size / RING_SUBBUFS_MIN)
		return error_set(error, EPROTO, "ring-geometry",
				 "sub-buffers of %" PRIu64 " bytes in a ring of %" PRIu64
				 ": not a power of two from %u to a quarter of it",
				 subbuf, size, RT_SUBBUF_BYTES_MIN);
	if (geometry->counted_places && geometry->counted_places != RT_COUNTED_PLACES)
		return error_set(error, EPROTO, "ring-geometry", "the ring has %" PRIu32 " counts, and not %u",
				 geometry->counted_places, RT_COUNTED_PLACES);
	if (map_bytes < RT_PAGE_BYTES + size + RT_PAGE_BYTES + (geometry->counted_places ? RT_COUNTED_BYTES : 0))
		return error_set(error, EPROTO, "ring-geometry",
				 "%zu bytes are mapped of a ring that has %" PRIu64
				 ", what is beside the data not counted", map_bytes, size);
	if (geometry->policy > RT_POLICY_STOP)
		return error_set(error, EPROTO, "ring-policy",
				 "the ring has an overflow policy that does not exist: %d",
				 (int)geometry->policy);
	if (geometry->cpu >= RT_CPUS_MAX)
		return error_set(error, EPROTO, "ring-cpu",
				 "the ring claims to be of CPU %" PRIu32 ", over the bound of %u",
				 geometry->cpu, RT_CPUS_MAX);
	return 0;
}

static int check_position(const struct ring_geometry *geometry, uint64_t produced,
			  struct error *error)
{
	uint64_t consumed = geometry->consumer_pos;
	bool kept = geometry->policy == RT_POLICY_OVERWRITE ||
		    produced - consumed <= geometry->size_bytes;

	if (consumed % 8 || produced % 8 || consumed > produced || !kept)
		return error_set(error, EPROTO, "ring-position",
				 "CPU %" PRIu32 "'s ring was read up to %" PRIu64
				 " and written up to %" PRIu64 ", which cannot both be true",
				 geometry->cpu, consumed, produced);
	return 0;
}

int ring_geometry_read(const void *map, size_t map_bytes, const struct rt_ring_consumer *consumer,
		       struct ring_geometry *geometry, struct error *error)
{
	const struct rt_ring_producer *producer = map;
	int err;

	if (map_bytes < RT_PAGE_BYTES || (uintptr_t)map % 8 || (uintptr_t)consumer % 8)
		return error_set(error, EPROTO, "ring-geometry",
				 "%zu bytes, or badly aligned, cannot be a ring", map_bytes);
	/* The magic is what a producer stores last. */
	if (__atomic_load_n(&producer->magic, __ATOMIC_ACQUIRE) != RT_RING_MAGIC)
		return error_set(error, EPROTO, "ring-foreign",
				 "the mapping is not a ring: it does not begin with the magic");
	if (producer->version != RT_ABI_VERSION)
		return error_set(error, EPROTO, "ring-version",
				 "the ring speaks ABI version %" PRIu32 ", this program %u",
				 producer->version, RT_ABI_VERSION);
	*geometry = (struct ring_geometry){
		.size_bytes = producer->size_bytes,
		.subbuf_bytes = producer->subbuf_bytes,
		.key = producer->key & RT_TAG_MASK,
		.policy = producer->policy,
		.cpu = producer->cpu,
		.counted_places = producer->counted_places > RT_COUNTED_PLACES ? UINT32_MAX :
				  (uint32_t)producer->counted_places,
		.consumer_pos = __atomic_load_n(&consumer->consumer_pos, __ATOMIC_ACQUIRE),
	};
	err = check_size(geometry, map_bytes, error);
	if (err)
		return err;
	return check_position(geometry, __atomic_load_n(&producer->producer_pos, __ATOMIC_ACQUIRE),
			      error);
}

#define BODY_BITS	24	/* of `commit` below its tag: words and probe */

static inline uint64_t load_acquire(const __u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* ---- What is unread -------------------------------------------------------------------------- */

/*
 * Where no record is committed, one is on its way, as long as it may be: each word behind it is tried,
 * until one carries the tag of its own place.
 *
 *	load acquire commit of a later record	store release commit, fillers and heads before it
 *
 * A place that was found unfinished is looked at again when something behind it is committed: it may
 * have been the filler or the head in front of just that, and is no attempt of its own.
 */

#define NOWHERE		UINT64_MAX

/* Words and probe of what is committed at a place; false: nothing is. */
static bool committed(const struct ring_span *span, uint64_t pos, uint64_t *body)
{
	const uint8_t *at = span->data + (pos & (span->size_bytes - 1));

	*body = __atomic_load_n((const __u64 *)at, __ATOMIC_ACQUIRE) ^
		rt_record_tag(pos, span->key);
	return !(*body >> BODY_BITS) && rt_commit_words(*body);
}

uint64_t ring_unread_count(const struct ring_span *span, uint64_t looks_max)
{
	uint64_t count = 0, unfinished = NOWHERE, pos = span->pos;

	for (uint64_t i = 0; i < looks_max && pos < span->end; i++) {
		uint64_t body, first;

		if (!committed(span, pos, &body)) {
			count += unfinished == NOWHERE;
			if (unfinished == NOWHERE)
				unfinished = pos;
			pos += 8;
			continue;
		}
		if (unfinished != NOWHERE) {
			if (committed(span, unfinished, &first)) {
				pos = unfinished;
				body = first;
				count--;
			}
			unfinished = NOWHERE;
		}
		count += rt_commit_probe(body) >= RT_PROBE_THREAD;
		pos += rt_commit_words(body) * 8;
	}
	return count;
}

/* ---- Notes for the next reader --------------------------------------------------------------- */

/*
 * The older note is overwritten. Between the two stores of its `pos` it fits no position; before
 * consumer_pos is stored the other one fits, and after it this one. Two that fit are of one position:
 * between them losses were counted, so the later one has the higher numbers, and either would do,
 * since losses are located again as they were. A process that is killed has done a first part of its
 * stores, so their order is all that counts: each is a release.
 */

static void store(__u64 *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

/* Of two notes, the one that is not newer. */
static struct rt_ring_note *older(struct rt_ring_note *a, struct rt_ring_note *b)
{
	uint64_t pos_a = load_acquire(&a->pos), pos_b = load_acquire(&b->pos);

	if (pos_a == RT_NOTE_UNFINISHED || pos_b == RT_NOTE_UNFINISHED)
		return pos_a == RT_NOTE_UNFINISHED ? a : b;
	if (pos_a != pos_b)
		return pos_a < pos_b ? a : b;
	return load_acquire(&a->seq) <= load_acquire(&b->seq) ? a : b;
}

void ring_note_write(struct rt_ring_consumer *consumer, const struct rt_ring_note *note)
{
	struct rt_ring_note *to = older(&consumer->note[0], &consumer->note[1]);

	store(&to->pos, RT_NOTE_UNFINISHED);
	store(&to->seq, note->seq);
	store(&to->lost_seen, note->lost_seen);
	store(&to->owed, note->owed);
	store(&to->missed, note->missed);
	store(&to->counted, note->counted);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		store(&to->charged[i], note->charged[i]);
	store(&to->pos, note->pos);
}

/* What a reader may have put down: its own sums close, and the ring has lost that much. */
static bool is_possible(const struct rt_ring_note *note, uint64_t lost_total)
{
	uint64_t charged = 0;

	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		charged += note->charged[i];
	return note->lost_seen <= lost_total && note->owed <= note->lost_seen &&
	       charged == note->lost_seen - note->owed && note->seq >= charged &&
	       note->seq <= RING_SEQ_MAX / 2;
}

bool ring_note_read(const struct rt_ring_consumer *consumer, uint64_t pos, uint64_t lost_total,
		    struct rt_ring_note *note)
{
	bool found = false;

	for (unsigned i = 0; i < 2; i++) {
		const struct rt_ring_note *from = &consumer->note[i];
		struct rt_ring_note mine = {.pos = load_acquire(&from->pos)};

		if (mine.pos != pos)
			continue;
		mine.seq = load_acquire(&from->seq);
		mine.lost_seen = load_acquire(&from->lost_seen);
		mine.owed = load_acquire(&from->owed);
		mine.missed = load_acquire(&from->missed);
		mine.counted = load_acquire(&from->counted);
		for (unsigned j = 0; j < RT_LOST_REASONS; j++)
			mine.charged[j] = load_acquire(&from->charged[j]);
		if (!is_possible(&mine, lost_total) || (found && mine.seq < note->seq))
			continue;
		*note = mine;
		found = true;
	}
	return found;
}

#define CORRUPT_TEXT_BYTES	160

/* The producer's counts of events that it did not record. */
struct counts {
	const struct rt_counted *place;	/* the ring's; NULL: it counts nothing */
	struct rt_counted *seen;	/* by place: what was numbered */
	uint16_t *watched;		/* probes, the first `watches` */
	uint32_t watches;
	uint64_t numbered;		/* of all places, by this reader and those before it */
	uint64_t before;		/* counted when nobody read, and not numbered yet */
};

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
	struct counts counts;
	enum rt_policy policy;
	uint32_t cpu;
	bool corrupt;
	char corrupt_text[CORRUPT_TEXT_BYTES];
};

static inline uint64_t subbuf_end(const struct ring_reader *reader, uint64_t pos)
{
	return (pos | (reader->subbuf_bytes - 1)) + 1;
}

#define READ_AHEAD_BYTES	512	/* records come from another CPU's cache: ask for them early */
#define HEADER_WORDS		(RT_RECORD_HEADER_BYTES / 8)
#define SUBBUF_WORDS		(HEADER_WORDS + sizeof(struct rt_subbuf) / 8)
#define COPY_TRIES		RING_SUBBUFS_MIN	/* each one lands a sub-buffer further on */
#define STEPS_MAX		32	/* of read_slowly: two fillers and a look again need 6 */
#define LOSERS_MAX		64	/* writers that may be between two counters */

/* ---- Creation -------------------------------------------------------------------------------- */

/* What was counted up to now is seen; how much that is. */
static uint64_t see_counts(struct counts *counts)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; counts->place && i < RT_COUNTED_PLACES; i++) {
		struct rt_counted now = {load_acquire(&counts->place[i].good), load_acquire(&counts->place[i].bad)};

		if (now.good || now.bad)	/* or memory would be touched for nothing */
			counts->seen[i] = now;
		sum += now.good + now.bad;
	}
	return sum;
}

/* Goes on counting where an earlier reader ended, if it has left word of it. */
static void continue_numbers(struct ring_reader *reader)
{
	uint64_t counted = see_counts(&reader->counts);
	struct rt_ring_note note;

	reader->counts.numbered = counted;
	if (!ring_note_read(reader->consumer, reader->pos,
			    load_acquire(&reader->producer->lost_total), &note) || note.counted > counted)
		return;
	reader->counts.numbered = note.counted;
	reader->counts.before = counted - note.counted;
	reader->epoch = load_acquire(&reader->consumer->epoch);
	reader->seq = reader->first_seq = reader->released_seq = note.seq;
	reader->lost_seen = note.lost_seen;
	reader->owed = note.owed;
	reader->missed = note.missed;
	memcpy(reader->charged, note.charged, sizeof(reader->charged));
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		reader->charged_before += note.charged[i];
}

static const enum loss_reason loss_reason[RT_LOST_REASONS] = {
	[RT_LOST_FULL] = LOSS_REASON_RING_FULL,
	[RT_LOST_NEST] = LOSS_REASON_NEST,
	[RT_LOST_STOPPED] = LOSS_REASON_STOPPED,
	[RT_LOST_BUSY] = LOSS_REASON_BUSY,
	[RT_LOST_REFUSED] = LOSS_REASON_REFUSED,
};

enum loss_reason ring_loss_reason(enum rt_lost lost)
{
	return lost < RT_LOST_REASONS ? loss_reason[lost] : LOSS_REASON_UNKNOWN;
}

enum rt_lost ring_lost_for(uint32_t reason)
{
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		if (reason && loss_reason[i] == reason)
			return i;
	return RT_LOST_FULL;
}

int ring_reader_create(const void *map, size_t map_bytes, struct rt_ring_consumer *consumer,
		       struct ring_reader **reader, struct error *error)
{
	struct ring_geometry geometry;
	struct ring_reader *r;
	int err = ring_geometry_read(map, map_bytes, consumer, &geometry, error);

	if (err)
		return err;
	r = calloc(1, sizeof(*r));
	if (!r)
		goto no_memory;
	r->producer = map;
	r->consumer = consumer;
	r->data = (const uint8_t *)map + RT_PAGE_BYTES;
	r->size_bytes = geometry.size_bytes;
	r->subbuf_bytes = geometry.subbuf_bytes;
	r->key = geometry.key;
	r->policy = geometry.policy;
	r->cpu = geometry.cpu;
	r->pos = r->limit = r->released = geometry.consumer_pos;
	r->base = r->data;
	r->mask = r->size_bytes - 1;
	if (r->policy == RT_POLICY_OVERWRITE) {
		r->copy = calloc(1, r->subbuf_bytes + RT_RECORD_HEADER_BYTES);
		if (!r->copy)
			goto free_reader;
		r->base = (const uint8_t *)r->copy;
		r->mask = r->subbuf_bytes - 1;
	}
	if (geometry.counted_places) {
		r->counts.place = (const void *)((const uint8_t *)map + RT_PAGE_BYTES + r->size_bytes + RT_PAGE_BYTES);
		r->counts.seen = calloc(RT_COUNTED_PLACES, sizeof(r->counts.seen[0]));
		r->counts.watched = calloc(RT_COUNTED_PLACES, sizeof(r->counts.watched[0]));
		if (!r->counts.seen || !r->counts.watched)
			goto free_reader;
	}
	continue_numbers(r);
	*reader = r;
	return 0;

free_reader:
	ring_reader_destroy(r);
no_memory:
	return error_set(error, ENOMEM, "out-of-memory", "no memory for the reader of CPU %" PRIu32
			 "'s ring", geometry.cpu);
}

void ring_reader_destroy(struct ring_reader *reader)
{
	if (!reader)
		return;
	free(reader->counts.seen);
	free(reader->counts.watched);
	free(reader->copy);
	free(reader);
}

/* ---- Taking a record ------------------------------------------------------------------------- */

/*
 * Slack behind the data, and behind the copy, keeps a whole header readable at its last word. A
 * volatile read of the fields is not needed: they are read after the acquire of `commit`.
 */
static inline const struct rt_record *record_here(const struct ring_reader *reader)
{
	return (const struct rt_record *)(reader->base + (reader->pos & reader->mask));
}

/* Words and probe of what is committed here; with a bit of the tag left, nothing is. */
static inline uint64_t body_here(const struct ring_reader *reader, const struct rt_record *record)
{
	return load_acquire(&record->commit) ^ rt_record_tag(reader->pos, reader->key);
}

static inline enum ring_read take(struct ring_reader *reader, const struct rt_record *record,
				  uint64_t body, struct ring_item *item)
{
	item->seq = reader->seq++;
	item->time_ns = record->time_ns;
	item->tid = record->tid;
	item->probe = rt_commit_probe(body);
	item->words = rt_commit_words(body) - HEADER_WORDS;
	item->payload = (const uint64_t *)record->payload;
	reader->pos += rt_commit_words(body) * 8;
	return RING_RECORD;
}

/* ---- Off the fast path ----------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3)))
static void declare_corrupt(struct ring_reader *reader, const char *format, ...)
{
	char what[CORRUPT_TEXT_BYTES / 2];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	snprintf(reader->corrupt_text, sizeof(reader->corrupt_text),
		 "CPU %" PRIu32 "'s ring breaks its rules at position %" PRIu64 ": %s",
		 reader->cpu, reader->pos, what);
	reader->corrupt = true;
	reader->limit = 0;		/* the fast path takes nothing any more */
}

static enum ring_read report_corrupt(const struct ring_reader *reader, struct ring_item *item)
{
	item->seq = reader->seq;
	return RING_CORRUPT;
}

/*
 * Reports one reason's part of what is owed. A reason is known by its counter, which the producer
 * adds to before lost_total; should a counter come late all the same, the rest is called full.
 */
static enum ring_read report_lost(struct ring_reader *reader, struct ring_item *item)
{
	uint64_t count = reader->missed ? reader->missed : reader->owed;
	unsigned reason = RT_LOST_FULL;

	for (unsigned i = 0; !reader->missed && i < RT_LOST_REASONS; i++) {
		uint64_t fresh = load_acquire(&reader->producer->lost[i]) - reader->charged[i];

		if ((int64_t)fresh <= 0)
			continue;
		reason = i;
		count = fresh < count ? fresh : count;
		break;
	}
	if (count > RING_SEQ_MAX - reader->seq) {
		declare_corrupt(reader, "%" PRIu64 " losses after %" PRIu64 " attempts", count,
				reader->seq);
		return report_corrupt(reader, item);
	}
	if (reader->missed) {
		reader->missed = 0;
		reader->overwritten += count;
	} else {
		reader->charged[reason] += count;
		reader->owed -= count;
	}
	reader->lost[reason] += count;
	item->seq = reader->seq;
	item->count = count;
	item->reason = reason;
	reader->seq += count;
	return RING_LOST;
}

/*
 * Takes note that `lost_total` was reached before the next record. An older value than one already
 * seen is no error: a writer that read it, was interrupted, and went on.
 */
static void locate_lost(struct ring_reader *reader, uint64_t lost_total)
{
	if ((int64_t)(lost_total - reader->lost_seen) <= 0)
		return;
	reader->owed = lost_total - reader->lost_seen;
	reader->lost_seen = lost_total;
	reader->limit = reader->pos;	/* the fast path waits until it is reported */
}

/* A record's half of lost_total, made whole: the ring's cannot have run 2^32 ahead of it. */
static uint64_t whole_lost(const struct ring_reader *reader, uint32_t lost)
{
	uint64_t now = load_acquire(&reader->producer->lost_total);

	return now - (uint32_t)((uint32_t)now - lost);
}

/*
 * Copies what is reserved of one sub-buffer, from pos on; or from the oldest whole sub-buffer, when
 * pos was overwritten. Only a copy that was not lapped while it was made counts: its words are
 * loaded with acquire, and if one of them is of the next lap, so is producer_pos when read after.
 */
static void copy_subbuf(struct ring_reader *reader, uint64_t produced)
{
	for (unsigned i = 0; i < COPY_TRIES; i++) {
		uint64_t end, now;

		if (produced - reader->pos > reader->size_bytes) {
			reader->pos = produced - reader->size_bytes + reader->subbuf_bytes - 1;
			reader->pos &= ~(reader->subbuf_bytes - 1);
			reader->pos += i * reader->subbuf_bytes;
		}
		end = subbuf_end(reader, reader->pos);
		if (end > produced)
			end = produced;
		for (uint64_t pos = reader->pos; pos < end; pos += 8)
			reader->copy[(pos & reader->mask) / 8] = load_acquire((const __u64 *)
				(reader->data + (pos & (reader->size_bytes - 1))));
		now = load_acquire(&reader->producer->producer_pos);
		if (now - reader->pos <= reader->size_bytes) {
			reader->limit = end;
			return;
		}
		reader->torn++;
		produced = now;
	}
	reader->limit = reader->pos;
}

/* Whether the ring's bound can be one. */
static bool believe(struct ring_reader *reader, uint64_t produced)
{
	if (produced % 8 || (int64_t)(produced - reader->pos) < 0)
		declare_corrupt(reader, "producer_pos is %" PRIu64, produced);
	else if (reader->policy != RT_POLICY_OVERWRITE &&
		 produced - reader->released > reader->size_bytes)
		declare_corrupt(reader, "producer_pos is %" PRIu64
				", over what was not released", produced);
	return !reader->corrupt;
}

/* Looks how far is reserved, and makes that much of this sub-buffer ready to be taken. */
static void extend(struct ring_reader *reader)
{
	uint64_t produced = load_acquire(&reader->producer->producer_pos);
	uint64_t end = subbuf_end(reader, reader->pos);

	if (!believe(reader, produced))
		return;
	if (reader->policy == RT_POLICY_OVERWRITE)
		copy_subbuf(reader, produced);
	else
		reader->limit = end < produced ? end : produced;
}

/*
 * Nothing is committed at pos. What was lost since the last record stands here only if nothing is
 * reserved either: else a record comes that says itself how much was lost before it. lost_total is
 * read first, so that a loss after a record which is reserved meanwhile is not put before it.
 */
static enum ring_read read_end(struct ring_reader *reader, struct ring_item *item)
{
	uint64_t lost_total = load_acquire(&reader->producer->lost_total);
	uint64_t produced = load_acquire(&reader->producer->producer_pos);

	if (!believe(reader, produced))
		return report_corrupt(reader, item);
	if (produced != reader->pos)
		return RING_EMPTY;
	locate_lost(reader, lost_total);
	return reader->owed ? report_lost(reader, item) : RING_EMPTY;
}

/* The head of a sub-buffer says what went before, even to one who did not see it. */
static void enter_subbuf(struct ring_reader *reader, const struct rt_record *record, uint64_t body)
{
	const struct rt_subbuf *subbuf = (const struct rt_subbuf *)record->payload;
	uint64_t passed = reader->seq - reader->lost_seen;

	if (rt_commit_words(body) != SUBBUF_WORDS)
		declare_corrupt(reader, "the head of a sub-buffer has %u words",
				rt_commit_words(body));
	else if (subbuf->pos != reader->pos)
		declare_corrupt(reader, "the head of a sub-buffer says it is at %" PRIu64,
				(uint64_t)subbuf->pos);
	else if (subbuf->lost_total > load_acquire(&reader->producer->lost_total))
		declare_corrupt(reader, "the head of a sub-buffer has more losses than the ring");
	if (reader->corrupt)
		return;
	reader->pos += SUBBUF_WORDS * 8;
	if (reader->policy == RT_POLICY_OVERWRITE && (int64_t)(subbuf->records - passed) > 0) {
		reader->missed = subbuf->records - passed;
		reader->limit = reader->pos;
	}
	locate_lost(reader, subbuf->lost_total);
}

/* What is wrong with a committed record that ends by the limit, or NULL. */
static const char *record_fault(const struct ring_reader *reader, uint64_t body)
{
	bool first = !(reader->pos & (reader->subbuf_bytes - 1));

	if (first != (rt_commit_probe(body) == RT_PROBE_SUBBUF))
		return first ? "a sub-buffer without its head" : "a sub-buffer's head inside it";
	if (rt_commit_words(body) < (rt_commit_probe(body) == RT_PROBE_PAD ? 1 : HEADER_WORDS))
		return "a record shorter than its header";
	return NULL;
}

/* Whether the copy has a record at pos; if not, it may have one when made again. */
static bool is_copied(const struct ring_reader *reader)
{
	return reader->pos < reader->limit &&
	       !(body_here(reader, record_here(reader)) >> BODY_BITS);
}

/*
 * Whether the record of which `commit` was just loaded is within the limit, moved on if need be.
 * The order matters: producer_pos, loaded after `commit`, covers a record that was committed.
 */
static bool is_reserved(struct ring_reader *reader, uint64_t body)
{
	uint64_t end = reader->pos + rt_commit_words(body) * 8;

	if (end > reader->limit && reader->policy != RT_POLICY_OVERWRITE)
		extend(reader);
	if (end > reader->limit && !reader->corrupt)
		declare_corrupt(reader, "a record of %u words, over the end of %s",
				rt_commit_words(body), end > subbuf_end(reader, reader->pos) ?
				"its sub-buffer" : "what is reserved");
	return !reader->corrupt;
}

/*
 * Everything but a plain record: fillers and heads are passed over, losses reported, the limit
 * moved on, a new copy made. Each step passes something, copies, or returns.
 */
__attribute__((noinline))
static enum ring_read read_slowly(struct ring_reader *reader, struct ring_item *item)
{
	for (unsigned i = 0; i < STEPS_MAX && !reader->corrupt; i++) {
		const struct rt_record *record;
		const char *fault;
		uint64_t body;

		if (reader->missed || reader->owed)
			return report_lost(reader, item);
		if (reader->policy == RT_POLICY_OVERWRITE && !is_copied(reader)) {
			extend(reader);
			if (!reader->corrupt && !is_copied(reader))
				return read_end(reader, item);
		}
		record = record_here(reader);
		body = body_here(reader, record);
		if (body >> BODY_BITS)
			return read_end(reader, item);
		if (!is_reserved(reader, body))
			break;
		fault = record_fault(reader, body);
		if (fault) {
			declare_corrupt(reader, "%s", fault);
		} else if (rt_commit_probe(body) == RT_PROBE_PAD) {
			reader->pos += rt_commit_words(body) * 8;
		} else if (rt_commit_probe(body) == RT_PROBE_SUBBUF) {
			enter_subbuf(reader, record, body);
		} else {
			if (record->lost != (uint32_t)reader->lost_seen)
				locate_lost(reader, whole_lost(reader, record->lost));
			if (!reader->owed)
				return take(reader, record, body, item);
		}
	}
	return reader->corrupt ? report_corrupt(reader, item) : RING_EMPTY;
}

enum ring_read ring_reader_next(struct ring_reader *reader, struct ring_item *item)
{
	const struct rt_record *record = record_here(reader);
	uint64_t body = body_here(reader, record);

	/*
	 * The limit is within one sub-buffer and within what was reserved, so this is every bound.
	 * A sub-buffer's first record is not taken here: its head is below RT_PROBE_THREAD.
	 */
	if (body >> BODY_BITS || rt_commit_probe(body) < RT_PROBE_THREAD ||
	    rt_commit_words(body) < HEADER_WORDS ||
	    reader->pos + rt_commit_words(body) * 8 > reader->limit ||
	    record->lost != (uint32_t)reader->lost_seen)
		return read_slowly(reader, item);
	__builtin_prefetch((const char *)record + READ_AHEAD_BYTES);
	return take(reader, record, body, item);
}

/* ---- What was counted instead of recorded ------------------------------------------------------ */

bool ring_reader_watch_counted(struct ring_reader *reader, uint16_t probe)
{
	struct counts *counts = &reader->counts;

	if (!counts->place || rt_counted_place(probe) == RT_COUNTED_NONE)
		return false;
	for (uint32_t i = 0; i < counts->watches; i++)
		if (counts->watched[i] == probe)
			return true;
	counts->watched[counts->watches++] = probe;
	return true;
}

void ring_reader_unwatch_counted(struct ring_reader *reader)
{
	reader->counts.watches = 0;
}

/* What is new of one probe. */
static struct ring_counted fresh_counted(const struct counts *counts, uint16_t probe)
{
	uint32_t place = rt_counted_place(probe);

	return (struct ring_counted){
		.probe = probe,
		.good = load_acquire(&counts->place[place].good) - counts->seen[place].good,
		.bad = load_acquire(&counts->place[place].bad) - counts->seen[place].bad,
	};
}

static void number_counted(struct ring_reader *reader, uint64_t events)
{
	if (events > RING_SEQ_MAX - reader->seq) {
		declare_corrupt(reader, "%" PRIu64 " events counted after %" PRIu64 " attempts", events, reader->seq);
		return;
	}
	reader->seq += events;
	reader->counts.numbered += events;
}

uint32_t ring_reader_take_counted(struct ring_reader *reader, struct ring_counted *counted, uint32_t max)
{
	struct counts *counts = &reader->counts;
	uint32_t n = 0;

	for (uint32_t i = 0; i < counts->watches && n < max && !reader->corrupt; i++) {
		struct ring_counted fresh = fresh_counted(counts, counts->watched[i]);
		uint32_t place = rt_counted_place(fresh.probe);

		if (!fresh.good && !fresh.bad)
			continue;
		number_counted(reader, fresh.good + fresh.bad);
		counts->seen[place].good += fresh.good;
		counts->seen[place].bad += fresh.bad;
		counted[n++] = fresh;
	}
	return reader->corrupt ? 0 : n;
}

uint64_t ring_reader_take_counted_before(struct ring_reader *reader)
{
	uint64_t events = reader->counts.before;

	reader->counts.before = 0;
	number_counted(reader, events);
	return reader->corrupt ? 0 : events;
}

/* Watched, and not numbered yet. */
static uint64_t count_uncounted(const struct counts *counts)
{
	uint64_t events = counts->before;

	for (uint32_t i = 0; i < counts->watches; i++) {
		struct ring_counted fresh = fresh_counted(counts, counts->watched[i]);

		events += fresh.good + fresh.bad;
	}
	return events;
}

/* ---- The consumer page ----------------------------------------------------------------------- */

static void leave_note(struct ring_reader *reader)
{
	struct rt_ring_note note = {
		.pos = reader->pos, .seq = reader->seq, .lost_seen = reader->lost_seen,
		.owed = reader->owed, .missed = reader->missed, .counted = reader->counts.numbered,
	};

	memcpy(note.charged, reader->charged, sizeof(note.charged));
	ring_note_write(reader->consumer, &note);
}

void ring_reader_release(struct ring_reader *reader)
{
	if (reader->pos == reader->released && reader->seq == reader->released_seq)
		return;
	leave_note(reader);
	reader->released = reader->pos;
	reader->released_seq = reader->seq;
	__atomic_store_n(&reader->consumer->consumer_pos, reader->pos, __ATOMIC_RELEASE);
}

/*
 * Store buffering, the one place where both sides need a full barrier: the store of bell_at comes
 * before the load of producer_pos here, the swap of producer_pos before the load of bell_at there,
 * so at least one side sees the other. Two sub-buffers are kept clear of the request: a ring that
 * refuses records has rung before.
 */
bool ring_reader_arm(struct ring_reader *reader, uint64_t bytes)
{
	uint64_t most = reader->size_bytes - 2 * reader->subbuf_bytes;
	uint64_t bell_at;

	/* A sub-buffer's head may have been passed over since: no news to be woken by. */
	ring_reader_release(reader);
	bytes = bytes < 1 ? 1 : bytes > most ? most : bytes;
	bell_at = reader->released + bytes;
	__atomic_store_n(&reader->consumer->bell_at, bell_at, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&reader->producer->producer_pos, __ATOMIC_SEQ_CST) < bell_at)
		return true;
	ring_reader_disarm(reader);
	return false;
}

void ring_reader_disarm(struct ring_reader *reader)
{
	__atomic_store_n(&reader->consumer->bell_at, RT_BELL_NEVER, __ATOMIC_RELAXED);
}

/* ---- Questions ------------------------------------------------------------------------------- */

bool ring_reader_pending(const struct ring_reader *reader)
{
	return load_acquire(&reader->producer->producer_pos) != reader->pos;
}

uint64_t ring_reader_pos(const struct ring_reader *reader)
{
	return reader->pos;
}

uint64_t ring_reader_seq(const struct ring_reader *reader)
{
	return reader->seq;
}

uint64_t ring_reader_epoch(const struct ring_reader *reader)
{
	return reader->epoch;
}

/* The first note goes before the epoch: who finds the epoch finds the numbers that it is of. */
void ring_reader_set_epoch(struct ring_reader *reader, uint64_t epoch)
{
	leave_note(reader);
	reader->epoch = epoch;
	__atomic_store_n(&reader->consumer->epoch, epoch, __ATOMIC_RELEASE);
}

uint32_t ring_reader_cpu(const struct ring_reader *reader)
{
	return reader->cpu;
}

const char *ring_reader_error(const struct ring_reader *reader)
{
	return reader->corrupt ? reader->corrupt_text : NULL;
}

/* ---- Usage: what was read, beside what the producer says it has written ------------------------ */

/*
 * What the producer says was lost, twice: the sum by reason, and what lost_total was when that was the
 * sum. A writer adds to the one and then to the other, so of two looks at lost_total around the sum the
 * first is not above it, and the second below it by no more than writers can be between the two; those
 * go into *between. Anything else is left for the residual to show.
 */
static uint64_t sum_lost(const struct rt_ring_producer *producer, uint64_t *lost_total,
			 uint64_t *between)
{
	uint64_t before = load_acquire(&producer->lost_total), sum = 0;

	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		sum += load_acquire(&producer->lost[i]);
	*lost_total = load_acquire(&producer->lost_total);
	*between = 0;
	if (sum >= before && sum <= *lost_total)
		*lost_total = sum;
	else if (sum - *lost_total <= LOSERS_MAX)
		*between = sum - *lost_total;
	return sum;
}

/*
 * The span is of the ring itself, whatever the reader's copy has; where the oldest goes, what was
 * overwritten is counted when the reader comes upon it.
 */
static uint64_t count_unread(const struct ring_reader *reader, uint64_t produced)
{
	struct ring_span span = {
		.data = reader->data, .size_bytes = reader->size_bytes, .key = reader->key,
		.pos = reader->pos, .end = produced,
	};

	if (reader->corrupt || (int64_t)(produced - reader->pos) < 0)
		return 0;
	if (produced - reader->pos > reader->size_bytes)
		span.pos = subbuf_end(reader, produced - reader->size_bytes - 1);
	return ring_unread_count(&span, UNREAD_LOOKS_MAX);
}

void ring_reader_usage(const struct ring_reader *reader, struct ring_usage *usage)
{
	const struct rt_ring_producer *producer = reader->producer;
	uint64_t produced = load_acquire(&producer->producer_pos);
	uint64_t unread = produced - reader->released;
	uint64_t lost_total, between, sum = sum_lost(producer, &lost_total, &between);
	uint64_t records = reader->seq - reader->first_seq;
	uint64_t count = count_unread(reader, produced) + count_uncounted(&reader->counts);

	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		records -= reader->lost[i];
	*usage = (struct ring_usage){
		.produced = records + count + sum - reader->charged_before +
			    reader->overwritten + reader->missed,
		.records = records,
		.unread = count,
		.in_flight = count + lost_total + between - reader->lost_seen + reader->owed +
			     reader->missed,
		.unread_bytes = unread < reader->size_bytes ? unread : reader->size_bytes,
		.size_bytes = reader->size_bytes,
		.torn = reader->torn,
		.foreign = load_acquire(&producer->foreign),
		.unpaired = load_acquire(&producer->unpaired),
		.faults = load_acquire(&producer->faults),
		.consumer_bad = load_acquire(&producer->consumer_bad),
	};
	memcpy(usage->lost, reader->lost, sizeof(usage->lost));
}
