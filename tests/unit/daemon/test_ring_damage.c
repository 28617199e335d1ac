/*
 * Reader and writer trust neither each other nor what lies in the ring: every refusal of a position
 * and of a geometry, rings damaged by hand, and garbage.
 */
#include "tests/unit/daemon/small_ring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- What neither side trusts ---------------------------------------------------------------- */

static void refuses_consumer_positions(void **state)
{
	static const uint64_t bad[] = { 4, 1 << 20, ~0ull, 1ull << 63 };
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	fill(&f);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		f.consumer->consumer_pos = bad[i];
		assert_int_equal(write_one(&f), -ENOSPC);
		assert_int_equal(f.producer->consumer_bad, i + 1);
	}
	f.consumer->consumer_pos = 4096;
	assert_int_equal(write_one(&f), 0);
	f.consumer->consumer_pos = 0;		/* back is no place either */
	while (!write_one(&f))
		;
	assert_int_equal(f.producer->consumer_bad, 5);
	close_ring(&f);
}

static void check_refused(struct fixture *f, const char *code)
{
	struct ring_reader *reader = NULL;
	struct error error = { 0 };

	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, f->consumer, &reader,
					    &error), -EPROTO);
	assert_string_equal(error.code, code);
	assert_true(strlen(error.what) > 20);
	assert_null(reader);
	assert_int_equal(ring_reader_create(f->producer, f->map_bytes, f->consumer, &reader, NULL),
			 -EPROTO);
}

static void refuses_what_is_no_ring(void **state)
{
	struct rt_ring_producer good;
	struct ring_reader *reader;
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	good = *f.producer;
#define REFUSED(field, value, code) do { \
		f.producer->field = (value); \
		check_refused(&f, code); \
		*f.producer = good; \
	} while (0)
	REFUSED(magic, 0, "ring-foreign");
	REFUSED(version, RT_ABI_VERSION + 1, "ring-version");
	REFUSED(size_bytes, 0, "ring-geometry");
	REFUSED(size_bytes, RING_BYTES / 2, "ring-geometry");
	REFUSED(size_bytes, RING_BYTES + 4096, "ring-geometry");
	REFUSED(size_bytes, RING_BYTES * 2, "ring-geometry");	/* more than is mapped */
	REFUSED(size_bytes, RT_RING_BYTES_MAX * 2ull, "ring-geometry");
	REFUSED(size_bytes, ~0ull, "ring-geometry");
	REFUSED(subbuf_bytes, 0, "ring-geometry");
	REFUSED(subbuf_bytes, SUBBUF_BYTES / 2, "ring-geometry");
	REFUSED(subbuf_bytes, SUBBUF_BYTES + 8, "ring-geometry");
	REFUSED(subbuf_bytes, RING_BYTES / 2, "ring-geometry");
	REFUSED(policy, RT_POLICY_STOP + 1, "ring-policy");
	REFUSED(cpu, RT_CPUS_MAX, "ring-cpu");
	REFUSED(producer_pos, 4, "ring-position");
	f.consumer->consumer_pos = 8;
	check_refused(&f, "ring-position");
	f.producer->policy = RT_POLICY_OVERWRITE;	/* nor there is more read than was written */
	check_refused(&f, "ring-position");
	*f.producer = good;
	f.consumer->consumer_pos = 0;
	f.map_bytes -= 8;
	check_refused(&f, "ring-geometry");
	f.map_bytes = 100;
	check_refused(&f, "ring-geometry");
	f.map_bytes = RT_PAGE_BYTES;
	check_refused(&f, "ring-geometry");
	assert_int_equal(ring_reader_create((char *)f.producer + 4, RT_PAGE_BYTES, f.consumer,
					    &reader, NULL), -EPROTO);
	close_ring(&f);
	ring_reader_destroy(NULL);
	ring_writer_destroy(NULL);
}

/* Within what is mapped, too. */
static void refuses_what_is_no_power_of_two(void **state)
{
	struct ring_writer_config config = {.cpu = 3, .ring_bytes = 2 * RING_BYTES, .subbuf_bytes = SUBBUF_BYTES};
	struct rt_ring_producer good;
	struct fixture f = {0};
	struct error error;

	(void)state;
	assert_int_equal(ring_writer_create(&config, &f.writer, &error), 0);
	f.producer = ring_writer_map(f.writer, &f.map_bytes);
	f.consumer = ring_writer_consumer(f.writer);
	good = *f.producer;
	REFUSED(size_bytes, RING_BYTES + 4096, "ring-geometry");
	REFUSED(subbuf_bytes, SUBBUF_BYTES + 8, "ring-geometry");
	f.producer->cpu = RT_CPUS_MAX - 1;
	f.producer->subbuf_bytes = 2 * SUBBUF_BYTES;		/* a quarter of it */
	assert_int_equal(ring_reader_create(f.producer, f.map_bytes, f.consumer, &f.reader, &error), 0);
	assert_int_equal(ring_reader_cpu(f.reader), RT_CPUS_MAX - 1);
	assert_null(ring_reader_error(f.reader));
	close_ring(&f);
}

static void writer_refuses_what_is_no_ring(void **state)
{
	static const struct ring_writer_config bad[] = {
		{ .ring_bytes = 0 },
		{ .ring_bytes = RT_RING_BYTES_MIN / 2 },
		{ .ring_bytes = RT_RING_BYTES_MIN + 8 },
		{ .ring_bytes = RT_RING_BYTES_MAX * 2ull },
		{ .ring_bytes = RING_BYTES, .subbuf_bytes = RING_BYTES / 2 },
		{ .ring_bytes = RING_BYTES, .subbuf_bytes = SUBBUF_BYTES / 2 },
		{ .ring_bytes = RING_BYTES * 2, .subbuf_bytes = SUBBUF_BYTES + 8 },
		{ .ring_bytes = RING_BYTES, .policy = 3 },
		{ .ring_bytes = RING_BYTES, .cpu = RT_CPUS_MAX },
	};
	struct ring_writer *writer;
	struct error error;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(ring_writer_create(&bad[i], &writer, &error), -EINVAL);
		assert_string_equal(error.code, "ring-geometry");
	}
}

/* ---- Rings that break their own rules -------------------------------------------------------- */

static void expect_corrupt(struct fixture *f, const char *why)
{
	struct ring_item item;

	assert_null(ring_reader_error(f->reader));
	assert_int_equal(ring_reader_next(f->reader, &item), RING_CORRUPT);
	assert_int_equal(ring_reader_next(f->reader, &item), RING_CORRUPT);
	if (!strstr(ring_reader_error(f->reader), why))
		fail_msg("\"%s\" does not say \"%s\"", ring_reader_error(f->reader), why);
}

static void put(struct fixture *f, uint64_t pos, uint64_t word)
{
	uint64_t *data = (uint64_t *)((char *)f->producer + RT_PAGE_BYTES);

	data[(pos & (RING_BYTES - 1)) / 8] = word;
}

static void put_commit(struct fixture *f, uint64_t pos, uint32_t words, uint32_t probe)
{
	put(f, pos, rt_record_commit(pos, f->producer->key & RT_TAG_MASK, words, probe));
}

#define FIRST	HEAD_BYTES		/* of two records, each 8 words */

static void too_short(struct fixture *f)
{
	put_commit(f, FIRST, 2, PROBE);
}

static void no_words(struct fixture *f)
{
	put_commit(f, FIRST, 0, PROBE);
}

static void no_filler_words(struct fixture *f)
{
	put_commit(f, FIRST, 0, RT_PROBE_PAD);
}

static void not_reserved(struct fixture *f)
{
	put_commit(f, FIRST, 8 + 8 + 1, PROBE);
}

static void over_subbuf(struct fixture *f)
{
	while (f->producer->producer_pos < SUBBUF_BYTES)
		write_one(f);
	put_commit(f, FIRST, 250, RT_PROBE_PAD);
	put_commit(f, FIRST + 2000, 250, RT_PROBE_PAD);
	put_commit(f, FIRST + 4000, (SUBBUF_BYTES - FIRST - 4000) / 8 + 1, RT_PROBE_PAD);
}

static void headless(struct fixture *f)
{
	put_commit(f, 0, 6, PROBE);
}

static void second_head(struct fixture *f)
{
	put_commit(f, FIRST, 6, RT_PROBE_SUBBUF);
}

static void head_of_another_size(struct fixture *f)
{
	put_commit(f, 0, 5, RT_PROBE_SUBBUF);
}

static void head_of_another_place(struct fixture *f)
{
	put(f, RT_RECORD_HEADER_BYTES, 4096);
}

static void head_from_the_future(struct fixture *f)
{
	put(f, RT_RECORD_HEADER_BYTES + 16, 9);
}

static void producer_odd(struct fixture *f)
{
	f->producer->producer_pos |= 4;
}

static void producer_far(struct fixture *f)
{
	f->producer->producer_pos = RING_BYTES + 8;
}

static const struct damage {
	const char *name, *why;
	void (*make)(struct fixture *f);
} damages[] = {
	{ "a record under three words", "shorter", too_short },
	{ "a record of no words", "shorter", no_words },
	{ "filler of no words", "shorter", no_filler_words },
	{ "a record over what is reserved", "reserved", not_reserved },
	{ "a record over its sub-buffer", "sub-buffer", over_subbuf },
	{ "no head", "without its head", headless },
	{ "a head inside", "inside", second_head },
	{ "a head of another size", "words", head_of_another_size },
	{ "a head of another place", "4096", head_of_another_place },
	{ "a head with losses to come", "losses", head_from_the_future },
	{ "producer_pos not a multiple of 8", "producer_pos", producer_odd },
	{ "producer_pos more than a lap ahead", "not released", producer_far },
};

static void reports_damage_for_ever(void **state)
{
	struct ring_item item;
	struct fixture f;

	(void)state;
	for (unsigned policy = RT_POLICY_DROP; policy <= RT_POLICY_STOP; policy++) {
		for (unsigned i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
			if (policy == RT_POLICY_OVERWRITE && damages[i].make == producer_far)
				continue;	/* that is how overwriting looks */
			print_message("policy %u: %s\n", policy, damages[i].name);
			open_ring(&f, policy);
			assert_int_equal(write_one(&f), 0);
			assert_int_equal(write_one(&f), 0);
			damages[i].make(&f);
			expect_corrupt(&f, damages[i].why);
			f.producer->producer_pos &= ~7ull;
			write_one(&f);
			assert_int_equal(ring_reader_next(f.reader, &item), RING_CORRUPT);
			close_ring(&f);
		}
	}
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_one(&f), 0);
	expect_record(&f, 0);
	f.producer->producer_pos = 0;	/* back */
	expect_corrupt(&f, "producer_pos is 0");
	assert_int_equal(ring_reader_next(f.reader, &item), RING_CORRUPT);
	assert_int_equal(item.seq, 1);
	close_ring(&f);
}

static void believes_no_impossible_losses(void **state)
{
	struct fixture f;

	(void)state;
	open_ring(&f, RT_POLICY_DROP);
	assert_int_equal(write_one(&f), 0);
	expect_record(&f, 0);
	f.producer->lost_total = f.producer->lost[RT_LOST_FULL] = INT64_MAX;
	expect_corrupt(&f, "losses after 1 attempts");
	close_ring(&f);
}

/* Random words in the data, and random committed shapes: any result, but inside the mapping. */
static void survives_garbage(void **state)
{
	const char *given = getenv("SEED");
	unsigned seed = given ? strtoul(given, NULL, 0) : 20240607;

	(void)state;
	print_message("SEED=%u\n", seed);
	for (unsigned round = 0; round < 3000; round++) {
		struct ring_usage usage;
		struct ring_item item;
		uint64_t sum = 0;
		struct fixture f;

		open_ring(&f, round % 3);
		for (unsigned i = rand_r(&seed) % 300; i > 0; i--)
			write_words(&f, rand_r(&seed) % 40);
		for (unsigned i = rand_r(&seed) % 30; i > 0; i--) {
			uint64_t pos = rand_r(&seed) % RING_BYTES & ~7u;

			if (rand_r(&seed) % 2)
				put(&f, pos, rand_r(&seed));
			else
				put_commit(&f, pos, rand_r(&seed) & 0xff, rand_r(&seed) & 3);
		}
		if (rand_r(&seed) % 4 == 0)
			f.producer->producer_pos = rand_r(&seed) % (2 * RING_BYTES);
		if (rand_r(&seed) % 4 == 0)
			f.producer->lost_total = rand_r(&seed);
		ring_reader_usage(f.reader, &usage);
		assert_true(usage.unread <= RING_BYTES / 8);
		for (unsigned i = 0; i < 1000; i++) {
			enum ring_read read = ring_reader_next(f.reader, &item);

			if (read == RING_RECORD)
				for (unsigned w = 0; w < item.words; w++)
					sum += item.payload[w];
			else if (read != RING_LOST)
				break;
		}
		ring_reader_release(f.reader);
		ring_reader_usage(f.reader, &usage);
		assert_true(usage.unread <= RING_BYTES / 8);
		assert_true(sum != 1);	/* keeps the reads */
		close_ring(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_consumer_positions),
		cmocka_unit_test(refuses_what_is_no_ring),
		cmocka_unit_test(refuses_what_is_no_power_of_two),
		cmocka_unit_test(writer_refuses_what_is_no_ring),
		cmocka_unit_test(reports_damage_for_ever),
		cmocka_unit_test(believes_no_impossible_losses),
		cmocka_unit_test(survives_garbage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
