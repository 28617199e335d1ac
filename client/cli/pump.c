#include "client/cli/pump.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/cli/cursor_file.h"
#include "client/lib/failure.h"
#include "client/lib/fed.h"
#include "client/lib/lanes.h"
#include "client/lib/limits.h"
#include "client/cli/progress.h"
#include "client/cli/rate_line.h"
#include "client/cli/stack_names.h"
#include "client/cli/stop.h"
#include "client/cli/units.h"
#include "client/cli/who.h"
#include "query/visible.h"

#define ITEMS_BETWEEN_CLOCKS 4096	/* how long a flood may hide that the time is over */
#define LEDGER_TEXT_BYTES 48

enum why_stopped {
	GOES_ON,
	STOPPED_SELF,		/* -n, --duration, a signal */
	STOPPED_END,
	STOPPED_ERROR,
	STOPPED_OUTPUT,
	STOPPED_PLACE,		/* it cannot be saved, or not acknowledged */
	STOPPED_SINK,		/* it cannot begin */
};

/* One host's part. */
struct leg {
	struct run *run;
	struct pump *pump;
	struct ringtail *ringtail;
	const char *label;
	struct sink *sink;
	pthread_t thread;
	bool started;
	enum why_stopped why;
	uint64_t end_ns;		/* when --duration is over */
	uint64_t acked_ns;		/* when it acknowledged last, */
	bool unacked;			/* and whether anything has come since */
	struct ringtail_error error;	/* of an acknowledgement, a sink, a thread */
	unsigned items;
	uint64_t began_realtime_ns;	/* the start, by the traced host's clock */
	bool past_over;			/* all that was before it has come */
	uint64_t past_first_ns, past_ns;	/* by the same clock: where the past began, and how far it is; 0: unknown */
	uint32_t missing;		/* bits of reasons of gaps */
	uint64_t hidden;		/* events that were only for the names of stacks */
	uint64_t left_out;		/* events of other processes than were asked for */
	uint64_t given;			/* all others, */
	struct ringtail_totals totals;	/* and all there was, when it was looked at last */
	uint64_t settled_realtime_ns;	/* stopping, once all that was before has been told; 0: it is not */
	uint64_t settle_end_ns;		/* but no later than that */
	bool flushing;			/* stopping by itself, but what is here is still shown */
};

/* The whole. With several hosts, `lock` is held by whose item is looked at. */
struct run {
	struct pump *pump;
	pthread_mutex_t lock;
	struct rate_line rate;
	uint64_t start_ns;
	uint64_t given;			/* by all legs */
	bool enough;			/* of it: the other legs stop where they are */
	struct leg **leg;
	size_t legs;
	/* Of lanes: */
	uint64_t end_ns;		/* when --duration is over for all */
	enum why_stopped why;
	struct ringtail_error error;	/* the stream itself is damaged */
};

static void lock(struct run *run)
{
	if (run->pump->hosts > 1)
		pthread_mutex_lock(&run->lock);
}

static void unlock(struct run *run)
{
	if (run->pump->hosts > 1)
		pthread_mutex_unlock(&run->lock);
}

static void put_ledger(const struct ringtail_totals *totals, char text[LEDGER_TEXT_BYTES])
{
	snprintf(text, LEDGER_TEXT_BYTES, totals->cut_short ? "cut short" : "balanced");
	if (totals->residual)
		snprintf(text, LEDGER_TEXT_BYTES, "residual %llu", (unsigned long long)totals->residual);
}

/* The object, still open. */
static void begin_json(FILE *to, const struct ringtail_totals *totals, uint64_t maps, double seconds)
{
	char ledger[LEDGER_TEXT_BYTES];

	put_ledger(totals, ledger);
	fprintf(to, "{\"events\":%llu,\"lost\":%llu,\"frames\":%llu,\"wire_bytes\":%llu,"
		"\"raw_bytes\":%llu,\"seconds\":%.6f,\"ledger\":\"%s\","
		"\"filtered\":%llu,\"gaps\":%llu,\"maps\":%llu,"
		"\"duplicate\":%llu",
		(unsigned long long)(totals->events - maps), (unsigned long long)totals->lost,
		(unsigned long long)totals->frames, (unsigned long long)totals->wire_bytes,
		(unsigned long long)totals->raw_bytes, seconds, ledger,
		(unsigned long long)totals->filtered, (unsigned long long)totals->unknown,
		(unsigned long long)maps, (unsigned long long)totals->duplicate);
}

void pump_print_summary(FILE *to, enum summary format, const struct ringtail_totals *totals,
			uint64_t maps, double seconds)
{
	char ledger[LEDGER_TEXT_BYTES], more[64] = "", early[64] = "", beside[64] = "", twice[64] = "";
	uint64_t events = totals->events - maps;
	char wire[UNITS_TEXT_BYTES], rate[UNITS_TEXT_BYTES];

	put_ledger(totals, ledger);
	if (totals->unknown)
		snprintf(more, sizeof(more), " and an unknown number (in %llu gap%s)",
			 (unsigned long long)totals->unknown, totals->unknown > 1 ? "s" : "");
	if (totals->filtered)
		snprintf(early, sizeof(early), ", %llu not chosen",
			 (unsigned long long)totals->filtered);
	if (totals->duplicate)
		snprintf(twice, sizeof(twice), ", %llu stored twice and shown once",
			 (unsigned long long)totals->duplicate);
	if (maps)
		snprintf(beside, sizeof(beside), " and %llu map%s for the names of stacks",
			 (unsigned long long)maps, maps > 1 ? "s" : "");
	if (format == SUMMARY_JSON) {
		begin_json(to, totals, maps, seconds);
		fprintf(to, "}\n");
	} else if (format == SUMMARY_TEXT) {
		fprintf(to, "%llu events%s in %.3f s (%s/s), %llu lost%s%s%s; %llu frames, %s; "
			"ledger %s\n",
			(unsigned long long)events, beside, seconds,
			units_format_rate(seconds > 0 ? (double)events / seconds : 0, rate),
			(unsigned long long)totals->lost, more, early, twice,
			(unsigned long long)totals->frames,
			units_format_bytes((double)totals->wire_bytes, wire), ledger);
	}
	fflush(to);
}

/* EXIT_LOST if anything is missing, else EXIT_GOOD. */
static enum exit_code verdict_of(const struct ringtail_totals *totals)
{
	return totals->lost || totals->gaps || totals->residual || totals->cut_short ? EXIT_LOST :
										       EXIT_GOOD;
}

static void note(struct leg *leg, const char *what, const char *text, const char *then)
{
	struct run *run = leg->run;
	char shown[512];

	visible_copy(shown, sizeof(shown), text ? text : "", text ? strlen(text) : 0);
	out_flush(run->pump->out);
	rate_line_clear(&run->rate);
	fprintf(run->pump->messages, "tracectl: %s%s%s%s%s\n", leg->label ? leg->label : "",
		leg->label ? ": " : "", what, shown, then);
	fflush(run->pump->messages);
}

static enum why_stopped flush_leg(struct leg *leg)
{
	leg->flushing = true;
	ringtail_flush(leg->ringtail);
	return GOES_ON;
}

/* Stops without losing what is here, or counted already: it is still given out, then the stream ends. */
static enum why_stopped stop_softly(struct leg *leg, const char *why)
{
	const uint64_t now_ns = conn_now_ns();

	if (leg->flushing)
		return STOPPED_SELF;
	if (leg->settled_realtime_ns)
		return flush_leg(leg);
	leg->pump->ended_by = why;
	if (!leg->pump->settles)
		return flush_leg(leg);
	leg->settled_realtime_ns = leg->began_realtime_ns + (now_ns - leg->run->start_ns);
	leg->settle_end_ns = now_ns + 2 * QUESTION_SLICE_NS;
	ringtail_set_interrupt(leg->ringtail, -1);
	return GOES_ON;
}

/* What was told before has come. */
static bool is_settled(const struct leg *leg, uint64_t realtime_ns)
{
	return leg->settled_realtime_ns && !leg->flushing && realtime_ns >= leg->settled_realtime_ns;
}

/* errno of the output that failed; 0: none did. */
static int output_error(const struct pump *pump)
{
	return out_error(pump->out) ? out_error(pump->out) : pump->also ? out_error(pump->also) : 0;
}

static int flush(const struct pump *pump)
{
	out_flush(pump->out);
	if (pump->also)
		out_flush(pump->also);
	return output_error(pump);
}

static int save_place(struct leg *leg)
{
	const struct pump *pump = leg->pump;
	struct ringtail_error *error = &leg->error;
	char *text = malloc(CURSOR_TEXT_BYTES_MAX);
	int err = text ? ringtail_cursor(leg->ringtail, text, CURSOR_TEXT_BYTES_MAX) : -ENOMEM;

	if (err)
		failure_set(error, -err, "cursor-file", "the cursor is too long to be stored");
	else if (text[strlen(text) - 1] != '/')	/* else no CPU has a place yet */
		err = cursor_file_save(pump->cursor_path, text, cursor_file_output(pump->out->fd),
				       error);
	free(text);
	return err;
}

/* What has been given out is written, and then saved and acknowledged, in this order. */
static bool acknowledge(struct leg *leg)
{
	const struct pump *pump = leg->pump;

	if (!leg->unacked || (!pump->acknowledges && !pump->cursor_path))
		return true;
	if (flush(pump))
		return true;			/* the caller looks at the output */
	leg->unacked = false;
	leg->acked_ns = conn_now_ns();
	if (pump->cursor_path && save_place(leg))
		return false;
	/* A connection that breaks is noticed where it is read. */
	if (pump->acknowledges)
		ringtail_ack(leg->ringtail, &(struct ringtail_error){ 0 });
	return true;
}

static bool acknowledge_in_time(struct leg *leg, uint64_t now_ns)
{
	return now_ns - leg->acked_ns < ACK_INTERVAL_MS * 1000000ull || acknowledge(leg);
}

static void add_totals(struct ringtail_totals *sum, const struct ringtail_totals *totals)
{
	uint64_t *to = (uint64_t *)sum;
	const uint64_t *from = (const uint64_t *)totals;

	_Static_assert(sizeof(*sum) % sizeof(*to) == 0, "all of its members are counts of 64 bits");
	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

/* As each leg saw them when it looked last. */
static struct ringtail_totals all_totals(const struct run *run)
{
	struct ringtail_totals sum = { 0 };

	for (size_t i = 0; i < run->legs; i++)
		add_totals(&sum, &run->leg[i]->totals);
	return sum;
}

/* Of a file by its bytes; of a past that comes before the present by time: the leg's that asks stands for all. */
static struct progress progress_of(const struct leg *leg, const struct ringtail_totals *totals, uint64_t now_ns)
{
	const struct run *run = leg->run;
	struct progress progress = {
		.all = run->pump->bytes_all,
		.done = totals->wire_bytes,
		.seconds = (double)(now_ns - run->start_ns) / 1e9,
	};

	if (!progress.all && run->pump->from_past && !leg->past_over && leg->past_first_ns &&
	    leg->past_first_ns < leg->began_realtime_ns) {
		progress.is_past = true;
		progress.all = leg->began_realtime_ns - leg->past_first_ns;
		progress.done = leg->past_ns - leg->past_first_ns;
	}
	return progress;
}

static int update_rate(struct leg *leg, uint64_t now_ns)
{
	struct ringtail_totals totals;
	struct progress progress;

	leg->totals = *ringtail_totals(leg->ringtail);
	totals = all_totals(leg->run);
	progress = progress_of(leg, &totals, now_ns);
	progress_format(&progress, leg->run->rate.lead);
	return rate_line_update(&leg->run->rate, &totals, now_ns);
}

/* For whoever has sent SIGUSR1. */
static void say_progress(struct leg *leg, uint64_t now_ns)
{
	char text[PROGRESS_SAID_BYTES];
	struct ringtail_totals totals;
	struct progress progress;

	progress_asked = 0;
	leg->totals = *ringtail_totals(leg->ringtail);
	totals = all_totals(leg->run);
	progress = progress_of(leg, &totals, now_ns);
	note(leg, "", progress_say(&progress, &totals, text), "");
}

static enum why_stopped check_clock(struct leg *leg)
{
	uint64_t now_ns = conn_now_ns();

	if (progress_asked)
		say_progress(leg, now_ns);
	if (leg->pump->show_rate && rate_line_due(&leg->run->rate, now_ns)) {
		flush(leg->pump);		/* whole lines are above it */
		update_rate(leg, now_ns);
	}
	if (!acknowledge_in_time(leg, now_ns))
		return STOPPED_PLACE;
	if (leg->settled_realtime_ns)
		return now_ns >= leg->settle_end_ns && !leg->flushing ? flush_leg(leg) : GOES_ON;
	return now_ns >= leg->end_ns && !leg->flushing ? stop_softly(leg, "--duration is over") :
							 GOES_ON;
}

/* The past has come, or cannot come now: --duration counts from here. */
static void begin_duration(struct leg *leg)
{
	const struct pump *pump = leg->pump;
	uint64_t now_ns;

	if (leg->past_over)
		return;
	leg->past_over = true;
	now_ns = conn_now_ns();
	if (pump->duration_ns && pump->duration_ns < UINT64_MAX - now_ns)
		leg->end_ns = now_ns + pump->duration_ns;
}

/* A watermark of the past has come. */
static void note_past(struct leg *leg, uint64_t realtime_ns)
{
	if (!leg->past_first_ns)
		leg->past_first_ns = realtime_ns;
	leg->past_ns = realtime_ns < leg->past_first_ns ? leg->past_first_ns : realtime_ns;
}

static bool is_hidden(const struct leg *leg, const struct ringtail_item *item)
{
	return !leg->pump->shows_maps && item->kind == RINGTAIL_EVENT &&
	       item->probe->fields == MAP_FIELDS && !strcmp(item->probe->spec, MAP_SPEC);
}

/* Whether the command has ended, and all of it has come: whatever is older than time_ns. */
static bool command_is_told(const struct leg *leg, uint64_t time_ns)
{
	struct command *command = leg->pump->who ? leg->pump->who->command : NULL;
	uint64_t ended_ns;

	return command && command_ended(command, &ended_ns) && time_ns >= ended_ns;
}

/* Whether all hosts together have given as many events as -n asked for. */
static bool is_enough(struct leg *leg)
{
	uint64_t given = ringtail_totals(leg->ringtail)->events - leg->hidden - leg->left_out;

	leg->run->given += given - leg->given;
	leg->given = given;
	return leg->run->given >= leg->pump->events_max;
}

/* In both of its loops: a call for each event costs 5 % of reading it. */
__attribute__((always_inline))
static inline enum why_stopped take(struct leg *leg, const struct ringtail_item *item)
{
	switch (item->kind) {
	case RINGTAIL_EVENT:
		if (leg->pump->who && leg->pump->who->tree && !who_takes(leg->pump->who, item)) {
			leg->left_out++;
			leg->unacked = true;
			return GOES_ON;
		}
		/* fall through */
	case RINGTAIL_LOSS:
	case RINGTAIL_GAP:
	case RINGTAIL_BATCH:
		leg->unacked = true;
		if (leg->pump->who && (item->kind == RINGTAIL_LOSS || item->kind == RINGTAIL_GAP))
			who_look_again(leg->pump->who);
		if (item->kind == RINGTAIL_GAP && item->reason < 32)
			leg->missing |= 1u << item->reason;
		if (is_hidden(leg, item))
			leg->hidden++;
		if (leg->sink)
			leg->pump->ops->item(leg->sink, item);
		if (!leg->pump->events_max || !is_enough(leg))
			return GOES_ON;
		leg->pump->ended_by = "it has as many events as -n asked for";
		return STOPPED_SELF;
	case RINGTAIL_WATERMARK:
		leg->unacked = true;
		if (leg->sink)
			leg->pump->ops->item(leg->sink, item);
		note_past(leg, item->realtime_ns);
		if (is_settled(leg, item->realtime_ns))
			return flush_leg(leg);
		if (item->realtime_ns >= leg->began_realtime_ns)
			begin_duration(leg);
		if (leg->pump->until_realtime_ns &&
		    item->realtime_ns >= leg->pump->until_realtime_ns)
			return stop_softly(leg, "the time that --until asked for has come");
		return command_is_told(leg, item->time_ns) ? stop_softly(leg, "the command ended") :
							     GOES_ON;
	case RINGTAIL_DISCONNECTED:
		begin_duration(leg);
		note(leg, "", item->text, "; reconnecting");
		return GOES_ON;
	case RINGTAIL_RECONNECTED:
		note(leg, "reconnected to ", item->text, "");
		return GOES_ON;
	case RINGTAIL_INTERRUPTED:
		return stop_softly(leg, "tracectl was interrupted");
	case RINGTAIL_END:
		if (leg->flushing)
			return STOPPED_SELF;
		if (leg->pump->resumable)
			note(leg, "the daemon ended the stream: ", item->text, "");
		return STOPPED_END;
	case RINGTAIL_ERROR:
		return STOPPED_ERROR;
	case RINGTAIL_TIMEOUT:
		break;
	}
	return GOES_ON;
}

/* -1: there is no end. */
static int left_ms(uint64_t end_ns, uint64_t now_ns)
{
	uint64_t left = end_ns > now_ns ? (end_ns - now_ns + 999999) / 1000000 : 0;

	return end_ns == UINT64_MAX ? -1 : left < 3600000 ? (int)left : 3600000;
}

static int sooner(int a_ms, int b_ms)
{
	return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* How long to wait for the next item, after showing what there is. */
static int idle(struct leg *leg)
{
	uint64_t now_ns = conn_now_ns();
	int timeout_ms = -1;

	flush(leg->pump);
	if (leg->pump->show_rate)
		timeout_ms = update_rate(leg, now_ns);
	timeout_ms = sooner(timeout_ms, left_ms(leg->settled_realtime_ns ? leg->settle_end_ns : leg->end_ns, now_ns));
	if (leg->unacked && (leg->pump->acknowledges || leg->pump->cursor_path) &&
	    (timeout_ms < 0 || timeout_ms > ACK_INTERVAL_MS))
		timeout_ms = ACK_INTERVAL_MS;
	return timeout_ms;
}

/* The next thing, for which it waits; the lock is held from here on. */
static void await_item(struct leg *leg, struct ringtail_item *item)
{
	int timeout_ms;

	if (ringtail_next(leg->ringtail, item, 0) != RINGTAIL_TIMEOUT) {
		lock(leg->run);
		return;
	}
	lock(leg->run);
	timeout_ms = idle(leg);
	unlock(leg->run);
	ringtail_next(leg->ringtail, item, timeout_ms);
	leg->items = ITEMS_BETWEEN_CLOCKS;
	lock(leg->run);
}

static enum why_stopped pump_items(struct leg *leg)
{
	struct ringtail_item item;	/* of all turns: a local of each would be zeroed for each event */
	enum why_stopped why = GOES_ON;

	/* Also who is killed before it has saved a place finds the one where it began. */
	if (leg->pump->cursor_path && access(leg->pump->cursor_path, F_OK) != 0 && save_place(leg))
		return STOPPED_PLACE;
	while (why == GOES_ON) {
		await_item(leg, &item);
		why = output_error(leg->pump) ? STOPPED_OUTPUT :
		      leg->run->enough ? STOPPED_SELF : take(leg, &item);
		if (why == GOES_ON && (item.kind == RINGTAIL_BATCH || progress_asked ||
				       ++leg->items >= ITEMS_BETWEEN_CLOCKS)) {
			leg->items = 0;
			why = check_clock(leg);
		}
		unlock(leg->run);
	}
	return why;
}

static void tell_cursor(struct leg *leg)
{
	char *text = malloc(CURSOR_TEXT_BYTES_MAX);

	if (text && !ringtail_cursor(leg->ringtail, text, CURSOR_TEXT_BYTES_MAX))
		fprintf(leg->pump->messages, "resume with: --since %s\n", text);
	free(text);
}

/* Of what of the past was not there: why, and what to do to have it the next time. */
static void tell_remedies(const struct pump *pump, uint32_t missing)
{
	static const struct {
		const char *reason, *remedy;
	} remedies[] = {
		{ "not-recorded", "nothing recorded this at the time; record it always: tracectl "
		  "enable SPEC, or ringtaild --probe SPEC" },
		{ "history-gone", "memory does not reach so far back: raise history-size, or set "
		  "durability = written" },
		{ "restart", "the daemon was restarted: set durability = fsync, or written" },
		{ "spool-full", "the spool does not reach so far back: raise spool-size or spool-age" },
		{ "corrupt", "segments of the spool are damaged: check the disk" },
	};

	for (unsigned reason = 0; pump->from_past && reason < 32; reason++)
		for (size_t i = 0; i < sizeof(remedies) / sizeof(*remedies); i++)
			if (missing & 1u << reason &&
			    !strcmp(ringtail_reason_name(reason), remedies[i].reason))
				fprintf(pump->messages, "tracectl: the past is not all there: %s\n",
					remedies[i].remedy);
}

/* Of a recording; a daemon's own filter tells of it by its counter. */
static void tell_undecided(const struct pump *pump, const struct ringtail_totals *totals)
{
	if (totals->undecided)
		fprintf(pump->messages, "tracectl: %llu events were let through because a text that the "
			"filter asks for is cut or was not recorded; record with --flags strings,context\n",
			(unsigned long long)totals->undecided);
}

static void tell_failure(const struct leg *leg, const struct ringtail_error *error)
{
	if (leg->label)
		fprintf(leg->pump->messages, "tracectl: %s failed:\n", leg->label);
	failure_print(leg->pump->messages, error, NULL);
}

/* Says how one host's part ended, and returns what to exit with. */
static enum exit_code conclude_leg(struct leg *leg)
{
	struct pump *pump = leg->pump;
	const struct ringtail_totals *totals = ringtail_totals(leg->ringtail);

	if (flush(pump))
		leg->why = STOPPED_OUTPUT;
	else if (leg->why != STOPPED_PLACE && leg->why != STOPPED_SINK && !acknowledge(leg))
		leg->why = STOPPED_PLACE;
	leg->totals = *totals;
	if (leg->why == STOPPED_PLACE || leg->why == STOPPED_SINK) {
		tell_failure(leg, &leg->error);
		return EXIT_FAILED;
	}
	if (leg->why == STOPPED_ERROR) {
		tell_failure(leg, ringtail_last_error(leg->ringtail));
		if (totals->frames)
			fprintf(pump->messages, "    %llu events were read before that\n",
				(unsigned long long)totals->events);
		return EXIT_FAILED;
	}
	if (totals->cut_short)
		tell_failure(leg, ringtail_last_error(leg->ringtail));
	return EXIT_GOOD;
}

/* ---- How the hosts of lanes ended: the worst are named ------------------------------------------ */

/* Its host has no such probe or field; others may have. */
static bool lacks_selection(const struct run *run, const struct leg *leg)
{
	return run->pump->lanes && leg->why == STOPPED_ERROR && fed_lacks_selection(leg->ringtail);
}

static bool is_lossy(const struct leg *leg)
{
	return verdict_of(&leg->totals) != EXIT_GOOD;
}

static int by_loss(const void *a, const void *b)
{
	const struct leg *x = *(const struct leg *const *)a, *y = *(const struct leg *const *)b;
	const uint64_t pair[][2] = {
		{ x->totals.residual, y->totals.residual }, { x->totals.lost, y->totals.lost },
		{ x->totals.gaps, y->totals.gaps },
	};

	for (size_t i = 0; i < sizeof(pair) / sizeof(*pair); i++)
		if (pair[i][0] != pair[i][1])
			return pair[i][0] > pair[i][1] ? -1 : 1;
	return strcmp(x->label, y->label);
}

/* Those of whom that is true, the worst first, for free(); NULL: none, or no memory. */
static struct leg **legs_that(const struct run *run, bool lacks, size_t *n)
{
	struct leg **leg = calloc(run->legs + 1, sizeof(struct leg *));

	*n = 0;
	for (size_t i = 0; leg && i < run->legs; i++)
		if (lacks ? lacks_selection(run, run->leg[i]) : is_lossy(run->leg[i]))
			leg[(*n)++] = run->leg[i];
	if (leg && *n)
		qsort(leg, *n, sizeof(struct leg *), by_loss);
	return leg;
}

static void tell_lossy(const struct run *run)
{
	FILE *to = run->pump->messages;
	size_t n;
	struct leg **leg = legs_that(run, false, &n);

	for (size_t i = 0; i < n && i < FLEET_ROWS; i++) {
		const struct ringtail_totals *totals = &leg[i]->totals;

		fprintf(to, "tracectl: %s: %llu lost", leg[i]->label, (unsigned long long)totals->lost);
		if (totals->gaps)
			fprintf(to, ", %llu gaps", (unsigned long long)totals->gaps);
		if (totals->unknown)
			fprintf(to, " (%llu of unknown size)", (unsigned long long)totals->unknown);
		if (totals->residual)
			fprintf(to, ", residual %llu", (unsigned long long)totals->residual);
		fprintf(to, "%s\n", totals->cut_short ? ", cut short" : "");
	}
	if (n > FLEET_ROWS)
		fprintf(to, "tracectl: so have %zu hosts more: --summary json names all\n", n - FLEET_ROWS);
	free(leg);
}

/* That is an error only if no host has it. */
static enum exit_code tell_lacking(const struct run *run)
{
	FILE *to = run->pump->messages;
	size_t n;
	struct leg **leg = legs_that(run, true, &n);
	enum exit_code code = n && n == run->legs ? EXIT_FAILED : EXIT_GOOD;

	if (code != EXIT_GOOD)
		tell_failure(leg[0], ringtail_last_error(leg[0]->ringtail));
	else if (n)
		fprintf(to, "tracectl: %zu of %zu hosts record nothing of that: ", n, run->legs);
	for (size_t i = 0; code == EXIT_GOOD && i < n && i < FLEET_ROWS; i++)
		fprintf(to, "%s%s%s", i ? ", " : "", leg[i]->label,
			i + 1 == n ? "\n" : i + 1 == FLEET_ROWS ? ", ...\n" : "");
	free(leg);
	return code;
}

static enum exit_code conclude_lanes(struct run *run)
{
	enum exit_code code = tell_lacking(run);

	tell_lossy(run);
	if (run->why == STOPPED_ERROR) {
		failure_print(run->pump->messages, &run->error, NULL);
		return EXIT_FAILED;
	}
	return run->why == STOPPED_SINK ? EXIT_FAILED : code;
}

/* As pump_print_summary(), and with the hosts that lost something. */
static void print_lanes_summary(const struct run *run, const struct ringtail_totals *totals, uint64_t maps,
				double seconds)
{
	FILE *to = run->pump->messages;
	size_t n;
	struct leg **leg = legs_that(run, false, &n);

	begin_json(to, totals, maps, seconds);
	fprintf(to, ",\"hosts\":%zu,\"lossy\":[", run->legs);
	for (size_t i = 0; i < n; i++) {
		const struct ringtail_totals *of = &leg[i]->totals;

		fprintf(to, "%s{\"host\":\"%s\",\"lost\":%llu,\"gaps\":%llu,\"unknown\":%llu,\"residual\":%llu,"
			"\"cut_short\":%s}", i ? "," : "", leg[i]->label, (unsigned long long)of->lost,
			(unsigned long long)of->gaps, (unsigned long long)of->unknown,
			(unsigned long long)of->residual, of->cut_short ? "true" : "false");
	}
	fputc(']', to);
	if (run->pump->through)
		fprintf(to, ",\"unasked\":%zu", run->pump->unasked);
	fprintf(to, "}\n");
	fflush(to);
	free(leg);
}

/* What goes wrong with the output is said once. */
static enum exit_code conclude_output(struct pump *pump)
{
	struct ringtail_error error;

	if (output_error(pump) != EPIPE) {
		failure_set(&error, output_error(pump), "cannot-write", "cannot write: %s",
			    strerror(output_error(pump)));
		failure_print(pump->messages, &error, NULL);
		return EXIT_FAILED;
	}
	if (!out_error(pump->also ? pump->also : pump->out))
		pump->ended_by = "nobody reads the events any more";
	return EXIT_GOOD;
}

/* Says how it ended and returns what to exit with. */
static enum exit_code conclude(struct run *run)
{
	struct pump *pump = run->pump;
	double seconds = (double)(conn_now_ns() - run->start_ns) / 1e9;
	uint64_t hidden = 0, left_out = 0;
	enum exit_code code = EXIT_GOOD;
	struct ringtail_totals told;
	uint32_t missing = 0;
	bool output = false;

	rate_line_clear(&run->rate);
	for (size_t i = 0; i < run->legs; i++) {
		struct leg *leg = run->leg[i];

		if (lacks_selection(run, leg))
			continue;
		if (conclude_leg(leg) != EXIT_GOOD) {
			code = EXIT_FAILED;
			if (leg->why == STOPPED_ERROR)
				pump->ended_by = NULL;
		}
		output |= leg->why == STOPPED_OUTPUT;
		missing |= leg->missing;
		hidden += leg->hidden;
		left_out += leg->left_out;
	}
	if (output && conclude_output(pump) != EXIT_GOOD)
		code = EXIT_FAILED;
	if (pump->lanes && conclude_lanes(run) != EXIT_GOOD)
		code = EXIT_FAILED;
	if (pump->through)
		tell_lossy(run);
	told = all_totals(run);
	if (code == EXIT_GOOD)
		code = verdict_of(&told);
	tell_remedies(pump, missing);
	tell_undecided(pump, &told);
	told.events -= left_out;
	told.filtered += left_out;
	if (pump->hosts == 1 && !pump->through && run->leg[0]->why == STOPPED_SELF && pump->resumable &&
	    !pump->until_realtime_ns &&
	    !(pump->who && pump->who->command) &&
	    (pump->summary == SUMMARY_TEXT || isatty(fileno(pump->messages))))
		tell_cursor(run->leg[0]);
	if ((pump->lanes || pump->through) && pump->summary == SUMMARY_JSON)
		print_lanes_summary(run, &told, hidden, seconds);
	else
		pump_print_summary(pump->messages, pump->summary, &told, hidden, seconds);
	return code;
}

static void clear_rate_line(void *context)
{
	rate_line_clear(context);
}

/* The sink that the caller has made, or a new one; NULL with leg->error. */
static struct sink *make_sink(struct leg *leg)
{
	struct pump *pump = leg->pump;
	const struct sink_place place = {
		.path = pump->path,
		.out = pump->out,
		.host = ringtail_host(leg->ringtail),
		.label = leg->label,
		.totals = ringtail_totals(leg->ringtail),
		.flags = (pump->color ? SINK_COLOR : 0) | (pump->shows_maps ? SINK_MAPS : 0) |
			 pump->sink_flags,
	};
	struct sink *sink;

	if (!pump->sink && pump->ops->open)
		return pump->ops->open(&place, &leg->error);
	sink = pump->sink ? pump->ops->join(pump->sink, &place) :
			    pump->ops->create(place.out, place.host, place.flags);
	if (!sink)
		failure_set(&leg->error, ENOMEM, "no-memory", "out of memory");
	else if (leg->label && pump->ops->set_label)
		pump->ops->set_label(sink, leg->label);
	return sink;
}

/* Nothing more comes from there. */
static void end_sink(struct leg *leg)
{
	const struct sink_ops *ops = leg->pump->ops;

	if (!leg->sink)
		return;
	if (ops->fail && leg->why == STOPPED_ERROR)
		ops->fail(leg->sink, ringtail_last_error(leg->ringtail)->what);
	if (ops->end)
		ops->end(leg->sink);
}

/* Its first instruction, or whoever else is asked for, comes after this. */
static int begin_command(struct leg *leg)
{
	const struct pump *pump = leg->pump;
	int err = who_begin(pump->who, ringtail_host(leg->ringtail), &leg->error);

	if (!err && pump->who->command)
		err = command_go(pump->who->command, &leg->error);
	return err;
}

static int begin_leg(struct leg *leg)
{
	const struct pump *pump = leg->pump;

	leg->end_ns = UINT64_MAX;
	if (pump->who && begin_command(leg))
		return -1;
	leg->began_realtime_ns = ringtail_host(leg->ringtail)->realtime_ns;
	if (!pump->from_past)
		begin_duration(leg);
	leg->sink = pump->ops ? make_sink(leg) : NULL;
	return pump->ops && !leg->sink ? -1 : 0;
}

/* A host that fails does not end the others; who has enough, or cannot write, does. */
static void *run_leg(void *context)
{
	struct leg *leg = context;

	leg->why = pump_items(leg);
	lock(leg->run);
	if (leg->run->pump->hosts > 1 && !leg->run->enough &&
	    ((leg->why == STOPPED_SELF && !leg->flushing) || leg->why == STOPPED_OUTPUT)) {
		leg->run->enough = true;
		stop_now();
	}
	end_sink(leg);
	/* How it failed is said at the end, which may be long from now. */
	if (leg->run->pump->through && leg->why == STOPPED_ERROR)
		note(leg, "", ringtail_last_error(leg->ringtail)->what, "; the other hosts go on");
	unlock(leg->run);
	return NULL;
}

/* The first host's part runs here, each other one's in a thread. */
static void run_legs(struct run *run)
{
	const size_t hosts = run->pump->hosts;
	int err = 0;

	for (size_t i = 1; i < hosts && !err; i++) {
		struct leg *leg = run->leg[i];

		err = pthread_create(&leg->thread, NULL, run_leg, leg);
		leg->started = !err;
		if (err) {
			failure_set(&leg->error, err, "no-thread", "cannot start a thread: %s", strerror(err));
			leg->why = STOPPED_SINK;
			run->enough = true;
		}
	}
	run_leg(run->leg[0]);
	for (size_t i = 1; i < hosts; i++)
		if (run->leg[i]->started)
			pthread_join(run->leg[i]->thread, NULL);
}

/* One host more. NULL: it cannot begin, which was said. */
static struct leg *add_leg(struct run *run, struct ringtail *ringtail, const char *label)
{
	struct leg **larger = reallocarray(run->leg, run->legs + 1, sizeof(struct leg *));
	struct leg *leg = calloc(1, sizeof(*leg));

	run->leg = larger ? larger : run->leg;
	if (!larger || !leg) {
		free(leg);
		fprintf(run->pump->messages, "tracectl: error: [no-memory] out of memory\n");
		return NULL;
	}
	*leg = (struct leg){ .run = run, .pump = run->pump, .ringtail = ringtail, .label = label };
	run->leg[run->legs++] = leg;
	if (!begin_leg(leg))
		return leg;
	tell_failure(leg, &leg->error);
	return NULL;
}

/* ---- Lanes: all hosts of one stream, in this thread ------------------------------------------- */

static uint64_t begin_of_all(const struct run *run)
{
	const struct pump *pump = run->pump;

	return !pump->from_past && pump->duration_ns && pump->duration_ns < UINT64_MAX - run->start_ns ?
	       run->start_ns + pump->duration_ns : UINT64_MAX;
}

/* All that is at hand of one host. */
static void read_leg(struct leg *leg)
{
	struct ringtail_item item;

	while (leg->why == GOES_ON && ringtail_next(leg->ringtail, &item, 0) != RINGTAIL_TIMEOUT)
		leg->why = output_error(leg->pump) ? STOPPED_OUTPUT : take(leg, &item);
	leg->totals = *ringtail_totals(leg->ringtail);
	if (leg->end_ns < leg->run->end_ns)
		leg->run->end_ns = leg->end_ns;
}

/* What is here is still shown. */
static enum why_stopped stop_lanes(struct run *run, const char *why)
{
	for (size_t i = 0; i < run->legs; i++) {
		struct leg *leg = run->leg[i];

		if (leg->why != GOES_ON)
			continue;
		leg->why = stop_softly(leg, why);
		read_leg(leg);
	}
	return STOPPED_SELF;
}

static void read_all(struct run *run)
{
	for (size_t i = 0; i < run->legs; i++)
		read_leg(run->leg[i]);
}

/* How one host ended is its own affair, unless that is the end of all. */
static enum why_stopped take_lane(struct run *run, size_t lane)
{
	const struct lanes *lanes = run->pump->lanes;
	struct leg *leg = lane < run->legs ? run->leg[lane] :
					     add_leg(run, lanes_handle(lanes, lane), lanes_host(lanes, lane));

	if (!leg)
		return STOPPED_SINK;
	read_leg(leg);
	return leg->why == STOPPED_SELF || leg->why == STOPPED_OUTPUT ? leg->why : GOES_ON;
}

static enum why_stopped check_lanes(struct run *run)
{
	uint64_t now_ns = conn_now_ns();

	if (progress_asked && run->legs)
		say_progress(run->leg[0], now_ns);
	if (run->pump->show_rate && run->legs && rate_line_due(&run->rate, now_ns)) {
		flush(run->pump);
		update_rate(run->leg[0], now_ns);
	}
	if (output_error(run->pump))
		return STOPPED_OUTPUT;
	return now_ns >= run->end_ns ? stop_lanes(run, "--duration is over") : GOES_ON;
}

static int idle_lanes(struct run *run)
{
	uint64_t now_ns = conn_now_ns();
	int timeout_ms = -1;

	flush(run->pump);
	if (run->pump->show_rate && run->legs)
		timeout_ms = update_rate(run->leg[0], now_ns);
	return sooner(timeout_ms, left_ms(run->end_ns, now_ns));
}

static enum why_stopped take_next(struct run *run)
{
	struct lanes *lanes = run->pump->lanes;
	size_t lane = 0;
	enum lanes_next next = lanes_next(lanes, 0, &lane, &run->error);

	if (next == LANES_TIMEOUT)
		next = lanes_next(lanes, idle_lanes(run), &lane, &run->error);
	switch (next) {
	case LANES_FRAME:
		return take_lane(run, lane);
	case LANES_TIMEOUT:
		break;
	case LANES_INTERRUPTED:
		return stop_lanes(run, "tracectl was interrupted");
	case LANES_END:
		read_all(run);
		return STOPPED_END;
	case LANES_FAILED:
		read_all(run);
		return STOPPED_ERROR;
	}
	return GOES_ON;
}

static void run_lanes(struct run *run)
{
	run->end_ns = begin_of_all(run);
	while (run->why == GOES_ON) {
		run->why = take_next(run);
		if (run->why == GOES_ON)
			run->why = check_lanes(run);
	}
	for (size_t i = 0; i < run->legs; i++)
		end_sink(run->leg[i]);
}

/* Those that are known from the beginning. */
static int begin_legs(struct run *run)
{
	for (size_t i = 0; i < run->pump->hosts; i++)
		if (!add_leg(run, run->pump->host[i].ringtail, run->pump->host[i].label))
			return -1;
	return 0;
}

static void free_run(struct run *run)
{
	struct pump *pump = run->pump;
	bool joined = false;

	for (size_t i = 0; i < run->legs; i++) {
		if (run->leg[i]->sink)
			pump->ops->destroy(run->leg[i]->sink);
		joined |= run->leg[i]->sink != NULL;
		free(run->leg[i]);
	}
	if (pump->ops && pump->sink && !joined)
		pump->ops->destroy(pump->sink);
	pump->sink = NULL;
	pthread_mutex_destroy(&run->lock);
	free(run->leg);
	free(run);
}

enum exit_code pump_run(struct pump *pump)
{
	struct run *run = calloc(1, sizeof(*run));
	enum exit_code code = EXIT_FAILED;

	if (!run) {
		fprintf(pump->messages, "tracectl: error: [no-memory] out of memory\n");
		return EXIT_FAILED;
	}
	run->pump = pump;
	run->start_ns = conn_now_ns();
	pthread_mutex_init(&run->lock, NULL);
	rate_line_init(&run->rate, pump->messages);
	progress_listen();
	if (!begin_legs(run)) {
		if (pump->show_rate && pump->events_on_terminal)
			out_set_before_write(pump->out, clear_rate_line, &run->rate);
		if (pump->lanes)
			run_lanes(run);
		else
			run_legs(run);
		code = conclude(run);
		out_set_before_write(pump->out, NULL, NULL);
	}
	free_run(run);
	return code;
}
