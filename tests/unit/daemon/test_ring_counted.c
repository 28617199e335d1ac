/*
 * What a producer counts instead of recording it, as the reader numbers it: behind what was read, once each, also from
 * one reader to the next; the ledger closes at each step.
 */
#include "tests/unit/daemon/small_ring.h"

#include <errno.h>

#define OTHER	(PROBE + 3)
#define MADE	(RT_PROBE_MADE + 5)
#define ALL	16

static void open_counting(struct fixture *f)
{
	struct ring_writer_config config = {
		.cpu = 3, .ring_bytes = RING_BYTES, .subbuf_bytes = SUBBUF_BYTES, .policy = RT_POLICY_DROP,
		.counts = true,
	};
	struct error error;

	memset(f, 0, sizeof(*f));
	assert_int_equal(ring_writer_create(&config, &f->writer, &error), 0);
	f->producer = ring_writer_map(f->writer, &f->map_bytes);
	f->consumer = ring_writer_consumer(f->writer);
	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, f->consumer, &f->reader, &error), 0);
}

/* Another reader goes on where this one is. */
static void read_anew(struct fixture *f)
{
	struct error error;

	ring_reader_destroy(f->reader);
	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, f->consumer, &f->reader, &error), 0);
}

static void expect_usage(const struct fixture *f, uint64_t records, uint64_t in_flight)
{
	struct ring_usage usage;

	ring_reader_usage(f->reader, &usage);
	assert_int_equal(usage.records, records);
	assert_int_equal(usage.in_flight, in_flight);
	assert_int_equal(usage.produced, records + in_flight);
}

static void expect_counted(struct fixture *f, uint16_t probe, uint64_t good, uint64_t bad)
{
	struct ring_counted counted[ALL];

	assert_int_equal(ring_reader_take_counted(f->reader, counted, ALL), 1);
	assert_int_equal(counted[0].probe, probe);
	assert_int_equal(counted[0].good, good);
	assert_int_equal(counted[0].bad, bad);
}

static void test_numbered_behind_what_was_read(void **state)
{
	struct ring_counted counted[ALL];
	struct fixture f;

	(void)state;
	open_counting(&f);
	assert_true(ring_reader_watch_counted(f.reader, PROBE) && ring_reader_watch_counted(f.reader, PROBE));
	assert_int_equal(ring_reader_take_counted(f.reader, counted, ALL), 0);
	write_one(&f);
	ring_writer_count(f.writer, PROBE, 40, 2);
	expect_usage(&f, 0, 43);
	expect_record(&f, 0);
	expect_counted(&f, PROBE, 40, 2);
	assert_int_equal(ring_reader_seq(f.reader), 43);
	assert_int_equal(ring_reader_take_counted(f.reader, counted, ALL), 0);
	write_one(&f);
	ring_writer_count(f.writer, PROBE, 0, 1);
	expect_record(&f, 43);
	expect_counted(&f, PROBE, 0, 1);
	expect_usage(&f, 45, 0);
	close_ring(&f);
}

/* A part at a time; what nobody looks after waits. */
static void test_only_what_is_watched(void **state)
{
	struct ring_counted counted[ALL];
	struct fixture f;

	(void)state;
	open_counting(&f);
	assert_true(ring_reader_watch_counted(f.reader, OTHER) && ring_reader_watch_counted(f.reader, MADE));
	assert_false(ring_reader_watch_counted(f.reader, RT_PROBE_SYSCALL_ENTRY));
	assert_false(ring_reader_watch_counted(f.reader, RT_PROBE_SCHED_SWITCH));
	assert_false(ring_reader_watch_counted(f.reader, RT_PROBE_PROGRAM));
	ring_writer_count(f.writer, PROBE, 100, 0);
	ring_writer_count(f.writer, OTHER, 1, 0);
	ring_writer_count(f.writer, MADE, 2, 0);
	expect_usage(&f, 0, 3);
	assert_int_equal(ring_reader_take_counted(f.reader, counted, 1), 1);
	expect_counted(&f, MADE, 2, 0);
	assert_int_equal(ring_reader_seq(f.reader), 3);
	ring_reader_unwatch_counted(f.reader);
	ring_writer_count(f.writer, OTHER, 7, 0);
	assert_int_equal(ring_reader_take_counted(f.reader, counted, ALL), 0);
	ring_reader_watch_counted(f.reader, OTHER);
	expect_counted(&f, OTHER, 7, 0);
	expect_usage(&f, 10, 0);
	close_ring(&f);
}

static void test_next_reader_numbers_what_was_counted_meanwhile(void **state)
{
	struct fixture f;

	(void)state;
	open_counting(&f);
	ring_reader_set_epoch(f.reader, 9);
	ring_reader_watch_counted(f.reader, PROBE);
	write_one(&f);
	expect_record(&f, 0);
	ring_writer_count(f.writer, PROBE, 5, 1);
	expect_counted(&f, PROBE, 5, 1);
	ring_reader_release(f.reader);
	ring_writer_count(f.writer, PROBE, 30, 0);
	read_anew(&f);
	assert_int_equal(ring_reader_seq(f.reader), 7);
	expect_usage(&f, 0, 30);
	ring_reader_watch_counted(f.reader, PROBE);
	assert_int_equal(ring_reader_take_counted_before(f.reader), 30);
	assert_int_equal(ring_reader_take_counted_before(f.reader), 0);
	expect_usage(&f, 30, 0);
	ring_writer_count(f.writer, PROBE, 3, 0);
	expect_counted(&f, PROBE, 3, 0);
	assert_int_equal(ring_reader_seq(f.reader), 40);
	close_ring(&f);
}

/* The numbers that the first one gave to what it took, and did not leave word of, are given again. */
static void test_reader_ends_before_it_leaves_word(void **state)
{
	struct fixture f;

	(void)state;
	open_counting(&f);
	ring_reader_set_epoch(f.reader, 9);
	ring_reader_watch_counted(f.reader, PROBE);
	ring_writer_count(f.writer, PROBE, 6, 0);
	expect_counted(&f, PROBE, 6, 0);
	read_anew(&f);
	assert_int_equal(ring_reader_seq(f.reader), 0);
	assert_int_equal(ring_reader_take_counted_before(f.reader), 6);
	assert_int_equal(ring_reader_seq(f.reader), 6);
	close_ring(&f);
}

/* A note of more than was ever counted is of another ring: nothing goes on. */
static void test_note_that_cannot_be(void **state)
{
	struct rt_ring_note note;
	struct fixture f;

	(void)state;
	open_counting(&f);
	ring_reader_set_epoch(f.reader, 9);
	ring_reader_watch_counted(f.reader, PROBE);
	ring_writer_count(f.writer, PROBE, 6, 0);
	expect_counted(&f, PROBE, 6, 0);
	ring_reader_release(f.reader);
	assert_true(ring_note_read(f.consumer, 0, 0, &note));
	assert_int_equal(note.counted, 6);
	note.counted = 7;
	ring_note_write(f.consumer, &note);
	read_anew(&f);
	assert_int_equal(ring_reader_epoch(f.reader), 0);
	assert_int_equal(ring_reader_seq(f.reader), 0);
	assert_int_equal(ring_reader_take_counted_before(f.reader), 0);
	close_ring(&f);
}

static void test_damage_is_noticed(void **state)
{
	struct ring_counted counted[ALL];
	struct ring_reader *reader;
	struct fixture f;
	struct error error;

	(void)state;
	open_counting(&f);
	ring_reader_watch_counted(f.reader, PROBE);
	ring_writer_count(f.writer, PROBE, (uint64_t)-9, 0);
	assert_int_equal(ring_reader_take_counted(f.reader, counted, ALL), 0);
	assert_non_null(ring_reader_error(f.reader));
	assert_int_equal(ring_reader_create(f.producer, f.map_bytes - 8, f.consumer, &reader, &error), -EPROTO);
	f.producer->counted_places = 7;
	assert_int_equal(ring_reader_create(f.producer, f.map_bytes, f.consumer, &reader, &error), -EPROTO);
	f.producer->counted_places = 1ull << 32 | RT_COUNTED_PLACES;
	assert_int_equal(ring_reader_create(f.producer, f.map_bytes, f.consumer, &reader, &error), -EPROTO);
	close_ring(&f);
}

static void test_ring_without_counts(void **state)
{
	struct ring_counted counted[ALL];
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_false(ring_reader_watch_counted(f.reader, PROBE));
	assert_int_equal(ring_reader_take_counted(f.reader, counted, ALL), 0);
	assert_int_equal(ring_reader_take_counted_before(f.reader), 0);
	close_ring(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbered_behind_what_was_read),
		cmocka_unit_test(test_only_what_is_watched),
		cmocka_unit_test(test_next_reader_numbers_what_was_counted_meanwhile),
		cmocka_unit_test(test_reader_ends_before_it_leaves_word),
		cmocka_unit_test(test_note_that_cannot_be),
		cmocka_unit_test(test_damage_is_noticed),
		cmocka_unit_test(test_ring_without_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
