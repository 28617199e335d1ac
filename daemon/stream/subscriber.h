/*
 * subscriber: who is sent a subscription's stream: a session's client, or an exporter of this daemon.
 *
 * In: what it asks for, and from where on. Out: live(), once its subscription is recorded and, of a durable
 * consumer, its registration is on disk; or refused(). One subscription at a time. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_SUBSCRIBER_H
#define RINGTAIL_DAEMON_STREAM_SUBSCRIBER_H

#include <stdint.h>
#include <sys/queue.h>

#include "daemon/host/identity.h"
#include "daemon/stream/stream.h"
#include "daemon/stream/subscription.h"
#include "proto/cursor.h"
#include "query/error.h"

struct consumer;

struct subscribe_request {
	struct subscription_request what;	/* no globs: what is always on */
	const char *consumer;			/* NULL: not durable */
	const struct cursor *since;		/* NULL: since_realtime_ns, */
	uint64_t since_realtime_ns;		/* 0: where its consumer was, or now */
};

/* Where a stream is to begin. */
struct beginning {
	enum beginning_from {
		BEGIN_NOW,
		BEGIN_AT_CURSOR,		/* of this run; of CPUs that it does not name, from now */
		BEGIN_IN_OTHER_RUN,		/* a cursor of another run of the rings */
		BEGIN_AT_TIME,		/* `realtime_ns` */
	} from;
	struct cursor *since;		/* owned; a position may be SINCE_BEGIN */
	uint64_t realtime_ns;
};

/*
 *	AWAY --subscribe--> WAITING --recorded--> REGISTERING --on disk--> LIVE --leave--> AWAY
 *
 * A consumer that is on disk already, and who is none, passes over REGISTERING; refused is AWAY.
 */
enum subscriber_state {
	SUBSCRIBER_AWAY,
	SUBSCRIBER_WAITING,		/* its subscription is not recorded yet */
	SUBSCRIBER_REGISTERING,		/* its consumer is not on disk: no crash takes back what was confirmed */
	SUBSCRIBER_LIVE,
};

struct subscriber {
	/* Its owner's. */
	const struct client_identity *identity;	/* NULL: this daemon itself, which may ask for anything */
	/*
	 * The stream is the owner's from now on, to be destroyed after fanout_leave(). -ENOMEM: it is not,
	 * and the subscriber is refused.
	 */
	int (*live)(void *context, struct stream *stream, const struct beginning *from);
	void (*refused)(void *context, const struct error *error);
	/* There may be something to send. It may leave, and destroy the stream. */
	void (*wake)(void *context);
	void *context;

	/* The fanout's; zeros at first. */
	TAILQ_ENTRY(subscriber) link;
	enum subscriber_state state;
	struct subscription *subscription;
	struct consumer *consumer;	/* NULL: not durable */
	struct beginning begin;
	struct stream *stream;		/* NULL: away, or it waits */
};

/* NULL: nobody. */
static inline void subscriber_wake(struct subscriber *subscriber)
{
	if (subscriber)
		subscriber->wake(subscriber->context);
}

#endif
