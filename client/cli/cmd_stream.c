/*
 * cmd_stream: events as they happen; and what record shares with it.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/lib/cursor.h"
#include "client/cli/cursor_file.h"
#include "client/cli/hosts.h"
#include "client/cli/kafka_source.h"
#include "client/lib/failure.h"
#include "client/cli/reached.h"
#include "client/cli/since.h"
#include "client/cli/stop.h"
#include "client/cli/where.h"
#include "client/cli/who.h"

static struct out out;

const struct sink_ops *cmd_sink(enum format format)
{
	static const struct sink_ops *const ops[] = {
		[FORMAT_TEXT] = &print_text, [FORMAT_JSON] = &print_json, [FORMAT_FOLDED] = &print_folded,
		[FORMAT_CSV] = &print_csv, [FORMAT_PPROF] = &print_pprof,
		[FORMAT_PERFETTO] = &print_perfetto, [FORMAT_KPTRACE] = &print_kptrace,
		[FORMAT_SQLITE] = &write_sqlite,
		[FORMAT_CTF] = &write_ctf,
	};

	return ops[format];
}

const char *cmd_text_of(const struct settings *settings, const struct ringtail_error *error)
{
	if (strstr(error->code, "consumer"))
		return settings->consumer;
	if (strstr(error->code, "cursor"))
		return settings->since;
	if (strstr(error->code, "probe"))
		return settings->probe.n == 1 ? settings->probe.text[0] : NULL;
	return settings->filter;
}

/* Where to begin: the file of a place, if there is one already; else what --since says. */
static int find_start(const struct settings *settings, struct ringtail_subscription *wanted,
		      char **place, struct ringtail_error *error)
{
	uint64_t output_bytes;
	struct timespec now;
	int err = 0;

	*place = NULL;
	if (settings->cursor)
		err = cursor_file_load(settings->cursor, place, &output_bytes, error);
	if (!err && *place) {
		wanted->since = *place;
		return cursor_file_cut(STDOUT_FILENO, output_bytes, error);
	}
	if (err || !settings->since)
		return err;
	if (since_is_cursor(settings->since)) {
		struct cursor *cursor;	/* parsed again where it is used: a slip is usage */

		wanted->since = settings->since;
		err = cursor_parse(settings->since, &cursor, error);
		free(cursor);
		return err;
	}
	clock_gettime(CLOCK_REALTIME, &now);
	return since_parse_time(settings->since,
				(uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
				&wanted->since_realtime_ns, error);
}

/* Refuses what makes no sense with --until, or would acknowledge what is left out. */
static int find_end(const struct settings *settings, uint64_t since_ns, uint64_t *until_ns,
		    struct ringtail_error *error)
{
	struct timespec now;
	uint64_t now_ns;
	int err;

	*until_ns = 0;
	if (!settings->until)
		return 0;
	if (settings->consumer || settings->cursor)
		return failure_set(error, EINVAL, "until-and-place", "--until leaves out what comes "
				   "after it, and --%s would pass over that",
				   settings->consumer ? "consumer" : "cursor");
	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	err = since_parse_until(settings->until, now_ns, until_ns, error);
	if (err || (settings->since ? *until_ns > since_ns : *until_ns > now_ns))
		return err;
	failure_set(error, EINVAL, "bad-until", "--until %s is not after the stream's beginning",
		    settings->until);
	failure_hint(error, "a stream without --since begins now; tracectl stream --since -5m "
		     "--until now shows the last five minutes");
	return -EINVAL;
}

struct out *cmd_out(void)
{
	return &out;
}

/* Whether SPECs ask for the maps that come along with stacks as events of their own. */
bool cmd_shows_maps(const struct settings *settings)
{
	for (size_t i = 0; i < settings->probe.n; i++)
		if (!strncmp(settings->probe.text[i], "process:map", strlen("process:map")))
			return true;
	return false;
}

unsigned cmd_sink_flags(const struct settings *settings)
{
	static const unsigned flag[] = {
		[TIMES_LOCAL] = 0, [TIMES_UTC] = SINK_UTC, [TIMES_RELATIVE] = SINK_RELATIVE,
		[TIMES_DELTA] = SINK_DELTA,
	};

	return settings->utc ? SINK_UTC : flag[settings->time];
}

/*
 * A person who watches gets strings without asking. A script does not: what it reads, and what it costs the traced
 * programs, stays as it was written; nor what was recorded before, which may be without them.
 */
static bool strings_unasked(const struct settings *settings, bool shows_text)
{
	return shows_text && isatty(STDOUT_FILENO) && !settings->flags_given && !settings->since &&
	       !settings->consumer && !settings->cursor;
}

/* Folded stacks are of stacks. */
static unsigned wanted_flags(const struct settings *settings, bool stacks_only, bool shows_text)
{
	const unsigned stacks = RINGTAIL_KSTACK | RINGTAIL_USTACK;
	unsigned flags = settings->flags | (strings_unasked(settings, shows_text) ? RINGTAIL_STRINGS : 0);

	if (stacks_only && !(flags & stacks))
		flags |= stacks;
	return flags & stacks ? flags | RINGTAIL_MAPS : flags;
}

static int check(const struct settings *settings, const struct cmd_view *view,
		 struct ringtail_error *error)
{
	if (view->ops && view->ops->is_binary && isatty(STDOUT_FILENO)) {
		failure_set(error, EINVAL, "terminal", "this format is no text, and stdout is a terminal");
		failure_hint(error, "send stdout to a file, with >FILE");
		return -EINVAL;
	}
	if (settings->consumer && !*settings->consumer)
		return failure_set(error, EINVAL, "no-name",
				   "--consumer is empty: it is the durable consumer's name");
	return hosts_check(settings, view, error);
}

/* The daemon has refused strings that nobody asked for, and left. */
static int subscribe_bare(const struct settings *settings, const struct ringtail_subscription *wanted, struct who *who,
			  struct pump *pump, size_t i, struct ringtail_error *error)
{
	struct ringtail_subscription bare = *wanted;
	struct ringtail *again;

	bare.flags &= ~(unsigned)RINGTAIL_STRINGS;
	if (hosts_connect_again(settings, pump, i, &again, error))
		return -ENOTCONN;
	ringtail_close(pump->host[i].ringtail);
	pump->host[i].ringtail = again;
	ringtail_set_span(again, 0, pump->until_realtime_ns);
	who_look(who, ringtail_host(again));
	return ringtail_subscribe(again, &bare, error);
}

/* A daemon that is too old to count sends each event. `asked` is borrowed until it is subscribed. */
static void ask(struct pump *pump, size_t i, struct ringtail_question *asked)
{
	struct ringtail *ringtail = pump->host[i].ringtail;
	struct ringtail_error ignored;

	where_set_origin(asked, ringtail_host(pump->host[0].ringtail), ringtail_host(ringtail));
	if (!ringtail_ask(ringtail, asked, &ignored) && asked->interval_ns)
		pump->settles = true;
}

/* A program that is to bring a probe is waited for: one that tracectl itself is to start would wait for tracectl. */
static bool may_wait(const struct settings *settings, const struct pump *pump)
{
	return pump->hosts == 1 && !pump->from_past && !settings->command;
}

struct waiting {
	struct ringtail *ringtail;
	int interrupt_fd;
	bool waits;
};

static void on_waits(void *context, const struct ringtail_error *error)
{
	struct waiting *waiting = context;

	waiting->waits = true;
	failure_print(stderr, error, NULL);
	ringtail_set_interrupt(waiting->ringtail, waiting->interrupt_fd);
}

/* What --duration allows, rounded up; -1: as long as it takes. */
static int waits_ms(const struct settings *settings)
{
	uint64_t ms = (settings->duration + 999999) / 1000000;

	if (!settings->duration)
		return -1;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

/* Subscribes to what one daemon has. */
static int subscribe(const struct settings *settings, const struct cmd_view *view, const struct cmd_tap *tap,
		     const struct ringtail_subscription *wanted, struct who *who, struct pump *pump, size_t i,
		     struct waiting *waiting, struct ringtail_error *error)
{
	struct ringtail_question asked = view->question ? *view->question : (struct ringtail_question){ 0 };
	struct pump_host *host = &pump->host[i];
	int err;

	if (tap)
		ringtail_set_tap(host->ringtail, tap->frame, tap->context);
	ringtail_set_span(host->ringtail, wanted->since_realtime_ns, pump->until_realtime_ns);
	who_look(who, ringtail_host(host->ringtail));
	if (view->question)
		ask(pump, i, &asked);
	waiting->ringtail = host->ringtail;
	if (may_wait(settings, pump))
		ringtail_set_waits(host->ringtail, waits_ms(settings), on_waits, waiting);
	err = ringtail_subscribe(host->ringtail, wanted, error);
	if (err && !strcmp(error->code, "viewer-flags") &&
	    strings_unasked(settings, !tap && pump->ops == &print_text))
		err = subscribe_bare(settings, wanted, who, pump, i, error);
	return err;
}

/* Nobody waits any more: it was interrupted, or --duration is over, and no program has come. */
static bool was_in_vain(const struct waiting *waiting, int err)
{
	return waiting->waits && (err == -EINTR || err == -ETIMEDOUT);
}

/* Subscribes, and shows what comes until the end. */
static enum exit_code take(const struct settings *settings, const struct cmd_view *view, const struct cmd_tap *tap,
			   const struct ringtail_subscription *wanted, struct who *who,
			   struct pump *pump)
{
	struct waiting waiting = { 0 };
	struct ringtail_error error;
	enum exit_code code;
	int err;

	out_init(&out, STDOUT_FILENO);
	/* Who sees us at the daemon may interrupt us: once there is an answer, we end as always. */
	waiting.interrupt_fd = stop_init();
	for (size_t i = 0; i < pump->hosts; i++) {
		err = subscribe(settings, view, tap, wanted, who, pump, i, &waiting, &error);
		if (err && was_in_vain(&waiting, err) && !tap) {
			/* It ends as a stream in which nothing happened: by the same interrupt, or at once. */
			if (err == -ETIMEDOUT)
				pump->duration_ns = 1;
			return pump_run(pump);
		}
		if (was_in_vain(&waiting, err) && err == -ETIMEDOUT) {
			/* For what it waited was said when it began to. */
			failure_set(&error, ETIMEDOUT, "no-program", "no program has come within --duration: nothing is recorded");
			failure_hint(&error, "start the program, or let --duration be longer");
		}
		/* One of a relay's hosts that cannot answer does not keep the others from it. */
		if (err && pump->through && pump->hosts > 1) {
			who_place(who, &error);
			reached_drop(pump, i--, &error);
			continue;
		}
		if (err) {
			who_place(who, &error);
			/* That of a lost connection names the daemon itself. */
			if ((pump->hosts > 1 || pump->through) && strcmp(error.code, "connection-lost") != 0)
				failure_say(stderr, "%s refuses:", hosts_name(settings, pump, i));
			return cmd_fail(&error, cmd_text_of(settings, &error));
		}
	}
	if (hosts_label(settings, pump, &error))
		return cmd_fail(&error, NULL);
	for (size_t i = 0; i < pump->hosts; i++)
		ringtail_set_interrupt(pump->host[i].ringtail, waiting.interrupt_fd);
	code = pump_run(pump);
	/* What was recorded is whole: tracectl itself ended it. The daemon's own Bye is there. */
	if (tap && pump->ended_by && ringtail_end_tap(pump->host->ringtail, pump->ended_by, &error))
		code = cmd_fail(&error, NULL);
	return code;
}

void cmd_drop_sink(const struct sink_ops *ops, struct sink *sink)
{
	if (ops && sink)
		ops->destroy(sink);
}

static enum exit_code follow(const struct settings *settings, const struct cmd_view *view,
			     const struct cmd_tap *tap, const char *command, struct who *who)
{
	struct ringtail_subscription wanted = {
		.probe = who->probe,
		.probes = who->probes,
		.filter = who->filter,
		.consumer = settings->consumer,
		.flags = wanted_flags(settings, view->ops && view->ops->wants_stacks,
				      !tap && view->ops == &print_text),
		/* COUNT events, and those since a cursor, can only be told apart one by one. */
		.count_only = !view->ops && !who->tree && !settings->since && !settings->consumer &&
			      !settings->cursor && !settings->until && (tap || !settings->count),
		.reconnect = true,
	};
	struct pump pump = {
		.out = &out,
		.also = tap ? tap->out : NULL,
		.ops = view->ops,
		.sink = view->sink,
		.who = who,
		.color = cmd_color(settings, stdout),
		.sink_flags = cmd_sink_flags(settings),
		.shows_maps = cmd_shows_maps(settings),
		.events_max = settings->count,
		.duration_ns = settings->duration,
		.from_past = settings->since || settings->consumer || settings->cursor,
		.resumable = true,
		.acknowledges = settings->consumer,
		.cursor_path = settings->cursor,
		.show_rate = true,
		.events_on_terminal = view->ops && isatty(STDOUT_FILENO),
		.summary = settings->summary,
		.messages = stderr,
	};
	struct ringtail_error error;
	enum exit_code code;
	char *place;
	int err;

	if (check(settings, view, &error)) {
		cmd_drop_sink(pump.ops, pump.sink);
		return cmd_usage(&error, command);
	}
	err = find_start(settings, &wanted, &place, &error);
	if (err == -EINVAL) {
		cmd_drop_sink(pump.ops, pump.sink);
		return cmd_usage_at(&error, command, settings->since);
	}
	if (!err && find_end(settings, wanted.since_realtime_ns, &pump.until_realtime_ns, &error)) {
		free(place);
		cmd_drop_sink(pump.ops, pump.sink);
		return cmd_usage_at(&error, command, settings->until);
	}
	if (!err)
		err = hosts_connect(settings, &pump, &error);
	code = err ? cmd_fail(&error, NULL) : take(settings, view, tap, &wanted, who, &pump);
	hosts_close(&pump);
	cmd_drop_sink(pump.ops, pump.sink);
	free(place);
	return pump.unasked && (code == EXIT_GOOD || code == EXIT_LOST) ? EXIT_FAILED : code;
}

/* What couriers carry, as it comes to Kafka: a recording that has no end. */
static enum exit_code follow_kafka(const struct settings *settings, const struct cmd_view *view,
				   const struct cmd_tap *tap, const char *command)
{
	struct settings asked = *settings;
	struct ringtail_error error;

	asked.operand = settings->connect.text[0];
	if (settings->connect.n == 1 && !tap && !settings->consumer && !settings->cursor && !settings->command &&
	    !settings->tree.n)
		return cmd_follow_file(&asked, view, command);
	if (tap) {
		failure_set(&error, EINVAL, "not-of-kafka", "record takes events of a daemon");
		failure_hint(&error, "ringtail-kafka --source %.200s >FILE records what is in Kafka", asked.operand);
	} else {
		failure_set(&error, EINVAL, "not-of-kafka", "--connect kafka: stands alone, without --consumer, --cursor, "
			    "--tree and a command");
		failure_hint(&error, "ask the daemon of the host for those");
	}
	cmd_drop_sink(view->ops, view->sink);
	return cmd_usage(&error, command);
}

/* The command's own status comes first: whoever asks for it by its status, asks for that. */
enum exit_code cmd_follow(const struct settings *settings, const struct cmd_view *view,
			  const struct cmd_tap *tap, const char *command)
{
	bool profiles = view->ops && view->ops->wants_stacks;
	struct ringtail_error error;
	enum exit_code code;
	struct who who;
	int status;

	for (size_t i = 0; i < settings->connect.n; i++)
		if (kafka_source_is(settings->connect.text[i]))
			return follow_kafka(settings, view, tap, command);
	if (who_create(settings, profiles ? "profile:hz:99" : "syscall:*:call", &who, &error)) {
		cmd_drop_sink(view->ops, view->sink);
		return cmd_usage_at(&error, command, error.column ? settings->filter : NULL);
	}
	if (profiles && !who.probes)
		who.probe[who.probes++] = "profile:hz:99";
	code = follow(settings, view, tap, command, &who);
	if (tap && who.tree)
		fprintf(stderr, "tracectl: the recording holds the events of all processes; tracectl read "
			"--tree PID shows those of one, and of what it forks\n");
	status = who_destroy(&who);
	return status && code != EXIT_FAILED && code != EXIT_USAGE ? (enum exit_code)status : code;
}

enum exit_code cmd_stream(const struct settings *settings)
{
	const struct cmd_view view = {
		.ops = cmd_sink(settings->output ? settings->output : FORMAT_TEXT),
	};

	return cmd_follow(settings, &view, NULL, "stream");
}
