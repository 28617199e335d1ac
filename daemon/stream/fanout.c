/*
 * fanout: see fanout.h. This file: the workers' mails, and life. fanout_client.c: who asks for what.
 * fanout_request.c: what the kernel records.
 */
#include "daemon/stream/fanout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/stream/fanout_private.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"

#define LINGER_CHECK_S 1

/* ---- Mails ----------------------------------------------------------------------------------- */

static struct subscription *by_index(struct fanout *fanout, uint32_t index)
{
	return index < SUBSCRIPTIONS_MAX ? fanout->by_index[index] : NULL;
}

static void append(struct fanout *fanout, struct subscription *subscription,
		   struct frame_ref *frame)
{
	fanout->wake = true;
	fanout->wake_bytes += frame->bytes;
	subscription_append(subscription, frame);
	fanout_keep_within(fanout);
}

static void take_started(struct fanout *fanout, const struct worker_mail *mail)
{
	struct subscription *subscription = by_index(fanout, mail->subscription);

	for (uint32_t i = 0; i < mail->positions; i++)
		fanout_begin_ring(fanout, subscription, mail->position[i].ring,
				  mail->position[i].seq);
	if (--subscription->workers_pending == 0)
		fanout_live(fanout, subscription);
}

static void take_removed(struct fanout *fanout, const struct worker_mail *mail)
{
	struct subscription *subscription = by_index(fanout, mail->subscription);

	if (--subscription->workers_pending == 0)
		fanout_forget(fanout, subscription);
}

/*
 * The places are where the subscription's log is: whoever has everything before the watermark has
 * that, even where another worker has gone on since it last told the time.
 */
static struct frame_ref *pack_watermark(struct fanout *fanout,
					struct subscription *subscription)
{
	Ringtail__V1__Watermark message = RINGTAIL__V1__WATERMARK__INIT;
	struct cursor_message *places = fanout_places(fanout, subscription->position);
	struct frame_ref *frame;

	if (!places)
		return NULL;
	for (uint32_t i = 0; i < fanout->rings; i++)
		places->position[i].skipped = subscription->quiet[i];
	message.time_ns = fanout->watermark_ns;
	message.position = places->list;
	message.n_position = fanout->rings;
	frame = frame_ref_pack(fanout->config.codec, FRAME_WATERMARK, &message.base);
	free(places);
	if (!frame)
		return NULL;
	frame->time_ns = fanout->watermark_ns;
	frame->made_ns = clock_monotonic();
	memset(subscription->quiet, 0, fanout->rings * sizeof(*subscription->quiet));
	return frame;
}

/* Where there is no memory for one, the next says the same and more. */
static bool append_watermark(struct fanout *fanout, struct subscription *subscription)
{
	struct frame_ref *frame = pack_watermark(fanout, subscription);

	if (frame)
		append(fanout, subscription, frame);
	return frame;
}

/* Time has come as far as the slowest worker has. */
static void take_watermark(struct fanout *fanout, const struct worker_mail *mail)
{
	struct subscription *subscription;
	uint64_t time_ns = UINT64_MAX;

	fanout->worker_time_ns[mail->worker] = mail->time_ns;
	for (unsigned i = 0; i < fanout->config.workers; i++)
		if (fanout->worker_time_ns[i] < time_ns)
			time_ns = fanout->worker_time_ns[i];
	/* An unfinished writer may hold time back; the places are news all the same. */
	if (time_ns > fanout->watermark_ns)
		fanout->watermark_ns = time_ns;
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->ended)
			append_watermark(fanout, subscription);
}

/*
 * What was skipped without a frame is told of before the ring's next frame, which else would seem to
 * come after a hole: the watermark that should have done so found no memory. False: neither does this.
 */
static bool take_frame(struct fanout *fanout, struct worker_mail *mail)
{
	struct subscription *subscription = by_index(fanout, mail->subscription);
	struct frame_ref *frame = mail->frame;

	/* After its Bye, only a writer that was not waited for any longer can still be heard of. */
	if (!subscription || subscription->state == SUBSCRIPTION_REMOVING || subscription->ended) {
		frame_ref_put(frame);
		return true;
	}
	if (frame->bytes && subscription->quiet[frame->ring] &&
	    !append_watermark(fanout, subscription))
		return false;
	append(fanout, subscription, frame);
	return true;
}

/* False: there is no memory for what has to go before it. */
static bool take_mail(struct fanout *fanout, struct worker_mail *mail)
{
	switch (mail->kind) {
	case WORKER_FRAME:
		return take_frame(fanout, mail);
	case WORKER_WATERMARK:
		take_watermark(fanout, mail);
		break;
	case WORKER_STARTED:
		take_started(fanout, mail);
		break;
	case WORKER_REMOVED:
		take_removed(fanout, mail);
		break;
	case WORKER_EMPTIED:
		fanout_drained(fanout);
		break;
	case WORKER_CORRUPT:
		log_error("ring-corrupt",
			  "the ring of CPU %u breaks its own rules and is read no more; restart ringtaild",
			  fanout->cpu_of[mail->ring]);
		break;
	}
	return true;
}

void fanout_wake(struct fanout *fanout)
{
	struct subscription *subscription;
	struct stream *stream, *next;

	fanout->wake = false;
	fanout->wake_bytes = 0;
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		for (stream = TAILQ_FIRST(&subscription->streams); stream; stream = next) {
			next = TAILQ_NEXT(stream, link);
			subscriber_wake(stream->subscriber);
		}
}

/* Many mails may have piled up: none shall be lost to a client that can take them. */
static uint64_t wake_bytes_max(const struct fanout *fanout)
{
	uint64_t half = fanout->config.queue_bytes / 2;

	return half < SEND_TURN_BYTES ? half : SEND_TURN_BYTES;
}

/* Behind those that wait for memory, if any do. */
static void fetch_mails(struct fanout *fanout)
{
	struct mail **end = &fanout->mail;

	while (*end)
		end = &(*end)->next;
	*end = mailbox_take(fanout->config.mailbox);
}

/*
 * One that finds no memory waits, and all behind it, for the next mail or look: a worker whose frames
 * wait too long gives them up as gaps.
 */
static void take_mails(struct fanout *fanout)
{
	while (fanout->mail) {
		struct worker_mail *mine = (struct worker_mail *)fanout->mail;
		struct worker *worker = fanout->config.worker[mine->worker];
		struct mail *next = fanout->mail->next;
		uint64_t bytes = mine->frame ? mine->frame->bytes : 0;

		if (fanout->wake && fanout->wake_bytes + bytes > wake_bytes_max(fanout))
			fanout_wake(fanout);
		if (!take_mail(fanout, mine))
			break;
		fanout->mail = next;
		worker_mail_free(worker, mine, bytes);
	}
	if (fanout->wake)
		fanout_wake(fanout);
}

static void on_mail(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	fetch_mails(context);
	take_mails(context);
}

static void on_read(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	fanout_wake(context);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void on_check(evutil_socket_t fd, short what, void *context)
{
	struct fanout *fanout = context;
	struct subscription *subscription;

	(void)fd, (void)what;
	take_mails(fanout);
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		fanout_poke_readers(subscription);
	fanout_order_again(fanout);
	fanout_register_again(fanout);
	fanout_expire(fanout);
}

void fanout_check_soon(struct fanout *fanout)
{
	event_active(fanout->check, EV_TIMEOUT, 0);
}

static int add_events(struct fanout *fanout)
{
	struct event_base *base = fanout->config.base;
	struct timeval interval = {.tv_sec = LINGER_CHECK_S};

	fanout->mails = event_new(base, mailbox_fd(fanout->config.mailbox), EV_READ | EV_PERSIST,
				  on_mail, fanout);
	fanout->reports = event_new(base, loader_fd(fanout->config.loader), EV_READ | EV_PERSIST,
				    fanout_on_report, fanout);
	fanout->check = event_new(base, -1, EV_PERSIST, on_check, fanout);
	fanout->read = event_new(base, -1, 0, on_read, fanout);
	fanout->turns = past_turns_create(base);
	if (!fanout->mails || !fanout->reports || !fanout->check || !fanout->read ||
	    !fanout->turns ||
	    event_add(fanout->mails, NULL) != 0 || event_add(fanout->reports, NULL) != 0 ||
	    event_add(fanout->check, &interval) != 0)
		return -ENOMEM;
	return 0;
}

int fanout_create(const struct fanout_config *config, struct fanout **out, struct error *error)
{
	struct fanout *fanout = calloc(1, sizeof(*fanout));

	if (!fanout)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	fanout->config = *config;
	fanout->rings = loader_rings(config->loader);
	TAILQ_INIT(&fanout->subscriptions);
	TAILQ_INIT(&fanout->waiting);
	fanout->cpu_of = calloc(fanout->rings + 1, sizeof(*fanout->cpu_of));
	fanout->gone = calloc(fanout->rings + 1, sizeof(*fanout->gone));
	if (!fanout->cpu_of || !fanout->gone || add_events(fanout) != 0) {
		fanout_destroy(fanout);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	for (uint32_t i = 0; i < fanout->rings; i++)
		fanout->cpu_of[i] = loader_ring(config->loader, i)->cpu;
	if (config->spooler)
		spooler_set_holder(config->spooler, fanout_each_held, fanout);
	if (config->consumers)
		consumers_set_saved(config->consumers, fanout_consumers_saved, fanout);
	*out = fanout;
	return 0;
}

static void drop_mails(struct fanout *fanout)
{
	struct mail *next;

	for (; fanout->mail; fanout->mail = next) {
		next = fanout->mail->next;
		frame_ref_put(((struct worker_mail *)fanout->mail)->frame);
		free(fanout->mail);
	}
}

void fanout_destroy(struct fanout *fanout)
{
	struct subscription *subscription;

	if (!fanout)
		return;
	if (fanout->config.spooler)
		spooler_set_holder(fanout->config.spooler, NULL, NULL);
	if (fanout->config.consumers)
		consumers_set_saved(fanout->config.consumers, NULL, NULL);
	while (!TAILQ_EMPTY(&fanout->waiting))
		fanout_leave(fanout, TAILQ_FIRST(&fanout->waiting), false);
	while ((subscription = TAILQ_FIRST(&fanout->subscriptions))) {
		TAILQ_REMOVE(&fanout->subscriptions, subscription, link);
		subscription_destroy(subscription);
	}
	if (fanout->mails)
		event_free(fanout->mails);
	if (fanout->reports)
		event_free(fanout->reports);
	if (fanout->check)
		event_free(fanout->check);
	if (fanout->read)
		event_free(fanout->read);
	past_turns_destroy(fanout->turns);
	drop_mails(fanout);
	free(fanout->cpu_of);
	free(fanout->gone);
	free(fanout);
}

void fanout_set_bounds(struct fanout *fanout, uint64_t history_bytes, uint64_t history_age_ns,
		       uint64_t queue_bytes, uint64_t memory_bytes)
{
	struct subscription *subscription;
	struct stream *stream;

	fanout->config.history_bytes = history_bytes;
	fanout->config.history_age_ns = history_age_ns;
	fanout->config.queue_bytes = queue_bytes;
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link) {
		frame_log_set_bytes_max(subscription->log, fanout_log_bytes(fanout));
		TAILQ_FOREACH(stream, &subscription->streams, link)
			stream->lag_bytes_max = queue_bytes;
	}
	fanout->config.memory_bytes = memory_bytes;
	fanout_keep_within(fanout);
}
