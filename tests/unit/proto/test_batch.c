/*
 * test_batch: what is encoded is what is decoded, at every extreme, and protobuf-c agrees byte by
 * byte. The random stories print their seed; RINGTAIL_SEED repeats one.
 */
#include "story.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "proto/batch_layout.h"
#include "proto/ringtail.pb-c.h"

#define NEVER UINT64_MAX	/* the duration of a call that does not return */

static struct batch_encoder *encoder;

static int setup(void **state)
{
	(void)state;
	encoder = batch_encoder_create(STORY_PROBE_IDS);
	return encoder ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	batch_encoder_destroy(encoder);
	return 0;
}

/* Begins a batch that has a thread 0. */
static void begin_with_thread(void)
{
	const struct batch_thread thread = { .tid = 1 };
	uint64_t slot = 0;

	batch_encode_begin(encoder, 0, 0, 0);
	assert_int_equal(batch_encode_thread(encoder, &thread, &slot), 0);
}

/* protobuf-c reads the encoder's bytes and writes the same ones. */
static void check_protobuf_c(const uint8_t *message, size_t bytes)
{
	Ringtail__V1__Batch *batch = ringtail__v1__batch__unpack(NULL, bytes, message);
	uint8_t *packed;

	assert_non_null(batch);
	assert_int_equal(ringtail__v1__batch__get_packed_size(batch), bytes);
	packed = malloc(bytes + 1);
	assert_non_null(packed);
	assert_int_equal(ringtail__v1__batch__pack(batch, packed), bytes);
	assert_memory_equal(packed, message, bytes);
	free(packed);
	ringtail__v1__batch__free_unpacked(batch, NULL);
}

static void check(struct story *story)
{
	struct batch_decoder *decoder = batch_decoder_create(story->probe, STORY_PROBE_IDS);
	const uint8_t *message;
	size_t bytes;

	assert_non_null(decoder);
	message = story_tell(story, encoder, &bytes);
	assert_in_range(bytes, 0, FRAME_RAW_BYTES_MAX);
	story_check(story, decoder, message, bytes);
	if (bytes)
		check_protobuf_c(message, bytes);
	batch_decoder_destroy(decoder);
	free(story);
}

static void test_empty(void **state)
{
	struct story *story = story_create(0, 0);

	(void)state;
	story->cpu = 0;
	batch_encode_begin(encoder, 0, 0, 0);
	check(story);
	story = story_create(UINT64_MAX, UINT64_MAX);
	check(story);
}

static void test_extreme_values(void **state)
{
	static const uint64_t extreme[] = {
		0, 1, 127, 128, 16383, 16384, UINT32_MAX, INT64_MAX, (uint64_t)INT64_MIN,
		UINT64_MAX, 0x0080000000000000, 0x00ffffffffffffff, 0x8000000000000001,
	};
	struct story *story = story_create(10, 1000);

	(void)state;
	story_probe(story, 7, PROBE_FIELDS_MAX, false);
	story_probe(story, 8, 0, false);
	story_probe(story, 9, 1, true);
	for (size_t i = 0; i < sizeof(extreme) / sizeof(extreme[0]); i++) {
		for (size_t j = 0; j < sizeof(extreme) / sizeof(extreme[0]); j++) {
			uint64_t *field = story_event(story, 7, i % 3, 1000 + i);

			for (unsigned k = 0; k < PROBE_FIELDS_MAX; k++)
				field[k] = k % 2 ? extreme[i] : extreme[j];
			story_event(story, 8, 0, extreme[i]);
			story_event(story, 9, 1, extreme[i])[0] = extreme[j];
		}
	}
	check(story);
}

static void test_call_that_never_returns(void **state)
{
	struct story *story = story_create(0, 5000);

	(void)state;
	story_probe(story, 1, 3, true);
	story_event(story, 1, 0, 6000)[0] = NEVER;
	story_event(story, 1, 0, 7000)[0] = 10;
	story_event(story, 1, 0, 8000)[0] = NEVER;
	check(story);
}

static void test_time_that_goes_back(void **state)
{
	struct story *story = story_create(0, 1000000);

	(void)state;
	story_probe(story, 1, 2, true);
	story_probe(story, 2, 1, false);
	for (unsigned i = 0; i < 100; i++) {
		story_event(story, 1, i % 2, 900000 - i * 777)[0] = i * 100000;
		story_event(story, 2, i % 2, i)[0] = i;
	}
	check(story);
}

static void test_most_events(void **state)
{
	struct story *story = story_create(1, 1);
	struct batch_event event = { .probe = 1, .fields = 2, .time_ns = 9 };
	uint64_t field[2] = { 0 };
	const uint8_t *message;
	size_t bytes;

	(void)state;
	story_probe(story, 1, 2, false);
	for (unsigned i = 0; i < BATCH_EVENTS_MAX; i++)
		story_event(story, 1, i % 3, i * 10)[1] = i / 100;
	message = story_tell(story, encoder, &bytes);
	assert_non_null(message);
	assert_int_equal(batch_encode_events(encoder), BATCH_EVENTS_MAX);
	event.field = field;
	assert_false(batch_encode_event(encoder, &event));
	check(story);
}

/*
 * Every event carries all it may, every value at its longest, and the first `attached` have all that may
 * be attached: the batch says that it is full before anything is refused, and the message is within its
 * bound, whichever of the two fills the room that they share.
 */
static void fill(uint32_t attached)
{
	struct story *story = story_create(1, 0);
	struct batch_decoder *decoder = batch_decoder_create(story->probe, STORY_PROBE_IDS);
	struct batch_summary summary;
	struct batch_item item;
	uint64_t field[PROBE_FIELDS_MAX], stack[STACK_FRAMES_MAX];
	uint8_t text[STRING_BYTES_MAX];
	struct batch_event event = {
		.probe = 1, .fields = PROBE_FIELDS_MAX, .has_duration = true, .field = field,
	};
	const uint8_t *message;
	uint32_t events = 0;
	size_t bytes;

	memset(stack, 0xff, sizeof(stack));
	memset(text, 0xff, sizeof(text));
	story_probe(story, 1, PROBE_FIELDS_MAX, true);
	batch_encode_begin(encoder, UINT32_MAX, UINT64_MAX / 2, UINT64_MAX);
	for (;; events++) {
		uint32_t number = events % STORY_THREADS_MAX;

		for (unsigned i = 0; i < PROBE_FIELDS_MAX; i++)
			field[i] = (uint64_t)INT64_MIN * (events / STORY_THREADS_MAX % 2 + 1) + i;
		event.time_ns = UINT64_MAX / 3 * events;
		event.thread = batch_encode_thread(encoder, &story->thread[number],
						   &story->slot[number]);
		batch_encode_skip(encoder, 1ULL << 40);
		if (!batch_encode_event(encoder, &event))
			break;
		for (unsigned i = 0; events < attached && i < EVENT_ATTACHMENTS_MAX; i++)
			assert_true(i < 6 ? batch_encode_string(encoder, UINT32_MAX, text,
								sizeof(text)) :
				    batch_encode_stack(encoder, i == 6, stack, STACK_FRAMES_MAX));
	}
	message = batch_encode_finish(encoder, &bytes);
	assert_in_range(bytes, FRAME_RAW_BYTES_MAX / 3, FRAME_RAW_BYTES_MAX);
	assert_int_equal(batch_decode_open(decoder, message, bytes, &summary), 0);
	assert_int_equal(summary.events, events);
	assert_int_equal(summary.skipped, (uint64_t)(events + 1) << 40);
	for (uint32_t i = 0; batch_decode_next(decoder, &item) == BATCH_EVENT; i++)
		assert_int_equal(item.attachments, i < attached ? EVENT_ATTACHMENTS_MAX : 0);
	assert_int_equal(item.kind, BATCH_END);
	batch_decoder_destroy(decoder);
	free(story);
}

static void test_full(void **state)
{
	(void)state;
	fill(UINT32_MAX);
	fill(0);
	fill(300);
}

static void test_tables_full(void **state)
{
	struct batch_thread thread = { .comm = "x" };
	struct batch_event event = { .time_ns = 1 };
	uint64_t slot;

	(void)state;
	batch_encode_begin(encoder, 0, 0, 0);
	for (uint32_t i = 0; i < BATCH_THREADS_MAX; i++) {
		slot = 0;
		thread.tid = i;
		assert_int_equal(batch_encode_thread(encoder, &thread, &slot), i);
		assert_int_equal(batch_encode_thread(encoder, &thread, &slot), i);
	}
	slot = 0;
	assert_int_equal(batch_encode_thread(encoder, &thread, &slot), UINT32_MAX);
	for (uint16_t i = 0; i < BATCH_PROBES_MAX; i++) {
		event.probe = i;
		assert_true(batch_encode_event(encoder, &event));
	}
	event.probe = BATCH_PROBES_MAX;
	assert_false(batch_encode_event(encoder, &event));
	event.probe = 5;
	assert_true(batch_encode_event(encoder, &event));
	for (uint32_t i = 0; i < BATCH_LOSSES_MAX; i++)
		assert_true(batch_encode_loss(encoder, 1, i % 2, 0));
	assert_false(batch_encode_loss(encoder, 1, 0, 0));
	assert_true(batch_encode_loss(encoder, 0, 0, 0));
	assert_int_equal(batch_encode_end_seq(encoder), BATCH_PROBES_MAX + 1 + BATCH_LOSSES_MAX);
}

static void test_losses_and_skips(void **state)
{
	struct story *story = story_create(UINT64_MAX / 2, 77);

	(void)state;
	story_probe(story, 1, 1, false);
	story_skip(story, 5);
	story_loss(story, 3, 0, 1);
	story_loss(story, 4, 0, 1);
	story_skip(story, 2);
	story_loss(story, 1, 0, 1);
	story_loss(story, 1, 2, 6);
	story_loss(story, 2, 2, 5);
	story_skip(story, 7);
	story_event(story, 1, 0, 100);
	story_event(story, 1, 0, 101);
	story_loss(story, 1ULL << 60, 0, 2);
	story_event(story, 1, 0, 102);
	story_skip(story, 1ULL << 61);
	story_event(story, 1, 0, 103);
	story_loss(story, 9, 1, 5);
	story_skip(story, 11);
	check(story);
}

static void test_only_losses_or_only_skips(void **state)
{
	struct story *story = story_create(5, 77);

	(void)state;
	story_loss(story, 3, 0, 1);
	check(story);
	story = story_create(5, 77);
	story_skip(story, 3);
	check(story);
	batch_encode_begin(encoder, 0, 0, 0);
	batch_encode_skip(encoder, 1);
}

static void test_skip_late(void **state)
{
	struct story *story = story_create(5, 77);

	(void)state;
	story_probe(story, 1, 1, false);
	for (unsigned i = 0; i < 1000; i++) {
		if (i == 700 || i == 702)
			story_skip(story, i);
		story_event(story, 1, 0, 100 + i);
	}
	check(story);
}

static void test_attachments(void **state)
{
	struct story *story = story_create(5, 77);
	struct batch_event event = { .probe = 1, .time_ns = 1 };
	uint64_t frame[STACK_FRAMES_MAX + 1] = { 0 };
	char text[STRING_BYTES_MAX + 1];

	(void)state;
	memset(text, 'x', sizeof(text));
	story_probe(story, 1, 1, false);
	story_event(story, 1, 0, 100);
	story_string(story, 1, "/etc/passwd", 11);
	story_string(story, 0, "", 0);
	story_event(story, 1, 0, 101);
	story_event(story, 1, 0, 102);
	story_string(story, 3, text, STRING_BYTES_MAX);
	story_stack(story, true, STACK_FRAMES_MAX, 0xffffffff81000000);
	story_stack(story, false, 0, 0);
	check(story);

	begin_with_thread();
	assert_false(batch_encode_string(encoder, 0, "x", 1));		/* of no event */
	assert_true(batch_encode_event(encoder, &event));
	assert_false(batch_encode_string(encoder, 0, text, STRING_BYTES_MAX + 1));
	assert_false(batch_encode_stack(encoder, true, frame, STACK_FRAMES_MAX + 1));
	for (unsigned i = 0; i < EVENT_ATTACHMENTS_MAX; i++)
		assert_true(batch_encode_string(encoder, i, "x", 1));
	assert_false(batch_encode_string(encoder, 0, "x", 1));
}

/* As many attachments as a batch may have: it is full when another event's might not fit. */
static void test_most_attachments(void **state)
{
	struct batch_event event = { .probe = 1, .time_ns = 1 };
	uint32_t attachments = 0;
	size_t bytes;

	(void)state;
	begin_with_thread();
	while (batch_encode_event(encoder, &event))
		for (unsigned i = 0; i < EVENT_ATTACHMENTS_MAX; i++, attachments++)
			assert_true(batch_encode_string(encoder, 0, "x", 1));
	assert_int_equal(attachments, BATCH_ATTACHMENTS_MAX);
	assert_non_null(batch_encode_finish(encoder, &bytes));
	assert_in_range(bytes, 0, FRAME_RAW_BYTES_MAX);
}

/* A thread's slot belongs to one batch: in the next it is introduced again, under its new name. */
static void test_thread_again(void **state)
{
	struct batch_thread thread = { .tid = 5, .comm = "old" };
	uint64_t slot = 0;

	(void)state;
	batch_encode_begin(encoder, 0, 0, 0);
	assert_int_equal(batch_encode_thread(encoder, &thread, &slot), 0);
	slot = 0;				/* how the caller says that its name changed */
	assert_int_equal(batch_encode_thread(encoder, &thread, &slot), 1);
	batch_encode_begin(encoder, 0, 0, 0);
	assert_int_equal(batch_encode_thread(encoder, &thread, &slot), 0);
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

static uint64_t random_value(uint64_t *seed)
{
	return random_next(seed) >> random_next(seed) % 64;
}

static void random_event(struct story *story, uint64_t *seed, uint64_t *now)
{
	uint16_t probe = random_next(seed) % 20;
	uint64_t *field;

	*now += random_value(seed) % (random_next(seed) % 100 ? 3000 : UINT64_MAX);
	field = story_event(story, probe, random_next(seed) % STORY_THREADS_MAX, *now);
	for (unsigned i = 0; i < story->probe[probe].fields; i++)
		field[i] = random_next(seed) % 3 ? 42 : random_value(seed);
	if (random_next(seed) % 50 == 0)
		story_string(story, 2, "a string", random_next(seed) % 8);
	if (random_next(seed) % 50 == 0)
		story_stack(story, random_next(seed) % 2, random_next(seed) % 33,
			    random_value(seed));
}

static void test_random(void **state)
{
	const char *given = getenv("RINGTAIL_SEED");
	uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);

	(void)state;
	seed |= 1;
	printf("# RINGTAIL_SEED=%" PRIu64 "\n", seed);
	for (unsigned round = 0; round < 100; round++) {
		struct story *story = story_create(random_value(&seed) / 2, random_value(&seed));
		unsigned steps = random_next(&seed) % 2000;
		uint64_t now = story->time_ns;

		for (unsigned i = 0; i < 20; i++)
			story_probe(story, i, (i + 1) % (PROBE_FIELDS_MAX + 1), i % 3);
		story_probe(story, PROBE_FIELDS_MAX, 0, false);
		for (unsigned i = 0; i < steps; i++) {
			if (random_next(&seed) % 40 == 0)
				story_loss(story, 1 + random_value(&seed) % 1000, i % 4, i % 9);
			if (random_next(&seed) % 90 == 0)
				story_skip(story, random_value(&seed) % 100000);
			random_event(story, &seed, &now);
		}
		check(story);
	}
}

static uint32_t field_number(const ProtobufCMessageDescriptor *message, const char *name)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(message, name);

	assert_non_null(field);
	return field->id;
}

/* batch_layout.h says by hand what ringtail.proto says. */
static void test_layout(void **state)
{
	const ProtobufCMessageDescriptor *batch = &ringtail__v1__batch__descriptor;
	const ProtobufCMessageDescriptor *thread = &ringtail__v1__thread__descriptor;
	const ProtobufCMessageDescriptor *loss = &ringtail__v1__loss__descriptor;
	const ProtobufCMessageDescriptor *attachment = &ringtail__v1__attachment__descriptor;

	(void)state;
	assert_int_equal(field_number(batch, "cpu"), BATCH_CPU);
	assert_int_equal(field_number(batch, "first_seq"), BATCH_FIRST_SEQ);
	assert_int_equal(field_number(batch, "end_seq"), BATCH_END_SEQ);
	assert_int_equal(field_number(batch, "time_ns"), BATCH_TIME_NS);
	assert_int_equal(field_number(batch, "events"), BATCH_EVENTS);
	assert_int_equal(field_number(batch, "thread"), BATCH_THREAD);
	assert_int_equal(field_number(batch, "probe"), BATCH_PROBE);
	assert_int_equal(field_number(batch, "loss"), BATCH_LOSS_FIELD);
	assert_int_equal(field_number(batch, "attachment"), BATCH_ATTACHMENT);
	assert_int_equal(field_number(batch, "stack"), BATCH_STACK);
	for (unsigned i = 0; i < BATCH_COLUMNS; i++)
		assert_int_equal(field_number(batch, batch_columns[i].name),
				 batch_columns[i].field);
	assert_int_equal(field_number(batch, "text"), BATCH_TEXT);
	assert_int_equal(field_number(batch, "counts"), BATCH_COUNTS);
	assert_int_equal(batch->n_fields, 12 + BATCH_COLUMNS);
	assert_int_equal(field_number(thread, "tid"), THREAD_TID);
	assert_int_equal(field_number(thread, "pid"), THREAD_PID);
	assert_int_equal(field_number(thread, "comm"), THREAD_COMM);
	assert_int_equal(field_number(thread, "uid"), THREAD_UID);
	assert_int_equal(field_number(thread, "ppid"), THREAD_PPID);
	assert_int_equal(field_number(thread, "kernel"), THREAD_KERNEL);
	assert_int_equal(field_number(thread, "exe"), THREAD_EXE);
	assert_int_equal(field_number(thread, "cgroup"), THREAD_CGROUP);
	assert_int_equal(field_number(thread, "cgroup_id"), THREAD_CGROUP_ID);
	assert_int_equal(field_number(loss, "before"), LOSS_BEFORE);
	assert_int_equal(field_number(loss, "count"), LOSS_COUNT);
	assert_int_equal(field_number(loss, "stage"), LOSS_STAGE);
	assert_int_equal(field_number(loss, "reason"), LOSS_REASON);
	assert_int_equal(field_number(loss, "skipped"), LOSS_SKIPPED);
	assert_int_equal(field_number(attachment, "event"), ATTACHMENT_EVENT);
	assert_int_equal(field_number(attachment, "kind"), ATTACHMENT_KIND);
	assert_int_equal(field_number(attachment, "arg"), ATTACHMENT_ARG);
	assert_int_equal(field_number(attachment, "text"), ATTACHMENT_TEXT);
	assert_int_equal(field_number(attachment, "frame"), ATTACHMENT_FRAME);
	assert_int_equal(RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING, ATTACHMENT_KIND_STRING);
	assert_int_equal(RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_KSTACK, ATTACHMENT_KIND_KSTACK);
	assert_int_equal(RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_USTACK, ATTACHMENT_KIND_USTACK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_empty),
		cmocka_unit_test(test_extreme_values),
		cmocka_unit_test(test_call_that_never_returns),
		cmocka_unit_test(test_time_that_goes_back),
		cmocka_unit_test(test_most_events),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_tables_full),
		cmocka_unit_test(test_losses_and_skips),
		cmocka_unit_test(test_only_losses_or_only_skips),
		cmocka_unit_test(test_skip_late),
		cmocka_unit_test(test_attachments),
		cmocka_unit_test(test_most_attachments),
		cmocka_unit_test(test_thread_again),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
