/* Threads' executable files and cgroups in a batch: once each, where asked, and held to their bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/batch_decode.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

static const struct batch_probe probes[11] = { [10] = { .known = true, .fields = 1 } };

static const struct batch_text cat = { .serial = 1, .data = "/bin/cat", .bytes = 8 };
static const struct batch_text docker = { .serial = 2, .data = "/docker", .bytes = 7 };

static void add_event(struct batch_encoder *encoder, uint32_t tid, const struct batch_text *exe,
		      const struct batch_text *cgroup)
{
	struct batch_thread who = { .tid = tid, .pid = 9, .cgroup_id = 1ull << 40, .exe = exe,
				    .cgroup = cgroup };
	uint64_t slot = 0, field = 5;
	struct batch_event event = { .probe = 10, .fields = 1, .time_ns = tid, .field = &field };

	event.thread = batch_encode_thread(encoder, &who, &slot);
	assert_int_not_equal(event.thread, UINT32_MAX);
	assert_true(batch_encode_event(encoder, &event));
}

static void expect(const struct batch_text *text, const struct batch_text *wanted)
{
	assert_int_equal(!text, !wanted);
	if (!text)
		return;
	assert_int_equal(text->bytes, wanted->bytes);
	assert_memory_equal(text->data, wanted->data, text->bytes);
}

static struct batch_encoder *make(bool context)
{
	struct batch_encoder *encoder = batch_encoder_create(11);

	assert_non_null(encoder);
	batch_encoder_set_context(encoder, context);
	batch_encode_begin(encoder, 1, 0, 0);
	add_event(encoder, 1, &cat, &docker);
	add_event(encoder, 2, &cat, NULL);
	add_event(encoder, 3, NULL, &docker);
	return encoder;
}

static void test_each_text_is_there_once(void **state)
{
	static const struct batch_text *const exe[] = { &cat, &cat, NULL };
	static const struct batch_text *const cgroup[] = { &docker, NULL, &docker };
	struct batch_decoder *decoder = batch_decoder_create(probes, 11);
	struct batch_encoder *encoder = make(true);
	Ringtail__V1__Batch *batch;
	struct batch_summary summary;
	struct batch_item item;
	const uint8_t *raw;
	uint8_t *again;
	size_t bytes;

	(void)state;
	raw = batch_encode_finish(encoder, &bytes);
	batch = ringtail__v1__batch__unpack(NULL, bytes, raw);
	assert_non_null(batch);
	assert_int_equal(batch->n_text, 2);
	/* The bytes are those that protobuf-c writes. */
	assert_int_equal(ringtail__v1__batch__get_packed_size(batch), bytes);
	again = malloc(bytes);
	ringtail__v1__batch__pack(batch, again);
	assert_memory_equal(again, raw, bytes);
	free(again);
	ringtail__v1__batch__free_unpacked(batch, NULL);
	assert_int_equal(batch_decode_open(decoder, raw, bytes, &summary), 0);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(batch_decode_next(decoder, &item), BATCH_EVENT);
		expect(item.thread->exe, exe[i]);
		expect(item.thread->cgroup, cgroup[i]);
		assert_true(item.thread->cgroup_id == 1ull << 40);
	}
	batch_encoder_destroy(encoder);
	batch_decoder_destroy(decoder);
}

/* Whoever gets the second batch alone finds in it what its threads refer to. */
static void test_the_next_batch_has_its_texts(void **state)
{
	struct batch_decoder *decoder = batch_decoder_create(probes, 11);
	struct batch_encoder *encoder = make(true);
	struct batch_summary summary;
	struct batch_item item;
	const uint8_t *raw;
	size_t bytes;

	(void)state;
	batch_encode_finish(encoder, &bytes);
	batch_encode_begin(encoder, 1, 3, 3);
	add_event(encoder, 4, &docker, &cat);
	raw = batch_encode_finish(encoder, &bytes);
	assert_int_equal(batch_decode_open(decoder, raw, bytes, &summary), 0);
	assert_int_equal(batch_decode_next(decoder, &item), BATCH_EVENT);
	expect(item.thread->exe, &docker);
	expect(item.thread->cgroup, &cat);
	batch_encoder_destroy(encoder);
	batch_decoder_destroy(decoder);
}

static void test_without_context_nothing_of_it_is_there(void **state)
{
	struct batch_encoder *encoder = make(false);
	Ringtail__V1__Batch *batch;
	const uint8_t *raw;
	size_t bytes;

	(void)state;
	raw = batch_encode_finish(encoder, &bytes);
	batch = ringtail__v1__batch__unpack(NULL, bytes, raw);
	assert_int_equal(batch->n_text, 0);
	for (size_t i = 0; i < batch->n_thread; i++)
		assert_true(!batch->thread[i]->exe && !batch->thread[i]->cgroup &&
			    !batch->thread[i]->cgroup_id);
	ringtail__v1__batch__free_unpacked(batch, NULL);
	batch_encoder_destroy(encoder);
}

/* Threads with the longest texts: the batch is full before its message is, and says so. */
static void test_texts_fill_a_batch(void **state)
{
	static char data[TEXT_BYTES_MAX];
	struct batch_encoder *encoder = batch_encoder_create(11);
	uint64_t field = 5, slot;
	size_t bytes;

	(void)state;
	memset(data, 'x', sizeof(data));
	batch_encoder_set_context(encoder, true);
	for (unsigned threads, round = 0; round < 2; round++) {
		batch_encode_begin(encoder, 1, 0, 0);
		for (threads = 0; threads < BATCH_THREADS_MAX; threads++) {
			struct batch_text text = { .serial = 10 + threads, .data = data,
						   .bytes = sizeof(data) };
			struct batch_thread who = { .tid = threads + 1, .pid = 1, .exe = &text };
			struct batch_event event = { .probe = 10, .fields = 1, .field = &field };

			slot = 0;
			event.thread = batch_encode_thread(encoder, &who, &slot);
			if (event.thread == UINT32_MAX || !batch_encode_event(encoder, &event))
				break;
		}
		assert_in_range(threads, 256, BATCH_TEXTS_MAX);
		assert_non_null(batch_encode_finish(encoder, &bytes));
		assert_true(bytes <= FRAME_RAW_BYTES_MAX);
	}
	batch_encoder_destroy(encoder);
}

/* As many of the longest texts as there may be, and only then events, every value at its longest. */
static void test_texts_leave_less_room_for_values(void **state)
{
	static char data[TEXT_BYTES_MAX];
	struct batch_encoder *encoder = batch_encoder_create(11);
	uint64_t field[PROBE_FIELDS_MAX], slot;
	struct batch_event event = { .probe = 10, .fields = PROBE_FIELDS_MAX, .field = field };
	size_t texts = 0, events = 0, bytes;

	(void)state;
	assert_non_null(encoder);
	memset(data, 'x', sizeof(data));
	batch_encoder_set_context(encoder, true);
	batch_encode_begin(encoder, 1, 0, 0);
	for (;; texts++) {
		struct batch_text text = { .serial = 10 + texts, .data = data, .bytes = sizeof(data) };
		struct batch_thread who = { .tid = (uint32_t)texts + 1, .pid = 1, .exe = &text };

		slot = 0;
		if (batch_encode_thread(encoder, &who, &slot) == UINT32_MAX)
			break;
	}
	assert_in_range(texts, 256, BATCH_TEXTS_MAX);
	for (;; events++) {
		for (unsigned i = 0; i < PROBE_FIELDS_MAX; i++)
			field[i] = events % 2 ? 0 : (uint64_t)INT64_MIN;
		if (!batch_encode_event(encoder, &event))
			break;
	}
	assert_in_range(events, 1, BATCH_EVENTS_MAX - 1);
	/* Each value takes ten bytes. Told before the message is made, which has no room for more. */
	bytes = texts * sizeof(data) + events * PROBE_FIELDS_MAX * 10;
	assert_in_range(bytes, 1, FRAME_RAW_BYTES_MAX);
	assert_non_null(batch_encode_finish(encoder, &bytes));
	assert_in_range(bytes, 1, FRAME_RAW_BYTES_MAX);
	batch_encoder_destroy(encoder);
}

static const char *error_of(Ringtail__V1__Batch *batch)
{
	static char error[256];
	struct batch_decoder *decoder = batch_decoder_create(probes, 11);
	size_t bytes = ringtail__v1__batch__get_packed_size(batch);
	uint8_t *message = malloc(bytes);
	struct batch_summary summary;

	ringtail__v1__batch__pack(batch, message);
	error[0] = '\0';
	if (batch_decode_open(decoder, message, bytes, &summary))
		strncat(error, batch_decode_error(decoder), sizeof(error) - 1);
	batch_decoder_destroy(decoder);
	free(message);
	return error;
}

static void test_texts_that_are_not_there(void **state)
{
	static uint8_t data[TEXT_BYTES_MAX + 1];
	Ringtail__V1__Batch batch = RINGTAIL__V1__BATCH__INIT;
	Ringtail__V1__Thread thread = RINGTAIL__V1__THREAD__INIT, *threads[] = { &thread };
	ProtobufCBinaryData text[BATCH_TEXTS_MAX + 1];

	(void)state;
	for (unsigned i = 0; i <= BATCH_TEXTS_MAX; i++)
		text[i] = (ProtobufCBinaryData){ .len = 1, .data = data };
	batch.thread = threads;
	batch.n_thread = 1;
	batch.text = text;
	batch.n_text = 1;
	thread.exe = 1;
	assert_string_equal(error_of(&batch), "");
	thread.exe = 2;
	assert_non_null(strstr(error_of(&batch), "names a text that is not there"));
	thread.exe = 0;
	thread.cgroup = UINT32_MAX;
	assert_non_null(strstr(error_of(&batch), "names a text that is not there"));
	thread.cgroup = BATCH_TEXTS_MAX;
	batch.n_text = BATCH_TEXTS_MAX;
	assert_string_equal(error_of(&batch), "");
	batch.n_text = BATCH_TEXTS_MAX + 1;
	assert_non_null(strstr(error_of(&batch), "over 512 texts"));
	batch.n_text = BATCH_TEXTS_MAX;
	text[0].len = TEXT_BYTES_MAX;
	assert_string_equal(error_of(&batch), "");
	text[0].len = TEXT_BYTES_MAX + 1;
	assert_non_null(strstr(error_of(&batch), "malformed or over its bound"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_text_is_there_once),
		cmocka_unit_test(test_the_next_batch_has_its_texts),
		cmocka_unit_test(test_without_context_nothing_of_it_is_there),
		cmocka_unit_test(test_texts_fill_a_batch),
		cmocka_unit_test(test_texts_leave_less_room_for_values),
		cmocka_unit_test(test_texts_that_are_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
