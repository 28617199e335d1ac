/*
 * What a spool knows of a frame by its message alone: how many attempts it tells of, and what became of them; and of
 * messages that cannot be, that they are none.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/spool/frame.h"
#include "proto/ringtail.pb-c.h"

#define BYTES_MAX 512

static uint8_t raw[BYTES_MAX];

static size_t pack(const ProtobufCMessage *message)
{
	assert_true(protobuf_c_message_get_packed_size(message) <= sizeof(raw));
	return protobuf_c_message_pack(message, raw);
}

struct lost {
	int stage, reason;
	uint64_t count;
};

/* Attempts 10 to 20, so many events, and these losses until one has no count. */
static bool describe_batch(struct frame_ref *frame, uint64_t end_seq, uint32_t events, const struct lost *lost)
{
	Ringtail__V1__Batch batch = RINGTAIL__V1__BATCH__INIT;
	Ringtail__V1__Loss loss[8], *list[8];

	batch.cpu = 3;
	batch.first_seq = 10;
	batch.end_seq = end_seq;
	batch.events = events;
	batch.loss = list;
	for (; lost && lost[batch.n_loss].count; batch.n_loss++) {
		Ringtail__V1__Loss *one = list[batch.n_loss] = &loss[batch.n_loss];

		ringtail__v1__loss__init(one);
		one->stage = (Ringtail__V1__LossStage)lost[batch.n_loss].stage;
		one->reason = (Ringtail__V1__LossReason)lost[batch.n_loss].reason;
		one->count = lost[batch.n_loss].count;
	}
	*frame = (struct frame_ref){.type = FRAME_BATCH};
	return spool_frame_describe(frame, raw, pack(&batch.base));
}

static void a_batch_adds_up(void **state)
{
	const struct lost lost[] = {{0, 1, 2}, {1, 1, 1}, {0, 1, 1}, {0, 0, 0}};
	struct frame_ref frame;

	(void)state;
	assert_true(describe_batch(&frame, 20, 5, lost));
	assert_int_equal(frame.cpu, 3);
	assert_int_equal(frame.first_seq, 10);
	assert_int_equal(frame.end_seq, 20);
	assert_int_equal(frame.events, 5);
	assert_int_equal(frame.losses, 2);
	assert_int_equal(frame.loss[0].count, 3);
	assert_int_equal(frame.loss[1].count, 1);
	assert_int_equal(frame.loss[1].stage, 1);
	assert_int_equal(frame.skipped, 1);
	assert_true(describe_batch(&frame, 20, 10, NULL));
	assert_int_equal(frame.skipped, 0);
	assert_true(describe_batch(&frame, 11, 0, NULL));
	assert_int_equal(frame.skipped, 1);
}

static void a_batch_that_cannot_be(void **state)
{
	static const struct {
		uint64_t end_seq;
		uint32_t events;
		struct lost lost[8];
	} row[] = {
		{10, 0, {{0, 0, 0}}},					/* of nothing */
		{9, 0, {{0, 0, 0}}},
		{20, 11, {{0, 0, 0}}},
		{20, 8, {{0, 1, 3}}},
		{20, 0, {{0, 1, 11}}},
		{20, 0, {{0, 1, 6}, {1, 1, 5}}},
		{20, 0, {{0, 1, UINT64_MAX}, {1, 1, 5}}},
		{20, 0, {{LOSS_STAGES, 1, 1}}},
		{20, 0, {{0, LOSS_REASONS, 1}}},
	};
	struct frame_ref frame;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		if (describe_batch(&frame, row[i].end_seq, row[i].events, row[i].lost))
			fail_msg("row %zu", i);
}

static bool describe_gap(struct frame_ref *frame, uint64_t end_seq, uint64_t events, int stage, int reason)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;

	gap.cpu = 3;
	gap.first_seq = 10;
	gap.end_seq = end_seq;
	gap.events = events;
	gap.stage = (Ringtail__V1__LossStage)stage;
	gap.reason = (Ringtail__V1__LossReason)reason;
	*frame = (struct frame_ref){.type = FRAME_GAP};
	return spool_frame_describe(frame, raw, pack(&gap.base));
}

/* If nobody knows how many events a gap had, all of its attempts may have been. */
static void a_gap_adds_up(void **state)
{
	static const struct {
		uint64_t end_seq, events, lost;
	} row[] = {{20, 4, 4}, {20, 0, 10}, {20, 10, 10}, {20, 11, 10}, {10, 0, 0}, {10, 7, 0}};
	struct frame_ref frame;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_true(describe_gap(&frame, row[i].end_seq, row[i].events, LOSS_STAGE_SPOOL, LOSS_REASON_DISK));
		assert_int_equal(frame.cpu, 3);
		assert_int_equal(frame.losses, row[i].lost != 0);
		assert_int_equal(row[i].lost ? frame.loss[0].count : 0, row[i].lost);
		assert_int_equal(frame.skipped, row[i].end_seq - 10 - row[i].lost);
		assert_true(!row[i].lost || (frame.loss[0].stage == LOSS_STAGE_SPOOL &&
					     frame.loss[0].reason == LOSS_REASON_DISK));
	}
	assert_false(describe_gap(&frame, 9, 0, 0, 1));
	assert_false(describe_gap(&frame, 20, 0, LOSS_STAGES, 1));
	assert_false(describe_gap(&frame, 20, 0, 0, LOSS_REASONS));
}

static unsigned calls, wanted;

static bool on_position(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	assert_null(context);
	calls++;
	assert_int_equal(cpu, 4 + calls);
	assert_int_equal(seq, 100 * calls);
	assert_int_equal(skipped, 10 * calls);
	return calls < wanted;
}

static void places_of_a_watermark(void **state)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	Ringtail__V1__Position position[3], *list[3];
	struct frame_ref frame = {.type = FRAME_WATERMARK};
	size_t bytes;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = 5 + i;
		position[i].seq = 100 * (i + 1);
		position[i].skipped = 10 * (i + 1);
		list[i] = &position[i];
	}
	watermark.time_ns = 7;
	watermark.position = list;
	watermark.n_position = 3;
	bytes = pack(&watermark.base);
	assert_true(spool_frame_describe(&frame, raw, bytes));
	assert_int_equal(frame.time_ns, 7);
	for (wanted = 1; wanted <= 4; wanted++) {
		calls = 0;
		assert_int_equal(spool_frame_positions(raw, bytes, on_position, NULL), wanted > 3);
		assert_int_equal(calls, wanted < 3 ? wanted : 3);
	}
	assert_false(spool_frame_describe(&frame, raw, bytes - 1));
	calls = 0;
	assert_false(spool_frame_positions(raw, bytes - 1, on_position, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_batch_adds_up),
		cmocka_unit_test(a_batch_that_cannot_be),
		cmocka_unit_test(a_gap_adds_up),
		cmocka_unit_test(places_of_a_watermark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
