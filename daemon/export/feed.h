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
#include "daemon/metrics/stat.h"

struct export_feed;

struct export_feed_config {
	struct event_base *base;
	struct fanout *fanout;
	struct loader *loader;
	struct frame_codec *codec;
	struct run run;
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

/* A program's probe has joined the catalog, which keeps it for the feed's life; no record of it can be written yet. */
void export_feed_take_late(struct export_feed *feed, const Ringtail__V1__Probe *probe);

/*
 * At the end, again and again: whether nothing is left that a back end would take now. From the first
 * time on nothing waits for more to go with it.
 */
bool export_feed_flush(struct export_feed *feed);

/* ---- How it stands --------------------------------------------------------------------------- */

/* NULL has none. */
unsigned export_feed_count(const struct export_feed *feed);
/* Of one destination, but what the spool keeps for it (spool_bytes). */
void export_feed_stat(const struct export_feed *feed, unsigned target, struct stat_export *stat);

#endif
