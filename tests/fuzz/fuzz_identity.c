/*
 * fuzz_identity: any bytes as a client's certificate, and what it would be known by: a name that can
 * stand in a log, in a rule and in a line of a file, or none. And any bytes as a file of tokens.
 *
 * The first byte chooses which.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/access/gate.h"
#include "daemon/net/transport.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *name)
{
	size_t bytes = strlen(name);

	if (!identity_is_name(name, bytes) || strpbrk(name, "\n\t\r\x1b"))
		abort();
}

/* A certificate is a viewer by the rules; nobody becomes an operator by whatever a name says. */
static void judge(const char *name)
{
	static struct roles *roles;
	struct config_words none = {0}, viewer = {.word = {(char *)"cert:*"}, .count = 1};
	struct client_identity identity;

	if (!roles && roles_create(&viewer, &none, &roles, NULL) != 0)
		abort();
	identity_set_name(&identity, IDENTITY_CERT, name);
	if (roles_judge(roles, &identity) != ROLE_VIEWER ||
	    strcmp(identity.text + strlen("cert:"), name) != 0 ||
	    strcmp(roles_name(roles, &identity), identity.text) != 0)
		abort();
}

static void take_certificate(const uint8_t *der, size_t bytes)
{
	char name[IDENTITY_NAME_BYTES];
	struct error error = {0};

	if (transport_tls_name_of(der, bytes, name, &error) == 0) {
		check_name(name);
		judge(name);
	} else if (!error.code[0] || !error.what[0] || !error.hint[0]) {
		abort();
	}
}

static void take_tokens(const char *text, size_t bytes)
{
	struct client_identity identity;
	struct error error = {0};
	struct tokens *tokens;

	if (tokens_parse(text, bytes, "fuzz", &tokens, &error) != 0) {
		if (!error.code[0] || !error.what[0])
			abort();
		return;
	}
	/* The file has digests: of this text there is none, but for a broken SHA-256. */
	if (tokens_find(tokens, "rt_guess", &identity) == 0)
		check_name(strchr(identity.text, ':') + 1);
	tokens_destroy(tokens);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text;

	if (size < 1)
		return 0;
	if (data[0] & 1) {
		take_certificate(data + 1, size - 1);
		return 0;
	}
	/* Not terminated: of its own size, so that a sanitizer sees the end. */
	text = malloc(size);
	if (!text)
		abort();
	memcpy(text, data + 1, size - 1);
	take_tokens(text, size - 1);
	free(text);
	return 0;
}
