/* glob: what matches, and that no pattern takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "query/glob.h"

static const struct {
	const char *pattern, *text;
	bool match;
} cases[] = {
	{ "", "", true },		{ "", "a", false },
	{ "a", "a", true },		{ "a", "", false },
	{ "a", "b", false },		{ "ab", "abc", false },
	{ "?", "a", true },		{ "?", "", false },
	{ "*", "", true },		{ "*", "anything", true },
	{ "open*", "openat", true },	{ "open*", "reopen", false },
	{ "*at", "openat", true },	{ "*at", "openatt", false },
	{ "*at", "atat", true },	{ "o*n*t", "openat", true },
	{ "**", "x", true },		{ "*?", "", false },
	{ "*?", "x", true },		{ "[abc]x", "bx", true },
	{ "[abc]x", "dx", false },	{ "[a-c]", "b", true },
	{ "[a-c]", "a", true },		{ "[a-c]", "c", true },
	{ "[a-c]", "d", false },	{ "[!a-c]", "d", true },
	{ "[!a-c]", "b", false },	{ "[^a]", "b", true },
	{ "[]]", "]", true },		{ "[a-]", "-", true },
	{ "[", "[", true },		{ "[a", "[a", true },
	{ "[a", "a", false },		{ "\\*", "*", true },
	{ "\\*", "x", false },		{ "\\", "\\", true },
	{ "a*[0-9]", "ab7", true },	{ "a*[0-9]", "ab", false },
	{ "*b*a", "aabba", true },	{ "*\xff", "a\xff", true },
};

static void test_cases(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		bool match = glob_match(cases[i].pattern, cases[i].text, strlen(cases[i].text));

		if (match != cases[i].match)
			fail_msg("`%s` and `%s`", cases[i].pattern, cases[i].text);
	}
}

static void test_text_is_not_terminated(void **state)
{
	const char text[3] = { 'a', 'b', 'c' };

	(void)state;
	assert_true(glob_match("ab", text, 2));
	assert_true(glob_match("a*c", text, 3));
	assert_false(glob_match("abcd", text, 3));
}

static void test_is_pattern(void **state)
{
	(void)state;
	assert_false(glob_is_pattern("openat"));
	assert_true(glob_is_pattern("open*"));
	assert_true(glob_is_pattern("open?t"));
	assert_true(glob_is_pattern("[o]penat"));
	assert_true(glob_is_pattern("\\openat"));
}

/* Backtracking into every star would take longer than the universe has. */
static void test_hostile_pattern(void **state)
{
	char pattern[257], text[256];
	clock_t begin = clock();

	(void)state;
	for (size_t i = 0; i < 256; i += 2)
		memcpy(pattern + i, "*a", 2);
	memcpy(pattern + 254, "*b", 3);
	memset(text, 'a', sizeof(text));
	for (int i = 0; i < 100; i++)
		assert_false(glob_match(pattern, text, sizeof(text)));
	assert_true(clock() - begin < CLOCKS_PER_SEC);
}

static void test_text_that_goes_on(void **state)
{
	(void)state;
	assert_true(glob_may_match("abcd", "abc", 3));
	assert_true(glob_may_match("*.log", "abc", 3));
	assert_true(glob_may_match("a[a-c]?*", "abc", 3));
	assert_false(glob_may_match("ab", "abc", 3));
	assert_false(glob_may_match("b*", "abc", 3));
	assert_false(glob_may_match("", "a", 1));
	assert_true(glob_ends_open("a*"));
	assert_true(glob_ends_open("*b**"));
	assert_false(glob_ends_open("a*b"));
	assert_false(glob_ends_open("a\\*"));
	assert_false(glob_ends_open("a[*]"));
	assert_true(glob_ends_open("a[*"));
	assert_false(glob_ends_open(""));
}

static void test_text_that_began_before(void **state)
{
	(void)state;
	assert_true(glob_may_match_end("zabc", "abc", 3));
	assert_true(glob_may_match_end("/secret/*", "abc", 3));
	assert_true(glob_may_match_end("*/x/[a-c]b?", "abc", 3));
	assert_true(glob_may_match_end("*x*bc", "abc", 3));
	assert_true(glob_may_match_end("*\\*bc", "abc", 3) == false);
	assert_false(glob_may_match_end("*.key", "abc", 3));
	assert_false(glob_may_match_end("*/abd", "abc", 3));
	assert_false(glob_may_match_end("abc", "abc", 3));	/* there is something before it */
	assert_false(glob_may_match_end("bc", "abc", 3));
	assert_false(glob_may_match_end("", "a", 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cases),
		cmocka_unit_test(test_text_is_not_terminated),
		cmocka_unit_test(test_is_pattern),
		cmocka_unit_test(test_text_that_goes_on),
		cmocka_unit_test(test_text_that_began_before),
		cmocka_unit_test(test_hostile_pattern),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
