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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/disk/disk.h"

#define AUDIT_FILE "audit.log"
#define AUDIT_FILE_OLD "audit.log.1"
#define AUDIT_DENIED_FILE "audit-denied.log"
#define AUDIT_DENIED_FILE_OLD "audit-denied.log.1"
#define AUDIT_DENIED_BYTES_MAX 1024	/* of a line about what was denied */

struct audit_attempt {
	uint64_t realtime_ns;
	const char *who, *role, *peer;
	const char *action;			/* "change", "register", "forget" */
	char *const *enable, *const *disable;
	size_t enables, disables;
	const char *consumer;			/* of register and forget; else NULL */
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

#endif
