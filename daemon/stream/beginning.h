/*
 * beginning: where a subscriber's stream begins: at a cursor, where its consumer was, at a time, or now; and
 * the stream that is made for that: out of the subscription's log, off the disk, or out of another
 * subscription's record, whichever has what was asked for. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_BEGINNING_H
#define RINGTAIL_DAEMON_STREAM_BEGINNING_H

#include <stdint.h>

#include "daemon/stream/subscription.h"
#include "daemon/stream/subscriptions.h"
#include "proto/cursor.h"
#include "query/error.h"

struct consumer;
struct past_turns;
struct stream;

struct beginning {
	enum beginning_from {
		BEGIN_NOW,
		BEGIN_AT_CURSOR,	/* of this run; of CPUs that it does not name, from now */
		BEGIN_IN_OTHER_RUN,	/* at a cursor of that */
		BEGIN_AT_TIME,		/* `realtime_ns` */
	} from;
	struct cursor *since;		/* owned; a position may be SINCE_BEGIN */
	uint64_t realtime_ns;
};

/* -EINVAL: it names a CPU that has no ring. */
int beginning_of_cursor(const struct rings *rings, const struct cursor *cursor,
			struct beginning *begin, struct error *error);

/* Where it has acknowledged; now, if it never did. */
int beginning_of_consumer(const struct rings *rings, const struct consumer *consumer,
			  struct beginning *begin, struct error *error);
void beginning_free(struct beginning *begin);

/* What streams are made of; borrowed. */
struct stream_maker {
	const struct rings *rings;
	const struct subscriptions *subscriptions;
	struct past_turns *turns;	/* of those that read another subscription's record */
	uint64_t queue_bytes;		/* how much a client may lag */
};

/* NULL: out of memory. */
struct stream *beginning_make_stream(const struct stream_maker *maker,
				     struct subscription *subscription,
				     const struct beginning *begin);

#endif
