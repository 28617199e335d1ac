#include "daemon/stream/subscriber.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/catch_up.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/stream/fanout_private.h"

/* ---- What it asks for ------------------------------------------------------------------------ */

static int find_permanent(struct fanout *fanout, struct subscription **subscription,
			  struct error *error)
{
	*subscription = fanout->next_permanent;
	if (*subscription)
		return 0;
	TAILQ_FOREACH(*subscription, &fanout->subscriptions, link)
		if ((*subscription)->permanent &&
		    (*subscription)->state != SUBSCRIPTION_REMOVING)
			return 0;
	error_set(error, EINVAL, "no-default-probes",
		  "no probe was asked for, and this daemon has none that is always on");
	error_hint(error, "say which: tracectl stream -p 'syscall:*:call'; or give ringtaild --probe");
	return -EINVAL;
}

/* What is always recorded, and of that only what passes this filter too, with these flags. */
static int narrow_permanent(struct fanout *fanout, const struct subscription_request *what,
			    enum fanout_claim claim, struct subscription **subscription,
			    struct error *error)
{
	struct subscription_request request = *what;
	struct subscription *permanent;
	bool both;
	char *filter;
	int err = find_permanent(fanout, &permanent, error);

	if (!err)
		err = fanout_check_viewer(fanout, claim, request.flags, NULL, error);
	if (err)
		return err;
	if (!*what->filter && !request.flags) {
		*subscription = permanent;
		return 0;
	}
	both = *what->filter && *permanent->filter_text;
	if (asprintf(&filter, both ? "(%s) && (%s)" : "%s%s", what->filter,
		     permanent->filter_text) < 0)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	request.glob = (const char *const *)permanent->glob;
	request.globs = permanent->globs;
	request.filter = filter;
	err = fanout_get_subscription(fanout, &request, claim, subscription, error);
	/* The client's own text has no parenthesis before it. */
	if (err && both && error->column > 1)
		error->column--;
	free(filter);
	return err;
}

static int find_or_create(struct fanout *fanout, const struct subscription_request *what,
			  enum fanout_claim claim, struct subscription **subscription,
			  struct error *error)
{
	struct probe_set probes;
	int err;

	if (!what->globs)
		return narrow_permanent(fanout, what, claim, subscription, error);
	if (what->globs > SUBSCRIBE_PROBES_MAX)
		return error_set(error, EINVAL, "too-many-probes",
				 "%zu probe specs, and at most %u may be asked for",
				 what->globs, SUBSCRIBE_PROBES_MAX);
	err = probe_set_from_globs(&probes, (char *const *)what->glob, (unsigned)what->globs,
				   loader_catalog(fanout->config.loader), error);
	if (!err)
		err = fanout_check_viewer(fanout, claim, what->flags, &probes, error);
	return err ? err : fanout_get_subscription(fanout, what, claim, subscription, error);
}

/* ---- Where to begin -------------------------------------------------------------------------- */

static struct stream *create(struct fanout *fanout, struct subscription *subscription,
			     const struct cursor *since, Ringtail__V1__LossReason reason)
{
	return stream_create(subscription, fanout->config.codec, fanout->cpu_of,
			     fanout->config.queue_bytes, since, reason);
}

static bool is_in_log(const struct fanout *fanout, const struct subscription *subscription,
		      const struct cursor *since)
{
	for (uint32_t i = 0; i < subscription->rings; i++) {
		uint64_t seq = cursor_seq(since, fanout->cpu_of[i], UINT64_MAX);

		if (seq < subscription->floor[i] || seq == SINCE_BEGIN)
			return false;
	}
	return true;
}

/* Where nothing is on disk, the record begins when the subscription did; or did in a run of before. */
static void settle_begin(const struct fanout *fanout, const struct subscription *subscription,
			 struct cursor *since)
{
	for (uint32_t i = 0; i < since->n; i++) {
		struct position *at = &since->position[i];

		if (at->seq == SINCE_BEGIN)
			at->seq = subscription->restored ? 0 :
				  reach_seq(subscription->reach, 0,
					    (uint32_t)fanout_ring_of(fanout, at->cpu));
	}
}

static struct stream *create_from_disk(struct fanout *fanout, struct subscription *subscription,
				       const struct spool_place *start)
{
	struct stream *stream = create(fanout, subscription, NULL,
				       RINGTAIL__V1__LOSS_REASON__REASON_UNKNOWN);

	if (!stream)
		return NULL;
	stream->resumed = true;
	if (catch_up_begin(stream, start) == 0)
		return stream;
	stream_destroy(stream);
	return NULL;
}

static struct stream *create_at_cursor(struct fanout *fanout, struct subscription *subscription,
				       const struct beginning *begin)
{
	if (subscription->spool.spool && !is_in_log(fanout, subscription, begin->since))
		return create_from_disk(fanout, subscription,
					&(struct spool_place){.cursor = begin->since});
	settle_begin(fanout, subscription, begin->since);
	/* A log that has given nothing up begins where it began to be recorded, or where the run
	 * before was killed: what that one had read and not sent is gone. */
	return create(fanout, subscription, begin->since,
		      frame_log_first(subscription->log) == 0 && subscription->restored ?
		      RINGTAIL__V1__LOSS_REASON__REASON_RESTART :
		      frame_log_first(subscription->log) == 0 ?
		      RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED :
		      RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE);
}

/*
 * Numbers stand still while nothing is recorded. A cursor that is just where recording began may be of
 * an earlier subscription, which went when its time was over, and what happened before this one came
 * was not recorded. A durable consumer's never goes.
 */
static bool may_have_missed(const struct fanout *fanout, const struct subscriber *subscriber)
{
	const struct subscription *subscription = subscriber->subscription;

	if (subscriber->begin.from != BEGIN_AT_CURSOR || subscriber->consumer || !subscription->reborn ||
	    frame_log_first(subscription->log) != 0)
		return false;
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (cursor_seq(subscriber->begin.since, fanout->cpu_of[i], subscription->floor[i]) !=
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

static struct stream *create_of_record(struct fanout *fanout, struct subscription *subscription,
				       const struct beginning *begin)
{
	struct cursor *since = fanout_cursor(fanout, NULL);
	enum place_found found;
	struct stream *stream;

	if (!since)
		return NULL;
	found = beginning_find_time(fanout, subscription, begin->realtime_ns, since);
	if (found == PLACE_FOUND || !subscription->spool.spool)
		stream = create(fanout, subscription, since,
				RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE);
	else
		stream = create_from_disk(fanout, subscription, &(struct spool_place){
						  .realtime_ns = begin->realtime_ns});
	if (stream && found == PLACE_BEFORE_RECORDING && !subscription->spool.spool)
		stream_miss(stream, subscription->restored ?
				    RINGTAIL__V1__LOSS_REASON__REASON_RESTART :
				    RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED);
	free(since);
	return stream;
}

/* NULL: out of memory. */
static struct stream *create_from_donor(struct fanout *fanout, struct subscription *subscription,
					struct subscription *donor, const struct beginning *begin)
{
	struct stream *from = create_of_record(fanout, donor, begin);
	struct stream *stream = from ? create(fanout, subscription, NULL,
					      RINGTAIL__V1__LOSS_REASON__REASON_UNKNOWN) : NULL;

	if (stream && past_begin(fanout->turns, stream, from,
				 loader_catalog(fanout->config.loader)) == 0)
		return stream;
	stream_destroy(stream);
	stream_destroy(from);
	return NULL;
}

/* What it did not record then, another one may have. */
static struct stream *create_at_time(struct fanout *fanout, struct subscription *subscription,
				     const struct beginning *begin)
{
	struct subscription *donor;
	struct stream *stream;
	bool whole;

	donor = fanout_find_donor(fanout, subscription, begin->realtime_ns, &whole);
	if (!donor)
		return create_of_record(fanout, subscription, begin);
	stream = create_from_donor(fanout, subscription, donor, begin);
	if (stream && !whole)
		stream_miss(stream, RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED);
	/* Its reader is none that comes back, but may be all that has kept it. */
	if (stream)
		donor->linger_until_ns = clock_monotonic() + fanout->config.history_age_ns;
	return stream;
}

static struct stream *create_stream(struct fanout *fanout, struct subscription *subscription,
				    const struct beginning *begin)
{
	switch (begin->from) {
	case BEGIN_NOW:
		break;
	case BEGIN_AT_CURSOR:
		return create_at_cursor(fanout, subscription, begin);
	case BEGIN_IN_OTHER_RUN:
		if (subscription->spool.spool)
			return create_from_disk(fanout, subscription, &(struct spool_place){
							.cursor = begin->since});
		/* How much that was, nobody knows: the stream begins now, with a gap of no size. */
		return create(fanout, subscription, NULL,
			      RINGTAIL__V1__LOSS_REASON__REASON_OTHER_EPOCH);
	case BEGIN_AT_TIME:
		return create_at_time(fanout, subscription, begin);
	}
	return create(fanout, subscription, NULL, RINGTAIL__V1__LOSS_REASON__REASON_UNKNOWN);
}

/* ---- Joining --------------------------------------------------------------------------------- */

static void enqueue(struct fanout *fanout, struct subscriber *subscriber, enum subscriber_state state)
{
	subscriber->state = state;
	TAILQ_INSERT_TAIL(&fanout->waiting, subscriber, link);
}

/* It waits no more, if it did. */
static void stop_waiting(struct fanout *fanout, struct subscriber *subscriber)
{
	if (subscriber->state == SUBSCRIBER_WAITING || subscriber->state == SUBSCRIBER_REGISTERING)
		TAILQ_REMOVE(&fanout->waiting, subscriber, link);
	beginning_free(&subscriber->begin);
}

/* It has no stream, or one that was never its own. */
static void detach(struct fanout *fanout, struct subscriber *subscriber)
{
	stop_waiting(fanout, subscriber);
	if (subscriber->consumer)
		subscriber->consumer->connected = false;
	if (subscriber->state == SUBSCRIBER_REGISTERING)
		stream_destroy(subscriber->stream);
	subscriber->state = SUBSCRIBER_AWAY;
	subscriber->subscription = NULL;
	subscriber->consumer = NULL;
	subscriber->stream = NULL;
}

/* It gets the error. A client's registration that was never confirmed is none. */
static void refuse(struct fanout *fanout, struct subscriber *subscriber, const struct error *error)
{
	const struct consumer *consumer = subscriber->consumer;
	char name[CONSUMER_NAME_BYTES_MAX + 1] = "";
	struct error ignored;

	if (subscriber->identity && consumer && !consumer->kept && !consumer->earlier)
		memcpy(name, consumer->name, sizeof(name));
	detach(fanout, subscriber);
	subscriber->refused(subscriber->context, error);
	if (name[0])
		fanout_forget_consumer(fanout, name, &ignored);
}

static void refuse_memory(struct fanout *fanout, struct subscriber *subscriber)
{
	struct error error;

	error_set(&error, ENOMEM, "out-of-memory", "the daemon is out of memory");
	refuse(fanout, subscriber, &error);
}

static void make_live(struct fanout *fanout, struct subscriber *subscriber, struct stream *stream)
{
	struct beginning from = subscriber->begin;

	subscriber->begin = (struct beginning){0};
	stop_waiting(fanout, subscriber);
	subscriber->state = SUBSCRIBER_LIVE;
	subscriber->stream = stream;
	stream->subscriber = subscriber;
	if (subscriber->live(subscriber->context, stream, &from) != 0) {
		stream_destroy(stream);
		refuse_memory(fanout, subscriber);
	}
	beginning_free(&from);
}

/* From now on all is kept for it that comes after where it begins. */
static void register_place(struct fanout *fanout, struct consumer *consumer,
			   const struct stream *stream)
{
	struct cursor *told = consumer->place ? NULL : stream_told(stream);

	if (!told)
		return;
	told->run = fanout->config.run;
	consumer_acknowledge(consumer, told, 0);
	consumers_save(fanout->config.consumers);
	free(told);
}

/* Its subscription is live. */
static void join(struct fanout *fanout, struct subscriber *subscriber)
{
	struct subscription *subscription = subscriber->subscription;
	struct stream *stream = create_stream(fanout, subscription, &subscriber->begin);

	if (!stream) {
		refuse_memory(fanout, subscriber);
		return;
	}
	if (may_have_missed(fanout, subscriber) || was_unrecorded(subscriber))
		stream_doubt(stream, RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED);
	subscription->linger_until_ns = 0;
	if (subscriber->begin.since)
		counter_add(stream->resumed ? COUNTER_resumes : COUNTER_resumes_with_gap, 1);
	stream->consumer = subscriber->consumer;
	if (stream->consumer)
		register_place(fanout, stream->consumer, stream);
	if (subscriber->identity && subscriber->identity->role < ROLE_OPERATOR)
		stream_set_rate(stream, fanout->config.viewers.rate);
	if (!stream->consumer || stream->consumer->kept) {
		make_live(fanout, subscriber, stream);
		return;
	}
	subscriber->stream = stream;
	if (subscriber->state == SUBSCRIBER_WAITING)
		subscriber->state = SUBSCRIBER_REGISTERING;
	else
		enqueue(fanout, subscriber, SUBSCRIBER_REGISTERING);
}

void fanout_join_waiting(struct fanout *fanout, const struct subscription *subscription)
{
	struct subscriber *subscriber, *next;

	for (subscriber = TAILQ_FIRST(&fanout->waiting); subscriber; subscriber = next) {
		next = TAILQ_NEXT(subscriber, link);
		if (subscriber->subscription == subscription &&
		    subscriber->state == SUBSCRIBER_WAITING)
			join(fanout, subscriber);
	}
}

void fanout_refused(struct fanout *fanout, const struct subscription *subscription,
		    const struct error *error)
{
	struct subscriber *subscriber, *next;

	for (subscriber = TAILQ_FIRST(&fanout->waiting); subscriber; subscriber = next) {
		next = TAILQ_NEXT(subscriber, link);
		if (!subscription || subscriber->subscription == subscription)
			refuse(fanout, subscriber, error);
	}
}

/* An exporter's registration that cannot be kept now is tried again with each save. */
static void take_unkept(struct fanout *fanout, struct subscriber *subscriber, int err)
{
	struct error error;

	if (!subscriber->identity) {
		make_live(fanout, subscriber, subscriber->stream);
		return;
	}
	error_set(&error, -err, "state-failed", "the durable consumer '%s' cannot be kept: %s",
		  subscriber->consumer->name, strerror(-err));
	error_hint(&error, "nothing was registered; see to the disk of state-dir");
	refuse(fanout, subscriber, &error);
}

void fanout_consumers_saved(void *context, int err)
{
	struct fanout *fanout = context;
	struct subscriber *subscriber, *next;

	for (subscriber = TAILQ_FIRST(&fanout->waiting); subscriber; subscriber = next) {
		next = TAILQ_NEXT(subscriber, link);
		if (subscriber->state != SUBSCRIBER_REGISTERING)
			continue;
		if (subscriber->consumer->kept)
			make_live(fanout, subscriber, subscriber->stream);
		else if (err)
			take_unkept(fanout, subscriber, err);
	}
	fanout_release(fanout);
}

void fanout_register_again(struct fanout *fanout)
{
	struct subscriber *subscriber;

	TAILQ_FOREACH(subscriber, &fanout->waiting, link)
		if (subscriber->state == SUBSCRIBER_REGISTERING && !subscriber->consumer->saving) {
			register_place(fanout, subscriber->consumer, subscriber->stream);
			consumers_save(fanout->config.consumers);
			return;
		}
}

/* ---- Asking, acknowledging, leaving ------------------------------------------------------------ */

static int find_beginning(const struct fanout *fanout, const struct subscribe_request *request,
		      struct subscriber *subscriber, struct error *error)
{
	if (request->since)
		return beginning_of_cursor(fanout, request->since, &subscriber->begin, error);
	if (request->since_realtime_ns) {
		subscriber->begin.from = BEGIN_AT_TIME;
		subscriber->begin.realtime_ns = request->since_realtime_ns;
		return 0;
	}
	return subscriber->consumer ? beginning_of_consumer(fanout, subscriber->consumer,
							&subscriber->begin, error) : 0;
}

/* As it is registered: what was asked for, or what is always on. */
static int take_consumer(struct fanout *fanout, struct subscriber *subscriber,
			 const struct subscribe_request *request, struct error *error)
{
	struct subscription *found = subscriber->subscription;
	struct subscription_request always_on = subscription_request_of(found);

	return fanout_take_consumer(fanout, request->consumer, subscriber->identity,
				    request->what.globs ? &request->what : &always_on, found,
				    &subscriber->consumer, error);
}

int fanout_subscribe(struct fanout *fanout, struct subscriber *subscriber,
		     const struct subscribe_request *request, struct error *error)
{
	int err = request->consumer ? fanout_check_consumer(fanout, request->consumer,
							    subscriber->identity, error) : 0;

	if (!err)
		err = find_or_create(fanout, &request->what, fanout_claim_of(subscriber->identity),
				     &subscriber->subscription, error);
	/* Perhaps since just now: whoever asks the loader may find that it is gone. */
	if (!err && fanout->stopping)
		err = error_set(error, ESHUTDOWN, "shutting-down", "the daemon is shutting down");
	if (!err && request->consumer)
		err = take_consumer(fanout, subscriber, request, error);
	if (!err)
		err = find_beginning(fanout, request, subscriber, error);
	if (err)
		detach(fanout, subscriber);
	else if (subscriber->subscription->state == SUBSCRIPTION_LIVE)
		join(fanout, subscriber);
	else
		enqueue(fanout, subscriber, SUBSCRIBER_WAITING);
	return err;
}

int fanout_ack(struct fanout *fanout, struct subscriber *subscriber, const struct cursor *upto,
	       struct error *error)
{
	struct consumer *consumer =
		subscriber->state == SUBSCRIBER_LIVE ? subscriber->consumer : NULL;

	if (!consumer) {
		error_set(error, EINVAL, "no-consumer",
			  "what is to be acknowledged is not a durable consumer's");
		error_hint(error, "subscribe with a consumer's name: tracectl stream --consumer NAME");
		return -EINVAL;
	}
	/* Since it came, it may have become less than it was. */
	if (subscriber->identity && !consumer_is_open_to(consumer, subscriber->identity))
		return consumer_refuse(consumer->name, error);
	if (subscriber->identity && fanout_check_ack(fanout, subscriber->stream, upto, error) != 0)
		return -EINVAL;
	if (upto->n)
		fanout_acknowledge(fanout, consumer, upto);
	return 0;
}

void fanout_leave(struct fanout *fanout, struct subscriber *subscriber, bool orderly)
{
	struct stream *stream = subscriber->state == SUBSCRIBER_LIVE ? subscriber->stream : NULL;
	struct subscription *subscription = subscriber->subscription;

	if (stream && stream->consumer)
		stream_note_sent(stream, &fanout->config.run);
	if (stream)
		stream->subscriber = NULL;
	detach(fanout, subscriber);
	/* The stream itself goes with its owner, in a moment. */
	if (!stream || subscription->permanent || TAILQ_FIRST(&subscription->streams) != stream ||
	    TAILQ_NEXT(stream, link))
		return;
	subscription->linger_until_ns =
		clock_monotonic() + (orderly ? 0 : fanout->config.history_age_ns);
	if (orderly)
		fanout_check_soon(fanout);
}
