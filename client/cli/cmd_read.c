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
#include "client/cli/output.h"
#include "client/lib/failure.h"
#include "client/cli/since.h"
#include "client/cli/spool_dir.h"
#include "client/cli/stop.h"
#include "client/cli/who.h"

static bool is_directory(const char *path)
{
	struct stat stat_of;

	return stat(path, &stat_of) == 0 && S_ISDIR(stat_of.st_mode);
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

static enum exit_code follow_file(const struct settings *settings, const struct cmd_view *view,
				  const char *command, struct who *who)
{
	const char *path = settings->operand;
	bool is_stdin = path && !strcmp(path, "-");
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
		.events_on_terminal = view->ops && !settings->write && isatty(STDOUT_FILENO),
		.path = settings->write,
		.show_rate = true,
		.summary = settings->summary,
		.messages = stderr,
	};
	struct ringtail_error error;
	struct ringtail *ringtail;
	struct spool_dir *dir = NULL;
	enum exit_code code;
	int fd = -1, err = 0;
	uint64_t since_ns, until_ns;

	if (find_span(settings, &since_ns, &until_ns, &error) || check_output(settings, view, &error))
		return cmd_usage(&error, command);
	pump.from_past = settings->since;
	if (!is_stdin && is_directory(path))
		err = spool_dir_open(path, stderr, &dir, &fd, &error);
	if (err == -ENODATA)
		return nothing_yet(&error, settings);
	if (err)
		return cmd_fail(&error, NULL);
	if (!dir)
		fd = is_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		failure_set(&error, errno, "cannot-read", "cannot read %s: %s", path,
			    strerror(errno));
		return cmd_fail(&error, NULL);
	}
	/* Only a walk through every event tells a good file from a damaged one. */
	if (ringtail_open(fd, is_stdin ? "stdin" : path, false, &ringtail, &error)) {
		if (dir)
			spool_dir_close(dir);
		return cmd_fail(&error, NULL);
	}
	ringtail_set_span(ringtail, since_ns, until_ns);
	if ((who->probes || who->filter) &&
	    ringtail_select(ringtail, who->probe, who->probes, who->filter, &error)) {
		who_place(who, &error);
		ringtail_close(ringtail);
		if (dir)
			spool_dir_close(dir);
		return cmd_usage_at(&error, command, cmd_text_of(settings, &error));
	}
	ringtail_set_interrupt(ringtail, stop_init());
	host.ringtail = ringtail;
	code = begin_output(settings, view, &error) ? cmd_fail(&error, NULL) :
						     end_output(pump_run(&pump));
	ringtail_close(ringtail);
	if (dir && !spool_dir_close(dir) && code == EXIT_GOOD)
		code = EXIT_LOST;
	return code;
}

enum exit_code cmd_follow_file(const struct settings *settings, const struct cmd_view *view,
			       const char *command)
{
	struct ringtail_error error;
	enum exit_code code;
	struct who who;

	if (who_create(settings, NULL, &who, &error))
		return cmd_usage_at(&error, command, error.column ? settings->filter : NULL);
	code = follow_file(settings, view, command, &who);
	who_destroy(&who);
	return code;
}

enum exit_code cmd_read(const struct settings *settings)
{
	const struct cmd_view view = {
		.ops = cmd_sink(settings->output ? settings->output : FORMAT_TEXT),
	};
	struct ringtail_error error;

	if (settings->operand)
		return cmd_follow_file(settings, &view, "read");
	failure_set(&error, EINVAL, "no-file", "FILE is missing: the recording to read");
	return cmd_usage(&error, "read");
}
