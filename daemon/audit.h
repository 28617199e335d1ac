/*
 * audit: who tried to change what, allowed or not: a line of JSON for each attempt in audit.log of
 * the state directory, on disk before anything else happens. Main thread; the writing is done on the
 * disk thread.
 *
 *	{"time":"2026-11-20T19:20:00.123456Z","who":"user:root","role":"operator",
 *	 "peer":"unix pid 7 uid 0","action":"change","enable":["syscall:open*"],"disable":[],
 *	 "outcome":"allowed"}
 *
 * The file is opened for each line, so that others may rotate it; the daemon does beyond
 * AUDIT_BYTES_MAX.
 */
#ifndef RINGTAIL_DAEMON_AUDIT_H
#define RINGTAIL_DAEMON_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/disk.h"

#define AUDIT_FILE "audit.log"
#define AUDIT_FILE_OLD "audit.log.1"

struct audit_attempt {
	uint64_t realtime_ns;
	const char *who, *role, *peer;
	const char *action;			/* "change", "forget" */
	char *const *enable, *const *disable;
	size_t enables, disables;
	const char *consumer;			/* of forget; else NULL */
	const char *outcome;			/* "allowed", or the code of the error */
};

/* The line, with its end; for free(). NULL: out of memory. */
char *audit_line(const struct audit_attempt *attempt);

/* What the disk thread knows of the file; all zeros at first. */
struct audit_file {
	bool known, torn;
	uint64_t bytes;
};

/* On the disk thread: appends the line and syncs it. 0, or -errno: it may not be there whole. */
int audit_append(struct audit_file *file, struct disk *disk, const char *line);

#endif
