/*
 * Tokens: no two are alike, the line has the digest of what was given out, and names that would break the
 * daemon's file are refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "client/cli/token.h"

static void makes(void **state)
{
	char token[TOKEN_BYTES], other[TOKEN_BYTES], line[TOKEN_LINE_BYTES], want[TOKEN_LINE_BYTES];
	uint8_t digest[SHA256_DIGEST_LENGTH];
	int n;

	(void)state;
	assert_int_equal(token_make("alice", token, line, NULL), 0);
	assert_int_equal(strlen(token), TOKEN_BYTES - 2);
	assert_int_equal(strspn(token, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				       "0123456789-_"), strlen(token));
	SHA256((const uint8_t *)token, strlen(token), digest);
	n = snprintf(want, sizeof(want), "alice:sha256:");
	for (unsigned i = 0; i < sizeof(digest); i++)
		n += snprintf(want + n, sizeof(want) - (size_t)n, "%02x", digest[i]);
	assert_string_equal(line, want);
	assert_int_equal(token_make("alice", other, line, NULL), 0);
	assert_string_not_equal(token, other);
}

static void refuses(void **state)
{
	static const char *const names[] = {"", "a:b", "a b", "a\nb", "#a", "a\x7f",
		"1234567890123456789012345678901234567890123456789012345678901234"};
	char token[TOKEN_BYTES], line[TOKEN_LINE_BYTES];
	struct ringtail_error error;

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_int_equal(token_make(names[i], token, line, &error), -EINVAL);
		assert_string_equal(error.code, "bad-name");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(makes),
		cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
