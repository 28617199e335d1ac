/*
 * What a reader says of its ring, against what was done to it: everything that is unread or lost and not
 * yet come to is in flight, the equation closes at any time, and it does not where the ring's counters
 * disagree. One thread: a writer that is interrupted is one that has reserved and not committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/limits.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/writer.h"

#define RING_BYTES	RT_RING_BYTES_MIN
#define PROBE		RT_PROBE_SYSCALL_CALL
#define WORDS		5
#define SLOTS		8
#define STEPS		200000

struct fixture {
	struct ring_writer *writer;
	struct ring_reader *reader;
	struct rt_ring_producer *producer;
	size_t map_bytes;
	uint64_t attempts;		/* made */
};

static void open_reader(struct fixture *f)
{
	struct error error;

	assert_int_equal(ring_reader_create(f->producer, f->map_bytes,
					    ring_writer_consumer(f->writer), &f->reader, &error), 0);
}

static void open_ring(struct fixture *f, enum rt_policy policy)
{
	struct ring_writer_config config = {.ring_bytes = RING_BYTES, .policy = policy};
	struct error error;

	memset(f, 0, sizeof(*f));
	assert_int_equal(ring_writer_create(&config, &f->writer, &error), 0);
	f->producer = ring_writer_map(f->writer, &f->map_bytes);
	open_reader(f);
}

static void close_ring(struct fixture *f)
{
	ring_reader_destroy(f->reader);
	ring_writer_destroy(f->writer);
}

static int write_words(struct fixture *f, uint32_t words)
{
	static const uint64_t payload[RT_RECORD_WORDS_MAX];
	struct ring_writer_record record = {.probe = PROBE, .payload = payload, .words = words};

	f->attempts++;
	return ring_writer_write(f->writer, &record);
}

static int reserve(struct fixture *f, struct ring_writer_slot *slot)
{
	f->attempts++;
	return ring_writer_reserve(f->writer, WORDS, 0, slot);
}

static void commit(struct fixture *f, const struct ring_writer_slot *slot)
{
	static const uint64_t payload[WORDS];
	struct ring_writer_record record = {.probe = PROBE, .payload = payload, .words = WORDS};

	ring_writer_commit(f->writer, slot, &record);
}

static uint64_t read_items(struct fixture *f, unsigned items)
{
	struct ring_item item;
	uint64_t n = 0;

	while (n < items && ring_reader_next(f->reader, &item) != RING_EMPTY)
		n++;
	ring_reader_release(f->reader);
	return n;
}

static int64_t residual(const struct ring_usage *usage)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		lost += usage->lost[i];
	return (int64_t)(usage->produced - usage->records - lost - usage->in_flight);
}

/* What it says, with a residual of 0. */
static struct ring_usage usage_of(const struct fixture *f)
{
	struct ring_usage usage;

	ring_reader_usage(f->reader, &usage);
	assert_int_equal(residual(&usage), 0);
	return usage;
}

static void expect(const struct fixture *f, uint64_t produced, uint64_t unread, uint64_t in_flight)
{
	struct ring_usage usage = usage_of(f);

	assert_int_equal(usage.produced, produced);
	assert_int_equal(usage.unread, unread);
	assert_int_equal(usage.in_flight, in_flight);
}

static void counts_what_is_unread(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	expect(&f, 0, 0, 0);
	for (unsigned lap = 0; lap < 20; lap++) {	/* of all lengths, over fillers and heads */
		for (unsigned i = 0; i < 40; i++)
			assert_int_equal(write_words(&f, 1 + i), 0);
		expect(&f, f.attempts, 40, 40);
		read_items(&f, 15);
		expect(&f, f.attempts, 25, 25);
		read_items(&f, 1000);
		expect(&f, f.attempts, 0, 0);
	}
	close_ring(&f);
}

static void counts_what_is_lost_before_it_comes_to_it(void **state)
{
	struct ring_usage usage;
	struct fixture f;
	uint64_t fitted;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	while (write_words(&f, WORDS) == 0)
		;
	fitted = f.attempts - 1;
	for (unsigned i = 0; i < 999; i++)
		assert_int_not_equal(write_words(&f, WORDS), 0);
	ring_writer_lose(f.writer, RT_LOST_NEST, 7);
	f.attempts += 7;
	expect(&f, f.attempts, fitted, fitted + 1007);
	read_items(&f, 10);
	expect(&f, f.attempts, fitted - 10, fitted - 10 + 1007);
	read_items(&f, 100000);
	expect(&f, f.attempts, 0, 0);
	usage = usage_of(&f);
	assert_int_equal(usage.records, fitted);
	assert_int_equal(usage.lost[RT_LOST_FULL], 1000);
	assert_int_equal(usage.lost[RT_LOST_NEST], 7);
	close_ring(&f);
}

/* A ring full behind an unfinished record: nothing of it is read, all of it is in flight. */
static void a_wedged_ring_is_all_in_flight(void **state)
{
	struct ring_writer_slot slot;
	struct fixture f;
	uint64_t records;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_words(&f, WORDS), 0);
	assert_int_equal(reserve(&f, &slot), 0);
	while (write_words(&f, WORDS) == 0)
		;
	records = f.attempts - 1;
	for (unsigned i = 0; i < 5000; i++)
		assert_int_not_equal(write_words(&f, WORDS), 0);
	read_items(&f, 100000);
	assert_int_equal(ring_reader_seq(f.reader), 1);
	expect(&f, f.attempts, records - 1, f.attempts - 1);
	commit(&f, &slot);
	expect(&f, f.attempts, records - 1, f.attempts - 1);
	read_items(&f, 100000);
	expect(&f, f.attempts, 0, 0);
	close_ring(&f);
}

/* Neighbours that are unfinished count as one, until they are finished. */
static void unfinished_neighbours_count_as_one(void **state)
{
	struct ring_writer_slot slot[3];
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(reserve(&f, &slot[i]), 0);
	assert_int_equal(write_words(&f, WORDS), 0);
	expect(&f, 2, 2, 2);
	commit(&f, &slot[1]);
	expect(&f, 4, 4, 4);
	commit(&f, &slot[2]);
	commit(&f, &slot[0]);
	expect(&f, 4, 4, 4);
	close_ring(&f);
}

/* The counters of reasons and their sum are two words for one thing. */
static void does_not_close_where_the_ring_disagrees_with_itself(void **state)
{
	struct ring_usage usage;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	write_words(&f, WORDS);
	read_items(&f, 10);
	__atomic_fetch_add(&f.producer->lost[RT_LOST_FULL], 1000, __ATOMIC_SEQ_CST);
	ring_reader_usage(f.reader, &usage);
	assert_int_equal(residual(&usage), 1000);
	assert_int_equal(usage.in_flight, 0);
	__atomic_fetch_sub(&f.producer->lost[RT_LOST_FULL], 998, __ATOMIC_SEQ_CST);
	expect(&f, 3, 0, 2);		/* a few may be between the two: they are not done */
	__atomic_fetch_add(&f.producer->lost_total, 3, __ATOMIC_SEQ_CST);
	ring_reader_usage(f.reader, &usage);
	assert_int_equal(residual(&usage), -1);
	close_ring(&f);
}

static void goes_on_where_another_ended(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	ring_reader_set_epoch(f.reader, 1);
	for (unsigned i = 0; i < 100; i++)
		write_words(&f, WORDS);
	ring_writer_lose(f.writer, RT_LOST_NEST, 5);
	read_items(&f, 1000);
	ring_writer_lose(f.writer, RT_LOST_FULL, 11);
	for (unsigned i = 0; i < 50; i++)
		write_words(&f, WORDS);
	read_items(&f, 10);
	ring_reader_destroy(f.reader);
	open_reader(&f);
	assert_int_equal(ring_reader_epoch(f.reader), 1);
	expect(&f, 41, 41, 41);
	read_items(&f, 1000);
	expect(&f, 41, 0, 0);
	close_ring(&f);
}

/* Where the oldest go, it learns of them as it comes to them: nothing is counted twice. */
static void counts_what_was_overwritten(void **state)
{
	struct ring_usage usage;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_OVERWRITE);
	for (unsigned i = 0; i < 1000; i++)
		write_words(&f, WORDS);
	usage = usage_of(&f);
	assert_true(usage.produced < 1000 && usage.in_flight == usage.produced);
	assert_true(usage.unread > RING_BYTES / 2 / 64);
	read_items(&f, 10000);
	expect(&f, 1000, 0, 0);
	for (unsigned i = 0; i < 10; i++)
		write_words(&f, WORDS);
	expect(&f, 1010, 10, 10);
	close_ring(&f);
}

static void shows_the_rings_own_counts(void **state)
{
	struct ring_usage usage;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	f.producer->foreign = 1;
	f.producer->unpaired = 2;
	f.producer->faults = 3;
	f.producer->consumer_bad = 4;
	usage = usage_of(&f);
	assert_int_equal(usage.foreign, 1);
	assert_int_equal(usage.unpaired, 2);
	assert_int_equal(usage.faults, 3);
	assert_int_equal(usage.consumer_bad, 4);
	close_ring(&f);
}

/* Fewer looks see less, never more; and a ring that breaks its rules has nothing to read any more. */
static void looks_no_further_than_it_may(void **state)
{
	struct ring_item item;
	struct ring_span span;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned i = 0; i < 20; i++)
		write_words(&f, WORDS);
	span = (struct ring_span){
		.data = (const uint8_t *)f.producer + RT_PAGE_BYTES, .size_bytes = RING_BYTES,
		.key = f.producer->key, .end = f.producer->producer_pos,
	};
	assert_int_equal(ring_unread_count(&span, 0), 0);
	assert_int_equal(ring_unread_count(&span, 11), 10);	/* the head is one place */
	assert_int_equal(ring_unread_count(&span, UNREAD_LOOKS_MAX), 20);
	__atomic_store_n(&f.producer->producer_pos, 12345677, __ATOMIC_SEQ_CST);
	while (ring_reader_next(f.reader, &item) == RING_RECORD)
		;
	expect(&f, usage_of(&f).records, 0, 0);
	close_ring(&f);
}

/* One step of somebody, at random. */
static void step(struct fixture *f, struct ring_writer_slot slot[SLOTS], unsigned *slots)
{
	unsigned which;

	switch (rand() % 8) {
	case 0:
	case 1:
		if (*slots < SLOTS && reserve(f, &slot[*slots]) == 0)
			++*slots;
		break;
	case 2:
	case 3:
		if (!*slots)
			break;
		which = (unsigned)rand() % *slots;
		commit(f, &slot[which]);
		slot[which] = slot[--*slots];
		break;
	case 4:
		which = (unsigned)rand() % 3;
		ring_writer_lose(f->writer, RT_LOST_NEST, which);
		f->attempts += which;
		break;
	case 5:
		read_items(f, (unsigned)rand() % 40);
		break;
	default:
		write_words(f, 1 + (uint32_t)rand() % 60);
	}
}

static void closes_at_any_time(void **state)
{
	const char *given = getenv("RINGTAIL_SEED");
	unsigned seed = given ? (unsigned)atoi(given) : (unsigned)time(NULL), slots = 0;
	struct ring_writer_slot slot[SLOTS];
	uint64_t before = 0, exact = 0;
	struct fixture f;

	(void)state;
	printf("seed %u\n", seed);
	srand(seed);
	open_ring(&f, RT_POLICY_DROP);
	for (unsigned i = 0; i < STEPS; i++) {
		struct ring_usage usage;

		step(&f, slot, &slots);
		usage = usage_of(&f);
		assert_true(usage.produced <= f.attempts);
		assert_true(usage.produced >= before);
		if (slots <= 1) {
			assert_int_equal(usage.produced, f.attempts);
			exact++;
		}
		before = usage.produced;
	}
	assert_true(exact > 0 && f.producer->lost[RT_LOST_FULL] > 0);
	while (slots)
		commit(&f, &slot[--slots]);
	read_items(&f, 100000);
	expect(&f, f.attempts, 0, 0);
	close_ring(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_what_is_unread),
		cmocka_unit_test(counts_what_is_lost_before_it_comes_to_it),
		cmocka_unit_test(a_wedged_ring_is_all_in_flight),
		cmocka_unit_test(unfinished_neighbours_count_as_one),
		cmocka_unit_test(does_not_close_where_the_ring_disagrees_with_itself),
		cmocka_unit_test(goes_on_where_another_ended),
		cmocka_unit_test(counts_what_was_overwritten),
		cmocka_unit_test(shows_the_rings_own_counts),
		cmocka_unit_test(looks_no_further_than_it_may),
		cmocka_unit_test(closes_at_any_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
