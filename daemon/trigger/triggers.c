#include "daemon/trigger/triggers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/export/event.h"
#include "daemon/export/http.h"
#include "daemon/net/address.h"
#include "daemon/trigger/call.h"
#include "daemon/trigger/rule.h"
#include "query/quantity.h"

#define RATE_SLOTS	10u	/* of a second, in which matches are counted */
#define RATE_SLOTS_KEPT	64u	/* rings are read one after the other: what comes may be older than what came */
#define SLOT_NS		(NS_PER_S / RATE_SLOTS)
#define FIRST_BYTES	512	/* of the event that made it fire, as text */

enum state {
	QUIET,
	FIRED,
};

/* How many matches each of the last tenths of a second had, by the times of the events. */
struct rate {
	uint64_t slot;			/* the newest, since the clock's 0 */
	uint64_t matches[RATE_SLOTS_KEPT];	/* by slot, modulo */
};

struct trigger {
	struct triggers *triggers;
	struct trigger_rule rule;
	struct client_identity identity;
	struct subscriber subscriber;
	struct stream *stream;		/* NULL: its probes are not recorded yet, or were refused */
	struct event *timer;		/* `every` is over; or, refused, it is asked for again */
	enum state state;
	struct rate rate;
	struct dump *dump, *enabled;	/* being written; or NULL */
	bool retired;			/* its rule is gone: it goes with the last of these */
	uint64_t matches, fired, suppressed;
	uint64_t told_suppressed;	/* of these, in the log */
	uint64_t fired_realtime_ns;
	char refused[ERROR_TEXT_BYTES];	/* why its probes are not recorded; "": they are */
};

struct triggers {
	struct triggers_config config;
	struct dump_config dump;
	struct trigger_calls *calls;	/* NULL: no rule has had a URL yet */
	unsigned dumps;			/* being written */
	struct trigger *trigger[TRIGGERS_MAX];
	unsigned count;
};

/* ---- The audit log ----------------------------------------------------------------------------- */

struct line {
	struct disk_job job;
	struct audit_file *file;
	char *text;
	int err;
};

static void run_line(struct disk_job *job, struct disk *disk)
{
	struct line *line = (struct line *)job;

	line->err = audit_append(line->file, disk, line->text);
}

static void line_done(struct disk_job *job)
{
	struct line *line = (struct line *)job;

	if (line->err)
		log_error("audit-failed", "the audit log cannot be written: %s", strerror(-line->err));
	free(line->text);
	free(line);
}

/* Before what it speaks of: the disk thread keeps the order. The journal has it too. */
static void audit(const struct trigger *trigger)
{
	const struct triggers_config *config = &trigger->triggers->config;
	const struct audit_attempt attempt = {
		.realtime_ns = trigger->fired_realtime_ns,
		.who = trigger->identity.text,
		.role = "daemon",
		.peer = "the configuration",
		.action = "trigger",
		.rule = trigger->rule.shown,
		.outcome = "allowed",
	};
	char *text = audit_line(&attempt);
	struct line *line = text ? calloc(1, sizeof(*line)) : NULL;

	if (text)
		log_always(LOG_LEVEL_INFO, "audit", "%.*s", (int)strlen(text) - 1, text);
	if (!line || !config->disk_thread) {
		free(text);
		free(line);
		return;
	}
	*line = (struct line){.job = {.run = run_line, .done = line_done}, .file = config->audit,
			      .text = text};
	disk_thread_submit(config->disk_thread, &line->job);
}

/* ---- What is done ------------------------------------------------------------------------------ */

static void destroy(struct trigger *trigger);

static void tell_dump(const struct trigger *trigger, const struct dump *dump, const struct error *error)
{
	counter_add(error ? COUNTER_dumps_failed : COUNTER_dumps_written, 1);
	if (error)
		log_failure(LOG_LEVEL_ERROR, error);
	else
		log_info("dump-written", "trigger %s: wrote the dump %s; `tracectl dumps get %s -w FILE`"
			 " fetches it", trigger->rule.name, dump_id(dump), dump_id(dump));
}

static void on_dump_done(void *context, struct dump *dump, const struct error *error)
{
	struct trigger *trigger = context;

	trigger->triggers->dumps--;
	if (trigger->dump == dump)
		trigger->dump = NULL;
	else
		trigger->enabled = NULL;
	tell_dump(trigger, dump, error);
	if (trigger->retired && !trigger->dump && !trigger->enabled)
		destroy(trigger);
}

static void begin_dump(struct trigger *trigger, const struct dump_request *request,
		       struct dump **dump)
{
	struct triggers *triggers = trigger->triggers;
	struct error error = {0};
	int err;

	if (!triggers->config.dumps)
		err = error_set(&error, ENOENT, "dump-nowhere", "there is no state-dir");
	else if (*dump)
		err = error_set(&error, EBUSY, "dump-busy", "its dump %s is still being written", dump_id(*dump));
	else if (triggers->dumps == DUMPS_AT_ONCE_MAX)
		err = error_set(&error, EBUSY, "dump-busy", "%u other dumps are being written",
				(unsigned)DUMPS_AT_ONCE_MAX);
	else
		err = dump_begin(&triggers->dump, request, on_dump_done, trigger, dump, &error);
	if (err) {
		counter_add(COUNTER_dumps_failed, 1);
		log_error(error.code, "trigger %s writes no dump: %s%s%s", trigger->rule.name, error.what,
			  error.hint[0] ? "; " : "", error.hint);
		return;
	}
	triggers->dumps++;
}

/* `event`, at `event_ns`: what made it fire. A dump reaches back from then. */
static void act(struct trigger *trigger, const char *event, uint64_t event_ns)
{
	const struct trigger_rule *rule = &trigger->rule;
	uint64_t now_ns = clock_monotonic();
	struct dump_request request = {
		.trigger = rule->name,
		.rule = rule->shown,
		.fired_realtime_ns = trigger->fired_realtime_ns,
	};

	if (rule->dump_ns) {
		request.since_realtime_ns = trigger->fired_realtime_ns - rule->dump_ns -
					    (now_ns > event_ns ? now_ns - event_ns : 0);
		request.until_ns = now_ns;
		begin_dump(trigger, &request, &trigger->dump);
	}
	if (rule->enable) {
		request.probe = rule->enable;
		request.since_realtime_ns = 0;
		request.until_ns = now_ns + rule->enable_ns;
		begin_dump(trigger, &request, &trigger->enabled);
	}
	if (rule->url)
		trigger_call(trigger->triggers->calls, &(struct trigger_call){
				     .url = rule->url, .trigger = rule->name, .rule = rule->shown, .event = event,
				     .fired_realtime_ns = trigger->fired_realtime_ns,
			     });
}

/* ---- When -------------------------------------------------------------------------------------- */

static void arm(struct trigger *trigger, uint64_t ns)
{
	struct timeval after = {(time_t)(ns / NS_PER_S), (suseconds_t)(ns % NS_PER_S / 1000)};

	event_add(trigger->timer, &after);
}

/* `first`: the frame with the first event that is told of. `event_ns` is when it happened; 0: that is not known. */
static void fire(struct trigger *trigger, const struct frame_ref *first, uint64_t event_ns)
{
	char text[FIRST_BYTES], every[QUANTITY_TEXT_BYTES];

	export_event_first_text(first, trigger->triggers->config.codec, trigger->triggers->config.catalog, text,
				sizeof(text));
	trigger->state = FIRED;
	trigger->fired++;
	trigger->fired_realtime_ns = clock_read(CLOCK_REALTIME);
	counter_add(COUNTER_triggers_fired, 1);
	log_always(LOG_LEVEL_WARNING, "trigger-fired", "trigger %s fired: %s; it fires again after %s",
		   trigger->rule.name, text,
		   quantity_text(trigger->rule.every_ns, QUANTITY_DURATION, every));
	audit(trigger);
	act(trigger, text, event_ns ? event_ns : clock_monotonic());
	arm(trigger, trigger->rule.every_ns);
}

static void rate_begin_slot(struct rate *rate, uint64_t slot)
{
	if (slot - rate->slot >= RATE_SLOTS_KEPT)
		memset(rate->matches, 0, sizeof(rate->matches));
	else
		for (uint64_t i = rate->slot + 1; i <= slot; i++)
			rate->matches[i % RATE_SLOTS_KEPT] = 0;
	rate->slot = slot;
}

/* One more at that time: the most that any second with it has now. 0: it is older than all that is kept. */
static uint64_t rate_add(struct rate *rate, uint64_t time_ns)
{
	uint64_t slot = time_ns / SLOT_NS, most = 0, sum;

	if (slot > rate->slot)
		rate_begin_slot(rate, slot);
	if (rate->slot - slot >= RATE_SLOTS_KEPT - RATE_SLOTS)
		return 0;
	rate->matches[slot % RATE_SLOTS_KEPT]++;
	for (uint64_t end = slot; end <= rate->slot && end < slot + RATE_SLOTS; end++) {
		sum = 0;
		for (uint64_t i = 0; i < RATE_SLOTS && i <= end; i++)
			sum += rate->matches[(end - i) % RATE_SLOTS_KEPT];
		most = sum > most ? sum : most;
	}
	return most;
}

/* What a frame's events come to. */
struct reached {
	struct rate *rate;		/* NULL: each counts */
	uint64_t least;
	uint64_t time_ns;		/* of the first event that makes it that many; 0: none does */
};

static void take_time(void *context, uint64_t time_ns)
{
	struct reached *reached = context;

	if ((!reached->rate || rate_add(reached->rate, time_ns) >= reached->least) && !reached->time_ns)
		reached->time_ns = time_ns;
}

/* By the times of its events: the daemon may have stood still, and what comes at once be of many seconds. */
static void match(struct trigger *trigger, const struct frame_ref *frame)
{
	const struct triggers_config *config = &trigger->triggers->config;
	bool has_rate = trigger->rule.matches_per_s != 0;
	struct reached reached = {.rate = has_rate ? &trigger->rate : NULL, .least = trigger->rule.matches_per_s};

	if (!frame->events)
		return;
	trigger->matches += frame->events;
	counter_add(COUNTER_trigger_matches, frame->events);
	if ((has_rate || trigger->state == QUIET) &&
	    export_event_times(frame, config->codec, config->catalog, take_time, &reached) != 0)
		for (uint64_t i = 0; i < frame->events && !reached.time_ns; i++)	/* no memory: as of now */
			take_time(&reached, clock_monotonic());
	if (trigger->state == FIRED) {
		trigger->suppressed += frame->events;
		counter_add(COUNTER_trigger_suppressed, frame->events);
	} else if (reached.time_ns || !has_rate) {
		fire(trigger, frame, reached.time_ns);
	}
}

/* ---- As a subscriber --------------------------------------------------------------------------- */

/* What was missed may have matched: it is in the ledger of its stream. */
static void on_gap(void *told, struct frame_ref *frame)
{
	*(bool *)told = true;
	frame_ref_put(frame);
}

static void on_wake(void *context)
{
	struct trigger *trigger = context;
	struct frame_ref *frame[DUMP_FRAMES_MAX];
	bool told;
	unsigned n;

	do {
		told = false;
		n = stream_peek(trigger->stream, frame, DUMP_FRAMES_MAX, on_gap, &told);
		for (unsigned i = 0; i < n; i++) {
			frame_ref_get(frame[i]);
			stream_sent(trigger->stream);
			match(trigger, frame[i]);
			frame_ref_put(frame[i]);
		}
	} while (n || (told && !trigger->stream->gaps));
}

static int on_live(void *context, struct stream *stream, const struct beginning *from)
{
	struct trigger *trigger = context;

	(void)from;
	trigger->stream = stream;
	trigger->refused[0] = '\0';
	return 0;
}

static void on_refused(void *context, const struct error *error)
{
	struct trigger *trigger = context;

	snprintf(trigger->refused, sizeof(trigger->refused), "%s", error->what);
	log_error("trigger-refused", "trigger %s: nothing is recorded for it: %s %s", trigger->rule.name,
		  error->what, error->hint);
}

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	struct trigger *trigger = context;
	uint64_t more = trigger->suppressed - trigger->told_suppressed;

	(void)fd, (void)what;
	trigger->state = QUIET;
	trigger->told_suppressed = trigger->suppressed;
	if (more)
		log_always(LOG_LEVEL_WARNING, "trigger-suppressed", "trigger %s: %" PRIu64 " more matches"
			   " since it fired; nothing was done about them", trigger->rule.name, more);
}

/* ---- Rules ------------------------------------------------------------------------------------- */

static void leave(struct trigger *trigger)
{
	if (trigger->subscriber.state != SUBSCRIBER_AWAY)
		fanout_leave(trigger->triggers->config.fanout, &trigger->subscriber, true);
	stream_destroy(trigger->stream);
	trigger->stream = NULL;
	if (trigger->timer)
		event_free(trigger->timer);
	trigger->timer = NULL;
}

static void destroy(struct trigger *trigger)
{
	leave(trigger);
	trigger_rule_fini(&trigger->rule);
	free(trigger);
}

/* What it writes ends with what it has, and then it goes. */
static void retire(struct trigger *trigger, const char *why)
{
	leave(trigger);
	trigger->retired = true;
	if (!trigger->dump && !trigger->enabled) {
		destroy(trigger);
		return;
	}
	/* It goes with the last of them, which is never from within. */
	if (trigger->dump)
		dump_end(trigger->dump, why);
	if (trigger->enabled)
		dump_end(trigger->enabled, why);
}

/* Before it can fire. */
static bool make_calls(struct triggers *triggers, const struct config *config)
{
	if (!triggers->calls)
		triggers->calls = trigger_calls_create(triggers->config.base, config->export_ca,
						       config->export_timeout_ns);
	return triggers->calls;
}

static int subscribe(struct trigger *trigger, struct error *error)
{
	const struct subscribe_request request = {
		.what = {.glob = (const char *const *)trigger->rule.glob,
			 .globs = trigger->rule.globs,
			 .filter = trigger->rule.filter},
	};

	return fanout_subscribe(trigger->triggers->config.fanout, &trigger->subscriber, &request, error);
}

/* The rule at that place of `on`. */
static int create(struct triggers *triggers, const struct config *config, unsigned place,
		  struct trigger **out, struct error *error)
{
	struct trigger *trigger = calloc(1, sizeof(*trigger));
	int err;

	if (!trigger)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	trigger->triggers = triggers;
	err = trigger_rule_parse(config->on.word[place], place + 1, triggers->config.catalog, &trigger->rule,
				 error);
	if (!err) {
		identity_set_unproved(&trigger->identity);
		trigger->identity.role = ROLE_OPERATOR;
		snprintf(trigger->identity.text, sizeof(trigger->identity.text), "trigger:%s",
			 trigger->rule.name);
		trigger->subscriber = (struct subscriber){
			.identity = &trigger->identity, .live = on_live, .refused = on_refused,
			.wake = on_wake, .context = trigger,
		};
		trigger->timer = event_new(triggers->config.base, -1, 0, on_timer, trigger);
		err = trigger->timer && (!trigger->rule.url || make_calls(triggers, config)) ?
			      subscribe(trigger, error) :
			      error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	if (err) {
		destroy(trigger);
		return err;
	}
	*out = trigger;
	return 0;
}

/*
 * The one that has this rule, taken out of the list; NULL: none has. A rule without a name that stands in another
 * place now has another name, and is another.
 */
static struct trigger *take_out(struct trigger *list[TRIGGERS_MAX], unsigned n, const char *text,
				unsigned number)
{
	struct trigger *found = NULL;
	struct trigger_rule rule;
	struct error ignored;

	if (trigger_rule_parse(text, number, NULL, &rule, &ignored) != 0)
		return NULL;
	for (unsigned i = 0; i < n && !found; i++)
		if (list[i] && strcmp(list[i]->rule.text, text) == 0 &&
		    strcmp(list[i]->rule.name, rule.name) == 0) {
			found = list[i];
			list[i] = NULL;
		}
	trigger_rule_fini(&rule);
	return found;
}

static void make_probes(const struct triggers *triggers, const struct trigger_rule *rule)
{
	for (unsigned i = 0; i < rule->globs; i++)
		fanout_make_now(triggers->config.fanout, rule->glob[i]);
	if (rule->enable)
		fanout_make_now(triggers->config.fanout, rule->enable);
}

/* That there is a state-dir for its dumps, and a network for its URL. */
static int check_place(const struct triggers *triggers, const struct trigger_rule *rule, struct error *error)
{
	const char *why = rule->url ? export_http_refuses_url(rule->url) : NULL;

	if ((rule->dump_ns || rule->enable) && !triggers->config.dumps) {
		error_set(error, ENOENT, "dump-nowhere", "on: trigger %s shall write a dump, and there is no"
			  " state-dir", rule->name);
		error_hint(error, "make the directory that state-dir names");
		return -ENOENT;
	}
	if (why) {
		error_set(error, EINVAL, "trigger-url", "on: trigger %s cannot call its URL: %s", rule->name, why);
		error_hint(error, "write call http://HOST:PORT/PATH, or https");
		return -EINVAL;
	}
	if (rule->url && !triggers->config.may_connect) {
		error_set(error, EPERM, "trigger-sandbox", "on: trigger %s calls a URL, which the sandbox forbids: when"
			  " the daemon started, it had nobody to connect to", rule->name);
		error_hint(error, "restart ringtaild");
		return -EPERM;
	}
	return rule->url ? address_check_network("on", error) : 0;
}

int triggers_check(const struct triggers *triggers, const struct config *config, struct error *error)
{
	const struct config_words *words = &config->on;
	int err = trigger_rules_check(words, NULL, error);

	for (unsigned i = 0; i < words->count && !err; i++) {
		struct trigger_rule rule;

		err = trigger_rule_parse(words->word[i], i + 1, NULL, &rule, error);
		if (err)
			break;
		make_probes(triggers, &rule);
		err = check_place(triggers, &rule, error);
		trigger_rule_fini(&rule);
	}
	return err ? err : trigger_rules_check(words, triggers->config.catalog, error);
}

int triggers_set(struct triggers *triggers, const struct config *config, struct error *error)
{
	struct trigger *old[TRIGGERS_MAX];
	unsigned olds = triggers->count;
	int err = 0;

	memcpy(old, triggers->trigger, sizeof(old));
	memset(triggers->trigger, 0, sizeof(triggers->trigger));
	triggers->count = 0;
	for (unsigned i = 0; i < config->on.count && !err; i++) {
		struct trigger **trigger = &triggers->trigger[triggers->count];

		*trigger = take_out(old, olds, config->on.word[i], i + 1);
		if (!*trigger)
			err = create(triggers, config, i, trigger, error);
		triggers->count += !err;
	}
	for (unsigned i = 0; i < olds; i++)
		if (old[i])
			retire(old[i], "its rule was taken out of the configuration");
	if (triggers->config.dumps)
		dumps_set_bounds(triggers->config.dumps, config->dump_bytes, config->dump_count);
	return err;
}

/* ---- Life -------------------------------------------------------------------------------------- */

struct triggers *triggers_create(const struct triggers_config *config)
{
	struct triggers *triggers = calloc(1, sizeof(*triggers));

	if (!triggers)
		return NULL;
	triggers->config = *config;
	triggers->dump = (struct dump_config){
		.base = config->base,
		.fanout = config->fanout,
		.dumps = config->dumps,
		.disk_thread = config->disk_thread,
		.codec = config->codec,
		.catalog = config->catalog,
		.run = config->run,
		.hello = config->hello,
		.hello_context = config->hello_context,
	};
	return triggers;
}

void triggers_destroy(struct triggers *triggers)
{
	if (!triggers)
		return;
	for (unsigned i = 0; i < triggers->count; i++)
		retire(triggers->trigger[i], "the daemon stopped");
	trigger_calls_destroy(triggers->calls);
	if (triggers->config.disk_thread)
		disk_thread_settle(triggers->config.disk_thread);
	free(triggers);
}

/* ---- How it stands ----------------------------------------------------------------------------- */

unsigned triggers_count(const struct triggers *triggers)
{
	return triggers ? triggers->count : 0;
}

static const char *state_of(const struct trigger *trigger)
{
	if (!trigger->stream)
		return trigger->subscriber.state == SUBSCRIBER_AWAY ? "refused" : "starting";
	return trigger->state == FIRED ? "fired" : "quiet";
}

void triggers_stat(const struct triggers *triggers, unsigned i, struct stat_trigger *stat)
{
	const struct trigger *trigger = triggers->trigger[i];

	*stat = (struct stat_trigger){
		.name = trigger->rule.name,
		.rule = trigger->rule.shown,
		.state = state_of(trigger),
		.why = trigger->refused,
		.matches = trigger->matches,
		.fired = trigger->fired,
		.suppressed = trigger->suppressed,
		.fired_realtime_ns = trigger->fired_realtime_ns,
	};
	if (!trigger->stream)
		return;
	stat->filtered = trigger->stream->filtered;
	stat->lost = (struct stat_losses){trigger->stream->lost, 0, LOSS_STAGES};
	stream_stat(trigger->stream, &stat->now);
	/* What came was looked at, too. */
	stat->residual = stat->now.residual + (int64_t)(trigger->stream->delivered - trigger->matches);
}
