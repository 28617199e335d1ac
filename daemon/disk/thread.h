/*
 * disk_thread: the one thread that may wait for the disk. In: jobs, from the main thread. Out: each
 * job's run() on the thread, in the order in which they were given, then its done() on the main
 * loop, in the same order.
 *
 * Whoever has something to keep (the spool, the audit log, consumers) has jobs of its own: a job is
 * the first member of a larger struct, and is its owner's again when done() is called.
 */
#ifndef RINGTAIL_DAEMON_DISK_THREAD_H
#define RINGTAIL_DAEMON_DISK_THREAD_H

#include <event2/event.h>
#include <stdbool.h>

#include "daemon/disk/disk.h"
#include "query/error.h"
#include "daemon/base/mailbox.h"

struct disk_job {
	struct mail mail;		/* the thread's */
	void (*run)(struct disk_job *job, struct disk *disk);	/* blocking calls belong here */
	void (*done)(struct disk_job *job);	/* may free it, may give others */
};

struct disk_thread;

/*
 * The disk is copied and stays the caller's to close, after destroy. Not threaded: jobs run on the
 * loop itself, one wakeup after they were given, for a simulation.
 */
int disk_thread_create(struct event_base *base, const struct disk *disk, bool threaded,
		       struct disk_thread **thread, struct error *error);

/* Waits until every job is run and done, also those that done() gave. NULL is safe. */
void disk_thread_destroy(struct disk_thread *thread);

/* Main thread. The job is the thread's until done(). */
void disk_thread_submit(struct disk_thread *thread, struct disk_job *job);

/* What jobs are run with. Blocking: for them alone. */
struct disk *disk_thread_disk(struct disk_thread *thread);

/* Waits until every job is run and done. For an orderly stop: it blocks. */
void disk_thread_settle(struct disk_thread *thread);

#endif
