/*
 * So many bytes a second leave, whoever asks how often: never more than the bound and what is saved, never less than
 * the bound if something always waits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/base/allowance.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"

#define RATE		(1u << 20)
#define SAVED		(RATE / 4)	/* of ALLOWANCE_SAVED_NS */

static uint64_t now_ns;

static struct allowance bound_by(uint64_t bytes_per_s)
{
	struct allowance allowance = {0};

	now_ns = 1000 * NS_PER_S;
	allowance_set(&allowance, bytes_per_s);
	return allowance;
}

static void test_no_bound(void **state)
{
	struct allowance allowance = bound_by(0);

	(void)state;
	assert_int_equal(allowance_look(&allowance, now_ns), SIZE_MAX);
	allowance_spend(&allowance, SIZE_MAX / 2);
	assert_int_equal(allowance_look(&allowance, now_ns), SIZE_MAX);
	assert_int_equal(allowance_wait_ns(&allowance), 1);
}

static void test_begins_with_what_is_saved(void **state)
{
	struct allowance allowance = bound_by(RATE);

	(void)state;
	assert_int_equal(ALLOWANCE_SAVED_NS, NS_PER_S / 4);
	assert_int_equal(allowance_look(&allowance, now_ns), SAVED);
	/* A pause saves no more. */
	now_ns += 3600 * NS_PER_S;
	assert_int_equal(allowance_look(&allowance, now_ns), SAVED);
	allowance_spend(&allowance, 1000);
	assert_int_equal(allowance_look(&allowance, now_ns), SAVED - 1000);
}

/* Used up, it opens again with half of what it can save, at the time that it says, and not before. */
static void test_waits_for_half(void **state)
{
	struct allowance allowance = bound_by(RATE);
	uint64_t wait_ns;

	(void)state;
	allowance_spend(&allowance, allowance_look(&allowance, now_ns));
	assert_int_equal(allowance_look(&allowance, now_ns), 0);
	wait_ns = allowance_wait_ns(&allowance);
	assert_in_range(wait_ns, NS_PER_S / 8, NS_PER_S / 8 + 2);
	assert_int_equal(allowance_look(&allowance, now_ns + wait_ns - 1000), 0);
	assert_in_range(allowance_look(&allowance, now_ns + wait_ns), SAVED / 2, SAVED / 2 + 1);
	/* What is left of that may go at once: it is not used up. */
	allowance_spend(&allowance, SAVED / 2 - 10);
	assert_in_range(allowance_look(&allowance, now_ns + wait_ns), 10, 11);
}

/* A clock that goes back is not one that goes on. */
static void test_time_goes_back(void **state)
{
	struct allowance allowance = bound_by(RATE);

	(void)state;
	allowance_spend(&allowance, allowance_look(&allowance, now_ns));
	assert_int_equal(allowance_look(&allowance, now_ns - NS_PER_S), 0);
	assert_int_equal(allowance_look(&allowance, now_ns - NS_PER_S + NS_PER_S / 16), 0);
}

/* Any rate, asked at any times: over ten seconds as much as the bound says, and never more within a part of them. */
static void test_rate_is_kept(void **state)
{
	static const uint64_t rates[] = {RELAY_BANDWIDTH_MIN, 1000003, RATE, 1ull << 31, 1ull << 40};
	static const uint64_t steps_ns[] = {1001, 1000000, 40000000, 124999999, 3 * NS_PER_S};

	(void)state;
	for (unsigned i = 0; i < sizeof(rates) / sizeof(*rates); i++)
		for (unsigned k = 0; k < sizeof(steps_ns) / sizeof(*steps_ns); k++) {
			struct allowance allowance = bound_by(rates[i]);
			uint64_t sent = 0, begun_ns = now_ns, steps = 10 * NS_PER_S / steps_ns[k];

			for (uint64_t step = 0; step < steps && step < 100000; step++, now_ns += steps_ns[k]) {
				size_t some = allowance_look(&allowance, now_ns);
				double most = (double)rates[i] * ((double)(now_ns - begun_ns) / NS_PER_S + 0.25);

				allowance_spend(&allowance, some);
				sent += some;
				assert_true((double)sent <= most + 1);
			}
			/* Behind a step that is longer than what can be saved, the rest is not made good. */
			if (steps_ns[k] < NS_PER_S / 4)
				assert_true((double)sent >= (double)rates[i] *
							    ((double)(now_ns - begun_ns) / NS_PER_S - 0.25));
		}
}

/* A reload: less is saved at once, more from now on; and none at all. */
static void test_other_bound(void **state)
{
	struct allowance allowance = bound_by(RATE);

	(void)state;
	assert_int_equal(allowance_look(&allowance, now_ns), SAVED);
	allowance_set(&allowance, RATE / 4);
	assert_int_equal(allowance_look(&allowance, now_ns), SAVED / 4);
	allowance_spend(&allowance, SAVED / 4);
	assert_int_equal(allowance_look(&allowance, now_ns), 0);
	allowance_set(&allowance, 0);
	assert_int_equal(allowance_look(&allowance, now_ns), SIZE_MAX);
	allowance_set(&allowance, RATE);
	assert_true(allowance_look(&allowance, now_ns + NS_PER_S) == SAVED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_bound),
		cmocka_unit_test(test_begins_with_what_is_saved),
		cmocka_unit_test(test_waits_for_half),
		cmocka_unit_test(test_time_goes_back),
		cmocka_unit_test(test_rate_is_kept),
		cmocka_unit_test(test_other_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
