/* test_units: numbers, durations and sizes. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/units.h"

static void counts(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t value;
	} cases[] = {
		{"0", 0, 0},
		{"1000", 0, 1000},
		{"0x10", 0, 16},
		{"10k", 0, 10000},
		{"2.5M", 0, 2500000},
		{"1G", 0, 1000000000},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999G", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"-1", -EINVAL, 0},
		{"+1", -EINVAL, 0},
		{"k", -EINVAL, 0},
		{"1x", -EINVAL, 0},
		{"inf", -EINVAL, 0},
		{"nan", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{".", -EINVAL, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t value = 0;

		assert_int_equal(units_parse_count(cases[i].text, &value), cases[i].err);
		assert_true(value == cases[i].value);
	}
}

static void durations(void **state)
{
	static const struct {
		const char *text;
		int err;
		uint64_t ns;
	} cases[] = {
		{ "10s", 0, 10000000000ull }, { "1", 0, 1000000000 }, { "500ms", 0, 500000000 },
		{ "1.5us", 0, 1500 }, { "7ns", 0, 7 }, { "2m", 0, 120000000000ull },
		{ "2min", 0, 120000000000ull }, { "1h", 0, 3600000000000ull },
		{ "1d", 0, 86400000000000ull }, { "1000000d", -ERANGE, 0 }, { "3 s", -EINVAL, 0 },
		{ "3sec", -EINVAL, 0 }, { "s", -EINVAL, 0 }, { "-1s", -EINVAL, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		uint64_t ns = 0;

		assert_int_equal(units_parse_duration(cases[i].text, &ns), cases[i].err);
		assert_true(ns == cases[i].ns);
	}
}

static void formats(void **state)
{
	char text[UNITS_TEXT_BYTES];

	(void)state;
	assert_string_equal(units_format_rate(0, text), "0");
	assert_string_equal(units_format_rate(999, text), "999");
	assert_string_equal(units_format_rate(999.9, text), "1.00k");
	assert_string_equal(units_format_rate(1234567, text), "1.23M");
	assert_string_equal(units_format_bytes(1023, text), "1023 B");
	assert_string_equal(units_format_bytes(1536, text), "1.50 KiB");
	assert_string_equal(units_format_bytes(1e18, text), "909495 TiB");
}

/* However near to the border of a unit: at most four digits, and never 1000 of a unit that has a larger one. */
static void borders_of_units(void **state)
{
	char text[UNITS_TEXT_BYTES];

	(void)state;
	for (uint64_t border = 10; border <= 1000000000000u; border *= 10)
		for (uint64_t off = 0; off < border; off = 2 * off + 1) {
			units_format_duration(border - off, text);
			assert_true(border > 1000000000u || strtod(text, NULL) < 1000);
			assert_true(strtod(units_format_rate((double)(border - off), text), NULL) < 1000);
			assert_true(strspn(text, "0123456789.") <= 5);
			assert_true(strtod(units_format_bytes((double)(border - off), text), NULL) < 1024);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts), cmocka_unit_test(durations), cmocka_unit_test(formats),
		cmocka_unit_test(borders_of_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
