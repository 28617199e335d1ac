/*
 * The processor's counter as CLOCK_MONOTONIC: exact on clocks that run evenly, within the bend on one that is adjusted,
 * anew where one of them jumps; and close on the clocks of this machine.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/programs/counter_clock.h"

#define RATE	3		/* counts in a ns */
#define MS	1000000ull

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __real_clock_counter(void);
uint64_t __wrap_clock_counter(void);

static bool real;
static uint64_t now_ns, now_count;

uint64_t __wrap_clock_monotonic(void) { return real ? __real_clock_monotonic() : now_ns; }
uint64_t __wrap_clock_counter(void) { return real ? __real_clock_counter() : now_count; }

static const char *clocksource;		/* the kernel's clock; NULL: as this kernel says */

int __real_open(const char *path, int flags);
int __wrap_open(const char *path, int flags);
int __wrap_open(const char *path, int flags)
{
	int fd = clocksource ? memfd_create("clocksource", MFD_CLOEXEC) : __real_open(path, flags);

	if (clocksource)
		assert_int_equal(pwrite(fd, clocksource, strlen(clocksource), 0), strlen(clocksource));
	return fd;
}

static void pass(uint64_t ns)
{
	now_ns += ns;
	now_count += RATE * ns;
}

static void begin(struct counter_clock *clock)
{
	now_ns = 1000 * MS;
	now_count = 77;
	real = false;
	counter_clock_begin(clock);
}

static uint64_t count_at(uint64_t ns)
{
	return now_count - (now_ns - ns) * RATE;
}

static void test_between_looks(void **state)
{
	struct counter_clock clock;
	uint64_t began;

	(void)state;
	begin(&clock);
	assert_int_equal(counter_clock_ns(&clock, now_count), 0);
	began = now_ns;
	for (unsigned i = 1; i < 10 * COUNTER_CLOCK_LOOKS; i++) {
		uint64_t step = i % 3 ? 5 * MS : 1000;

		pass(step);
		assert_int_equal(counter_clock_look(&clock), now_ns);
		for (unsigned part = 0; part < 10; part++)
			assert_int_equal(counter_clock_ns(&clock, count_at(now_ns - step * part / 10)), now_ns - step * part / 10);
		assert_int_equal(counter_clock_ns(&clock, count_at(began)), began);
		assert_int_equal(counter_clock_ns(&clock, count_at(now_ns + MS)), now_ns + MS);
	}
}

/* What a program may claim. */
static void test_counts_that_cannot_be(void **state)
{
	struct counter_clock clock;

	(void)state;
	begin(&clock);
	pass(5 * MS);
	counter_clock_look(&clock);
	assert_int_equal(counter_clock_ns(&clock, now_count + INT64_MAX / 2), now_ns + INT64_MAX / 2 / RATE);
	assert_int_equal(counter_clock_ns(&clock, now_count + (1ull << 63)), 0);
	assert_int_equal(counter_clock_ns(&clock, 0), now_ns - now_count / RATE);
}

/* Somebody adjusts the clock by 500 ppm, to and fro: between two looks it is off by that at most, and order stays. */
static void test_bent_clock(void **state)
{
	struct counter_clock clock;

	(void)state;
	begin(&clock);
	for (unsigned i = 0; i < 1000; i++) {
		uint64_t bend = i % 2 ? 2500 : 0, before_ns = now_ns, before = now_count, last = 0, got;

		now_ns += 5 * MS + bend;
		now_count += 5 * MS * RATE;
		counter_clock_look(&clock);
		for (unsigned part = 0; part <= 10; part++) {
			got = counter_clock_ns(&clock, before + 5 * MS * RATE * part / 10);
			assert_true(got + 2500 >= before_ns + 5 * MS * part / 10 && got <= now_ns && got >= last);
			last = got;
		}
	}
	assert_true(clock.looks > COUNTER_CLOCK_LOOKS);
}

/* In a suspend the counter goes on, or begins at 0, and the clock stands. */
static void test_jumps_begin_anew(void **state)
{
	struct counter_clock clock;

	(void)state;
	for (unsigned kind = 0; kind < 3; kind++) {
		begin(&clock);
		for (unsigned i = 0; i < 10; i++) {
			pass(5 * MS);
			counter_clock_look(&clock);
		}
		now_count = kind == 0 ? 5 : now_count + 3600 * 1000 * MS;
		pass(kind == 2 ? 0 : MS);
		assert_int_equal(counter_clock_look(&clock), now_ns);
		assert_int_equal(clock.looks, 1);
		pass(5 * MS);
		counter_clock_look(&clock);
		assert_int_equal(counter_clock_ns(&clock, now_count - 2 * MS * RATE), now_ns - 2 * MS);
	}
}

/* A look is off by what it takes. Over a short time that bends a line: what is told is of two that are far apart. */
static void test_looks_that_are_near_each_other(void **state)
{
	struct counter_clock clock;
	uint64_t got;

	(void)state;
	begin(&clock);
	for (unsigned i = 0; i < 900; i++) {
		uint64_t off = i % 2 ? 50 : 0;

		pass(1000);
		now_ns += off;
		counter_clock_look(&clock);
		now_ns -= off;
	}
	got = counter_clock_ns(&clock, count_at(now_ns + MS));
	assert_in_range(got, now_ns + MS - 500, now_ns + MS + 500);
}

/* Nothing is divided by what has not passed. */
static void test_a_counter_that_stands(void **state)
{
	struct counter_clock clock;

	(void)state;
	begin(&clock);
	for (unsigned i = 0; i < 5; i++) {
		now_ns += 1000;
		assert_int_equal(counter_clock_look(&clock), now_ns);
		assert_int_equal(counter_clock_ns(&clock, now_count), 0);
	}
	pass(5 * MS);
	counter_clock_look(&clock);
	assert_int_equal(counter_clock_ns(&clock, now_count - MS * RATE), now_ns - MS);
}

/* A kernel that has seen the counter go wrong keeps time by another clock. */
static void test_what_the_kernel_does_not_trust(void **state)
{
	static const char *const others[] = {"hpet\n", "tsc-early\n", "kvm-clock\n", ""};

	(void)state;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		clocksource = others[i];
		assert_false(counter_is_clock());
	}
	clocksource = NULL;
}

/* As far as this machine's are one clock: what lies between two readings is converted to a time between them. */
static void test_clocks_of_this_machine(void **state)
{
	struct counter_clock clock;
	uint64_t off = 0;

	(void)state;
	real = true;
	if (!counter_is_clock())
		skip();
	counter_clock_begin(&clock);
	for (uint64_t began = clock_monotonic(); clock_monotonic() - began < 50 * MS;) {
		uint64_t before = clock_monotonic(), count = clock_counter(), after = clock_monotonic(), got;

		counter_clock_look(&clock);
		got = counter_clock_ns(&clock, count);
		off = got < before ? before - got : got > after ? got - after : 0;
		assert_true(off < MS / 10);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_between_looks),
		cmocka_unit_test(test_counts_that_cannot_be),
		cmocka_unit_test(test_bent_clock),
		cmocka_unit_test(test_jumps_begin_anew),
		cmocka_unit_test(test_looks_that_are_near_each_other),
		cmocka_unit_test(test_a_counter_that_stands),
		cmocka_unit_test(test_what_the_kernel_does_not_trust),
		cmocka_unit_test(test_clocks_of_this_machine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
