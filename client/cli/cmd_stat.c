/*
 * cmd_stat: rates, rings, clients, counters, and the loss ledger with its residuals.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/cli/request.h"
#include "client/cli/screen.h"
#include "client/cli/stat_print.h"
#include "client/cli/stop.h"
#include "client/lib/unpack.h"
#include "query/visible.h"

#define FIRST_LOOK_MS 250	/* without --watch: the span that rates are taken over */

static struct out out;

/* One Stat and what holds it. */
struct look {
	Ringtail__V1__Stat *stat;
	struct arena *arena;
};

static int take(struct request *request, int timeout_ms, bool is_text, struct look *look,
		struct ringtail_error *error)
{
	const uint8_t *body;
	size_t bytes;
	int err = request_wait(request, FRAME_STAT, timeout_ms, &body, &bytes, error);

	if (err)
		return err;
	look->stat = unpack(&ringtail__v1__stat__descriptor, body, bytes, &look->arena);
	if (look->stat && is_text)	/* a name with a newline would make lines of its own */
		visible_replace_message(&look->stat->base);
	if (look->stat)
		return 0;
	return failure_set(error, EBADMSG, "bad-message", "the daemon's answer does not unpack");
}

/* On a terminal, as much as it has rows for. */
static int redraw(struct request *request, const struct look *now, const struct look *before,
		  struct ringtail_error *error)
{
	struct screen *screen;
	unsigned rows, columns;
	int err = screen_create(&screen);

	if (!err) {
		screen_size(&rows, &columns);
		stat_print_brief(screen_begin(screen), request_host(request), now->stat,
				 before->stat);
		err = screen_draw(screen, &out, rows, columns);
		screen_destroy(screen);
	}
	return err ? failure_set(error, -err, "no-memory", "no memory for what is to be shown: %s",
				 strerror(-err)) : 0;
}

static int show(const struct settings *settings, struct request *request, const struct look *now,
		const struct look *before, struct ringtail_error *error)
{
	if (settings->output == FORMAT_JSON) {
		if (stat_print_json(&out, now->stat))
			return failure_set(error, EBADMSG, "bad-message",
					   "a name in the daemon's answer is not UTF-8");
	} else if (settings->watch && isatty(STDOUT_FILENO)) {
		int err = redraw(request, now, before, error);

		if (err)
			return err;
	} else {
		stat_print_text(&out, request_host(request), now->stat, before->stat);
		if (settings->watch)
			out_char(&out, '\n');
	}
	return out_flush(&out);
}

/* Looks until interrupted, or until there is what was asked for. 0 or -errno with *error. */
static int look_on(const struct settings *settings, struct request *request, int interval_ms,
		   bool *balanced, struct ringtail_error *error)
{
	bool needs_two = settings->output != FORMAT_JSON && !settings->watch;
	struct look before = { 0 }, now = { 0 };
	int err;

	for (;;) {
		err = take(request, interval_ms + REPLY_TIMEOUT_MS,
			   settings->output != FORMAT_JSON, &now, error);
		if (err)
			break;
		*balanced = stat_balanced(now.stat);
		if (!needs_two || before.stat) {
			err = show(settings, request, &now, &before, error);
			if (err || !settings->watch)
				break;
		}
		arena_destroy(before.arena);
		before = now;
		now = (struct look){ 0 };
	}
	arena_destroy(before.arena);
	arena_destroy(now.arena);
	return err;
}

enum exit_code cmd_stat(const struct settings *settings)
{
	Ringtail__V1__StatRequest message = RINGTAIL__V1__STAT_REQUEST__INIT;
	uint64_t interval_ms = settings->interval ? (settings->interval + 999999) / 1000000 :
			       STAT_INTERVAL_MS;
	struct ringtail_error error;
	struct request *request;
	bool balanced = true;
	int err;

	if (settings->fleet)
		return cmd_stat_fleet(settings);
	if (interval_ms > 3600000)
		interval_ms = 3600000;
	if (!settings->watch)
		interval_ms = settings->output == FORMAT_JSON ? 0 : FIRST_LOOK_MS;
	if (request_open(settings->connect.text[0], stop_init(), &request, &error))
		return cmd_fail(&error, NULL);
	out_init(&out, STDOUT_FILENO);
	message.interval_ms = (uint32_t)interval_ms;
	err = request_send(request, FRAME_STAT_REQUEST, &message.base, &error);
	if (!err)
		err = look_on(settings, request, (int)interval_ms, &balanced, &error);
	request_close(request);
	if (err && err != -EINTR && !out_error(&out))
		return cmd_fail(&error, NULL);
	return cmd_written(out_error(&out), balanced ? EXIT_GOOD : EXIT_LOST);
}
