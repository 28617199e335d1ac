#include "client/lib/trust.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/failure.h"

static struct ringtail_trust given;

void ringtail_set_trust(const struct ringtail_trust *trust)
{
	given = trust ? *trust : (struct ringtail_trust){ 0 };
}

static const char *or_environment(const char *value, const char *name)
{
	const char *from = value ? value : getenv(name);

	return from && *from ? from : NULL;
}

void trust_get(struct ringtail_trust *trust)
{
	*trust = (struct ringtail_trust){
		.ca = or_environment(given.ca, "RINGTAIL_CA"),
		.cert = or_environment(given.cert, "RINGTAIL_CERT"),
		.key = or_environment(given.key, "RINGTAIL_KEY"),
		.token_file = or_environment(given.token_file, "RINGTAIL_TOKEN_FILE"),
		.server_name = or_environment(given.server_name, "RINGTAIL_SERVER_NAME"),
		.insecure = given.insecure,
	};
}

int trust_open_secret(const char *path, const char *what, int *fd, struct ringtail_error *error)
{
	struct stat stat;
	int err;

	*fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (*fd < 0)
		return failure_set(error, errno, "no-secret", "cannot open the %s file %s: %s", what,
				   path, strerror(errno));
	if (fstat(*fd, &stat) == 0 && S_ISREG(stat.st_mode) && !(stat.st_mode & (S_IRWXG | S_IRWXO)))
		return 0;
	close(*fd);
	err = failure_set(error, EACCES, "open-secret",
			  "the %s file %s is no file, or its group or others may read it", what, path);
	failure_hint(error, "chmod 0600; if somebody may have read it, make a new one");
	return err;
}

int trust_read_token(const struct ringtail_trust *trust, char token[TRUST_TOKEN_BYTES_MAX],
		     struct ringtail_error *error)
{
	ssize_t got;
	size_t bytes;
	int fd, err;

	token[0] = '\0';
	if (!trust->token_file)
		return 0;
	err = trust_open_secret(trust->token_file, "token", &fd, error);
	if (err)
		return err;
	got = read(fd, token, TRUST_TOKEN_BYTES_MAX - 1);
	close(fd);
	token[got < 0 ? 0 : got] = '\0';
	if (got > 0 && strlen(token) < (size_t)got) {	/* else the token would end there */
		explicit_bzero(token, TRUST_TOKEN_BYTES_MAX);
		return failure_set(error, EINVAL, "bad-token-file", "%s has a NUL in it: it is no text",
				   trust->token_file);
	}
	bytes = strcspn(token, "\r\n");
	token[bytes] = '\0';
	if (bytes > 0 && bytes < TRUST_TOKEN_BYTES_MAX - 1)
		return 0;
	err = failure_set(error, EINVAL, "bad-token-file", "%s holds no token in its first line",
			  trust->token_file);
	failure_hint(error, "`tracectl token NAME` makes one");
	return err;
}
