/*
 * denials: changes that are denied: the first few of each client are a line each in a log of their own;
 * how many more there were is one line, when that client's time is over. In: who was denied; out: lines
 * of audit-denied.log. Main thread; the lines are written on the disk thread.
 */
#ifndef RINGTAIL_DAEMON_SERVE_DENIALS_H
#define RINGTAIL_DAEMON_SERVE_DENIALS_H

#include <event2/event.h>
#include <stdbool.h>

#include "daemon/access/audit.h"
#include "daemon/disk/thread.h"

struct denials;

/* disk_thread: NULL: the journal alone has them. NULL: out of memory. */
struct denials *denials_create(struct event_base *base, struct disk_thread *disk_thread);

/* After the disk thread. NULL is safe. */
void denials_destroy(struct denials *denials);

/* Whether this denial of `who` is to be written; else it is counted, and told of later. */
bool denials_take(struct denials *denials, const char *who);

/* Where it is written: on the disk thread alone. */
struct audit_file *denials_file(struct denials *denials);

/* What was only counted is written down: before the disk thread ends. */
void denials_settle(struct denials *denials);

#endif
