/* Connections of agents that have not said who they are: who waits, and who goes, when there is no room for another. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/relay/relay.h"
#include "tests/unit/daemon/tls_place.h"

#define SHAKES_MAX	100u
#define STORM		300u	/* more than may shake hands */
#define STORM_TURNS_MAX	20000u

struct fixture {
	struct event_base *base;
	struct gate *gate;
	struct relay *relay;
	struct place place;
	int quiet, flood[RELAY_PENDING_MAX];	/* the agents' ends */
};

static uint64_t skipped_ns;

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + skipped_ns;
}

static void on_forward(struct relay_sink *sink, struct relay_item *item)
{
	(void)sink, (void)item;
	fail();
}

static void on_destroy(struct relay_sink *sink)
{
	(void)sink;
}

static void open_fixture(struct fixture *fixture)
{
	static const struct relay_sink_ops ops = {.forward = on_forward, .destroy = on_destroy};
	static struct relay_sink sink = {.ops = &ops};
	struct relay_config config = {.sink = &sink, .agents_max = 8,
				      .hello_timeout_ns = 60000000000ull};
	struct config options = {.source = 0};
	struct error error;

	place_open(&fixture->place, -60, 90 * 86400);
	options.tls_cert = fixture->place.cert;
	options.tls_key = fixture->place.key;
	options.tls_client_ca = fixture->place.ca;
	if (gate_create(&options, &fixture->gate, &error) != 0)
		fail_msg("%s", error.what);
	config.gate = fixture->gate;
	fixture->base = config.base = event_base_new();
	assert_int_equal(relay_create(&config, &fixture->relay, &error), 0);
}

static void close_fixture(struct fixture *fixture)
{
	relay_destroy(fixture->relay);
	gate_destroy(fixture->gate);
	event_base_free(fixture->base);
	place_close(&fixture->place);
}

static void turn(struct fixture *fixture)
{
	event_base_loop(fixture->base, EVLOOP_NONBLOCK);
}

static int come(struct fixture *fixture, const char *peer)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	relay_accept(fixture->relay, fds[0], NULL, peer);
	return fds[1];
}

/* So many of one address. */
static void flood(struct fixture *fixture, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		char peer[32];

		snprintf(peer, sizeof(peer), "10.0.0.9:%u", 1000 + i);
		fixture->flood[i] = come(fixture, peer);
	}
	turn(fixture);
}

static bool is_connected(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK) == -1 && errno == EAGAIN;
}

static void a_flood_of_one_address_ends_its_own_alone(void **state)
{
	struct fixture fixture;
	int other;

	(void)state;
	open_fixture(&fixture);
	fixture.quiet = come(&fixture, "10.0.0.1:1000");
	flood(&fixture, RELAY_PENDING_MAX);
	assert_true(is_connected(fixture.quiet));
	assert_true(is_connected(fixture.flood[0]));	/* one of it waits */
	other = come(&fixture, "10.0.0.2:1000");
	assert_true(is_connected(fixture.quiet));
	assert_true(is_connected(other));
	assert_false(is_connected(fixture.flood[0]));
	assert_true(is_connected(fixture.flood[1]));
	close_fixture(&fixture);
	assert_false(is_connected(fixture.flood[RELAY_PENDING_MAX - 1]));
	for (unsigned i = 0; i < RELAY_PENDING_MAX; i++)
		close(fixture.flood[i]);
	close(fixture.quiet);
	close(other);
}

/* Behind one address, as behind NAT. Each agent leaves as soon as it has shaken hands. */
static void of_a_storm_from_one_address_nobody_is_sent_away(void **state)
{
	static SSL *ssl[STORM];
	unsigned left = STORM;
	struct fixture fixture;

	(void)state;
	open_fixture(&fixture);
	for (unsigned i = 0; i < STORM; i++) {
		int fd = come(&fixture, "10.0.0.9:1");

		ssl[i] = place_client(&fixture.place, "web-1", fixture.place.authority, fd);
	}
	for (unsigned turns = 0; left && turns < STORM_TURNS_MAX; turns++) {
		for (unsigned i = 0; i < STORM; i++) {
			int done = ssl[i] ? SSL_connect(ssl[i]) : 0;

			assert_true(!ssl[i] || done == 1 || SSL_get_error(ssl[i], done) == SSL_ERROR_WANT_READ);
			if (done != 1)
				continue;
			left--;
			close(SSL_get_fd(ssl[i]));
			SSL_free(ssl[i]);
			ssl[i] = NULL;
		}
		turn(&fixture);
	}
	assert_int_equal(left, 0);
	close_fixture(&fixture);
}

/* While others wait, who says nothing has RELAY_SILENT_NS. */
static void who_says_nothing_makes_room(void **state)
{
	struct fixture fixture;
	int fd, done = 0;
	SSL *ssl;

	(void)state;
	open_fixture(&fixture);
	flood(&fixture, RELAY_PENDING_MAX);
	fd = come(&fixture, "10.0.0.9:1");
	ssl = place_client(&fixture.place, "web-1", fixture.place.authority, fd);
	skipped_ns = RELAY_SILENT_NS;
	while (done != 1) {
		done = SSL_connect(ssl);
		assert_true(done == 1 || SSL_get_error(ssl, done) == SSL_ERROR_WANT_READ);
		event_base_loop(fixture.base, done == 1 ? EVLOOP_NONBLOCK : EVLOOP_ONCE);
	}
	skipped_ns = 0;
	assert_false(is_connected(fixture.flood[0]));
	SSL_free(ssl);
	close_fixture(&fixture);
	for (unsigned i = 0; i < RELAY_PENDING_MAX; i++)
		close(fixture.flood[i]);
	close(fd);
}

/* Of the same address: the others have shown nothing. */
static void one_whose_certificate_is_good_stays(void **state)
{
	struct fixture fixture;
	int done = 0, other;
	SSL *ssl;

	(void)state;
	open_fixture(&fixture);
	fixture.quiet = come(&fixture, "10.0.0.9:1");
	ssl = place_client(&fixture.place, "web-1", fixture.place.authority, fixture.quiet);
	for (unsigned i = 0; i < SHAKES_MAX && done != 1; i++) {
		done = SSL_connect(ssl);
		turn(&fixture);
	}
	assert_int_equal(done, 1);
	flood(&fixture, RELAY_PENDING_MAX);
	other = come(&fixture, "10.0.0.2:1000");
	assert_true(is_connected(fixture.quiet));
	assert_false(is_connected(fixture.flood[0]));
	assert_true(is_connected(fixture.flood[1]));
	SSL_free(ssl);
	close(other);
	close_fixture(&fixture);
	for (unsigned i = 0; i < RELAY_PENDING_MAX; i++)
		close(fixture.flood[i]);
	close(fixture.quiet);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_of_one_address_ends_its_own_alone),
		cmocka_unit_test(one_whose_certificate_is_good_stays),
		cmocka_unit_test(of_a_storm_from_one_address_nobody_is_sent_away),
		cmocka_unit_test(who_says_nothing_makes_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
