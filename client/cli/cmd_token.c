/*
 * cmd_token: makes a token. The secret goes to stdout, for a file of the client's; the line for the
 * daemon, which tells nothing of the secret, to stderr.
 */
#include <errno.h>
#include <stdio.h>

#include "client/cli/cmd.h"
#include "client/lib/failure.h"
#include "client/cli/token.h"

enum exit_code cmd_token(const struct settings *settings)
{
	char token[TOKEN_BYTES], line[TOKEN_LINE_BYTES];
	struct ringtail_error error;

	if (!settings->operand) {
		failure_set(&error, EINVAL, "no-name", "a token for whom?");
		failure_hint(&error, "as in tracectl token alice >alice.token");
		return cmd_usage(&error, "token");
	}
	if (token_make(settings->operand, token, line, &error))
		return cmd_usage(&error, "token");
	printf("%s\n", token);
	/* A token that nobody has needs no line. */
	if (cmd_printed(EXIT_GOOD) != EXIT_GOOD)
		return EXIT_FAILED;
	fprintf(stderr, "%s\n", line);
	return EXIT_GOOD;
}
