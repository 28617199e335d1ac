/*
 * sink: where a relay forwards what agents send. In: frames of hosts, in the order in which each host sent
 * them. Out: for each frame, once, whether it is stored. The relay acknowledges a frame to its agent only
 * when the sink has confirmed it, so an agent keeps in its spool whatever is not stored here. Main thread.
 *
 *	disk_sink.h	segments in state-dir/hosts/HOST, synced
 *	courier_sink.h	one courier, which carries them to Kafka
 *
 * A stream of a host is an opening (ServerHello, Catalog, Subscribed), then Batch, Gap, Watermark and Bye. A
 * new opening begins when the agent reconnects, and where another run of the rings begins. The frames are
 * the wire's bytes (frame->data, frame->bytes); the relay has checked them.
 */
#ifndef RINGTAIL_DAEMON_RELAY_SINK_H
#define RINGTAIL_DAEMON_RELAY_SINK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/base/frame_ref.h"
#include "daemon/metrics/stat.h"
#include "proto/cursor.h"

struct relay_sink;

/* How a stream begins: kept by all items of it, so that a sink can write it again before any of them. */
struct relay_opening {
	uint32_t refs;
	uint32_t items;				/* the relay's: of it, on their way to the sink */
	struct run run;
	struct frame_ref *hello, *catalog, *subscribed;
	struct cursor *start;			/* of `subscribed`: where each CPU's numbers begin */
};

/* Other holders are no concern of these. put: NULL is safe. */
struct relay_opening *relay_opening_get(struct relay_opening *opening);
void relay_opening_put(struct relay_opening *opening);

struct relay_item {
	STAILQ_ENTRY(relay_item) link;		/* the sink's, until it has confirmed the item */
	const char *host;			/* the certificate's name; borrowed until then */
	struct relay_opening *opening;		/* has the run */
	uint64_t generation;			/* the relay's: of its host, when it was forwarded */

	/*
	 * frame->type; of a Batch and of a Gap frame->cpu, first_seq and end_seq; of a Watermark
	 * frame->time_ns. The item holds a reference: a sink that needs the bytes longer takes its own.
	 */
	struct frame_ref *frame;
	const struct cursor *upto;		/* every attempt before is dealt with, once it is stored */

	/*
	 * Called once, from the loop and never from inside forward(). 0: it is stored, as durable as the sink
	 * promises. -errno: it is not stored, nor is what came behind it from the same host by then; the relay
	 * disconnects the host, which sends all that again. The items of one host are confirmed in the order of
	 * forward(). The item is the relay's again.
	 */
	void (*confirmed)(struct relay_item *item, int err);
};

STAILQ_HEAD(relay_items, relay_item);

struct relay_sink_ops {
	/* Takes the item over; confirmed() follows. The relay bounds how many bytes are under way, for each
	 * host and in all, so there is nothing to refuse here. */
	void (*forward)(struct relay_sink *sink, struct relay_item *item);

	/* Confirms what is under way, as far as that is possible within RELAY_END_NS, and refuses the rest with
	 * -ECANCELED. Nothing is confirmed after it returns. */
	void (*destroy)(struct relay_sink *sink);

	/* What became of that host's items here; NULL: of all hosts'. NULL: it knows nothing that the relay does not. */
	void (*stat)(struct relay_sink *sink, const char *host, struct stat_sink *stat);

	/* Whether a courier carries its items to Kafka, and is there. NULL: none does. */
	bool (*has_courier)(const struct relay_sink *sink);
};

struct relay_sink {
	const struct relay_sink_ops *ops;

	/* The relay's: it has something of a host that was here before the relay started. NULL: nobody wants to know. */
	void (*found)(void *context, const char *host);
	void *context;
};

static inline void relay_sink_forward(struct relay_sink *sink, struct relay_item *item)
{
	sink->ops->forward(sink, item);
}

/* NULL is safe: zeros. */
static inline void relay_sink_stat(struct relay_sink *sink, const char *host, struct stat_sink *stat)
{
	*stat = (struct stat_sink){0};
	if (sink && sink->ops->stat)
		sink->ops->stat(sink, host, stat);
}

/* NULL is safe. */
static inline void relay_sink_destroy(struct relay_sink *sink)
{
	if (sink)
		sink->ops->destroy(sink);
}

#endif
