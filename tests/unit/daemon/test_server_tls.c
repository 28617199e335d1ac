/*
 * More connections than pending-max: the oldest are turned away, and told so by whatever there is to
 * tell it with: a frame, a frame once TLS is there, an alert.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "tests/unit/daemon/small_engine.h"
#include "tests/unit/daemon/tls_place.h"

#define PENDING_MAX 2
#define CROWD (TURNED_AWAY_MAX + PENDING_MAX + 1)
#define LONG_NS (60 * NS_PER_S)

static struct place place;
static struct transport_tls_context *context;

struct guest {
	int fd;
	SSL *ssl;
};

static void bound(struct engine *e, uint64_t tls_timeout_ns)
{
	struct server_bounds bounds = engine_bounds(8);

	bounds.pending_max = PENDING_MAX;
	bounds.session.tls_timeout_ns = tls_timeout_ns;
	server_set_bounds(e->server, &bounds);
}

static void open_engine(struct engine *e)
{
	engine_open(e, 1, 1, 8);
	bound(e, LONG_NS);
}

static struct guest come(struct engine *e)
{
	struct guest guest;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	guest.fd = fds[1];
	guest.ssl = place_client(&place, NULL, NULL, guest.fd);
	server_serve(e->server, SERVER_TLS, transport_tls_create(context, fds[0]), "guest");
	return guest;
}

/* Its ClientHello is there, and answered. */
static struct guest come_and_begin(struct engine *e)
{
	struct guest guest = come(e);

	assert_int_equal(SSL_connect(guest.ssl), -1);
	peer_run(e->base);
	return guest;
}

static int shake(struct engine *e, struct guest *guest)
{
	int done = -1;

	for (unsigned i = 0; i < 10 && done != 1; i++) {
		done = SSL_connect(guest->ssl);
		peer_run(e->base);
	}
	return done;
}

static void leave(struct guest *guest)
{
	SSL_free(guest->ssl);
	ERR_clear_error();
	close(guest->fd);
}

/* One frame, an Error, and then the end. */
static void expect_told(struct engine *e, struct guest *guest)
{
	struct frame_codec *codec = frame_codec_create(1);
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	Ringtail__V1__Error *error;
	struct frame_header header;
	uint8_t bytes[4096];
	const uint8_t *body;
	int got = SSL_read(guest->ssl, bytes, sizeof(bytes));

	assert_true(got > 0);
	assert_int_equal(frame_parse_header(bytes, (size_t)got, FRAME_RAW_BYTES_MAX, &header),
			 FRAME_OK);
	assert_int_equal(header.type, FRAME_ERROR);
	assert_int_equal(FRAME_HEADER_BYTES + header.body_bytes, got);
	assert_int_equal(frame_open(codec, bytes, &header, raw, &body), FRAME_OK);
	error = ringtail__v1__error__unpack(NULL, header.raw_bytes, body);
	assert_string_equal(error->code, "too-many-pending");
	assert_non_null(strstr(error->what, "2 connections"));
	assert_non_null(strstr(error->hint, "pending-max"));
	assert_true(error->fatal);
	ringtail__v1__error__free_unpacked(error, NULL);
	frame_codec_destroy(codec);
	peer_run(e->base);
	assert_int_equal(SSL_read(guest->ssl, bytes, sizeof(bytes)), 0);
}

static void expect_closed(struct guest *guest)
{
	char bytes[4096];
	ssize_t got;

	while ((got = recv(guest->fd, bytes, sizeof(bytes), 0)) > 0)
		;
	assert_int_equal(got, 0);
}

static unsigned connected(struct engine *e)
{
	struct daemon_stat *stat = server_stat(e->server);
	unsigned n = stat->clients;

	daemon_stat_free(stat);
	return n;
}

static void test_said_nothing(void **state)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 80};	/* fatal, internal_error */
	struct guest guest[PENDING_MAX + 1];
	struct engine e;
	uint8_t bytes[16];

	(void)state;
	open_engine(&e);
	for (unsigned i = 0; i <= PENDING_MAX; i++)
		guest[i] = come(&e);
	assert_int_equal(recv(guest[0].fd, bytes, sizeof(bytes), 0), sizeof(alert));
	assert_memory_equal(bytes, alert, sizeof(alert));
	expect_closed(&guest[0]);
	assert_int_equal(connected(&e), PENDING_MAX);
	for (unsigned i = 0; i <= PENDING_MAX; i++)
		leave(&guest[i]);
	peer_run(e.base);
	engine_close(&e);
}

static void test_in_the_middle(void **state)
{
	struct guest guest[PENDING_MAX + 1];
	struct engine e;

	(void)state;
	open_engine(&e);
	for (unsigned i = 0; i <= PENDING_MAX; i++)
		guest[i] = come_and_begin(&e);
	assert_int_equal(connected(&e), PENDING_MAX + 1);
	assert_int_equal(shake(&e, &guest[0]), 1);
	expect_told(&e, &guest[0]);
	leave(&guest[0]);
	peer_run(e.base);
	assert_int_equal(connected(&e), PENDING_MAX);
	for (unsigned i = 1; i <= PENDING_MAX; i++)
		leave(&guest[i]);
	peer_run(e.base);
	engine_close(&e);
}

/* TLS is there, and no hello yet. */
static void test_shaken(void **state)
{
	struct guest guest[PENDING_MAX + 1];
	struct engine e;

	(void)state;
	open_engine(&e);
	for (unsigned i = 0; i <= PENDING_MAX; i++) {
		guest[i] = come(&e);
		assert_int_equal(shake(&e, &guest[i]), 1);
	}
	assert_int_equal(connected(&e), PENDING_MAX);
	expect_told(&e, &guest[0]);
	for (unsigned i = 0; i <= PENDING_MAX; i++)
		leave(&guest[i]);
	peer_run(e.base);
	engine_close(&e);
}

static void test_plain(void **state)
{
	struct peer *peer[PENDING_MAX + 1];
	struct engine e;

	(void)state;
	open_engine(&e);
	for (unsigned i = 0; i <= PENDING_MAX; i++)
		peer[i] = engine_connect(&e);
	peer_expect_error(peer[0], "too-many-pending", true);
	peer_expect_end(peer[0]);
	peer_greet(peer[1]);
	for (unsigned i = 0; i <= PENDING_MAX; i++)
		peer_close(peer[i]);
	peer_run(e.base);
	engine_close(&e);
}

/* More than may wait in the middle: the oldest of them is closed. */
static void test_too_many_in_the_middle(void **state)
{
	struct guest guest[CROWD];
	struct engine e;

	(void)state;
	open_engine(&e);
	for (unsigned i = 0; i < CROWD; i++)
		guest[i] = come_and_begin(&e);
	expect_closed(&guest[0]);
	assert_int_equal(connected(&e), CROWD - 1);
	assert_int_equal(shake(&e, &guest[1]), 1);
	expect_told(&e, &guest[1]);
	for (unsigned i = 0; i < CROWD; i++)
		leave(&guest[i]);
	peer_run(e.base);
	engine_close(&e);
}

/*
 * A client that never ends its handshake has a deadline, turned away or not. All are there before the first
 * deadline: where the machine is too slow for that, they come again, and have twice the time.
 */
static void test_never_ends(void **state)
{
	struct guest guest[PENDING_MAX + 1];
	uint64_t failed;
	struct engine e;

	(void)state;
	open_engine(&e);
	for (uint64_t timeout_ns = 50000000;; timeout_ns *= 2) {
		assert_true(timeout_ns < LONG_NS);
		bound(&e, timeout_ns);
		failed = counter_read(COUNTER_tls_failed);
		for (unsigned i = 0; i <= PENDING_MAX; i++)
			guest[i] = come_and_begin(&e);
		if (connected(&e) == PENDING_MAX + 1)
			break;
		for (unsigned i = 0; i <= PENDING_MAX; i++)
			leave(&guest[i]);
		PEER_AWAIT(e.base, connected(&e) == 0);
	}
	PEER_AWAIT(e.base, connected(&e) == 0);
	assert_int_equal(counter_read(COUNTER_tls_failed) - failed, PENDING_MAX + 1);
	for (unsigned i = 0; i <= PENDING_MAX; i++) {
		expect_closed(&guest[i]);
		leave(&guest[i]);
	}
	engine_close(&e);
}

static int set_up(void **state)
{
	(void)state;
	place_open(&place, -60, 3600);
	context = place_context(&place, true);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	transport_tls_context_destroy(context);
	place_close(&place);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_said_nothing),
		cmocka_unit_test(test_in_the_middle),
		cmocka_unit_test(test_shaken),
		cmocka_unit_test(test_plain),
		cmocka_unit_test(test_too_many_in_the_middle),
		cmocka_unit_test(test_never_ends),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
