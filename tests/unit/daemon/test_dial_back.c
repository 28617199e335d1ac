/*
 * An agent dials its relay once more, for a client of the relay: what it says there, to whom it says it, and how many
 * of these there are at once. What fails leaves nothing open.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "daemon/base/clock.h"
#include "daemon/base/frame_ref.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/serve/dial_back.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/peer.h"
#include "tests/unit/daemon/tls_place.h"

#define PLACES_MAX	64u	/* of allocations */

static const uint8_t token[DIAL_BACK_TOKEN_BYTES] = {1, 2, 3, 250};
static struct place place;

/* ---- What is beside it: the server, the log, libevent's memory and time ----------------------- */

static struct {
	struct transport *transport;	/* of the last one; NULL: none */
	unsigned served;
	char peer[64], client[64];
} server;

static unsigned failures;

void __wrap_server_serve_through(struct server *of, struct transport *transport, const char *peer, const char *client);
void __wrap_server_serve_through(struct server *of, struct transport *transport, const char *peer, const char *client)
{
	(void)of;
	transport_destroy(server.transport);
	server.transport = transport;
	server.served++;
	snprintf(server.peer, sizeof(server.peer), "%s", peer);
	snprintf(server.client, sizeof(server.client), "%s", client);
}

static void on_log(enum log_level level, const char *code, const char *text)
{
	(void)level;
	failures += strcmp(code, "dial-failed") == 0;
	assert_true(strcmp(code, "dial-failed") || strstr(text, "cert:alice"));
}

struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn callback,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn callback,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn callback,
			       void *context)
{
	return may_allocate() ? __real_event_new(base, fd, what, callback, context) : NULL;
}

static uint64_t waited_ns;	/* the longest that was asked for: 1 ms of it is enough here */
static bool hurries;

int __real_event_add(struct event *event, const struct timeval *time);
int __wrap_event_add(struct event *event, const struct timeval *time);
int __wrap_event_add(struct event *event, const struct timeval *time)
{
	const struct timeval soon = {.tv_usec = 1000};

	if (time)
		waited_ns = (uint64_t)time->tv_sec * NS_PER_S + (uint64_t)time->tv_usec * 1000;
	return __real_event_add(event, time && hurries ? &soon : time);
}

/* ---- A relay --------------------------------------------------------------------------------------- */

struct fixture {
	struct event_base *base;
	struct frame_codec *codec;
	struct config config;
	struct dial_backs *backs;
	struct sockaddr_in address;
	int listener;
	const char *host;	/* which the relay's certificate has to name */
};

/* A socket at a port that is free, where the relay is from now on. */
static int bind_one(struct fixture *f)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t bytes = sizeof(f->address);

	f->address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	assert_int_equal(bind(fd, (struct sockaddr *)&f->address, sizeof(f->address)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&f->address, &bytes), 0);
	return fd;
}

static void open_fixture(struct fixture *f)
{
	static const struct log_sink sink = {on_log, clock_monotonic};

	log_set_sink(&sink);
	memset(f, 0, sizeof(*f));
	memset(&server, 0, sizeof(server));
	failures = 0;
	hurries = false;
	f->base = event_base_new();
	f->codec = frame_codec_create(1);
	f->config.relay_ca = place.ca;
	f->config.tls_cert = place.cert;
	f->config.tls_key = place.key;
	f->host = "server";
	f->backs = dial_backs_create(&(struct dial_backs_config){.base = f->base, .codec = f->codec,
								 .config = &f->config});
	assert_non_null(f->backs);
	f->listener = bind_one(f);
	assert_int_equal(listen(f->listener, 16), 0);
}

static void close_fixture(struct fixture *f)
{
	dial_backs_destroy(f->backs);
	transport_destroy(server.transport);
	server.transport = NULL;
	if (f->listener >= 0)
		close(f->listener);
	frame_codec_destroy(f->codec);
	event_base_free(f->base);
}

static int begin(struct fixture *f, struct error *error)
{
	const struct dial_back_request request = {
		.to = (struct sockaddr *)&f->address, .to_bytes = sizeof(f->address), .host = f->host,
		.text = "tls:relay:7119", .token = token, .client = "cert:alice",
	};

	memset(error, 0, sizeof(*error));
	return dial_backs_begin(f->backs, &request, error);
}

static int accept_one(struct fixture *f)
{
	int fd = -1;

	PEER_AWAIT(f->base, fd >= 0 || (fd = accept4(f->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0);
	return fd;
}

static bool is_closed(int fd)
{
	uint8_t bytes[4096];
	ssize_t got;

	while ((got = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
		;
	return got == 0 || errno != EAGAIN;
}

static SSL *relay_side(int fd)
{
	SSL_CTX *context = SSL_CTX_new(TLS_server_method());
	SSL *ssl;

	assert_int_equal(SSL_CTX_use_certificate_file(context, place.cert, SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_use_PrivateKey_file(context, place.key, SSL_FILETYPE_PEM), 1);
	assert_int_equal(SSL_CTX_load_verify_file(context, place.ca), 1);
	SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_num_tickets(context, 0);
	ssl = SSL_new(context);
	SSL_CTX_free(context);
	SSL_set_fd(ssl, fd);
	SSL_set_accept_state(ssl);
	return ssl;
}

/* What the agent says first, as it was sent. */
static size_t hear_hello(struct fixture *f, SSL *ssl, uint8_t *bytes, size_t max)
{
	int got = 0;

	PEER_AWAIT(f->base, got > 0 || (got = SSL_read(ssl, bytes, (int)max)) > 0);
	return (size_t)got;
}

/* ---- Tests ------------------------------------------------------------------------------------------- */

static void it_says_hello_with_the_token_and_then_the_client_speaks(void **state)
{
	uint8_t bytes[4096], raw[4096], *said = bytes;
	struct frame_header header;
	Ringtail__V1__AgentHello *hello;
	const uint8_t *body;
	struct fixture f;
	struct error error;
	size_t n;
	SSL *ssl;
	int fd;

	(void)state;
	open_fixture(&f);
	assert_int_equal(begin(&f, &error), 0);
	assert_int_equal(waited_ns, BRIDGE_DIAL_NS);
	fd = accept_one(&f);
	ssl = relay_side(fd);
	n = hear_hello(&f, ssl, bytes, sizeof(bytes));
	assert_int_equal(frame_parse_header(said, n, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(header.type, FRAME_AGENT_HELLO);
	assert_int_equal(n, FRAME_HEADER_BYTES + header.body_bytes);	/* and nothing behind it */
	assert_int_equal(frame_open(f.codec, said, &header, raw, &body), FRAME_OK);
	hello = ringtail__v1__agent_hello__unpack(NULL, header.raw_bytes, body);
	assert_non_null(hello);
	assert_int_equal(hello->token.len, sizeof(token));
	assert_memory_equal(hello->token.data, token, sizeof(token));
	ringtail__v1__agent_hello__free_unpacked(hello, NULL);
	PEER_AWAIT(f.base, server.served);
	assert_string_equal(server.client, "cert:alice");
	assert_string_equal(server.peer, "tls:relay:7119");
	assert_int_equal(SSL_write(ssl, "question", 8), 8);
	n = 0;
	for (uint64_t until = clock_monotonic() + PEER_WAIT_NS; n < 8 && clock_monotonic() < until;) {
		ssize_t got = transport_read(server.transport, raw + n, sizeof(raw) - n);

		assert_true(got > 0 || got == -EAGAIN);
		n += got > 0 ? (size_t)got : 0;
	}
	assert_int_equal(n, 8);
	assert_memory_equal(raw, "question", 8);
	assert_int_equal(failures, 0);
	SSL_free(ssl);
	close(fd);
	close_fixture(&f);
}

/* The token is for the relay alone: whoever has the address by now does not get it. */
static void a_relay_of_another_name_gets_no_token(void **state)
{
	struct fixture f;
	struct error error;
	uint8_t byte;
	SSL *ssl;
	int fd;

	(void)state;
	open_fixture(&f);
	f.host = "relay.test";
	assert_int_equal(begin(&f, &error), 0);
	fd = accept_one(&f);
	ssl = relay_side(fd);
	PEER_AWAIT(f.base, SSL_read(ssl, &byte, 1) <= 0 && failures);
	assert_int_equal(failures, 1);
	assert_int_equal(server.served, 0);
	ERR_clear_error();
	SSL_free(ssl);
	close(fd);
	close_fixture(&f);
}

static void one_that_nobody_answers_fails(void **state)
{
	struct fixture f;
	struct error error;

	(void)state;
	open_fixture(&f);
	close(f.listener);
	f.listener = bind_one(&f);			/* nobody listens */
	for (unsigned i = 0; i < 2 * BRIDGES_HOST_MAX; i++) {
		int err = begin(&f, &error);

		assert_true(!err || strcmp(error.code, "dial-failed") == 0);
		PEER_AWAIT(f.base, err || failures == i + 1);
		failures += err != 0;
	}
	assert_int_equal(server.served, 0);
	close_fixture(&f);
}

static void one_that_takes_too_long_is_given_up(void **state)
{
	struct fixture f;
	struct error error;
	int fd;

	(void)state;
	open_fixture(&f);
	hurries = true;
	assert_int_equal(begin(&f, &error), 0);
	fd = accept_one(&f);
	PEER_AWAIT(f.base, failures && is_closed(fd));
	assert_int_equal(failures, 1);
	assert_int_equal(waited_ns, BRIDGE_DIAL_NS);
	close(fd);
	close_fixture(&f);
}

static void there_are_so_many_at_once(void **state)
{
	int fd[BRIDGES_HOST_MAX];
	struct fixture f;
	struct error error;

	(void)state;
	open_fixture(&f);
	for (unsigned i = 0; i < BRIDGES_HOST_MAX; i++) {
		assert_int_equal(begin(&f, &error), 0);
		fd[i] = accept_one(&f);
	}
	assert_int_equal(begin(&f, &error), -EBUSY);
	assert_string_equal(error.code, "too-many-dials");
	close(fd[0]);
	PEER_AWAIT(f.base, failures);
	assert_int_equal(begin(&f, &error), 0);
	fd[0] = accept_one(&f);
	/* Those that are under way go with the daemon. */
	dial_backs_destroy(f.backs);
	f.backs = NULL;
	for (unsigned i = 0; i < BRIDGES_HOST_MAX; i++) {
		PEER_AWAIT(f.base, is_closed(fd[i]));
		close(fd[i]);
	}
	close_fixture(&f);
}

static void files_that_are_not_there_are_said(void **state)
{
	struct fixture f;
	struct error error;
	int fd;

	(void)state;
	open_fixture(&f);
	f.config.relay_ca = "/nowhere/ca";
	assert_int_equal(begin(&f, &error), 0);
	fd = accept_one(&f);
	PEER_AWAIT(f.base, failures && is_closed(fd));
	assert_int_equal(server.served, 0);
	close(fd);
	close_fixture(&f);
}

/* Where memory ends at the beginning, the relay is told; later, it is in the log. */
static void memory_that_ends_leaves_nothing_open(void **state)
{
	bool begun = false, dialled = false;
	unsigned places = 0;

	(void)state;
	for (; !begun && places < PLACES_MAX; places++) {
		struct fixture f;
		struct error error;
		int err;

		open_fixture(&f);
		memory_fails_after(places);
		err = begin(&f, &error);
		memory_suffices();
		begun = err == 0;
		assert_true(begun || strcmp(error.code, "out-of-memory") == 0);
		assert_true(begun || accept(f.listener, NULL, NULL) < 0);
		close_fixture(&f);
	}
	assert_in_range(places, 4, PLACES_MAX - 1);
	for (places = 0; !dialled && places < PLACES_MAX; places++) {
		struct fixture f;
		struct error error;
		int fd;

		open_fixture(&f);
		assert_int_equal(begin(&f, &error), 0);
		/* Without a turn of the loop, in which memory would suffice. */
		assert_int_equal(poll(&(struct pollfd){.fd = f.listener, .events = POLLIN}, 1,
				      (int)(PEER_WAIT_NS / 1000000)), 1);
		fd = accept4(f.listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		assert_true(fd >= 0);
		memory_fails_after(places);
		event_base_loop(f.base, EVLOOP_ONCE);		/* it is connected, and TLS begins */
		memory_suffices();
		dialled = !failures;
		if (!dialled)
			PEER_AWAIT(f.base, is_closed(fd));
		assert_int_equal(server.served, 0);
		close(fd);
		close_fixture(&f);
	}
	assert_in_range(places, 3, PLACES_MAX - 1);
	memory_fails_after(0);
	assert_null(dial_backs_create(&(struct dial_backs_config){0}));
	memory_suffices();
	dial_backs_destroy(NULL);
}

static int open_place(void **state)
{
	(void)state;
	place_open(&place, -60, 90 * 86400);
	return 0;
}

static int close_place(void **state)
{
	(void)state;
	place_close(&place);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_says_hello_with_the_token_and_then_the_client_speaks),
		cmocka_unit_test(a_relay_of_another_name_gets_no_token),
		cmocka_unit_test(one_that_nobody_answers_fails),
		cmocka_unit_test(one_that_takes_too_long_is_given_up),
		cmocka_unit_test(there_are_so_many_at_once),
		cmocka_unit_test(files_that_are_not_there_are_said),
		cmocka_unit_test(memory_that_ends_leaves_nothing_open),
	};

	return cmocka_run_group_tests(tests, open_place, close_place);
}
