/*
 * fanout_client: who asks for what: the subscriptions of sessions and taps, found or made, and left.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/fanout_private.h"

/* ---- Finding --------------------------------------------------------------------------------- */

static uint32_t flags_of(const Ringtail__V1__Subscribe *subscribe)
{
	uint32_t flags = 0;

	for (size_t i = 0; i < subscribe->n_flag; i++) {
		if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_KSTACK)
			flags |= RT_FLAG_KSTACK;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_USTACK)
			flags |= RT_FLAG_USTACK;
		else if (subscribe->flag[i] == RINGTAIL__V1__FLAG__FLAG_STRINGS)
			flags |= RT_FLAG_STRINGS;
	}
	return flags;
}

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
static int narrow_permanent(struct fanout *fanout, const Ringtail__V1__Subscribe *subscribe,
			    enum fanout_claim claim, struct subscription **subscription,
			    struct error *error)
{
	struct subscription_request request = {.flags = flags_of(subscribe)};
	struct subscription *permanent;
	bool both;
	char *filter;
	int err = find_permanent(fanout, &permanent, error);

	if (!err)
		err = fanout_check_viewer(fanout, claim, request.flags, NULL, error);
	if (err)
		return err;
	if (!*subscribe->filter && !request.flags) {
		*subscription = permanent;
		return 0;
	}
	both = *subscribe->filter && *permanent->filter_text;
	if (asprintf(&filter, both ? "(%s) && (%s)" : "%s%s", subscribe->filter,
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

static int find_or_create(struct fanout *fanout, const Ringtail__V1__Subscribe *subscribe,
			  enum fanout_claim claim, struct subscription **subscription,
			  struct error *error)
{
	struct subscription_request request = {
		.glob = (const char *const *)subscribe->probe,
		.globs = subscribe->n_probe,
		.filter = subscribe->filter,
		.flags = flags_of(subscribe),
	};

	struct probe_set probes;
	int err;

	if (!subscribe->n_probe)
		return narrow_permanent(fanout, subscribe, claim, subscription, error);
	if (subscribe->n_probe > SUBSCRIBE_PROBES_MAX)
		return error_set(error, EINVAL, "too-many-probes",
				 "%zu probe specs, and at most %u may be asked for",
				 subscribe->n_probe, SUBSCRIBE_PROBES_MAX);
	err = probe_set_from_globs(&probes, subscribe->probe, (unsigned)subscribe->n_probe,
				   loader_catalog(fanout->config.loader), error);
	if (!err)
		err = fanout_check_viewer(fanout, claim, request.flags, &probes, error);
	if (err)
		return err;
	return fanout_get_subscription(fanout, &request, claim, subscription, error);
}

/* ---- Asking ---------------------------------------------------------------------------------- */

static int find_place(const struct fanout *fanout, const Ringtail__V1__Subscribe *subscribe,
		      struct waiter *waiter, struct error *error)
{
	if (subscribe->since)
		return place_of_cursor(fanout, subscribe->since, &waiter->place, error);
	if (subscribe->since_realtime_ns) {
		waiter->place.from = PLACE_TIME;
		waiter->place.realtime_ns = subscribe->since_realtime_ns;
		return 0;
	}
	return waiter->consumer ? place_of_consumer(fanout, waiter->consumer, &waiter->place, error)
				: 0;
}

/* As it is registered: what was asked for, or what is always on. */
static struct subscription_request request_of(const struct subscription_request *asked,
					      const struct subscription *found)
{
	if (asked->globs)
		return *asked;
	return (struct subscription_request){
		.glob = (const char *const *)found->glob,
		.globs = found->globs,
		.filter = found->filter_text,
		.flags = found->spec.flags,
	};
}

static int ask(struct fanout *fanout, struct waiter *waiter, const char *consumer,
	       const Ringtail__V1__Subscribe *subscribe, struct error *error)
{
	struct subscription_request asked = {
		.glob = (const char *const *)subscribe->probe,
		.globs = subscribe->n_probe,
		.filter = subscribe->filter,
		.flags = flags_of(subscribe),
	};
	const struct client_identity *identity =
		waiter->session ? session_identity(waiter->session) : NULL;
	struct subscription *subscription;
	int err = *consumer ? fanout_check_consumer(fanout, consumer, identity, error) : 0;

	if (!err)
		err = find_or_create(fanout, subscribe,
				     waiter->tap ? FANOUT_EXPORT : fanout_claim_of(identity),
				     &subscription, error);
	/* Perhaps since just now: whoever asks the loader may find that it is gone. */
	if (!err && fanout->stopping)
		err = error_set(error, ESHUTDOWN, "shutting-down", "the daemon is shutting down");
	if (!err && *consumer) {
		struct subscription_request request = request_of(&asked, subscription);

		err = fanout_take_consumer(fanout, consumer, identity, &request, subscription,
					   &waiter->consumer, error);
	}
	if (!err)
		err = find_place(fanout, subscribe, waiter, error);
	if (err) {
		if (waiter->consumer)
			waiter->consumer->connected = false;
		waiter_free(waiter);
		return err;
	}
	fanout_wait(fanout, waiter, subscription);
	return 0;
}

int fanout_subscribe(struct fanout *fanout, struct session *session,
		     const Ringtail__V1__Subscribe *subscribe, struct error *error)
{
	struct waiter *waiter = calloc(1, sizeof(*waiter));

	if (!waiter)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	waiter->session = session;
	return ask(fanout, waiter, subscribe->consumer, subscribe, error);
}

void fanout_leave(struct fanout *fanout, struct session *session, bool orderly)
{
	struct stream *stream = session_stream(session);
	struct waiter *waiter, *next;

	for (waiter = TAILQ_FIRST(&fanout->waiters); waiter; waiter = next) {
		next = TAILQ_NEXT(waiter, link);
		if (waiter->session != session)
			continue;
		if (waiter->consumer)
			waiter->consumer->connected = false;
		fanout_stop_waiting(fanout, waiter);
	}
	if (stream)
		fanout_left(fanout, stream, orderly);
}

int fanout_ack(struct fanout *fanout, struct session *session, const Ringtail__V1__Ack *ack,
	       struct error *error)
{
	struct stream *stream = session_stream(session);

	if (!stream || !stream->consumer) {
		error_set(error, EINVAL, "no-consumer",
			  "what is to be acknowledged is not a durable consumer's");
		error_hint(error, "subscribe with a consumer's name: tracectl stream --consumer NAME");
		return -EINVAL;
	}
	if (!ack->upto || ack->upto->n_position > CURSOR_POSITIONS_MAX)
		return error_set(error, EINVAL, "cursor-invalid",
				 "an acknowledgement needs a cursor, of at most %u positions",
				 CURSOR_POSITIONS_MAX);
	/* Since it came, it may have become less than it was. */
	if (!consumer_is_open_to(stream->consumer, session_identity(session)))
		return consumer_refuse(stream->consumer->name, error);
	if (fanout_check_ack(fanout, stream, ack->upto, error) != 0)
		return -EINVAL;
	if (ack->upto->n_position)
		fanout_acknowledge(fanout, stream->consumer, ack->upto);
	return 0;
}

/* ---- Taps ------------------------------------------------------------------------------------ */

int fanout_tap(struct fanout *fanout, const struct fanout_tap_config *config,
	       struct fanout_tap **out, struct error *error)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	struct waiter *waiter = calloc(1, sizeof(*waiter));
	struct fanout_tap *tap = calloc(1, sizeof(*tap));
	Ringtail__V1__Flag flag[3];
	int err;

	if (!waiter || !tap) {
		free(waiter);
		free(tap);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	subscribe.probe = (char **)config->request.glob;
	subscribe.n_probe = config->request.globs;
	subscribe.filter = (char *)(config->request.filter ? config->request.filter : "");
	subscribe.flag = flag;
	if (config->request.flags & RT_FLAG_KSTACK)
		flag[subscribe.n_flag++] = RINGTAIL__V1__FLAG__FLAG_KSTACK;
	if (config->request.flags & RT_FLAG_USTACK)
		flag[subscribe.n_flag++] = RINGTAIL__V1__FLAG__FLAG_USTACK;
	if (config->request.flags & RT_FLAG_STRINGS)
		flag[subscribe.n_flag++] = RINGTAIL__V1__FLAG__FLAG_STRINGS;
	tap->fanout = fanout;
	tap->config = *config;
	tap->config.consumer = NULL;
	waiter->tap = tap;
	/* Before it is asked for: live() and refused() may come from inside, and the latter ends it. */
	*out = tap;
	err = ask(fanout, waiter, config->consumer ? config->consumer : "", &subscribe, error);
	if (err) {
		*out = NULL;
		free(tap);
	}
	return err;
}

void fanout_tap_ack(struct fanout_tap *tap, const uint64_t *upto)
{
	struct fanout *fanout = tap->fanout;
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	struct fanout_positions *positions;

	if (!tap->stream || !tap->stream->consumer)
		return;
	positions = fanout_positions_create(fanout);
	if (!positions)
		return;			/* the next one says more */
	cursor.boot_id.data = fanout->config.epoch.boot_id;
	cursor.boot_id.len = sizeof(fanout->config.epoch.boot_id);
	cursor.epoch = fanout->config.epoch.epoch;
	cursor.position = positions->list;
	for (uint32_t i = 0; i < fanout->rings; i++) {
		if (upto[i] == UINT64_MAX)
			continue;
		positions->list[cursor.n_position] = &positions->position[i];
		positions->list[cursor.n_position++]->seq = upto[i];
	}
	fanout_acknowledge(fanout, tap->stream->consumer, &cursor);
	free(positions);
}

void fanout_tap_ack_earlier(struct fanout_tap *tap, const Ringtail__V1__Cursor *upto)
{
	if (tap->stream && tap->stream->consumer)
		fanout_acknowledge(tap->fanout, tap->stream->consumer, upto);
}

void fanout_untap(struct fanout_tap *tap)
{
	struct waiter *waiter, *next;

	if (!tap)
		return;
	for (waiter = TAILQ_FIRST(&tap->fanout->waiters); waiter; waiter = next) {
		next = TAILQ_NEXT(waiter, link);
		if (waiter->tap != tap)
			continue;
		if (waiter->consumer)
			waiter->consumer->connected = false;
		fanout_stop_waiting(tap->fanout, waiter);
	}
	if (tap->stream) {
		fanout_left(tap->fanout, tap->stream, true);
		stream_destroy(tap->stream);
	}
	free(tap);
}
