/* Which names no program may have as its provider: all that a glob may begin with and that the source has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/programs/taken_names.h"
#include "tests/unit/daemon/small_catalog.h"

static void test_names_of_the_source_are_taken(void **state)
{
	static const char *const taken[] = {
		"syscall", "openat", "read", "tracepoint", "sched", "sched_switch", "sched_wakeup", "entry",
	};
	static const char *const good[] = {"app", "", "open", "openat2", "sched_", "syscall:openat"};
	struct taken_names names = {0};

	(void)state;
	assert_false(taken_names_has(&names, "openat"));
	assert_int_equal(taken_names_add(&names, small_catalog_get()), 0);
	assert_int_equal(taken_names_add(&names, NULL), 0);
	for (size_t i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (!taken_names_has(&names, taken[i]))
			fail_msg("%s is not taken", taken[i]);
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		if (taken_names_has(&names, good[i]))
			fail_msg("`%s` is taken", good[i]);
	taken_names_free(&names);
}

/* What can be made, and is not yet; programs' own are nobody's. */
static void test_names_of_offers_are_taken(void **state)
{
	Ringtail__V1__Probe probe[2], *probes[2] = {&probe[0], &probe[1]};
	Ringtail__V1__Catalog offers = RINGTAIL__V1__CATALOG__INIT;
	struct taken_names names = {0};
	size_t count;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		ringtail__v1__probe__init(&probe[i]);
		probe[i].provider = (char *)(i ? "app" : "tracepoint");
		probe[i].function = (char *)(i ? "done" : "block");
		probe[i].name = (char *)(i ? "event" : "block_rq_issue");
	}
	probe[1].id = RT_PROBE_PROGRAM;
	offers.probe = probes;
	offers.n_probe = 2;
	assert_int_equal(taken_names_add(&names, small_catalog_get()), 0);
	assert_int_equal(taken_names_add(&names, &offers), 0);
	assert_true(taken_names_has(&names, "block") && taken_names_has(&names, "block_rq_issue"));
	assert_true(taken_names_has(&names, "openat"));
	assert_false(taken_names_has(&names, "app") || taken_names_has(&names, "done"));
	count = names.count;
	assert_int_equal(taken_names_add(&names, &offers), 0);
	assert_int_equal(names.count, count);
	taken_names_free(&names);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_the_source_are_taken),
		cmocka_unit_test(test_names_of_offers_are_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
