#include "daemon/access/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/json_text.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"

#define CUT_BYTES 64		/* of a text, as it is written, where it may be cut */

static void put_member(FILE *out, const char *name, const char *text, size_t max)
{
	fprintf(out, ",\"%s\":", name);
	json_put_text(out, text, max);
}

/* Whole where it was allowed; else the first few, and how many more there were. */
static void put_list(FILE *out, const char *name, char *const *text, size_t n, bool whole)
{
	size_t shown = whole || n < AUDIT_DENIED_SPECS_SHOWN ? n : AUDIT_DENIED_SPECS_SHOWN;

	fprintf(out, ",\"%s\":[", name);
	for (size_t i = 0; i < shown; i++) {
		fputs(i ? "," : "", out);
		json_put_text(out, text[i], whole ? SIZE_MAX : CUT_BYTES);
	}
	fputc(']', out);
	if (shown < n)
		fprintf(out, ",\"%s_more\":%zu", name, n - shown);
}

static void put_time(FILE *out, uint64_t realtime_ns)
{
	fputs("{\"time\":", out);
	json_put_time(out, realtime_ns);
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
	} else if (attempt->rule) {
		put_member(out, "rule", attempt->rule, max);
	} else if (attempt->dump) {
		put_member(out, "dump", attempt->dump, max);
	} else if (attempt->host) {
		if (*attempt->host)
			put_member(out, "host", attempt->host, max);
	} else {
		put_list(out, "enable", attempt->enable, attempt->enables, whole);
		put_list(out, "disable", attempt->disable, attempt->disables, whole);
		if (attempt->flags && *attempt->flags)
			put_member(out, "flags", attempt->flags, max);
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

/* ---- How often ------------------------------------------------------------------------------- */

#define THE_REST "others"	/* no identity is called so: they have a colon, or are `local` */

static bool is_over(const struct audit_rate *rate, const struct audit_talker *talker,
		    uint64_t now_ns)
{
	return now_ns >= talker->since_ns + rate->window_ns;
}

/* Its own count; or a free one, or of somebody who has nothing to tell any more; or everybody's. */
static struct audit_talker *find(struct audit_rate *rate, const char *who, uint64_t now_ns)
{
	struct audit_talker *unused = NULL, *rest = &rate->talker[AUDIT_TALKERS_MAX - 1];

	for (unsigned i = 0; i < AUDIT_TALKERS_MAX - 1; i++) {
		struct audit_talker *talker = &rate->talker[i];

		if (strcmp(talker->who, who) == 0)
			return talker;
		if (!unused &&
		    (!talker->who[0] || (is_over(rate, talker, now_ns) && !talker->more)))
			unused = talker;
	}
	if (unused)
		*unused = (struct audit_talker){.since_ns = now_ns};
	else
		who = THE_REST;
	snprintf((unused ? unused : rest)->who, IDENTITY_TEXT_BYTES, "%s", who);
	return unused ? unused : rest;
}

bool audit_rate_take(struct audit_rate *rate, const char *who, uint64_t now_ns)
{
	struct audit_talker *talker = find(rate, who, now_ns);

	/* What it kept to itself has still to be told: it is asked for with the next window's. */
	if (is_over(rate, talker, now_ns)) {
		talker->since_ns = now_ns;
		talker->said = 0;
	}
	if (talker->said < rate->max) {
		talker->said++;
		return true;
	}
	talker->more++;
	return false;
}

const char *audit_rate_next(struct audit_rate *rate, uint64_t now_ns, uint64_t *more)
{
	for (unsigned i = 0; i < AUDIT_TALKERS_MAX; i++) {
		struct audit_talker *talker = &rate->talker[i];

		if (!talker->more || (now_ns != UINT64_MAX && !is_over(rate, talker, now_ns)))
			continue;
		*more = talker->more;
		talker->more = 0;
		return talker->who;
	}
	return NULL;
}

uint64_t audit_rate_due(const struct audit_rate *rate)
{
	uint64_t due = 0;

	for (unsigned i = 0; i < AUDIT_TALKERS_MAX; i++) {
		const struct audit_talker *talker = &rate->talker[i];
		uint64_t end = talker->since_ns + rate->window_ns;

		if (talker->more && (!due || end < due))
			due = end;
	}
	return due;
}

/* ---- What is denied --------------------------------------------------------------------------- */

/* A line that no change waits for. */
struct note {
	struct disk_job job;
	struct audit_file *file;
	char *text;
	int disk_error;
};

struct audit_denials {
	struct disk_thread *disk_thread;	/* NULL: nothing can be kept */
	struct audit_file file;			/* the disk thread's */
	struct audit_rate rate;			/* which are written */
	struct event *tell;			/* how many were not, once that time is over */
};

/* On the disk thread. */
static void write_note(struct disk_job *job, struct disk *disk)
{
	struct note *note = (struct note *)job;

	note->disk_error = audit_append(note->file, disk, note->text);
}

static void note_done(struct disk_job *job)
{
	struct note *note = (struct note *)job;

	if (note->disk_error)
		log_error("audit-failed", "%s cannot be written: %s", AUDIT_DENIED_FILE,
			  strerror(-note->disk_error));
	free(note->text);
	free(note);
}

/* The journal has it in any case. */
static void tell(struct audit_denials *denials, const char *who, uint64_t more)
{
	struct note *note = calloc(1, sizeof(*note));

	log_info("audit-denied", "%llu more attempts of %s were denied", (unsigned long long)more, who);
	if (note)
		note->text = audit_line_of_more(clock_read(CLOCK_REALTIME), who, more);
	if (!note || !note->text || !denials->disk_thread) {
		if (note)
			free(note->text);
		free(note);
		return;
	}
	note->job.run = write_note;
	note->job.done = note_done;
	note->file = &denials->file;
	disk_thread_submit(denials->disk_thread, &note->job);
}

static void tell_until(struct audit_denials *denials, uint64_t now_ns)
{
	const char *who;
	uint64_t more;

	while ((who = audit_rate_next(&denials->rate, now_ns, &more)) != NULL)
		tell(denials, who, more);
}

static void arm(struct audit_denials *denials)
{
	uint64_t now = clock_monotonic(), due = audit_rate_due(&denials->rate);
	uint64_t ns = due > now ? due - now : 0;
	struct timeval in = {.tv_sec = (time_t)(ns / NS_PER_S),
			     .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000 + 1)};

	if (due)
		event_add(denials->tell, &in);
}

static void on_tell(evutil_socket_t fd, short what, void *context)
{
	struct audit_denials *denials = context;

	(void)fd, (void)what;
	tell_until(denials, clock_monotonic());
	arm(denials);
}

bool audit_denials_take(struct audit_denials *denials, const char *who)
{
	if (audit_rate_take(&denials->rate, who, clock_monotonic()))
		return true;
	if (!event_pending(denials->tell, EV_TIMEOUT, NULL))
		arm(denials);
	return false;
}

struct audit_file *audit_denials_file(struct audit_denials *denials)
{
	return &denials->file;
}

void audit_denials_settle(struct audit_denials *denials)
{
	tell_until(denials, UINT64_MAX);
}

struct audit_denials *audit_denials_create(struct event_base *base, struct disk_thread *disk_thread)
{
	struct audit_denials *denials = calloc(1, sizeof(*denials));

	if (!denials)
		return NULL;
	*denials = (struct audit_denials){
		.disk_thread = disk_thread,
		.file = {.name = AUDIT_DENIED_FILE, .name_old = AUDIT_DENIED_FILE_OLD},
		.rate = {.max = AUDIT_DENIED_MAX, .window_ns = AUDIT_DENIED_NS},
		.tell = event_new(base, -1, 0, on_tell, denials),
	};
	if (denials->tell)
		return denials;
	free(denials);
	return NULL;
}

void audit_denials_destroy(struct audit_denials *denials)
{
	if (!denials)
		return;
	event_free(denials->tell);
	free(denials);
}
