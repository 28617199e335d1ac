/* audit: see audit.h. */
#include "daemon/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/clock.h"
#include "daemon/limits.h"

/* All that is written is UTF-8 already: only what JSON itself would misread is changed. */
static void put_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			fprintf(out, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			fprintf(out, "\\u%04x", c);
		else
			fputc(c, out);
	}
	fputc('"', out);
}

static void put_member(FILE *out, const char *name, const char *text)
{
	fprintf(out, ",\"%s\":", name);
	put_text(out, text);
}

static void put_list(FILE *out, const char *name, char *const *text, size_t n)
{
	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? "," : "", out);
		put_text(out, text[i]);
	}
	fputc(']', out);
}

char *audit_line(const struct audit_attempt *attempt)
{
	time_t seconds = (time_t)(attempt->realtime_ns / NS_PER_S);
	char stamp[32] = "", *line = NULL;
	struct tm tm;
	size_t bytes;
	FILE *out = open_memstream(&line, &bytes);

	if (!out)
		return NULL;
	if (gmtime_r(&seconds, &tm))
		strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(out, "{\"time\":\"%s.%06uZ\"", stamp,
		(unsigned)(attempt->realtime_ns % NS_PER_S / 1000));
	put_member(out, "who", attempt->who);
	put_member(out, "role", attempt->role);
	put_member(out, "peer", attempt->peer);
	put_member(out, "action", attempt->action);
	if (attempt->consumer) {
		put_member(out, "consumer", attempt->consumer);
	} else {
		put_list(out, "enable", attempt->enable, attempt->enables);
		put_list(out, "disable", attempt->disable, attempt->disables);
	}
	put_member(out, "outcome", attempt->outcome);
	fputs("}\n", out);
	if (ferror(out) | (fclose(out) != 0)) {
		free(line);
		return NULL;
	}
	return line;
}

/* ---- On the disk thread ------------------------------------------------------------------------ */

static void on_entry(void *context, const char *name, uint64_t bytes)
{
	if (strcmp(name, AUDIT_FILE) == 0)
		*(uint64_t *)context = bytes;
}

static int look(struct audit_file *file, struct disk *disk)
{
	int err = file->known ? 0 : disk->ops->list(disk, ".", on_entry, &file->bytes);

	file->known = !err;
	return err;
}

static int write_all(struct disk *disk, int handle, const char *bytes, size_t n)
{
	while (n) {
		ssize_t written = disk->ops->write(disk, handle, bytes, n);

		if (written <= 0)
			return written ? (int)written : -EIO;
		bytes += written;
		n -= (size_t)written;
	}
	return 0;
}

int audit_append(struct audit_file *file, struct disk *disk, const char *line)
{
	size_t bytes = strlen(line);
	int handle, err = look(file, disk);

	if (!err && file->bytes && file->bytes + bytes > AUDIT_BYTES_MAX) {
		err = disk->ops->rename(disk, AUDIT_FILE, AUDIT_FILE_OLD);
		if (err == -ENOENT)
			err = 0;	/* somebody else has moved it */
		if (!err)
			file->bytes = 0;
	}
	if (err)
		return err;
	handle = disk->ops->open(disk, AUDIT_FILE, O_WRONLY | O_CREAT | O_APPEND);
	if (handle < 0)
		return handle;
	/* Half a line that a failing disk left is not to swallow this one. */
	if (file->torn)
		err = write_all(disk, handle, "\n", 1);
	if (!err)
		err = write_all(disk, handle, line, bytes);
	file->torn = err != 0;
	if (!err)
		err = disk->ops->sync(disk, handle);
	if (!err && file->bytes == 0)
		err = disk->ops->sync_directory(disk, ".");
	file->bytes += bytes;
	disk->ops->close(disk, handle);
	return err;
}
