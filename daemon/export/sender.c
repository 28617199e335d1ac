#include "daemon/export/sender.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/export/intake.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/base/random.h"

/* A body on its way, and the events that are in it (none: it has points of metrics). */
struct request {
	TAILQ_ENTRY(request) link;
	uint8_t *body;
	size_t bytes;
	uint64_t items;			/* as the back end counts */
	uint64_t events;		/* as we do */
	uint64_t held_bytes;		/* of memory, for as long as it waits */
	uint64_t realtime_ns;		/* of metrics: the time of all its points */
	struct export_list list;
	bool sent;			/* before */
	bool is_part;			/* of one that was refused */
	bool was_aside;
	bool is_oldest;			/* of those aside it was, and is asked about before what is newer */
	uint64_t number;		/* the older, the lower; parts have that of the whole */
};

struct export_sender {
	struct export_sender_config config;
	struct export_counts counts;
	struct export_intake *intake;
	struct export_arena arena;
	struct export_list queue;
	uint64_t queue_events;
	uint64_t queued_ns;		/* when the oldest of the queue came */
	TAILQ_HEAD(request_list, request) requests;	/* the first is sent, or waits to be sent again */
	struct request_list aside;	/* refused alone, and nothing else was accepted since */
	uint64_t requests_events, requests_held_bytes;	/* of both */
	struct export_call *call;
	uint64_t retry_ns;		/* when to send the first, whichever that is then */
	unsigned failures;		/* since something was accepted, or refused for what it is */
	unsigned busy;			/* 429s, one after the other */
	bool accepts;			/* something was accepted since a whole request was refused */
	unsigned asked;			/* refused alone since it was waited, or something was accepted */
	unsigned splits;		/* of the push of metrics whose parts are being sent */
	uint64_t number;		/* of the newest request */
	bool flush;
	bool rest;			/* the queue begins in the middle of a frame */
	struct event *timer;
	const char *header[CONFIG_WORDS_MAX + 8];	/* all there can be, and a kind's own */
	unsigned headers;
	char type[64], encoding[64];
};

static void pump(struct export_sender *sender);

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	pump(context);
}

static void set_headers(struct export_sender *sender)
{
	const struct export_sender_config *config = &sender->config;
	unsigned room = sizeof(sender->header) / sizeof(sender->header[0]);
	const char *const *more = config->kind->headers;

	snprintf(sender->type, sizeof(sender->type), "Content-Type: application/x-protobuf");
	snprintf(sender->encoding, sizeof(sender->encoding), "Content-Encoding: %s",
		 export_encoding_name(config->kind->encoding));
	sender->header[sender->headers++] = sender->type;
	sender->header[sender->headers++] = sender->encoding;
	for (; more && *more && sender->headers < room; more++)
		sender->header[sender->headers++] = *more;
	for (unsigned i = 0; i < config->headers_count && sender->headers < room; i++)
		sender->header[sender->headers++] = config->headers[i];
}

struct export_sender *export_sender_create(const struct export_sender_config *config)
{
	struct export_sender *sender = calloc(1, sizeof(*sender));

	if (!sender)
		return NULL;
	sender->config = *config;
	/* No disk holds metrics: their queue is all there is. */
	sender->config.spooled = config->spooled && config->kind->build;
	TAILQ_INIT(&sender->queue);
	TAILQ_INIT(&sender->requests);
	TAILQ_INIT(&sender->aside);
	set_headers(sender);
	sender->timer = event_new(config->base, -1, 0, on_timer, sender);
	if (config->kind->build)
		sender->intake = export_intake_create(config->host, config->kind,
						      config->events_per_s);
	if (sender->timer && (sender->intake || !config->kind->build) &&
	    (!sender->config.spooled || export_intake_track(sender->intake) == 0))
		return sender;
	export_sender_destroy(sender);
	return NULL;
}

static void free_events(struct export_list *list)
{
	struct export_event *event;

	while ((event = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, event, link);
		export_event_destroy(event);
	}
}

/* The first request of a list is over, however it went. */
static void drop_first(struct export_sender *sender, struct request_list *of)
{
	struct request *request = TAILQ_FIRST(of);

	TAILQ_REMOVE(of, request, link);
	sender->requests_events -= request->events;
	sender->requests_held_bytes -= request->held_bytes;
	free_events(&request->list);
	free(request->body);
	free(request);
}

static void drop_request(struct export_sender *sender)
{
	drop_first(sender, &sender->requests);
}

void export_sender_destroy(struct export_sender *sender)
{
	if (!sender)
		return;
	if (sender->call)
		export_http_cancel(sender->call);
	while (!TAILQ_EMPTY(&sender->requests))
		drop_request(sender);
	while (!TAILQ_EMPTY(&sender->aside))
		drop_first(sender, &sender->aside);
	free_events(&sender->queue);
	export_intake_destroy(sender->intake);
	export_arena_fini(&sender->arena);
	if (sender->timer)
		event_free(sender->timer);
	free(sender);
}

/* ---- States ---------------------------------------------------------------------------------- */

static void note_error(struct export_sender *sender, const char *error)
{
	snprintf(sender->counts.error, sizeof(sender->counts.error), "%s", error);
	sender->counts.error_realtime_ns = clock_read(CLOCK_REALTIME);
}

static void set_state(struct export_sender *sender, enum export_state state, const char *error)
{
	bool same = sender->counts.state == state;

	sender->counts.state = state;
	if (error)
		note_error(sender, error);
	if (same)
		return;
	if (state == EXPORT_OK)
		log_info("export-ok", "%s: accepts what is sent", sender->config.name);
	else if (state == EXPORT_RETRYING)
		log_warn("export-retrying", "%s: %s: trying again", sender->config.name, error);
	else if (state == EXPORT_HELD)
		log_error("export-held", "%s: %s: nothing is accepted; what export-queue-size%s"
			  " is kept, and sent once that is mended: look at the URL, export-header"
			  " and export-ca, and at the back end's settings", sender->config.name,
			  error, sender->config.spooled ? " and the spool hold" : " holds");
}

/* ---- Requests -------------------------------------------------------------------------------- */

/* Its body is all there is of it: events wait beside theirs. */
static bool is_of_metrics(const struct request *request)
{
	return TAILQ_EMPTY(&request->list);
}

static uint64_t held_bytes(const struct request *request)
{
	return request->bytes +
	       (is_of_metrics(request) ? 0 : request->events * sizeof(struct export_event));
}

/*
 * Compresses a body into a request of those events, or of points of metrics, all of that time. NULL:
 * there is no memory, they are lost.
 */
static struct request *make_request(struct export_sender *sender, int built,
				    struct export_body *body, struct export_list *list,
				    uint64_t events, uint64_t realtime_ns)
{
	struct request *request = calloc(1, sizeof(*request));

	if (!request || built != 0 ||
	    export_compress(sender->config.kind->encoding, body->data, body->bytes,
			    &request->body, &request->bytes) != 0) {
		free(request);
		free_events(list);
		sender->counts.memory += events;
		if (built == 0)
			free(body->data);
		return NULL;
	}
	free(body->data);
	request->items = body->items;
	request->events = events;
	request->number = ++sender->number;
	request->realtime_ns = realtime_ns;
	TAILQ_INIT(&request->list);
	TAILQ_CONCAT(&request->list, list, link);
	request->held_bytes = held_bytes(request);
	sender->requests_events += events;
	sender->requests_held_bytes += request->held_bytes;
	return request;
}

/*
 * A request of the first events of a list, so many at most; of one run, for a body says once of which
 * host and boot it is. *taken: how many those are. NULL: there is no memory, they are lost.
 */
static struct request *build_request(struct export_sender *sender, struct export_list *from,
				     uint64_t events_max, uint64_t *taken)
{
	struct export_run *run = export_run_get(TAILQ_FIRST(from)->run);
	struct export_maker maker = {run, &sender->arena, export_run_to_realtime(run)};
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_event *event;
	struct export_body body = {0};
	struct request *request;
	uint64_t events = 0;

	while (events < events_max && (event = TAILQ_FIRST(from)) != NULL && event->run == run) {
		TAILQ_REMOVE(from, event, link);
		TAILQ_INSERT_TAIL(&list, event, link);
		events++;
	}
	*taken = events;
	request = make_request(sender, sender->config.kind->build(&maker, &list, &body), &body,
			       &list, events, 0);
	export_run_put(run);
	return request;
}

/*
 * Whether a frame is cut between these two. Nothing of it is acknowledged before all of it is accepted, and
 * a kill until then makes what was accepted come again: so its rest does not wait for others to go with it.
 */
static bool is_cut(const struct export_event *last, const struct export_event *next)
{
	return last && next && next->frames && next->frame <= last->frame;
}

/* Of the oldest events that are in none yet. */
static void add_request(struct export_sender *sender)
{
	uint64_t events;
	struct request *request = build_request(sender, &sender->queue, EXPORT_BATCH_EVENTS,
						&events);

	sender->queue_events -= events;
	sender->queued_ns = clock_monotonic();
	sender->rest = request && is_cut(TAILQ_LAST(&request->list, export_list),
					 TAILQ_FIRST(&sender->queue));
	if (request)
		TAILQ_INSERT_TAIL(&sender->requests, request, link);
}

/* So many points of a push of metrics, from that one on. NULL: there is no memory, they are lost. */
static struct request *part_of(struct export_sender *sender, const uint8_t *raw, size_t bytes,
			       uint64_t from, uint64_t points, uint64_t realtime_ns)
{
	struct export_list none = TAILQ_HEAD_INITIALIZER(none);
	struct export_body body = {0};
	int err = raw ? sender->config.kind->build_part(raw, bytes, from, points, &body) : -ENOMEM;

	return make_request(sender, err, &body, &none, points, realtime_ns);
}

/* NULL: there was no memory for it. */
static void put_halves(struct export_sender *sender, struct request *half[2], uint64_t number)
{
	for (int i = 1; i >= 0; i--)
		if (half[i]) {
			half[i]->is_part = true;
			half[i]->number = number;
			TAILQ_INSERT_HEAD(&sender->requests, half[i], link);
		}
}

/* Of metrics: the body is all there is of it. */
static void split_points(struct export_sender *sender)
{
	struct request *request = TAILQ_FIRST(&sender->requests), *half[2];
	uint64_t points = request->events, realtime_ns = request->realtime_ns, number = request->number;
	uint8_t *raw = NULL;
	size_t bytes = 0;

	if (export_compress_undo(sender->config.kind->encoding, request->body, request->bytes,
				 &raw, &bytes) != 0)
		raw = NULL;
	drop_request(sender);
	half[0] = part_of(sender, raw, bytes, 0, points / 2, realtime_ns);
	half[1] = part_of(sender, raw, bytes, points / 2, points - points / 2, realtime_ns);
	free(raw);
	put_halves(sender, half, number);
}

/* The first request becomes two, of half its events each. */
static void split_events(struct export_sender *sender)
{
	struct request *request = TAILQ_FIRST(&sender->requests), *half[2];
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	uint64_t events = request->events, number = request->number, taken;

	TAILQ_CONCAT(&list, &request->list, link);
	drop_request(sender);
	half[0] = build_request(sender, &list, events / 2, &taken);
	half[1] = build_request(sender, &list, events - events / 2, &taken);
	put_halves(sender, half, number);
}

/* ---- Answers --------------------------------------------------------------------------------- */

uint64_t export_retry_ns(unsigned tries, uint64_t asked_ns)
{
	uint64_t wait = EXPORT_RETRY_NS_MIN, chance;

	while (--tries && wait < EXPORT_RETRY_NS_MAX)
		wait *= 2;
	if (wait > EXPORT_RETRY_NS_MAX)
		wait = EXPORT_RETRY_NS_MAX;
	if (random_bytes(&chance, sizeof(chance)) == 0)
		wait = wait / 2 + chance % (wait / 2);
	if (asked_ns > EXPORT_RETRY_AFTER_NS_MAX)
		asked_ns = EXPORT_RETRY_AFTER_NS_MAX;
	return asked_ns > wait ? asked_ns : wait;
}

/* How long to wait is the destination's: the first request may be given up meanwhile. */
static void try_again(struct export_sender *sender, const struct export_answer *answer,
		      enum export_state state, const char *error)
{
	struct request *request = TAILQ_FIRST(&sender->requests);

	sender->accepts = false;
	sender->asked = 0;
	sender->retry_ns = clock_monotonic() +
			   export_retry_ns(++sender->failures, answer->retry_after_ns);
	if (!answer->status && answer->sent)
		counter_add(COUNTER_export_items_resent, request->events);
	set_state(sender, state, error);
}

/* What was refused, in words: the event, where it is one. */
static void say_rejected(const struct export_sender *sender, const struct request *request,
			 uint64_t rejected, const char *error)
{
	const struct export_event *event = TAILQ_FIRST(&request->list);
	char line[EXPORT_BODY_BYTES] = "";

	if (request->events == 1 && event)
		export_event_body(event, line);
	log_warn("export-rejected", "%s: %s: %llu of a request of %llu refused: lost, not sent"
		 " again%s%.300s", sender->config.name, error, (unsigned long long)rejected,
		 (unsigned long long)request->events, line[0] ? ": " : "", line);
}

/* The first request of a list is lost. */
static void reject(struct export_sender *sender, struct request_list *of, uint64_t rejected,
		   const char *error)
{
	sender->counts.rejected += rejected;
	set_state(sender, EXPORT_REJECTING, error);
	say_rejected(sender, TAILQ_FIRST(of), rejected, error);
	drop_first(sender, of);
}

/*
 * Something was accepted: what was refused alone before is asked about once more, the oldest first, for meanwhile
 * somebody may have mended the back end. What is refused alone again is so for what it is.
 */
static void judge_aside(struct export_sender *sender)
{
	sender->accepts = true;
	sender->asked = 0;
}

/* A whole body, but for so many: where an event makes more items than one, those may be of fewer. */
static void settle_accepted(struct export_sender *sender, uint64_t rejected, const char *error)
{
	struct request *request = TAILQ_FIRST(&sender->requests);

	if (rejected > request->events)
		rejected = request->events;
	sender->counts.accepted += request->events - rejected;
	sender->counts.accepted_realtime_ns = clock_read(CLOCK_REALTIME);
	if (rejected) {
		reject(sender, &sender->requests, rejected, error);
	} else {
		set_state(sender, EXPORT_OK, NULL);
		drop_request(sender);
	}
	judge_aside(sender);
}

/* Behind those that are as old, before those that are newer. */
static void insert_aside(struct export_sender *sender, struct request *request)
{
	struct request *before = TAILQ_LAST(&sender->aside, request_list);

	while (before && before->number > request->number)
		before = TAILQ_PREV(before, request_list, link);
	if (before)
		TAILQ_INSERT_AFTER(&sender->aside, before, request, link);
	else
		TAILQ_INSERT_HEAD(&sender->aside, request, link);
}

/*
 * After a wait, and when something was accepted, the oldest that was refused alone is asked about before what
 * is newer: Prometheus takes no sample of a series once it has a newer one. If it is accepted now, so go all
 * that are aside, in their order. If it is not, the others have their turn.
 */
static void ask_oldest_again(struct export_sender *sender)
{
	struct request *oldest = TAILQ_FIRST(&sender->aside), *first = TAILQ_FIRST(&sender->requests);

	/* One whose answer is still to come is older. */
	if (!oldest || sender->asked || (first && first->is_oldest))
		return;
	oldest->is_oldest = true;
	TAILQ_REMOVE(&sender->aside, oldest, link);
	TAILQ_INSERT_HEAD(&sender->requests, oldest, link);
}

/*
 * The first request, which cannot be split, is refused, and nothing was accepted since a whole one was:
 * a server with a wrong path, or that takes no writes, answers 400 to all alike. It waits for what
 * becomes of the next. If that goes on, or there is no next, all of them wait.
 */
static void set_aside(struct export_sender *sender, const struct export_answer *answer,
		      const char *error)
{
	struct request *request = TAILQ_FIRST(&sender->requests);
	unsigned most = sender->failures ? EXPORT_ASIDE_AGAIN : EXPORT_ASIDE_MAX;

	request->was_aside = true;	/* its next refusal says nothing of the others */
	request->is_oldest = false;
	TAILQ_REMOVE(&sender->requests, request, link);
	insert_aside(sender, request);
	note_error(sender, error);
	if (++sender->asked < most && (sender->queue_events || !TAILQ_EMPTY(&sender->requests)))
		return;
	try_again(sender, answer, EXPORT_HELD, error);
}

/* A server that wants TLS says so of every request that comes without, as a 400. */
static bool wants_tls(const struct export_sender *sender, long status,
		      const struct export_verdict *verdict)
{
	return status == 400 && strncmp(sender->config.url, "http:", 5) == 0 &&
	       strcasestr(verdict->message, "https");
}

/* The first request becomes two: false if it is one event, or one push has been split often enough. */
static bool split(struct export_sender *sender)
{
	const struct request *request = TAILQ_FIRST(&sender->requests);

	if (request->events <= 1)
		return false;
	if (!is_of_metrics(request)) {
		split_events(sender);
		return true;
	}
	if (!request->is_part)
		sender->splits = 0;
	if (sender->splits++ >= EXPORT_METRIC_SPLITS_MAX)
		return false;
	split_points(sender);
	return true;
}

/* The back end may well call it too old: nothing will mend that, and what is new is behind it. */
static bool is_old(const struct request *request)
{
	const struct export_event *event = TAILQ_FIRST(&request->list);
	uint64_t then = event ? event->time_ns + export_run_to_realtime(event->run) :
				request->realtime_ns;

	return then + EXPORT_OLD_NS < clock_read(CLOCK_REALTIME);
}

/*
 * A push of metrics has one time: where that is too old, it is so for each point, and to ask of parts of
 * it is in vain. Each event has its own.
 */
static bool is_refused_as_one(const struct request *request, const struct export_verdict *verdict)
{
	return is_of_metrics(request) &&
	       (verdict->late == EXPORT_TOO_OLD || (verdict->late && is_old(request)));
}

/* Something that is in it, or all of it. */
static void refuse(struct export_sender *sender, const struct export_answer *answer,
		   const struct export_verdict *verdict, const char *error)
{
	const struct request *request = TAILQ_FIRST(&sender->requests);

	if (!request->is_part && !request->was_aside)
		sender->accepts = false;
	if (!is_refused_as_one(request, verdict) && split(sender))
		return;
	if (!sender->accepts && !(verdict->late && is_old(request))) {
		set_aside(sender, answer, error);
		return;
	}
	sender->failures = 0;
	reject(sender, &sender->requests, request->events, error);
}

/* Busy, time and again: it may be too much at once for the rate that it takes. */
static void send_later(struct export_sender *sender, const struct export_answer *answer,
		 enum export_state state, const char *error)
{
	try_again(sender, answer, state, error);
	sender->busy = answer->status == 429 ? sender->busy + 1 : 0;
	if (sender->busy >= EXPORT_BUSY_TRIES && split(sender))
		sender->failures = sender->busy = 0;
}

static void follow(struct export_sender *sender, const struct export_answer *answer,
		   const struct export_verdict *verdict, const char *error)
{
	switch (verdict->outcome) {
	case EXPORT_RETRY:
		send_later(sender, answer, EXPORT_RETRYING, error);
		break;
	case EXPORT_HOLD:
		send_later(sender, answer, EXPORT_HELD, error);
		break;
	case EXPORT_REJECTED:
		refuse(sender, answer, verdict, error);
		break;
	case EXPORT_ACCEPTED:
		sender->failures = sender->busy = 0;
		sender->retry_ns = 0;
		settle_accepted(sender, verdict->rejected, error);
		break;
	}
}

static void on_answer(void *context, const struct export_answer *answer)
{
	struct export_sender *sender = context;
	struct export_verdict verdict = {.outcome = EXPORT_RETRY};
	char error[160];

	sender->call = NULL;
	if (answer->status) {
		sender->config.kind->judge(answer->status, answer->body, answer->bytes, &verdict);
		if (wants_tls(sender, answer->status, &verdict))
			verdict.outcome = EXPORT_HOLD;
		snprintf(error, sizeof(error), "HTTP %ld%s%s", answer->status,
			 verdict.message[0] ? ": " : "", verdict.message);
	} else {
		if (answer->mistrusted)
			verdict.outcome = EXPORT_HOLD;
		snprintf(error, sizeof(error), "%s", answer->error ? answer->error : "no answer");
	}
	/* Its first line said yes: what else it would have said is lost, what was sent is not. */
	if (verdict.outcome == EXPORT_ACCEPTED && answer->error)
		note_error(sender, "the answer was cut short after its status");
	follow(sender, answer, &verdict, error);
	pump(sender);
}

static void send_first(struct export_sender *sender)
{
	const struct export_sender_config *config = &sender->config;
	struct request *request = TAILQ_FIRST(&sender->requests);
	struct export_post post = {
		.url = config->url,
		.headers = sender->header,
		.headers_count = sender->headers,
		.body = request->body,
		.bytes = request->bytes,
		.timeout_ns = config->timeout_ns,
		.done = on_answer,
		.context = sender,
	};

	if (request->sent)
		sender->counts.retries++;
	request->sent = true;
	sender->counts.requests++;
	sender->counts.bytes += request->bytes;
	sender->call = export_http_post(config->http, &post);
	if (!sender->call) {
		const struct export_answer none = {0};

		try_again(sender, &none, EXPORT_RETRYING, "out of memory");
	}
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

static uint64_t queued_bytes(const struct export_sender *sender)
{
	return sender->queue_events * sizeof(struct export_event) + sender->requests_held_bytes;
}

/* The oldest go: those of the request that waits to be sent again, then of the queue. */
static void keep_bound(struct export_sender *sender)
{
	while (!sender->config.spooled && queued_bytes(sender) > sender->config.queue_bytes_max) {
		struct export_event *event = TAILQ_FIRST(&sender->queue);

		if (!TAILQ_EMPTY(&sender->aside)) {
			sender->counts.expired += TAILQ_FIRST(&sender->aside)->events;
			drop_first(sender, &sender->aside);
		} else if (!sender->call && !TAILQ_EMPTY(&sender->requests)) {
			sender->counts.expired += TAILQ_FIRST(&sender->requests)->events;
			drop_request(sender);
		} else if (event) {
			TAILQ_REMOVE(&sender->queue, event, link);
			export_event_destroy(event);
			sender->queue_events--;
			sender->counts.expired++;
		} else {
			return;		/* what is being sent now is more than the bound */
		}
	}
}

/* ---- What to do next ------------------------------------------------------------------------- */

const struct export_counts *export_sender_counts(struct export_sender *sender)
{
	sender->counts.queued = sender->queue_events + sender->requests_events;
	if (sender->intake) {
		sender->counts.queued += export_intake_waiting(sender->intake);
		sender->counts.settled_frame = export_intake_settled_frame(sender->intake);
	}
	sender->counts.queued_bytes = queued_bytes(sender);
	return &sender->counts;
}

static void wake_at(struct export_sender *sender, uint64_t now_ns, uint64_t at_ns)
{
	uint64_t us = at_ns > now_ns ? (at_ns - now_ns) / 1000 + 1 : 0;
	struct timeval after = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

	event_add(sender->timer, &after);
}

static void pump_requests(struct export_sender *sender)
{
	while (!sender->call) {
		uint64_t now = clock_monotonic();

		if (sender->retry_ns > now) {
			wake_at(sender, now, sender->retry_ns);
			return;
		}
		if (!TAILQ_EMPTY(&sender->requests) || sender->queue_events)
			ask_oldest_again(sender);
		if (!TAILQ_EMPTY(&sender->requests)) {
			send_first(sender);
			continue;
		}
		if (!sender->queue_events) {
			/* All there is was refused alone, and it is time to ask again. */
			if (TAILQ_EMPTY(&sender->aside))
				return;
			TAILQ_CONCAT(&sender->requests, &sender->aside, link);
			continue;
		}
		if (sender->queue_events < EXPORT_BATCH_EVENTS && !sender->flush && !sender->rest &&
		    now < sender->queued_ns + EXPORT_BATCH_NS) {
			wake_at(sender, now, sender->queued_ns + EXPORT_BATCH_NS);
			return;
		}
		add_request(sender);
	}
}

static void pump(struct export_sender *sender)
{
	keep_bound(sender);
	pump_requests(sender);
	sender->config.changed(sender->config.context);
}

/* ---- What comes in --------------------------------------------------------------------------- */

static void enqueue(struct export_sender *sender, struct export_list *list,
		    const struct export_intake_counts *counts)
{
	struct export_event *event;

	sender->counts.taken += counts->taken;
	sender->counts.filtered += counts->filtered;
	sender->counts.memory += counts->memory;
	if (!sender->queue_events)
		sender->queued_ns = clock_monotonic();
	TAILQ_FOREACH(event, list, link)
		sender->queue_events++;
	TAILQ_CONCAT(&sender->queue, list, link);
	pump(sender);
}

void export_sender_frame(struct export_sender *sender, uint64_t serial, const uint8_t *frame,
			 size_t bytes, uint64_t events)
{
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_intake_counts counts = {0};

	export_intake_frame(sender->intake, serial, frame, bytes, events, &list, &counts);
	sender->counts.decoded_frame = serial;
	enqueue(sender, &list, &counts);
}

void export_sender_metrics(struct export_sender *sender, const struct metric_snapshot *snapshot)
{
	struct export_maker maker = {sender->config.host->run, &sender->arena, 0};
	struct export_list none = TAILQ_HEAD_INITIALIZER(none);
	struct export_body body = {0};
	struct request *request;

	sender->counts.taken += snapshot->points;
	request = make_request(sender,
			       sender->config.kind->build_metrics(&maker, snapshot, &body), &body,
			       &none, snapshot->points, snapshot->realtime_ns);
	if (request)
		TAILQ_INSERT_TAIL(&sender->requests, request, link);
	pump(sender);
}

void export_sender_flush(struct export_sender *sender)
{
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_intake_counts counts = {0};

	sender->flush = true;
	if (sender->intake)
		export_intake_flush(sender->intake, &list, &counts);
	enqueue(sender, &list, &counts);
}
