#include "daemon/access/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "query/visible.h"

#define CUT_BYTES 64		/* of a text, as it is written, where it may be cut */
#define CUT_MARK "..."

/* One piece of a text as JSON has it, which does nothing to whoever shows the line. Bytes written. */
static size_t put_piece(FILE *out, const char *at, size_t n, size_t *took)
{
	uint32_t code;

	if (visible_next(at, n, took, &code) != VISIBLE_SHOWN)
		return (size_t)fprintf(out, "\\u%04x", (unsigned)code);
	if (*at == '"' || *at == '\\')
		return (size_t)fprintf(out, "\\%c", *at);
	return fwrite(at, 1, *took, out);
}

/* At most `max` bytes come of it, and then the mark. */
static void put_text(FILE *out, const char *text, size_t max)
{
	size_t n = strlen(text), bytes = 0, took;

	fputc('"', out);
	for (; n; text += took, n -= took) {
		if (bytes + 6 > max) {
			fputs(CUT_MARK, out);
			break;
		}
		bytes += put_piece(out, text, n, &took);
	}
	fputc('"', out);
}

static void put_member(FILE *out, const char *name, const char *text, size_t max)
{
	fprintf(out, ",\"%s\":", name);
	put_text(out, text, max);
}

/* Whole where it was allowed; else the first few, and how many more there were. */
static void put_list(FILE *out, const char *name, char *const *text, size_t n, bool whole)
{
	size_t shown = whole || n < AUDIT_DENIED_SPECS_SHOWN ? n : AUDIT_DENIED_SPECS_SHOWN;

	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < shown; i++) {
		fputs(i ? "," : "", out);
		put_text(out, text[i], whole ? SIZE_MAX : CUT_BYTES);
	}
	fputc(']', out);
	if (shown < n)
		fprintf(out, ",\"%s_more\":%zu", name, n - shown);
}

static void put_time(FILE *out, uint64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / NS_PER_S);
	char stamp[32] = "";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &tm);
	fprintf(out, "{\"time\":\"%s.%06uZ\"", stamp, (unsigned)(realtime_ns % NS_PER_S / 1000));
}

/* Ends the line. NULL: out of memory. */
static char *finish(FILE *out, char **line)
{
	fputs("}\n", out);
	if (ferror(out) | (fclose(out) != 0)) {
		free(*line);
		return NULL;
	}
	return *line;
}

bool audit_allows(const struct audit_attempt *attempt)
{
	return strcmp(attempt->outcome, "allowed") == 0;
}

char *audit_line(const struct audit_attempt *attempt)
{
	bool whole = audit_allows(attempt);
	size_t max = whole ? SIZE_MAX : 2 * CUT_BYTES;
	char *line = NULL;
	size_t bytes;
	FILE *out = open_memstream(&line, &bytes);

	if (!out)
		return NULL;
	put_time(out, attempt->realtime_ns);
	put_member(out, "who", attempt->who, max);
	put_member(out, "role", attempt->role, max);
	put_member(out, "peer", attempt->peer, max);
	put_member(out, "action", attempt->action, max);
	if (attempt->consumer) {
		put_member(out, "consumer", attempt->consumer, max);
	} else {
		put_list(out, "enable", attempt->enable, attempt->enables, whole);
		put_list(out, "disable", attempt->disable, attempt->disables, whole);
	}
	put_member(out, "outcome", attempt->outcome, max);
	return finish(out, &line);
}

char *audit_line_of_more(uint64_t realtime_ns, const char *who, uint64_t more)
{
	char *line = NULL;
	size_t bytes;
	FILE *out = open_memstream(&line, &bytes);

	if (!out)
		return NULL;
	put_time(out, realtime_ns);
	put_member(out, "who", who, 2 * CUT_BYTES);
	fprintf(out, ",\"denied_more\":%llu", (unsigned long long)more);
	return finish(out, &line);
}

/* ---- On the disk thread ------------------------------------------------------------------------ */

static void on_entry(void *context, const char *name, uint64_t bytes)
{
	struct audit_file *file = context;

	if (strcmp(name, file->name) == 0)
		file->bytes = bytes;
}

static int look(struct audit_file *file, struct disk *disk)
{
	int err = file->known ? 0 : disk->ops->list(disk, ".", on_entry, file);

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
		err = disk->ops->rename(disk, file->name, file->name_old);
		if (err == -ENOENT)
			err = 0;	/* somebody else has moved it */
		if (!err)
			file->bytes = 0;
	}
	if (err)
		return err;
	handle = disk->ops->open(disk, file->name, O_WRONLY | O_CREAT | O_APPEND);
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
