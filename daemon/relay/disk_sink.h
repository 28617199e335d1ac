/*
 * disk_sink: what hosts send, as segments on this relay's own disk, synced.
 *
 *	state-dir/hosts/HOST/0000000000000001.seg ... 0000000000000007.open
 *
 * In: items, from the main thread. Out: the same items, confirmed on the main thread when the disk thread has
 * written and synced their bytes. A directory has the form of a spool's (docs/spool.md), so `tracectl read DIR`
 * reads it. All hosts that have something are written together, at most once in RELAY_STORE_NS.
 *
 * A file that failed once, to write or to sync, is never written again: its host's items are refused, so the
 * host sends them once more, into a new segment.
 */
#ifndef RINGTAIL_DAEMON_RELAY_DISK_SINK_H
#define RINGTAIL_DAEMON_RELAY_DISK_SINK_H

#include <event2/event.h>
#include <stdint.h>

#include "daemon/disk/thread.h"
#include "daemon/relay/sink.h"
#include "query/error.h"

struct disk_sink_config {
	struct event_base *base;
	struct disk_thread *thread;	/* of the state directory; borrowed */
	uint64_t host_bytes, hosts_bytes;	/* of one host, of all */
	uint64_t segment_bytes;
};

struct disk_sink_stat {
	uint64_t hosts, segments, bytes;
};

/* 0, -ENOMEM. relay_sink_destroy() frees it. */
int disk_sink_create(const struct disk_sink_config *config, struct relay_sink **sink,
		     struct error *error);

/* What is on disk, as the last time that something was stored left it. */
void disk_sink_stat(const struct relay_sink *sink, struct disk_sink_stat *stat);

#endif
