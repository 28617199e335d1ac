/*
 * cmd_dumps: the files that the daemon's triggers wrote: a list, one of them fetched part by part, one deleted.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/out.h"
#include "client/cli/output.h"
#include "client/cli/request.h"
#include "client/cli/stop.h"
#include "client/cli/units.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/unpack.h"
#include "proto/ringtail.pb-c.h"

static struct out out;

/* Asks, and unpacks the Dumps that come back; arena_destroy() frees them. */
static int ask(struct request *request, const Ringtail__V1__DumpsRequest *message,
	       const Ringtail__V1__Dumps **dumps, struct arena **arena, struct ringtail_error *error)
{
	const uint8_t *body;
	size_t bytes;
	int err;

	if (!request_host(request)->has_dumps) {
		failure_set(error, EOPNOTSUPP, "daemon-too-old", "%s has no triggers, and no dumps",
			    request_host(request)->software);
		failure_hint(error, "install this tracectl's release of ringtaild there");
		return -EOPNOTSUPP;
	}
	err = request_send(request, FRAME_DUMPS_REQUEST, &message->base, error);
	if (!err)
		err = request_wait(request, FRAME_DUMPS, CHANGE_TIMEOUT_MS, &body, &bytes, error);
	if (err)
		return err;
	*dumps = unpack(&ringtail__v1__dumps__descriptor, body, bytes, arena);
	return *dumps ? 0 : failure_set(error, EBADMSG, "bad-message",
					"the daemon's answer does not unpack");
}

/* ---- The list ---------------------------------------------------------------------------------- */

static void show_time(uint64_t realtime_ns)
{
	time_t seconds = (time_t)(realtime_ns / 1000000000u);
	char stamp[32] = "-";
	struct tm tm;

	if (realtime_ns && localtime_r(&seconds, &tm))
		strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
	out_text(&out, stamp);
	out_char(&out, ' ');
}

static void show_row(const Ringtail__V1__Dump *dump)
{
	char bytes[UNITS_TEXT_BYTES];
	bool told = dump->realtime_ns != 0;	/* else its file has no end that says so */

	out_mark(&out);
	out_visible(&out, dump->id);
	out_char(&out, ' ');
	out_pad(&out, 40);
	show_time(dump->realtime_ns);
	out_pad(&out, 60);
	out_visible(&out, told ? dump->trigger : "-");
	out_char(&out, ' ');
	out_pad(&out, 80);
	if (told)
		out_u64(&out, dump->events);
	else
		out_char(&out, '-');
	out_char(&out, ' ');
	out_pad(&out, 92);
	out_text(&out, units_format_bytes((double)dump->bytes, bytes));
	out_char(&out, ' ');
	out_pad(&out, 103);
	if (told)
		out_u64(&out, dump->lost);
	else
		out_char(&out, '-');
	if (dump->gaps)
		out_literal(&out, "+?");
	out_char(&out, ' ');
	out_pad(&out, 113);
	out_visible(&out, dump->state);
	if (*dump->why) {
		out_literal(&out, ": ");
		out_visible(&out, dump->why);
	}
	out_char(&out, '\n');
}

static void show_text(const Ringtail__V1__Dumps *dumps)
{
	bool gaps = false;

	if (!dumps->n_dump) {
		out_literal(&out, "no dumps: no trigger has fired; `on` in ringtaild.conf makes triggers\n");
		return;
	}
	out_literal(&out, "id                                      time                trigger             "
			  "events      size       lost      state\n");
	for (size_t i = 0; i < dumps->n_dump; i++) {
		show_row(dumps->dump[i]);
		gaps |= dumps->dump[i]->gaps != 0;
	}
	if (gaps)
		out_literal(&out, "+?: more is missing, and nobody knows how much; `tracectl read` of the"
				  " dump says where and why\n");
}

static void put_member(const char *name, const char *text)
{
	out_literal(&out, "\"");
	out_text(&out, name);
	out_literal(&out, "\":");
	json_quote_text(&out, text);
	out_char(&out, ',');
}

static void put_number(const char *name, uint64_t value)
{
	out_literal(&out, "\"");
	out_text(&out, name);
	out_literal(&out, "\":");
	out_u64(&out, value);
	out_char(&out, ',');
}

/* One object a line. */
static void show_json(const Ringtail__V1__Dumps *dumps)
{
	for (size_t i = 0; i < dumps->n_dump; i++) {
		const Ringtail__V1__Dump *dump = dumps->dump[i];

		out_char(&out, '{');
		put_member("id", dump->id);
		put_member("trigger", dump->trigger);
		put_member("rule", dump->rule);
		put_number("realtime_ns", dump->realtime_ns);
		put_number("from_realtime_ns", dump->from_realtime_ns);
		put_number("events", dump->events);
		put_number("lost", dump->lost);
		put_number("gaps", dump->gaps);
		put_number("bytes", dump->bytes);
		put_member("why", dump->why);
		out_literal(&out, "\"state\":");
		json_quote_text(&out, dump->state);
		out_literal(&out, "}\n");
	}
}

static enum exit_code list(const struct settings *settings, const Ringtail__V1__DumpsRequest *message)
{
	const Ringtail__V1__Dumps *dumps;
	struct ringtail_error error;
	struct request *request;
	struct arena *arena;
	int err;

	if (request_open(settings->connect.text[0], stop_init(), &request, &error))
		return cmd_fail(&error, NULL);
	err = ask(request, message, &dumps, &arena, &error);
	request_close(request);
	if (err)
		return cmd_fail(&error, NULL);
	out_init(&out, STDOUT_FILENO);
	if (settings->output == FORMAT_JSON)
		show_json(dumps);
	else
		show_text(dumps);
	arena_destroy(arena);
	out_flush(&out);
	return cmd_written(out_error(&out), EXIT_GOOD);
}

/* ---- One of them ------------------------------------------------------------------------------- */

/* All its parts, in order. *whole: it has its end. */
static int fetch(struct request *request, const char *id, bool *whole, struct ringtail_error *error)
{
	Ringtail__V1__DumpsRequest message = RINGTAIL__V1__DUMPS_REQUEST__INIT;
	const Ringtail__V1__Dumps *part;
	struct arena *arena;
	size_t bytes;
	int err;

	message.get = (char *)id;
	do {
		err = ask(request, &message, &part, &arena, error);
		if (err)
			return err;
		bytes = part->data.len;
		*whole = part->n_dump == 1 && (!strcmp(part->dump[0]->state, "whole") ||
					       !strcmp(part->dump[0]->state, "ended"));
		out_bytes_long(&out, (const char *)part->data.data, bytes);
		message.offset += bytes;
		arena_destroy(arena);
	} while (bytes && !out_error(&out));
	return out_flush(&out) ? failure_set(error, out_error(&out), "cannot-write", "cannot write: %s",
					     strerror(out_error(&out))) : 0;
}

/* path NULL: stdout. Else beside it first: what is there stays until all of the dump has come. */
static int fetch_to(struct request *request, const char *id, const char *path, bool *whole,
		    struct ringtail_error *error)
{
	char *temporary = path ? output_temporary(path, error) : NULL;
	int fd, err;

	if (path && !temporary)
		return -EIO;
	fd = output_open(temporary, "a dump is no text",
			 "name a file, or pipe it: tracectl dumps get ID -w - | ...", error);
	err = fd < 0 ? fd : 0;
	if (!err) {
		out_init(&out, fd);
		err = fetch(request, id, whole, error);
	}
	if (temporary && fd >= 0 && close(fd) && !err)
		err = failure_set(error, errno, "cannot-write", "cannot write %s: %s", path,
				  strerror(errno));
	if (temporary && !err && rename(temporary, path))
		err = failure_set(error, errno, "cannot-write", "cannot write %s: %s", path,
				  strerror(errno));
	if (temporary && err)
		unlink(temporary);
	free(temporary);
	return err;
}

static enum exit_code get(const struct settings *settings, const char *id)
{
	struct ringtail_error error;
	struct request *request;
	bool whole = false;
	int err;

	if (request_open(settings->connect.text[0], stop_init(), &request, &error))
		return cmd_fail(&error, NULL);
	err = fetch_to(request, id, strcmp(settings->write, "-") ? settings->write : NULL, &whole, &error);
	request_close(request);
	if (err)
		return cmd_fail(&error, NULL);
	if (!whole)
		fprintf(stderr, "tracectl: the dump %s is cut short: what of it is there was fetched\n", id);
	return whole ? EXIT_GOOD : EXIT_LOST;
}

static enum exit_code usage(const char *what)
{
	struct ringtail_error error;

	failure_set(&error, EINVAL, "bad-words", "%s", what);
	failure_hint(&error, "as in tracectl dumps, tracectl dumps get ID -w FILE, tracectl dumps remove ID");
	return cmd_usage(&error, "dumps");
}

enum exit_code cmd_dumps(const struct settings *settings)
{
	Ringtail__V1__DumpsRequest message = RINGTAIL__V1__DUMPS_REQUEST__INIT;
	const struct texts *words = &settings->operands;

	if (!words->n)
		return settings->write ? usage("-w goes with get ID") : list(settings, &message);
	if (words->n != 2)
		return usage("dumps takes get ID, remove ID, or nothing");
	if (!strcmp(words->text[0], "get"))
		return settings->write ? get(settings, words->text[1]) : usage("get ID where? -w FILE is missing");
	if (strcmp(words->text[0], "remove"))
		return usage("dumps takes get ID, remove ID, or nothing");
	if (settings->write)
		return usage("-w goes with get ID");
	message.remove = (char *)words->text[1];
	return list(settings, &message);
}
