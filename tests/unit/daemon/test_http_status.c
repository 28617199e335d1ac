/*
 * What the status page's server answers, and to whom: which Host is this one's, for which page a browser may ask,
 * who has to prove who it is and how each refusal says so; formats of /metrics, compressed and not; what is answered
 * again and when it is made anew. The server, the gate and the metrics are this test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/http/closeup.h"
#include "daemon/http/http.h"
#include "daemon/http/live.h"
#include "daemon/http/status.h"
#include "daemon/metrics/format.h"
#include "daemon/net/transport.h"

static struct http_config http;
static struct http_status *status;
static struct client_identity shown;	/* by the certificate */
static int certificate_says;
static enum role role_of_alice;
static unsigned taken, taken_back;
static bool no_memory;
static uint64_t now_ns;

#define GATE ((struct gate *)&http)
#define TLS ((struct transport_tls_context *)&status)

/* ---- What it stands between ---------------------------------------------------------------------- */

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

struct http *__wrap_http_create(const struct http_config *config);
struct http *__wrap_http_create(const struct http_config *config)
{
	http = *config;
	return (struct http *)&http;
}

void __wrap_http_destroy(struct http *which);
void __wrap_http_destroy(struct http *which)
{
	assert_ptr_equal(which, &http);
}

static int accepted = -1;
static const char *accepted_peer;

void __wrap_http_accept(struct http *which, int fd, const char *peer);
void __wrap_http_accept(struct http *which, int fd, const char *peer)
{
	assert_ptr_equal(which, &http);
	accepted = fd;
	accepted_peer = peer;
}

struct transport_tls_context *__wrap_gate_tls(const struct gate *gate);
struct transport_tls_context *__wrap_gate_tls(const struct gate *gate)
{
	assert_ptr_equal(gate, GATE);
	return TLS;
}

int __wrap_transport_tls_bufferevent_identity(struct bufferevent *peer, struct client_identity *identity,
					      struct error *error);
int __wrap_transport_tls_bufferevent_identity(struct bufferevent *peer, struct client_identity *identity,
					      struct error *error)
{
	assert_null(peer);
	*identity = shown;
	return certificate_says ? error_set(error, EACCES, "certificate-name", "that is no name") : 0;
}

/* The token `right` is alice's. */
int __wrap_gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
		      struct error *error);
int __wrap_gate_admit(const struct gate *gate, struct client_identity *identity, const char *token,
		      struct error *error)
{
	assert_ptr_equal(gate, GATE);
	if (strcmp(token, "right") == 0)
		identity_set_name(identity, IDENTITY_TOKEN, "alice");
	else if (*token || identity->proof == IDENTITY_UNPROVED)
		return error_set(error, EACCES, "token-unknown", "nobody is known by that");
	identity->role = role_of_alice;
	return 0;
}

int __wrap_gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
		      const char *what, struct error *error);
int __wrap_gate_allow(const struct gate *gate, const struct client_identity *identity, enum role needed,
		      const char *what, struct error *error)
{
	assert_ptr_equal(gate, GATE);
	return identity->role >= needed ? 0 : error_set(error, EACCES, "not-allowed", "may not %s", what);
}

const struct metric_snapshot *__wrap_metric_source_take(struct metric_source *source);
const struct metric_snapshot *__wrap_metric_source_take(struct metric_source *source)
{
	(void)source;
	if (no_memory)
		return NULL;
	taken++;
	return (const struct metric_snapshot *)&taken;
}

void __wrap_metric_snapshot_destroy(const struct metric_snapshot *snapshot);
void __wrap_metric_snapshot_destroy(const struct metric_snapshot *snapshot)
{
	assert_ptr_equal(snapshot, &taken);
	taken_back++;
}

int __wrap_metric_format_write(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out);
int __wrap_metric_format_write(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out)
{
	(void)snapshot;
	fprintf(out, "metrics %u of format %u, as many bytes as it takes to be compressed", taken, format);
	return 0;
}

struct daemon_stat *__wrap_metric_source_stat(struct metric_source *source);
struct daemon_stat *__wrap_metric_source_stat(struct metric_source *source)
{
	(void)source;
	return no_memory ? NULL : (struct daemon_stat *)&taken;
}

void __wrap_daemon_stat_free(struct daemon_stat *stat);
void __wrap_daemon_stat_free(struct daemon_stat *stat)
{
	assert_ptr_equal(stat, &taken);
}

void __wrap_http_live_write(const struct daemon_stat *stat, struct meters *meters, FILE *out);
void __wrap_http_live_write(const struct daemon_stat *stat, struct meters *meters, FILE *out)
{
	(void)stat, (void)meters;
	fprintf(out, "live at %u", (unsigned)(now_ns / 1000000));
}

struct http_history *__wrap_http_history_create(struct event_base *base, struct meters *meters);
struct http_history *__wrap_http_history_create(struct event_base *base, struct meters *meters)
{
	(void)base, (void)meters;
	return (struct http_history *)&taken;
}

void __wrap_http_history_destroy(struct http_history *history);
void __wrap_http_history_destroy(struct http_history *history)
{
	assert_ptr_equal(history, &taken);
}

void __wrap_http_history_write(const struct http_history *history, FILE *out);
void __wrap_http_history_write(const struct http_history *history, FILE *out)
{
	(void)history;
	fputs("history", out);
}

/* Of processes: what was asked for last, and how that went. */
static uint32_t looked_at;
static enum role looked_as;
static int closeup_says;

struct closeups *__wrap_closeups_create(const struct ask_watches_config *config);
struct closeups *__wrap_closeups_create(const struct ask_watches_config *config)
{
	(void)config;
	return (struct closeups *)&looked_at;
}

void __wrap_closeups_destroy(struct closeups *closeups);
void __wrap_closeups_destroy(struct closeups *closeups)
{
	assert_ptr_equal(closeups, &looked_at);
}

int __wrap_closeups_write(struct closeups *closeups, uint32_t pid, enum role role, FILE *out, struct error *error);
int __wrap_closeups_write(struct closeups *closeups, uint32_t pid, enum role role, FILE *out, struct error *error)
{
	assert_ptr_equal(closeups, &looked_at);
	looked_at = pid;
	looked_as = role;
	fprintf(out, "process %u", pid);
	return closeup_says ? error_set(error, -closeup_says, "closeup", "not that one") : 0;
}

static void no_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

/* ---- Asking -------------------------------------------------------------------------------------- */

static struct http_request asking;	/* what else is in each request */

static int open_status(const struct gate *gate)
{
	static const struct log_sink sink = {.write = no_log, .now_ns = clock_monotonic};
	const struct http_status_config config = {.gate = gate, .rules = GATE};

	log_set_sink(&sink);
	now_ns = 1000 * NS_PER_S;
	taken = taken_back = 0;
	certificate_says = 0;
	no_memory = false;
	role_of_alice = ROLE_VIEWER;
	closeup_says = 0;
	looked_at = 0;
	asking = (struct http_request){.method = HTTP_GET};
	identity_set_unproved(&shown);
	status = http_status_create(&config);
	assert_non_null(status);
	return 0;
}

static int open_plain(void **state)
{
	(void)state;
	return open_status(NULL);
}

static int open_tls(void **state)
{
	(void)state;
	return open_status(GATE);
}

static int close_status(void **state)
{
	(void)state;
	http_status_destroy(status);
	assert_int_equal(taken, taken_back);
	log_set_sink(NULL);
	return 0;
}

static struct http_answer ask(const char *path, const char *host, const char *authorization)
{
	struct http_answer answer = {.status = 200, .body = evbuffer_new()};
	struct http_request request = asking;

	snprintf(request.path, sizeof(request.path), "%s", path);
	snprintf(request.host, sizeof(request.host), "%s", host);
	snprintf(request.authorization, sizeof(request.authorization), "%s", authorization);
	http.handle(http.context, &request, NULL, &answer);
	return answer;
}

static void put(struct http_answer *answer, char *text, size_t bytes)
{
	ssize_t got = evbuffer_remove(answer->body, text, bytes - 1);

	text[got < 0 ? 0 : got] = '\0';
	evbuffer_free(answer->body);
}

/* One that is refused is counted, has no number of this host in it, and keeps its place among strangers. */
static void check(const char *path, const char *host, const char *authorization, int expected)
{
	uint64_t denied = counter_read(COUNTER_http_denied);
	struct http_answer answer = ask(path, host, authorization);
	char text[512];

	put(&answer, text, sizeof(text));
	if (answer.status != expected)
		fail_msg("%s of %s with `%s`: %d: %s", path, host, authorization, answer.status, text);
	if (expected == 200 || expected == 404) {
		assert_true(answer.admitted);
		assert_int_equal(counter_read(COUNTER_http_denied), denied);
		return;
	}
	assert_false(answer.admitted);
	assert_int_equal(counter_read(COUNTER_http_denied), denied + 1);
	assert_string_equal(answer.type, "text/plain; charset=utf-8");
	assert_null(strstr(text, "live"));
	if (expected == 401)
		assert_string_equal(answer.field, "WWW-Authenticate: Bearer realm=\"ringtail\"\r\n");
	else
		assert_null(answer.field);
}

/* ---- Who may ask ---------------------------------------------------------------------------------- */

/* A page of another site, whose name leads to this address, is not told anything. */
static void plain_it_answers_to_a_loopback_host_alone(void **state)
{
	static const char *const mine[] = {
		"", "localhost", "LocalHost:9090", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:80", "127.0.0.1:",
	};
	static const char *const others[] = {
		"example.org", "localhost.example.org", "localhos", "localhost2", "localhost:80x", "127.example.org",
		"127.0.0.1.example.org", "127.0.0.1:x", "1270.0.0.1", "128.0.0.1", "[::1", "[::2]", "[::1]x",
		"[::11]", "::1", "[fe80::1]:80", "10.127.0.1",
	};

	(void)state;
	assert_null(http.tls);
	for (size_t i = 0; i < sizeof(mine) / sizeof(mine[0]); i++)
		check("/api/live", mine[i], "", 200);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		check("/api/live", others[i], "", 421);
		check("/", others[i], "", 421);
	}
}

/* Others may have read it on its way: who sent it is to know. */
static void plain_it_refuses_a_token(void **state)
{
	(void)state;
	check("/api/live", "localhost", "Bearer right", 403);
	check("/api/live", "localhost", "bearer  right", 403);
	check("/api/live", "localhost", "Bearer ", 200);
	check("/api/live", "localhost", "Basic x", 200);
}

static void behind_tls_whoever_asks_proves_who_it_is(void **state)
{
	(void)state;
	assert_ptr_equal(http.tls, TLS);
	check("/api/live", "example.org", "", 401);
	check("/metrics", "localhost", "", 401);
	check("/", "localhost", "", 401);
	check("/nowhere", "localhost", "", 401);
	check("/api/live", "example.org", "Bearer right", 200);
	check("/api/live", "", "bEARER   right", 200);
	check("/nowhere", "", "Bearer right", 404);
	check("/api/live", "", "Bearer wrong", 403);
	check("/api/live", "", "Basic right", 403);
	check("/api/live", "", "right", 403);
	role_of_alice = ROLE_NONE;
	check("/api/live", "", "Bearer right", 403);
}

static void behind_tls_a_certificate_will_do(void **state)
{
	(void)state;
	identity_set_name(&shown, IDENTITY_CERT, "bob");
	check("/api/live", "", "", 200);
	role_of_alice = ROLE_OPERATOR;
	check("/api/live", "", "", 200);
	role_of_alice = ROLE_NONE;
	check("/api/live", "", "", 403);
	role_of_alice = ROLE_VIEWER;
	certificate_says = -EACCES;
	check("/api/live", "", "", 403);
}

static void lives_is_told_to_anybody_and_nothing_else(void **state)
{
	struct http_answer answer = ask("/healthz", "example.org", "");
	char text[64];

	(void)state;
	assert_int_equal(answer.status, 200);
	assert_false(answer.admitted);
	put(&answer, text, sizeof(text));
	assert_string_equal(text, "ok\n");
	check("/healthz/", "", "", 401);
	check("/health", "", "", 401);
}

/* As a browser asks that names these; "": it does not. */
static void browse(const char *site, const char *mode, const char *dest, bool has_origin)
{
	asking = (struct http_request){.method = HTTP_GET, .has_origin = has_origin};
	strcpy(asking.fetch_site, site);
	strcpy(asking.fetch_mode, mode);
	strcpy(asking.fetch_dest, dest);
}

/* From itself, by hand, and as other programs ask: all of it. Else links lead to what is shown to people alone. */
static void a_page_of_another_site_may_only_link_here(void **state)
{
	static const char *const path[] = {"/", "/metrics", "/api/live", "/api/history", "/api/process/7", "/nowhere"};
	static const struct {
		const char *site, *mode, *dest;
		bool has_origin;
		int expected[6];
	} cases[] = {
#define ALL	{200, 200, 200, 200, 200, 404}
#define LINKED	{200, 200, 403, 403, 403, 403}
#define NONE	{403, 403, 403, 403, 403, 403}
		{"", "", "", false, ALL}, {"none", "navigate", "document", false, ALL}, {"same-origin", "cors", "empty", true, ALL},
		{"same-origin", "no-cors", "image", false, ALL},
		{"cross-site", "navigate", "document", false, LINKED}, {"same-site", "navigate", "document", false, LINKED},
		{"cross-site", "navigate", "document", true, LINKED}, {"", "navigate", "document", true, LINKED},
		{"cross-site", "navigate", "iframe", false, NONE}, {"cross-site", "navigate", "", false, NONE},
		{"cross-site", "no-cors", "document", false, NONE}, {"cross-site", "no-cors", "image", false, NONE},
		{"cross-site", "cors", "empty", true, NONE}, {"cross-site", "", "", false, NONE},
		{"same-site", "cors", "empty", true, NONE}, {"same-site", "no-cors", "script", false, NONE},
		{"Same-Origin", "cors", "empty", false, NONE}, {"same-origin, cross-site", "cors", "empty", false, NONE},
		{"", "", "", true, NONE}, {"", "cors", "empty", true, NONE},
#undef ALL
#undef LINKED
#undef NONE
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		browse(cases[i].site, cases[i].mode, cases[i].dest, cases[i].has_origin);
		for (size_t k = 0; k < sizeof(path) / sizeof(path[0]); k++) {
			looked_at = 0;
			check(path[k], "localhost", "", cases[i].expected[k]);
			assert_int_equal(looked_at, k == 4 && cases[i].expected[k] == 200 ? 7 : 0);
		}
	}
}

/* Neither is another host's name made good by it. */
static void its_own_page_has_its_own_host(void **state)
{
	(void)state;
	browse("same-origin", "cors", "empty", false);
	check("/api/process/7", "example.org:7118", "", 421);
	check("/api/live", "example.org:7118", "", 421);
	browse("none", "navigate", "document", false);
	check("/", "example.org:7118", "", 421);
	assert_int_equal(looked_at, 0);
}

/* The browser shows a user's certificate for whichever page asks. */
static void behind_tls_a_page_of_another_site_may_only_link_here(void **state)
{
	(void)state;
	identity_set_name(&shown, IDENTITY_CERT, "bob");
	browse("cross-site", "no-cors", "image", false);
	check("/api/process/7", "example.org", "", 403);
	check("/metrics", "example.org", "", 403);
	assert_int_equal(looked_at, 0);
	browse("cross-site", "navigate", "document", false);
	check("/", "example.org", "", 200);
	check("/api/live", "example.org", "", 403);
	identity_set_unproved(&shown);
	check("/", "example.org", "", 401);
	browse("cross-site", "cors", "empty", true);
	check("/api/live", "example.org", "Bearer right", 403);
}

static void anybody_is_told_that_it_lives_for_whichever_page(void **state)
{
	struct http_answer answer;
	char text[64];

	(void)state;
	browse("cross-site", "cors", "empty", true);
	answer = ask("/healthz", "example.org", "");
	assert_int_equal(answer.status, 200);
	put(&answer, text, sizeof(text));
	assert_string_equal(text, "ok\n");
}

static void check_process(const char *path, const char *authorization, int expected, uint32_t pid)
{
	struct http_answer answer = ask(path, "localhost", authorization);
	char text[128];

	looked_at = expected == 200 || expected == 503 ? looked_at : 0;
	put(&answer, text, sizeof(text));
	if (answer.status != expected || looked_at != pid)
		fail_msg("%s: %d of %u: %s", path, answer.status, looked_at, text);
	assert_int_equal(strncmp(text, "process", 7) == 0, expected == 200);
}

/* A number that a process can have, and nothing else. */
static void a_process_is_named_by_its_number(void **state)
{
	static const char *const none[] = {
		"", "0", "01", "-1", "+1", " 1", "1/", "1x", "x", "12345678", "4294967297", "1?", "1%20", "../live",
	};

	(void)state;
	check_process("/api/process/1", "", 200, 1);
	check_process("/api/process/4194304", "", 200, 4194304);
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		char path[64];

		snprintf(path, sizeof(path), "/api/process/%s", none[i]);
		looked_at = 0;
		check_process(path, "", 404, 0);
	}
	closeup_says = -EBUSY;
	check_process("/api/process/7", "", 503, 7);
	closeup_says = -EACCES;
	check_process("/api/process/7", "", 403, 0);
}

/* On loopback the page is everybody's; what a process does is for those whom a rule lets in. */
static void a_process_is_shown_to_its_role(void **state)
{
	(void)state;
	check_process("/api/process/7", "", 200, 7);
	assert_int_equal(looked_as, ROLE_VIEWER);
	role_of_alice = ROLE_OPERATOR;
	check_process("/api/process/7", "", 200, 7);
	assert_int_equal(looked_as, ROLE_OPERATOR);
	role_of_alice = ROLE_NONE;
	looked_at = 0;
	check_process("/api/process/7", "", 403, 0);
	check("/api/live", "localhost", "", 200);
}

static void behind_tls_a_process_is_shown_to_its_role(void **state)
{
	(void)state;
	check_process("/api/process/7", "", 401, 0);
	check_process("/api/process/7", "Bearer wrong", 403, 0);
	check_process("/api/process/7", "Bearer right", 200, 7);
	assert_int_equal(looked_as, ROLE_VIEWER);
	role_of_alice = ROLE_OPERATOR;
	check_process("/api/process/7", "Bearer right", 200, 7);
	assert_int_equal(looked_as, ROLE_OPERATOR);
}

/* ---- What is answered ----------------------------------------------------------------------------- */

static void unpacked(const char *packed, size_t bytes, char *text, size_t room)
{
	z_stream stream = {.next_in = (Bytef *)(uintptr_t)packed, .avail_in = (uInt)bytes, .next_out = (Bytef *)text,
			   .avail_out = (uInt)room - 1};

	assert_int_equal(inflateInit2(&stream, 16 + MAX_WBITS), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	text[stream.total_out] = '\0';
	inflateEnd(&stream);
}

static struct http_answer ask_metrics(const char *accept, const char *encoding)
{
	struct http_answer answer = {.status = 200, .body = evbuffer_new()};
	struct http_request request = {.path = "/metrics"};

	snprintf(request.accept, sizeof(request.accept), "%s", accept);
	snprintf(request.accept_encoding, sizeof(request.accept_encoding), "%s", encoding);
	http.handle(http.context, &request, NULL, &answer);
	return answer;
}

static void metrics_come_as_they_are_asked_for(void **state)
{
	static const char *const accept[METRIC_FORMATS] = {
		"", "application/openmetrics-text",
		"application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
	};

	(void)state;
	for (unsigned i = 0; i < 2 * METRIC_FORMATS; i++) {
		enum metric_format format = i % METRIC_FORMATS;
		bool gzip = i >= METRIC_FORMATS;
		struct http_answer answer = ask_metrics(accept[format], gzip ? "br, gzip" : "gzip;q=0");
		size_t bytes = evbuffer_get_length(answer.body);
		char got[512], text[512], expected[128];

		assert_int_equal(answer.status, 200);
		assert_string_equal(answer.type, metric_format_content_type(format));
		assert_string_equal(answer.field, gzip ?
				    "Content-Encoding: gzip\r\nVary: Accept, Accept-Encoding\r\n" :
				    "Vary: Accept, Accept-Encoding\r\n");
		put(&answer, got, sizeof(got));
		if (gzip)
			unpacked(got, bytes, text, sizeof(text));
		snprintf(expected, sizeof(expected),
			 "metrics %u of format %u, as many bytes as it takes to be compressed", i + 1, format);
		assert_string_equal(gzip ? text : got, expected);
	}
}

/* Whoever asks soon gets the same; what is still being sent stays as it is when that is made anew. */
static void is_made_anew_when_it_is_old(void **state)
{
	struct http_answer slow = ask("/api/live", "", ""), answer;
	char text[64];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		answer = ask("/api/live", "", "");
		put(&answer, text, sizeof(text));
		assert_string_equal(text, "live at 1000000");
	}
	now_ns += HTTP_CACHE_NS;
	answer = ask("/api/live", "", "");
	put(&answer, text, sizeof(text));
	assert_string_equal(text, "live at 1000000");
	for (unsigned i = 1; i < 4; i++) {
		char expected[64];

		now_ns += HTTP_CACHE_NS + 1;
		snprintf(expected, sizeof(expected), "live at %u", (unsigned)(now_ns / 1000000));
		for (unsigned j = 0; j < 2; j++) {
			answer = ask("/api/live", "", "");
			assert_string_equal(answer.type, "application/json");
			put(&answer, text, sizeof(text));
			assert_string_equal(text, expected);
		}
	}
	put(&slow, text, sizeof(text));
	assert_string_equal(text, "live at 1000000");
	answer = ask("/api/history", "", "");
	put(&answer, text, sizeof(text));
	assert_string_equal(text, "history");
}

/* It says so, uncompressed, and it is tried again with the next request. */
static void without_memory_it_is_unavailable(void **state)
{
	struct http_answer answer;
	char text[256];

	(void)state;
	no_memory = true;
	for (unsigned i = 0; i < 2; i++) {
		answer = i ? ask("/api/live", "", "") : ask_metrics("", "gzip");
		assert_int_equal(answer.status, 503);
		assert_string_equal(answer.type, "text/plain; charset=utf-8");
		if (!i)
			assert_string_equal(answer.field, "Vary: Accept, Accept-Encoding\r\n");
		put(&answer, text, sizeof(text));
		assert_string_equal(text, "The daemon is out of memory.\n");
	}
	no_memory = false;
	answer = ask_metrics("", "");
	assert_int_equal(answer.status, 200);
	put(&answer, text, sizeof(text));
}

static void the_page_may_run_nothing_but_itself(void **state)
{
	struct http_answer answer = ask("/", "", "");
	char text[512];

	(void)state;
	assert_int_equal(answer.status, 200);
	assert_string_equal(answer.type, "text/html; charset=utf-8");
	assert_int_equal(strncmp(answer.field, "Content-Security-Policy: default-src 'none'", 43), 0);
	assert_true(evbuffer_get_length(answer.body) > 1000);
	put(&answer, text, sizeof(text));
	answer = ask("/index.html", "", "");
	assert_int_equal(answer.status, 404);
	assert_string_equal(answer.type, "text/plain; charset=utf-8");
	put(&answer, text, sizeof(text));
	assert_non_null(strstr(text, "/api/live"));
}

static void a_connection_goes_to_its_server(void **state)
{
	static const char peer[] = "127.0.0.1:9";

	(void)state;
	accepted = -1;
	http_status_accept(status, 77, NULL, peer);
	assert_int_equal(accepted, 77);
	assert_ptr_equal(accepted_peer, peer);
}

int main(void)
{
#define PLAIN(name) cmocka_unit_test_setup_teardown(name, open_plain, close_status)
#define BEHIND_TLS(name) cmocka_unit_test_setup_teardown(name, open_tls, close_status)
	const struct CMUnitTest tests[] = {
		PLAIN(plain_it_answers_to_a_loopback_host_alone),
		PLAIN(plain_it_refuses_a_token),
		PLAIN(a_page_of_another_site_may_only_link_here),
		PLAIN(its_own_page_has_its_own_host),
		BEHIND_TLS(behind_tls_a_page_of_another_site_may_only_link_here),
		BEHIND_TLS(anybody_is_told_that_it_lives_for_whichever_page),
		PLAIN(a_process_is_named_by_its_number),
		PLAIN(a_process_is_shown_to_its_role),
		BEHIND_TLS(behind_tls_a_process_is_shown_to_its_role),
		BEHIND_TLS(behind_tls_whoever_asks_proves_who_it_is),
		BEHIND_TLS(behind_tls_a_certificate_will_do),
		BEHIND_TLS(lives_is_told_to_anybody_and_nothing_else),
		PLAIN(metrics_come_as_they_are_asked_for),
		PLAIN(is_made_anew_when_it_is_old),
		PLAIN(without_memory_it_is_unavailable),
		PLAIN(the_page_may_run_nothing_but_itself),
		PLAIN(a_connection_goes_to_its_server),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
