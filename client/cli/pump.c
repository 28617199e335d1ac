#include "client/cli/pump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/cli/cursor_file.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/cli/rate_line.h"
#include "client/cli/stack_names.h"
#include "client/cli/units.h"
#include "client/cli/who.h"
#include "query/visible.h"

#define ITEMS_BETWEEN_CLOCKS 4096	/* how long a flood may hide that the time is over */

enum why_stopped {
	GOES_ON,
	STOPPED_SELF,		/* -n, --duration, a signal */
	STOPPED_END,
	STOPPED_ERROR,
	STOPPED_OUTPUT,
	STOPPED_PLACE,		/* it cannot be saved, or not acknowledged */
};

struct run {
	struct pump *pump;
	struct sink *sink;
	struct rate_line rate;
	uint64_t start_ns, end_ns;	/* end: when --duration is over */
	uint64_t acked_ns;		/* when it acknowledged last, */
	bool unacked;			/* and whether anything has come since */
	struct ringtail_error error;	/* of an acknowledgement */
	unsigned items;
	uint64_t began_realtime_ns;	/* the start, by the traced host's clock */
	bool past_over;			/* all that was before it has come */
	uint32_t missing;		/* bits of reasons of gaps */
	uint64_t hidden;		/* events that were only for the names of stacks */
	uint64_t left_out;		/* events of other processes than were asked for */
	bool flushing;			/* stopping by itself, but what is here is still shown */
};

void pump_print_summary(FILE *to, enum summary format, const struct ringtail_totals *totals,
			uint64_t maps, double seconds)
{
	char ledger[48] = "balanced", more[64] = "", early[64] = "", beside[64] = "";
	uint64_t events = totals->events - maps;
	char wire[UNITS_TEXT_BYTES], rate[UNITS_TEXT_BYTES];

	if (totals->residual)
		snprintf(ledger, sizeof(ledger), "residual %llu",
			 (unsigned long long)totals->residual);
	else if (totals->cut_short)
		snprintf(ledger, sizeof(ledger), "cut short");
	if (totals->unknown)
		snprintf(more, sizeof(more), " and an unknown number (in %llu gap%s)",
			 (unsigned long long)totals->unknown, totals->unknown > 1 ? "s" : "");
	if (totals->filtered)
		snprintf(early, sizeof(early), ", %llu not chosen",
			 (unsigned long long)totals->filtered);
	if (maps)
		snprintf(beside, sizeof(beside), " and %llu map%s for the names of stacks",
			 (unsigned long long)maps, maps > 1 ? "s" : "");
	if (format == SUMMARY_JSON)
		fprintf(to, "{\"events\":%llu,\"lost\":%llu,\"frames\":%llu,\"wire_bytes\":%llu,"
			"\"raw_bytes\":%llu,\"seconds\":%.6f,\"ledger\":\"%s\","
			"\"filtered\":%llu,\"gaps\":%llu,\"maps\":%llu}\n",
			(unsigned long long)events, (unsigned long long)totals->lost,
			(unsigned long long)totals->frames, (unsigned long long)totals->wire_bytes,
			(unsigned long long)totals->raw_bytes, seconds, ledger,
			(unsigned long long)totals->filtered, (unsigned long long)totals->unknown,
			(unsigned long long)maps);
	else if (format == SUMMARY_TEXT)
		fprintf(to, "%llu events%s in %.3f s (%s/s), %llu lost%s%s; %llu frames, %s; "
			"ledger %s\n",
			(unsigned long long)events, beside, seconds,
			units_format_rate(seconds > 0 ? (double)events / seconds : 0, rate),
			(unsigned long long)totals->lost, more, early,
			(unsigned long long)totals->frames,
			units_format_bytes((double)totals->wire_bytes, wire), ledger);
	fflush(to);
}

enum exit_code pump_verdict(const struct ringtail_totals *totals)
{
	return totals->lost || totals->gaps || totals->residual || totals->cut_short ? EXIT_LOST :
										       EXIT_GOOD;
}

static void note(struct run *run, const char *format, const char *text)
{
	char shown[512];

	visible_copy(shown, sizeof(shown), text ? text : "", text ? strlen(text) : 0);
	out_flush(run->pump->out);
	rate_line_clear(&run->rate);
	fprintf(run->pump->messages, format, shown);
	fflush(run->pump->messages);
}

/* Stops without losing what is here: it is still given out, then the stream ends. */
static enum why_stopped stop_softly(struct run *run, const char *why)
{
	if (run->flushing)
		return STOPPED_SELF;
	run->pump->ended_by = why;
	run->flushing = true;
	ringtail_flush(run->pump->ringtail);
	return GOES_ON;
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

static int save_place(const struct pump *pump, struct ringtail_error *error)
{
	char *text = malloc(CURSOR_TEXT_BYTES_MAX);
	int err = text ? ringtail_cursor(pump->ringtail, text, CURSOR_TEXT_BYTES_MAX) : -ENOMEM;

	if (err)
		failure_set(error, -err, "cursor-file", "the cursor is too long to be stored");
	else if (text[strlen(text) - 1] != '/')	/* else no CPU has a place yet */
		err = cursor_file_save(pump->cursor_path, text, cursor_file_output(pump->out->fd),
				       error);
	free(text);
	return err;
}

/* What has been given out is written, and then saved and acknowledged, in this order. */
static bool acknowledge(struct run *run)
{
	struct pump *pump = run->pump;

	if (!run->unacked || (!pump->acknowledges && !pump->cursor_path))
		return true;
	if (flush(pump))
		return true;			/* the caller looks at the output */
	run->unacked = false;
	run->acked_ns = conn_now_ns();
	if (pump->cursor_path && save_place(pump, &run->error))
		return false;
	/* A connection that breaks is noticed where it is read. */
	if (pump->acknowledges)
		ringtail_ack(pump->ringtail, &(struct ringtail_error){ 0 });
	return true;
}

static bool acknowledge_in_time(struct run *run, uint64_t now_ns)
{
	return now_ns - run->acked_ns < ACK_INTERVAL_MS * 1000000ull || acknowledge(run);
}

static enum why_stopped check_clock(struct run *run)
{
	uint64_t now_ns = conn_now_ns();

	if (run->pump->show_rate && rate_line_due(&run->rate, now_ns)) {
		flush(run->pump);		/* whole lines are above it */
		rate_line_update(&run->rate, ringtail_totals(run->pump->ringtail), now_ns);
	}
	if (!acknowledge_in_time(run, now_ns))
		return STOPPED_PLACE;
	return now_ns >= run->end_ns && !run->flushing ? stop_softly(run, "--duration is over") :
							 GOES_ON;
}

/* The past has come, or cannot come now: --duration counts from here. */
static void begin_duration(struct run *run)
{
	const struct pump *pump = run->pump;
	uint64_t now_ns;

	if (run->past_over)
		return;
	run->past_over = true;
	now_ns = conn_now_ns();
	if (pump->duration_ns && pump->duration_ns < UINT64_MAX - now_ns)
		run->end_ns = now_ns + pump->duration_ns;
}

static bool is_hidden(const struct run *run, const struct ringtail_item *item)
{
	return !run->pump->shows_maps && item->kind == RINGTAIL_EVENT &&
	       item->probe->fields == MAP_FIELDS && !strcmp(item->probe->spec, MAP_SPEC);
}

/* Whether the command has ended, and all of it has come: whatever is older than time_ns. */
static bool command_is_told(const struct run *run, uint64_t time_ns)
{
	struct command *command = run->pump->who ? run->pump->who->command : NULL;
	uint64_t ended_ns;

	return command && command_ended(command, &ended_ns) && time_ns >= ended_ns;
}

static enum why_stopped take(struct run *run, const struct ringtail_item *item)
{
	const struct ringtail_totals *totals = ringtail_totals(run->pump->ringtail);

	switch (item->kind) {
	case RINGTAIL_EVENT:
		if (run->pump->who && run->pump->who->tree && !who_takes(run->pump->who, item)) {
			run->left_out++;
			run->unacked = true;
			return GOES_ON;
		}
		/* fall through */
	case RINGTAIL_LOSS:
	case RINGTAIL_GAP:
	case RINGTAIL_BATCH:
		run->unacked = true;
		if (run->pump->who && (item->kind == RINGTAIL_LOSS || item->kind == RINGTAIL_GAP))
			who_look_again(run->pump->who);
		if (item->kind == RINGTAIL_GAP && item->reason < 32)
			run->missing |= 1u << item->reason;
		if (is_hidden(run, item))
			run->hidden++;
		if (run->sink)
			run->pump->ops->item(run->sink, item);
		if (!run->pump->events_max ||
		    totals->events - run->hidden - run->left_out < run->pump->events_max)
			return GOES_ON;
		run->pump->ended_by = "it has as many events as -n asked for";
		return STOPPED_SELF;
	case RINGTAIL_WATERMARK:
		run->unacked = true;
		if (run->sink)
			run->pump->ops->item(run->sink, item);
		if (item->realtime_ns >= run->began_realtime_ns)
			begin_duration(run);
		if (run->pump->until_realtime_ns &&
		    item->realtime_ns >= run->pump->until_realtime_ns)
			return stop_softly(run, "the time that --until asked for has come");
		return command_is_told(run, item->time_ns) ? stop_softly(run, "the command ended") :
							     GOES_ON;
	case RINGTAIL_DISCONNECTED:
		begin_duration(run);
		note(run, "tracectl: %s; reconnecting\n", item->text);
		return GOES_ON;
	case RINGTAIL_RECONNECTED:
		note(run, "tracectl: reconnected to %s\n", item->text);
		return GOES_ON;
	case RINGTAIL_INTERRUPTED:
		return stop_softly(run, "tracectl was interrupted");
	case RINGTAIL_END:
		if (run->flushing)
			return STOPPED_SELF;
		if (run->pump->resumable)
			note(run, "tracectl: the daemon ended the stream: %s\n", item->text);
		return STOPPED_END;
	case RINGTAIL_ERROR:
		return STOPPED_ERROR;
	case RINGTAIL_TIMEOUT:
		break;
	}
	return GOES_ON;
}

/* How long to wait for the next item, after showing what there is. */
static int idle(struct run *run)
{
	uint64_t now_ns = conn_now_ns();
	int rate_ms = -1, timeout_ms = -1;

	flush(run->pump);
	if (run->pump->show_rate)
		rate_ms = rate_line_update(&run->rate, ringtail_totals(run->pump->ringtail),
					   now_ns);
	if (run->end_ns != UINT64_MAX) {
		uint64_t left_ms =
			run->end_ns > now_ns ? (run->end_ns - now_ns + 999999) / 1000000 : 0;

		timeout_ms = left_ms < 3600000 ? (int)left_ms : 3600000;
	}
	if (rate_ms >= 0 && (timeout_ms < 0 || rate_ms < timeout_ms))
		timeout_ms = rate_ms;
	if (run->unacked && (run->pump->acknowledges || run->pump->cursor_path) &&
	    (timeout_ms < 0 || timeout_ms > ACK_INTERVAL_MS))
		timeout_ms = ACK_INTERVAL_MS;
	return timeout_ms;
}

static enum why_stopped pump_items(struct run *run)
{
	struct ringtail_item item;	/* of all turns: a local of each would be zeroed for each event */

	/* Also who is killed before it has saved a place finds the one where it began. */
	if (run->pump->cursor_path && access(run->pump->cursor_path, F_OK) != 0 &&
	    save_place(run->pump, &run->error))
		return STOPPED_PLACE;
	for (;;) {
		enum why_stopped why;

		if (ringtail_next(run->pump->ringtail, &item, 0) == RINGTAIL_TIMEOUT) {
			ringtail_next(run->pump->ringtail, &item, idle(run));
			run->items = ITEMS_BETWEEN_CLOCKS;
		}
		if (output_error(run->pump))
			return STOPPED_OUTPUT;
		why = take(run, &item);
		if (why == GOES_ON && (item.kind == RINGTAIL_BATCH ||
				       ++run->items >= ITEMS_BETWEEN_CLOCKS)) {
			run->items = 0;
			why = check_clock(run);
		}
		if (why != GOES_ON)
			return why;
	}
}

static void tell_cursor(struct run *run)
{
	char *text = malloc(CURSOR_TEXT_BYTES_MAX);

	if (text && !ringtail_cursor(run->pump->ringtail, text, CURSOR_TEXT_BYTES_MAX))
		fprintf(run->pump->messages, "resume with: --since %s\n", text);
	free(text);
}

/* Of what of the past was not there: why, and what to do to have it the next time. */
static void tell_remedies(const struct run *run)
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

	for (unsigned reason = 0; run->pump->from_past && reason < 32; reason++)
		for (size_t i = 0; i < sizeof(remedies) / sizeof(*remedies); i++)
			if (run->missing & 1u << reason &&
			    !strcmp(ringtail_reason_name(reason), remedies[i].reason))
				fprintf(run->pump->messages, "tracectl: the past is not all there: %s\n",
					remedies[i].remedy);
}

/* Of a recording; a daemon's own filter tells of it by its counter. */
static void tell_undecided(const struct run *run, const struct ringtail_totals *totals)
{
	if (totals->undecided)
		fprintf(run->pump->messages, "tracectl: %llu events were let through because a text that the "
			"filter asks for is cut or was not recorded; record with --flags strings,context\n",
			(unsigned long long)totals->undecided);
}

/* Says how it ended and returns what to exit with. */
static enum exit_code conclude(struct run *run, enum why_stopped why)
{
	struct pump *pump = run->pump;
	const struct ringtail_totals *totals = ringtail_totals(pump->ringtail);
	struct ringtail_totals told = *totals;
	double seconds = (double)(conn_now_ns() - run->start_ns) / 1e9;
	enum exit_code code = pump_verdict(totals);

	if (flush(pump))
		why = STOPPED_OUTPUT;
	else if (why != STOPPED_PLACE && !acknowledge(run))
		why = STOPPED_PLACE;
	rate_line_clear(&run->rate);
	if (why == STOPPED_ERROR) {
		failure_print(pump->messages, ringtail_last_error(pump->ringtail), NULL);
		if (totals->frames)
			fprintf(pump->messages, "    %llu events were read before that\n",
				(unsigned long long)totals->events);
		code = EXIT_FAILED;
	} else if (why == STOPPED_PLACE) {
		failure_print(pump->messages, &run->error, NULL);
		code = EXIT_FAILED;
	} else if (why == STOPPED_OUTPUT && output_error(pump) != EPIPE) {
		failure_set(&run->error, output_error(pump), "cannot-write", "cannot write: %s",
			    strerror(output_error(pump)));
		failure_print(pump->messages, &run->error, NULL);
		code = EXIT_FAILED;
	} else if (why == STOPPED_OUTPUT && !out_error(pump->also ? pump->also : pump->out)) {
		pump->ended_by = "nobody reads the events any more";
	}
	if (why == STOPPED_ERROR)
		pump->ended_by = NULL;
	else if (totals->cut_short)
		failure_print(pump->messages, ringtail_last_error(pump->ringtail), NULL);
	tell_remedies(run);
	tell_undecided(run, totals);
	told.events -= run->left_out;
	told.filtered += run->left_out;
	if (why == STOPPED_SELF && pump->resumable && !pump->until_realtime_ns &&
	    !(pump->who && pump->who->command) &&
	    (pump->summary == SUMMARY_TEXT || isatty(fileno(pump->messages))))
		tell_cursor(run);
	pump_print_summary(pump->messages, pump->summary, &told, run->hidden, seconds);
	return code;
}

static void clear_rate_line(void *context)
{
	rate_line_clear(context);
}

/* The sink that the caller has made, or a new one; NULL with run->error. */
static struct sink *make_sink(struct run *run)
{
	struct pump *pump = run->pump;
	const struct sink_place place = {
		.path = pump->path,
		.out = pump->out,
		.host = ringtail_host(pump->ringtail),
		.totals = ringtail_totals(pump->ringtail),
		.flags = (pump->color ? SINK_COLOR : 0) | (pump->shows_maps ? SINK_MAPS : 0) |
			 pump->sink_flags,
	};
	struct sink *sink;

	if (pump->sink && pump->ops->begin)
		pump->ops->begin(pump->sink, &place);
	if (pump->sink)
		return pump->sink;
	if (pump->ops->open)
		return pump->ops->open(&place, &run->error);
	sink = pump->ops->create(place.out, place.host, place.flags);
	if (!sink)
		failure_set(&run->error, ENOMEM, "no-memory", "out of memory");
	return sink;
}

/* Nothing more comes. */
static void end_sink(struct run *run, enum why_stopped why)
{
	const struct sink_ops *ops = run->pump->ops;

	if (ops && ops->fail && why == STOPPED_ERROR)
		ops->fail(run->sink, ringtail_last_error(run->pump->ringtail)->what);
	if (ops && ops->end)
		ops->end(run->sink);
}

/* Its first instruction, or whoever else is asked for, comes after this. */
static int begin_command(const struct pump *pump, struct ringtail_error *error)
{
	int err = who_begin(pump->who, ringtail_host(pump->ringtail), error);

	if (!err && pump->who->command)
		err = command_go(pump->who->command, error);
	if (!err)
		return 0;
	failure_print(pump->messages, error, NULL);
	if (pump->ops && pump->sink)
		pump->ops->destroy(pump->sink);
	return err;
}

enum exit_code pump_run(struct pump *pump)
{
	struct run run = { .pump = pump, .start_ns = conn_now_ns(), .end_ns = UINT64_MAX };
	enum exit_code code;
	enum why_stopped why;

	if (pump->who && begin_command(pump, &run.error))
		return EXIT_FAILED;
	run.began_realtime_ns = ringtail_host(pump->ringtail)->realtime_ns;
	if (!pump->from_past)
		begin_duration(&run);
	if (pump->ops) {
		run.sink = make_sink(&run);
		if (!run.sink) {
			failure_print(pump->messages, &run.error, NULL);
			return EXIT_FAILED;
		}
	}
	rate_line_init(&run.rate, pump->messages);
	if (pump->show_rate && pump->events_on_terminal)
		out_set_before_write(pump->out, clear_rate_line, &run.rate);
	why = pump_items(&run);
	end_sink(&run, why);
	code = conclude(&run, why);
	out_set_before_write(pump->out, NULL, NULL);
	if (pump->ops)
		pump->ops->destroy(run.sink);
	return code;
}
