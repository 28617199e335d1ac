/* How far back a log goes: from when it is whole, and where rings stood at a time that it gave up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/base/limits.h"
#include "daemon/stream/subscription.h"

#define RINGS 2

static struct reach *begun_at(uint64_t time_ns)
{
	struct reach *reach = reach_create(RINGS);

	assert_non_null(reach);
	assert_int_equal(reach_recorded_ns(reach), UINT64_MAX);
	assert_false(reach_holds(reach, UINT64_MAX - 1));
	reach_begin(reach, time_ns, (const uint64_t[RINGS]){10, 20});
	return reach;
}

static void test_nothing_given_up(void **state)
{
	struct reach *reach = begun_at(100);

	(void)state;
	assert_int_equal(reach_recorded_ns(reach), 100);
	assert_false(reach_holds(reach, 99));
	assert_true(reach_holds(reach, 100));
	assert_int_equal(reach_seq(reach, 50, 1), 20);
	reach_destroy(reach);
}

static void test_given_up_in_part(void **state)
{
	struct reach *reach = begun_at(100);

	(void)state;
	reach_tear(reach);
	assert_false(reach_holds(reach, 200));
	reach_give_up(reach, 150, (const uint64_t[RINGS]){15, 20});
	assert_false(reach_holds(reach, 149));
	assert_true(reach_holds(reach, 150));
	assert_int_equal(reach_seq(reach, 149, 0), 10);
	assert_int_equal(reach_seq(reach, 150, 0), 15);
	reach_tear(reach);
	assert_false(reach_holds(reach, 150));
	reach_destroy(reach);
}

/* However much goes, a ring's place at a time is never after it, and the beginning is kept. */
static void test_marks_are_thinned_out(void **state)
{
	struct reach *reach = begun_at(100);
	const uint64_t last = 100 * REACH_MARKS_MAX;

	(void)state;
	for (uint64_t i = 1; i <= last; i++) {
		reach_tear(reach);
		reach_give_up(reach, 100 + i, (const uint64_t[RINGS]){10 + i, 20 + 2 * i});
	}
	assert_int_equal(reach_seq(reach, 100, 0), 10);
	for (uint64_t i = 1; i <= last; i++) {
		uint64_t seq = reach_seq(reach, 100 + i, 0);

		assert_true(seq <= 10 + i);
		assert_true(10 + i - seq <= last / (REACH_MARKS_MAX / 4));
		assert_int_equal(reach_seq(reach, 100 + i, 1) - 20, 2 * (seq - 10));
	}
	reach_destroy(reach);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_given_up),
		cmocka_unit_test(test_given_up_in_part),
		cmocka_unit_test(test_marks_are_thinned_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
