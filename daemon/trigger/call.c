#include "daemon/trigger/call.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "daemon/base/counters.h"
#include "daemon/base/json_text.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/export/http.h"
#include "daemon/trigger/rule.h"

#define FIRST_WAIT_S	1	/* four times as long before the next */

struct call {
	struct trigger_calls *calls;
	struct call *next;
	char trigger[TRIGGER_NAME_BYTES];
	char *url, *body;
	size_t body_bytes;
	unsigned tries;
	struct export_call *post;	/* NULL: it waits for its next try */
	struct event *timer;
};

struct trigger_calls {
	struct event_base *base;
	struct export_http *http;
	char *ca_file;
	uint64_t timeout_ns;
	struct call *first;
	unsigned count;
	char host[65];
};

/* ---- What is told ----------------------------------------------------------------------------- */

static void put_member(FILE *out, const char *name, const char *text)
{
	fprintf(out, ",\"%s\":", name);
	json_put_text(out, text, SIZE_MAX);
}

/* A sentence is what chats show, and the rest is for programs. NULL: out of memory. */
static char *make_body(const struct trigger_calls *calls, const struct trigger_call *what, size_t *bytes)
{
	char *body = NULL, *sentence = NULL;
	FILE *out;

	if (asprintf(&sentence, "%s: ringtail's trigger %s fired: %s", calls->host, what->trigger, what->event) < 0)
		return NULL;
	out = open_memstream(&body, bytes);
	if (out) {
		fputs("{\"time\":", out);
		json_put_time(out, what->fired_realtime_ns);
		put_member(out, "host", calls->host);
		put_member(out, "trigger", what->trigger);
		put_member(out, "rule", what->rule);
		put_member(out, "event", what->event);
		put_member(out, "text", sentence);
		fputs("}\n", out);
		if (ferror(out) | (fclose(out) != 0)) {
			free(body);
			body = NULL;
		}
	}
	free(sentence);
	return body;
}

/* ---- A call ----------------------------------------------------------------------------------- */

static void free_call(struct call *call)
{
	if (call->timer)
		event_free(call->timer);
	free(call->url);
	free(call->body);
	free(call);
}

/* It is over: nobody has it any more. */
static void end_call(struct call *call)
{
	struct call **place = &call->calls->first;

	while (*place != call)
		place = &(*place)->next;
	*place = call->next;
	call->calls->count--;
	free_call(call);
}

/* Not the URL, whose path may be a secret. */
static void tell_failure(const char *trigger, const char *why)
{
	counter_add(COUNTER_trigger_calls_failed, 1);
	log_error("call-failed", "trigger %s: its URL was not told that it fired: %s", trigger, why);
}

static void try_call(struct call *call);

static void on_timer(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	try_call(context);
}

static void fail(struct call *call, const char *why)
{
	tell_failure(call->trigger, why);
	end_call(call);
}

static bool may_pass(const struct export_answer *answer)
{
	return !answer->status ? !answer->mistrusted :
				 answer->status == 408 || answer->status == 429 || answer->status / 100 == 5;
}

static void on_answer(void *context, const struct export_answer *answer)
{
	struct call *call = context;
	struct timeval after = {.tv_sec = FIRST_WAIT_S << 2 * (call->tries - 1)};
	char why[256];

	call->post = NULL;
	if (answer->status / 100 == 2) {
		counter_add(COUNTER_trigger_calls_answered, 1);
		end_call(call);
		return;
	}
	if (call->tries < TRIGGER_CALL_TRIES_MAX && may_pass(answer)) {
		event_add(call->timer, &after);
		return;
	}
	if (answer->status)
		snprintf(why, sizeof(why), "it answered with status %ld", answer->status);
	else
		snprintf(why, sizeof(why), "%s", answer->error ? answer->error : "there was no answer");
	fail(call, why);
}

static void try_call(struct call *call)
{
	static const char *const headers[] = {"Content-Type: application/json"};
	const struct export_post post = {
		.url = call->url,
		.headers = headers,
		.headers_count = 1,
		.body = (const uint8_t *)call->body,
		.bytes = call->body_bytes,
		.timeout_ns = call->calls->timeout_ns,
		.done = on_answer,
		.context = call,
	};

	call->tries++;
	call->post = export_http_post(call->calls->http, &post);
	if (!call->post)
		fail(call, "out of memory");
}

static struct call *make_call(struct trigger_calls *calls, const struct trigger_call *what)
{
	struct call *call = calloc(1, sizeof(*call));

	if (!call)
		return NULL;
	call->calls = calls;
	snprintf(call->trigger, sizeof(call->trigger), "%s", what->trigger);
	call->url = strdup(what->url);
	call->body = make_body(calls, what, &call->body_bytes);
	call->timer = event_new(calls->base, -1, 0, on_timer, call);
	if (call->url && call->body && call->timer)
		return call;
	free_call(call);
	return NULL;
}

void trigger_call(struct trigger_calls *calls, const struct trigger_call *what)
{
	struct call *call = calls->count < TRIGGER_CALLS_MAX ? make_call(calls, what) : NULL;

	counter_add(COUNTER_trigger_calls, 1);
	if (!call) {
		tell_failure(what->trigger, calls->count < TRIGGER_CALLS_MAX ? "out of memory" :
			     "too many other calls are under way");
		return;
	}
	call->next = calls->first;
	calls->first = call;
	calls->count++;
	try_call(call);
}

/* ---- Life ------------------------------------------------------------------------------------- */

struct trigger_calls *trigger_calls_create(struct event_base *base, const char *ca_file, uint64_t timeout_ns)
{
	struct trigger_calls *calls = calloc(1, sizeof(*calls));
	struct utsname system;

	if (!calls)
		return NULL;
	calls->base = base;
	calls->timeout_ns = timeout_ns;
	calls->ca_file = ca_file ? strdup(ca_file) : NULL;
	if (uname(&system) == 0)
		snprintf(calls->host, sizeof(calls->host), "%s", system.nodename);
	calls->http = !ca_file || calls->ca_file ? export_http_create(base, calls->ca_file) : NULL;
	if (!calls->http) {
		trigger_calls_destroy(calls);
		return NULL;
	}
	return calls;
}

void trigger_calls_destroy(struct trigger_calls *calls)
{
	if (!calls)
		return;
	while (calls->first) {
		if (calls->first->post)
			export_http_cancel(calls->first->post);
		fail(calls->first, "the daemon stopped");
	}
	export_http_destroy(calls->http);
	free(calls->ca_file);
	free(calls);
}
