#include "daemon/http/status.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/gzip.h"
#include "daemon/http/closeup.h"
#include "daemon/http/request.h"
#include "daemon/http/http.h"
#include "daemon/http/live.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/metrics/format.h"
#include "daemon/net/transport.h"

/* page_html[], PAGE_CONTENT_SECURITY_POLICY; made of http_page.html by http_page.py. */
#include "daemon/http/page.inc"

#define PLAIN_TEXT "text/plain; charset=utf-8"
#define PROCESS "/api/process/"

enum cached {
	CACHED_METRICS,					/* of each enum metric_format, */
	CACHED_GZIP = CACHED_METRICS + METRIC_FORMATS,	/* and the same, compressed */
	CACHED_LIVE = CACHED_GZIP + METRIC_FORMATS,
	CACHED_HISTORY,
	CACHED,
};

/* An answer that is used again for whoever asks soon; each that is being sent has a reference. */
struct text {
	unsigned references;
	char *bytes;
	size_t n;
};

struct http_status {
	struct http_status_config config;
	struct http *http;
	struct http_history *history;
	struct closeups *closeups;
	struct text *cached[CACHED];
	uint64_t cached_ns[CACHED];
};

/* ---- Texts ----------------------------------------------------------------------------------- */

static void text_put(struct text *text)
{
	if (!text || --text->references)
		return;
	free(text->bytes);
	free(text);
}

static void on_sent(const void *bytes, size_t n, void *text)
{
	(void)bytes, (void)n;
	text_put(text);
}

static bool write_text(struct http_status *status, enum cached which, FILE *out)
{
	bool written = true;

	if (which == CACHED_HISTORY) {
		http_history_write(status->history, out);
	} else if (which == CACHED_LIVE) {
		struct daemon_stat *stat = metric_source_stat(status->config.source);

		if (!stat)
			return false;
		http_live_write(stat, status->config.meters, out);
		daemon_stat_free(stat);
	} else {
		const struct metric_snapshot *snapshot = metric_source_take(status->config.source);

		if (!snapshot)
			return false;
		written = metric_format_write(snapshot, (which - CACHED_METRICS) % METRIC_FORMATS,
					      out) == 0;
		metric_snapshot_destroy(snapshot);
	}
	return written;
}

static bool compress_text(struct text *text)
{
	size_t bytes;
	uint8_t *small;

	if (gzip_compress((const uint8_t *)text->bytes, text->n, &small, &bytes) != 0)
		return false;
	free(text->bytes);
	text->bytes = (char *)small;
	text->n = bytes;
	return true;
}

/* NULL: out of memory. */
static struct text *make_text(struct http_status *status, enum cached which)
{
	struct text *text = calloc(1, sizeof(*text));
	FILE *out = text ? open_memstream(&text->bytes, &text->n) : NULL;
	bool written = out && write_text(status, which, out);

	if (out && fclose(out) != 0)
		written = false;
	if (written && which >= CACHED_GZIP && which < CACHED_LIVE)
		written = compress_text(text);
	if (!written) {
		if (text)
			free(text->bytes);
		free(text);
		return NULL;
	}
	text->references = 1;
	return text;
}

static void answer_text(struct http_status *status, enum cached which, const char *type,
			struct http_answer *answer)
{
	struct text **cached = &status->cached[which];

	if (!*cached || clock_monotonic() - status->cached_ns[which] > HTTP_CACHE_NS) {
		text_put(*cached);
		*cached = make_text(status, which);
		status->cached_ns[which] = clock_monotonic();
	}
	answer->type = type;
	if (*cached && evbuffer_add_reference(answer->body, (*cached)->bytes, (*cached)->n, on_sent,
					      *cached) == 0) {
		(*cached)->references++;
		return;
	}
	answer->status = 503;
	answer->type = PLAIN_TEXT;
	evbuffer_add_printf(answer->body, "The daemon is out of memory.\n");
}

/* ---- Who may ask ----------------------------------------------------------------------------- */

/* localhost, 127.0.0.0/8 or [::1], with or without a port. */
static bool host_is_loopback(const char *host)
{
	size_t bytes = *host == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");
	const char *after = host + strnlen(host, bytes);

	if (*after && (*after != ':' || strspn(after + 1, "0123456789") != strlen(after + 1)))
		return false;
	if (bytes == 9 && strncasecmp(host, "localhost", 9) == 0)
		return true;
	if (strncmp(host, "[::1]", 5) == 0)
		return true;
	return strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == bytes;
}

/* What follows `Bearer `, or "". */
static const char *token_of(const struct http_request *request)
{
	const char *at = request->authorization;

	if (strncasecmp(at, "Bearer ", 7) != 0)
		return "";
	return at + 7 + strspn(at + 7, " ");
}

/* Denied requests leave a trace: a number, and a line that the log holds to its rate. */
static void deny(struct http_answer *answer, int code, const struct error *error)
{
	counter_add(COUNTER_http_denied, 1);
	log_warn("http-denied", "a request for the status page or its numbers is refused: %s",
		 error->what);
	answer->status = code;
	answer->type = PLAIN_TEXT;
	evbuffer_add_printf(answer->body, "%s\n%s\n", error->what, error->hint);
}

static bool admit(struct http_status *status, const struct http_request *request,
		  struct bufferevent *peer, enum role *role, struct http_answer *answer)
{
	struct client_identity identity = {0};
	struct error error = {0};
	int err;

	err = transport_tls_bufferevent_identity(peer, &identity, &error);
	if (!err)
		err = gate_admit(status->config.gate, &identity, token_of(request), &error);
	if (!err)
		err = gate_allow(status->config.gate, &identity, ROLE_VIEWER, "see the status",
				 &error);
	*role = identity.role;
	if (!err)
		return true;
	if (*request->authorization || identity.proof != IDENTITY_UNPROVED) {
		deny(answer, 403, &error);
		return false;
	}
	error_hint(&error, "send `Authorization: Bearer TOKEN`, or show a client certificate");
	deny(answer, 401, &error);
	answer->field = "WWW-Authenticate: Bearer realm=\"ringtail\"\r\n";
	return false;
}

/*
 * Plain, and on loopback alone: whoever is on this host, but no page of another, and no token. What one process does is
 * for those that `local` means in the rules.
 */
static bool admit_plain(struct http_status *status, const struct http_request *request, enum role *role,
			struct http_answer *answer)
{
	struct client_identity identity;
	struct error error = {0};

	identity_set_local(&identity);
	*role = gate_admit(status->config.rules, &identity, "", &error) == 0 ? identity.role : ROLE_NONE;
	if (*request->host && !host_is_loopback(request->host)) {
		error_set(&error, EACCES, "http-host", "This server is only for this host: ask for"
			  " localhost or 127.0.0.1.");
		deny(answer, 421, &error);
		return false;
	}
	if (*token_of(request)) {
		error_set(&error, EACCES, "token-in-clear",
			  "a token came over plain HTTP, where others may have read it");
		error_hint(&error, "make a new one, and send it over TLS only; here none is needed");
		deny(answer, 403, &error);
		return false;
	}
	return true;
}

/* ---- For which page a browser asks --------------------------------------------------------------- */

/* Old browsers do not name the site; where a GET has an Origin, it is another one. Other programs send neither. */
static bool is_for_another_site(const struct http_request *request)
{
	if (!*request->fetch_site)
		return request->has_origin;
	return strcmp(request->fetch_site, "same-origin") != 0 && strcmp(request->fetch_site, "none") != 0;
}

/* A link that somebody follows: what comes is shown in a window of its own, which the other page cannot read. */
static bool is_link(const struct http_request *request)
{
	return strcmp(request->fetch_mode, "navigate") == 0 && strcmp(request->fetch_dest, "document") == 0 &&
	       (strcmp(request->path, "/") == 0 || strcmp(request->path, "/metrics") == 0);
}

/*
 * A page elsewhere has the browser send what it likes, with the user's certificate or from the user's host. It must
 * neither have processes recorded nor learn anything by how long an answer takes.
 */
static bool admit_site(const struct http_request *request, struct http_answer *answer)
{
	struct error error = {0};

	if (!is_for_another_site(request) || is_link(request))
		return true;
	error_set(&error, EACCES, "http-site", "A page of another site had a browser ask for this.");
	error_hint(&error, "Open the status page itself; other pages may link to / and /metrics.");
	deny(answer, 403, &error);
	return false;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void answer_page(struct http_answer *answer)
{
	answer->type = "text/html; charset=utf-8";
	answer->field = "Content-Security-Policy: " PAGE_CONTENT_SECURITY_POLICY "\r\n";
	evbuffer_add_reference(answer->body, page_html, sizeof(page_html), NULL, NULL);
}

static void answer_metrics(struct http_status *status, const struct http_request *request,
			   struct http_answer *answer)
{
	enum metric_format format =
		metric_format_negotiate(*request->accept ? request->accept : NULL);
	bool gzip = http_gzip_is_asked_for(request->accept_encoding);
	enum cached which = (gzip ? CACHED_GZIP : CACHED_METRICS) + format;

	answer_text(status, which, metric_format_content_type(format), answer);
	answer->field = gzip && answer->status == 200 ?
				"Content-Encoding: gzip\r\nVary: Accept, Accept-Encoding\r\n" :
				"Vary: Accept, Accept-Encoding\r\n";
}

/* The number behind PROCESS; false: it is none that a process can have. */
static bool pid_of(const char *path, uint32_t *pid)
{
	const char *digits = path + strlen(PROCESS);
	size_t n = strspn(digits, "0123456789");

	if (strncmp(path, PROCESS, strlen(PROCESS)) != 0 || !n || n > 7 || digits[n] || *digits == '0')
		return false;
	*pid = (uint32_t)strtoul(digits, NULL, 10);
	return true;
}

static void answer_process(struct http_status *status, uint32_t pid, enum role role, struct http_answer *answer)
{
	struct error error = {0};
	char *text = NULL;
	size_t n = 0;
	FILE *out;
	int err;

	if (role < ROLE_VIEWER) {
		error_set(&error, EACCES, "not-allowed", "nobody without a role sees what a process does");
		error_hint(&error, "an operator adds `viewer = local` to the daemon's configuration");
		deny(answer, 403, &error);
		return;
	}
	out = open_memstream(&text, &n);
	err = out ? closeups_write(status->closeups, pid, role, out, &error) :
		    error_set(&error, ENOMEM, "out-of-memory", "out of memory");
	if (out && fclose(out) != 0 && !err)
		err = error_set(&error, ENOMEM, "out-of-memory", "out of memory");
	if (err == -EACCES) {
		deny(answer, 403, &error);
	} else if (err) {
		answer->status = 503;
		answer->type = PLAIN_TEXT;
		evbuffer_add_printf(answer->body, "%s\n%s\n", error.what, error.hint);
	} else {
		answer->type = "application/json";
		evbuffer_add(answer->body, text, n);
	}
	free(text);
}

static void answer_nothing_here(struct http_answer *answer)
{
	answer->status = 404;
	answer->type = PLAIN_TEXT;
	evbuffer_add_printf(answer->body, "Nothing is here. There are:\n"
					  "  /          the status page\n"
					  "  /metrics   for Prometheus, as OpenMetrics or protobuf\n"
					  "  /api/live  the page's numbers, as JSON\n"
					  "  /api/process/PID  what one process calls, as JSON\n"
					  "  /healthz   whether the daemon lives\n");
}

static void on_request(void *context, const struct http_request *request, struct bufferevent *peer,
		       struct http_answer *answer)
{
	struct http_status *status = context;
	enum role role = ROLE_NONE;
	uint32_t pid;

	if (strcmp(request->path, "/healthz") == 0) {
		answer->type = PLAIN_TEXT;
		evbuffer_add_printf(answer->body, "ok\n");
		return;
	}
	if (!admit_site(request, answer))
		return;
	if (status->config.gate ? !admit(status, request, peer, &role, answer)
				: !admit_plain(status, request, &role, answer))
		return;
	answer->admitted = true;
	if (strcmp(request->path, "/metrics") == 0) {
		answer_metrics(status, request, answer);
	} else if (strcmp(request->path, "/api/live") == 0) {
		answer_text(status, CACHED_LIVE, "application/json", answer);
	} else if (strcmp(request->path, "/api/history") == 0) {
		answer_text(status, CACHED_HISTORY, "application/json", answer);
	} else if (pid_of(request->path, &pid)) {
		answer_process(status, pid, role, answer);
	} else if (strcmp(request->path, "/") == 0) {
		answer_page(answer);
	} else {
		answer_nothing_here(answer);
	}
}

/* ---- Life ------------------------------------------------------------------------------------ */

struct http_status *http_status_create(const struct http_status_config *config)
{
	struct http_status *status = calloc(1, sizeof(*status));
	struct http_config http = {
		.base = config->base,
		.turnstile = config->turnstile,
		.tls = config->gate ? gate_tls(config->gate) : NULL,
		.handle = on_request,
		.context = status,
	};

	if (!status)
		return NULL;
	status->config = *config;
	status->http = http_create(&http);
	status->history = http_history_create(config->base, config->meters);
	status->closeups = closeups_create(&config->watch);
	if (!status->http || !status->history || !status->closeups) {
		http_status_destroy(status);
		return NULL;
	}
	return status;
}

void http_status_destroy(struct http_status *status)
{
	if (!status)
		return;
	http_destroy(status->http);
	http_history_destroy(status->history);
	closeups_destroy(status->closeups);
	for (unsigned i = 0; i < CACHED; i++)
		text_put(status->cached[i]);
	free(status);
}

void http_status_accept(void *context, int fd, const struct address *address, const char *peer)
{
	struct http_status *status = context;

	(void)address;
	http_accept(status->http, fd, peer);
}
