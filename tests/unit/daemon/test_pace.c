/*
 * How long events wait: few come at once, many in full batches, and an idle worker is not woken without end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/collect/pace.h"

#define INTERVAL_NS	40000000ull

static struct pace pace;
static uint64_t now_ns;

static int setup(void **state)
{
	(void)state;
	pace_init(&pace, INTERVAL_NS);
	now_ns = 1000 * NS_PER_S;
	return 0;
}

static void wake_after(uint64_t ns)
{
	now_ns += ns;
	pace_wake(&pace, now_ns, INTERVAL_NS);
}

/* Passes at a steady rate, until the worker waits for a bell; 0: it does not. Each reads what came since the last. */
static unsigned passes_at_rate(uint64_t records_per_s, unsigned most)
{
	uint64_t left = 0;

	for (unsigned i = 1; i <= most; i++) {
		left += pace.tick_ns * records_per_s;
		if (!pace_pass(&pace, left / NS_PER_S, INTERVAL_NS))
			return i;
		left %= NS_PER_S;
	}
	return 0;
}

/* Ticks at which so many records come each; returns how many there were before it waits for a bell, or `most`. */
static unsigned ticks_with(uint64_t records, unsigned most)
{
	for (unsigned i = 1; i < most; i++)
		if (!pace_pass(&pace, records, INTERVAL_NS))
			return i;
	return most;
}

static void a_few_events_wait_for_one_short_tick(void **state)
{
	(void)state;
	for (uint64_t records = 0; records < PACE_FEW; records++) {
		wake_after(10000000);
		assert_int_equal(pace.tick_ns, PACE_FIRST_NS);
		assert_false(pace_pass(&pace, records, INTERVAL_NS));
	}
}

static void many_events_wait_for_the_batch_interval(void **state)
{
	static const uint64_t tick_ms[] = {2, 4, 8, 16, 32, 40, 40};
	const uint64_t at_interval = PACE_MANY * (INTERVAL_NS / PACE_REST_NS);

	(void)state;
	wake_after(1000);
	for (unsigned i = 0; i < 7; i++) {
		assert_true(pace_pass(&pace, at_interval, INTERVAL_NS));
		assert_int_equal(pace.tick_ns, tick_ms[i] * 1000000);
	}
	/* Neither many nor few for that time: it stays so. */
	assert_int_equal(ticks_with(at_interval - 1, 100), 100);
	assert_int_equal(pace.tick_ns, INTERVAL_NS);
	assert_int_equal(ticks_with(at_interval / 2, 100), 100);
	assert_int_equal(pace.tick_ns, INTERVAL_NS);
	/* And comes back: 20, 10, 5, and there is nothing to wait for any more. */
	assert_int_equal(ticks_with(PACE_FEW - 1, 100), 4);
	assert_int_equal(pace.tick_ns, INTERVAL_NS / 8);
}

/* The same rate has the same tick after a burst as without one. */
static void a_burst_does_not_delay_what_comes_after_it(void **state)
{
	static const struct {
		uint64_t records_per_s;
		unsigned passes;	/* until it waits for a bell; 0: it ticks on */
		uint64_t tick_ns;
	} after[] = {
		{100, 4, PACE_REST_NS}, {300, 4, PACE_REST_NS}, {1000, 4, PACE_REST_NS}, {1500, 4, PACE_REST_NS},
		{1610, 0, PACE_REST_NS}, {3000, 0, PACE_REST_NS},
		/* Near the rate at which ticks grow they stay, or they would grow and shrink in turns. */
		{3300, 0, INTERVAL_NS}, {6300, 0, INTERVAL_NS}, {20000, 0, INTERVAL_NS},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(after) / sizeof(after[0]); i++) {
		pace.tick_ns = INTERVAL_NS;
		assert_int_equal(passes_at_rate(1000000, 10), 0);
		assert_int_equal(pace.tick_ns, INTERVAL_NS);
		assert_int_equal(passes_at_rate(after[i].records_per_s, 1000), after[i].passes);
		assert_int_equal(pace.tick_ns, after[i].tick_ns);
	}
}

static void a_steady_rate_has_one_tick(void **state)
{
	(void)state;
	for (uint64_t rate = 1700; rate < 1000000; rate += rate / 10) {
		uint64_t tick_ns;

		pace.tick_ns = PACE_REST_NS;
		assert_int_equal(passes_at_rate(rate, 10), 0);
		tick_ns = pace.tick_ns;
		for (unsigned i = 0; i < 1000; i++) {
			assert_int_equal(passes_at_rate(rate, 1), 0);
			assert_int_equal(pace.tick_ns, tick_ns);
		}
		assert_int_equal(tick_ns, rate * PACE_REST_NS < PACE_MANY * NS_PER_S ? PACE_REST_NS : INTERVAL_NS);
	}
}

static void some_events_wait_for_the_middle(void **state)
{
	(void)state;
	wake_after(1000);
	assert_int_equal(ticks_with(PACE_FEW, 100), 100);
	assert_int_equal(pace.tick_ns, PACE_REST_NS);
}

static void silence_ends_the_ticks(void **state)
{
	(void)state;
	assert_int_equal(ticks_with(0, 100), 1);
}

/* A second's bells, which come as soon as they can: so many are answered soon. */
static void bells_in_a_row_are_answered_more_slowly(void **state)
{
	const unsigned saved = PACE_CREDIT_NS_MAX / PACE_WAKE_NS;
	uint64_t end = now_ns + NS_PER_S;
	unsigned soon = 0;

	(void)state;
	while (now_ns < end) {
		wake_after(0);
		soon += pace.tick_ns == PACE_FIRST_NS;
		now_ns += pace.tick_ns;
		assert_true(pace.tick_ns == PACE_FIRST_NS || pace.tick_ns == PACE_REST_NS);
		assert_false(pace_pass(&pace, 1, INTERVAL_NS));
	}
	assert_in_range(soon, NS_PER_S / PACE_WAKE_NS - 1, NS_PER_S / PACE_WAKE_NS + saved);
	/* However long it was quiet, no more than that is saved. */
	wake_after(3600 * NS_PER_S);
	for (soon = 1; pace.tick_ns == PACE_FIRST_NS; soon++)
		wake_after(0);
	assert_int_equal(soon, saved + 1);
}

static void a_hundred_bells_a_second_are_all_answered_soon(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1000; i++) {
		wake_after(NS_PER_S / 100);
		assert_int_equal(pace.tick_ns, PACE_FIRST_NS);
	}
}

static void an_unfinished_record_is_looked_after_ever_more_rarely(void **state)
{
	(void)state;
	wake_after(1000);
	for (unsigned i = 0; i < 6; i++) {
		assert_false(pace_pass(&pace, 0, INTERVAL_NS));
		pace_hold(&pace, INTERVAL_NS);
	}
	assert_true(pace.tick_ns > PACE_REST_NS && pace.tick_ns <= INTERVAL_NS);
}

static void no_tick_is_longer_than_the_batch_interval(void **state)
{
	(void)state;
	pace_wake(&pace, now_ns, 500000);
	assert_int_equal(pace.tick_ns, 500000);
	pace_init(&pace, INTERVAL_NS);
	/* Also after the interval was changed, whatever comes. */
	for (uint64_t records = 0; records < 2 * PACE_MANY; records++) {
		pace.tick_ns = INTERVAL_NS;
		pace_pass(&pace, records, 1000000);
		assert_in_range(pace.tick_ns, 1, 1000000);
		pace_hold(&pace, 1000000);
		assert_in_range(pace.tick_ns, 1, 1000000);
	}
}

/* An event that rang the bell is older than the watermark of the pass at the tick: the client shows it then. */
static void the_slack_is_a_part_of_the_tick(void **state)
{
	(void)state;
	assert_int_equal(pace_slack(&pace, INTERVAL_NS), INTERVAL_NS / WATERMARK_SLACK_PART);
	wake_after(1000);
	assert_int_equal(pace_slack(&pace, INTERVAL_NS), PACE_FIRST_NS / 2);
	assert_int_equal(pace_slack(&pace, 1000000), 1000000 / WATERMARK_SLACK_PART);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_few_events_wait_for_one_short_tick, setup),
		cmocka_unit_test_setup(many_events_wait_for_the_batch_interval, setup),
		cmocka_unit_test_setup(a_burst_does_not_delay_what_comes_after_it, setup),
		cmocka_unit_test_setup(a_steady_rate_has_one_tick, setup),
		cmocka_unit_test_setup(some_events_wait_for_the_middle, setup),
		cmocka_unit_test_setup(silence_ends_the_ticks, setup),
		cmocka_unit_test_setup(bells_in_a_row_are_answered_more_slowly, setup),
		cmocka_unit_test_setup(a_hundred_bells_a_second_are_all_answered_soon, setup),
		cmocka_unit_test_setup(an_unfinished_record_is_looked_after_ever_more_rarely, setup),
		cmocka_unit_test_setup(no_tick_is_longer_than_the_batch_interval, setup),
		cmocka_unit_test_setup(the_slack_is_a_part_of_the_tick, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
