/* What events of a batch stand for: read as it was written, to its bounds; and refused where it contradicts itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/batch_counts.h"
#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/ringtail.pb-c.h"

#define PROBE	7

static struct batch_encoder *encoder;
static struct batch_decoder *decoder;
static struct counts_writer *writer;
static struct batch_probe probes[PROBE + 1] = { [PROBE] = { .known = true, .fields = 1 } };

static int setup(void **state)
{
	(void)state;
	encoder = batch_encoder_create(PROBE + 1);
	decoder = batch_decoder_create(probes, PROBE + 1);
	writer = counts_writer_create();
	if (!encoder || !decoder || !writer)
		return -1;
	batch_encode_reserve(encoder, COUNTS_BYTES_MAX);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	batch_encoder_destroy(encoder);
	batch_decoder_destroy(decoder);
	counts_writer_destroy(writer);
	return 0;
}

/* A batch of `rows` events, after each of which `others` are skipped, with that message of counts. */
static const uint8_t *encode(uint32_t rows, uint64_t others, const uint8_t *counts, size_t counts_bytes, size_t *bytes)
{
	const struct batch_thread thread = { .tid = 1, .pid = 1 };
	uint64_t slot = 0;

	batch_encode_begin(encoder, 0, 100, 0);
	for (uint64_t i = 0; i < rows; i++) {
		struct batch_event event = { .probe = PROBE, .fields = 1, .time_ns = i * 1000, .field = &i };

		event.thread = batch_encode_thread(encoder, &thread, &slot);
		assert_true(batch_encode_event(encoder, &event));
		batch_encode_skip(encoder, others);
	}
	if (counts)
		batch_encode_counts(encoder, counts, counts_bytes);
	return batch_encode_finish(encoder, bytes);
}

static void compare(const struct batch_counts *a, const struct batch_counts *b)
{
	assert_int_equal(a->events, b->events);
	assert_int_equal(a->errors, b->errors);
	assert_int_equal(a->values, b->values);
	if (!a->values)
		return;
	assert_int_equal(a->least, b->least);
	assert_int_equal(a->greatest, b->greatest);
	assert_int_equal(a->sum, b->sum);
	assert_int_equal(a->sum_high, b->sum_high);
	assert_int_equal(a->buckets, b->buckets);
	for (uint32_t i = 0; i < a->buckets; i++) {
		assert_int_equal(a->bucket[i].number, b->bucket[i].number);
		assert_int_equal(a->bucket[i].values, b->bucket[i].values);
	}
}

static void check(const struct batch_counts *counts, uint32_t rows, uint64_t others)
{
	struct batch_summary summary;
	struct batch_item item;
	const uint8_t *message, *body;
	size_t bytes, body_bytes;
	uint64_t counted = 0;

	counts_writer_begin(writer);
	for (uint32_t i = 0; i < rows; i++) {
		counts_writer_add(writer, &counts[i]);
		counted += counts[i].events;
	}
	body = counts_writer_finish(writer, &body_bytes);
	assert_true(body_bytes <= COUNTS_BYTES_MAX);
	message = encode(rows, others, body, body_bytes, &bytes);
	assert_int_equal(batch_decode_open(decoder, message, bytes, &summary), 0);
	assert_int_equal(summary.events, rows);
	assert_int_equal(summary.counted, counted);
	for (uint32_t i = 0; i < rows; i++) {
		assert_int_equal(batch_decode_next(decoder, &item), BATCH_EVENT);
		assert_non_null(item.counts);
		assert_ptr_equal(item.counts, batch_decode_counts(decoder));
		compare(item.counts, &counts[i]);
	}
	assert_int_equal(batch_decode_next(decoder, &item), BATCH_END);
}

static void test_as_written(void **state)
{
	static const struct count_bucket few[] = { { 0, 3 }, { 31, 1 }, { COUNT_BUCKET_NUMBERS - 1, 2 } };
	static const struct batch_counts counts[] = {
		{ .events = 1 },
		{ .events = 7, .errors = 7, .values = 6, .least = 0, .greatest = UINT64_MAX, .sum = 5, .sum_high = 2,
		  .buckets = 3, .bucket = few },
		{ .events = 4, .errors = 1 },
	};

	(void)state;
	check(counts, 3, 10);
}

static void test_of_one_batch_without(void **state)
{
	struct batch_summary summary;
	struct batch_item item;
	const uint8_t *message;
	size_t bytes;

	(void)state;
	test_as_written(NULL);
	message = encode(2, 5, NULL, 0, &bytes);
	assert_int_equal(batch_decode_open(decoder, message, bytes, &summary), 0);
	assert_int_equal(summary.counted, 2);
	assert_int_equal(batch_decode_next(decoder, &item), BATCH_EVENT);
	assert_null(item.counts);
	assert_null(batch_decode_counts(decoder));
}

/* All rows and buckets that there may be, with the longest numbers. */
static void test_at_its_bounds(void **state)
{
	static struct batch_counts counts[COUNT_ROWS_MAX];
	static struct count_bucket bucket[COUNT_ROWS_MAX][COUNT_BUCKETS_MAX / COUNT_ROWS_MAX];
	const uint64_t each = 1ull << 50;

	(void)state;
	for (uint32_t i = 0; i < COUNT_ROWS_MAX; i++) {
		const uint32_t buckets = COUNT_BUCKETS_MAX / COUNT_ROWS_MAX;

		for (uint32_t k = 0; k < buckets; k++)
			bucket[i][k] = (struct count_bucket){ .number = 200 * k + 130, .values = each };
		counts[i] = (struct batch_counts){
			.events = buckets * each, .errors = buckets * each, .values = buckets * each, .least = 1,
			.greatest = UINT64_MAX, .sum = UINT64_MAX, .sum_high = each, .buckets = buckets,
			.bucket = bucket[i],
		};
	}
	check(counts, COUNT_ROWS_MAX, 8 * each);
}

/* Whether a batch of one event, and 9 skipped, is taken with such counts. */
static bool is_taken(const Ringtail__V1__Counts *counts)
{
	size_t body_bytes = ringtail__v1__counts__get_packed_size(counts), bytes;
	uint8_t body[4096];
	struct batch_summary summary;
	struct batch_item item;
	const uint8_t *message;

	assert_true(body_bytes <= sizeof(body));
	ringtail__v1__counts__pack(counts, body);
	message = encode(1, 9, body, body_bytes, &bytes);
	if (batch_decode_open(decoder, message, bytes, &summary) != 0)
		return false;
	while (batch_decode_next(decoder, &item) < BATCH_END)
		;
	return item.kind == BATCH_END;
}

static void test_contradictions(void **state)
{
	uint64_t events = 10, errors = 0, values = 3, least = 5, spread = 2, sum = 18, high = 0, more[] = { 2, 1 };
	uint32_t buckets = 2, bucket[] = { 5, 1 };
	Ringtail__V1__Counts counts = RINGTAIL__V1__COUNTS__INIT;

	(void)state;
#define COLUMN(name, at) (counts.n_##name = 1, counts.name = (at))
	COLUMN(events, &events), COLUMN(errors, &errors), COLUMN(values, &values), COLUMN(least, &least);
	COLUMN(spread, &spread), COLUMN(sum, &sum), COLUMN(sum_high, &high), COLUMN(buckets, &buckets);
#undef COLUMN
	counts.n_bucket = counts.n_bucket_values = 2;
	counts.bucket = bucket, counts.bucket_values = more;
	assert_true(is_taken(&counts));
#define REFUSED(change, undo) do { change; assert_false(is_taken(&counts)); undo; } while (0)
	REFUSED(events = 11, events = 10);		/* more than there are numbers */
	REFUSED(events = 0, events = 10);
	REFUSED(errors = 11, errors = 0);
	REFUSED(values = 11, values = 3);
	REFUSED(values = 4, values = 3);		/* that are in no bucket */
	REFUSED(values = 2, values = 3);
	REFUSED(values = 0, values = 3);		/* columns go on */
	REFUSED(spread = UINT64_MAX - 4, spread = 2);	/* a greatest beyond all numbers */
	REFUSED(high = 3, high = 0);			/* a sum of more than so many values */
	REFUSED(buckets = 1, buckets = 2);
	REFUSED(buckets = 3, buckets = 2);
	REFUSED(bucket[1] = 0, bucket[1] = 1);		/* twice the same */
	REFUSED(bucket[1] = COUNT_BUCKET_NUMBERS - 5, bucket[1] = 1);
	REFUSED(bucket[0] = COUNT_BUCKET_NUMBERS, bucket[0] = 5);
	REFUSED((more[0] = 0, more[1] = 3), (more[0] = 2, more[1] = 1));
	REFUSED(counts.n_errors = 0, counts.n_errors = 1);
	REFUSED(counts.n_sum = 0, counts.n_sum = 1);
	REFUSED(counts.n_events = 0, counts.n_events = 1);
#undef REFUSED
	counts.n_sum_high = 0;
	assert_true(is_taken(&counts));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_written),
		cmocka_unit_test(test_of_one_batch_without),
		cmocka_unit_test(test_at_its_bounds),
		cmocka_unit_test(test_contradictions),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
