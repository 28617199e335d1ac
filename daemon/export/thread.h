/*
 * export_thread: everything about back ends happens here, and nothing else: one thread with its own
 * loop, less urgent than all others, that the main thread gives frames and hears reports from. A back
 * end that is slow or away costs its own queue, and nobody else anything.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_THREAD_H
#define RINGTAIL_DAEMON_EXPORT_THREAD_H

#include "query/error.h"
#include "daemon/export/sender.h"
#include "daemon/export/target.h"
#include "daemon/base/mailbox.h"

struct export_thread;

struct export_thread_config {
	const struct export_host *host;		/* all borrowed for its life */
	const struct export_targets *targets;
	const char *ca_file;			/* NULL: the system's */
	uint64_t queue_bytes_max, timeout_ns, events_per_s;
	bool spooled;
	struct mailbox *reports;		/* of struct export_report, which the receiver frees */
};

/* How a destination stands. */
struct export_report {
	struct mail mail;
	unsigned target;
	struct export_counts counts;
};

int export_thread_start(const struct export_thread_config *config, struct export_thread **thread,
			struct error *error);

/* What has not been sent is given up. NULL is safe. */
void export_thread_stop(struct export_thread *thread);

/*
 * A frame, borrowed until a report says that it is decoded. Serials grow by one from 1. -ENOMEM: it
 * was not given.
 */
int export_thread_give(struct export_thread *thread, unsigned target, uint64_t serial,
		       const uint8_t *frame, size_t bytes, uint64_t events);

/* The reference goes over, unless -ENOMEM. */
int export_thread_give_metrics(struct export_thread *thread, unsigned target,
			       const struct metric_snapshot *snapshot);

/* A probe of this run, for the frames that are given from now on. -ENOMEM: their events of it are lost, counted. */
int export_thread_take_late(struct export_thread *thread, const Ringtail__V1__Probe *probe);

/* Nothing more will be given: what there is goes out without waiting for more. -ENOMEM. */
int export_thread_flush(struct export_thread *thread);

#endif
