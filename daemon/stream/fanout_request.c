/*
 * fanout_request: what the kernel records, and the life of a subscription:
 *
 *	configuring --CONFIGURED--> starting --STARTED--> live --nobody left--> removing --> gone
 *
 * One configuration is on its way to the loader at a time; changes meanwhile make it dirty.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/stream/fanout_private.h"
#include "daemon/base/log.h"

/* ---- The union ------------------------------------------------------------------------------- */

static bool has_clause(const struct source_request *request, const struct rt_filter_clause *clause)
{
	for (uint32_t i = 0; i < request->clauses; i++)
		if (memcmp(&request->clause[i], clause, sizeof(*clause)) == 0)
			return true;
	return false;
}

/*
 * Many that differ only in what the kernel does not look at take no more room than one. False: the
 * subscription has no clause, or one for which there is no room, so that its probes go unfiltered.
 */
static bool add_clauses(struct source_request *request, const struct subscription *subscription)
{
	for (size_t i = 0; i < subscription->clauses; i++) {
		const struct rt_filter_clause *clause = &subscription->clause[i];

		if (has_clause(request, clause))
			continue;
		if (request->clauses == RT_FILTER_CLAUSES_MAX)
			return false;
		request->clause[request->clauses++] = *clause;
	}
	return subscription->clauses;
}

static void make_union(struct fanout *fanout, struct source_request *request)
{
	const struct subscription *subscription;
	struct probe_set probes = {0}, unfiltered = {0};

	memset(request, 0, sizeof(*request));
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link) {
		if (subscription->state == SUBSCRIPTION_REMOVING || subscription->held ||
		    fanout->stopping)
			continue;
		probe_set_union(&probes, &subscription->spec.probes);
		request->flags |= subscription->spec.flags & ~RT_FLAG_CONTEXT;
		if (subscription->spec.file_strings)
			request->flags |= SOURCE_FILE_STRINGS;
		if (!add_clauses(request, subscription))
			probe_set_union(&unfiltered, &subscription->spec.probes);
	}
	fanout->metered_asked = fanout->metered;
	if (!fanout->stopping && probe_set_count(&fanout->metered)) {
		probe_set_union(&probes, &fanout->metered);
		probe_set_union(&unfiltered, &fanout->metered);
	}
	memcpy(request->probes, probes.bits, sizeof(request->probes));
	memcpy(request->unfiltered, unfiltered.bits, sizeof(request->unfiltered));
	if (probe_set_equal(&probes, &unfiltered))
		request->clauses = 0;
}

/* The loader's end is noticed, and told, where its reports are read. */
void fanout_configure(struct fanout *fanout)
{
	struct source_request request;

	if (fanout->handing_over)
		return;
	if (fanout->restoring || fanout->generation != fanout->generation_done) {
		fanout->dirty = true;
		return;
	}
	fanout->dirty = false;
	make_union(fanout, &request);
	request.generation = ++fanout->generation;
	counter_add(COUNTER_configures, 1);
	if (loader_configure(fanout->config.loader, &request) != 0)
		fanout->config.failed(fanout->config.context);
}

/* The generation that will have in it what has just been changed. */
static uint64_t next_generation(const struct fanout *fanout)
{
	return fanout->dirty ? fanout->generation + 1 : fanout->generation;
}

/* ---- Coming and going ------------------------------------------------------------------------ */

/* The one that its last client left longest ago is not kept for it any longer. False: there is none. */
static bool make_room(struct fanout *fanout)
{
	struct subscription *subscription, *longest = NULL;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->permanent &&
		    !subscription->consumers && TAILQ_EMPTY(&subscription->streams) &&
		    (!longest || subscription->linger_until_ns < longest->linger_until_ns))
			longest = subscription;
	if (!longest)
		return false;
	longest->linger_until_ns = 0;
	fanout_check_soon(fanout);
	return true;
}

/* A hint that is true: where nobody's time is over soon, waiting is no help. */
static void refuse_full(struct fanout *fanout, unsigned used, struct error *error)
{
	bool soon = make_room(fanout);

	error_set(error, ENOSPC, "too-many-subscriptions",
		  "this daemon has %u different subscriptions already", used);
	if (soon)
		error_hint(error, "try again in a moment, or use the same probes and filter as another"
				  " client: equal ones share one");
	else
		error_hint(error, "use the same probes and filter as another client, for equal ones"
				  " share one; or end a client, or `tracectl forget` a durable consumer:"
				  " `tracectl stat` lists them");
}

static int take_index(struct fanout *fanout, struct subscription *subscription,
		      enum fanout_claim claim, struct error *error)
{
	unsigned free_slots = 0, first = 0;

	for (uint32_t i = 0; i < SUBSCRIPTIONS_MAX; i++)
		if (!fanout->by_index[i] && free_slots++ == 0)
			first = i;
	if (free_slots <= (claim >= FANOUT_OWN ? 0 : SUBSCRIPTIONS_OWN)) {
		refuse_full(fanout, SUBSCRIPTIONS_MAX - free_slots, error);
		return -ENOSPC;
	}
	fanout->by_index[first] = subscription;
	subscription->index = first;
	return 0;
}

static struct subscription *find_equal(struct fanout *fanout,
				       const struct subscription *wanted)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->state != SUBSCRIPTION_REMOVING &&
		    subscription_equal(subscription, wanted))
			return subscription;
	return NULL;
}

int fanout_get_subscription(struct fanout *fanout, const struct subscription_request *request,
			    enum fanout_claim claim, struct subscription **out,
			    struct error *error)
{
	struct subscription *subscription, *equal;
	int err = subscription_create(request, loader_catalog(fanout->config.loader),
				      fanout->rings, fanout_log_bytes(fanout), &subscription,
				      error);

	if (err)
		return err;
	equal = find_equal(fanout, subscription);
	if (equal) {
		subscription_destroy(subscription);
		*out = equal;
		return 0;
	}
	err = claim == FANOUT_VIEWERS ? fanout_check_viewers_room(fanout, error) : 0;
	if (!err)
		err = take_index(fanout, subscription, claim, error);
	subscription->viewers = claim == FANOUT_VIEWERS;
	if (err) {
		subscription_destroy(subscription);
		return err;
	}
	/* No part of what it is: an export goes on with the same one, whatever this is. */
	subscription->spec.file_strings = claim == FANOUT_EXPORT && fanout->config.file_strings;
	TAILQ_INSERT_TAIL(&fanout->subscriptions, subscription, link);
	fanout_configure(fanout);
	subscription->generation = next_generation(fanout);
	*out = subscription;
	return 0;
}

/* Where there is no memory for an order, it is given later: see fanout_order_again(). */
static bool has_order(int err)
{
	if (err)
		counter_add(COUNTER_orders_delayed, 1);
	return !err;
}

/* Workers that do not know yet that the subscription starts, or goes, are told. */
static void tell_workers(struct fanout *fanout, struct subscription *subscription)
{
	bool adds = subscription->state == SUBSCRIPTION_STARTING;

	while (subscription->workers_told < fanout->config.workers) {
		struct worker *worker = fanout->config.worker[subscription->workers_told];
		int err = adds ? worker_add_subscription(worker, subscription->index,
							 &subscription->spec) :
				 worker_remove_subscription(worker, subscription->index);

		if (!has_order(err))
			return;
		subscription->workers_told++;
	}
}

static void change_state(struct fanout *fanout, struct subscription *subscription,
			 enum subscription_state state)
{
	subscription->state = state;
	subscription->workers_pending = fanout->config.workers;
	subscription->workers_told = 0;
	tell_workers(fanout, subscription);
}

static void remove_subscription(struct fanout *fanout, struct subscription *subscription)
{
	change_state(fanout, subscription, SUBSCRIPTION_REMOVING);
	fanout_configure(fanout);
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
	fanout_join_waiting(fanout, subscription);
}

void fanout_forget(struct fanout *fanout, struct subscription *subscription)
{
	struct consumer *consumer;

	for (uint32_t i = 0; i < fanout->rings; i++)
		if (fanout->gone[i] <= subscription->position[i])
			fanout->gone[i] = subscription->position[i] + 1;
	if (subscription->consumers)
		TAILQ_FOREACH(consumer, consumers_list(fanout->config.consumers), link)
			if (consumer->subscription == subscription)
				consumer->subscription = NULL;
	if (fanout->next_permanent == subscription)
		fanout->next_permanent = NULL;
	TAILQ_REMOVE(&fanout->subscriptions, subscription, link);
	fanout->by_index[subscription->index] = NULL;
	subscription_destroy(subscription);
	fanout_save(fanout);
}

void fanout_expire(struct fanout *fanout)
{
	uint64_t now = clock_monotonic();
	struct subscription *subscription;

	loader_ask_stats(fanout->config.loader);
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->permanent &&
		    !subscription->consumers && TAILQ_EMPTY(&subscription->streams) &&
		    now >= subscription->linger_until_ns)
			remove_subscription(fanout, subscription);
}

void fanout_end_permanent(struct fanout *fanout, const struct error *error)
{
	fanout_done *done = fanout->permanent.done;

	fanout->permanent.done = NULL;
	fanout->permanent.generation = 0;
	if (done)
		done(fanout->permanent.context, error);
}

int fanout_set_permanent(struct fanout *fanout, const struct subscription_request *request,
			 fanout_done *done, void *context, struct error *error)
{
	struct subscription *subscription = NULL;
	int err;

	if (fanout->stopping)
		return error_set(error, ESHUTDOWN, "shutting-down", "the daemon is shutting down");
	if (fanout->permanent.done)
		return error_set(error, EBUSY, "too-many-changes",
				 "another change of what is always on is on its way");
	if (request) {
		err = fanout_get_subscription(fanout, request, FANOUT_OWN, &subscription, error);
		if (!err)
			err = fanout_keep_on_disk(fanout, subscription, NULL, error);
		if (err)
			return err;
		subscription->permanent = true;
	}
	/* What was always on stays on until what is to be is recorded. */
	fanout->next_permanent = subscription;
	fanout->permanent.done = done;
	fanout->permanent.context = context;
	fanout->permanent.generation = 0;
	if (!subscription || subscription->state == SUBSCRIPTION_LIVE)
		fanout_change_permanent(fanout);
	return 0;
}

void fanout_change_permanent(struct fanout *fanout)
{
	struct subscription *other;

	TAILQ_FOREACH(other, &fanout->subscriptions, link) {
		if (other->permanent && other != fanout->next_permanent) {
			other->linger_until_ns = 0;
			if (other->spool.spool)
				spool_set_always_on(other->spool.spool, false);
		}
		other->permanent = other == fanout->next_permanent;
	}
	fanout->next_permanent = NULL;
	fanout_expire(fanout);
	fanout->permanent.generation = next_generation(fanout);
	if (fanout->permanent.generation <= fanout->generation_done)
		fanout_end_permanent(fanout, NULL);
}

void fanout_set_meter(struct fanout *fanout, const struct probe_set *probes)
{
	if (probe_set_equal(&fanout->metered, probes))
		return;
	fanout->metered = *probes;
	fanout_configure(fanout);
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void tell_drain(struct fanout *fanout)
{
	while (fanout->drains_untold &&
	       has_order(worker_empty(fanout->config.worker[fanout->drains_untold - 1])))
		fanout->drains_untold--;
}

static void drain(struct fanout *fanout)
{
	fanout->drains_pending = fanout->drains_untold = fanout->config.workers;
	tell_drain(fanout);
}

void fanout_order_again(struct fanout *fanout)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->state == SUBSCRIPTION_STARTING ||
		    subscription->state == SUBSCRIPTION_REMOVING)
			tell_workers(fanout, subscription);
	tell_drain(fanout);
}

/* ---- Refusals: whoever is at fault, and nobody else ---------------------------------------------- */

static bool is_suspect(const struct subscription *subscription, uint64_t generation)
{
	return subscription->state == SUBSCRIPTION_CONFIGURING && !subscription->held &&
	       subscription->generation <= generation;
}

static struct subscription *first_suspect(struct fanout *fanout, uint64_t generation)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (is_suspect(subscription, generation))
			return subscription;
	return NULL;
}

/* Those that came with `first` wait until it is known whether that was refused. */
static bool hold_others(struct fanout *fanout, const struct subscription *first,
			uint64_t generation)
{
	struct subscription *subscription;
	bool any = false;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription != first && is_suspect(subscription, generation))
			any = subscription->held = true;
	return any;
}

static void ask_again(struct fanout *fanout, struct subscription *subscription)
{
	subscription->held = false;
	fanout_configure(fanout);
	subscription->generation = next_generation(fanout);
}

static void refuse_meter(struct fanout *fanout, const struct error *error)
{
	log_failure(LOG_LEVEL_ERROR, error);
	log_error("meter-refused", "what metrics are made of is not recorded: they show less");
	if (probe_set_equal(&fanout->metered, &fanout->metered_asked))
		fanout->metered = fanout->metered_had;
	fanout->metered_asked = fanout->metered_had;
}

/* What was always on stays so, where this was to take its place. */
static void refuse(struct fanout *fanout, struct subscription *subscription,
		   const struct error *error)
{
	bool was_next = subscription == fanout->next_permanent;

	log_failure(LOG_LEVEL_ERROR, error);
	fanout_refused(fanout, subscription, error);
	fanout_forget(fanout, subscription);
	if (was_next)
		fanout_end_permanent(fanout, error);
}

/* One of those that were new is to blame. Where there are several, the first is asked for alone. */
static void take_refusal(struct fanout *fanout, const struct loader_report *report)
{
	bool meter = !probe_set_equal(&fanout->metered_asked, &fanout->metered_had);
	struct subscription *first = meter ? NULL : first_suspect(fanout, report->generation);

	if (hold_others(fanout, first, report->generation)) {
		if (first)
			ask_again(fanout, first);
		else
			fanout_configure(fanout);
		return;
	}
	if (meter)
		refuse_meter(fanout, &report->error);
	else if (first)
		refuse(fanout, first, &report->error);
	else
		log_failure(LOG_LEVEL_ERROR, &report->error);
	/* What was refused may have taken something away, too: again, without what was new. */
	if (meter || first)
		fanout->dirty = true;
}

static void take_acceptance(struct fanout *fanout, const struct loader_report *report)
{
	struct subscription *subscription;

	fanout->metered_had = fanout->metered_asked;
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (is_suspect(subscription, report->generation))
			change_state(fanout, subscription, SUBSCRIPTION_STARTING);
}

/* The next of those that wait for their turn. */
static void release_held(struct fanout *fanout)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->held) {
			ask_again(fanout, subscription);
			return;
		}
}

static void take_configured(struct fanout *fanout, const struct loader_report *report)
{
	fanout->generation_done = report->generation;
	if (report->err)
		take_refusal(fanout, report);
	else
		take_acceptance(fanout, report);
	if (fanout->generation == fanout->generation_done)
		release_held(fanout);
	if (fanout->generation == fanout->generation_done && fanout->dirty)
		fanout_configure(fanout);
	else if (fanout->generation == fanout->generation_done && fanout->stopping &&
		 !fanout->handing_over && !fanout->drains_pending)
		drain(fanout);
	if (fanout->permanent.generation && fanout->permanent.generation <= report->generation)
		fanout_end_permanent(fanout, NULL);
}

/* It took its producers with it; what they wrote is still in the rings. */
static void take_gone(struct fanout *fanout)
{
	struct error error;

	event_del(fanout->reports);
	log_error("loader-gone", "the loader process ended: nothing is recorded any more");
	error_set(&error, ECHILD, "loader-gone",
		  "the loader process ended before the kernel recorded what was asked for");
	error_hint(&error, "ask again once ringtaild has restarted; its log says what happened");
	fanout_refused(fanout, NULL, &error);
	fanout_end_permanent(fanout, &error);
	fanout->config.failed(fanout->config.context);
	if (fanout->stopping && !fanout->handing_over && !fanout->drains_pending)
		drain(fanout);
}

void fanout_on_report(evutil_socket_t fd, short what, void *context)
{
	struct fanout *fanout = context;
	struct loader_report report;

	(void)fd, (void)what;
	while (loader_receive(fanout->config.loader, &report) == 0) {
		switch (report.event) {
		case LOADER_CONFIGURED:
			take_configured(fanout, &report);
			break;
		case LOADER_STATS:
			fanout->source_stats = report.stats;
			break;
		case LOADER_FINISHED:
			if (!fanout->drains_pending)
				drain(fanout);
			break;
		case LOADER_GONE:
			take_gone(fanout);
			break;
		}
	}
}

struct source_stats fanout_source_stats(struct fanout *fanout)
{
	loader_ask_stats(fanout->config.loader);
	return fanout->source_stats;
}

/* ---- The end --------------------------------------------------------------------------------- */

void fanout_append_bye(struct fanout *fanout, struct subscription *subscription)
{
	Ringtail__V1__Bye message = RINGTAIL__V1__BYE__INIT;
	struct cursor_message *end = fanout_places(fanout, subscription->position);
	struct frame_ref *frame;

	if (!end)
		return;			/* the connection's end tells as much */
	message.reason = fanout->stopping ? fanout->bye_reason : SOURCE_ENDED;
	message.final = !fanout->stopping;
	message.end = &end->cursor;
	frame = frame_ref_pack(fanout->config.codec, FRAME_BYE, &message.base);
	free(end);
	if (!frame)
		return;
	subscription_append(subscription, frame);
	fanout->wake = true;
}

void fanout_drained(struct fanout *fanout)
{
	void (*stopped)(void *) = fanout->stopping ? fanout->stopped : NULL;
	struct subscription *subscription;

	if (--fanout->drains_pending)
		return;
	fanout->finished = true;
	TAILQ_FOREACH(subscription, &fanout->subscriptions, link)
		if (subscription->state == SUBSCRIPTION_LIVE && !subscription->ended)
			fanout_append_bye(fanout, subscription);
	if (stopped) {
		fanout->stopped = NULL;
		stopped(fanout->stopped_context);
	}
}

void fanout_stop(struct fanout *fanout, const char *reason, void (*done)(void *context),
		 void *context)
{
	struct error error;

	error_set(&error, ESHUTDOWN, "shutting-down", "the daemon is shutting down");
	fanout_refused(fanout, NULL, &error);
	fanout->stopping = true;
	fanout_end_permanent(fanout, &error);
	snprintf(fanout->bye_reason, sizeof(fanout->bye_reason), "%s", reason);
	fanout->stopped = done;
	fanout->stopped_context = context;
	fanout_configure(fanout);
}
