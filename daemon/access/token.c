#include "daemon/access/token.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/host/secret_file.h"

#define SCHEME ":sha256:"
#define FILE_BYTES_MAX (TOKENS_MAX * 192u)

struct token {
	uint8_t digest[IDENTITY_TOKEN_BYTES];
	char name[IDENTITY_NAME_BYTES];
};

struct tokens {
	unsigned count;
	struct token token[TOKENS_MAX];
};

static int refuse_line(struct error *error, const char *file, unsigned line, const char *what)
{
	error_set(error, EINVAL, "tokens-line", "%.200s:%u: %s", file, line, what);
	error_hint(error, "each line is NAME:sha256:HEX, as `tracectl token NAME` prints it");
	return -EINVAL;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_digest(const char *hex, size_t n, uint8_t digest[IDENTITY_TOKEN_BYTES])
{
	if (n != 2 * IDENTITY_TOKEN_BYTES)
		return false;
	for (size_t i = 0; i < IDENTITY_TOKEN_BYTES; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		digest[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* Empty lines and those that begin with # say nothing. */
static int parse_line(struct tokens *tokens, const char *line, size_t n, const char *file,
		      unsigned number, struct error *error)
{
	struct token *token = &tokens->token[tokens->count];
	const char *scheme;

	if (n == 0 || line[0] == '#')
		return 0;
	if (tokens->count == TOKENS_MAX)
		return refuse_line(error, file, number, "there are too many tokens");
	scheme = memmem(line, n, SCHEME, strlen(SCHEME));
	if (!scheme || !identity_is_name(line, (size_t)(scheme - line)))
		return refuse_line(error, file, number, "this is no name and digest");
	if (memchr(line, ':', (size_t)(scheme - line)))
		return refuse_line(error, file, number, "a name has no colon");
	if (!parse_digest(scheme + strlen(SCHEME), n - (size_t)(scheme - line) - strlen(SCHEME),
			  token->digest))
		return refuse_line(error, file, number, "the digest is not 64 hexadecimal digits");
	memcpy(token->name, line, (size_t)(scheme - line));
	token->name[scheme - line] = '\0';
	tokens->count++;
	return 0;
}

int tokens_parse(const char *text, size_t bytes, const char *name, struct tokens **out,
		 struct error *error)
{
	struct tokens *tokens = calloc(1, sizeof(*tokens));
	unsigned number = 0;
	int err = 0;

	if (!tokens)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	for (size_t begin = 0; begin < bytes && !err;) {
		const char *newline = memchr(text + begin, '\n', bytes - begin);
		size_t end = newline ? (size_t)(newline - text) : bytes;

		err = parse_line(tokens, text + begin, end - begin, name, ++number, error);
		begin = end + 1;
	}
	if (!err && !tokens->count) {
		err = error_set(error, EINVAL, "tokens-none", "%.200s holds no token", name);
		error_hint(error, "add the line that `tracectl token NAME` prints");
	}
	if (err) {
		free(tokens);
		return err;
	}
	*out = tokens;
	return 0;
}

int tokens_load(const char *path, struct tokens **tokens, struct error *error)
{
	size_t bytes = 0;
	ssize_t got = 1;
	char *text;
	int fd, err = secret_file_open(path, "tokens", &fd, error);

	if (err)
		return err;
	text = malloc(FILE_BYTES_MAX + 1);
	while (text && got > 0 && bytes <= FILE_BYTES_MAX) {
		got = read(fd, text + bytes, FILE_BYTES_MAX + 1 - bytes);
		bytes += got > 0 ? (size_t)got : 0;
	}
	if (!text)
		err = error_set(error, ENOMEM, "out-of-memory", "out of memory");
	else if (got < 0)
		err = error_set(error, errno, "secret-file", "tokens: cannot read %.200s: %s", path,
				strerror(errno));
	else if (bytes > FILE_BYTES_MAX)
		err = error_set(error, EFBIG, "tokens-line", "%.200s is larger than %u bytes", path,
				FILE_BYTES_MAX);
	else
		err = tokens_parse(text, bytes, path, tokens, error);
	free(text);
	close(fd);
	return err;
}

void tokens_destroy(struct tokens *tokens)
{
	free(tokens);
}

/* Every entry is compared, whether one before was the right one or not. */
static const struct token *find(const struct tokens *tokens, const uint8_t *digest)
{
	const struct token *found = NULL;

	for (unsigned i = 0; i < tokens->count; i++)
		if (CRYPTO_memcmp(tokens->token[i].digest, digest, IDENTITY_TOKEN_BYTES) == 0)
			found = &tokens->token[i];
	return found;
}

int tokens_find(const struct tokens *tokens, const char *text, struct client_identity *identity)
{
	uint8_t digest[IDENTITY_TOKEN_BYTES];
	const struct token *token;

	SHA256((const unsigned char *)text, strlen(text), digest);
	token = find(tokens, digest);
	if (!token)
		return -EACCES;
	identity_set_name(identity, IDENTITY_TOKEN, token->name);
	memcpy(identity->token, digest, sizeof(digest));
	return 0;
}

bool tokens_hold(const struct tokens *tokens, const struct client_identity *identity)
{
	const struct token *token = find(tokens, identity->token);

	return token && strcmp(token->name, strchr(identity->text, ':') + 1) == 0;
}
