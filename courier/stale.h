/*
 * stale: records of PREFIX.runs that no frame of PREFIX.frames names any more. Compaction keeps the newest record of each
 * key for ever, and each run of a host has keys of its own; retention deletes the run's frames. In: both topics. Out: how
 * many such records there are; if that is wanted, a tombstone for each. Main thread.
 *
 *	records = named + recent + stale
 *
 * A courier sends a run's record before the first frame of it, and with a frame of it if the last time was
 * ANNOUNCE_INTERVAL_MS ago. So a recent record may be about frames that come only now: it is never stale.
 */
#ifndef RINGTAIL_COURIER_STALE_H
#define RINGTAIL_COURIER_STALE_H

#include <signal.h>

#include "courier/kafka.h"

struct stale_wanted {
	const char *const *host;	/* globs; */
	size_t hosts;			/* 0: all */
	int64_t now_ms;			/* since 1970 */
	uint64_t patience_ms;		/* with a partition of which nothing comes, before its end */
	bool deletes;
};

struct stale_ledger {
	uint64_t records, named, recent, stale;
	uint64_t deleted;		/* of the stale ones */
};

/*
 * Reads both topics to their ends. -errno with *error: if not all of them could be read, or *stop is set meanwhile, nothing
 * was deleted; else the ledger has how many were.
 */
int stale_run(const struct kafka_settings *settings, const struct stale_wanted *wanted, const volatile sig_atomic_t *stop,
	      struct stale_ledger *ledger, struct ringtail_error *error);

#endif
