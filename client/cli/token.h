/*
 * token: a secret for a client, and its line in the daemon's tokens file.
 */
#ifndef RINGTAIL_CLIENT_CLI_TOKEN_H
#define RINGTAIL_CLIENT_CLI_TOKEN_H

#include "client/lib/ringtail.h"

#define TOKEN_BYTES 48		/* "rt_" and 43 letters, with its end */
#define TOKEN_LINE_BYTES 160
#define TOKEN_NAME_BYTES_MAX 63

/* A new one of 256 random bits, and NAME:sha256:HEX. -EINVAL with *error: that is no name. */
int token_make(const char *name, char token[TOKEN_BYTES], char line[TOKEN_LINE_BYTES],
	       struct ringtail_error *error);

#endif
