#include "daemon/serve/denials.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/access/audit.h"
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

struct denials {
	struct disk_thread *disk_thread;	/* NULL: nothing can be kept */
	struct audit_file file;			/* the disk thread's */
	struct audit_rate rate;			/* which are written */
	struct event *tell;			/* how many were not, once that time is over */
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
static void tell(struct denials *denials, const char *who, uint64_t more)
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
	note->job.run = run;
	note->job.done = done;
	note->file = &denials->file;
	disk_thread_submit(denials->disk_thread, &note->job);
}

static void tell_until(struct denials *denials, uint64_t now_ns)
{
	const char *who;
	uint64_t more;

	while ((who = audit_rate_next(&denials->rate, now_ns, &more)) != NULL)
		tell(denials, who, more);
}

static void arm(struct denials *denials)
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
	struct denials *denials = context;

	(void)fd, (void)what;
	tell_until(denials, clock_monotonic());
	arm(denials);
}

bool denials_take(struct denials *denials, const char *who)
{
	if (audit_rate_take(&denials->rate, who, clock_monotonic()))
		return true;
	if (!event_pending(denials->tell, EV_TIMEOUT, NULL))
		arm(denials);
	return false;
}

struct audit_file *denials_file(struct denials *denials)
{
	return &denials->file;
}

void denials_settle(struct denials *denials)
{
	tell_until(denials, UINT64_MAX);
}

struct denials *denials_create(struct event_base *base, struct disk_thread *disk_thread)
{
	struct denials *denials = calloc(1, sizeof(*denials));

	if (!denials)
		return NULL;
	*denials = (struct denials){
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

void denials_destroy(struct denials *denials)
{
	if (!denials)
		return;
	event_free(denials->tell);
	free(denials);
}
