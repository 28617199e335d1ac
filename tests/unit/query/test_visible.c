/* What may reach a terminal or a log, and what becomes of the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "query/visible.h"
#include "proto/ringtail.pb-c.h"

static const char *const shown[] = {
	"", "plain text ~", "\xc2\xa0", "gr\xc3\xbc\xc3\x9f", "\xd8\x9b", "\xd8\x9d", "\xe2\x80\x8d",
	"\xe2\x80\x90", "\xe2\x80\xa7", "\xe2\x80\xaf", "\xe2\x81\xa5", "\xe2\x81\xaa", "\xf0\x9f\x98\x80",
};

static const char *const hidden[] = {
	"\x01", "\t", "\n", "\x1b", "\x1f", "\x7f", "\xc2\x80", "\xc2\x85", "\xc2\x9b", "\xc2\x9f",
	"\xd8\x9c", "\xe2\x80\x8e", "\xe2\x80\x8f", "\xe2\x80\xa8", "\xe2\x80\xaa", "\xe2\x80\xae",
	"\xe2\x81\xa6", "\xe2\x81\xa9",
};

static void test_which(void **state)
{
	uint32_t code;
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(shown) / sizeof(*shown); i++)
		assert_true(visible_is_all(shown[i]));
	for (size_t i = 0; i < sizeof(hidden) / sizeof(*hidden); i++) {
		assert_int_equal(visible_next(hidden[i], strlen(hidden[i]), &bytes, &code),
				 VISIBLE_HIDDEN);
		assert_int_equal(bytes, strlen(hidden[i]));
		assert_true(code < 0x10000);
		assert_false(visible_is_all(hidden[i]));
	}
	assert_int_equal(visible_next("\0a", 2, &bytes, &code), VISIBLE_HIDDEN);
	assert_int_equal(code, 0);
	assert_int_equal(visible_next("\x9b" "2J", 3, &bytes, &code), VISIBLE_NO_TEXT);
	assert_int_equal(bytes, 1);
	assert_int_equal(code, 0x9b);
	assert_int_equal(visible_next("\xe2\x80", 2, &bytes, &code), VISIBLE_NO_TEXT);	/* it is cut */
	assert_int_equal(visible_span("ab\xc3\xa4\x1b" "c", 6), 4);
}

static void test_replace(void **state)
{
	char text[] = "a\x1b[2J\xc2\x9b" "b\x9b" "c\xe2\x80\xae" "d\xc3\xa4", copy[8], *put;
	size_t bytes;
	FILE *to = open_memstream(&put, &bytes);

	(void)state;
	visible_put(to, text);
	fclose(to);
	visible_replace(text);
	assert_string_equal(text, "a?[2J?b?c?d\xc3\xa4");
	assert_string_equal(put, text);
	free(put);
	assert_int_equal(visible_copy(copy, sizeof(copy), "123456\xc3\xa4", 8), 6);	/* no half of it */
	assert_string_equal(copy, "123456");
	assert_int_equal(visible_copy(copy, sizeof(copy), "a\0b", 3), 3);
	assert_string_equal(copy, "a?b");
	assert_int_equal(visible_copy(copy, 4, "abc\n", 4), 3);		/* nor a mark that has no room */
	assert_string_equal(copy, "abc");
	assert_int_equal(visible_copy(copy, 4, "abcd", 4), 3);
	assert_int_equal(visible_copy(copy, 1, "abc", 3), 0);
	assert_string_equal(copy, "");
}

/* Every string, also those of messages inside, repeated or not. */
static void test_message(void **state)
{
	Ringtail__V1__Stat stat = RINGTAIL__V1__STAT__INIT;
	Ringtail__V1__ClientStat client = RINGTAIL__V1__CLIENT_STAT__INIT, *clients[] = {&client};
	char source[] = "\x1b", peer[] = "\n", probe[] = "\xc2\x9b", last[] = "\x7f";
	char *probes[] = {probe, "", last};

	(void)state;
	stat.source = source;
	stat.n_client = 1;
	stat.client = clients;
	client.peer = peer;
	client.n_probe = 3;
	client.probe = probes;
	visible_replace_message(&stat.base);
	assert_string_equal(source, "?");
	assert_string_equal(peer, "?");
	assert_string_equal(probe, "?");
	assert_string_equal(last, "?");
	assert_string_equal(stat.durability, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_which),
		cmocka_unit_test(test_replace),
		cmocka_unit_test(test_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
