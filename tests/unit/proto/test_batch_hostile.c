/*
 * test_batch_hostile: batches that lie. Each breaks one rule of docs/protocol.md and must be
 * refused with an error that names what is wrong; fields from the future are passed over.
 */
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

#define PROBE_IDS	100
#define EVENTS		4

/* The last is beyond those that the decoder is told of: were it looked at, it would do. */
static const struct batch_probe probes[PROBE_IDS + 1] = {
	[10] = { .known = true, .fields = 3, .has_duration = true },
	[11] = { .known = true, .fields = 2 },
	[12] = { .known = true, .fields = PROBE_FIELDS_MAX + 1 },
	[13] = { .known = true, .fields = 0, .has_duration = true },
	[PROBE_IDS] = { .known = true, .fields = 2 },
};

static struct batch_decoder *decoder;

/* A batch that is right: events 0, 1 and 2 of probe 10 and event 3 of probe 11; a loss before 2. */
struct good {
	Ringtail__V1__Batch batch;
	Ringtail__V1__Thread thread, *threads[BATCH_THREADS_MAX + 1];
	Ringtail__V1__Loss loss, second_loss, *losses[BATCH_LOSSES_MAX + 1];
	Ringtail__V1__Attachment attachment, second_attachment, *attachments[16];
	uint32_t probe[BATCH_PROBES_MAX + 1], event_probe[EVENTS + 1], event_thread[EVENTS + 1];
	uint32_t changed[EVENTS + 1], gap_low[EVENTS], span_low[EVENTS + 1];
	uint64_t time_high[EVENTS + 1], gap_more[EVENTS], event_skipped[EVENTS + 1], frame[40];
	int64_t value[8];
	uint8_t text[STRING_BYTES_MAX + 1];
};

static void fill_tables(struct good *good)
{
	ringtail__v1__thread__init(&good->thread);
	ringtail__v1__loss__init(&good->loss);
	ringtail__v1__loss__init(&good->second_loss);
	ringtail__v1__attachment__init(&good->attachment);
	ringtail__v1__attachment__init(&good->second_attachment);
	good->thread.tid = 5;
	good->loss.before = 2;
	good->loss.count = 6;
	good->loss.skipped = 1;
	good->second_loss.before = 2;
	good->second_loss.count = 1;
	good->attachment.event = 1;
	good->attachment.kind = RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING;
	good->attachment.text = (ProtobufCBinaryData){ .len = 3, .data = good->text };
	good->second_attachment.event = 2;
	good->second_attachment.kind = RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_USTACK;
	good->second_attachment.frame = good->frame;
	good->second_attachment.n_frame = 2;
	for (size_t i = 0; i <= BATCH_THREADS_MAX; i++)
		good->threads[i] = &good->thread;
	for (size_t i = 0; i <= BATCH_LOSSES_MAX; i++)
		good->losses[i] = i ? &good->second_loss : &good->loss;
	for (size_t i = 0; i < 16; i++)
		good->attachments[i] = i ? &good->second_attachment : &good->attachment;
	for (size_t i = 0; i <= BATCH_PROBES_MAX; i++)
		good->probe[i] = i ? 11 : 10;
}

static struct good *good_create(void)
{
	struct good *good = calloc(1, sizeof(*good));
	Ringtail__V1__Batch *batch = &good->batch;

	assert_non_null(good);
	ringtail__v1__batch__init(batch);
	fill_tables(good);
	good->event_probe[3] = 1;
	good->changed[0] = 3;
	good->changed[3] = 2;
	good->time_high[2] = 7;		/* its gap goes on in gap_more */
	good->event_skipped[1] = 2;
	batch->cpu = 2;
	batch->first_seq = 100;
	batch->end_seq = 100 + EVENTS + 6 + 1 + 1 + 2 + 5;
	batch->events = EVENTS;
	batch->thread = good->threads;
	batch->n_thread = 1;
	batch->probe = good->probe;
	batch->n_probe = 2;
	batch->loss = good->losses;
	batch->n_loss = 2;
	batch->attachment = good->attachments;
	batch->n_attachment = 2;
	batch->event_probe = good->event_probe;
	batch->event_thread = good->event_thread;
	batch->changed = good->changed;
	batch->time_high = good->time_high;
	batch->span_low = good->span_low;
	batch->event_skipped = good->event_skipped;
	batch->n_event_probe = batch->n_event_thread = batch->n_changed = EVENTS;
	batch->n_time_high = batch->n_span_low = batch->n_event_skipped = EVENTS;
	batch->gap_low = good->gap_low;
	batch->n_gap_low = 3;
	batch->gap_more = good->gap_more;
	batch->n_gap_more = 1;
	batch->value = good->value;
	batch->n_value = 3;
	return good;
}

/* The error that bytes meet, or "" if they are a batch. */
static const char *error_of(const uint8_t *message, size_t bytes)
{
	struct batch_summary summary;
	struct batch_item item = { 0 };
	enum batch_item_kind kind;

	if (batch_decode_open(decoder, message, bytes, &summary)) {
		assert_int_equal(batch_decode_next(decoder, &item), BATCH_ERROR);
		assert_null(batch_decode_thread(decoder, 5));
		return batch_decode_error(decoder);
	}
	do {
		kind = batch_decode_next(decoder, &item);
	} while (kind == BATCH_EVENT || kind == BATCH_LOSS);
	assert_int_equal(batch_decode_next(decoder, &item), kind);
	return kind == BATCH_END ? "" : batch_decode_error(decoder);
}

/* Packs it with `extra` bytes behind it, frees it, and compares the error. */
static void expect_with(struct good *good, const char *extra, size_t extra_bytes, const char *error)
{
	size_t bytes = ringtail__v1__batch__get_packed_size(&good->batch);
	uint8_t *message = malloc(bytes + extra_bytes);
	const char *got;

	assert_non_null(message);
	ringtail__v1__batch__pack(&good->batch, message);
	memcpy(message + bytes, extra, extra_bytes);
	got = error_of(message, bytes + extra_bytes);
	if (*error ? !strstr(got, error) : *got)
		fail_msg("the error is \"%s\", not \"%s\"", got, error);
	free(message);
	free(good);
}

static void expect(struct good *good, const char *error)
{
	expect_with(good, "", 0, error);
}

#define EXPECT(error, change) \
	do { \
		struct good *good = good_create(); \
		change; \
		expect(good, error); \
	} while (0)

#define EXPECT_EXTRA(error, extra) \
	expect_with(good_create(), extra, sizeof(extra) - 1, error)

static void test_good(void **state)
{
	(void)state;
	EXPECT("", (void)good);
}

static void test_column_lengths(void **state)
{
	(void)state;
	EXPECT("event_probe is shorter", good->batch.n_event_probe--);
	EXPECT("event_thread is shorter", good->batch.n_event_thread--);
	EXPECT("changed is shorter", good->batch.n_changed--);
	EXPECT("time_high is shorter", good->batch.n_time_high--);
	EXPECT("span_low is shorter", good->batch.n_span_low--);
	EXPECT("event_probe is shorter", good->batch.n_event_probe = 0);
	EXPECT("event_probe goes on", good->batch.n_event_probe++);
	EXPECT("event_thread goes on", good->batch.n_event_thread++);
	EXPECT("changed goes on", good->batch.n_changed++);
	EXPECT("time_high goes on", good->batch.n_time_high++);
	EXPECT("span_low goes on", good->batch.n_span_low++);
	EXPECT("gap_low ends early", good->batch.n_gap_low--);
	EXPECT("gap_low goes on", good->batch.n_gap_low++);
	EXPECT("gap_more ends early", good->batch.n_gap_more--);
	EXPECT("gap_more goes on", good->batch.n_gap_more++);
	EXPECT("value ends early", good->batch.n_value--);
	EXPECT("value goes on", good->batch.n_value++);
	EXPECT("event_skipped ends early", good->batch.n_event_skipped--);
	EXPECT("event_skipped goes on", good->batch.n_event_skipped++);
}

static void test_column_values(void **state)
{
	(void)state;
	EXPECT("event_probe is out of range at event 1 of 4", good->event_probe[1] = 2);
	EXPECT("event_thread is out of range at event 3", good->event_thread[3] = 1);
	EXPECT("changed is out of range", good->changed[0] = 4);
	EXPECT("gap_low is out of range", good->gap_low[0] = 128);
	EXPECT("span_low is out of range", good->span_low[0] = 128);
	EXPECT("time_high is out of range", good->time_high[0] = 1ULL << 60);
	EXPECT("gap_more is out of range", good->gap_more[0] = 1ULL << 57);
	EXPECT("", good->gap_more[0] = (1ULL << 57) - 1);
	EXPECT("event_probe is out of range", good->batch.n_probe = 0);
	EXPECT("event_thread is out of range", good->batch.n_thread = 0);
}

static void test_numbers(void **state)
{
	(void)state;
	EXPECT("more events and losses than numbers", good->batch.end_seq = 99);
	EXPECT("more events and losses than numbers", good->batch.end_seq = 103);
	EXPECT("more events and losses than numbers", good->loss.count = UINT64_MAX);
	EXPECT("more events and losses than numbers", good->loss.count = 6 + 9 + 1);
	EXPECT("numbers run past 119", good->event_skipped[3] = 6);
	EXPECT("numbers run past 119", good->event_skipped[0] = UINT64_MAX);
	EXPECT("numbers run past 119", good->loss.skipped = 1 + 6);
	EXPECT("", good->event_skipped[3] = 5);
	EXPECT("4294967295 events, 8192 are allowed", good->batch.events = UINT32_MAX);
	EXPECT("8193 events, 8192 are allowed", good->batch.events = BATCH_EVENTS_MAX + 1);
	EXPECT("goes on", good->batch.events--);
}

static void test_tables(void **state)
{
	(void)state;
	EXPECT("probe 99 is not in the catalog", good->probe[1] = 99);
	EXPECT("probe 100 is not in the catalog", good->probe[1] = 100);
	EXPECT("probe 4294967295 is not in the catalog", good->probe[1] = UINT32_MAX);
	EXPECT("probe 12 has 25 fields", good->probe[1] = 12);
	EXPECT("probe 13 has 0 fields", good->probe[1] = 13);
	EXPECT("", good->batch.n_thread = BATCH_THREADS_MAX);
	EXPECT("over 1024 threads", good->batch.n_thread = BATCH_THREADS_MAX + 1);
	EXPECT("", good->batch.n_probe = BATCH_PROBES_MAX);
	EXPECT("over 1024 probes", good->batch.n_probe = BATCH_PROBES_MAX + 1);
	EXPECT("over 1024 losses", good->batch.n_loss = BATCH_LOSSES_MAX + 1);
	EXPECT("", good->thread.comm = ((ProtobufCBinaryData){ .len = 16, .data = good->text }));
	EXPECT("message Thread",
	       good->thread.comm = ((ProtobufCBinaryData){ .len = 17, .data = good->text }));
}

static void test_losses(void **state)
{
	(void)state;
	EXPECT("losses are not in order", good->second_loss.before = 1);
	EXPECT("a loss stands after", good->second_loss.before = EVENTS + 1);
	EXPECT("", good->second_loss.before = EVENTS);
	EXPECT("a loss of nothing", good->loss.count = 0);
}

static void test_attachments(void **state)
{
	static Ringtail__V1__Attachment *many[BATCH_ATTACHMENTS_MAX + 1];

	(void)state;
	EXPECT("over 24576 attachments", {
		for (size_t i = 0; i <= BATCH_ATTACHMENTS_MAX; i++)
			many[i] = &good->attachment;
		good->batch.attachment = many;
		good->batch.n_attachment = BATCH_ATTACHMENTS_MAX + 1;
	});
	EXPECT("an attachment belongs to no event", good->second_attachment.event = EVENTS);
	EXPECT("attachments are not in the order", good->second_attachment.event = 0);
	EXPECT("attachment of unknown kind 0", good->attachment.kind = 0);
	EXPECT("attachment of unknown kind 9", good->attachment.kind = 9);
	EXPECT("what is not of its kind", good->attachment.kind = 2);
	EXPECT("what is not of its kind", good->second_attachment.kind = 1);
	EXPECT("", good->batch.n_attachment = 9);
	EXPECT("over 8 attachments of event 2", good->batch.n_attachment = 10);
	EXPECT("", good->second_attachment.n_frame = STACK_FRAMES_MAX);
	EXPECT("malformed stack at event 2",
	       good->second_attachment.n_frame = STACK_FRAMES_MAX + 1);
	EXPECT("", good->attachment.text.len = STRING_BYTES_MAX);
	EXPECT("message Attachment", good->attachment.text.len = STRING_BYTES_MAX + 1);
}

static void test_wire_format(void **state)
{
	(void)state;
	EXPECT_EXTRA("not a protobuf message", "\x08");			/* ends in a varint */
	EXPECT_EXTRA("not a protobuf message", "\x00\x05");		/* field 0 */
	EXPECT_EXTRA("not a protobuf message", "\x7a\x05""abcd");	/* ends in bytes */
	EXPECT_EXTRA("not a protobuf message", "\x7b\x7c");		/* a group */
	EXPECT_EXTRA("not a protobuf message", "\xd1\x0f""1234567");	/* ends in a fixed64 */
	EXPECT_EXTRA("not a protobuf message", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02");
	EXPECT_EXTRA("not a protobuf message", "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
	EXPECT_EXTRA("field 1 of message Batch", "\x08\xff\xff\xff\xff\x7f");	/* over 32 bits */
	EXPECT_EXTRA("field 1 of message Batch", "\x0a\x00");
	EXPECT_EXTRA("field 6 of message Batch", "\x30\x00");
	EXPECT_EXTRA("field 7 of message Batch", "\x3a\x01\x80");
	EXPECT_EXTRA("field 6 of message Thread", "\x32\x02\x30\x02");	/* not a boolean */
	EXPECT_EXTRA("field 1 of message Thread", "\x32\x02\x0a\x00");
	EXPECT_EXTRA("field 2 of message Loss", "\x42\x02\x12\x00");
	EXPECT_EXTRA("of message Loss", "\x42\x01\x08");
	EXPECT_EXTRA("field 4 of message Attachment", "\x92\x01\x02\x20\x00");
	EXPECT_EXTRA("column event_probe comes twice", "\x4a\x00");
	EXPECT_EXTRA("column event_probe is not packed", "\x48\x00");
}

static void test_fields_from_the_future(void **state)
{
	(void)state;
	EXPECT_EXTRA("", "\xc8\x0f\x05");		/* field 249: varint */
	EXPECT_EXTRA("", "\xc9\x0f""12345678");		/* fixed64 */
	EXPECT_EXTRA("", "\xca\x0f\x03""abc");		/* bytes */
	EXPECT_EXTRA("", "\xcd\x0f""1234");		/* fixed32 */
	EXPECT_EXTRA("", "\x32\x03\xc8\x0f\x05");	/* in a thread */
}

static void test_too_large(void **state)
{
	uint8_t *bytes = calloc(1, FRAME_RAW_BYTES_MAX + 1);

	(void)state;
	assert_non_null(bytes);
	assert_non_null(strstr(error_of(bytes, FRAME_RAW_BYTES_MAX + 1), "are allowed"));
	free(bytes);
}

static int setup(void **state)
{
	(void)state;
	decoder = batch_decoder_create(probes, PROBE_IDS);
	return decoder ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	batch_decoder_destroy(decoder);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_column_lengths),
		cmocka_unit_test(test_column_values),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_tables),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_attachments),
		cmocka_unit_test(test_wire_format),
		cmocka_unit_test(test_fields_from_the_future),
		cmocka_unit_test(test_too_large),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
