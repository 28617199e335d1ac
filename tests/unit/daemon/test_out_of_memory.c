/*
 * Out of memory in config and filter: the n-th allocation fails, for every n, and nothing is lost
 * or used that is not there.
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

#include "daemon/config/config.h"
#include "query/filter.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_catalog.h"

#define ALLOCATIONS_MAX 100

static void test_filter(void **state)
{
	static const char text[] = "pid == 3 && fd > 2 && ret < 0 && error && name == \"call\"";
	const Ringtail__V1__Catalog *catalog = small_catalog_get();
	unsigned n, failures = 0;

	(void)state;
	for (n = 0; n < ALLOCATIONS_MAX; n++) {
		struct filter *filter;
		struct error error;
		int err;

		memory_fails_after(n);
		err = filter_compile(text, catalog, &filter, &error);
		memory_suffices();
		if (!err) {
			filter_destroy(filter);
			break;
		}
		failures++;
		assert_int_equal(err, -ENOMEM);
		assert_string_equal(error.code, "no-memory");
		assert_null(filter);
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

		memory_fails_after(n);
		err = config_parse_text(text, strlen(text), "x.conf", &config, &error);
		memory_suffices();
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

		memory_fails_after(n);
		err = config_parse_args(5, argv, &config, NULL);
		memory_suffices();
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
