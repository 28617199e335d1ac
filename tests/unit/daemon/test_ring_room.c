/*
 * A ring that runs out of room: what each policy gives up then and counts, and the bell, which
 * calls the reader before that.
 */
#include "tests/unit/daemon/small_ring.h"

#include <errno.h>
#include <unistd.h>

/* Reads everything there is; returns the records. Losses are summed into *lost. */
static uint64_t drain(struct fixture *f, uint64_t *lost)
{
	uint64_t records = 0;
	struct ring_item item;

	for (;;) {
		switch (ring_reader_next(f->reader, &item)) {
		case RING_RECORD:
			records++;
			break;
		case RING_LOST:
			*lost += item.count;
			break;
		case RING_EMPTY:
			ring_reader_release(f->reader);
			return records;
		case RING_CORRUPT:
			fail_msg("%s", ring_reader_error(f->reader));
		}
	}
}

static bool bell_is_rung(struct fixture *f)
{
	struct ring_handle ring;
	uint64_t rings;

	ring_writer_describe(f->writer, &ring);
	return read(ring.bell_fd, &rings, sizeof(rings)) == sizeof(rings);
}

/* ---- Stop and overwrite ---------------------------------------------------------------------- */

static void stops_rings_and_goes_on(void **state)
{
	uint64_t lost = 0, records;
	struct fixture f;
	unsigned fitted;

	(void)state;
	open_ring(&f, RT_POLICY_STOP);
	fitted = fill(&f);
	assert_int_equal(f.producer->state, RT_RING_STOPPED);
	assert_true(bell_is_rung(&f));
	assert_true(RING_BYTES - f.producer->producer_pos < SUBBUF_BYTES);
	assert_int_equal(write_one(&f), -ENOSPC);
	assert_int_equal(ring_writer_wait(f.writer, 1, 1), -EPIPE);
	records = drain(&f, &lost);
	assert_int_equal(records, fitted);
	assert_int_equal(lost, 2);
	assert_int_equal(f.producer->lost[RT_LOST_STOPPED], 2);
	ring_writer_resume(f.writer);
	assert_int_equal(write_one(&f), 0);
	assert_int_equal(drain(&f, &lost), 1);
	close_ring(&f);
}

/* A writer that got its place before the stop keeps it; no other gets one after a full lap. */
static void stops_when_a_nested_writer_finds_it_full(void **state)
{
	struct ring_writer_slot slot[RING_BYTES / RECORD_BYTES + 1];
	uint64_t lost = 0;
	struct fixture f;
	unsigned n = 0;

	(void)state;
	open_ring(&f, RT_POLICY_STOP);
	while (!ring_writer_reserve(f.writer, PAYLOAD_WORDS, 0, &slot[n]))
		n++;
	assert_int_equal(f.producer->lost[RT_LOST_FULL], 1);
	assert_int_equal(f.producer->state, RT_RING_STOPPED);
	for (unsigned i = n; i-- > 0;)
		commit(&f, &slot[i], i);
	assert_int_equal(drain(&f, &lost), n);
	assert_int_equal(lost, 1);
	close_ring(&f);
}

/* The reader stands still for some laps: it gets whole records, and knows what it missed. */
static void overwrites_the_oldest_and_counts_them(void **state)
{
	struct ring_usage usage;
	struct ring_item item;
	struct fixture f;
	uint64_t last = 0;

	(void)state;
	open_ring(&f, RT_POLICY_OVERWRITE);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(write_one(&f), 0);
	for (unsigned i = 0; i < 5; i++)
		expect_record(&f, i);
	for (unsigned i = 10; i < 1000; i++)
		assert_int_equal(write_one(&f), 0);
	assert_int_equal(f.producer->lost_total, 0);

	for (unsigned i = 5; i < 10; i++)	/* of the copy, which is whole */
		expect_record(&f, i);
	assert_int_equal(ring_reader_next(f.reader, &item), RING_LOST);
	assert_int_equal(item.seq, 10);
	assert_int_equal(item.reason, RT_LOST_FULL);
	f.read = last = 10 + item.count;
	assert_true(1000 - last >= 3 * (SUBBUF_BYTES - HEAD_BYTES) / RECORD_BYTES);
	for (; last < 1000; last++)
		expect_record(&f, last);
	expect_empty(&f);
	ring_reader_usage(f.reader, &usage);
	assert_int_equal(usage.produced, 1000);
	assert_int_equal(usage.records + usage.lost[RT_LOST_FULL], 1000);
	close_ring(&f);
}

/* A lap is not started over an unfinished record: that would tear what is newer. */
static void overwrite_does_not_lap_an_unfinished_writer(void **state)
{
	struct ring_writer_slot slot;
	uint64_t lost = 0, records;
	struct fixture f;
	unsigned fitted;

	(void)state;
	open_ring(&f, RT_POLICY_OVERWRITE);
	reserve(&f, &slot);
	f.written = 1;
	fitted = fill(&f);
	assert_int_equal(f.producer->lost[RT_LOST_BUSY], 1);
	expect_empty(&f);
	commit(&f, &slot, 0);
	for (unsigned i = 0; i < fitted + 1; i++)
		expect_record(&f, i);
	expect_lost(&f, fitted + 1, 1, RT_LOST_BUSY);
	expect_empty(&f);
	assert_int_equal(write_one(&f), 0);
	records = drain(&f, &lost);
	assert_int_equal(records, 1);
	assert_int_equal(lost, 0);
	close_ring(&f);
}

/* ---- The bell -------------------------------------------------------------------------------- */

static void rings_once_where_it_was_asked_to(void **state)
{
	struct fixture f;
	uint64_t lost = 0;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));		/* nobody asked */
	assert_false(ring_reader_arm(f.reader, 1));
	drain(&f, &lost);

	assert_true(ring_reader_arm(f.reader, 0));	/* at least one byte */
	assert_int_equal(write_one(&f), 0);
	assert_true(bell_is_rung(&f));
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));		/* once */
	drain(&f, &lost);

	assert_true(ring_reader_arm(f.reader, 3 * RECORD_BYTES));
	assert_int_equal(write_one(&f), 0);
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));
	assert_int_equal(write_one(&f), 0);
	assert_true(bell_is_rung(&f));
	drain(&f, &lost);

	assert_true(ring_reader_arm(f.reader, 1));
	ring_reader_disarm(f.reader);
	assert_int_equal(write_one(&f), 0);
	assert_false(bell_is_rung(&f));
	close_ring(&f);
}

/* Whatever watermark is asked for, a ring that refuses a record has rung. */
static void rings_before_it_is_full(void **state)
{
	struct fixture f;
	uint64_t lost = 0;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned i = 0; i < 50; i++) {
		assert_true(ring_reader_arm(f.reader, UINT64_MAX));
		while (!write_words(&f, RT_RECORD_WORDS_MAX - 3 - i))
			;
		assert_true(bell_is_rung(&f));
		drain(&f, &lost);
	}
	assert_int_equal(lost, 50);
	close_ring(&f);
}

static void wait_ends_when_there_is_room(void **state)
{
	struct fixture f;
	uint64_t lost = 0;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	while (!ring_writer_wait(f.writer, PAYLOAD_WORDS, 1000000))
		assert_int_equal(write_one(&f), 0);
	assert_int_equal(f.producer->lost_total, 0);
	assert_int_equal(drain(&f, &lost), f.written);
	assert_int_equal(ring_writer_wait(f.writer, PAYLOAD_WORDS, 0), 0);
	close_ring(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stops_rings_and_goes_on),
		cmocka_unit_test(stops_when_a_nested_writer_finds_it_full),
		cmocka_unit_test(overwrites_the_oldest_and_counts_them),
		cmocka_unit_test(overwrite_does_not_lap_an_unfinished_writer),
		cmocka_unit_test(rings_once_where_it_was_asked_to),
		cmocka_unit_test(rings_before_it_is_full),
		cmocka_unit_test(wait_ends_when_there_is_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
