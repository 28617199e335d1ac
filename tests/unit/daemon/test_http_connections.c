/*
 * The HTTP server's connections: how long each may take for what, who makes room for whom, what is read while an
 * answer goes out, TLS before the first request, and memory that runs out. No time passes: the deadlines are set off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/net/transport.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/http_bench.h"
#include "tests/unit/daemon/tls_place.h"

#define TURNS_MAX 5000

#define A "GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
#define LAST "GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

/* ---- Deadlines ------------------------------------------------------------------------------------ */

/* The one that was set last, and how often one was. */
static struct event *deadline;
static uint64_t deadline_ns;
static unsigned deadlines;
static const struct turnstile *turnstile;	/* whose turns are no deadlines; or NULL */

int __real_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in)
{
	if (event_get_fd(event) == -1 && in) {
		if (turnstile && event_get_callback_arg(event) == turnstile)
			return __real_event_add(event, in);
		deadline = event;
		deadline_ns = (uint64_t)in->tv_sec * NS_PER_S + (uint64_t)in->tv_usec * 1000;
		deadlines++;
	}
	return __real_event_add(event, in);
}

static bool is_open(int fd)
{
	bool open;

	hear(fd, &open);
	return open;
}

/* Its time is over: it is closed, and that is counted or not. */
static void expires(struct bench *bench, int fd, uint64_t ns, bool counted)
{
	uint64_t refused = counter_read(COUNTER_http_refused);

	assert_int_equal(deadline_ns, ns);
	assert_true(event_pending(deadline, EV_TIMEOUT, NULL));
	assert_true(is_open(fd));
	event_active(deadline, EV_TIMEOUT, 0);
	bench_run(bench);
	assert_false(is_open(fd));
	assert_int_equal(counter_read(COUNTER_http_refused) - refused, counted);
	close(fd);
}

static void nothing_of_a_request_comes(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);

	bench_run(bench);
	expires(bench, fd, HTTP_HEAD_NS, true);
}

/* One byte at a time: that is no other time. */
static void a_request_comes_too_slowly(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);
	unsigned before = deadlines;

	for (const char *c = "GET /slow"; *c; c++)
		say(bench, fd, (char[]){*c, '\0'});
	assert_int_equal(deadlines, before);
	expires(bench, fd, HTTP_HEAD_NS, true);
	fd = bench_connect(bench);
	say(bench, fd, A "G");
	before = deadlines;
	say(bench, fd, "ET");
	assert_int_equal(deadlines, before);
	expires(bench, fd, HTTP_HEAD_NS, true);
}

/* It has been answered: to be closed then is no refusal. */
static void no_other_request_comes(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);

	say(bench, fd, A);
	expires(bench, fd, HTTP_IDLE_NS, false);
}

static void an_answer_is_not_read(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);
	unsigned before;
	char bytes[1000];

	bench->extra_bytes = 2 << 20;
	say(bench, fd, A);
	before = deadlines;
	/* A little of it gives it no more time. */
	assert_int_equal(read(fd, bytes, sizeof(bytes)), sizeof(bytes));
	bench_run(bench);
	assert_int_equal(deadlines, before);
	assert_int_equal(deadline_ns, HTTP_WRITE_NS);
	event_active(deadline, EV_TIMEOUT, 0);
	before = (unsigned)counter_read(COUNTER_http_refused);
	bench_run(bench);
	assert_int_equal(counter_read(COUNTER_http_refused) - before, 1);
	assert_false(is_open(fd));
	close(fd);
}

/* After the last answer what comes is thrown away, for a moment. */
static void it_lingers(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);
	uint64_t refused = counter_read(COUNTER_http_refused);
	unsigned before;

	say(bench, fd, LAST);
	assert_int_equal(bench->handled, 1);
	before = deadlines;
	for (unsigned i = 0; i < 100; i++)
		say(bench, fd, A A A A A A A A A A A A A A A A A A A A);
	assert_int_equal(bench->handled, 1);
	assert_int_equal(deadlines, before);
	assert_int_equal(deadline_ns, HTTP_LINGER_NS);
	event_active(deadline, EV_TIMEOUT, 0);
	bench_run(bench);
	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(counter_read(COUNTER_http_refused), refused);
	close(fd);
}

/* ---- Answers -------------------------------------------------------------------------------------- */

/* As long as one goes out nothing else is read; then it goes on with what has come meanwhile. */
static void one_answer_at_a_time(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);
	char bytes[4096];
	bool open;

	bench->extra_bytes = 2 << 20;
	say(bench, fd, A A A);
	assert_int_equal(bench->handled, 1);
	say(bench, fd, A);
	assert_int_equal(bench->handled, 1);
	bench->extra_bytes = 0;
	for (unsigned turn = 0; turn < 1000 && bench->handled < 4; turn++) {
		while (read(fd, bytes, sizeof(bytes)) > 0)
			;
		bench_run(bench);
	}
	assert_int_equal(bench->handled, 4);
	hear(fd, &open);
	expires(bench, fd, HTTP_IDLE_NS, false);
}

/* Who has said that it sends no more gets the whole answer. */
static void the_other_end_comes_before_the_answer_is_out(void **state)
{
	struct bench *bench = *state;
	int fd = bench_connect(bench);
	char bytes[4096];
	size_t heard = 0;
	ssize_t got = 1;

	bench->extra_bytes = 2 << 20;
	assert_int_equal(write(fd, A, sizeof(A) - 1), sizeof(A) - 1);
	bench_run(bench);
	shutdown(fd, SHUT_WR);
	for (unsigned turn = 0; turn < 10000 && got; turn++) {
		bench_run(bench);
		while ((got = read(fd, bytes, sizeof(bytes))) > 0)
			heard += (size_t)got;
	}
	assert_int_equal(got, 0);
	assert_true(heard > bench->extra_bytes);
	close(fd);
}

static void what_the_handler_says(void **state)
{
	static const char *const lines[] = {
		"400 Bad Request", "401 Unauthorized", "403 Forbidden", "404 Not Found", "421 Misdirected Request",
		"503 Service Unavailable", "500 Internal Server Error",
	};
	struct bench *bench = *state;
	uint64_t requests = counter_read(COUNTER_http_requests);
	int fd = bench_connect(bench);
	const char *text;
	bool open;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		char begin[64];

		bench->status = atoi(lines[i]);
		say(bench, fd, A);
		text = hear(fd, &open);
		snprintf(begin, sizeof(begin), "HTTP/1.1 %s\r\nContent-Type: text/plain\r\n", lines[i]);
		assert_int_equal(strncmp(text, begin, strlen(begin)), 0);
		assert_non_null(strstr(text, "\r\n\r\n</a>"));
		assert_true(open);
	}
	assert_int_equal(counter_read(COUNTER_http_requests) - requests, sizeof(lines) / sizeof(lines[0]));
	close(fd);
	bench_run(bench);
}

/* Whatever is wrong with a request, no other one is taken after it. */
static void what_is_no_request(void **state)
{
	static const struct {
		const char *request, *begin;
	} cases[] = {
		{"GET / HTTP/1.1\r\n\r\n" A, "HTTP/1.1 400 Bad Request\r\n"},
		{"GET / HTTP/2.0\r\n\r\n" A, "HTTP/1.1 505 HTTP Version Not Supported\r\n"},
		{"GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n" A, "HTTP/1.1 501 Not Implemented\r\n"},
		{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx" A, "HTTP/1.1 413 Content Too Large\r\n"},
		{"PUT / HTTP/1.1\r\nHost: a\r\n\r\n" A, "HTTP/1.1 405 Method Not Allowed\r\n"},
	};
	struct bench *bench = *state;
	bool open;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int fd = bench_connect(bench);
		const char *text;

		say(bench, fd, cases[i].request);
		text = hear(fd, &open);
		assert_int_equal(strncmp(text, cases[i].begin, strlen(cases[i].begin)), 0);
		assert_non_null(strstr(text, "Connection: close\r\n"));
		assert_int_equal(strstr(text, "Allow: GET, HEAD\r\n") != NULL, i == 4);
		assert_null(strstr(text + 10, "HTTP/1.1 "));
		assert_false(open);
		close(fd);
		bench_run(bench);
	}
	assert_int_equal(bench->handled, 0);
}

/* The bytes of a head that is just small enough, and of one that is not. */
static void a_head_of_so_many_bytes(void **state)
{
	struct bench *bench = *state;
	char head[HTTP_HEAD_BYTES_MAX + 8];
	bool open;

	for (unsigned more = 0; more < 2; more++) {
		int fd = bench_connect(bench), n = snprintf(head, sizeof(head), "GET /a HTTP/1.1\r\nHost: a\r\nX: ");

		memset(head + n, 'x', sizeof(head) - (size_t)n);
		strcpy(head + HTTP_HEAD_BYTES_MAX + more - 4, "\r\n\r\n");
		/* Not all of it at once. */
		assert_int_equal(write(fd, head, 5000), 5000);
		bench_run(bench);
		say(bench, fd, head + 5000);
		assert_non_null(strstr(hear(fd, &open), more ? "HTTP/1.1 431 Request Header Fields Too Large\r\n" : "</a>"));
		assert_int_equal(open, !more);
		close(fd);
		bench_run(bench);
	}
}

/* ---- Room ----------------------------------------------------------------------------------------- */

/* Of the known the one goes that has been idle for longest, and not the one that came first. */
static void who_was_idle_for_longest(void **state)
{
	struct bench *bench = *state;
	uint64_t refused = counter_read(COUNTER_http_refused);
	int fd[HTTP_CONNECTIONS_MAX + 1];

	for (unsigned i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		fd[i] = bench_connect(bench);
		say(bench, fd[i], A);
	}
	assert_int_equal(counter_read(COUNTER_http_refused), refused);
	say(bench, fd[0], A);
	fd[HTTP_CONNECTIONS_MAX] = bench_connect(bench);
	say(bench, fd[HTTP_CONNECTIONS_MAX], A);
	assert_int_equal(counter_read(COUNTER_http_refused), refused + 1);
	for (unsigned i = 0; i <= HTTP_CONNECTIONS_MAX; i++) {
		assert_int_equal(is_open(fd[i]), i != 1);
		close(fd[i]);
	}
	bench_run(bench);
}

/* One that lingers makes room, too; and one that has left has given back its place. */
static void who_is_done_makes_room(void **state)
{
	struct bench *bench = *state;
	uint64_t refused;
	int fd[HTTP_CONNECTIONS_MAX], one;

	for (unsigned i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		fd[i] = bench_connect(bench);
		say(bench, fd[i], i == 7 ? LAST : A "G");
	}
	refused = counter_read(COUNTER_http_refused);
	one = bench_connect(bench);
	say(bench, one, A);
	assert_int_equal(counter_read(COUNTER_http_refused), refused + 1);
	assert_int_equal(send(fd[7], "x", 1, MSG_NOSIGNAL), -1);
	for (unsigned i = 0; i < HTTP_CONNECTIONS_MAX; i++) {
		assert_int_equal(is_open(fd[i]), i != 7);
		close(fd[i]);
	}
	bench_run(bench);
	for (unsigned i = 0; i < HTTP_CONNECTIONS_MAX - 1; i++) {
		fd[i] = bench_connect(bench);
		say(bench, fd[i], A "G");
	}
	assert_int_equal(counter_read(COUNTER_http_refused), refused + 1);
	assert_true(is_open(one));
	for (unsigned i = 0; i < HTTP_CONNECTIONS_MAX - 1; i++)
		close(fd[i]);
	close(one);
	bench_run(bench);
}

/* ---- TLS ------------------------------------------------------------------------------------------ */

static struct place place;
static struct transport_tls_context *context;

static int tls_setup(void **state)
{
	place_open(&place, -60, 3600);
	context = place_context(&place, true);
	bench_open(state, context);
	turnstile = ((struct bench *)*state)->turnstile;
	return 0;
}

static int tls_teardown(void **state)
{
	bench_teardown(state);
	turnstile = NULL;
	transport_tls_context_destroy(context);
	place_close(&place);
	return 0;
}

static void a_request_over_tls(void **state)
{
	struct bench *bench = *state;
	uint64_t refused = counter_read(COUNTER_http_refused);
	unsigned before = deadlines;
	int fd = bench_connect(bench), shaken = 0;
	SSL *ssl = place_client(&place, NULL, NULL, fd);
	char text[1000] = "";

	/* Between two turns of the line there is a rest. */
	for (unsigned turn = 0; turn < TURNS_MAX && shaken != 1; turn++) {
		shaken = SSL_connect(ssl);
		usleep(1000);
		bench_run(bench);
	}
	ERR_clear_error();
	assert_int_equal(shaken, 1);
	/* The time for the first request has been running since it came. */
	assert_int_equal(deadlines, before + 1);
	assert_int_equal(deadline_ns, HTTP_HEAD_NS);
	assert_int_equal(SSL_write(ssl, A, sizeof(A) - 1), sizeof(A) - 1);
	for (unsigned turn = 0; turn < TURNS_MAX && !strstr(text, "</a>"); turn++) {
		size_t have = strlen(text);
		int got;

		usleep(1000);
		bench_run(bench);
		got = SSL_read(ssl, text + have, (int)(sizeof(text) - 1 - have));
		text[have + (got > 0 ? (size_t)got : 0)] = '\0';
	}
	ERR_clear_error();
	assert_non_null(strstr(text, "</a>"));
	/* An end without TLS's own is one, too. */
	close(fd);
	bench_run(bench);
	assert_int_equal(counter_read(COUNTER_http_refused), refused);
	SSL_free(ssl);
}

/* Its time is over before its turn has come: nobody takes a turn that is not there any more. */
static void closed_while_it_waits_for_its_turn(void **state)
{
	struct bench *bench = *state;
	struct event *of_first;
	int first = bench_connect(bench), second;

	of_first = deadline;
	second = bench_connect(bench);
	assert_int_equal(send(first, A, sizeof(A) - 1, 0), sizeof(A) - 1);
	assert_int_equal(send(second, A, sizeof(A) - 1, 0), sizeof(A) - 1);
	/* Both join the line; the first is closed. */
	event_base_loop(bench->base, EVLOOP_ONCE);
	event_active(of_first, EV_TIMEOUT, 0);
	bench_run(bench);
	assert_false(is_open(first));
	assert_false(is_open(second));		/* that was no TLS */
	close(first);
	close(second);
}

static void no_hands_are_shaken(void **state)
{
	struct bench *bench = *state;
	uint64_t refused = counter_read(COUNTER_http_refused);
	int fd = bench_connect(bench);

	bench_run(bench);
	expires(bench, fd, HTTP_HEAD_NS, true);
	fd = bench_connect(bench);
	say(bench, fd, A);
	assert_false(is_open(fd));
	assert_int_equal(counter_read(COUNTER_http_refused), refused + 2);
	assert_int_equal(bench->handled, 0);
	close(fd);
	/* What is left at the end is closed then. */
	bench_connect(bench);
}

/* ---- Memory --------------------------------------------------------------------------------------- */

/* So many of libevent's calls have memory, then one has none. */
static unsigned calls_left = UINT_MAX;

static bool has_memory(void)
{
	return calls_left == UINT_MAX || calls_left-- > 0 || (calls_left = UINT_MAX, false);
}

struct event *__real_event_new(struct event_base *base, int fd, short what, event_callback_fn call, void *arg);
struct event *__wrap_event_new(struct event_base *base, int fd, short what, event_callback_fn call, void *arg);
struct event *__wrap_event_new(struct event_base *base, int fd, short what, event_callback_fn call, void *arg)
{
	return has_memory() ? __real_event_new(base, fd, what, call, arg) : NULL;
}

struct bufferevent *__real_bufferevent_socket_new(struct event_base *base, int fd, int options);
struct bufferevent *__wrap_bufferevent_socket_new(struct event_base *base, int fd, int options);
struct bufferevent *__wrap_bufferevent_socket_new(struct event_base *base, int fd, int options)
{
	return has_memory() ? __real_bufferevent_socket_new(base, fd, options) : NULL;
}

struct evbuffer *__real_evbuffer_new(void);
struct evbuffer *__wrap_evbuffer_new(void);
struct evbuffer *__wrap_evbuffer_new(void)
{
	return has_memory() ? __real_evbuffer_new() : NULL;
}

unsigned char *__real_evbuffer_pullup(struct evbuffer *buffer, ev_ssize_t bytes);
unsigned char *__wrap_evbuffer_pullup(struct evbuffer *buffer, ev_ssize_t bytes);
unsigned char *__wrap_evbuffer_pullup(struct evbuffer *buffer, ev_ssize_t bytes)
{
	return has_memory() ? __real_evbuffer_pullup(buffer, bytes) : NULL;
}

/* Whichever call fails, the connection is closed at once; the next one is served. */
static void a_connection_without_memory(void **state)
{
	struct bench *bench = *state;
	unsigned closed = 0;

	for (unsigned n = 0; n < 20; n++) {
		int fds[2], other;
		bool open, served;

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
		assert_int_equal(write(fds[1], A, sizeof(A) - 1), sizeof(A) - 1);
		if (n == 0)
			memory_fails_after(0);
		else
			calls_left = n - 1;
		http_accept(bench->http, fds[0], "test");
		memory_suffices();
		bench_run(bench);
		calls_left = UINT_MAX;
		served = strstr(hear(fds[1], &open), "</a>");
		assert_int_equal(open, served);
		assert_int_equal(fcntl(fds[0], F_GETFD), served ? 0 : -1);
		closed += !served;
		close(fds[1]);
		bench_run(bench);
		other = bench_connect(bench);
		say(bench, other, A);
		assert_non_null(strstr(hear(other, &open), "</a>"));
		close(other);
		bench_run(bench);
	}
	assert_int_equal(closed, 5);	/* connection, deadline, bufferevent, head, answer */
}

static void a_server_without_memory(void **state)
{
	(void)state;
	memory_fails_after(0);
	assert_null(http_create(&(struct http_config){0}));
	memory_suffices();
	http_destroy(NULL);
}

static void no_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

int main(void)
{
#define WITH(setup, teardown, test) cmocka_unit_test_setup_teardown(test, setup, teardown)
#define PLAIN(test) WITH(bench_setup, bench_teardown, test)
	const struct CMUnitTest tests[] = {
		PLAIN(nothing_of_a_request_comes),
		PLAIN(a_request_comes_too_slowly),
		PLAIN(no_other_request_comes),
		PLAIN(an_answer_is_not_read),
		PLAIN(it_lingers),
		PLAIN(one_answer_at_a_time),
		PLAIN(the_other_end_comes_before_the_answer_is_out),
		PLAIN(what_the_handler_says),
		PLAIN(what_is_no_request),
		PLAIN(a_head_of_so_many_bytes),
		PLAIN(who_was_idle_for_longest),
		PLAIN(who_is_done_makes_room),
		WITH(tls_setup, tls_teardown, a_request_over_tls),
		WITH(tls_setup, tls_teardown, closed_while_it_waits_for_its_turn),
		WITH(tls_setup, tls_teardown, no_hands_are_shaken),
		PLAIN(a_connection_without_memory),
		cmocka_unit_test(a_server_without_memory),
	};
	static const struct log_sink sink = {no_log, clock_monotonic};

	log_set_sink(&sink);
	signal(SIGPIPE, SIG_IGN);	/* as the daemon has it */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
