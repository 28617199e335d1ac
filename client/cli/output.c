#include "client/cli/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/failure.h"

int output_open(const char *path, const char *not_text, const char *hint, struct ringtail_error *error)
{
	int fd = STDOUT_FILENO;

	if (path)
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
	if (fd < 0)
		return failure_set(error, errno, "cannot-write", "cannot write %s: %s", path,
				   strerror(errno));
	if (not_text && isatty(fd)) {
		if (path)
			close(fd);
		failure_set(error, EINVAL, "terminal", "%s, and %s is a terminal", not_text,
			    path ? path : "stdout");
		failure_hint(error, "%s", hint);
		return -EINVAL;
	}
	return fd;
}

int output_empty(int fd)
{
	return ftruncate(fd, 0) && errno != EINVAL && errno != EROFS ? errno : 0;
}

char *output_temporary(const char *path, struct ringtail_error *error)
{
	char *name;
	int fd;

	if (asprintf(&name, "%s.XXXXXX", path) < 0) {
		failure_set(error, ENOMEM, "no-memory", "out of memory");
		return NULL;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd >= 0) {
		close(fd);
		return name;
	}
	failure_set(error, errno, "cannot-write", "cannot write beside %s: %s", path, strerror(errno));
	free(name);
	return NULL;
}
