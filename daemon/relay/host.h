/*
 * host: what a relay knows of one host: what of it has come, what is stored, and the ledger. In: its frames, in
 * order. Out: whether a frame is new. It outlives the host's connections, for what was forwarded and not yet
 * stored when a connection broke comes once more with the next one.
 *
 *	received = forwarded + duplicate + refused + held		in frames
 *
 * Main thread.
 */
#ifndef RINGTAIL_DAEMON_RELAY_HOST_H
#define RINGTAIL_DAEMON_RELAY_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/host/identity.h"
#include "daemon/metrics/stat.h"
#include "daemon/relay/sink.h"
#include "proto/cursor.h"
#include "proto/ringtail.pb-c.h"

struct relay_agent;

struct relay_host {
	LIST_ENTRY(relay_host) link;
	char name[IDENTITY_NAME_BYTES];
	struct relay_agent *agent;	/* its connection; NULL: it is away */

	struct cursor *taken;		/* what is before has come; NULL: not known yet */
	uint64_t taken_time_ns;		/* of its last watermark */
	struct cursor *stored;		/* what is before is stored; NULL: nothing is */

	uint64_t received, forwarded, duplicate, refused, held;	/* frames */
	uint64_t events, bytes, gaps;	/* in those that were forwarded; gaps of unknown size */
	uint64_t (*lost)[LOSS_REASONS];	/* losses that those report: LOSS_STAGES rows; NULL: none */
	uint64_t generation;		/* how often something of it could not be stored */
	uint64_t held_bytes;		/* of those, with what they hold */
	unsigned openings;		/* of those */
	uint64_t heard_realtime_ns;	/* 0: never */
	uint64_t since_realtime_ns;	/* its connection came, or ended; 0: there was none */
	char software[64];		/* of its last connection */
	struct run run;			/* of its last frames */
	struct stat_told told;		/* of its own spool */
	bool metered;			/* the relay's: it has series of its own */
};

/* Whether a certificate's name can be a host's: it is the name of a directory, and a key. */
bool relay_host_name_is_valid(const char *name);

/* NULL: out of memory. */
struct relay_host *relay_host_create(const char *name);
void relay_host_destroy(struct relay_host *host);

/*
 * A stream of it begins with that; before its first frame. `since`: the host says that this was acknowledged
 * before; NULL: it does not say. -ENOMEM.
 */
int relay_host_open(struct relay_host *host, const struct relay_opening *opening,
		    const struct cursor *since);

/* A frame of that opening came. 1: it is new; 0: a duplicate; -ENOMEM. */
int relay_host_take(struct relay_host *host, const struct frame_ref *frame,
		    const struct cursor *upto);

/* A new frame goes to the sink, and is back from there: so many bytes more, or less, are held. */
size_t relay_host_hold(struct relay_host *host, struct relay_item *item);
size_t relay_host_release(struct relay_host *host, struct relay_item *item);

/* So much of it is on its way to the sink that nothing more is to be read. */
bool relay_host_is_full(const struct relay_host *host);

/* It is stored, or in Kafka: adds its events and losses to the ledger. */
void relay_host_count(struct relay_host *host, const struct frame_ref *frame);

/* How it stands, but for what its sink knows. What that points at is borrowed from the host. */
void relay_host_stat(const struct relay_host *host, struct stat_host *stat);

/* It has told of its own spool: that it says nothing of is forgotten. */
void relay_host_tell(struct relay_host *host, const Ringtail__V1__Stat *message, uint64_t realtime_ns);

/* It is stored. -ENOMEM: that is forgotten, and comes once more. -ECANCELED: so does this, for what came before it
 * could not be stored, and an acknowledgement would speak of that as well. */
int relay_host_store(struct relay_host *host, const struct relay_item *item);

/* What came could not be stored: it comes once more, and is new then. */
void relay_host_fail(struct relay_host *host);

#endif
