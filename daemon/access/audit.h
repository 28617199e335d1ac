/*
 * audit: who tried to change what: a line of JSON for each attempt in the state directory, on disk
 * before anything else happens. What is allowed goes to audit.log; what is denied to audit-denied.log,
 * cut short and at a bounded rate (audit_rate), so that nobody who may change nothing can push what
 * others did out of the log. Main thread; the writing is done on the disk thread.
 *
 *	{"time":"2026-11-20T19:20:00.123456Z","who":"user:root","role":"operator",
 *	 "peer":"unix pid 7 uid 0","action":"change","enable":["syscall:open*"],"disable":[],
 *	 "outcome":"allowed"}
 *	{"time":"2026-11-20T19:21:00.123456Z","who":"user:eve","denied_more":370}
 *
 * The files are opened for each line, so that others may rotate them; the daemon does beyond
 * AUDIT_BYTES_MAX.
 */
#ifndef RINGTAIL_DAEMON_ACCESS_AUDIT_H
#define RINGTAIL_DAEMON_ACCESS_AUDIT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "daemon/disk/thread.h"
#include "daemon/host/identity.h"

#define AUDIT_FILE "audit.log"
#define AUDIT_FILE_OLD "audit.log.1"
#define AUDIT_DENIED_FILE "audit-denied.log"
#define AUDIT_DENIED_FILE_OLD "audit-denied.log.1"
#define AUDIT_DENIED_BYTES_MAX 1024	/* of a line about what was denied */

struct audit_attempt {
	uint64_t realtime_ns;
	const char *who, *role, *peer;
	const char *action;			/* "change", "register", "forget", "trigger", "delete-dump", "reach", "dial" */
	char *const *enable, *const *disable;
	size_t enables, disables;
	const char *flags;			/* with what is enabled; NULL or "": none */
	const char *consumer;			/* of register and forget; else NULL */
	const char *rule, *dump;		/* of trigger, and of delete-dump; else NULL */
	const char *host;			/* of reach; of dial, "": this host; else NULL */
	const char *outcome;			/* "allowed", or the code of the error */
};

/* Whether it was allowed, by its outcome. */
bool audit_allows(const struct audit_attempt *attempt);

/* The line, with its end; for free(). NULL: out of memory. */
char *audit_line(const struct audit_attempt *attempt);

/* The same for so many attempts of that client, denied and not written one by one. */
char *audit_line_of_more(uint64_t realtime_ns, const char *who, uint64_t more);

/* What the disk thread knows of a file; but for these names all zeros at first. */
struct audit_file {
	const char *name, *name_old;
	bool known, torn;
	uint64_t bytes;
};

/* On the disk thread: appends the line and syncs it. 0, or -errno: it may not be there whole. */
int audit_append(struct audit_file *file, struct disk *disk, const char *line);

/*
 * How many lines each identity may leave in an audit log in a window; the rest are counted. So many
 * identities have a count of their own; the others share one. Pure; main thread.
 */
struct audit_rate {
	unsigned max;			/* for each in a window */
	uint64_t window_ns;
	struct audit_talker {
		char who[IDENTITY_TEXT_BYTES];	/* "": free, and so is what follows */
		uint64_t since_ns;	/* the window's begin */
		unsigned said;
		uint64_t more;		/* beyond that */
	} talker[AUDIT_TALKERS_MAX];
};

/* Whether it may; else it is counted. */
bool audit_rate_take(struct audit_rate *rate, const char *who, uint64_t now_ns);

/*
 * Somebody whose window is over, and how many more there were, which it forgets; NULL: none. With
 * UINT64_MAX for now every window is over.
 */
const char *audit_rate_next(struct audit_rate *rate, uint64_t now_ns, uint64_t *more);

/* When the first window with something to tell is over; 0: none has. */
uint64_t audit_rate_due(const struct audit_rate *rate);

/*
 * Changes that are denied: the first few of each client in a window are a line each; how many more there were is
 * one line, when that window is over. Main thread; the lines are written on the disk thread.
 */
struct audit_denials;

/* disk_thread: NULL: the journal alone has them. NULL: out of memory. */
struct audit_denials *audit_denials_create(struct event_base *base, struct disk_thread *disk_thread);

/* After the disk thread. NULL is safe. */
void audit_denials_destroy(struct audit_denials *denials);

/* Whether this denial of `who` is to be written; else it is counted, and reported later. */
bool audit_denials_take(struct audit_denials *denials, const char *who);

/* Where it is written: on the disk thread alone. */
struct audit_file *audit_denials_file(struct audit_denials *denials);

/* Writes down what was only counted: before the disk thread ends. */
void audit_denials_settle(struct audit_denials *denials);

#endif
