/*
 * cmd_fleet: what a relay knows of its hosts: `list hosts`, and `stat --fleet`.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/fleet_ask.h"
#include "client/cli/pager.h"
#include "client/cli/print_fleet.h"
#include "client/cli/screen.h"
#include "client/cli/stop.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"

static struct out out;

enum exit_code cmd_list_hosts(const struct settings *settings)
{
	struct ringtail_error error;
	struct request *request;
	struct fleet fleet;
	int err;

	if (request_open(settings->connect.text[0], -1, &request, &error))
		return cmd_fail(&error, NULL);
	err = fleet_ask(request, &fleet, &error);
	request_close(request);
	if (!err) {
		out_init(&out, STDOUT_FILENO);
		pager_begin(fleet.hosts && !settings->no_pager);
		if (settings->output == FORMAT_JSON)
			print_fleet_hosts_json(&out, &fleet);
		else
			print_fleet_hosts(&out, &fleet);
		out_flush(&out);
		pager_end();
	}
	fleet_free(&fleet);
	return err ? cmd_fail(&error, NULL) : cmd_written(out_error(&out), EXIT_GOOD);
}

/* On a terminal, as much as it has rows for. */
static int redraw(const struct request *request, const struct fleet *fleet, struct ringtail_error *error)
{
	struct screen *screen;
	unsigned rows, columns;
	int err = screen_create(&screen);

	if (!err) {
		screen_size(&rows, &columns);
		print_fleet_ledger(screen_begin(screen), request_host(request), fleet);
		err = screen_draw(screen, &out, rows, columns);
		screen_destroy(screen);
	}
	return err ? failure_set(error, -err, "no-memory", "no memory for what is to be shown: %s", strerror(-err)) : 0;
}

static int show(const struct settings *settings, const struct request *request, const struct fleet *fleet,
		struct ringtail_error *error)
{
	if (settings->output == FORMAT_JSON) {
		print_fleet_ledger_json(&out, fleet);
	} else if (settings->watch && isatty(STDOUT_FILENO)) {
		int err = redraw(request, fleet, error);

		if (err)
			return err;
	} else {
		print_fleet_ledger(&out, request_host(request), fleet);
		if (settings->watch)
			out_char(&out, '\n');
	}
	return out_flush(&out);
}

/* -EINTR: a signal ends it. */
static int wait_for_next(const struct settings *settings, int stop_fd)
{
	uint64_t ms = settings->interval ? (settings->interval + 999999) / 1000000 : STAT_INTERVAL_MS;
	struct pollfd stop = { .fd = stop_fd, .events = POLLIN };

	return poll(&stop, 1, ms < 3600000 ? (int)ms : 3600000) ? -EINTR : 0;
}

enum exit_code cmd_stat_fleet(const struct settings *settings)
{
	int stop_fd = stop_init(), err;
	struct ringtail_error error;
	struct request *request;
	bool balanced = true;

	if (request_open(settings->connect.text[0], stop_fd, &request, &error))
		return cmd_fail(&error, NULL);
	out_init(&out, STDOUT_FILENO);
	do {
		struct fleet fleet;

		err = fleet_ask(request, &fleet, &error);
		if (!err) {
			balanced = fleet_balanced(&fleet);
			err = show(settings, request, &fleet, &error);
		}
		fleet_free(&fleet);
		if (!err && settings->watch)
			err = wait_for_next(settings, stop_fd);
	} while (!err && settings->watch);
	request_close(request);
	if (err && err != -EINTR && !out_error(&out))
		return cmd_fail(&error, NULL);
	return cmd_written(out_error(&out), balanced ? EXIT_GOOD : EXIT_LOST);
}
