/*
 * token: clients known by a secret. The file has lines NAME:sha256:HEX, the digest of the token's
 * text; the secret itself is nowhere on this host. A token has 256 random bits, so the digest needs
 * no salt and no slowness.
 */
#ifndef RINGTAIL_DAEMON_ACCESS_TOKEN_H
#define RINGTAIL_DAEMON_ACCESS_TOKEN_H

#include "query/error.h"
#include "daemon/host/identity.h"

struct tokens;

/*
 * Reads the file: it has to be ours or root's, and closed to others. 0, or -errno with *error.
 */
int tokens_load(const char *path, struct tokens **tokens, struct error *error);

/* The same from text, which errors call `name`. */
int tokens_parse(const char *text, size_t bytes, const char *name, struct tokens **tokens,
		 struct error *error);
void tokens_destroy(struct tokens *tokens);

/* Whose that is: sets *identity and returns 0, or -EACCES. Takes the same time for every token. */
int tokens_find(const struct tokens *tokens, const char *token, struct client_identity *identity);

/* Whether the token that this identity was proved by is still one of these. */
bool tokens_hold(const struct tokens *tokens, const struct client_identity *identity);

#endif
