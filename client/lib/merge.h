/*
 * merge: batches of many CPUs in, their events in one time order out.
 *
 *	push --> lane of CPU 0: [batch][batch][gap][batch] --.
 *	push --> lane of CPU 1: [batch]                    ---+--> next, oldest first,
 *	push --> lane of CPU n: ...                        --'     up to the watermark
 *
 * What waits, waits as batches (some 4 bytes for an event); only the first batch of each lane is
 * being decoded, and decoders have a bound of their own, MERGE_DECODE_BYTES_MAX: beyond it batches go
 * out whole, one after the other. The order within a CPU is never touched. When more than bytes_max wait, the oldest
 * go out without a watermark, and events that come after younger ones are counted as late. One
 * thread.
 */
#ifndef RINGTAIL_CLIENT_LIB_MERGE_H
#define RINGTAIL_CLIENT_LIB_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/lib/catalog.h"
#include "proto/batch_decode.h"

struct merge;

struct merge_gap {
	uint64_t first_seq, end_seq;
	uint64_t events;		/* 0: not known */
	uint32_t stage, reason;
};

/* A batch's message or a gap, on its way into a lane. */
struct merge_entry {
	struct merge_entry *next;
	struct catalog *catalog;	/* a reference; NULL: this is a gap */
	struct merge_gap gap;		/* of a batch, its span, of what is new: missing if it cannot be decoded */
	uint64_t offset;		/* of its frame, for messages */
	uint32_t generation;		/* merge_restart()s before it */
	bool ends_run;			/* a gap after which its CPU has nothing more of its run */
	size_t bytes;
	uint8_t message[];
};

enum merge_next {
	MERGE_EMPTY,			/* nothing that may go out yet */
	MERGE_EVENT,
	MERGE_LOSS,
	MERGE_GAP,
	MERGE_BAD,			/* the rest of a batch was thrown away */
};

struct merge_item {
	uint32_t cpu;
	bool is_early;			/* loss, gap: an event from before merge_set_since() came behind it */
	uint64_t time_ns;		/* loss, gap: of what came before it */
	const struct batch_item *batch;	/* event, loss */
	const struct merge_gap *gap;
	const struct catalog *catalog;	/* of the event */
	const struct batch_decoder *decoder;
	uint64_t offset;		/* bad: of the frame, */
	uint64_t first_seq, end_seq;	/* the attempts that are not accounted for, */
	const char *why;		/* and what was wrong with it */
};

struct merge *merge_create(size_t bytes_max);
void merge_destroy(struct merge *merge);

/* It is one of many: a CPU of which nothing waits has no decoder, which costs a new one for its next batch. */
void merge_keep_no_decoders(struct merge *merge);

/* Room for a message of `bytes`, to be filled and pushed. A NULL catalog makes a gap. */
struct merge_entry *merge_entry_create(struct catalog *catalog, size_t bytes);
void merge_entry_destroy(struct merge_entry *entry);

/* Takes the entry. -ENOMEM: it did not, and nothing changed. */
int merge_push(struct merge *merge, uint32_t cpu, struct merge_entry *entry);

/* Events from before that time are not wanted; 0: all are. Losses and gaps from before it say so, where that is known. */
void merge_set_since(struct merge *merge, uint64_t time_ns);

/* Nothing older than `time_ns` will be pushed. */
void merge_watermark(struct merge *merge, uint64_t time_ns);

/* Batches have that catalog from now on: what waits, of another one, may go out. Borrowed. */
void merge_set_catalog(struct merge *merge, const struct catalog *catalog);

/* What waits now may go out, whatever the watermark is. */
void merge_flush(struct merge *merge);

/*
 * The same, and the run of the rings is over: a gap that ends a CPU's lane stands behind all that every
 * CPU has of the run, as it is what is missing before the next one.
 */
void merge_end_run(struct merge *merge);

/* The same as merge_flush(), and what comes from now on has another clock: the host was booted anew. */
void merge_restart(struct merge *merge);

/* The item is borrowed until the next call. */
enum merge_next merge_next(struct merge *merge, struct merge_item *item);

/* Whether the CPU has something waiting; then *seq is where what was given out ends. */
bool merge_waiting(const struct merge *merge, uint32_t cpu, uint64_t *seq);

uint64_t merge_late(const struct merge *merge);
size_t merge_bytes(const struct merge *merge);

#endif
