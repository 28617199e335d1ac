/*
 * Agents that dial a relay for a client nobody asked them for: with a token that is none, one that is too long, or bytes
 * behind it. Each is told so and ends; neither the host's own connection nor the relay's memory notices.
 */
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

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/relay/agent.h"
#include "daemon/relay/relay.h"
#include "tests/unit/daemon/peer.h"
#include "tests/unit/daemon/tls_place.h"

#define FLOOD	100u

static struct place place;

struct fixture {
	struct event_base *base;
	struct frame_codec *codec;
	struct gate *gate;
	struct relay *relay;
};

struct agent {
	int fd;
	SSL *ssl;
};

static void on_forward(struct relay_sink *sink, struct relay_item *item)
{
	(void)sink, (void)item;
	fail();
}

static void on_destroy(struct relay_sink *sink)
{
	(void)sink;
}

static void quiet(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)code, (void)text;
}

static void open_fixture(struct fixture *f)
{
	static const struct relay_sink_ops ops = {.forward = on_forward, .destroy = on_destroy};
	static const struct log_sink log = {quiet, clock_monotonic};
	static struct relay_sink sink = {.ops = &ops};
	struct relay_config config = {.sink = &sink, .agents_max = 1, .hello_timeout_ns = PEER_WAIT_NS,
				      .silence_timeout_ns = PEER_WAIT_NS};
	struct config options = {.tls_cert = place.cert, .tls_key = place.key, .tls_client_ca = place.ca};
	struct error error;

	log_set_sink(&log);
	if (gate_create(&options, &f->gate, &error) != 0)
		fail_msg("%s", error.what);
	config.gate = f->gate;
	f->base = config.base = event_base_new();
	f->codec = frame_codec_create(1);
	assert_int_equal(relay_create(&config, &f->relay, &error), 0);
}

static void close_fixture(struct fixture *f)
{
	relay_destroy(f->relay);
	gate_destroy(f->gate);
	frame_codec_destroy(f->codec);
	event_base_free(f->base);
}

/* It has shaken hands, and says hello with so much of a token, and then `more`. */
static struct agent come(struct fixture *f, size_t token_bytes, const char *more)
{
	Ringtail__V1__AgentHello hello = RINGTAIL__V1__AGENT_HELLO__INIT;
	uint8_t token[64] = {1, 2, 3}, bytes[512];
	struct frame_ref *frame;
	struct agent agent;
	int fds[2];
	size_t n;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	relay_accept(f->relay, fds[0], NULL, "10.0.0.1:7");
	agent = (struct agent){.fd = fds[1], .ssl = place_client(&place, "web-1", place.authority, fds[1])};
	PEER_AWAIT(f->base, SSL_is_init_finished(agent.ssl) || SSL_connect(agent.ssl) == 1);
	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = (char *)"agent";
	hello.token = (ProtobufCBinaryData){token_bytes, token};
	frame = frame_ref_pack(f->codec, FRAME_AGENT_HELLO, &hello.base);
	memcpy(bytes, frame->data, frame->bytes);
	n = frame->bytes;
	memcpy(bytes + n, more, strlen(more));
	n += strlen(more);
	assert_int_equal(SSL_write(agent.ssl, bytes, (int)n), (int)n);
	frame_ref_put(frame);
	return agent;
}

static void leave(struct agent *agent)
{
	SSL_free(agent->ssl);
	close(agent->fd);
}

/* What the relay says first. */
static void *hear(struct fixture *f, struct agent *agent, enum frame_type type)
{
	uint8_t bytes[4096], raw[4096], *said = bytes;
	struct frame_header header;
	const uint8_t *body;
	void *message;
	int got = 0;

	PEER_AWAIT(f->base, got > 0 || (got = SSL_read(agent->ssl, bytes, sizeof(bytes))) > 0);
	assert_int_equal(frame_parse_header(said, (size_t)got, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(header.type, type);
	assert_int_equal(frame_open(f->codec, said, &header, raw, &body), FRAME_OK);
	message = protobuf_c_message_unpack(peer_message_of(type), NULL, header.raw_bytes, body);
	assert_non_null(message);
	return message;
}

static void expect_refused(struct fixture *f, struct agent *agent, const char *code)
{
	Ringtail__V1__Error *error = hear(f, agent, FRAME_ERROR);
	char byte;

	assert_string_equal(error->code, code);
	assert_true(error->fatal);
	protobuf_c_message_free_unpacked(&error->base, NULL);
	PEER_AWAIT(f->base, SSL_read(agent->ssl, &byte, 1) == 0 || SSL_get_shutdown(agent->ssl) & SSL_RECEIVED_SHUTDOWN);
	leave(agent);
	peer_run(f->base);
}

static void a_token_that_nobody_was_given_is_refused(void **state)
{
	struct fixture f;
	struct agent agent;

	(void)state;
	open_fixture(&f);
	agent = come(&f, RELAY_TOKEN_BYTES, "");
	expect_refused(&f, &agent, "dial-unknown");
	agent = come(&f, 1, "");
	expect_refused(&f, &agent, "dial-unknown");
	agent = come(&f, RELAY_TOKEN_BYTES + 1, "");
	expect_refused(&f, &agent, "dial-unknown");
	close_fixture(&f);
}

static void a_host_does_not_speak_before_its_client(void **state)
{
	struct fixture f;
	struct agent agent;

	(void)state;
	open_fixture(&f);
	agent = come(&f, RELAY_TOKEN_BYTES, "I am the host");
	expect_refused(&f, &agent, "unexpected-frame");
	close_fixture(&f);
}

/* It takes no place of a host, though there is only one, and is no second connection of one that is there. */
static void a_flood_of_tokens_disturbs_nobody(void **state)
{
	Ringtail__V1__ClientHello *hello;
	struct agent own, other;
	struct fixture f;
	char byte;

	(void)state;
	open_fixture(&f);
	own = come(&f, 0, "");
	hello = hear(&f, &own, FRAME_CLIENT_HELLO);
	for (unsigned i = 0; i < FLOOD; i++) {
		other = come(&f, RELAY_TOKEN_BYTES, i % 2 ? "noise" : "");
		expect_refused(&f, &other, i % 2 ? "unexpected-frame" : "dial-unknown");
	}
	assert_int_equal(SSL_read(own.ssl, &byte, 1), -1);
	assert_int_equal(SSL_get_error(own.ssl, -1), SSL_ERROR_WANT_READ);	/* it is connected as before */
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	leave(&own);
	peer_run(f.base);
	close_fixture(&f);
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
		cmocka_unit_test(a_token_that_nobody_was_given_is_refused),
		cmocka_unit_test(a_host_does_not_speak_before_its_client),
		cmocka_unit_test(a_flood_of_tokens_disturbs_nobody),
	};

	return cmocka_run_group_tests(tests, open_place, close_place);
}
