#include "proto/batch_counts.h"

#include <stdlib.h>
#include <string.h>

/* ---- Writing ---------------------------------------------------------------------------------- */

struct counts_writer {
	struct {
		uint8_t *start, *end;
	} column[COUNT_COLUMNS];
	bool sums_high;			/* some sum has a high part: the column is written */
	uint8_t *memory;		/* what all columns lie in, and behind them the message */
	uint8_t *message;
};

static size_t column_bytes(enum count_column column)
{
	size_t entries = column < COUNT_BUCKET ? COUNT_ROWS_MAX : COUNT_BUCKETS_MAX;

	return entries * (column == COUNT_BUCKET ? 2 : WIRE_VARINT_BYTES_MAX) + WIRE_WRITE_BYTES;
}

struct counts_writer *counts_writer_create(void)
{
	struct counts_writer *writer = calloc(1, sizeof(*writer));
	size_t bytes = COUNTS_BYTES_MAX + WIRE_WRITE_BYTES;
	uint8_t *at;

	if (!writer)
		return NULL;
	for (unsigned i = 0; i < COUNT_COLUMNS; i++)
		bytes += column_bytes(i);
	writer->memory = at = malloc(bytes);
	if (!at) {
		free(writer);
		return NULL;
	}
	for (unsigned i = 0; i < COUNT_COLUMNS; i++) {
		writer->column[i].start = at;
		at += column_bytes(i);
	}
	writer->message = at;
	counts_writer_begin(writer);
	return writer;
}

void counts_writer_destroy(struct counts_writer *writer)
{
	if (!writer)
		return;
	free(writer->memory);
	free(writer);
}

void counts_writer_begin(struct counts_writer *writer)
{
	for (unsigned i = 0; i < COUNT_COLUMNS; i++)
		writer->column[i].end = writer->column[i].start;
	writer->sums_high = false;
}

static void put(struct counts_writer *writer, enum count_column column, uint64_t value)
{
	writer->column[column].end = wire_put(writer->column[column].end, value);
}

void counts_writer_add(struct counts_writer *writer, const struct batch_counts *counts)
{
	uint32_t before = 0;

	put(writer, COUNT_EVENTS, counts->events);
	put(writer, COUNT_ERRORS, counts->errors);
	put(writer, COUNT_VALUES, counts->values);
	if (!counts->values)
		return;
	put(writer, COUNT_LEAST, counts->least);
	put(writer, COUNT_SPREAD, counts->greatest - counts->least);
	put(writer, COUNT_SUM, counts->sum);
	put(writer, COUNT_SUM_HIGH, counts->sum_high);
	put(writer, COUNT_BUCKETS, counts->buckets);
	writer->sums_high |= counts->sum_high;
	for (uint32_t i = 0; i < counts->buckets; i++) {
		put(writer, COUNT_BUCKET, counts->bucket[i].number - before);
		put(writer, COUNT_BUCKET_VALUES, counts->bucket[i].values);
		before = counts->bucket[i].number;
	}
}

const uint8_t *counts_writer_finish(struct counts_writer *writer, size_t *bytes)
{
	uint8_t *out = writer->message;

	for (unsigned i = 0; i < COUNT_COLUMNS; i++)
		if (i != COUNT_SUM_HIGH || writer->sums_high)
			out = wire_put_bytes(out, i + 1, writer->column[i].start,
					     (size_t)(writer->column[i].end - writer->column[i].start));
	*bytes = (size_t)(out - writer->message);
	return writer->message;
}

/* ---- Reading ---------------------------------------------------------------------------------- */

void counts_reader_fini(struct counts_reader *reader)
{
	free(reader->bucket);
	reader->bucket = NULL;
}

void counts_reader_clear(struct counts_reader *reader)
{
	reader->present = false;
	memset(reader->column, 0, sizeof(reader->column));
}

/* Columns are packed and in one piece, as those of the batch. */
bool counts_reader_open(struct counts_reader *reader, struct wire_reader body)
{
	if (reader->present)
		return false;
	reader->present = true;
	while (body.at < body.end) {
		struct wire_field field = { 0 };

		if (!wire_get_field(&body, &field))
			return false;
		if (field.number > COUNT_COLUMNS)
			continue;
		if (field.type != WIRE_BYTES || reader->column[field.number - 1].at)
			return false;
		reader->column[field.number - 1] = field.body;
	}
	return true;
}

bool counts_reader_sum(struct counts_reader *reader, uint32_t rows, uint64_t skipped, uint64_t *events)
{
	struct wire_reader column = reader->column[COUNT_EVENTS];

	reader->others = 0;
	for (uint32_t i = 0; reader->present && i < rows; i++) {
		uint64_t stands_for;

		if (!wire_get(&column, &stands_for) || !stands_for || stands_for - 1 > skipped)
			return false;
		skipped -= stands_for - 1;
		reader->others += stands_for - 1;
	}
	*events = rows + reader->others;
	return true;
}

static bool get(struct counts_reader *reader, enum count_column column, uint64_t *value)
{
	return wire_get(&reader->column[column], value);
}

/* The numbers grow, and the buckets together hold the values. */
static bool get_buckets(struct counts_reader *reader, struct batch_counts *counts)
{
	uint64_t buckets, left = counts->values, number = 0;

	if (!get(reader, COUNT_BUCKETS, &buckets) || buckets > COUNT_BUCKET_NUMBERS)
		return false;
	if (!reader->bucket)
		reader->bucket = malloc(COUNT_BUCKET_NUMBERS * sizeof(*reader->bucket));
	if (!reader->bucket)
		return false;
	for (uint32_t i = 0; i < buckets; i++) {
		uint64_t step, values;

		if (!get(reader, COUNT_BUCKET, &step) || !get(reader, COUNT_BUCKET_VALUES, &values) ||
		    step >= COUNT_BUCKET_NUMBERS || (i && !step) || !values || values > left)
			return false;
		number += step;
		left -= values;
		if (number >= COUNT_BUCKET_NUMBERS)
			return false;
		reader->bucket[i] = (struct count_bucket){ .number = (uint32_t)number, .values = values };
	}
	counts->buckets = (uint32_t)buckets;
	counts->bucket = reader->bucket;
	return left == 0;
}

static bool get_values(struct counts_reader *reader, struct batch_counts *counts)
{
	uint64_t spread;

	if (!get(reader, COUNT_LEAST, &counts->least) || !get(reader, COUNT_SPREAD, &spread) ||
	    !get(reader, COUNT_SUM, &counts->sum) || spread > UINT64_MAX - counts->least)
		return false;
	if (reader->column[COUNT_SUM_HIGH].at &&
	    (!get(reader, COUNT_SUM_HIGH, &counts->sum_high) || counts->sum_high >= counts->values))
		return false;
	counts->greatest = counts->least + spread;
	return get_buckets(reader, counts);
}

bool counts_reader_next(struct counts_reader *reader, struct batch_counts *counts)
{
	*counts = (struct batch_counts){ 0 };
	if (!get(reader, COUNT_EVENTS, &counts->events) || !get(reader, COUNT_ERRORS, &counts->errors) ||
	    !get(reader, COUNT_VALUES, &counts->values) || !counts->events ||
	    counts->errors > counts->events || counts->values > counts->events)
		return false;
	return !counts->values || get_values(reader, counts);
}

bool counts_reader_ended(const struct counts_reader *reader)
{
	for (unsigned i = 0; i < COUNT_COLUMNS; i++)
		if (reader->column[i].at != reader->column[i].end)
			return false;
	return true;
}
