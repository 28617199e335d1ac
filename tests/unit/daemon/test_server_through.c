/*
 * Clients of the relay that a daemon has dialled: whom the relay may have it dial for, how often, and what such a
 * client may do here. The relay's word is all there is of one, so none of this goes by what the relay says of it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "tests/unit/daemon/durable_engine.h"

#define CALLS "syscall:getppid:call"

static const uint8_t token[16] = {9, 8, 7};
static struct {
	unsigned dials;
	char client[IDENTITY_TEXT_BYTES];
	bool fails;
} dialled;

static uint64_t skipped_ns;

uint64_t __real_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return __real_clock_monotonic() + skipped_ns;
}

static int on_dial(void *context, const uint8_t shown[16], const char *client, struct error *error)
{
	(void)context;
	assert_memory_equal(shown, token, sizeof(token));
	dialled.dials++;
	snprintf(dialled.client, sizeof(dialled.client), "%s", client);
	return dialled.fails ? error_set(error, ENOTCONN, "dial-failed", "not connected to a relay") : 0;
}

static void open_engine(struct engine *e, bool allows)
{
	struct server_bounds bounds = engine_bounds(8);

	engine_dial = on_dial;
	engine_open(e, 2, 1, 8);
	bounds.relay_clients = allows;
	server_set_bounds(e->server, &bounds);
	memset(&dialled, 0, sizeof(dialled));
}

static struct peer *connect_relay(struct engine *e)
{
	struct peer *peer;
	int fd;

	peer = peer_pair(e->base, &fd);
	server_serve(e->server, SERVER_RELAY, transport_plain_create(fd), "tls:relay:7119");
	peer_greet(peer);
	return peer;
}

static struct peer *connect_through(struct engine *e, const char *client)
{
	struct peer *peer;
	int fd;

	peer = peer_pair(e->base, &fd);
	server_serve_through(e->server, transport_plain_create(fd), "tls:relay:7119", client);
	return peer;
}

static void ask_to_dial(struct peer *relay, size_t token_bytes, const char *client)
{
	Ringtail__V1__Dial dial = RINGTAIL__V1__DIAL__INIT;
	uint8_t bytes[64] = {0};

	memcpy(bytes, token, sizeof(token));
	dial.token = (ProtobufCBinaryData){token_bytes, bytes};
	dial.client = (char *)client;
	peer_send(relay, FRAME_DIAL, &dial);
}

static void expect_refused(struct peer *relay, size_t token_bytes, const char *code)
{
	Ringtail__V1__DialRefused *refused = peer_expect(relay, FRAME_DIAL_REFUSED);

	assert_int_equal(refused->token.len, token_bytes);
	assert_non_null(refused->error);
	assert_string_equal(refused->error->code, code);
	assert_true(*refused->error->what);
	peer_free(refused);
}

static void it_dials_for_whom_the_relay_names(void **state)
{
	struct peer *relay;
	struct engine e;

	(void)state;
	open_engine(&e, true);
	relay = connect_relay(&e);
	ask_to_dial(relay, sizeof(token), "cert:alice");
	PEER_AWAIT(e.base, dialled.dials == 1);
	assert_string_equal(dialled.client, "cert:alice");
	assert_non_null(strstr(text_of("audit.log"), "\"relay:cert:alice\""));	/* before it was done */
	dialled.fails = true;
	ask_to_dial(relay, sizeof(token), "cert:alice");
	expect_refused(relay, sizeof(token), "dial-failed");
	peer_close(relay);
	engine_close(&e);
}

static void it_does_not_unless_it_is_allowed(void **state)
{
	struct server_bounds bounds = engine_bounds(8);
	struct peer *relay, *through;
	struct engine e;

	(void)state;
	open_engine(&e, false);
	relay = connect_relay(&e);
	ask_to_dial(relay, sizeof(token), "cert:alice");
	expect_refused(relay, sizeof(token), "relay-clients");
	assert_int_equal(dialled.dials, 0);
	assert_null(strstr(text_of("audit.log"), "cert:alice"));
	/* Nor one that was dialled for before a reload; and one that is served already is ended by it. */
	through = connect_through(&e, "cert:alice");
	peer_send_hello(through);
	peer_expect_error(through, "relay-clients", true);
	peer_close(through);
	bounds.relay_clients = true;
	server_set_bounds(e.server, &bounds);
	peer_greet(through = connect_through(&e, "cert:alice"));
	peer_send_list(through, "syscall:*:call");
	peer_free(peer_expect(through, FRAME_CATALOG));
	bounds.relay_clients = false;
	server_set_bounds(e.server, &bounds);
	peer_expect_error(through, "relay-clients", true);
	peer_close(through);
	peer_close(relay);
	engine_close(&e);
}

/* A relay that is somebody else's by now. */
static void a_relay_that_asks_without_end_is_bounded(void **state)
{
	struct peer *relay;
	struct engine e;

	(void)state;
	open_engine(&e, true);
	relay = connect_relay(&e);
	for (unsigned i = 0; i < BRIDGE_DIALS_MAX; i++)
		ask_to_dial(relay, sizeof(token), "cert:alice");
	PEER_AWAIT(e.base, dialled.dials == BRIDGE_DIALS_MAX);
	for (unsigned i = 0; i < 3 * BRIDGE_DIALS_MAX; i++) {
		ask_to_dial(relay, sizeof(token), "cert:alice");
		expect_refused(relay, sizeof(token), "too-many-dials");
	}
	assert_int_equal(dialled.dials, BRIDGE_DIALS_MAX);
	skipped_ns = BRIDGE_DIALS_NS + 1;
	ask_to_dial(relay, sizeof(token), "cert:alice");
	PEER_AWAIT(e.base, dialled.dials == BRIDGE_DIALS_MAX + 1);
	skipped_ns = 0;
	peer_close(relay);
	engine_close(&e);
}

/* It is not read while an answer of it waits: what it sends stays with it. */
static void a_relay_that_asks_and_does_not_read_waits(void **state)
{
	unsigned turns_refused = 0, sent = 0;
	Ringtail__V1__Dial dial = RINGTAIL__V1__DIAL__INIT;
	uint8_t frame[256];
	struct peer *relay;
	struct engine e;
	size_t n;

	(void)state;
	open_engine(&e, false);
	relay = connect_relay(&e);
	dial.client = (char *)"cert:alice";
	n = peer_seal(relay, FRAME_DIAL, &dial, frame);
	while (turns_refused < 3 && sent < 1000000) {
		ssize_t done = send(relay->fd, frame, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		assert_true(done == (ssize_t)n || done < 0);
		turns_refused = done < 0 ? turns_refused + 1 : 0;
		sent += done > 0;
		peer_run(e.base);
	}
	assert_int_equal(turns_refused, 3);
	for (unsigned i = 0; i < sent; i++)
		expect_refused(relay, 0, "dial-token");
	peer_close(relay);
	engine_close(&e);
}

static void tokens_and_names_are_what_they_can_be(void **state)
{
	char name[2 * IDENTITY_TEXT_BYTES];
	struct peer *relay;
	struct engine e;

	(void)state;
	open_engine(&e, true);
	relay = connect_relay(&e);
	ask_to_dial(relay, 0, "cert:alice");
	expect_refused(relay, 0, "dial-token");
	ask_to_dial(relay, sizeof(token) - 1, "cert:alice");
	expect_refused(relay, sizeof(token) - 1, "dial-token");
	ask_to_dial(relay, 64, "cert:alice");
	expect_refused(relay, 64, "dial-token");
	assert_int_equal(dialled.dials, 0);
	/* A name that is too long is cut, at a whole character. */
	memset(name, 'a', sizeof(name));
	memcpy(name + IDENTITY_TEXT_BYTES - 2, "\xc3\xa9\xc3\xa9", 4);
	name[sizeof(name) - 1] = '\0';
	ask_to_dial(relay, sizeof(token), name);
	PEER_AWAIT(e.base, dialled.dials == 1);
	assert_true(strlen(dialled.client) < IDENTITY_TEXT_BYTES);
	ask_to_dial(relay, sizeof(token), "cert:\nroot");
	peer_expect_error(relay, "text-invalid", true);
	assert_int_equal(dialled.dials, 1);
	peer_close(relay);
	engine_close(&e);
}

static void so_many_are_served_at_once(void **state)
{
	struct peer *through[BRIDGES_HOST_MAX + 1], *relay;
	struct engine e;

	(void)state;
	open_engine(&e, true);
	relay = connect_relay(&e);
	for (unsigned i = 0; i < BRIDGES_HOST_MAX; i++)
		peer_greet(through[i] = connect_through(&e, "cert:alice"));
	ask_to_dial(relay, sizeof(token), "cert:bob");
	expect_refused(relay, sizeof(token), "too-many-dials");
	/* Those that were dialled for at the same time are counted again. */
	through[BRIDGES_HOST_MAX] = connect_through(&e, "cert:bob");
	peer_send_hello(through[BRIDGES_HOST_MAX]);
	peer_expect_error(through[BRIDGES_HOST_MAX], "too-many-dials", true);
	peer_close(through[BRIDGES_HOST_MAX]);
	peer_close(through[0]);
	peer_run(e.base);
	ask_to_dial(relay, sizeof(token), "cert:bob");
	PEER_AWAIT(e.base, dialled.dials == 1);
	for (unsigned i = 1; i < BRIDGES_HOST_MAX; i++)
		peer_close(through[i]);
	peer_close(relay);
	engine_close(&e);
}

static void change(struct peer *peer)
{
	Ringtail__V1__Change message = RINGTAIL__V1__CHANGE__INIT;
	char *probe = (char *)CALLS;

	message.enable = &probe;
	message.n_enable = 1;
	peer_send(peer, FRAME_CHANGE, &message);
}

/* Whoever it says it is. */
static void it_is_a_viewer_and_no_more(void **state)
{
	static const char *const name[] = {"user:root", "local", "relay", "cert:alice", ""};
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	char *probe = (char *)CALLS;

	(void)state;
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		Ringtail__V1__ServerHello *hello;
		struct peer *through;
		struct engine e;

		open_engine(&e, true);
		through = connect_through(&e, name[i]);
		peer_send_hello(through);
		hello = peer_expect(through, FRAME_SERVER_HELLO);
		assert_string_equal(hello->role, "viewer");
		peer_free(hello);
		change(through);
		peer_expect_error(through, "not-allowed", false);
		subscribe.probe = &probe;
		subscribe.n_probe = 1;
		subscribe.consumer = (char *)"mine";
		peer_send(through, FRAME_SUBSCRIBE, &subscribe);
		peer_expect_error(through, "relay-consumer", true);
		peer_close(through);
		/* Nor is it the relay. */
		through = connect_through(&e, name[i]);
		peer_greet(through);
		ask_to_dial(through, sizeof(token), "cert:bob");
		peer_expect_error(through, "unexpected-frame", true);
		assert_int_equal(dialled.dials, 0);
		peer_close(through);
		engine_close(&e);
	}
}

static void what_is_no_relay_says_so(void **state)
{
	Ringtail__V1__Reach request = RINGTAIL__V1__REACH__INIT;
	struct peer *peer;
	struct engine e;

	(void)state;
	open_engine(&e, true);
	peer_greet(peer = engine_connect(&e));
	request.host = (char *)"web-1";
	peer_send(peer, FRAME_REACH, &request);
	peer_expect_error(peer, "not-a-relay", false);
	peer_send_list(peer, "syscall:*:call");			/* it goes on */
	peer_free(peer_expect(peer, FRAME_CATALOG));
	peer_close(peer);
	engine_close(&e);
}

static int setup(void **state)
{
	(void)state;
	durable_engine_setup();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_dials_for_whom_the_relay_names, setup, teardown),
		cmocka_unit_test_setup_teardown(it_does_not_unless_it_is_allowed, setup, teardown),
		cmocka_unit_test_setup_teardown(a_relay_that_asks_without_end_is_bounded, setup, teardown),
		cmocka_unit_test_setup_teardown(a_relay_that_asks_and_does_not_read_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(tokens_and_names_are_what_they_can_be, setup, teardown),
		cmocka_unit_test_setup_teardown(so_many_are_served_at_once, setup, teardown),
		cmocka_unit_test_setup_teardown(it_is_a_viewer_and_no_more, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_no_relay_says_so, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
