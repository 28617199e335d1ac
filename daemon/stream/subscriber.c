#include "daemon/stream/subscriber.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"

/* ---- Joining --------------------------------------------------------------------------------- */

/*
 * Numbers stand still while nothing is recorded. A cursor that is just where recording began may be of
 * an earlier subscription, which went when its time was over, and what happened before this one came
 * was not recorded. A durable consumer's never goes.
 */
static bool may_have_missed(const struct subscribers *all, const struct subscriber *subscriber)
{
	const struct subscription *subscription = subscriber->subscription;

	if (subscriber->begin.from != BEGIN_AT_CURSOR || subscriber->consumer || 
	    subscription->origin != SUBSCRIPTION_REBORN || frame_log_first(subscription->log) != 0)
		return false;
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (cursor_seq(subscriber->begin.since, all->maker.rings->cpu_of[i], subscription->floor[i]) !=
		    subscription->floor[i])
			return false;
	return true;
}

/*
 * The same of a consumer that an earlier run of the daemon recorded nothing for, as it kept nothing on disk,
 * on rings that go on: if they had stood still, no gap of a known size is in its stream.
 */
static bool was_unrecorded(const struct subscriber *subscriber)
{
	return subscriber->consumer && subscriber->consumer->unrecorded &&
	       subscriber->begin.from == BEGIN_AT_CURSOR && !subscriber->subscription->begins_late;
}

static void enqueue(struct subscribers *all, struct subscriber *subscriber,
		    enum subscriber_state state)
{
	subscriber->state = state;
	TAILQ_INSERT_TAIL(&all->waiting, subscriber, link);
}

/* It waits no more, if it did. */
static void stop_waiting(struct subscribers *all, struct subscriber *subscriber)
{
	if (subscriber->state == SUBSCRIBER_WAITING || subscriber->state == SUBSCRIBER_REGISTERING)
		TAILQ_REMOVE(&all->waiting, subscriber, link);
	beginning_free(&subscriber->begin);
}

/* It has no stream, or one that was never its own. */
static void detach(struct subscribers *all, struct subscriber *subscriber)
{
	stop_waiting(all, subscriber);
	if (subscriber->consumer)
		subscriber->consumer->subscriber = NULL;
	if (subscriber->state == SUBSCRIBER_REGISTERING)
		stream_destroy(subscriber->stream);
	subscriber->state = SUBSCRIBER_AWAY;
	subscriber->subscription = NULL;
	subscriber->consumer = NULL;
	subscriber->stream = NULL;
}

/* It gets the error. A client's registration that was never confirmed is none. */
static void refuse(struct subscribers *all, struct subscriber *subscriber,
		   const struct error *error)
{
	const struct consumer *consumer = subscriber->consumer;
	char name[CONSUMER_NAME_BYTES_MAX + 1] = "";
	struct error ignored;

	if (subscriber->identity && consumer && consumer->record != CONSUMER_SAVED && !consumer->earlier &&
	    !consumer_name_is_own(consumer->name))
		memcpy(name, consumer->name, sizeof(name));
	detach(all, subscriber);
	subscriber->refused(subscriber->context, error);
	if (name[0])
		durable_forget(all->durable, name, &ignored);
}

static void refuse_memory(struct subscribers *all, struct subscriber *subscriber)
{
	struct error error;

	error_set(&error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	refuse(all, subscriber, &error);
}

static void make_live(struct subscribers *all, struct subscriber *subscriber, struct stream *stream)
{
	struct beginning from = subscriber->begin;

	subscriber->begin = (struct beginning){0};
	stop_waiting(all, subscriber);
	subscriber->state = SUBSCRIBER_LIVE;
	subscriber->stream = stream;
	stream->subscriber = subscriber;
	if (subscriber->live(subscriber->context, stream, &from) != 0) {
		stream_destroy(stream);
		refuse_memory(all, subscriber);
	}
	beginning_free(&from);
}

/* From now on all is kept for it that comes after where it begins. */
static void register_place(struct subscribers *all, struct consumer *consumer,
			   const struct stream *stream)
{
	struct cursor *told = consumer->place ? NULL : stream_told(stream);

	if (!told)
		return;
	told->run = all->maker.rings->run;
	consumer_acknowledge(consumer, told, 0);
	consumers_save(all->durable->consumers);
	free(told);
}

/* Its consumer may have got its place while it waited. NULL: out of memory. */
static struct stream *make_stream(struct subscribers *all, struct subscriber *subscriber)
{
	struct error ignored;

	if (subscriber->consumer && subscriber->begin.from == BEGIN_NOW &&
	    beginning_of_consumer(all->maker.rings, subscriber->consumer, &subscriber->begin, &ignored) != 0)
		return NULL;
	return beginning_make_stream(&all->maker, subscriber->subscription, &subscriber->begin);
}

/* Its subscription is live. */
static void join(struct subscribers *all, struct subscriber *subscriber)
{
	struct subscription *subscription = subscriber->subscription;
	struct stream *stream = make_stream(all, subscriber);

	if (!stream) {
		refuse_memory(all, subscriber);
		return;
	}
	if (may_have_missed(all, subscriber) || was_unrecorded(subscriber))
		stream_doubt(stream, LOSS_REASON_NOT_RECORDED);
	subscription->linger_until_ns = 0;
	if (subscriber->begin.since)
		counter_add(stream->resumed ? COUNTER_resumes : COUNTER_resumes_with_gap, 1);
	stream->consumer = subscriber->consumer;
	if (stream->consumer)
		register_place(all, stream->consumer, stream);
	/* A relay is no viewer among others: it is sent what is always on, all of it. */
	if (subscriber->identity && subscriber->identity->role < ROLE_OPERATOR &&
	    subscriber->identity->proof != IDENTITY_RELAY)
		stream_set_rate(stream, all->maker.subscriptions->config.viewers.rate);
	if (!stream->consumer || stream->consumer->record == CONSUMER_SAVED) {
		make_live(all, subscriber, stream);
		return;
	}
	subscriber->stream = stream;
	if (subscriber->state == SUBSCRIBER_WAITING)
		subscriber->state = SUBSCRIBER_REGISTERING;
	else
		enqueue(all, subscriber, SUBSCRIBER_REGISTERING);
}

void subscribers_join(struct subscribers *all, const struct subscription *subscription)
{
	struct subscriber *subscriber, *next;

	for (subscriber = TAILQ_FIRST(&all->waiting); subscriber; subscriber = next) {
		next = TAILQ_NEXT(subscriber, link);
		if (subscriber->subscription == subscription &&
		    subscriber->state == SUBSCRIBER_WAITING)
			join(all, subscriber);
	}
}

void subscribers_refuse(struct subscribers *all, const struct subscription *subscription,
			const struct error *error)
{
	struct subscriber *subscriber, *next;

	for (subscriber = TAILQ_FIRST(&all->waiting); subscriber; subscriber = next) {
		next = TAILQ_NEXT(subscriber, link);
		if (!subscription || subscriber->subscription == subscription)
			refuse(all, subscriber, error);
	}
}

/* An exporter's registration that cannot be kept now is tried again with each save. */
static void take_unkept(struct subscribers *all, struct subscriber *subscriber, int err)
{
	struct error error;

	if (!subscriber->identity) {
		make_live(all, subscriber, subscriber->stream);
		return;
	}
	error_set(&error, -err, "state-failed", "the durable consumer '%s' cannot be kept: %s",
		  subscriber->consumer->name, strerror(-err));
	error_hint(&error, "nothing was registered; see to the disk of state-dir");
	refuse(all, subscriber, &error);
}

void subscribers_saved(void *context, int err)
{
	struct subscribers *all = context;
	struct subscriber *subscriber, *next;

	for (subscriber = TAILQ_FIRST(&all->waiting); subscriber; subscriber = next) {
		next = TAILQ_NEXT(subscriber, link);
		if (subscriber->state != SUBSCRIBER_REGISTERING)
			continue;
		if (subscriber->consumer->record == CONSUMER_SAVED)
			make_live(all, subscriber, subscriber->stream);
		else if (err)
			take_unkept(all, subscriber, err);
	}
	durable_release(all->durable);
}

void subscribers_register_again(struct subscribers *all)
{
	struct subscriber *subscriber;

	TAILQ_FOREACH(subscriber, &all->waiting, link)
		if (subscriber->state == SUBSCRIBER_REGISTERING &&
		    subscriber->consumer->record == CONSUMER_UNSAVED) {
			register_place(all, subscriber->consumer, subscriber->stream);
			consumers_save(all->durable->consumers);
			return;
		}
}

/* ---- Asking, acknowledging, leaving ------------------------------------------------------------ */

static int find_beginning(const struct subscribers *all, const struct subscribe_request *request,
			  struct subscriber *subscriber, struct error *error)
{
	if (request->since)
		return beginning_of_cursor(all->maker.rings, request->since, &subscriber->begin, error);
	if (request->since_realtime_ns) {
		subscriber->begin.from = BEGIN_AT_TIME;
		subscriber->begin.realtime_ns = request->since_realtime_ns;
		return 0;
	}
	return subscriber->consumer ? beginning_of_consumer(all->maker.rings, subscriber->consumer,
							    &subscriber->begin, error) : 0;
}

/* It is registered as what was asked for, or what is always on. */
static int take_consumer(struct subscribers *all, struct subscriber *subscriber,
			 const struct subscribe_request *request, struct error *error)
{
	struct subscription_request found = subscription_request_of(subscriber->subscription);

	return durable_take(all->durable, request->consumer, subscriber,
			    request->what.globs ? &request->what : &found, error);
}

int subscribers_add(struct subscribers *all, struct subscriber *subscriber,
		    const struct subscribe_request *request, struct error *error)
{
	struct subscription_request what = request->what;
	int err = request->consumer ? durable_check(all->durable, request->consumer,
							    subscriber->identity, error) : 0;

	/* What is kept on disk outlives the numbers by which programs' probes are told apart. */
	what.owner = request->consumer ? 0 : subscription_owner_of(subscriber->identity);
	if (!err)
		err = subscriptions_find(all->durable->subscriptions, &what,
					 subscription_claim_of(subscriber->identity),
					 &subscriber->subscription, error);
	/* Perhaps since just now: whoever asks the loader may find that it is gone. */
	if (!err && all->closed)
		err = error_set(error, ESHUTDOWN, "shutting-down", "the daemon is shutting down");
	if (!err && request->consumer)
		err = take_consumer(all, subscriber, request, error);
	if (!err)
		err = find_beginning(all, request, subscriber, error);
	if (err)
		detach(all, subscriber);
	else if (subscriber->subscription->state == SUBSCRIPTION_LIVE)
		join(all, subscriber);
	else
		enqueue(all, subscriber, SUBSCRIBER_WAITING);
	return err;
}

int subscribers_ack(struct subscribers *all, struct subscriber *subscriber,
		    const struct cursor *upto, struct error *error)
{
	struct consumer *consumer =
		subscriber->state == SUBSCRIBER_LIVE ? subscriber->consumer : NULL;

	if (!consumer) {
		error_set(error, EINVAL, "no-consumer",
			  "only a durable consumer can acknowledge events");
		error_hint(error, "subscribe with a consumer's name: tracectl stream --consumer NAME");
		return -EINVAL;
	}
	/* Since it came, it may have become less than it was. */
	if (subscriber->identity && !consumer_is_open_to(consumer, subscriber->identity))
		return consumer_refuse(consumer->name, error);
	if (subscriber->identity && durable_check_ack(all->durable, subscriber->stream, upto, error) != 0)
		return -EINVAL;
	if (upto->n)
		durable_acknowledge(all->durable, consumer, upto);
	return 0;
}

void subscribers_leave(struct subscribers *all, struct subscriber *subscriber, bool orderly)
{
	struct stream *stream = subscriber->state == SUBSCRIBER_LIVE ? subscriber->stream : NULL;
	struct subscription *subscription = subscriber->subscription;

	if (stream && stream->consumer)
		stream_note_sent(stream, &all->maker.rings->run);
	if (stream)
		stream->subscriber = NULL;
	detach(all, subscriber);
	/* The stream itself goes with its owner, in a moment. */
	if (!stream || subscription->permanent || TAILQ_FIRST(&subscription->streams) != stream ||
	    TAILQ_NEXT(stream, link))
		return;
	subscription->linger_until_ns =
		clock_monotonic() + (orderly ? 0 : all->maker.subscriptions->config.history_age_ns);
	if (orderly)
		all->maker.subscriptions->config.check_soon(all->maker.subscriptions->config.context);
}
