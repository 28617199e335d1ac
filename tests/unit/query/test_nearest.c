/* nearest: which names are near, which are not, and in what order they are said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "query/nearest.h"

static const char *nearest_of(const char *wanted, const char *const *names)
{
	static char text[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	nearest_init(&nearest, wanted);
	for (; *names; names++)
		nearest_offer(&nearest, *names);
	return nearest_text(&nearest, text) ? text : "";
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void test_one_change(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("lisen", NAMES("user", "listen", "probe")), "`listen`");
	assert_string_equal(nearest_of("lissten", NAMES("listen")), "`listen`");
	assert_string_equal(nearest_of("lixten", NAMES("listen")), "`listen`");
	assert_string_equal(nearest_of("lsiten", NAMES("listen")), "`listen`");
	assert_string_equal(nearest_of("LISTEN", NAMES("listen")), "`listen`");
}

static void test_best_first(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("openat", NAMES("openat22", "openat2", "close", "open")),
			    "`openat2`, `openat22` or `open`");
	assert_string_equal(nearest_of("aaaa", NAMES("aaab", "aaac", "aaad", "aaae")),
			    "`aaab`, `aaac` or `aaad`");
	assert_string_equal(nearest_of("read", NAMES("reaf", "read")), "`read` or `reaf`");
}

static void test_part_of_a_name(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("switch", NAMES("sched_switch", "sched_wakeup")),
			    "`sched_switch`");
}

static void test_nothing_near(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("zebra", NAMES("listen", "probe")), "");
	assert_string_equal(nearest_of("x", NAMES("listen")), "");
	assert_string_equal(nearest_of("", NAMES("listen")), "");
}

static void test_same_name_once(void **state)
{
	(void)state;
	assert_string_equal(nearest_of("fdd", NAMES("fd", "fd", "fd")), "`fd`");
}

static void test_shown_whole(void **state)
{
	char text[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	(void)state;
	nearest_init(&nearest, "opennat");
	nearest_offer_as(&nearest, "openat", "syscall:openat:call");
	nearest_offer_as(&nearest, "openat", "syscall:openat:call");
	nearest_offer_as(&nearest, "close", "syscall:close:call");
	assert_true(nearest_text(&nearest, text));
	assert_string_equal(text, "`syscall:openat:call`");
}

static void test_long_names(void **state)
{
	char wanted[300], name[300];
	const char *text;

	(void)state;
	memset(wanted, 'a', sizeof(wanted) - 1);
	wanted[sizeof(wanted) - 1] = '\0';
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	name[5] = 'b';
	text = nearest_of(wanted, NAMES(name));
	assert_int_equal(strlen(text), NEAREST_NAME_BYTES - 1 + 2);
	memcpy(name, "aaaa", 4);
	text = nearest_of(wanted, NAMES("b", wanted, name, wanted + 1));
	assert_true(strlen(text) < NEAREST_TEXT_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_change),
		cmocka_unit_test(test_best_first),
		cmocka_unit_test(test_part_of_a_name),
		cmocka_unit_test(test_nothing_near),
		cmocka_unit_test(test_same_name_once),
		cmocka_unit_test(test_shown_whole),
		cmocka_unit_test(test_long_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
