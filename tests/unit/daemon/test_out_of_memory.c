/*
 * Out of memory in config and filter: the n-th allocation fails, for every n, and nothing is lost
 * or used that is not there.
 *
 * The sources that allocate are compiled into this program with an allocator that can fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned allocations_left;	/* until one fails */

static bool may_allocate(void)
{
	return allocations_left && allocations_left--;
}

static void *failing_calloc(size_t n, size_t bytes)
{
	return may_allocate() ? calloc(n, bytes) : NULL;
}

static void *failing_malloc(size_t bytes)
{
	return may_allocate() ? malloc(bytes) : NULL;
}

static void *failing_realloc(void *old, size_t bytes)
{
	return may_allocate() ? realloc(old, bytes) : NULL;
}

static char *failing_strdup(const char *text)
{
	return may_allocate() ? strdup(text) : NULL;
}

#define calloc failing_calloc
#define malloc failing_malloc
#define realloc failing_realloc
#undef strdup
#define strdup failing_strdup
#include "daemon/config/config.c"
#include "daemon/config/value.c"
#include "query/filter.c"
#include "query/filter_program.c"
#include "query/filter_tree.c"
#undef calloc
#undef malloc
#undef realloc
#undef strdup

#include "tests/unit/daemon/small_catalog.h"

#define ALLOCATIONS_MAX 100

static void test_filter(void **state)
{
	static const char text[] = "pid == 3 && fd > 2 && ret < 0 && error && name == \"call\"";
	unsigned n, failures = 0;

	(void)state;
	for (n = 0; n < ALLOCATIONS_MAX; n++) {
		struct filter *filter;
		struct error error;
		int err;

		allocations_left = n;
		err = filter_compile(text, small_catalog_get(), &filter, &error);
		if (!err && allocations_left) {
			filter_destroy(filter);
			break;
		}
		if (err) {
			failures++;
			assert_int_equal(err, -ENOMEM);
			assert_string_equal(error.code, "no-memory");
			assert_null(filter);
		}
		filter_destroy(filter);
	}
	assert_true(n < ALLOCATIONS_MAX);
	assert_true(failures >= 7);	/* filter, tree, nodes, three fields, set; program */
}

static void test_config(void **state)
{
	static const char text[] = "source = replay:x\nprobe = a\nprobe = b\nfilter = pid == 3\n"
				   "state-dir = /x\nuser = me\nlisten = unix:/x\n";
	unsigned n;

	(void)state;
	for (n = 0; n < ALLOCATIONS_MAX; n++) {
		struct config config;
		struct error error;
		int err;

		allocations_left = n;
		err = config_parse_text(text, strlen(text), "x.conf", &config, &error);
		if (!err) {
			config_free(&config);
			break;
		}
		assert_int_equal(err, -ENOMEM);
		assert_string_equal(error.code, "no-memory");
		assert_null(config.source.name);
	}
	assert_true(n > 5 && n < ALLOCATIONS_MAX);
}

static void test_config_file(void **state)
{
	char *argv[] = { "ringtaild", "--config", "/dev/null", "--probe=x", "--user=me", NULL };
	unsigned n;

	(void)state;
	for (n = 0; n < ALLOCATIONS_MAX; n++) {
		struct config config;
		int err;

		allocations_left = n;
		err = config_parse_args(5, argv, &config, NULL);
		if (!err) {
			config_free(&config);
			break;
		}
		assert_int_equal(err, -ENOMEM);
	}
	assert_true(n > 5 && n < ALLOCATIONS_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_filter),
		cmocka_unit_test(test_config),
		cmocka_unit_test(test_config_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
