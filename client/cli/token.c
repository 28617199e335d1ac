#include "client/cli/token.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "client/lib/failure.h"
#include "query/visible.h"

#define RANDOM_BYTES 32

static bool is_name(const char *name)
{
	return *name && strlen(name) <= TOKEN_NAME_BYTES_MAX && visible_is_all(name) &&
	       !strpbrk(name, " :#");
}

/* Six bits a letter; the last one holds four. */
static void print_base64url(const uint8_t *bytes, char *text)
{
	static const char letters[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	unsigned bits = 0, held = 0;

	for (unsigned i = 0; i < RANDOM_BYTES; i++) {
		held = held << 8 | bytes[i];
		for (bits += 8; bits >= 6; bits -= 6)
			*text++ = letters[held >> (bits - 6) & 63];
	}
	*text++ = letters[held << (6 - bits) & 63];
	*text = '\0';
}

int token_make(const char *name, char token[TOKEN_BYTES], char line[TOKEN_LINE_BYTES],
	       struct ringtail_error *error)
{
	uint8_t secret[RANDOM_BYTES], digest[SHA256_DIGEST_LENGTH];
	int n, err;

	if (!is_name(name)) {
		err = failure_set(error, EINVAL, "bad-name", "'%s' is no name of a token", name);
		failure_hint(error, "1 to %d bytes, without blanks, ':' and '#'",
			     TOKEN_NAME_BYTES_MAX);
		return err;
	}
	if (getrandom(secret, sizeof(secret), 0) != sizeof(secret))
		return failure_set(error, errno ? errno : EIO, "no-random",
				   "cannot read random bytes from the kernel: %s", strerror(errno));
	strcpy(token, "rt_");
	print_base64url(secret, token + 3);
	SHA256((const unsigned char *)token, strlen(token), digest);
	n = snprintf(line, TOKEN_LINE_BYTES, "%s:sha256:", name);
	for (unsigned i = 0; i < sizeof(digest); i++)
		n += snprintf(line + n, TOKEN_LINE_BYTES - (size_t)n, "%02x", digest[i]);
	explicit_bzero(secret, sizeof(secret));
	return 0;
}
