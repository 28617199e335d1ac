/* fanout_join: those who wait for their subscription, and the streams they get. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/catch_up.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/stream/fanout_private.h"

struct frame_ref *fanout_pack_catalog(struct fanout *fanout, const struct probe_set *probes,
				      uint32_t *count)
{
	const Ringtail__V1__Catalog *all = loader_catalog(fanout->config.loader);
	Ringtail__V1__Catalog mine = RINGTAIL__V1__CATALOG__INIT;
	struct frame_ref *frame;

	mine.probe = calloc(all->n_probe + 1, sizeof(*mine.probe));
	if (!mine.probe)
		return NULL;
	for (size_t i = 0; i < all->n_probe; i++)
		if (probe_set_test(probes, all->probe[i]->id))
			mine.probe[mine.n_probe++] = all->probe[i];
	*count = (uint32_t)mine.n_probe;
	frame = frame_ref_pack(fanout->config.codec, FRAME_CATALOG, &mine.base);
	free(mine.probe);
	return frame;
}

static void fill_cursor(struct fanout *fanout, Ringtail__V1__Cursor *cursor,
			struct fanout_positions *positions)
{
	cursor->boot_id.data = fanout->config.epoch.boot_id;
	cursor->boot_id.len = sizeof(fanout->config.epoch.boot_id);
	cursor->epoch = fanout->config.epoch.epoch;
	cursor->position = positions->list;
	cursor->n_position = fanout->rings;
}

/* Where the stream begins, and what of it the client has: its own cursor, or what it acknowledged. */
static struct frame_ref *pack_subscribed(struct fanout *fanout, const struct stream *stream,
					 const struct place *place, uint32_t probes)
{
	Ringtail__V1__Subscribed message = RINGTAIL__V1__SUBSCRIBED__INIT;
	Ringtail__V1__Cursor start = RINGTAIL__V1__CURSOR__INIT, since = RINGTAIL__V1__CURSOR__INIT;
	struct fanout_positions *positions = fanout_positions_create(fanout);
	struct fanout_positions *had = fanout_positions_create(fanout);
	struct frame_ref *frame = NULL;

	if (!positions || !had)
		goto free_all;
	fill_cursor(fanout, &start, positions);
	start.n_position = 0;
	for (uint32_t i = 0; i < fanout->rings; i++)
		if (!stream->ring[i].unknown) {
			Ringtail__V1__Position *position = positions->list[start.n_position++];

			position->cpu = fanout->cpu_of[i];
			position->seq = stream->ring[i].told;
		}
	message.start = &start;
	if (place->from == PLACE_CURSOR) {
		fill_cursor(fanout, &since, had);
		since.n_position = 0;
		for (uint32_t i = 0; i < fanout->rings; i++)
			if (place->since[i] < SINCE_BEGIN) {
				Ringtail__V1__Position *position = had->list[since.n_position++];

				position->cpu = fanout->cpu_of[i];
				position->seq = place->since[i];
			}
		message.since = &since;
	} else if (place->from == PLACE_OTHER) {
		message.since = place->cursor;
	}
	message.from_realtime_ns = place->from == PLACE_TIME ? place->realtime_ns :
				   place->from == PLACE_NOW ? clock_read(CLOCK_REALTIME) : 0;
	message.probes = probes;
	message.resumed = stream->resumed;
	frame = frame_ref_pack(fanout->config.codec, FRAME_SUBSCRIBED, &message.base);
free_all:
	free(positions);
	free(had);
	return frame;
}

/* ---- Where to begin -------------------------------------------------------------------------- */

static struct stream *create(struct fanout *fanout, struct subscription *subscription,
			     const uint64_t *since, Ringtail__V1__LossReason reason)
{
	return stream_create(subscription, fanout->config.codec, fanout->cpu_of,
			     fanout->config.queue_bytes, since, reason);
}

static bool is_in_log(const struct subscription *subscription, const uint64_t *since)
{
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (since[i] < subscription->floor[i] || since[i] == SINCE_BEGIN)
			return false;
	return true;
}

/* Where nothing is on disk, the record begins when the subscription did; or did in a run of before. */
static void settle_begin(const struct subscription *subscription, uint64_t *since)
{
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (since[i] == SINCE_BEGIN)
			since[i] = subscription->restored ? 0 : reach_seq(subscription->reach, 0, i);
}

static struct stream *create_from_disk(struct fanout *fanout, struct subscription *subscription,
				       const struct catch_up_start *start)
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
				       const struct place *place)
{
	if (subscription->spool.spool && !is_in_log(subscription, place->since))
		return create_from_disk(fanout, subscription,
					&(struct catch_up_start){.since = place->since});
	settle_begin(subscription, place->since);
	/* A log that has given nothing up begins where it began to be recorded, or where the run
	 * before was killed: what that one had read and not sent is gone. */
	return create(fanout, subscription, place->since,
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
static bool may_have_missed(const struct subscription *subscription, const struct waiter *waiter)
{
	if (waiter->place.from != PLACE_CURSOR || waiter->consumer || !subscription->reborn ||
	    frame_log_first(subscription->log) != 0)
		return false;
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (waiter->place.since[i] != UINT64_MAX &&
		    waiter->place.since[i] != subscription->floor[i])
			return false;
	return true;
}

/*
 * The same of a consumer that an earlier run of the daemon recorded nothing for, as it kept nothing on disk,
 * on rings that go on: if they had stood still, no gap of a known size is in its stream.
 */
static bool was_unrecorded(const struct waiter *waiter)
{
	return waiter->consumer && waiter->consumer->unrecorded &&
	       waiter->place.from == PLACE_CURSOR && !waiter->subscription->begins_late;
}

static struct stream *create_of_record(struct fanout *fanout, struct subscription *subscription,
				       const struct place *place)
{
	uint64_t *since = calloc(fanout->rings + 1, sizeof(*since));
	enum place_found found;
	struct stream *stream;

	if (!since)
		return NULL;
	found = place_find_time(fanout, subscription, place->realtime_ns, since);
	if (found == PLACE_FOUND || !subscription->spool.spool)
		stream = create(fanout, subscription, since,
				RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE);
	else
		stream = create_from_disk(fanout, subscription, &(struct catch_up_start){
						  .realtime_ns = place->realtime_ns});
	if (stream && found == PLACE_BEFORE_RECORDING && !subscription->spool.spool)
		stream_miss(stream, subscription->restored ?
				    RINGTAIL__V1__LOSS_REASON__REASON_RESTART :
				    RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED);
	free(since);
	return stream;
}

/* NULL: out of memory. */
static struct stream *create_from_donor(struct fanout *fanout, struct subscription *subscription,
					struct subscription *donor, const struct place *place)
{
	struct stream *from = create_of_record(fanout, donor, place);
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
				     const struct place *place)
{
	struct subscription *donor;
	struct stream *stream;
	bool whole;

	donor = fanout_find_donor(fanout, subscription, place->realtime_ns, &whole);
	if (!donor)
		return create_of_record(fanout, subscription, place);
	stream = create_from_donor(fanout, subscription, donor, place);
	if (stream && !whole)
		stream_miss(stream, RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED);
	/* Its reader is none that comes back, but may be all that has kept it. */
	if (stream)
		donor->linger_until_ns = clock_monotonic() + fanout->config.history_age_ns;
	return stream;
}

static struct stream *create_stream(struct fanout *fanout, struct subscription *subscription,
				    const struct place *place)
{
	switch (place->from) {
	case PLACE_NOW:
		break;
	case PLACE_CURSOR:
		return create_at_cursor(fanout, subscription, place);
	case PLACE_OTHER:
		if (subscription->spool.spool)
			return create_from_disk(fanout, subscription, &(struct catch_up_start){
							.cursor = place->cursor});
		/* How much that was, nobody knows: the stream begins now, with a gap of no size. */
		return create(fanout, subscription, NULL,
			      RINGTAIL__V1__LOSS_REASON__REASON_OTHER_EPOCH);
	case PLACE_TIME:
		return create_at_time(fanout, subscription, place);
	}
	return create(fanout, subscription, NULL, RINGTAIL__V1__LOSS_REASON__REASON_UNKNOWN);
}

/* ---- Joining --------------------------------------------------------------------------------- */

static void wake_session(void *context)
{
	session_wake(context);
}

static void wake_tap(void *context)
{
	struct fanout_tap *tap = context;

	tap->config.wake(tap->config.context);
}

/* From now on all is kept for it that comes after where it begins. */
static void register_place(struct fanout *fanout, struct consumer *consumer,
			   const struct stream *stream)
{
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	struct fanout_positions *positions;

	if (consumer->place.known)
		return;
	positions = fanout_positions_create(fanout);
	if (!positions)
		return;
	fill_cursor(fanout, &cursor, positions);
	for (uint32_t i = 0; i < fanout->rings; i++)
		positions->position[i].seq = stream->ring[i].told;
	consumer_acknowledge(consumer, &cursor, 0);
	consumers_save(fanout->config.consumers);
	free(positions);
}

static void give_to_session(struct fanout *fanout, struct waiter *waiter, struct stream *stream)
{
	struct frame_ref *catalog, *subscribed = NULL;
	struct error error;
	uint32_t probes;

	catalog = fanout_pack_catalog(fanout, &stream->subscription->spec.probes, &probes);
	if (catalog)
		subscribed = pack_subscribed(fanout, stream, &waiter->place, probes);
	if (!subscribed) {
		frame_ref_put(catalog);
		stream_destroy(stream);
		error_set(&error, ENOMEM, "out-of-memory", "the daemon is out of memory");
		waiter_refuse(waiter, &error);
		return;
	}
	stream->owner = (struct stream_owner){wake_session, waiter->session};
	session_subscribed(waiter->session, stream, catalog, subscribed);
}

static void give(struct fanout *fanout, struct waiter *waiter, struct stream *stream)
{
	waiter->stream = NULL;
	if (waiter->session) {
		give_to_session(fanout, waiter, stream);
		return;
	}
	waiter->tap->stream = stream;
	stream->owner = (struct stream_owner){wake_tap, waiter->tap};
	waiter->tap->config.live(waiter->tap->config.context, stream);
}

static void wake_nobody(void *context)
{
	(void)context;
}

bool fanout_join(struct fanout *fanout, struct waiter *waiter)
{
	struct subscription *subscription = waiter->subscription;
	struct stream *stream = create_stream(fanout, subscription, &waiter->place);
	struct error error;

	if (!stream) {
		error_set(&error, ENOMEM, "out-of-memory", "the daemon is out of memory");
		waiter_refuse(waiter, &error);
		return true;
	}
	if (may_have_missed(subscription, waiter) || was_unrecorded(waiter))
		stream_doubt(stream, RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED);
	subscription->linger_until_ns = 0;
	if (waiter->place.from == PLACE_CURSOR || waiter->place.from == PLACE_OTHER)
		counter_add(stream->resumed ? COUNTER_resumes : COUNTER_resumes_with_gap, 1);
	stream->consumer = waiter->consumer;
	if (stream->consumer)
		register_place(fanout, stream->consumer, stream);
	if (waiter->session && session_identity(waiter->session)->role < ROLE_OPERATOR)
		stream_set_rate(stream, fanout->config.viewers.rate);
	if (stream->consumer && !stream->consumer->kept) {
		stream->owner = (struct stream_owner){wake_nobody, NULL};
		waiter->stream = stream;
		return false;
	}
	give(fanout, waiter, stream);
	return true;
}

/* It gets the error and waits no more. A client's registration that was never confirmed is none. */
static void refuse_waiter(struct fanout *fanout, struct waiter *waiter, const struct error *error)
{
	char name[CONSUMER_NAME_BYTES_MAX + 1] = "";
	struct error ignored;

	if (waiter->session && waiter->consumer && !waiter->consumer->kept &&
	    !waiter->consumer->earlier)
		memcpy(name, waiter->consumer->name, sizeof(name));
	waiter_refuse(waiter, error);
	fanout_stop_waiting(fanout, waiter);
	if (name[0])
		fanout_forget_consumer(fanout, name, &ignored);
}

/* An exporter's registration that cannot be kept now is tried again with each save. */
static void take_unkept(struct fanout *fanout, struct waiter *waiter, int err)
{
	struct error error;

	if (!waiter->session) {
		give(fanout, waiter, waiter->stream);
		fanout_stop_waiting(fanout, waiter);
		return;
	}
	error_set(&error, -err, "state-failed", "the durable consumer '%s' cannot be kept: %s",
		  waiter->consumer->name, strerror(-err));
	error_hint(&error, "nothing was registered; see to the disk of state-dir");
	refuse_waiter(fanout, waiter, &error);
}

void fanout_consumers_saved(void *context, int err)
{
	struct fanout *fanout = context;
	struct waiter *waiter, *next;

	for (waiter = TAILQ_FIRST(&fanout->waiters); waiter; waiter = next) {
		next = TAILQ_NEXT(waiter, link);
		if (!waiter->stream)
			continue;
		if (waiter->consumer->kept) {
			give(fanout, waiter, waiter->stream);
			fanout_stop_waiting(fanout, waiter);
		} else if (err) {
			take_unkept(fanout, waiter, err);
		}
	}
}

void fanout_register_again(struct fanout *fanout)
{
	struct waiter *waiter;

	TAILQ_FOREACH(waiter, &fanout->waiters, link)
		if (waiter->stream && !waiter->consumer->saving) {
			register_place(fanout, waiter->consumer, waiter->stream);
			consumers_save(fanout->config.consumers);
			return;
		}
}

void waiter_refuse(struct waiter *waiter, const struct error *error)
{
	struct fanout_tap *tap = waiter->tap;

	if (waiter->consumer)
		waiter->consumer->connected = false;
	if (waiter->session) {
		session_refuse(waiter->session, error, true);
		return;
	}
	tap->config.refused(tap->config.context, error);
	free(tap);
}

void waiter_free(struct waiter *waiter)
{
	stream_destroy(waiter->stream);
	place_free(&waiter->place);
	free(waiter);
}

void fanout_stop_waiting(struct fanout *fanout, struct waiter *waiter)
{
	TAILQ_REMOVE(&fanout->waiters, waiter, link);
	waiter_free(waiter);
}

void fanout_wait(struct fanout *fanout, struct waiter *waiter, struct subscription *subscription)
{
	waiter->subscription = subscription;
	if (subscription->state == SUBSCRIPTION_LIVE && fanout_join(fanout, waiter))
		waiter_free(waiter);
	else
		TAILQ_INSERT_TAIL(&fanout->waiters, waiter, link);
}

static bool is_reborn(const struct fanout *fanout, const struct subscription *subscription)
{
	for (uint32_t i = 0; i < fanout->rings; i++)
		if (subscription->floor[i] + 1 != fanout->gone[i])
			return false;
	return !subscription->restored;
}

void fanout_live(struct fanout *fanout, struct subscription *subscription)
{
	struct waiter *waiter, *next;

	subscription->state = SUBSCRIPTION_LIVE;
	reach_begin(subscription->reach, clock_monotonic(), subscription->floor);
	if (subscription->spool.spool)
		spool_set_recorded(subscription->spool.spool, clock_read(CLOCK_REALTIME));
	subscription->reborn = is_reborn(fanout, subscription);
	if (!subscription->permanent)
		subscription->linger_until_ns =
			clock_monotonic() + fanout->config.history_age_ns;
	if (subscription == fanout->next_permanent)
		fanout_change_permanent(fanout);
	fanout_save(fanout);
	if (fanout->finished)
		fanout_append_bye(fanout, subscription);
	for (waiter = TAILQ_FIRST(&fanout->waiters); waiter; waiter = next) {
		next = TAILQ_NEXT(waiter, link);
		if (waiter->subscription != subscription || waiter->stream)
			continue;
		if (fanout_join(fanout, waiter))
			fanout_stop_waiting(fanout, waiter);
	}
}

void fanout_refused(struct fanout *fanout, const struct subscription *subscription,
		    const struct error *error)
{
	struct waiter *waiter, *next;

	for (waiter = TAILQ_FIRST(&fanout->waiters); waiter; waiter = next) {
		next = TAILQ_NEXT(waiter, link);
		if (subscription && waiter->subscription != subscription)
			continue;
		refuse_waiter(fanout, waiter, error);
	}
}

void fanout_left(struct fanout *fanout, struct stream *stream, bool orderly)
{
	struct subscription *subscription = stream->subscription;

	if (stream->consumer) {
		stream_note_sent(stream, fanout->config.epoch.boot_id, fanout->config.epoch.epoch);
		stream->consumer->connected = false;
	}
	/* The stream itself goes with its owner, in a moment. */
	if (subscription->permanent || TAILQ_FIRST(&subscription->streams) != stream ||
	    TAILQ_NEXT(stream, link))
		return;
	subscription->linger_until_ns =
		clock_monotonic() + (orderly ? 0 : fanout->config.history_age_ns);
	if (orderly)
		fanout_check_soon(fanout);
}
