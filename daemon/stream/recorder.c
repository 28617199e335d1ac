#include "daemon/stream/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"

enum recorder_state {
	RECORDER_HELD,		/* nothing is told to the kernel before all of the run before is back */
	RECORDER_ON,
	RECORDER_STOPPING,	/* nothing is wanted any more */
	RECORDER_LEFT,		/* it is the next run's */
};

struct recorder {
	struct recorder_config config;
	enum recorder_state state;
	struct event *reports;
	struct probe_set metered;			/* as it is to be, */
	struct probe_set metered_asked, metered_had;	/* as last sent, and as last in force */
	uint64_t generation;		/* of the newest configuration sent */
	uint64_t done;			/* and answered, */
	uint64_t joined;		/* and read: the loader was told so */
	bool dirty;			/* another must be sent once that is */
	struct source_stats stats;			/* of the last whole answer */
	bool stats_failed;				/* the last answer was not whole: it is in the log */
	bool hides_comm;		/* filters by name are the daemon's alone, */
	bool hides_texts;		/* and so are those by texts of programs' events */
	recorder_stuck_done *stuck_done;	/* NULL: nobody waits */
	void *stuck_context;
};

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
static bool add_clauses(struct source_request *request, const struct subscription *subscription,
			bool hides_comm)
{
	for (size_t i = 0; i < subscription->clauses; i++) {
		struct rt_filter_clause clause = subscription->clause[i];

		if (hides_comm) {
			clause.comm_op = RT_FILTER_ANY;
			memset(clause.comm, 0, sizeof(clause.comm));
		}
		if (has_clause(request, &clause))
			continue;
		if (request->clauses == RT_FILTER_CLAUSES_MAX)
			return false;
		request->clause[request->clauses++] = clause;
	}
	return subscription->clauses;
}

static bool is_recorded(const struct subscription *subscription)
{
	return subscription->state != SUBSCRIPTION_HELD && subscription->state != SUBSCRIPTION_REMOVING;
}

static void add_subscriptions(const struct recorder *recorder, struct source_request *request,
			      struct probe_set *probes, struct probe_set *unfiltered)
{
	const struct subscription *subscription;

	TAILQ_FOREACH(subscription, recorder->config.wanted, link) {
		if (!is_recorded(subscription))
			continue;
		probe_set_union(probes, &subscription->spec.probes);
		request->flags |= subscription->spec.flags &
				  ~(RT_FLAG_CONTEXT | SPEC_STACK_TABLE);
		if (subscription->spec.file_strings)
			request->flags |= SOURCE_FILE_STRINGS;
		if (!add_clauses(request, subscription, recorder->hides_comm))
			probe_set_union(unfiltered, &subscription->spec.probes);
	}
}

/*
 * Whether the kernel has a subscription's clauses, and nobody else's. It lets through what the filter does and no more,
 * if the filter is no narrower than they are; batcher_plain_probes() asks that.
 */
static bool is_filtered_in_kernel(const struct source_request *request, const struct subscription *subscription)
{
	return !subscription->spec.filter ||
	       (request->clauses == subscription->clauses &&
		memcmp(request->clause, subscription->clause, request->clauses * sizeof(request->clause[0])) == 0);
}

/* What has to be recorded, because somebody wants more of it than how many events there are, or others' filters do. */
static void add_recorded(const struct recorder *recorder, const struct source_request *request,
			 const struct probe_set *unfiltered, struct probe_set *recorded)
{
	const struct subscription *subscription;

	TAILQ_FOREACH(subscription, recorder->config.wanted, link) {
		const struct batcher_spec *spec = &subscription->spec;
		const struct probe_set *plain = is_filtered_in_kernel(request, subscription) ?
							batcher_plain_probes(spec) : NULL;

		if (!is_recorded(subscription))
			continue;
		for (size_t i = 0; i < sizeof(recorded->bits); i++) {
			uint8_t counted = plain ? plain->bits[i] : 0;

			if (spec->filter)
				counted &= (uint8_t)~unfiltered->bits[i];
			recorded->bits[i] |= (uint8_t)(spec->probes.bits[i] & ~counted);
		}
	}
	probe_set_union(recorded, &recorder->metered);
}

static void make_union(struct recorder *recorder, struct source_request *request)
{
	struct probe_set probes = {0}, unfiltered = {0}, recorded = {0};

	memset(request, 0, sizeof(*request));
	recorder->metered_asked = recorder->metered;
	if (recorder->state == RECORDER_STOPPING)
		return;
	add_subscriptions(recorder, request, &probes, &unfiltered);
	add_recorded(recorder, request, &unfiltered, &recorded);
	probe_set_union(&probes, &recorder->metered);
	probe_set_union(&unfiltered, &recorder->metered);
	memcpy(request->probes, probes.bits, sizeof(request->probes));
	memcpy(request->unfiltered, unfiltered.bits, sizeof(request->unfiltered));
	for (size_t i = 0; i < sizeof(request->counted); i++)
		request->counted[i] = (uint8_t)(probes.bits[i] & ~recorded.bits[i]);
	if (probe_set_equal(&probes, &unfiltered))
		request->clauses = 0;
}

/*
 * What of a probe's events the subscriptions want. Those that the filter cannot know, and those of a meter, are wanted all;
 * and so they are where many subscriptions ask.
 */
static void narrow(void *context, uint16_t id, uint32_t words, struct probe_filter *filter)
{
	const struct recorder *recorder = context;
	const struct subscription *subscription;
	unsigned filters = 0;

	filter->asks_texts = !recorder->hides_texts;
	if (probe_set_test(&recorder->metered, id))
		probe_filter_open(filter);
	TAILQ_FOREACH(subscription, recorder->config.wanted, link) {
		if (filter->first == RT_PROGRAM_PASS)
			return;
		if (!is_recorded(subscription) || !probe_set_test(&subscription->spec.probes, id))
			continue;
		if (++filters > PROGRAM_FILTERS_MAX || probe_set_test(&subscription->spec.late, id))
			probe_filter_open(filter);
		else
			filter_narrow(subscription->spec.filter, id, words, filter);
	}
}

/* The kernel has nothing to do with those. */
static void leave_out_programs(struct source_request *request)
{
	memset(request->probes + RT_PROBE_PROGRAM / 8, 0, RT_PROBES_PROGRAM_MAX / 8);
	memset(request->unfiltered + RT_PROBE_PROGRAM / 8, 0, RT_PROBES_PROGRAM_MAX / 8);
}

/* The loader's end is noticed, and told, where its reports are read. */
static void configure(struct recorder *recorder)
{
	struct source_request request;

	if (recorder->state == RECORDER_LEFT)
		return;
	if (recorder->state == RECORDER_HELD || recorder->generation != recorder->done) {
		recorder->dirty = true;
		return;
	}
	recorder->dirty = false;
	make_union(recorder, &request);
	request.generation = ++recorder->generation;
	counter_add(COUNTER_configures, 1);
	if (recorder->config.programs)
		programs_configure(recorder->config.programs, &request, narrow, recorder);
	leave_out_programs(&request);
	if (loader_configure(recorder->config.loader, &request) != 0)
		recorder->config.failed(recorder->config.context);
}

uint64_t recorder_newest(const struct recorder *recorder)
{
	return recorder->dirty ? recorder->generation + 1 : recorder->generation;
}

uint64_t recorder_change(struct recorder *recorder)
{
	configure(recorder);
	return recorder_newest(recorder);
}

uint64_t recorder_in_force(const struct recorder *recorder)
{
	return recorder->done;
}

void recorder_set_meter(struct recorder *recorder, const struct probe_set *probes)
{
	if (probe_set_equal(&recorder->metered, probes))
		return;
	recorder->metered = *probes;
	configure(recorder);
}

void recorder_hide_comm(struct recorder *recorder, bool hide)
{
	if (recorder->hides_comm == hide)
		return;
	recorder->hides_comm = hide;
	configure(recorder);
}

void recorder_hide_texts(struct recorder *recorder, bool hide)
{
	if (recorder->hides_texts == hide)
		return;
	recorder->hides_texts = hide;
	configure(recorder);
}

void recorder_hold(struct recorder *recorder)
{
	recorder->state = RECORDER_HELD;
}

bool recorder_is_held(const struct recorder *recorder)
{
	return recorder->state == RECORDER_HELD;
}

void recorder_resume(struct recorder *recorder)
{
	recorder->state = RECORDER_ON;
	configure(recorder);
}

void recorder_stop(struct recorder *recorder)
{
	recorder->state = RECORDER_STOPPING;
	configure(recorder);
}

void recorder_leave(struct recorder *recorder)
{
	recorder->state = RECORDER_LEFT;
}

/* ---- Refusals: whoever is at fault, and nobody else ---------------------------------------------- */

static bool is_suspect(const struct subscription *subscription, uint64_t generation)
{
	return subscription->state == SUBSCRIPTION_CONFIGURING &&
	       subscription->generation <= generation;
}

static struct subscription *first_suspect(struct recorder *recorder, uint64_t generation)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, recorder->config.wanted, link)
		if (is_suspect(subscription, generation))
			return subscription;
	return NULL;
}

/* Those that came with `first` wait until it is known whether that was refused. */
static bool hold_others(struct recorder *recorder, const struct subscription *first,
			uint64_t generation)
{
	struct subscription *subscription;
	bool any = false;

	TAILQ_FOREACH(subscription, recorder->config.wanted, link)
		if (subscription != first && is_suspect(subscription, generation)) {
			subscription->state = SUBSCRIPTION_HELD;
			any = true;
		}
	return any;
}

static void ask_again(struct recorder *recorder, struct subscription *subscription)
{
	subscription->state = SUBSCRIPTION_CONFIGURING;
	subscription->generation = recorder_change(recorder);
}

static void refuse_meter(struct recorder *recorder, const struct error *error)
{
	log_failure(LOG_LEVEL_ERROR, error);
	log_error("meter-refused", "the probes of some metrics are not recorded: these metrics stay at their values");
	if (probe_set_equal(&recorder->metered, &recorder->metered_asked))
		recorder->metered = recorder->metered_had;
	recorder->metered_asked = recorder->metered_had;
}

/* One of those that were new is to blame. Where there are several, the first is asked for alone. */
static void take_refusal(struct recorder *recorder, const struct loader_report *report)
{
	bool meter = !probe_set_equal(&recorder->metered_asked, &recorder->metered_had);
	struct subscription *first = meter ? NULL : first_suspect(recorder, report->generation);

	if (hold_others(recorder, first, report->generation)) {
		if (first)
			ask_again(recorder, first);
		else
			configure(recorder);
		return;
	}
	if (meter)
		refuse_meter(recorder, &report->error);
	else
		log_failure(LOG_LEVEL_ERROR, &report->error);
	if (first)
		recorder->config.refused(recorder->config.context, first, &report->error);
	/* What was refused may have taken something away, too: again, without what was new. */
	recorder->dirty |= meter || first;
}

static void take_acceptance(struct recorder *recorder, const struct loader_report *report)
{
	struct subscription *subscription;

	recorder->metered_had = recorder->metered_asked;
	TAILQ_FOREACH(subscription, recorder->config.wanted, link)
		if (is_suspect(subscription, report->generation))
			recorder->config.accepted(recorder->config.context, subscription);
}

/* The next of those that wait for their turn. */
static void release_held(struct recorder *recorder)
{
	struct subscription *subscription;

	TAILQ_FOREACH(subscription, recorder->config.wanted, link)
		if (subscription->state == SUBSCRIPTION_HELD) {
			ask_again(recorder, subscription);
			return;
		}
}

/* ---- Joining --------------------------------------------------------------------------------- */

static bool all_have_joined(const struct recorder *recorder)
{
	const struct subscription *subscription;

	TAILQ_FOREACH(subscription, recorder->config.wanted, link)
		if (subscription->state == SUBSCRIPTION_CONFIGURING ||
		    subscription->state == SUBSCRIPTION_HELD ||
		    subscription->state == SUBSCRIPTION_STARTING)
			return false;
	return true;
}

/* The meters are the workers' from their beginning. A loader that is gone is noticed where it is read. */
void recorder_joined(struct recorder *recorder)
{
	if (recorder->joined == recorder->done || recorder->generation != recorder->done ||
	    !all_have_joined(recorder))
		return;
	recorder->joined = recorder->done;
	loader_joined(recorder->config.loader);
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void take_configured(struct recorder *recorder, const struct loader_report *report)
{
	recorder->done = report->generation;
	if (report->err)
		take_refusal(recorder, report);
	else
		take_acceptance(recorder, report);
	if (recorder->generation == recorder->done)
		release_held(recorder);
	if (recorder->generation == recorder->done && recorder->dirty)
		configure(recorder);
	else if (recorder->generation == recorder->done && recorder->state == RECORDER_STOPPING)
		recorder->config.silent(recorder->config.context);
	recorder->config.in_force(recorder->config.context, report->generation);
	recorder_joined(recorder);
}

/* Sums in which something is missing would go down, and up again. */
static void take_stats(struct recorder *recorder, const struct loader_report *report)
{
	if (!report->err)
		recorder->stats = report->stats;
	else if (!recorder->stats_failed)
		log_warn("stats-incomplete", "the loader cannot read all counts of the kernel: %s; recursion_lost and"
			 " maps_too_late stay at their last values until it can", strerror(-report->err));
	recorder->stats_failed = report->err;
}

static void take_stuck(struct recorder *recorder, const struct loader_report *report,
		       const struct error *error)
{
	recorder_stuck_done *done = recorder->stuck_done;

	recorder->stuck_done = NULL;
	if (done)
		done(recorder->stuck_context, report, error);
	else if (report && report->fd >= 0)
		close(report->fd);
}

static void take_gone(struct recorder *recorder)
{
	struct error error;

	event_del(recorder->reports);
	log_error("loader-gone", "the loader process ended: nothing is recorded any more");
	error_set(&error, ECHILD, "loader-gone",
		  "the loader process ended before the kernel recorded what was asked for");
	error_hint(&error, "ask again once ringtaild has restarted; its log says what happened");
	take_stuck(recorder, NULL, &error);
	recorder->config.gone(recorder->config.context, &error);
	recorder->config.failed(recorder->config.context);
	if (recorder->state == RECORDER_STOPPING)
		recorder->config.silent(recorder->config.context);
}

static void on_report(evutil_socket_t fd, short what, void *context)
{
	struct recorder *recorder = context;
	struct loader_report report;

	(void)fd, (void)what;
	while (loader_receive(recorder->config.loader, &report) == 0) {
		switch (report.event) {
		case LOADER_CONFIGURED:
			take_configured(recorder, &report);
			break;
		case LOADER_STATS:
			take_stats(recorder, &report);
			break;
		case LOADER_MADE:
			recorder->config.made(recorder->config.context, &report);
			break;
		case LOADER_STUCK:
			take_stuck(recorder, &report, NULL);
			break;
		case LOADER_FINISHED:
			recorder->config.silent(recorder->config.context);
			break;
		case LOADER_GONE:
			take_gone(recorder);
			break;
		}
	}
}

void recorder_look(struct recorder *recorder)
{
	event_active(recorder->reports, EV_READ, 0);
}

int recorder_ask_stuck(struct recorder *recorder, uint64_t longer_than_ns,
		       recorder_stuck_done *done, void *context)
{
	int err;

	if (recorder->stuck_done)
		return -EBUSY;
	err = loader_ask_stuck(recorder->config.loader, longer_than_ns);
	if (err)
		return err;
	recorder->stuck_done = done;
	recorder->stuck_context = context;
	return 0;
}

void recorder_forget_stuck(struct recorder *recorder)
{
	recorder->stuck_done = NULL;
}

struct source_stats recorder_stats(struct recorder *recorder)
{
	loader_ask_stats(recorder->config.loader);
	return recorder->stats;
}

struct recorder *recorder_create(const struct recorder_config *config)
{
	struct recorder *recorder = calloc(1, sizeof(*recorder));

	if (!recorder)
		return NULL;
	recorder->config = *config;
	recorder->state = RECORDER_ON;
	recorder->reports = event_new(config->base, loader_fd(config->loader), EV_READ | EV_PERSIST,
				      on_report, recorder);
	if (recorder->reports && event_add(recorder->reports, NULL) == 0)
		return recorder;
	recorder_destroy(recorder);
	return NULL;
}

void recorder_destroy(struct recorder *recorder)
{
	if (!recorder)
		return;
	if (recorder->reports)
		event_free(recorder->reports);
	free(recorder);
}
