#include "client/cli/cursor_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "client/lib/limits.h"

#define FIRST_LINE "ringtail cursor 1\n"

static int bad_file(const char *path, struct ringtail_error *error)
{
	failure_set(error, EBADMSG, "bad-cursor-file", "%s is not what --cursor writes", path);
	failure_hint(error, "name another file, or remove this one to begin anew");
	return -EBADMSG;
}

static int bad_errno(const char *path, const char *what, int err, struct ringtail_error *error)
{
	return failure_set(error, err, "cursor-file", "cannot %s %s: %s", what, path, strerror(err));
}

int cursor_file_load(const char *path, char **cursor, uint64_t *output_bytes,
		     struct ringtail_error *error)
{
	FILE *file = fopen(path, "re");
	char *text, *at;
	size_t bytes;
	int end = 0;

	*cursor = NULL;
	*output_bytes = CURSOR_FILE_NO_OUTPUT;
	if (!file)
		return errno == ENOENT ? 0 : bad_errno(path, "read", errno, error);
	text = malloc(CURSOR_TEXT_BYTES_MAX + 256);
	at = malloc(CURSOR_TEXT_BYTES_MAX);
	bytes = text && at ? fread(text, 1, CURSOR_TEXT_BYTES_MAX + 255, file) : 0;
	fclose(file);
	if (!text || !at) {
		free(text);
		free(at);
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	text[bytes] = '\0';
	if (strlen(text) != bytes || sscanf(text, FIRST_LINE "at %65535s%n", at, &end) != 1 || !end || text[end] != '\n' ||
	    sscanf(text + end, "\noutput %lu", output_bytes) != 1 || text[bytes - 1] != '\n') {
		free(text);
		free(at);
		return bad_file(path, error);
	}
	free(text);
	*cursor = at;
	return 0;
}

/*
 * The new file, beside the old one. Somebody else may write in that directory: what already has the name
 * is not written to, nor followed if it is a link (O_EXCL). One that a crash left is removed; whoever makes
 * another meanwhile is not waited for.
 */
static FILE *open_new(const char *path)
{
	int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	int fd = open(path, flags, 0666);
	FILE *file;

	if (fd < 0 && errno == EEXIST && unlink(path) == 0)
		fd = open(path, flags, 0666);
	file = fd < 0 ? NULL : fdopen(fd, "w");
	if (!file && fd >= 0)
		close(fd);
	return file;
}

int cursor_file_save(const char *path, const char *cursor, uint64_t output_bytes,
		     struct ringtail_error *error)
{
	char *new_path;
	FILE *file;
	int err = 0;

	if (asprintf(&new_path, "%s.new", path) < 0)
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	file = open_new(new_path);
	if (!file) {
		err = bad_errno(new_path, "write", errno, error);
		free(new_path);
		return err;
	}
	fprintf(file, FIRST_LINE "at %s\noutput %lu\n", cursor, output_bytes);
	if (fflush(file) != 0 || ferror(file) || fsync(fileno(file)) != 0)
		err = errno ? errno : EIO;
	if (fclose(file) != 0 && !err)
		err = errno;
	if (!err && rename(new_path, path) != 0)
		err = errno;
	if (err) {
		unlink(new_path);
		err = bad_errno(path, "write", err, error);
	}
	free(new_path);
	return err;
}

uint64_t cursor_file_output(int fd)
{
	struct stat stat;

	return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) ? (uint64_t)stat.st_size :
							       CURSOR_FILE_NO_OUTPUT;
}

int cursor_file_cut(int fd, uint64_t output_bytes, struct ringtail_error *error)
{
	uint64_t now = cursor_file_output(fd);

	/* No file is as long as a place without an output says. */
	if (now == CURSOR_FILE_NO_OUTPUT || now <= output_bytes)
		return 0;
	if (ftruncate(fd, (off_t)output_bytes) != 0 || lseek(fd, 0, SEEK_END) < 0)
		return failure_set(error, errno, "cursor-file", "cannot cut the output: %s",
				   strerror(errno));
	return 0;
}
