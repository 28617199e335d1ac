/*
 * What the kernel refused to run our programs for is lost in a ring: each once, over looks, restarts and runs of the
 * program that fail. The program is the test's own; in the kernel it is test_refused of tests/bpf.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <bpf/bpf.h>
#include <errno.h>
#include <string.h>

#include "daemon/source/bpf_objects.h"
#include "daemon/source/bpf_refused.h"
#include "kmod/bpf/request.h"
#include "kmod/ringtail.skel.h"

#define PROGRAM		7
#define STEP		1000u		/* as many as one run tells */
#define SLOT		3u
#define FIRST		0x1c00
#define LAST		0x1c05
#define TURNS		8u

static struct ringtail_bpf__bss shared;
static struct source_bpf_objects objects = {.shared = &shared};
static uint64_t lost;			/* in the ring */
static unsigned runs, runs_left;	/* that do not fail */
static unsigned turns;			/* what a look has left of TURNS */
static bool is_missing, is_full;

int __wrap_source_bpf_objects_program(struct source_bpf_objects *of, enum source_bpf_program program,
				      struct source_store *store, struct error *error);
int __wrap_source_bpf_objects_program(struct source_bpf_objects *of, enum source_bpf_program program,
				      struct source_store *store, struct error *error)
{
	(void)store, (void)error;
	assert_ptr_equal(of, &objects);
	assert_int_equal(program, PROGRAM_REFUSED);
	return is_missing ? -ENOMEM : PROGRAM;
}

int __wrap_bpf_prog_test_run_opts(int program, struct bpf_test_run_opts *options);
int __wrap_bpf_prog_test_run_opts(int program, struct bpf_test_run_opts *options)
{
	const uint64_t *argument = options->ctx_in;
	uint64_t told = argument[0] < STEP ? argument[0] : STEP;

	assert_int_equal(program, PROGRAM);
	assert_int_equal(options->ctx_size_in, 4 * sizeof(*argument));
	assert_int_equal(argument[1], SLOT);
	assert_int_equal(argument[2], FIRST);
	assert_int_equal(argument[3], LAST);
	runs++;
	if (!runs_left)
		return -EPERM;
	runs_left--;
	if (is_full)
		return 0;
	lost += told;
	shared.refused_told[SLOT] += told;
	return 0;
}

static int begin(void **state)
{
	(void)state;
	memset(shared.refused_told, 0, sizeof(shared.refused_told));
	lost = runs = 0;
	runs_left = 1000;
	is_missing = is_full = false;
	return 0;
}

/* How many no ring has after a look, which saw so many. */
static uint64_t look(uint64_t count)
{
	struct source_bpf_refused refused = {.slot = SLOT, .first = FIRST, .last = LAST, .count = count};

	turns = TURNS;
	return source_bpf_refused_tell(&objects, NULL, &refused, &turns);
}

static void each_is_lost_once(void **state)
{
	(void)state;
	assert_int_equal(look(0), 0);
	assert_int_equal(runs, 0);
	assert_int_equal(look(1), 0);
	assert_int_equal(lost, 1);
	assert_int_equal(runs, 1);
	assert_int_equal(look(1), 0);
	assert_int_equal(runs, 1);
	assert_int_equal(turns, TURNS);
	assert_int_equal(look(2 * STEP + 5), 0);
	assert_int_equal(lost, 2 * STEP + 5);
	assert_int_equal(turns, TURNS - 3);
	/* A sum that is less than what was told: a program went, and what the kernel counted of it with it. */
	assert_int_equal(look(STEP), 0);
	assert_int_equal(lost, 2 * STEP + 5);
}

/* What an earlier run of the daemon told stands in the rings that this one goes on with; of others, others tell. */
static void what_was_told_before_a_restart_is_not_told_again(void **state)
{
	(void)state;
	shared.refused_told[SLOT] = 40;
	shared.refused_told[SLOT + 1] = 41;
	assert_int_equal(look(42), 0);
	assert_int_equal(lost, 2);
	assert_int_equal(shared.refused_told[SLOT + 1], 41);
}

static void what_cannot_be_told_is_told_at_the_next_look(void **state)
{
	(void)state;
	is_missing = true;
	assert_int_equal(look(10), 10);
	assert_int_equal(runs, 0);
	is_missing = false;
	runs_left = 1;
	assert_int_equal(look(STEP + 10), 10);
	assert_int_equal(runs, 2);
	assert_int_equal(lost, STEP);
	runs_left = 1000;
	assert_int_equal(look(STEP + 10), 0);
	assert_int_equal(lost, STEP + 10);
}

/* A ring without room: the reader makes some, and not while the loader asks again. */
static void a_full_ring_is_asked_once(void **state)
{
	(void)state;
	is_full = true;
	assert_int_equal(look(10), 10);
	assert_int_equal(runs, 1);
	is_full = false;
	assert_int_equal(look(10), 0);
	assert_int_equal(lost, 10);
}

/* However much it is: the loader has other work. */
static void a_look_takes_so_long_and_no_longer(void **state)
{
	(void)state;
	assert_int_equal(look((TURNS + 1) * STEP), STEP);
	assert_int_equal(runs, TURNS);
	assert_int_equal(turns, 0);
	assert_int_equal(look((TURNS + 1) * STEP), 0);
	assert_int_equal(lost, (TURNS + 1) * STEP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_is_lost_once, begin),
		cmocka_unit_test_setup(what_was_told_before_a_restart_is_not_told_again, begin),
		cmocka_unit_test_setup(what_cannot_be_told_is_told_at_the_next_look, begin),
		cmocka_unit_test_setup(a_full_ring_is_asked_once, begin),
		cmocka_unit_test_setup(a_look_takes_so_long_and_no_longer, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
