/* quantity: numbers and units, and each way to write them wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "query/quantity.h"

static void test_good(void **state)
{
	static const struct {
		const char *text;
		enum quantity kind;
		uint64_t value;
	} good[] = {
		{ "0", QUANTITY_COUNT, 0 },
		{ "64", QUANTITY_COUNT, 64 },
		{ "0x1F", QUANTITY_COUNT, 31 },
		{ "18446744073709551615", QUANTITY_COUNT, UINT64_MAX },
		{ "0xffffffffffffffff", QUANTITY_ANY, UINT64_MAX },
		{ "4096", QUANTITY_BYTES, 4096 },
		{ "7B", QUANTITY_BYTES, 7 },
		{ "4KiB", QUANTITY_BYTES, 4096 },
		{ "1MiB", QUANTITY_BYTES, 1 << 20 },
		{ "2GiB", QUANTITY_BYTES, 2ull << 30 },
		{ "0", QUANTITY_DURATION, 0 },
		{ "3ns", QUANTITY_DURATION, 3 },
		{ "3us", QUANTITY_DURATION, 3000 },
		{ "40ms", QUANTITY_DURATION, 40000000 },
		{ "5s", QUANTITY_DURATION, 5000000000 },
		{ "2min", QUANTITY_DURATION, 120000000000 },
		{ "1h", QUANTITY_DURATION, 3600000000000 },
		{ "365d", QUANTITY_DURATION, 365 * 86400000000000 },
		{ "40ms", QUANTITY_ANY, 40000000 },
		{ "1.5ms", QUANTITY_ANY, 1500000 },
		{ "0.25KiB", QUANTITY_BYTES, 256 },
		{ "1.000000001s", QUANTITY_DURATION, 1000000001 },
		{ "213503.5d", QUANTITY_DURATION, 18446702400000000000u },
		{ "1MiB", QUANTITY_ANY, 1 << 20 },
		{ "5", QUANTITY_ANY, 5 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		uint64_t value;

		if (quantity_parse(good[i].text, good[i].kind, &value, NULL))
			fail_msg("%s", good[i].text);
		assert_int_equal(value, good[i].value);
	}
}

static void test_bad(void **state)
{
	static const struct {
		const char *text;
		enum quantity kind;
		const char *code, *what, *hint;
	} bad[] = {
		{ "", QUANTITY_COUNT, "number-missing", "`` is not a number", "" },
		{ "many", QUANTITY_COUNT, "number-missing", "`many` is not a number", "" },
		{ "-1", QUANTITY_COUNT, "number-missing", "`-1` is not a number", "" },
		{ "0x", QUANTITY_COUNT, "unit-unwanted", "`x` follows a plain number", "" },
		{ "3ms", QUANTITY_COUNT, "unit-unwanted", "`ms` follows a plain number", "" },
		{ "18446744073709551616", QUANTITY_COUNT, "number-too-large",
		  "`18446744073709551616` is too large", "" },
		{ "99999999999GiB", QUANTITY_BYTES, "number-too-large",
		  "`99999999999GiB` is too large", "" },
		{ "3MB", QUANTITY_BYTES, "unit-unknown", "no unit is called `MB`",
		  "did you mean `B` or `MiB`?" },
		{ "3xyzzy", QUANTITY_BYTES, "unit-unknown", "no unit is called `xyzzy`",
		  "units are B, KiB, MiB and GiB" },
		{ "3mss", QUANTITY_DURATION, "unit-unknown", "no unit is called `mss`",
		  "did you mean `ms`?" },
		{ "3fortnights", QUANTITY_DURATION, "unit-unknown",
		  "no unit is called `fortnights`", "units are ns, us, ms, s, min and h" },
		{ "3fortnights", QUANTITY_ANY, "unit-unknown", "no unit is called `fortnights`",
		  "units are ns, us, ms, s, min, h, B, KiB, MiB and GiB" },
		{ "3KiB", QUANTITY_DURATION, "unit-unknown", "no unit is called `KiB`", NULL },
		{ "40", QUANTITY_DURATION, "unit-missing", "`40` has no unit",
		  "write 40ms or 40s; units are ns, us, ms, s, min and h" },
		{ "1.5", QUANTITY_DURATION, "number-fraction", "`1.5` is not a whole number", NULL },
		{ "1.5", QUANTITY_COUNT, "number-fraction", "`1.5` is not a whole number", NULL },
		{ "1.5ns", QUANTITY_DURATION, "number-fraction", "`1.5ns` is not a whole number", NULL },
		{ "0.0000000001s", QUANTITY_DURATION, "number-fraction", "`0.0000000001s` is not a whole number", NULL },
		{ "1.0000000000s", QUANTITY_DURATION, "number-fraction", "`1.0000000000s` is not a whole number",
		  "a fraction needs a unit that makes it whole, as in 1.5ms; at most 9 digits" },
		{ "300000.5d", QUANTITY_DURATION, "number-too-large", "`300000.5d` is too large", NULL },
		{ "40 ms", QUANTITY_BYTES, "number-trailing", "` ms` follows the number",
		  "write the number and its unit without a space, as in 40ms or 1MiB" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error error;
		uint64_t value;

		assert_int_equal(quantity_parse(bad[i].text, bad[i].kind, &value, &error), -EINVAL);
		assert_string_equal(error.code, bad[i].code);
		assert_string_equal(error.what, bad[i].what);
		if (bad[i].hint)
			assert_string_equal(error.hint, bad[i].hint);
		assert_int_equal(quantity_parse(bad[i].text, bad[i].kind, &value, NULL), -EINVAL);
	}
}

static void test_read_stops(void **state)
{
	uint64_t value;
	size_t used;

	(void)state;
	assert_int_equal(quantity_read("40ms) && x", 10, QUANTITY_ANY, &value, &used, NULL), 0);
	assert_int_equal(value, 40000000);
	assert_int_equal(used, 4);
	assert_int_equal(quantity_read("123", 2, QUANTITY_ANY, &value, &used, NULL), 0);
	assert_int_equal(value, 12);
	assert_int_equal(used, 2);
}

static void test_text(void **state)
{
	char text[QUANTITY_TEXT_BYTES];

	(void)state;
	assert_string_equal(quantity_text(40000000, QUANTITY_DURATION, text), "40ms");
	assert_string_equal(quantity_text(1500, QUANTITY_DURATION, text), "1500ns");
	assert_string_equal(quantity_text(3600000000000, QUANTITY_DURATION, text), "1h");
	assert_string_equal(quantity_text(1 << 20, QUANTITY_BYTES, text), "1MiB");
	assert_string_equal(quantity_text(0, QUANTITY_BYTES, text), "0");
	assert_string_equal(quantity_text(7, QUANTITY_COUNT, text), "7");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_read_stops),
		cmocka_unit_test(test_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
