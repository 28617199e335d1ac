/*
 * A request as it goes out, and what is made of each way to answer it: as a back end does, half of it,
 * without end, too late, never, or as one that speaks something else. The back end is this test's own
 * listener, on the same loop.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/export/http.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/tls_place.h"

#define BODY		"\0five"
#define BODY_BYTES	5u
#define OK		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
#define LONG_NS		(20 * NS_PER_S)		/* more than any test takes */

struct fixture {
	struct event_base *base;
	struct export_http *http;
	struct evconnlistener *listener;
	char url[64];
	SSL_CTX *tls;			/* NULL: it speaks none */
	unsigned connections, peers;	/* how many there were, and are */
	const char *answer;		/* NULL: hangs up without a word */
	size_t answer_bytes;		/* 0: all of it, as text; then it hangs up */
	bool silent;			/* says nothing, and stays */
	bool blunt;			/* answers whatever comes */
	char request[4096];
	size_t request_bytes;

	unsigned answers;		/* what was made of it: */
	long status;
	bool sent, mistrusted, failed;
	uint64_t retry_after_ns;
	char body[16], error[128];
	size_t bytes;
};

/* ---- The back end ---------------------------------------------------------------------------- */

static void hang_up(struct fixture *f, struct bufferevent *peer)
{
	f->peers--;
	bufferevent_free(peer);
}

static void on_written(struct bufferevent *peer, void *context)
{
	if (!evbuffer_get_length(bufferevent_get_output(peer)))
		hang_up(context, peer);
}

static void on_end(struct bufferevent *peer, short what, void *context)
{
	if (!(what & BEV_EVENT_CONNECTED))
		hang_up(context, peer);
}

static void on_request(struct bufferevent *peer, void *context)
{
	struct fixture *f = context;
	struct evbuffer *in = bufferevent_get_input(peer);
	size_t bytes = evbuffer_get_length(in);
	struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);

	if (f->silent || (!f->blunt && (end.pos < 0 || bytes < (size_t)end.pos + 4 + BODY_BYTES)))
		return;
	bytes = bytes < sizeof(f->request) ? bytes : sizeof(f->request) - 1;
	f->request_bytes = bytes;
	evbuffer_remove(in, f->request, bytes);
	f->request[bytes] = '\0';
	if (!f->answer) {
		hang_up(f, peer);
		return;
	}
	bufferevent_setcb(peer, NULL, on_written, on_end, f);
	bufferevent_write(peer, f->answer, f->answer_bytes ? f->answer_bytes : strlen(f->answer));
}

static void on_connection(struct evconnlistener *listener, evutil_socket_t fd, struct sockaddr *from, int bytes,
			  void *context)
{
	struct fixture *f = context;
	struct bufferevent *peer =
		f->tls ? bufferevent_openssl_socket_new(f->base, fd, SSL_new(f->tls), BUFFEREVENT_SSL_ACCEPTING,
							BEV_OPT_CLOSE_ON_FREE) :
			 bufferevent_socket_new(f->base, fd, BEV_OPT_CLOSE_ON_FREE);

	(void)listener, (void)from, (void)bytes;
	f->connections++;
	f->peers++;
	bufferevent_setcb(peer, on_request, NULL, on_end, f);
	bufferevent_enable(peer, EV_READ | EV_WRITE);
}

static int make(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t bytes = sizeof(at);

	f->base = event_base_new();
	f->http = export_http_create(f->base, NULL);
	f->listener = evconnlistener_new_bind(f->base, on_connection, f, LEV_OPT_CLOSE_ON_FREE, 8,
					      (struct sockaddr *)&at, sizeof(at));
	assert_non_null(f->http);
	assert_non_null(f->listener);
	getsockname(evconnlistener_get_fd(f->listener), (struct sockaddr *)&at, &bytes);
	snprintf(f->url, sizeof(f->url), "http://127.0.0.1:%u/push?a=b", ntohs(at.sin_port));
	*state = f;
	return 0;
}

static int unmake(void **state)
{
	struct fixture *f = *state;

	if (f->listener)
		evconnlistener_free(f->listener);
	export_http_destroy(f->http);
	export_http_destroy(NULL);
	while (f->peers)		/* each sees that nobody is there any more */
		event_base_loop(f->base, EVLOOP_ONCE);
	event_base_free(f->base);
	free(f);
	return 0;
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void on_answer(void *context, const struct export_answer *answer)
{
	struct fixture *f = context;

	f->answers++;
	f->status = answer->status;
	f->sent = answer->sent;
	f->mistrusted = answer->mistrusted;
	f->failed = answer->error;
	f->retry_after_ns = answer->retry_after_ns;
	f->bytes = answer->bytes;
	memset(f->body, 0, sizeof(f->body));
	memcpy(f->body, answer->body, answer->bytes < sizeof(f->body) ? answer->bytes : sizeof(f->body) - 1);
	snprintf(f->error, sizeof(f->error), "%s", answer->error ? answer->error : "");
	event_base_loopbreak(f->base);
}

static struct export_call *start(struct fixture *f, const char *url, uint64_t timeout_ns)
{
	static const char *const header[] = {"Content-Type: application/x-test", "X-Second: 2", "X-Not: sent"};
	const struct export_post post = {.url = url, .headers = header, .headers_count = 2,
					 .body = (const uint8_t *)BODY, .bytes = BODY_BYTES, .timeout_ns = timeout_ns,
					 .done = on_answer, .context = f};

	f->answers = 0;
	return export_http_post(f->http, &post);
}

static void post(struct fixture *f, const char *url, uint64_t timeout_ns)
{
	assert_non_null(start(f, url, timeout_ns));
	assert_int_equal(f->answers, 0);		/* never from within */
	event_base_dispatch(f->base);
	assert_int_equal(f->answers, 1);
}

/* So it is answered. */
static void expect(struct fixture *f, const char *answer, long status, bool failed)
{
	f->answer = answer;
	post(f, f->url, LONG_NS);
	assert_int_equal(f->status, status);
	assert_int_equal(f->failed, failed);
	assert_true(f->sent);
	assert_false(f->mistrusted);
}

static void goes_out_whole(void **state)
{
	struct fixture *f = *state;

	expect(f, OK, 200, false);
	assert_int_equal(f->bytes, 2);
	assert_string_equal(f->body, "ok");
	assert_int_equal(f->retry_after_ns, 0);
	assert_int_equal(strncmp(f->request, "POST /push?a=b HTTP/1.1\r\n", 25), 0);
	assert_non_null(strstr(f->request, "\r\nContent-Type: application/x-test\r\n"));
	assert_non_null(strstr(f->request, "\r\nX-Second: 2\r\n"));
	assert_non_null(strstr(f->request, "\r\nUser-Agent: ringtail/" RINGTAIL_VERSION "\r\n"));
	assert_non_null(strstr(f->request, "\r\nContent-Length: 5\r\n"));
	assert_null(strstr(f->request, "X-Not"));
	assert_null(strstr(f->request, "Expect"));
	assert_memory_equal(f->request + f->request_bytes - BODY_BYTES, BODY, BODY_BYTES);
	/* Each on a connection of its own. */
	expect(f, OK, 200, false);
	assert_int_equal(f->connections, 2);
}

/* Nobody asks first whether it may come, however large it is. */
static void large_body_goes_out_at_once(void **state)
{
	const size_t bytes = 2 << 20;
	struct fixture *f = *state;
	struct export_post large = {.url = f->url, .body = calloc(1, bytes), .bytes = bytes, .timeout_ns = LONG_NS,
				    .done = on_answer, .context = f};

	f->answer = OK;
	assert_non_null(export_http_post(f->http, &large));
	event_base_dispatch(f->base);
	assert_int_equal(f->answers, 1);
	assert_null(strstr(f->request, "Expect"));
	free((void *)large.body);
}

static void any_status_is_an_answer(void **state)
{
	struct fixture *f = *state;

	expect(f, "HTTP/1.1 204 No Content\r\n\r\n", 204, false);
	expect(f, "HTTP/1.1 301 Moved\r\nLocation: /elsewhere\r\nContent-Length: 0\r\n\r\n", 301, false);
	assert_int_equal(f->connections, 2);		/* and nobody goes there */
	expect(f, "HTTP/1.1 400 Bad\r\nContent-Length: 3\r\n\r\nbad", 400, false);
	assert_string_equal(f->body, "bad");
	expect(f, "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", 503, false);
	/* It promises an answer, and is none. */
	expect(f, "HTTP/1.1 100 Continue\r\n\r\n", 0, true);
}

static void asks_for_a_pause(void **state)
{
	struct fixture *f = *state;

	expect(f, "HTTP/1.1 429 Busy\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n", 429, false);
	assert_int_equal(f->retry_after_ns, 7 * NS_PER_S);
	expect(f, "HTTP/1.1 429 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n", 429, false);
	assert_int_equal(f->retry_after_ns, 0);
	/* More than can be counted in ns is the longest there is. */
	expect(f, "HTTP/1.1 429 Busy\r\nRetry-After: 18446744074\r\nContent-Length: 0\r\n\r\n", 429, false);
	assert_true(f->retry_after_ns > 1000000 * NS_PER_S);
}

static void cut_short(void **state)
{
	struct fixture *f = *state;

	expect(f, NULL, 0, true);
	expect(f, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhalf", 200, true);
	assert_int_equal(f->bytes, 4);
}

/* What has no room is left out, and the answer counts. */
static void without_end(void **state)
{
	static const char head[] = "HTTP/1.1 200 OK\r\n\r\n";
	struct fixture *f = *state;
	size_t bytes = strlen(head) + EXPORT_ANSWER_BYTES_MAX + 1;
	char *answer = malloc(bytes + 1);

	memset(answer, 'x', bytes);
	memcpy(answer, head, strlen(head));
	answer[bytes] = '\0';
	expect(f, answer, 200, true);
	assert_int_equal(f->bytes, EXPORT_ANSWER_BYTES_MAX);
	f->answer_bytes = bytes - 1;			/* as much as there is room for */
	expect(f, answer, 200, false);
	assert_int_equal(f->bytes, EXPORT_ANSWER_BYTES_MAX);
	free(answer);
}

static void nobody_answers(void **state)
{
	struct fixture *f = *state;

	f->silent = true;
	post(f, f->url, NS_PER_S / 5);
	assert_int_equal(f->status, 0);
	assert_true(f->sent && f->failed && !f->mistrusted);
	assert_string_not_equal(f->error, "");
	evconnlistener_free(f->listener);
	f->listener = NULL;
	post(f, f->url, LONG_NS);
	assert_int_equal(f->status, 0);
	assert_true(!f->sent && f->failed && !f->mistrusted);
	assert_string_not_equal(f->error, "");
}

/* TLS on one side alone: nothing was sent, and nothing but a mended URL helps. */
static void no_tls_there(void **state)
{
	struct fixture *f = *state;
	char url[80];

	f->blunt = true;
	f->answer = "HTTP/1.1 400 Bad Request\r\n\r\n";
	snprintf(url, sizeof(url), "https%s", f->url + 4);
	post(f, url, LONG_NS);
	assert_int_equal(f->status, 0);
	assert_true(f->mistrusted && f->failed && !f->sent);
}

/* The back end has a certificate of that name, valid until then, by the authority of that place. */
static void speak_tls(struct fixture *f, const struct place *place, const char *name, long until)
{
	X509 *certificate = certificate_sign(place->mine, name, place->authority, place->authority_cert, -60, until);

	SSL_CTX_free(f->tls);
	f->tls = SSL_CTX_new(TLS_server_method());
	assert_int_equal(SSL_CTX_use_certificate(f->tls, certificate), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey(f->tls, place->mine), 1);
	X509_free(certificate);
}

static void trusts_whom_it_is_told(void **state)
{
	static const struct {
		const char *name;
		long until;
		bool told, trusted;
	} row[] = {
		{"127.0.0.1", 3600, true, true}, {"127.0.0.1", 3600, false, false}, {"other", 3600, true, false},
		{"127.0.0.1", -30, true, false},
	};
	struct fixture *f = *state;
	struct place place;
	char url[80];

	place_open(&place, -60, 3600);
	snprintf(url, sizeof(url), "https%s", f->url + 4);
	f->answer = OK;
	for (unsigned i = 0; i < 4; i++) {
		export_http_destroy(f->http);
		f->http = export_http_create(f->base, row[i].told ? place.ca : NULL);
		speak_tls(f, &place, row[i].name, row[i].until);
		post(f, url, LONG_NS);
		assert_int_equal(f->status, row[i].trusted ? 200 : 0);
		assert_int_equal(f->mistrusted, !row[i].trusted);
		assert_int_equal(f->sent, row[i].trusted);
	}
	SSL_CTX_free(f->tls);
	place_close(&place);
}

/* Only http and https are spoken, whatever the URL says. */
static void other_protocols(void **state)
{
	struct fixture *f = *state;

	post(f, "file:///etc/passwd", LONG_NS);
	assert_int_equal(f->status, 0);
	assert_true(f->failed && !f->sent);
	assert_int_equal(f->bytes, 0);
}

/* The daemon's own settings say where it sends: what the environment says is for other programs. */
static void no_proxy_of_the_environment(void **state)
{
	struct fixture *f = *state;

	setenv("http_proxy", "http://127.0.0.1:9", 1);
	setenv("all_proxy", "http://127.0.0.1:9", 1);
	expect(f, OK, 200, false);
	assert_int_equal(f->connections, 1);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
}

/* Whom to trust cannot be read: time alone mends nothing, and nothing was sent. */
static void an_authority_that_cannot_be_read(void **state)
{
	struct fixture *f = *state;
	struct place place;
	char url[80];

	place_open(&place, -60, 3600);
	snprintf(url, sizeof(url), "https%s", f->url + 4);
	f->answer = OK;
	export_http_destroy(f->http);
	f->http = export_http_create(f->base, "/nonexistent/authority.pem");
	speak_tls(f, &place, "127.0.0.1", 3600);
	post(f, url, LONG_NS);
	assert_true(f->mistrusted && f->failed && !f->sent);
	SSL_CTX_free(f->tls);
	place_close(&place);
}

/* More than the sockets hold: of a body that went out in part, the back end has not all. */
static void hung_up_in_the_middle_of_a_body(void **state)
{
	const size_t bytes = 64 << 20;
	struct fixture *f = *state;
	struct export_post large = {.url = f->url, .body = calloc(1, bytes), .bytes = bytes, .timeout_ns = LONG_NS,
				    .done = on_answer, .context = f};

	assert_non_null(export_http_post(f->http, &large));
	event_base_dispatch(f->base);
	assert_int_equal(f->answers, 1);
	assert_int_equal(f->status, 0);
	assert_true(f->failed && !f->sent && !f->mistrusted);
	free((void *)large.body);
}

static void cancelled(void **state)
{
	struct fixture *f = *state;
	struct export_call *call;

	f->silent = true;
	call = start(f, f->url, LONG_NS);
	while (!f->connections)
		event_base_loop(f->base, EVLOOP_ONCE);
	export_http_cancel(call);
	event_base_loop(f->base, EVLOOP_NONBLOCK);
	assert_int_equal(f->answers, 0);
	f->silent = false;
	expect(f, OK, 200, false);
}

static void several_at_once(void **state)
{
	struct fixture *f = *state;

	f->answer = OK;
	assert_non_null(start(f, f->url, LONG_NS));
	assert_non_null(start(f, f->url, LONG_NS));
	for (unsigned i = 0; i < 1000 && f->answers < 2; i++)
		event_base_loop(f->base, EVLOOP_ONCE);
	assert_int_equal(f->answers, 2);
}

static void no_memory(void **state)
{
	struct fixture *f = *state;

	failures_left = 1;
	assert_null(export_http_create(f->base, NULL));
	failures_left = 1;
	assert_null(start(f, f->url, LONG_NS));
	failures_left = 0;
	expect(f, (f->answer = OK), 200, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make, unmake)
		TEST(goes_out_whole),
		TEST(large_body_goes_out_at_once),
		TEST(any_status_is_an_answer),
		TEST(asks_for_a_pause),
		TEST(cut_short),
		TEST(without_end),
		TEST(nobody_answers),
		TEST(no_tls_there),
		TEST(trusts_whom_it_is_told),
		TEST(an_authority_that_cannot_be_read),
		TEST(no_proxy_of_the_environment),
		TEST(hung_up_in_the_middle_of_a_body),
		TEST(other_protocols),
		TEST(cancelled),
		TEST(several_at_once),
		TEST(no_memory),
	};

	signal(SIGPIPE, SIG_IGN);	/* of a client that does not trust its TLS */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
