#include "daemon/stream/fanout.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/collect/redaction.h"
#include "daemon/stream/durable.h"
#include "daemon/stream/making.h"
#include "daemon/stream/past.h"
#include "daemon/stream/recorder.h"
#include "daemon/stream/subscriptions.h"

/* Between two looks at what changes by itself, in ns: where a mail comes; where none does. */
#define CHECK_NS	(NS_PER_S * 9 / 10)
#define CHECK_LATE_NS	(NS_PER_S * 3 / 2)
#define ASK_IDLE_NS	(5 * NS_PER_S)		/* between two questions to the loader, if nothing happens */
#define SOURCE_ENDED "the source has ended"

/*
 *	RUNNING --the source ends--> ENDED
 *	   |                           |
 *	   +--------fanout_stop()------+--> STOPPING --the rings are drained--> STOPPED
 */
enum fanout_state {
	FANOUT_RUNNING,
	FANOUT_ENDED,			/* what the rings held is out: a Bye ends every log */
	FANOUT_STOPPING,		/* nothing is taken in; what the rings hold goes out */
	FANOUT_STOPPED,			/* the same as ENDED */
};

struct fanout {
	struct fanout_config config;
	enum fanout_state state;
	struct rings rings;
	struct recorder *recorder;
	const struct redaction *redaction;	/* borrowed; NULL: nothing is hidden */
	struct making *making;
	struct subscriptions subscriptions;
	struct durable durable;
	struct subscribers subscribers;

	uint64_t worker_time_ns[WORKERS_MAX];
	uint64_t watermark_ns;
	struct mail *mail;		/* from workers, the oldest of which waits for memory */
	bool wake;			/* something was appended, */
	uint64_t wake_bytes;		/* so many bytes of it */

	unsigned drains_pending;
	unsigned drains_untold;		/* workers that are still to be told to drain */
	bool relay_refused;		/* its consumer cannot be registered: it is in the log */
	char bye_reason[64];
	void (*stopped)(void *context);
	void *stopped_context;

	struct event *mails, *check;
	uint64_t checked_ns, asked_ns;		/* when each was done last */
	uint64_t beats;				/* of all workers, at the last check */
	struct event *read;		/* some stream has frames off the disk */
};

/* ---- The end --------------------------------------------------------------------------------- */

static void append_bye(struct fanout *fanout, struct subscription *subscription)
{
	Ringtail__V1__Bye message = RINGTAIL__V1__BYE__INIT;
	struct cursor_message *end = rings_message(&fanout->rings, subscription->position);
	struct frame_ref *frame;

	if (!end)
		return;			/* the connection's end tells as much */
	message.reason = fanout->state >= FANOUT_STOPPING ? fanout->bye_reason : SOURCE_ENDED;
	message.final = fanout->state < FANOUT_STOPPING;
	message.end = &end->cursor;
	frame = frame_ref_pack(fanout->config.codec, FRAME_BYE, &message.base);
	free(end);
	if (!frame)
		return;
	subscription_append(subscription, frame);
	fanout->wake = true;
}

static void take_emptied(struct fanout *fanout)
{
	bool stopping = fanout->state >= FANOUT_STOPPING;
	void (*stopped)(void *) = stopping ? fanout->stopped : NULL;
	struct subscription *subscription;

	if (--fanout->drains_pending)
		return;
	fanout->state = stopping ? FANOUT_STOPPED : FANOUT_ENDED;
	TAILQ_FOREACH(subscription, &fanout->subscriptions.list, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->ended)
			append_bye(fanout, subscription);
	if (stopped) {
		fanout->stopped = NULL;
		stopped(fanout->stopped_context);
	}
}

static void tell_drain(struct fanout *fanout)
{
	while (fanout->drains_untold) {
		if (worker_empty(fanout->config.worker[fanout->drains_untold - 1]) != 0) {
			counter_add(COUNTER_orders_delayed, 1);
			return;			/* it is told later */
		}
		fanout->drains_untold--;
	}
}

/* Nothing more comes into the rings. */
static void on_silent(void *context)
{
	struct fanout *fanout = context;

	if (fanout->drains_pending)
		return;
	fanout->drains_pending = fanout->drains_untold = fanout->config.workers;
	tell_drain(fanout);
}

/* ---- Mails ----------------------------------------------------------------------------------- */

static void append(struct fanout *fanout, struct subscription *subscription,
		   struct frame_ref *frame)
{
	fanout->wake = true;
	fanout->wake_bytes += frame->bytes;
	subscription_append(subscription, frame);
	subscriptions_keep_within(&fanout->subscriptions);
}

static void take_answer(struct fanout *fanout, const struct worker_mail *mail)
{
	struct subscription *subscription =
		subscriptions_at(&fanout->subscriptions, mail->subscription);

	for (uint32_t i = 0; i < mail->positions; i++)
		subscriptions_begin_ring(&fanout->subscriptions, subscription,
					 mail->position[i].ring, mail->position[i].seq);
	subscriptions_answered(&fanout->subscriptions, subscription);
}

/* Of a slice that goes on, the workers still hold what they have counted: it is told of at its end. */
static uint64_t told_ns(const struct fanout *fanout, const struct subscription *subscription)
{
	const struct question *question = subscription->spec.question;
	uint64_t slice_ns = question ? question_slice(question, fanout->watermark_ns) : 0;

	return slice_ns ? slice_ns : fanout->watermark_ns;
}

/*
 * The places are where the subscription's log is: whoever has everything before the watermark has
 * that, even where another worker has gone on since it last told the time.
 */
static struct frame_ref *pack_watermark(struct fanout *fanout, struct subscription *subscription)
{
	Ringtail__V1__Watermark message = RINGTAIL__V1__WATERMARK__INIT;
	struct cursor_message *places = rings_message(&fanout->rings, subscription->position);
	uint64_t time_ns = told_ns(fanout, subscription);
	struct frame_ref *frame;

	if (!places)
		return NULL;
	for (uint32_t i = 0; i < fanout->rings.n; i++)
		places->position[i].skipped = subscription->quiet[i];
	message.time_ns = time_ns;
	message.position = places->list;
	message.n_position = fanout->rings.n;
	frame = frame_ref_pack(fanout->config.codec, FRAME_WATERMARK, &message.base);
	free(places);
	if (!frame)
		return NULL;
	frame->time_ns = subscription->watermark_ns = time_ns;
	frame->made_ns = clock_monotonic();
	memset(subscription->quiet, 0, fanout->rings.n * sizeof(*subscription->quiet));
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

/* Who is sent what was counted hears of the time when a slice is over, and no more often. */
static void append_time(struct fanout *fanout, struct subscription *subscription)
{
	const struct question *question = subscription->spec.question;

	if (!question || !question_slice(question, fanout->watermark_ns) ||
	    told_ns(fanout, subscription) != subscription->watermark_ns)
		append_watermark(fanout, subscription);
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
	TAILQ_FOREACH(subscription, &fanout->subscriptions.list, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->ended)
			append_time(fanout, subscription);
}

/*
 * What was skipped without a frame is told of before the ring's next frame, which else would seem to
 * come after a hole: the watermark that should have done so found no memory. False: neither does this.
 */
static bool take_frame(struct fanout *fanout, struct worker_mail *mail)
{
	struct subscription *subscription =
		subscriptions_at(&fanout->subscriptions, mail->subscription);
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
	case WORKER_REMOVED:
		take_answer(fanout, mail);
		break;
	case WORKER_EMPTIED:
		take_emptied(fanout);
		break;
	case WORKER_CORRUPT:
		log_error("ring-corrupt",
			  "the ring of CPU %u breaks its own rules and is read no more; restart ringtaild",
			  fanout->rings.cpu_of[mail->ring]);
		break;
	}
	return true;
}

/* Every stream's owner. */
static void wake(struct fanout *fanout)
{
	struct subscription *subscription;
	struct stream *stream, *next;

	fanout->wake = false;
	fanout->wake_bytes = 0;
	TAILQ_FOREACH(subscription, &fanout->subscriptions.list, link)
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
			wake(fanout);
		if (!take_mail(fanout, mine))
			break;
		fanout->mail = next;
		worker_mail_free(worker, mine, bytes);
	}
	if (fanout->wake)
		wake(fanout);
}

static void on_read(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	wake(context);
}

/* ---- What becomes of subscriptions ------------------------------------------------------------- */

static void on_accepted(void *context, struct subscription *subscription)
{
	struct fanout *fanout = context;

	subscriptions_start(&fanout->subscriptions, subscription);
}

/* What was always on stays so, where this was to take its place. */
static void on_refused(void *context, struct subscription *subscription, const struct error *error)
{
	struct fanout *fanout = context;
	bool was_next = subscription == fanout->subscriptions.permanent.next;

	subscribers_refuse(&fanout->subscribers, subscription, error);
	subscriptions_forget(&fanout->subscriptions, subscription);
	if (was_next)
		subscriptions_end_permanent(&fanout->subscriptions, error);
}

static void on_in_force(void *context, uint64_t generation)
{
	struct fanout *fanout = context;

	subscriptions_in_force(&fanout->subscriptions, generation);
}

static void tell_made(struct fanout *fanout)
{
	if (fanout->config.made)
		fanout->config.made(fanout->config.context);
}

static void on_made(void *context, const struct loader_report *report)
{
	struct fanout *fanout = context;

	making_take(fanout->making, report);
	tell_made(fanout);
}

static void on_gone(void *context, const struct error *error)
{
	struct fanout *fanout = context;

	making_fail(fanout->making, error);
	tell_made(fanout);
	subscribers_refuse(&fanout->subscribers, NULL, error);
	subscriptions_end_permanent(&fanout->subscriptions, error);
}

static void on_failed(void *context)
{
	struct fanout *fanout = context;

	fanout->config.failed(fanout->config.context);
}

/*
 * Whoever joins was not told the maps of processes that were told before; a request, though it is the
 * same as the one before, makes the kernel's side tell them again.
 */
static void tell_maps(struct fanout *fanout, const struct subscription *subscription)
{
	if (probe_set_test(&subscription->spec.probes, RT_PROBE_PROCESS_MAP) &&
	    fanout->state != FANOUT_ENDED && fanout->state != FANOUT_STOPPED)
		recorder_change(fanout->recorder);
}

/*
 * What is always on is the relay's from here on, whether one is there or not. `begins`: it has just become live, and
 * what of it has been read already is the relay's, too.
 */
static void register_relay(struct fanout *fanout, bool begins)
{
	struct subscription *always = subscriptions_permanent(&fanout->subscriptions);
	struct error error = {0};

	if (!fanout->config.dials_relay || !always)
		return;
	if (durable_register_relay(&fanout->durable, always, begins ? always->floor : always->position,
				   &error) == 0) {
		fanout->relay_refused = false;
	} else if (!fanout->relay_refused) {
		fanout->relay_refused = true;
		log_error("relay-unregistered", "until the relay connects, the spool keeps no events for it: [%s] %s;"
			  " %s", error.code, error.what, error.hint);
	}
}

static void on_live(void *context, struct subscription *subscription)
{
	struct fanout *fanout = context;

	register_relay(fanout, subscription->permanent);
	if (fanout->state == FANOUT_ENDED || fanout->state == FANOUT_STOPPED)
		append_bye(fanout, subscription);
	subscribers_join(&fanout->subscribers, subscription);
	tell_maps(fanout, subscription);
}

static void on_going(void *context, struct subscription *subscription)
{
	struct fanout *fanout = context;

	durable_lose(&fanout->durable, subscription);
}

static void on_check_soon(void *context)
{
	struct fanout *fanout = context;

	event_active(fanout->check, EV_TIMEOUT, 0);
}

/* Not from inside the reader's own call: whoever is woken may destroy it. */
static void on_frames_read(void *context)
{
	struct fanout *fanout = context;

	event_active(fanout->read, EV_TIMEOUT, 0);
}

/* ---- Life ------------------------------------------------------------------------------------ */

/*
 * With the mail of a worker's heartbeat, if it comes in time: each wake-up of an idle engine is dear. The timer repeats
 * by itself (EV_PERSIST): if it cannot be put off, the next check comes too early, and never not at all.
 */
static bool set_check(struct fanout *fanout)
{
	struct timeval late = {.tv_sec = CHECK_LATE_NS / NS_PER_S, .tv_usec = CHECK_LATE_NS % NS_PER_S / 1000};

	fanout->checked_ns = clock_monotonic();
	return event_add(fanout->check, &late) == 0;
}

/* At once where something happened, else seldom: to be asked wakes the loader, whose answer wakes us. */
static void ask_what_was_refused(struct fanout *fanout)
{
	uint64_t now = clock_monotonic(), beats = 0;

	for (unsigned i = 0; i < fanout->config.workers; i++)
		beats += worker_beats(fanout->config.worker[i]);
	if (beats - fanout->beats > fanout->config.workers || now - fanout->asked_ns >= ASK_IDLE_NS) {
		loader_ask_stats(fanout->config.loader);
		fanout->asked_ns = now;
	}
	fanout->beats = beats;
}

static void check(struct fanout *fanout)
{
	struct subscription *subscription;

	set_check(fanout);
	TAILQ_FOREACH(subscription, &fanout->subscriptions.list, link)
		durable_poke(subscription);
	subscriptions_order_again(&fanout->subscriptions);
	tell_drain(fanout);
	subscribers_register_again(&fanout->subscribers);
	register_relay(fanout, false);
	ask_what_was_refused(fanout);
	subscriptions_expire(&fanout->subscriptions);
}

static void on_check(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	take_mails(context);
	check(context);
}

static void on_mail(evutil_socket_t fd, short what, void *context)
{
	struct fanout *fanout = context;

	(void)fd, (void)what;
	fetch_mails(fanout);
	take_mails(fanout);
	if (clock_monotonic() - fanout->checked_ns >= CHECK_NS)
		check(fanout);
}

/* The log is history and every client's queue at once: it reaches as far back as either. */
static uint64_t log_bytes(const struct fanout_config *config)
{
	return config->history_bytes > config->queue_bytes ? config->history_bytes :
							     config->queue_bytes;
}

static bool add_events(struct fanout *fanout)
{
	struct event_base *base = fanout->config.base;

	fanout->mails = event_new(base, mailbox_fd(fanout->config.mailbox), EV_READ | EV_PERSIST,
				  on_mail, fanout);
	fanout->check = event_new(base, -1, EV_PERSIST, on_check, fanout);
	fanout->read = event_new(base, -1, 0, on_read, fanout);
	return fanout->mails && fanout->check && fanout->read && event_add(fanout->mails, NULL) == 0 &&
	       set_check(fanout);
}

static bool make_rings(struct fanout *fanout)
{
	struct rings *rings = &fanout->rings;

	rings->run = fanout->config.run;
	rings->n = loader_rings(fanout->config.loader);
	rings->cpu_of = calloc(rings->n + 1, sizeof(*rings->cpu_of));
	for (uint32_t i = 0; rings->cpu_of && i < rings->n; i++)
		rings->cpu_of[i] = loader_ring(fanout->config.loader, i)->cpu;
	return rings->cpu_of;
}

static bool make_subscriptions(struct fanout *fanout)
{
	const struct fanout_config *config = &fanout->config;
	struct subscriptions *subscriptions = &fanout->subscriptions;
	struct subscriptions_config mine = {
		.worker = config->worker, .workers = config->workers,
		.catalog = loader_catalog(config->loader), .codec = config->codec,
		.rings = &fanout->rings, .history_age_ns = config->history_age_ns,
		.log_bytes = log_bytes(config), .memory_bytes = config->memory_bytes,
		.file_strings = config->file_strings, .viewers = config->viewers,
		.saved = config->saved, .live = on_live, .going = on_going,
		.check_soon = on_check_soon, .context = fanout,
	};
	struct recorder_config recorder = {
		.base = config->base, .loader = config->loader, .programs = config->programs, .wanted = &subscriptions->list,
		.accepted = on_accepted, .refused = on_refused, .in_force = on_in_force,
		.made = on_made, .silent = on_silent, .gone = on_gone, .failed = on_failed, .context = fanout,
	};

	if (subscriptions_init(subscriptions, &mine) != 0)
		return false;
	subscriptions->recorder = fanout->recorder = recorder_create(&recorder);
	if (fanout->recorder)
		fanout->making = making_create(config->loader, fanout->recorder);
	subscriptions->making = fanout->making;
	return fanout->making;
}

static bool make_subscribers(struct fanout *fanout)
{
	const struct fanout_config *config = &fanout->config;

	fanout->durable = (struct durable){
		.spooler = config->spooler, .consumers = config->consumers,
		.subscriptions = &fanout->subscriptions, .rings = &fanout->rings,
		.hello = config->hello, .hello_context = config->context,
		.read = on_frames_read, .context = fanout,
	};
	fanout->subscribers.durable = &fanout->durable;
	fanout->subscribers.maker = (struct stream_maker){
		.rings = &fanout->rings, .subscriptions = &fanout->subscriptions,
		.turns = past_turns_create(config->base), .queue_bytes = config->queue_bytes,
	};
	if (config->spooler)
		spooler_set_holder(config->spooler, durable_each_held, &fanout->durable);
	if (config->consumers)
		consumers_set_saved(config->consumers, subscribers_saved, &fanout->subscribers);
	return fanout->subscribers.maker.turns;
}

int fanout_create(const struct fanout_config *config, struct fanout **out, struct error *error)
{
	struct fanout *fanout = calloc(1, sizeof(*fanout));

	if (!fanout)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	fanout->config = *config;
	TAILQ_INIT(&fanout->subscriptions.list);
	TAILQ_INIT(&fanout->subscribers.waiting);
	if (!make_rings(fanout) || !make_subscriptions(fanout) || !make_subscribers(fanout) ||
	    !add_events(fanout)) {
		fanout_destroy(fanout);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
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
	struct subscribers *subscribers;

	if (!fanout)
		return;
	subscribers = &fanout->subscribers;
	if (fanout->config.spooler)
		spooler_set_holder(fanout->config.spooler, NULL, NULL);
	if (fanout->config.consumers)
		consumers_set_saved(fanout->config.consumers, NULL, NULL);
	while (!TAILQ_EMPTY(&subscribers->waiting))
		subscribers_leave(subscribers, TAILQ_FIRST(&subscribers->waiting), false);
	subscriptions_fini(&fanout->subscriptions);
	making_destroy(fanout->making);
	recorder_destroy(fanout->recorder);
	if (fanout->mails)
		event_free(fanout->mails);
	if (fanout->check)
		event_free(fanout->check);
	if (fanout->read)
		event_free(fanout->read);
	past_turns_destroy(subscribers->maker.turns);
	drop_mails(fanout);
	free(fanout->rings.cpu_of);
	free(fanout);
}

void fanout_set_bounds(struct fanout *fanout, uint64_t history_bytes, uint64_t history_age_ns,
		       uint64_t queue_bytes, uint64_t memory_bytes)
{
	struct subscriptions *subscriptions = &fanout->subscriptions;
	struct subscription *subscription;
	struct stream *stream;

	fanout->config.history_bytes = history_bytes;
	fanout->config.queue_bytes = queue_bytes;
	fanout->subscribers.maker.queue_bytes = queue_bytes;
	subscriptions->config.history_age_ns = history_age_ns;
	subscriptions->config.memory_bytes = memory_bytes;
	subscriptions_set_log_bytes(subscriptions, log_bytes(&fanout->config));
	TAILQ_FOREACH(subscription, &subscriptions->list, link)
		TAILQ_FOREACH(stream, &subscription->streams, link)
			stream->lag_bytes_max = queue_bytes;
	subscriptions_keep_within(subscriptions);
}

/* ---- Stopping -------------------------------------------------------------------------------- */

static void begin_stop(struct fanout *fanout, const char *reason, void (*done)(void *context),
		       void *context)
{
	struct error error;

	error_set(&error, ESHUTDOWN, "shutting-down", "the daemon is shutting down");
	subscribers_refuse(&fanout->subscribers, NULL, &error);
	fanout->state = fanout->state == FANOUT_ENDED ? FANOUT_STOPPED : FANOUT_STOPPING;
	fanout->subscribers.closed = true;
	fanout->subscriptions.saving = false;
	subscriptions_end_permanent(&fanout->subscriptions, &error);
	snprintf(fanout->bye_reason, sizeof(fanout->bye_reason), "%s", reason);
	fanout->stopped = done;
	fanout->stopped_context = context;
}

void fanout_stop(struct fanout *fanout, const char *reason, void (*done)(void *context),
		 void *context)
{
	begin_stop(fanout, reason, done, context);
	recorder_stop(fanout->recorder);
}

void fanout_hand_over(struct fanout *fanout, const char *reason, void (*done)(void *context),
		      void *context)
{
	recorder_leave(fanout->recorder);
	begin_stop(fanout, reason, done, context);
	fanout->drains_pending = fanout->config.workers;
	for (unsigned i = 0; i < fanout->config.workers; i++)
		if (worker_leave(fanout->config.worker[i]) != 0)
			take_emptied(fanout);		/* what it holds is the next run's */
}

/* ---- The door -------------------------------------------------------------------------------- */

int fanout_prepare(struct fanout *fanout, const struct client_identity *identity, char *const *spec,
		   size_t specs, bool again, struct error *error)
{
	return subscriptions_prepare(&fanout->subscriptions, subscription_claim_of(identity), spec,
				     specs, again, error);
}

bool fanout_knows(const struct fanout *fanout, const struct client_identity *identity, const char *spec)
{
	return subscriptions_knows(&fanout->subscriptions, subscription_owner_of(identity), spec);
}

void fanout_make_now(struct fanout *fanout, const char *spec)
{
	subscriptions_make_now(&fanout->subscriptions, spec);
}

int fanout_subscribe(struct fanout *fanout, struct subscriber *subscriber,
		     const struct subscribe_request *request, struct error *error)
{
	int err;

	/* It asks for what is always on now, whatever that was when it was here last. */
	if (subscriber->identity && subscriber->identity->proof == IDENTITY_RELAY)
		register_relay(fanout, false);
	err = subscribers_add(&fanout->subscribers, subscriber, request, error);
	if (!err && subscriber->state == SUBSCRIBER_LIVE)
		tell_maps(fanout, subscriber->stream->subscription);
	return err;
}

void fanout_leave(struct fanout *fanout, struct subscriber *subscriber, bool orderly)
{
	subscribers_leave(&fanout->subscribers, subscriber, orderly);
}

int fanout_ack(struct fanout *fanout, struct subscriber *subscriber, const struct cursor *upto,
	       struct error *error)
{
	return subscribers_ack(&fanout->subscribers, subscriber, upto, error);
}

int fanout_set_permanent(struct fanout *fanout, const struct subscription_request *request,
			 permanent_done *done, void *context, struct error *error)
{
	struct subscriptions *subscriptions = &fanout->subscriptions;
	struct subscription *subscription = NULL;
	int err;

	if (fanout->state >= FANOUT_STOPPING)
		return error_set(error, ESHUTDOWN, "shutting-down", "the daemon is shutting down");
	err = subscriptions_check_permanent(subscriptions, error);
	if (!err && request)
		err = subscriptions_get(subscriptions, request, CLAIM_OWN, &subscription, error);
	if (!err && request)
		err = durable_keep(&fanout->durable, subscription, NULL, error);
	if (!err)
		subscriptions_set_permanent(subscriptions, subscription, done, context);
	if (!err)
		register_relay(fanout, false);
	return err;
}

bool fanout_take_late(struct fanout *fanout, const Ringtail__V1__Probe *probe)
{
	return subscriptions_take_late(&fanout->subscriptions, probe);
}

void fanout_set_meter(struct fanout *fanout, const struct probe_set *probes)
{
	recorder_set_meter(fanout->recorder, probes);
}

void fanout_set_viewers(struct fanout *fanout, const struct viewer_bounds *viewers)
{
	subscriptions_set_viewers(&fanout->subscriptions, viewers);
}

void fanout_set_redaction(struct fanout *fanout, const struct redaction *redaction)
{
	fanout->redaction = redaction;
	recorder_hide_comm(fanout->recorder, redaction_hides_comm(redaction));
	recorder_hide_texts(fanout->recorder, redaction_rules(redaction));
}

const struct redaction *fanout_redaction(const struct fanout *fanout)
{
	return fanout->redaction;
}

int fanout_ask_stuck(struct fanout *fanout, uint64_t longer_than_ns, recorder_stuck_done *done,
		     void *context)
{
	return recorder_ask_stuck(fanout->recorder, longer_than_ns, done, context);
}

void fanout_forget_stuck(struct fanout *fanout)
{
	recorder_forget_stuck(fanout->recorder);
}

int fanout_may_ask_stuck(const struct fanout *fanout, const struct client_identity *identity,
			 struct error *error)
{
	return subscriptions_may_ask(&fanout->subscriptions, subscription_claim_of(identity),
				     "syscall:*:call", RT_FLAG_KSTACK, error);
}

int fanout_may_see(const struct fanout *fanout, const struct client_identity *identity,
		   const struct subscription_request *what, struct error *error)
{
	return subscriptions_may_see(&fanout->subscriptions, subscription_claim_of(identity), what,
				     error);
}

struct source_stats fanout_source_stats(struct fanout *fanout)
{
	return recorder_stats(fanout->recorder);
}

int fanout_may_consume(const struct fanout *fanout, const char *name,
		       const struct client_identity *identity, bool *registers, struct error *error)
{
	return durable_may_consume(&fanout->durable, name, identity, registers, error);
}

int fanout_may_forget(const struct fanout *fanout, const char *name,
		      const struct client_identity *identity, struct error *error)
{
	return durable_may_forget(&fanout->durable, name, identity, error);
}

int fanout_forget_consumer(struct fanout *fanout, const char *name, struct error *error)
{
	int err = durable_forget(&fanout->durable, name, error);

	/* The relay's begins anew, now. */
	if (!err)
		register_relay(fanout, false);
	return err;
}

int fanout_restore_consumers(struct fanout *fanout, struct error *error)
{
	return durable_restore(&fanout->durable, error);
}

void fanout_each_consumer(const struct fanout *fanout,
			  void (*each)(void *context, const struct consumer_stat *stat),
			  void *context)
{
	durable_each(&fanout->durable, each, context);
}

int fanout_restore(struct fanout *fanout, struct error *error)
{
	return subscriptions_restore(&fanout->subscriptions, error);
}

int fanout_adopt(struct fanout *fanout, struct error *error)
{
	return subscriptions_adopt(&fanout->subscriptions, error);
}
