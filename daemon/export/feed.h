/*
 * export_feed: the main thread's half of exporting: takes the frames of a subscription, and
 * snapshots of metrics, for each destination, gives them to the export thread, and keeps the ledger:
 *
 *	events = accepted + filtered + lost + in flight
 *
 * Frames in the export thread's hands are bounded. Where the spool is behind it, what waits for a
 * back end is bounded too, by taking no more frames, and what a back end has accepted is
 * acknowledged; else the export thread gives up the oldest. Main thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_FEED_H
#define RINGTAIL_DAEMON_EXPORT_FEED_H

#include <event2/event.h>

#include "daemon/config/config.h"
#include "daemon/export/target.h"
#include "daemon/stream/fanout.h"
#include "daemon/metrics/metric.h"

struct export_feed;

struct export_feed_config {
	struct event_base *base;
	struct fanout *fanout;
	struct loader *loader;
	struct frame_codec *codec;
	struct fanout_epoch epoch;
	const struct config *config;		/* borrowed for the call */
	struct export_targets *targets;		/* borrowed for its life */
	bool spooled;				/* taps are durable consumers */
	/* What metrics are pushed; the reference goes to the caller. NULL: out of memory. */
	const struct metric_snapshot *(*snapshot)(void *context);
	void *context;
};

int export_feed_create(const struct export_feed_config *config, struct export_feed **feed,
		       struct error *error);

/* Before the fanout. What has not been sent is given up. NULL is safe. */
void export_feed_destroy(struct export_feed *feed);

/*
 * At the end, again and again: whether nothing is left that a back end would take now. From the first
 * time on nothing waits for more to go with it.
 */
bool export_feed_flush(struct export_feed *feed);

/* ---- How it stands --------------------------------------------------------------------------- */

struct export_feed_stat {
	const char *name, *state, *error;	/* borrowed until the next turn of the loop */
	const char *consumer;			/* whose is what the spool keeps for it; or NULL */
	uint64_t accepted_realtime_ns, error_realtime_ns;	/* the last time; 0: never */
	uint64_t events, accepted, filtered, in_flight;
	uint64_t lost[LOSS_STAGES][LOSS_REASONS];
	uint64_t gaps;			/* of which nobody knows the size */
	uint64_t requests, retries, bytes;
	int64_t residual;
};

/* NULL has none. */
unsigned export_feed_count(const struct export_feed *feed);
void export_feed_stat(const struct export_feed *feed, unsigned target,
		      struct export_feed_stat *stat);

#endif
