/*
 * batch_counts: how many events each event of a batch stands for, and how their values are spread: message Counts.
 *
 * Writer: rows in, the message's bytes out. Reader: bytes from outside in, rows out, one for each event, each held
 * to its bounds. One thread.
 */
#ifndef RINGTAIL_PROTO_BATCH_COUNTS_H
#define RINGTAIL_PROTO_BATCH_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"
#include "proto/wire.h"

/* Buckets of values: those of query/tally.h, by number. */
#define COUNT_BUCKET_NUMBERS	1920u

struct count_bucket {
	uint32_t number;
	uint64_t values;
};

/* What one event stands for. */
struct batch_counts {
	uint64_t events, errors, values;	/* itself among them; events is not 0 */
	uint64_t least, greatest;		/* of the values, if there are any */
	uint64_t sum, sum_high;			/* sum_high * 2^64 + sum */
	uint32_t buckets;
	const struct count_bucket *bucket;	/* in the order of their numbers; none is empty */
};

/* ---- Writing ---------------------------------------------------------------------------------- */

/* The columns of message Counts, in the order of their field numbers, from 1. */
enum count_column {
	COUNT_EVENTS, COUNT_ERRORS, COUNT_VALUES, COUNT_LEAST, COUNT_SPREAD, COUNT_SUM, COUNT_SUM_HIGH, COUNT_BUCKETS,
	COUNT_BUCKET, COUNT_BUCKET_VALUES,
	COUNT_COLUMNS,
};

/* The most that COUNT_ROWS_MAX rows with COUNT_BUCKETS_MAX buckets take. */
#define COUNTS_BYTES_MAX	(COUNT_COLUMNS * 6 + COUNT_ROWS_MAX * (COUNT_BUCKET - COUNT_EVENTS) * \
				 WIRE_VARINT_BYTES_MAX + COUNT_BUCKETS_MAX * (2 + WIRE_VARINT_BYTES_MAX))

/* So many bytes of one batch's Counts. */
struct counts_writer;

struct counts_writer *counts_writer_create(void);	/* NULL: out of memory */
void counts_writer_destroy(struct counts_writer *writer);

void counts_writer_begin(struct counts_writer *writer);

/* The next event's. All rows together are within COUNT_ROWS_MAX and COUNT_BUCKETS_MAX. */
void counts_writer_add(struct counts_writer *writer, const struct batch_counts *counts);

/* The message, borrowed until the next begin. */
const uint8_t *counts_writer_finish(struct counts_writer *writer, size_t *bytes);

/* ---- Reading ---------------------------------------------------------------------------------- */

struct counts_reader {
	bool present;
	struct wire_reader column[COUNT_COLUMNS];
	uint64_t others;			/* that are still to be accounted for: skipped numbers of the batch */
	struct count_bucket *bucket;		/* owned; [COUNT_BUCKET_NUMBERS] once there is a row with values */
};

void counts_reader_fini(struct counts_reader *reader);

/* No Counts: each event stands for itself. */
void counts_reader_clear(struct counts_reader *reader);

/* The body of a message Counts. False: it is malformed, or comes twice. */
bool counts_reader_open(struct counts_reader *reader, struct wire_reader body);

/*
 * How many events `rows` events stand for, of which the batch skips at most `skipped`. False: there are not so many
 * rows, or they stand for more.
 */
bool counts_reader_sum(struct counts_reader *reader, uint32_t rows, uint64_t skipped, uint64_t *events);

/* The next event's, borrowed until the next. False: it contradicts itself, or there is no memory. */
bool counts_reader_next(struct counts_reader *reader, struct batch_counts *counts);

/* Nothing is left of any column. */
bool counts_reader_ended(const struct counts_reader *reader);

#endif
