/*
 * cmd_list: the probes of a daemon, with their fields.
 */
#include <errno.h>
#include <jansson.h>
#include <unistd.h>

#include "client/catalog.h"
#include "client/cmd.h"
#include "client/failure.h"
#include "client/limits.h"
#include "client/request.h"
#include "proto/ringtail.pb-c.h"

static struct out out;

static const char *type_name(enum ringtail_type type)
{
	static const char *const name[] = {
		"unsigned", "signed", "hex", "duration", "result", "fd", "thread", "string",
	};

	return (unsigned)type < sizeof(name) / sizeof(*name) ? name[type] : "unknown";
}

/* "syscall:openat:call(dfd, filename, flags, mode)": of a call, what the caller passes. */
static void print_line(const struct ringtail_probe *probe)
{
	unsigned first = probe->kind == RINGTAIL_CALL ? 2 : 0;

	out_text(&out, probe->spec);
	out_char(&out, '(');
	for (unsigned i = first; i < probe->fields; i++) {
		if (i > first)
			out_literal(&out, ", ");
		out_text(&out, probe->field[i].name);
	}
	out_literal(&out, ")\n");
}

static int print_object(const struct ringtail_probe *probe)
{
	json_t *fields = json_array(), *object;
	char *text;

	for (unsigned i = 0; i < probe->fields; i++)
		json_array_append_new(fields, json_pack("{s:s, s:s, s:s, s:i}",
							"name", probe->field[i].name,
							"type", type_name(probe->field[i].type),
							"c_type", probe->field[i].c_type,
							"bits", (int)probe->field[i].bits));
	object = json_pack("{s:s, s:s, s:s, s:s, s:i, s:o}", "probe", probe->spec, "provider",
			   probe->provider, "function", probe->function, "name", probe->name, "id",
			   (int)probe->id, "fields", fields);
	text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	if (text) {
		out_text(&out, text);
		out_char(&out, '\n');
	}
	free(text);
	json_decref(object);
	return text ? 0 : -EBADMSG;
}

static int ask(const struct settings *settings, struct catalog **catalog,
	       struct ringtail_error *error)
{
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	struct request *request;
	const uint8_t *body;
	size_t bytes;
	int err = request_open(settings->connect, -1, &request, error);

	if (err)
		return err;
	list.glob = (char *)(settings->operand ? settings->operand : "");
	err = request_send(request, FRAME_LIST, &list.base, error);
	if (!err)
		err = request_wait(request, FRAME_CATALOG, REPLY_TIMEOUT_MS, &body, &bytes, error);
	if (!err)
		err = catalog_create(body, bytes, catalog, error);
	request_close(request);
	return err;
}

enum exit_code cmd_list(const struct settings *settings)
{
	const struct ringtail_probe *probe;
	struct ringtail_error error;
	struct catalog *catalog;
	size_t probes, bad = 0;

	if (ask(settings, &catalog, &error))
		return cmd_fail(&error, settings->operand);
	out_init(&out, STDOUT_FILENO);
	probe = catalog_probes(catalog, &probes);
	for (size_t i = 0; i < probes; i++) {
		if (settings->output == FORMAT_JSON)
			bad += print_object(&probe[i]) != 0;
		else
			print_line(&probe[i]);
	}
	catalog_unref(catalog);
	out_flush(&out);
	if (!probes) {
		failure_set(&error, ENOENT, "unknown-probe", "no probe matches '%s'",
			    settings->operand ? settings->operand : "*");
		failure_hint(&error, "`tracectl list` shows them all");
		return cmd_fail(&error, NULL);
	}
	if (bad) {
		failure_set(&error, EBADMSG, "bad-catalog",
			    "%zu probes have names that are not UTF-8", bad);
		return cmd_fail(&error, NULL);
	}
	return EXIT_GOOD;
}
