/*
 * stat: how the daemon stands at one moment: the ledgers of rings, clients, spools, back ends and a
 * relay's hosts, and what a crash would cost. In: every room's own account, gathered by whoever wires them (serve/answers.h). Out:
 * one plain struct for /metrics, the status page and `tracectl stat`, so that all say the same; it becomes
 * a message only where it leaves (serve/answers.h). Main thread.
 *
 * What it points at is borrowed until control returns to the loop.
 */
#ifndef RINGTAIL_DAEMON_METRICS_STAT_H
#define RINGTAIL_DAEMON_METRICS_STAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/frame_ref.h"
#include "daemon/collect/worker.h"
#include "daemon/spool/spool.h"
#include "daemon/stream/fanout.h"
#include "daemon/stream/stream.h"

/* Counts by stage and reason: of the stages from `stage` on, one row each. */
struct stat_losses {
	const uint64_t (*count)[LOSS_REASONS];
	unsigned stage, stages;
};

/* The next loss at or after place *at (0: the first) that is not 0. False: there is none. */
bool stat_losses_next(const struct stat_losses *losses, unsigned *at, struct loss_count *loss);

#define STAT_RING_STAGES 2	/* ring and decode */

struct stat_ring {
	const char *name;		/* its CPU's number, as text: */
	char name_text[12];
	uint32_t cpu;
	struct worker_ring_stat now;
	uint64_t lost_by[STAT_RING_STAGES][LOSS_REASONS];
	struct stat_losses lost;
	int64_t residual;
};

struct stat_client {
	uint64_t id;
	const char *peer, *software, *identity;
	uint64_t wire_bytes, frames;

	/* Of its subscription: 0 and empty without one. */
	char *const *probe;
	size_t probes;
	const char *filter;
	struct stream_stat now;
	uint64_t delivered, filtered;
	struct stat_losses lost;
};

struct stat_spool {
	const char *name;
	struct spool_stat now;
	struct stat_losses lost;
	int64_t residual;
};

struct stat_export {
	const char *name, *state, *error;
	const char *consumer;			/* whose is what the spool keeps for it; or NULL */
	uint64_t accepted_realtime_ns, error_realtime_ns;	/* the last time; 0: never */
	uint64_t events, accepted, filtered, in_flight;
	uint64_t lost_by[LOSS_STAGES][LOSS_REASONS];
	struct stat_losses lost;
	uint64_t gaps;				/* of which nobody knows the size */
	uint64_t requests, retries, bytes;
	uint64_t spool_bytes;			/* on disk, not yet accepted */
	int64_t residual;
};

struct stat_trigger {
	const char *name, *rule, *state, *why;
	uint64_t matches, fired, suppressed;
	uint64_t fired_realtime_ns;		/* the last time; 0: never */

	/* Of its stream: 0 where it has none yet. */
	struct stream_stat now;
	uint64_t filtered;
	struct stat_losses lost;
	int64_t residual;
};

/* Where a relay's frames go: of one host, or of all. */
struct stat_sink {
	uint64_t kept_bytes, kept_segments;	/* on disk */

	/* To a courier, in frames: consigned = confirmed + rejected + returned + in_flight + residual. */
	uint64_t consigned, confirmed, rejected, returned, in_flight;
	int64_t residual;
};

/* What a host said of the spool that it keeps for its relay: produced = stored + lost + in_flight + residual. */
struct stat_told {
	uint64_t realtime_ns;			/* when; 0: never */
	uint64_t produced, stored, lost, in_flight;	/* attempts, since its daemon started */
	uint64_t behind_bytes;			/* not acknowledged */
	int64_t residual;

	/* Of its relay's consumer, since that was registered: kept = acked + gone + waiting + relay_residual. */
	uint64_t kept, acked, gone, waiting;
	int64_t relay_residual;
};

/* One host of a relay, or all: received = forwarded + duplicate + refused + held + residual, in frames. */
struct stat_host {
	const char *name, *software, *peer;
	bool connected;
	bool metered;				/* it has series of its own */
	struct run run;				/* of its last frames; nameless: none came */
	uint64_t since_realtime_ns;		/* connected or not; 0: not since the relay started */
	uint64_t heard_realtime_ns;		/* 0: never */
	uint64_t received, forwarded, duplicate, refused, held;
	int64_t residual;
	uint64_t events, forwarded_bytes;	/* of what was forwarded */
	struct stat_losses lost;		/* that this stream reported, in attempts */
	uint64_t gaps;				/* and of unknown size */
	uint64_t held_bytes;
	struct stat_sink sink;
	struct stat_told told;			/* of all: sums, of residuals without their signs */
};

struct stat_relay {
	unsigned hosts, connected;
	unsigned told;				/* of these hosts, have told of their spools */
	uint64_t forgotten;			/* times that a host was given up for another */
	bool carries, courier;			/* to Kafka; a courier is connected */
	struct stat_host all;			/* sums; of residuals without their signs; silent longest */
};

struct daemon_stat {
	uint64_t monotonic_ns, uptime_ns;
	uint64_t recursion_lost;		/* programs that the kernel refused to nest */
	uint64_t maps_too_late, maps_left_out, stacks_cut;	/* as struct source_stats has them */
	unsigned redact_rules;			/* in force */
	uint64_t loss_window_ns;		/* what a crash costs at worst */
	const char *source, *durability;
	unsigned connected;			/* clients; `client` lists some of them */

	unsigned rings, clients, spools, consumers, exports, triggers;
	struct stat_ring *ring;
	struct stat_client *client;
	struct stat_spool *spool;
	struct consumer_stat *consumer;
	struct stat_export *export;
	struct stat_trigger *trigger;

	bool is_relay;
	struct stat_relay relay;
	unsigned hosts;				/* those that are metered */
	struct stat_host *host;
};

/* NULL is safe. */
void daemon_stat_free(struct daemon_stat *stat);

#endif
