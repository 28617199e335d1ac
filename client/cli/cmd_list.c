/*
 * cmd_list: the probes of a daemon, with their fields.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/catalog.h"
#include "client/cli/cmd.h"
#include "client/cli/out.h"
#include "client/cli/pager.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "query/nearest.h"
#include "client/cli/request.h"
#include "proto/ringtail.pb-c.h"

static struct out out;

static const char *type_name(enum ringtail_type type)
{
	static const char *const name[] = {
		"unsigned", "signed", "hex", "duration", "result", "fd", "thread", "string",
		"text", "array", "more",
	};

	return (unsigned)type < sizeof(name) / sizeof(*name) ? name[type] : "unknown";
}

/* Of those that have the probe enabled, or of the others: "enabled: server 4711, server 4712". */
static bool print_processes(const Ringtail__V1__ProgramUse *use, bool enabled, const char *before)
{
	const char *mark = before;

	for (size_t i = 0; i < use->n_process; i++) {
		const Ringtail__V1__ProgramProcess *process = use->process[i];

		if ((bool)process->enabled != enabled)
			continue;
		out_text(&out, mark);
		if (mark == before)
			out_text(&out, enabled ? "enabled: " : "disabled: ");
		out_visible(&out, process->comm);
		out_char(&out, *process->comm ? ' ' : '#');
		out_u64(&out, process->pid);
		mark = ", ";
	}
	return mark != before;
}

/* " [enabled: server 4711; disabled: client 99; 12 more]"; viewers learn how many there are. */
static void print_use(const Ringtail__V1__ProgramUse *use)
{
	size_t more = use->processes > use->n_process ? use->processes - use->n_process : 0;

	out_literal(&out, " [");
	if (!use->processes) {
		out_literal(&out, "no process has it now");
	} else if (!use->n_process) {
		out_literal(&out, "enabled in ");
		out_u64(&out, use->enabled);
		out_literal(&out, " of ");
		out_u64(&out, use->processes);
		out_literal(&out, use->processes == 1 ? " process" : " processes");
	} else {
		print_processes(use, false, print_processes(use, true, "") ? "; " : "");
	}
	if (use->n_process && more) {
		out_literal(&out, "; ");
		out_u64(&out, more);
		out_literal(&out, " more");
	}
	out_char(&out, ']');
}

/* "syscall:openat:call(dfd, filename, flags, mode)": of a call, what the caller passes; of a program, where it is. */
static void print_line(const struct ringtail_probe *probe, const Ringtail__V1__ProgramUse *use)
{
	unsigned first = probe->kind == RINGTAIL_CALL ? 2 : 0;

	out_text(&out, probe->spec);
	out_char(&out, '(');
	for (unsigned i = first; i < probe->fields; i++) {
		if (probe->field[i].type == RINGTAIL_MORE)
			continue;
		if (i > first)
			out_literal(&out, ", ");
		out_text(&out, probe->field[i].name);
	}
	out_char(&out, ')');
	if (*probe->source) {
		out_literal(&out, " at ");
		out_text(&out, probe->source);
		out_text(&out, *probe->print ? ": " : "");
		out_text(&out, probe->print);
	}
	if (use)
		print_use(use);
	out_char(&out, '\n');
}

static json_t *use_object(const Ringtail__V1__ProgramUse *use)
{
	json_t *processes = json_array();

	for (size_t i = 0; i < use->n_process; i++) {
		const Ringtail__V1__ProgramProcess *process = use->process[i];

		json_array_append_new(processes, json_pack("{s:I, s:I, s:s, s:b}", "pid", (json_int_t)process->pid,
							   "uid", (json_int_t)process->uid, "comm", process->comm,
							   "enabled", (int)process->enabled));
	}
	return json_pack("{s:I, s:I, s:o}", "count", (json_int_t)use->processes, "enabled",
			 (json_int_t)use->enabled, "list", processes);
}

static int print_object(const struct ringtail_probe *probe, const Ringtail__V1__ProgramUse *use)
{
	json_t *fields = json_array(), *object;
	char *text;

	for (unsigned i = 0; i < probe->fields; i++) {
		if (probe->field[i].type == RINGTAIL_MORE)
			continue;
		json_array_append_new(fields, json_pack("{s:s, s:s, s:s, s:i}",
							"name", probe->field[i].name,
							"type", type_name(probe->field[i].type),
							"c_type", probe->field[i].c_type,
							"bits", (int)probe->field[i].bits));
	}
	object = json_pack("{s:s, s:s, s:s, s:s, s:i, s:o}", "probe", probe->spec, "provider",
			   probe->provider, "function", probe->function, "name", probe->name, "id",
			   (int)probe->id, "fields", fields);
	if (object && *probe->source) {
		json_object_set_new(object, "source", json_string(probe->source));
		json_object_set_new(object, "format", json_string(probe->print));
	}
	if (object && use)
		json_object_set_new(object, "processes", use_object(use));
	text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	if (text) {
		json_put(&out, text);
		out_char(&out, '\n');
	}
	free(text);
	json_decref(object);
	return text ? 0 : -EBADMSG;
}

static int ask(const struct settings *settings, const char *glob, struct catalog **catalog,
	       struct ringtail_error *error)
{
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	struct request *request;
	const uint8_t *body;
	size_t bytes;
	int err = request_open(settings->connect.text[0], -1, &request, error);

	if (err)
		return err;
	list.glob = (char *)glob;
	list.offers = true;
	err = request_send(request, FRAME_LIST, &list.base, error);
	if (!err)
		err = request_wait(request, FRAME_CATALOG, REPLY_TIMEOUT_MS, &body, &bytes, error);
	if (!err)
		err = catalog_create(body, bytes, NULL, catalog, error);
	request_close(request);
	return err;
}

/* What people know a probe by: a system call's middle part, and of others the last. */
static const char *short_name(const struct ringtail_probe *probe)
{
	return strcmp(probe->provider, "syscall") ? probe->name : probe->function;
}

/* What `glob`, a whole probe or a probe's one name, was probably meant to be. False: there is none. */
static bool find_near(const struct catalog *catalog, const char *glob, char text[NEAREST_TEXT_BYTES])
{
	struct nearest nearest;
	size_t probes;
	const struct ringtail_probe *probe = catalog_probes(catalog, &probes);

	nearest_init(&nearest, glob);
	for (size_t i = 0; i < probes; i++) {
		nearest_offer_as(&nearest, short_name(&probe[i]), probe[i].spec);
		nearest_offer(&nearest, probe[i].spec);
	}
	return nearest_text(&nearest, text);
}

/* No probe matches: what else to try. */
static enum exit_code fail_unknown(const struct settings *settings)
{
	const char *glob = settings->operand ? settings->operand : "*";
	char near[NEAREST_TEXT_BYTES] = "";
	struct catalog *all = NULL;
	struct ringtail_error error;

	if (ask(settings, "", &all, &error) == 0)
		find_near(all, glob, near);
	failure_set(&error, ENOENT, "unknown-probe", "no probe matches '%s'", glob);
	if (*near)
		failure_hint(&error, "did you mean %s? `tracectl list` shows them all", near);
	else
		failure_hint(&error, "`tracectl list` shows them all");
	catalog_unref(all);
	return cmd_fail(&error, NULL);
}

enum exit_code cmd_list(const struct settings *settings)
{
	const struct ringtail_probe *probe;
	struct ringtail_error error;
	struct catalog *catalog;
	size_t probes, bad = 0;

	if (settings->operand && !strcmp(settings->operand, "hosts"))
		return cmd_list_hosts(settings);
	if (ask(settings, settings->operand ? settings->operand : "", &catalog, &error))
		return cmd_fail(&error, settings->operand);
	out_init(&out, STDOUT_FILENO);
	probe = catalog_probes(catalog, &probes);
	pager_begin(probes && !settings->no_pager);
	for (size_t i = 0; i < probes; i++) {
		if (settings->output == FORMAT_JSON)
			bad += print_object(&probe[i], catalog_use(catalog, i)) != 0;
		else
			print_line(&probe[i], catalog_use(catalog, i));
	}
	catalog_unref(catalog);
	out_flush(&out);
	pager_end();
	if (out_error(&out))
		return cmd_written(out_error(&out), EXIT_GOOD);
	if (!probes)
		return fail_unknown(settings);
	if (bad) {
		failure_set(&error, EBADMSG, "bad-catalog",
			    "%zu probes have names that are not UTF-8", bad);
		return cmd_fail(&error, NULL);
	}
	return EXIT_GOOD;
}
