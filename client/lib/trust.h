/*
 * trust: how this client verifies the daemon, and how it authenticates itself.
 *
 * ringtail_set_trust() sets it for connections made from then on; what it leaves out is taken from the
 * environment: RINGTAIL_CA, RINGTAIL_CERT, RINGTAIL_KEY, RINGTAIL_TOKEN_FILE, RINGTAIL_SERVER_NAME.
 */
#ifndef RINGTAIL_CLIENT_LIB_TRUST_H
#define RINGTAIL_CLIENT_LIB_TRUST_H

#include "client/lib/ringtail.h"

#define TRUST_TOKEN_BYTES_MAX 256

/* What holds now. The strings are borrowed from whoever set them, or from the environment. */
void trust_get(struct ringtail_trust *trust);

/* A file that nobody but us may read, open to be read; -EACCES with *error. `what`: "key". */
int trust_open_secret(const char *path, const char *what, int *fd, struct ringtail_error *error);

/* The first line of the token file; empty where there is none. */
int trust_read_token(const struct ringtail_trust *trust, char token[TRUST_TOKEN_BYTES_MAX],
		     struct ringtail_error *error);

#endif
