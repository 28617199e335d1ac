/*
 * changes_denied: what is told of changes that are denied: the first few of each client, a line each;
 * then how many more there were, in one line when its time is over. See changes.h.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/serve/changes_private.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"

/* A line that no change waits for. */
struct note {
	struct disk_job job;
	struct audit_file *file;
	char *text;
	int disk_error;
};

/* On the disk thread. */
static void run(struct disk_job *job, struct disk *disk)
{
	struct note *note = (struct note *)job;

	note->disk_error = audit_append(note->file, disk, note->text);
}

static void done(struct disk_job *job)
{
	struct note *note = (struct note *)job;

	if (note->disk_error)
		log_error("audit-failed", "%s cannot be written: %s", AUDIT_DENIED_FILE,
			  strerror(-note->disk_error));
	free(note->text);
	free(note);
}

/* The journal has it in any case. */
static void tell(struct changes *changes, const char *who, uint64_t more)
{
	struct note *note = calloc(1, sizeof(*note));

	log_info("audit-denied", "%llu more attempts of %s were denied", (unsigned long long)more, who);
	if (note)
		note->text = audit_line_of_more(clock_read(CLOCK_REALTIME), who, more);
	if (!note || !note->text || !changes->config.disk_thread) {
		if (note)
			free(note->text);
		free(note);
		return;
	}
	note->job.run = run;
	note->job.done = done;
	note->file = &changes->denied;
	disk_thread_submit(changes->config.disk_thread, &note->job);
}

static void tell_until(struct changes *changes, uint64_t now_ns)
{
	const char *who;
	uint64_t more;

	while ((who = audit_rate_next(&changes->denials, now_ns, &more)) != NULL)
		tell(changes, who, more);
}

static void arm(struct changes *changes)
{
	uint64_t now = clock_monotonic(), due = audit_rate_due(&changes->denials);
	uint64_t ns = due > now ? due - now : 0;
	struct timeval in = {.tv_sec = (time_t)(ns / NS_PER_S),
			     .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000 + 1)};

	if (due)
		event_add(changes->tell, &in);
}

static void on_tell(evutil_socket_t fd, short what, void *context)
{
	struct changes *changes = context;

	(void)fd, (void)what;
	tell_until(changes, clock_monotonic());
	arm(changes);
}

bool changes_denied_tell(struct changes *changes, const char *who)
{
	if (audit_rate_take(&changes->denials, who, clock_monotonic()))
		return true;
	if (!event_pending(changes->tell, EV_TIMEOUT, NULL))
		arm(changes);
	return false;
}

void changes_settle(struct changes *changes)
{
	if (changes)
		tell_until(changes, UINT64_MAX);
}

int changes_denied_init(struct changes *changes)
{
	changes->denied = (struct audit_file){.name = AUDIT_DENIED_FILE,
					      .name_old = AUDIT_DENIED_FILE_OLD};
	changes->denials = (struct audit_rate){.max = AUDIT_DENIED_MAX,
					       .window_ns = AUDIT_DENIED_NS};
	changes->tell = event_new(changes->config.base, -1, 0, on_tell, changes);
	return changes->tell ? 0 : -1;
}

void changes_denied_fini(struct changes *changes)
{
	if (changes->tell)
		event_free(changes->tell);
}
