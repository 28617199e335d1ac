/*
 * drain: one ring on its way through a worker: reader, bell, thread table, and a batcher for each
 * subscription. The worker's thread owns it.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_DRAIN_H
#define RINGTAIL_DAEMON_COLLECT_DRAIN_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/collect/batcher.h"
#include "daemon/ring/bell.h"
#include "query/error.h"
#include "daemon/base/limits.h"
#include "daemon/collect/meter.h"
#include "daemon/collect/redaction.h"
#include "daemon/ring/probe_table.h"
#include "daemon/ring/reader.h"
#include "daemon/source/source.h"
#include "daemon/ring/thread_table.h"

struct drain {
	uint32_t index;			/* of the ring among all */
	uint64_t ring_bytes;
	struct ring_reader *reader;
	struct bell bell;
	struct thread_table *threads;
	const struct probe_table *probes;
	struct batcher *batcher[SUBSCRIPTIONS_MAX]; /* the first `batchers` are taken, and */
	uint32_t subscription[SUBSCRIPTIONS_MAX];   /* whose they are */
	uint32_t batchers;
	uint32_t plain_batchers;	/* of these, those that are content with counts */
	uint64_t seq;			/* of the next attempt */
	uint64_t last_time_ns;
	uint64_t events, meta, bad;
	uint64_t named[RT_LOST_REASONS];	/* RT_PROBE_LOSS records */
	bool corrupt;
	uint64_t watched_pos;		/* where it stood at the last look, */
	uint64_t looked_ns;		/* which was then, */
	uint64_t still_ns;		/* and for how long it had not moved, with something to read */
	bool stuck;			/* for RING_STUCK_NS: reported, and others do not wait for it any more */
	uint32_t cached_tid, cached_thread;
	const struct redaction *redaction; /* borrowed; NULL: nothing is hidden */
	struct redaction_record redacted;
	struct meter *meter;		/* borrowed; NULL: nothing is metered */
	struct meter_ring metered;

	void *ring_map, *consumer_map;
	size_t ring_map_bytes;
};

int drain_init(struct drain *drain, uint32_t index, const struct ring_handle *source,
	       const struct probe_table *probes, struct error *error);
void drain_fini(struct drain *drain);

/* The subscription's batcher starts at the next attempt; the drain owns it. -ENOSPC. */
int drain_add(struct drain *drain, uint32_t subscription, struct batcher *batcher);

/* Flushes and destroys a subscription's batcher. */
void drain_remove(struct drain *drain, uint32_t subscription);

/* What is read from now on goes by these rules, and so does what is known of threads. */
void drain_set_redaction(struct drain *drain, const struct redaction *redaction);

/* Reads at most `records`; returns how many. Ring space is given back on the way. */
uint32_t drain_read(struct drain *drain, uint32_t records);

/*
 * Takes what the producer has counted instead of recording it, after the ring was read. until_ns: no writer of a record
 * that is older can still be on its way. Without a time to put the counts at, they wait for the next call. Returns how many
 * events of this run that were.
 */
uint64_t drain_take_counted(struct drain *drain, uint64_t until_ns);

/* Flushes every batcher; of questions, what is counted of a slice that may go on after until_ns stays. */
void drain_flush(struct drain *drain, uint64_t until_ns);

/*
 * Once a pass, after the ring was read: whether it stands still, behind a record that nobody finishes.
 * That it is stuck, and that it goes on, is logged once.
 */
void drain_watch(struct drain *drain, uint64_t now_ns);

/*
 * No event of this ring that is older will come; UINT64_MAX if none at all. until_ns: a time before the
 * ring was read, to which no writer can still be on its way. Of a ring that is stuck nothing is expected:
 * should it go on, its events come late, in their order.
 */
uint64_t drain_watermark(const struct drain *drain, uint64_t until_ns);

#endif
