/*
 * config_typos: every key and every flag, with any one character deleted, replaced, inserted or
 * swapped with the next: none is taken for another, and the nearest that there is gets named.
 */
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/config/config.h"
#include "daemon/config/option.h"

#define NAME_BYTES	64

/* Some of each kind: small, large, digits, and what stands between. Each is put into each place of each name. */
static const char letters[] = "aeknstz09-_A.";

/* Optimal string alignment, in the plainest way: the whole table. Large letters are small ones. */
static unsigned distance(const char *a, const char *b)
{
	static unsigned table[NAME_BYTES + 1][NAME_BYTES + 1];
	size_t n = strlen(a), m = strlen(b);

	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			unsigned best = i == 0 ? (unsigned)j : j == 0 ? (unsigned)i : NAME_BYTES;
			unsigned other;

			if (i && j) {
				best = table[i - 1][j - 1] + (tolower(a[i - 1]) != tolower(b[j - 1]));
				other = table[i - 1][j] + 1;
				best = other < best ? other : best;
				other = table[i][j - 1] + 1;
				best = other < best ? other : best;
			}
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    table[i - 2][j - 2] + 1 < best)
				best = table[i - 2][j - 2] + 1;
			table[i][j] = best;
		}
	return table[n][m];
}

/* Whether the hint names a key of the least distance, and names it first if it is the only one. */
static void check_hint(const char *typo, const char *hint)
{
	unsigned least = NAME_BYTES, of_least = 0, to[OPTIONS];
	char first[NAME_BYTES + 32], any[NAME_BYTES + 8];
	bool named = false;

	for (int i = 0; i < OPTIONS; i++) {
		to[i] = config_options[i].place == CONFIG_ANYWHERE ?
			distance(typo, config_options[i].name) : NAME_BYTES;
		of_least = to[i] < least ? 1 : of_least + (to[i] == least);
		least = to[i] < least ? to[i] : least;
	}
	for (int i = 0; i < OPTIONS; i++) {
		if (config_options[i].place != CONFIG_ANYWHERE || to[i] != least)
			continue;
		snprintf(first, sizeof(first), "did you mean `%s`", config_options[i].name);
		snprintf(any, sizeof(any), "`%s`", config_options[i].name);
		named = named || strstr(hint, of_least == 1 ? first : any);
	}
	if (!named || least > 1)
		fail_msg("`%s`: %s", typo, hint);
}

static void check_key(const char *typo)
{
	struct config config;
	struct error error = {0};
	char line[NAME_BYTES + 8], what[NAME_BYTES + 32];
	int err;

	if (config_option_find(typo) >= 0)
		return;		/* a name of its own, one letter away */
	snprintf(line, sizeof(line), "%s = 1\n", typo);
	err = config_parse_text(line, strlen(line), "x.conf", &config, &error);
	if (!err)
		fail_msg("`%s` is taken for something", typo);
	snprintf(what, sizeof(what), "no key is called `%s`", typo);
	assert_int_equal(err, -EINVAL);
	assert_string_equal(error.code, "config-unknown-key");
	if (!strstr(error.what, what))
		fail_msg("`%s`: %s", typo, error.what);
	check_hint(typo, error.hint);
}

/* Each text that differs from the name in one character, or in the order of two. */
static unsigned for_each_typo(const char *name, void (*check)(const char *typo))
{
	size_t n = strlen(name);
	char typo[NAME_BYTES];
	unsigned checked = 0;

	for (size_t at = 0; at <= n; at++)
		for (const char *letter = letters; *letter; letter++) {
			snprintf(typo, sizeof(typo), "%.*s%c%s", (int)at, name, *letter, name + at);
			check(typo);
			if (at < n && *letter != name[at]) {
				memcpy(typo, name, n + 1);
				typo[at] = *letter;
				check(typo);
			}
			checked += 2;
		}
	for (size_t at = 0; at < n; at++) {
		snprintf(typo, sizeof(typo), "%.*s%s", (int)at, name, name + at + 1);
		check(typo);
		memcpy(typo, name, n + 1);
		if (at + 1 < n && typo[at] != typo[at + 1]) {
			typo[at] = name[at + 1];
			typo[at + 1] = name[at];
			check(typo);
		}
		checked += 2;
	}
	return checked;
}

static void test_keys(void **state)
{
	unsigned checked = 0;

	(void)state;
	for (int i = 0; i < OPTIONS; i++)
		if (config_options[i].place == CONFIG_ANYWHERE)
			checked += for_each_typo(config_options[i].name, check_key);
	assert_true(checked > 10000);
}

static void check_flag(const char *typo)
{
	char flag[NAME_BYTES + 8];
	char *args[] = {"ringtaild", flag, NULL};
	struct config config;
	struct error error = {0};

	if (config_option_find(typo) >= 0)
		return;
	snprintf(flag, sizeof(flag), "--%s=1", typo);
	if (config_parse_args(2, args, &config, &error) != -EINVAL)
		fail_msg("--%s is taken for something", typo);
	if (strcmp(error.code, "config-unwanted-value") == 0)
		return;		/* the beginning of one that takes none */
	if (strcmp(error.code, "config-unknown-flag") != 0 || !strstr(error.hint, "did you mean `--"))
		fail_msg("--%s: [%s] %s; %s", typo, error.code, error.what, error.hint);
}

static void test_flags(void **state)
{
	(void)state;
	for (int i = 0; i < OPTIONS; i++)
		assert_true(for_each_typo(config_options[i].name, check_flag) > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_flags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
