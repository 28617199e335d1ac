/*
 * cmd_probes: what the daemon always records, and who enabled it; and, for operators, enable and
 * disable, which answer with the same list.
 */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/cmd.h"
#include "client/cli/out.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"
#include "client/cli/request.h"
#include "client/cli/stop.h"
#include "client/lib/unpack.h"
#include "proto/ringtail.pb-c.h"

static struct out out;

static const char *flag_name(Ringtail__V1__Flag flag)
{
	return flag == RINGTAIL__V1__FLAG__FLAG_STRINGS ? "strings" :
	       flag == RINGTAIL__V1__FLAG__FLAG_FDS ? "fds" : "more";
}

static void show_text(const Ringtail__V1__Probes *probes)
{
	for (size_t i = 0; i < probes->n_probe; i++) {
		const Ringtail__V1__AlwaysOn *probe = probes->probe[i];
		time_t seconds = (time_t)(probe->since_realtime_ns / 1000000000u);
		char stamp[32] = "?";
		struct tm tm;

		if (localtime_r(&seconds, &tm))
			strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &tm);
		out_mark(&out);
		out_visible(&out, probe->spec);
		out_char(&out, ' ');
		out_pad(&out, 40);
		out_visible(&out, probe->by);
		out_char(&out, ' ');
		out_pad(&out, 60);
		out_literal(&out, "since ");
		out_text(&out, stamp);
		for (size_t k = 0; k < probe->n_flag; k++) {
			out_text(&out, k ? "," : ", with ");
			out_text(&out, flag_name(probe->flag[k]));
		}
		if (probe->waits)
			out_literal(&out, ", waits for a program");
		out_char(&out, '\n');
	}
	for (size_t k = 0; k < probes->n_flag; k++) {
		out_text(&out, k ? "," : "all of these come with: ");
		out_text(&out, flag_name(probes->flag[k]));
		if (k + 1 == probes->n_flag)
			out_char(&out, '\n');
	}
	if (*probes->filter) {
		out_literal(&out, "of these, what passes: ");
		out_visible(&out, probes->filter);
		out_char(&out, '\n');
	}
	if (!probes->n_probe)
		out_literal(&out, "nothing is always on\n");
}

static json_t *flags_json(const Ringtail__V1__Flag *flag, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(flag_name(flag[i])));
	return list;
}

static int show_json(const Ringtail__V1__Probes *probes, struct ringtail_error *error)
{
	json_t *list = json_array(), *object;
	char *text = NULL;

	for (size_t i = 0; i < probes->n_probe; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:I, s:o, s:b}", "probe", probes->probe[i]->spec, "by",
					probes->probe[i]->by, "since_realtime_ns",
					(json_int_t)probes->probe[i]->since_realtime_ns, "flags",
					flags_json(probes->probe[i]->flag, probes->probe[i]->n_flag),
					"waits", probes->probe[i]->waits));
	object = json_pack("{s:o, s:s, s:o}", "probes", list, "filter", probes->filter, "flags",
			   flags_json(probes->flag, probes->n_flag));
	if (object)
		text = json_dumps(object, JSON_COMPACT);
	if (text) {
		json_put(&out, text);
		out_char(&out, '\n');
	}
	free(text);
	json_decref(object);
	return text ? 0 : failure_set(error, EBADMSG, "bad-message",
				      "a name in the daemon's answer is not UTF-8");
}

/* Asks that, and shows the Probes that come back. */
static enum exit_code ask(const struct settings *settings, enum frame_type type,
			  const ProtobufCMessage *message)
{
	const Ringtail__V1__Probes *probes;
	struct ringtail_error error;
	struct request *request;
	struct arena *arena;
	const uint8_t *body;
	size_t bytes;
	int err;

	if (request_open(settings->connect.text[0], stop_init(), &request, &error))
		return cmd_fail(&error, NULL);
	err = request_send(request, type, message, &error);
	if (!err)
		err = request_wait(request, FRAME_PROBES, CHANGE_TIMEOUT_MS, &body, &bytes, &error);
	if (!err) {
		probes = unpack(&ringtail__v1__probes__descriptor, body, bytes, &arena);
		if (!probes) {
			err = failure_set(&error, EBADMSG, "bad-message",
					  "the daemon's answer does not unpack");
		} else if (settings->flags && !probes->n_flag) {
			err = failure_set(&error, ENOTSUP, "flags-too-old",
					  "the probes are enabled, without --flags: the daemon is too old for it");
			arena_destroy(arena);
		} else {
			out_init(&out, STDOUT_FILENO);
			if (settings->output == FORMAT_JSON)
				err = show_json(probes, &error);
			else
				show_text(probes);
			out_flush(&out);
			arena_destroy(arena);
		}
	}
	request_close(request);
	return err ? cmd_fail(&error, NULL) : cmd_written(out_error(&out), EXIT_GOOD);
}

enum exit_code cmd_probes(const struct settings *settings)
{
	Ringtail__V1__ProbesRequest message = RINGTAIL__V1__PROBES_REQUEST__INIT;

	return ask(settings, FRAME_PROBES_REQUEST, &message.base);
}

static enum exit_code which(const char *command)
{
	struct ringtail_error error;

	failure_set(&error, EINVAL, "no-probe", "%s which probes?", command);
	failure_hint(&error, "as in tracectl %s 'syscall:open*:call'", command);
	return cmd_usage(&error, command);
}

enum exit_code cmd_enable(const struct settings *settings)
{
	static const struct {
		unsigned flag;
		Ringtail__V1__Flag wire;
	} flags[] = {
		{ RINGTAIL_KSTACK, RINGTAIL__V1__FLAG__FLAG_KSTACK },
		{ RINGTAIL_USTACK, RINGTAIL__V1__FLAG__FLAG_USTACK },
		{ RINGTAIL_STRINGS, RINGTAIL__V1__FLAG__FLAG_STRINGS },
		{ RINGTAIL_CONTEXT, RINGTAIL__V1__FLAG__FLAG_CONTEXT },
		{ RINGTAIL_FDS, RINGTAIL__V1__FLAG__FLAG_FDS },
		{ RINGTAIL_DATA, RINGTAIL__V1__FLAG__FLAG_DATA },
	};
	Ringtail__V1__Change message = RINGTAIL__V1__CHANGE__INIT;
	Ringtail__V1__Flag flag[sizeof(flags) / sizeof(*flags)];

	if (!settings->operands.n)
		return which("enable");
	message.enable = (char **)settings->operands.text;
	message.n_enable = settings->operands.n;
	message.flag = flag;
	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (settings->flags & flags[i].flag)
			flag[message.n_flag++] = flags[i].wire;
	return ask(settings, FRAME_CHANGE, &message.base);
}

enum exit_code cmd_disable(const struct settings *settings)
{
	Ringtail__V1__Change message = RINGTAIL__V1__CHANGE__INIT;

	if (!settings->operands.n)
		return which("disable");
	message.disable = (char **)settings->operands.text;
	message.n_disable = settings->operands.n;
	return ask(settings, FRAME_CHANGE, &message.base);
}
