/* numbers: what a reader has of each CPU: duplicates, overlaps and holes, at their borders. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "courier/numbers.h"

static struct numbers_run run;

static int setup(void **state)
{
	(void)state;
	run = (struct numbers_run){ .cpu[3] = { .known = true, .next = 100 } };
	return 0;
}

static enum numbers_verdict take(uint64_t first_seq, uint64_t end_seq, struct forward_span *hole)
{
	setup(NULL);
	return numbers_span(&run, &(struct forward_span){ true, 3, first_seq, end_seq }, hole);
}

static void test_spans_at_their_borders(void **state)
{
	struct forward_span hole = { 0 };

	(void)state;
	assert_int_equal(take(90, 99, &hole), NUMBERS_DUPLICATE);
	assert_int_equal(take(90, 100, &hole), NUMBERS_DUPLICATE);
	assert_int_equal(take(90, 101, &hole), NUMBERS_OVERLAP);
	assert_int_equal(take(100, 101, &hole), NUMBERS_NEW);
	assert_int_equal(take(101, 102, &hole), NUMBERS_HOLE);
	assert_int_equal(hole.cpu, 3);
	assert_int_equal(hole.first_seq, 100);
	assert_int_equal(hole.end_seq, 101);
	assert_int_equal(run.cpu[3].next, 102);
}

/* At 100 a watermark says where the CPU is, and how many of the attempts before it were skipped. */
static void test_watermarks_at_their_borders(void **state)
{
	static const struct {
		uint64_t seq, skipped;
		enum numbers_verdict verdict;
		uint64_t missing;
	} cases[] = {
		{ 99, 0, NUMBERS_DUPLICATE, 0 }, { 100, 0, NUMBERS_DUPLICATE, 0 }, { 105, 5, NUMBERS_NEW, 0 },
		{ 105, 6, NUMBERS_NEW, 0 }, { 105, 4, NUMBERS_HOLE, 1 }, { 101, 0, NUMBERS_HOLE, 1 },
		{ 105, 0, NUMBERS_HOLE, 5 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		Ringtail__V1__Position at = RINGTAIL__V1__POSITION__INIT;
		struct forward_span hole = { 0 };

		setup(NULL);
		at.cpu = 3;
		at.seq = cases[i].seq;
		at.skipped = cases[i].skipped;
		assert_int_equal(numbers_watermark(&run, &at, &hole), cases[i].verdict);
		assert_int_equal(hole.end_seq - hole.first_seq, cases[i].missing);
		assert_int_equal(hole.first_seq, cases[i].missing ? 100 : 0);
		assert_int_equal(run.cpu[3].next, cases[i].seq > 100 ? cases[i].seq : 100);
	}
}

/* A CPU of which nothing is known has no hole before it. */
static void test_a_new_cpu_begins_anywhere(void **state)
{
	Ringtail__V1__Position at = RINGTAIL__V1__POSITION__INIT;
	struct forward_span hole;

	(void)state;
	at.cpu = 1;
	at.seq = 50;
	assert_int_equal(numbers_start(&run, &at, &hole), NUMBERS_NEW);
	assert_int_equal(run.cpu[1].next, 50);
	at.seq = 51;
	assert_int_equal(numbers_start(&run, &at, &hole), NUMBERS_HOLE);
	assert_int_equal(hole.end_seq - hole.first_seq, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_spans_at_their_borders, setup),
		cmocka_unit_test_setup(test_watermarks_at_their_borders, setup),
		cmocka_unit_test_setup(test_a_new_cpu_begins_anywhere, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
