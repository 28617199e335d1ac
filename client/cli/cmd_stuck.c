/*
 * cmd_stuck: which threads are in a system call now, since when and where.
 */
#include <errno.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/print_stuck.h"
#include "client/cli/request.h"
#include "client/lib/catalog.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/lib/unpack.h"

static struct out out;

/* The probes of all calls, by which their arguments have names. */
static int ask_catalog(struct request *request, struct catalog **catalog,
		       struct ringtail_error *error)
{
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	const uint8_t *body;
	size_t bytes;
	int err;

	list.glob = "syscall:*:call";
	err = request_send(request, FRAME_LIST, &list.base, error);
	if (!err)
		err = request_wait(request, FRAME_CATALOG, REPLY_TIMEOUT_MS, &body, &bytes, error);
	return err ? err : catalog_create(body, bytes, request_host(request)->machine, catalog, error);
}

static int ask(const struct settings *settings, struct request *request,
	       Ringtail__V1__Stuck **stuck, struct arena **arena, struct ringtail_error *error)
{
	Ringtail__V1__StuckRequest message = RINGTAIL__V1__STUCK_REQUEST__INIT;
	const uint8_t *body;
	size_t bytes;
	int err;

	if (!request_host(request)->has_stuck) {
		failure_set(error, EOPNOTSUPP, "daemon-too-old", "%s cannot tell which threads are in a"
			    " system call", request_host(request)->software);
		failure_hint(error, "install this tracectl's release of ringtaild there");
		return -EOPNOTSUPP;
	}
	message.longer_than_ns = settings->longer_than;
	message.filter = settings->filter ? (char *)settings->filter : "";
	err = request_send(request, FRAME_STUCK_REQUEST, &message.base, error);
	if (!err)
		err = request_wait(request, FRAME_STUCK, REPLY_TIMEOUT_MS, &body, &bytes, error);
	if (err)
		return err;
	*stuck = unpack(&ringtail__v1__stuck__descriptor, body, bytes, arena);
	return *stuck ? 0 : failure_set(error, EBADMSG, "bad-message",
					"the daemon's answer does not unpack");
}

static int show(const struct settings *settings, struct request *request,
		struct ringtail_error *error)
{
	Ringtail__V1__Stuck *stuck;
	struct catalog *catalog = NULL;
	struct arena *arena = NULL;
	int err = ask(settings, request, &stuck, &arena, error);

	if (!err)
		err = ask_catalog(request, &catalog, error);
	out_init(&out, STDOUT_FILENO);
	if (!err && print_stuck(&out, settings->output == FORMAT_JSON, request_host(request), catalog,
				stuck))
		err = failure_set(error, ENOMEM, "no-memory", "no memory for the names of functions");
	arena_destroy(arena);
	catalog_unref(catalog);
	return err;
}

enum exit_code cmd_stuck(const struct settings *settings)
{
	struct ringtail_error error;
	struct request *request;
	int err;

	if (request_open(settings->connect.text[0], -1, &request, &error))
		return cmd_fail(&error, NULL);
	err = show(settings, request, &error);
	request_close(request);
	if (err)
		return cmd_fail(&error, settings->filter);
	out_flush(&out);
	return cmd_written(out_error(&out), EXIT_GOOD);
}
