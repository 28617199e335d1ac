/* test_since: times as people write them. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "client/cli/since.h"

#define NOW 1760000000000000000ull

static void times(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "-5m", NOW - 300000000000ull },
		{ "-1.5s", NOW - 1500000000ull },
		{ "-100000d", 1 },
		{ "@1760000000", NOW },
		{ "@1760000000.25", NOW + 250000000 },
		{ "@1760000060", NOW + 60000000000ull },	/* by a clock that is ahead */
		{ "@0", 1 },
		{ "2025-10-09T08:53:20Z", NOW },
		{ "2025-10-09T10:53:20", NOW },
		{ "2025-10-09T10:53:20.000000001", NOW + 1 },
		{ "2025-10-09T08:53Z", NOW - 20000000000ull },
		{ "2025-10-09", NOW - (10 * 3600 + 53 * 60 + 20) * 1000000000ull },
	};
	static const char *const bad[] = { "", "-", "yesterday", "@", "@x", "@1x", "2025",
					   "2025-10-09T08:53:20X", "@99999999999999999999",
					   "2099-01-01", "@1760000060.5" };
	struct ringtail_error error;
	uint64_t ns;

	(void)state;
	setenv("TZ", "UTC-2", 1);
	tzset();
	for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
		if (since_parse_time(good[i].text, NOW, &ns, &error))
			fail_msg("%s: %s", good[i].text, error.what);
		if (ns != good[i].ns)
			fail_msg("%s: %llu", good[i].text, (unsigned long long)ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		if (since_parse_time(bad[i], NOW, &ns, &error) != -EINVAL)
			fail_msg("'%s' is taken", bad[i]);
	assert_true(since_is_cursor("00-11/5/0:1"));
	assert_false(since_is_cursor("-5m"));
}

/* The same times, and those to come, and now. */
static void until(void **state)
{
	struct ringtail_error error;
	uint64_t ns;

	(void)state;
	assert_int_equal(since_parse_until("now", NOW, &ns, &error), 0);
	assert_int_equal(ns, NOW);
	assert_int_equal(since_parse_until("-5m", NOW, &ns, &error), 0);
	assert_int_equal(ns, NOW - 300000000000ull);
	assert_int_equal(since_parse_until("@1760009999", NOW, &ns, &error), 0);
	assert_int_equal(ns, 1760009999000000000ull);
	assert_int_equal(since_parse_until("then", NOW, &ns, &error), -EINVAL);
	assert_string_equal(error.code, "bad-until");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(times), cmocka_unit_test(until) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
