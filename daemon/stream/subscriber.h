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
#include "daemon/stream/beginning.h"
#include "daemon/stream/durable.h"
#include "daemon/stream/stream.h"
#include "daemon/stream/subscription.h"
#include "proto/cursor.h"
#include "query/error.h"

struct subscribe_request {
	struct subscription_request what;	/* no globs: what is always on */
	const char *consumer;			/* NULL: not durable */
	const struct cursor *since;		/* NULL: since_realtime_ns, */
	uint64_t since_realtime_ns;		/* 0: where its consumer was, or now */
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

/* ---- All of them ----------------------------------------------------------------------------- */

struct subscribers {
	struct stream_maker maker;
	struct durable *durable;
	TAILQ_HEAD(, subscriber) waiting;
	bool closed;			/* the daemon is shutting down: nobody is taken in */
};

/* See fanout_subscribe(), fanout_ack() and fanout_leave(). */
int subscribers_add(struct subscribers *all, struct subscriber *subscriber,
		    const struct subscribe_request *request, struct error *error);
int subscribers_ack(struct subscribers *all, struct subscriber *subscriber,
		    const struct cursor *upto, struct error *error);
void subscribers_leave(struct subscribers *all, struct subscriber *subscriber, bool orderly);

/* That one is live: its subscribers get their streams. It never will be (NULL: none will): they get the error. */
void subscribers_join(struct subscribers *all, const struct subscription *subscription);
void subscribers_refuse(struct subscribers *all, const struct subscription *subscription,
			const struct error *error);

/* The consumers were saved, or not: who waits for that. And again what found no memory. */
void subscribers_saved(void *all, int err);
void subscribers_register_again(struct subscribers *all);

#endif
