/*
 * cmd_read: the events of a file, or of a spool directory, as stream shows them live.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/hosts.h"
#include "client/cli/kafka_source.h"
#include "client/cli/output.h"
#include "client/lib/failure.h"
#include "client/lib/lanes.h"
#include "client/cli/since.h"
#include "client/cli/spool_dir.h"
#include "client/cli/stop.h"
#include "client/cli/who.h"

static bool is_directory(const char *path)
{
	struct stat stat_of;

	return stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
}

/* How much there is to read; 0: nobody knows, as of a pipe. */
static uint64_t bytes_of(int fd, const struct spool_dir *dir)
{
	struct stat stat_of;

	if (dir)
		return spool_dir_bytes(dir);
	return fstat(fd, &stat_of) == 0 && S_ISREG(stat_of.st_mode) ? (uint64_t)stat_of.st_size : 0;
}

/* No events, and no error: that is how a spool begins. */
static enum exit_code nothing_yet(const struct ringtail_error *error,
				  const struct settings *settings)
{
	failure_say(stderr, "%s", error->what);
	pump_print_summary(stderr, settings->summary, &(struct ringtail_totals){ 0 }, 0, 0);
	return EXIT_GOOD;
}

static int find_span(const struct settings *settings, uint64_t *since_ns, uint64_t *until_ns,
		     struct ringtail_error *error)
{
	struct timespec now;
	uint64_t now_ns;
	int err = 0;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	*since_ns = *until_ns = 0;
	if (settings->since)
		err = since_parse_time(settings->since, now_ns, since_ns, error);
	if (!err && settings->until)
		err = since_parse_until(settings->until, now_ns, until_ns, error);
	if (!err && settings->since && settings->until && *until_ns <= *since_ns)
		err = failure_set(error, EINVAL, "bad-until", "--until %s is not after --since %s",
				  settings->until, settings->since);
	return err;
}

/* --host chooses among several. */
static int check_hosts(const struct settings *settings, struct ringtail_error *error)
{
	if (!settings->host.n)
		return 0;
	if (kafka_source_is(settings->operand) && !kafka_source_names_host(settings->operand))
		return 0;
	failure_set(error, EINVAL, "one-host", "--host chooses hosts of kafka:BROKERS, and %.200s is %s",
		    settings->operand, kafka_source_is(settings->operand) ? "one host" : "no Kafka");
	failure_hint(error, "leave the host out of the source, or --host");
	return -EINVAL;
}

/* Whether that format can be written to what -w names. */
static int check_output(const struct settings *settings, const struct cmd_view *view,
			struct ringtail_error *error)
{
	bool is_stdout = !settings->write || !strcmp(settings->write, "-");

	if (settings->write && !view->ops)
		return failure_set(error, EINVAL, "no-output", "-o none writes nothing to -w %s",
				   settings->write);
	if (view->ops && view->ops->open && is_stdout)
		return failure_set(error, EINVAL, "no-file", "this format wants a name: -w FILE, not stdout");
	return 0;
}

/* Opens what the events are written to, when all else has been agreed. 0 or -errno. */
static int begin_output(const struct settings *settings, const struct cmd_view *view,
			struct ringtail_error *error)
{
	const char *path = settings->write && strcmp(settings->write, "-") ? settings->write : NULL;
	bool own = view->ops && view->ops->open;
	int fd = own ? STDOUT_FILENO :
		       output_open(path, view->ops && view->ops->is_binary ? "this format is no text" : NULL,
				   "name a file: -w FILE", error);

	if (fd < 0)
		return fd;
	out_init(cmd_out(), fd);
	if (fd != STDOUT_FILENO)
		cmd_out()->error = output_empty(fd);
	return 0;
}

/* What goes wrong at the very end. */
static enum exit_code end_output(enum exit_code code)
{
	int fd = cmd_out()->fd;

	return fd != STDOUT_FILENO && close(fd) && code != EXIT_FAILED ? cmd_written(errno, code) : code;
}

/* What is read: a file, a spool's directory, or Kafka's topics. */
struct input {
	struct spool_dir *dir;
	struct kafka_source *kafka;
	bool lanes;			/* it has several hosts */
	int fd;
};

static bool follows(const struct settings *settings)
{
	return kafka_source_is(settings->operand) && !settings->until && settings->connect.n;
}

/* All hosts, unless the source names one, or what is asked for is for one alone: then there must be one only. */
static int open_kafka(const struct settings *settings, const struct cmd_view *view, uint64_t since_ns,
		      struct input *input, struct ringtail_error *error)
{
	const struct kafka_question question = {
		.address = settings->operand,
		.follow = follows(settings),
		.since_ns = since_ns,
		.lanes = !kafka_source_names_host(settings->operand) && !hosts_single(settings, view),
		.host = settings->host.text,
		.hosts = settings->host.n,
		.wait_ns = follows(settings) ? settings->duration : 0,
	};

	input->lanes = question.lanes;
	return kafka_source_open(&question, &input->kafka, &input->fd, error);
}

/* -ENODATA: there is nothing yet, and that is no error. */
static int open_input(const struct settings *settings, const struct cmd_view *view, uint64_t since_ns,
		      struct input *input, struct ringtail_error *error)
{
	const char *path = settings->operand;

	if (kafka_source_is(path))
		return open_kafka(settings, view, since_ns, input, error);
	if (strcmp(path, "-") != 0 && is_directory(path))
		return spool_dir_open(path, stderr, &input->dir, &input->fd, error);
	input->fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	return input->fd >= 0 ? 0 : failure_set(error, errno, "cannot-read", "cannot read %s: %s", path,
						strerror(errno));
}

/* Its descriptor is closed before. */
static bool close_input(struct input *input)
{
	bool good = !input->dir || spool_dir_close(input->dir);

	return kafka_source_close(input->kafka) && good;
}

/* Takes the input's descriptor. */
static enum exit_code read_lanes(const struct settings *settings, const struct cmd_view *view, const char *command,
				 const struct lanes_wanted *wanted, struct pump *pump, int fd)
{
	struct ringtail_error error;
	enum exit_code code;
	int err = lanes_open(fd, settings->operand, wanted, &pump->lanes, &error);

	if (err) {
		who_place(pump->who, &error);
		return err == -EINVAL ? cmd_usage_at(&error, command, cmd_text_of(settings, &error)) :
					cmd_fail(&error, NULL);
	}
	lanes_set_interrupt(pump->lanes, stop_init());
	pump->hosts = 0;
	code = begin_output(settings, view, &error) ? cmd_fail(&error, NULL) : end_output(pump_run(pump));
	lanes_close(pump->lanes);
	return code;
}

/* A recording: one host's. Takes the input's descriptor. */
static enum exit_code read_one(const struct settings *settings, const struct cmd_view *view, const char *command,
			       const struct lanes_wanted *wanted, struct pump *pump, int fd)
{
	const char *path = settings->operand;
	struct ringtail_error error;
	struct ringtail *ringtail;
	enum exit_code code;

	/* Only a walk through every event tells a good file from a damaged one. */
	if (ringtail_open(fd, strcmp(path, "-") ? path : "stdin", false, &ringtail, &error))
		return cmd_fail(&error, NULL);
	ringtail_set_span(ringtail, wanted->since_ns, wanted->until_ns);
	if ((wanted->probes || wanted->filter) &&
	    ringtail_select(ringtail, wanted->probe, wanted->probes, wanted->filter, &error)) {
		who_place(pump->who, &error);
		ringtail_close(ringtail);
		return cmd_usage_at(&error, command, cmd_text_of(settings, &error));
	}
	ringtail_set_interrupt(ringtail, stop_init());
	pump->host->ringtail = ringtail;
	code = begin_output(settings, view, &error) ? cmd_fail(&error, NULL) : end_output(pump_run(pump));
	ringtail_close(ringtail);
	return code;
}

static enum exit_code follow_file(const struct settings *settings, const struct cmd_view *view, const char *command,
				  struct pump *pump)
{
	const struct who *who = pump->who;
	struct lanes_wanted wanted = { .probe = who->probe, .probes = who->probes, .filter = who->filter };
	struct ringtail_error error;
	struct input input = { .fd = -1 };
	enum exit_code code;

	if (find_span(settings, &wanted.since_ns, &wanted.until_ns, &error) || check_output(settings, view, &error) ||
	    check_hosts(settings, &error))
		return cmd_usage(&error, command);
	switch (open_input(settings, view, wanted.since_ns, &input, &error)) {
	case 0:
		break;
	case -ENODATA:
		return nothing_yet(&error, settings);
	default:
		return error.code[0] ? cmd_fail(&error, NULL) : EXIT_FAILED;
	}
	pump->bytes_all = bytes_of(input.fd, input.dir);
	code = (input.lanes ? read_lanes : read_one)(settings, view, command, &wanted, pump, input.fd);
	if (!close_input(&input) && code == EXIT_GOOD)
		code = EXIT_LOST;
	return code;
}

static enum exit_code follow_file_as(const struct settings *settings, const struct cmd_view *view, const char *command,
				     struct who *who)
{
	struct pump_host host = { .label = NULL };
	struct pump pump = {
		.host = &host,
		.hosts = 1,
		.out = cmd_out(),
		.ops = view->ops,
		.sink = view->sink,
		.who = who,
		.color = !settings->write && cmd_color(settings, stdout),
		.sink_flags = cmd_sink_flags(settings),
		.shows_maps = cmd_shows_maps(settings),
		.events_max = settings->count,
		.duration_ns = follows(settings) ? settings->duration : 0,
		.from_past = settings->since,
		.events_on_terminal = view->ops && !settings->write && isatty(STDOUT_FILENO),
		.path = settings->write,
		.show_rate = true,
		.summary = settings->summary,
		.messages = stderr,
	};
	enum exit_code code = follow_file(settings, view, command, &pump);

	cmd_drop_sink(pump.ops, pump.sink);
	return code;
}

enum exit_code cmd_follow_file(const struct settings *settings, const struct cmd_view *view,
			       const char *command)
{
	struct ringtail_error error;
	enum exit_code code;
	struct who who;

	if (who_create(settings, NULL, &who, &error)) {
		cmd_drop_sink(view->ops, view->sink);
		return cmd_usage_at(&error, command, error.column ? settings->filter : NULL);
	}
	code = follow_file_as(settings, view, command, &who);
	who_destroy(&who);
	return code;
}

enum exit_code cmd_read(const struct settings *settings)
{
	const struct cmd_view view = {
		.ops = cmd_sink(settings->output ? settings->output : FORMAT_TEXT),
	};
	struct settings asked = *settings;
	struct ringtail_error error;

	/* What Kafka has: --connect names it as for the other commands. */
	if (!asked.operand && asked.connect.n == 1 && kafka_source_is(asked.connect.text[0])) {
		asked.operand = asked.connect.text[0];
		asked.connect.n = 0;
	}
	if (asked.operand)
		return cmd_follow_file(&asked, &view, "read");
	failure_set(&error, EINVAL, "no-file", "FILE is missing: the recording to read");
	return cmd_usage(&error, "read");
}
