/* test_cursor: the text of a cursor, and every way in which one is wrong. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/cursor.h"

#define ID "01020304-0506-0708-090a-0b0c0d0e0f10"

static struct cursor *cursor;

static void round_trip(void **state)
{
	static const char *const texts[] = {ID "/7/0:15,3:18446744073709551615", ID "/0/",
					    ID "/1/9:0"};
	struct ringtail_error error;
	char text[256];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(cursor_parse(texts[i], &cursor, &error), 0);
		assert_int_equal(cursor_print(cursor, text, sizeof(text)), 0);
		assert_string_equal(text, texts[i]);
		free(cursor);
	}
	assert_int_equal(
		cursor_parse("0102030405060708090A0B0C0D0E0F10/7/0:15,3:4", &cursor, &error), 0);
	assert_int_equal(cursor->n, 2);
	assert_int_equal(cursor->position[1].cpu, 3);
	assert_int_equal(cursor->run.boot_id[15], 16);
	assert_int_equal(cursor->run.epoch, 7);
	free(cursor);
}

static void wrong(void **state)
{
	static const struct {
		const char *text;
		unsigned column;
	} cases[] = {
		{"", 1},
		{"x", 1},
		{"0102/7/0:1", 1},
		{ID "00/7/0:1", 1},
		{ID, 37},
		{ID "/", 38},
		{ID "/x/", 38},
		{ID "/99999999999999999999/", 38},
		{ID "/7", 39},
		{ID "/7,0:1", 39},
		{ID "/7/x", 40},
		{ID "/7/0", 41},
		{ID "/7/0:", 42},
		{ID "/7/0:-1", 42},
		{ID "/7/0:1,", 44},
		{ID "/7/0:1;", 43},
		{ID "/7/4294967296:1", 40},
	};
	struct ringtail_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(cursor_parse(cases[i].text, &cursor, &error), -EINVAL);
		assert_string_equal(error.code, "bad-cursor");
		assert_int_equal(error.column, cases[i].column);
		assert_int_equal(cursor_parse(cases[i].text, &cursor, NULL), -EINVAL);
	}
}

/* However many there are. */
static void a_boot_id_without_end(void **state)
{
	const size_t digits = 16 << 20;
	char *text = malloc(digits + 1);
	struct ringtail_error error;

	(void)state;
	memset(text, 'a', digits);
	text[digits] = '\0';
	assert_int_equal(cursor_parse(text, &cursor, &error), -EINVAL);
	assert_int_equal(error.column, 1);
	free(text);
}

static void bounds(void **state)
{
	char *text = malloc(1 << 16), *at = text;
	struct ringtail_error error;

	(void)state;
	at += sprintf(at, ID "/1/");
	for (unsigned i = 0; i < CURSOR_POSITIONS_MAX; i++)
		at += sprintf(at, "%s%u:%u", i ? "," : "", i, i);
	assert_int_equal(cursor_parse(text, &cursor, &error), 0);
	assert_int_equal(cursor->n, CURSOR_POSITIONS_MAX);
	assert_int_equal(cursor_print(cursor, text, 100), -ENOSPC);
	assert_int_equal(cursor_print(cursor, text, 10), -ENOSPC);
	assert_int_equal(cursor_print(cursor, text, 1 << 16), 0);
	strcat(text, ",1:1");
	free(cursor);
	assert_int_equal(cursor_parse(text, &cursor, &error), -EINVAL);
	free(text);
}

/* Both cases, to the last of them; and the neighbours of each range are none. */
static void hexadecimal_digits(void **state)
{
	static const char wrong_ones[] = ":@G`g.";
	char text[] = "0123456789abcdefABCDEF0000000000/1/";
	static const uint8_t id[16] = { 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xab, 0xcd, 0xef };
	struct ringtail_error error;

	(void)state;
	assert_int_equal(cursor_parse(text, &cursor, &error), 0);
	assert_memory_equal(cursor->run.boot_id, id, sizeof(id));
	free(cursor);
	for (size_t i = 0; wrong_ones[i]; i++) {
		text[31] = wrong_ones[i];
		assert_int_equal(cursor_parse(text, &cursor, &error), -EINVAL);
		assert_int_equal(error.column, 1);
	}
}

/* The text and its end just fit, or it is too long: it is never cut without a word. */
static void text_that_just_fits(void **state)
{
	static const char *const texts[] = { ID "/7/0:15,3:1844", ID "/1/" };
	struct ringtail_error error;
	char text[64];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		size_t bytes = strlen(texts[i]) + 1;

		assert_int_equal(cursor_parse(texts[i], &cursor, &error), 0);
		assert_int_equal(cursor_print(cursor, text, bytes), 0);
		assert_string_equal(text, texts[i]);
		while (--bytes)
			assert_int_equal(cursor_print(cursor, text, bytes), -ENOSPC);
		free(cursor);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(round_trip), cmocka_unit_test(wrong), cmocka_unit_test(bounds),
		cmocka_unit_test(hexadecimal_digits), cmocka_unit_test(text_that_just_fits),
		cmocka_unit_test(a_boot_id_without_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
