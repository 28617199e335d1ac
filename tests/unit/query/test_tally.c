/* test_tally: counts are exact, quantiles are as close as they promise, for every size of value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "query/tally.h"

#define VALUES 5000u

static struct tally tally;

static int compare(const void *a, const void *b)
{
	const uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return (left > right) - (left < right);
}

static void nothing_is_nothing(void **state)
{
	(void)state;
	assert_int_equal(tally_quantile(&tally, 0.5), 0);
	assert_int_equal(tally_between(&tally, 0, UINT64_MAX), 0);
	tally_clear(&tally);
}

static void small_values_are_exact(void **state)
{
	(void)state;
	for (uint64_t value = 0; value < 2 * TALLY_EXACT; value++)
		tally_add(&tally, value);
	for (uint64_t value = 0; value < 2 * TALLY_EXACT; value++)
		assert_int_equal(tally_quantile(&tally, (double)value / (2 * TALLY_EXACT)), value);
	assert_int_equal(tally.count, 2 * TALLY_EXACT);
	assert_int_equal((uint64_t)tally.sum, TALLY_EXACT * (2 * TALLY_EXACT - 1));
	assert_int_equal(tally_between(&tally, 8, 15), 8);
	assert_int_equal(tally_between(&tally, 32, 63), 32);
	tally_clear(&tally);
}

static void the_ends_are_exact(void **state)
{
	(void)state;
	tally_add(&tally, UINT64_MAX);
	tally_add(&tally, 1000003);
	assert_int_equal(tally.min, 1000003);
	assert_int_equal(tally.max, UINT64_MAX);
	assert_true(tally_quantile(&tally, 0) >= 1000003 && tally_quantile(&tally, 0) < 1016003);
	assert_true(tally_quantile(&tally, 1) <= UINT64_MAX);
	assert_int_equal(tally_between(&tally, 0, UINT64_MAX), 2);
	assert_int_equal(tally_between(&tally, 1ull << 63, UINT64_MAX), 1);
	tally_clear(&tally);
}

static void joined_is_as_if_all_were_one(void **state)
{
	static struct tally all, half[2];

	(void)state;
	tally_join(&half[0], &half[1]);
	assert_int_equal(half[0].count, 0);
	for (unsigned i = 0; i < VALUES; i++) {
		uint64_t value = ((uint64_t)i * i * i) ^ 77;

		tally_add(&all, value);
		tally_add(&half[i % 3 == 0], value);
	}
	half[1].unplaced = 3;
	tally_join(&half[0], &half[1]);
	assert_int_equal(half[0].unplaced, 3);
	assert_int_equal(half[0].count, all.count);
	assert_int_equal(half[0].min, all.min);
	assert_int_equal(half[0].max, all.max);
	assert_true(half[0].sum == all.sum);
	for (uint64_t low = 1; low < 1ull << 40; low *= 2)
		assert_int_equal(tally_between(&half[0], low, 2 * low - 1), tally_between(&all, low, 2 * low - 1));
	tally_clear(&all);
	tally_clear(&half[0]);
	tally_clear(&half[1]);
}

static void quantiles_are_close(void **state)
{
	static const double part[] = { 0, 0.01, 0.25, 0.5, 0.9, 0.99, 0.999 };
	static uint64_t value[VALUES];
	uint64_t random = 88172645463325252ull;

	(void)state;
	for (unsigned i = 0; i < VALUES; i++) {
		random ^= random << 13, random ^= random >> 7, random ^= random << 17;
		value[i] = random >> (random & 63);	/* as many of each size */
		tally_add(&tally, value[i]);
	}
	qsort(value, VALUES, sizeof(*value), compare);
	for (unsigned i = 0; i < sizeof(part) / sizeof(*part); i++) {
		double exact = (double)value[(unsigned)(part[i] * VALUES)];
		double got = (double)tally_quantile(&tally, part[i]);

		if (got < exact * (1 - TALLY_ERROR_PERCENT / 100) - 1 ||
		    got > exact * (1 + TALLY_ERROR_PERCENT / 100) + 1)
			fail_msg("quantile %g is %g, not %g", part[i], got, exact);
	}
	tally_clear(&tally);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_nothing),
		cmocka_unit_test(small_values_are_exact),
		cmocka_unit_test(the_ends_are_exact),
		cmocka_unit_test(joined_is_as_if_all_were_one),
		cmocka_unit_test(quantiles_are_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
