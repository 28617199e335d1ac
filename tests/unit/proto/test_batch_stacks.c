/* Stacks that events of a batch share: written once, found again, and refused where they make no sense. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define PROBE	7
#define FRAMES	20

static struct batch_encoder *encoder;
static struct batch_decoder *decoder;
static struct batch_probe probes[PROBE + 1] = { [PROBE] = { .known = true, .fields = 1 } };

static int setup(void **state)
{
	(void)state;
	encoder = batch_encoder_create(PROBE + 1);
	decoder = batch_decoder_create(probes, PROBE + 1);
	return encoder && decoder ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	batch_encoder_destroy(encoder);
	batch_decoder_destroy(decoder);
	return 0;
}

/* The stack with that number: their inner halves differ, their outer ones are the same. */
static void make_stack(uint64_t number, uint64_t frame[FRAMES])
{
	for (unsigned i = 0; i < FRAMES; i++)
		frame[i] = (i < FRAMES / 2 ? number * 4096 : 0) + 0x7f0012345000ull - i * 977;
}

/* Events 0 .. events - 1, each with the user stack i % stacks, and a kernel stack. */
static const uint8_t *encode(unsigned events, unsigned stacks, size_t *bytes)
{
	const struct batch_thread thread = { .tid = 1, .pid = 1 };
	const uint64_t kernel[] = { 0xffffffff81234567, 0xffffffff81000130 };
	uint64_t frame[FRAMES], slot = 0;

	batch_encode_begin(encoder, 0, 0, 0);
	for (uint64_t i = 0; i < events; i++) {
		struct batch_event event = {
			.probe = PROBE, .fields = 1, .time_ns = i * 1000, .field = &i,
		};

		event.thread = batch_encode_thread(encoder, &thread, &slot);
		make_stack(i % stacks, frame);
		assert_true(batch_encode_event(encoder, &event));
		assert_true(batch_encode_stack(encoder, true, kernel, 2));
		assert_true(batch_encode_stack(encoder, false, frame, FRAMES));
	}
	return batch_encode_finish(encoder, bytes);
}

static void check(const uint8_t *message, size_t bytes, unsigned events, unsigned stacks)
{
	struct batch_summary summary;
	struct batch_item item;
	uint64_t frame[FRAMES];

	assert_int_equal(batch_decode_open(decoder, message, bytes, &summary), 0);
	for (unsigned i = 0; i < events; i++) {
		assert_int_equal(batch_decode_next(decoder, &item), BATCH_EVENT);
		assert_int_equal(item.attachments, 2);
		make_stack(i % stacks, frame);
		assert_int_equal(item.attachment[0].frames, 2);
		assert_true(item.attachment[0].frame[1] == 0xffffffff81000130);
		assert_int_equal(item.attachment[1].frames, FRAMES);
		assert_memory_equal(item.attachment[1].frame, frame, sizeof(frame));
	}
	assert_int_equal(batch_decode_next(decoder, &item), BATCH_END);
}

static void stacks_that_come_again_are_written_once(void **state)
{
	Ringtail__V1__Batch *batch;
	const uint8_t *message;
	size_t alone, shared, packed;
	uint8_t *again;

	(void)state;
	message = encode(1000, 10, &alone);
	check(message, alone, 1000, 10);
	batch_encode_begin(encoder, 0, 0, 0);
	assert_true(batch_encode_share_stacks(encoder, true));
	message = encode(1000, 10, &shared);
	check(message, shared, 1000, 10);
	assert_true(shared * 5 < alone);
	/* protobuf-c sees as many stacks, and writes the same bytes. */
	batch = ringtail__v1__batch__unpack(NULL, shared, message);
	assert_non_null(batch);
	assert_int_equal(batch->n_stack, 11);
	packed = ringtail__v1__batch__get_packed_size(batch);
	assert_int_equal(packed, shared);
	again = malloc(packed);
	assert_non_null(again);
	ringtail__v1__batch__pack(batch, again);
	assert_memory_equal(again, message, packed);
	free(again);
	ringtail__v1__batch__free_unpacked(batch, NULL);
}

static void a_batch_knows_no_stack_of_the_one_before(void **state)
{
	const uint8_t *message;
	size_t bytes;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		message = encode(50, 5, &bytes);
		check(message, bytes, 50, 5);
	}
}

static void stacks_beyond_the_table_are_written_out(void **state)
{
	const unsigned events = BATCH_STACKS_MAX + 300;
	const uint8_t *message;
	size_t bytes;

	(void)state;
	message = encode(events, events, &bytes);
	check(message, bytes, events, events);
}

/* A message of protobuf-c's, which holds itself to nothing. */
static void expect_refused(Ringtail__V1__Batch *batch, const char *why)
{
	size_t bytes = ringtail__v1__batch__get_packed_size(batch);
	struct batch_summary summary;
	uint8_t *message = malloc(bytes);

	assert_non_null(message);
	ringtail__v1__batch__pack(batch, message);
	assert_int_not_equal(batch_decode_open(decoder, message, bytes, &summary), 0);
	assert_non_null(strstr(batch_decode_error(decoder), why));
	free(message);
}

static void an_attachment_that_names_no_stack_is_refused(void **state)
{
	Ringtail__V1__Batch *batch;
	const uint8_t *message;
	size_t bytes;

	(void)state;
	message = encode(3, 3, &bytes);
	batch = ringtail__v1__batch__unpack(NULL, bytes, message);
	assert_non_null(batch);
	batch->attachment[5]->stack = 5;
	expect_refused(batch, "names a stack that is not there");
	batch->attachment[5]->stack = UINT32_MAX;
	expect_refused(batch, "names a stack that is not there");
	ringtail__v1__batch__free_unpacked(batch, NULL);
}

static void more_stacks_than_a_batch_may_have_are_refused(void **state)
{
	Ringtail__V1__Stack stack = RINGTAIL__V1__STACK__INIT;
	Ringtail__V1__Stack *list[BATCH_STACKS_MAX + 1];
	Ringtail__V1__Batch batch = RINGTAIL__V1__BATCH__INIT;

	(void)state;
	for (unsigned i = 0; i < BATCH_STACKS_MAX + 1; i++)
		list[i] = &stack;
	batch.stack = list;
	batch.n_stack = BATCH_STACKS_MAX + 1;
	expect_refused(&batch, "stacks");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stacks_that_come_again_are_written_once),
		cmocka_unit_test(a_batch_knows_no_stack_of_the_one_before),
		cmocka_unit_test(stacks_beyond_the_table_are_written_out),
		cmocka_unit_test(an_attachment_that_names_no_stack_is_refused),
		cmocka_unit_test(more_stacks_than_a_batch_may_have_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
