/*
 * What a session writes, byte for byte, however few of them the socket takes at a time: answers and the
 * stream's frames, each whole and once, in order; and how much of it in one turn, or of its allowance. The socket is a
 * buffer here, and the clock a number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/allowance.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/serve/session.h"
#include "daemon/stream/stream.h"
#include "tests/unit/daemon/small_catalog.h"

#define FRAMES		(2 * SEND_IOV_MAX + 3)	/* more than go into one write */
#define TURN_FRAMES	8u
#define RATE		(256u << 10)
#define SAVED		(RATE / 4)	/* of ALLOWANCE_SAVED_NS */

struct buffer {
	struct transport transport;
	uint8_t *out;
	size_t bytes, chunk;		/* written so far; taken of each write at most */
	unsigned writes, full_after;	/* so many of these, or (0) never */
};

static uint64_t now_ns = 1000 * NS_PER_S;

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

struct fixture {
	struct event_base *base;
	struct frame_codec *codec;
	struct subscription *subscription;
	struct session_host host;
	struct session_bounds bounds;
	struct session *session;
	struct buffer socket;
	int peer;
	struct allowance allowance;
	uint8_t *wanted;
	size_t bytes;
	uint64_t seq, bytes_sent, frames_sent;
};

static int on_handshake(struct transport *transport, struct error *error)
{
	(void)transport, (void)error;
	return 0;
}

static ssize_t on_write(struct transport *transport, const struct iovec *iov, unsigned n)
{
	struct buffer *to = (struct buffer *)transport;
	size_t left = to->chunk;

	assert_true(n > 0 && n <= SEND_IOV_MAX);
	if (to->full_after && to->writes == to->full_after)
		return -EAGAIN;
	to->writes++;
	for (unsigned i = 0; i < n && left; i++) {
		size_t part = iov[i].iov_len < left ? iov[i].iov_len : left;

		assert_true(iov[i].iov_len > 0);
		memcpy(to->out + to->bytes, iov[i].iov_base, part);
		to->bytes += part;
		left -= part;
	}
	return (ssize_t)(to->chunk - left);
}

static bool nothing(const struct transport *transport)
{
	(void)transport;
	return false;
}

static void on_destroy(struct transport *transport)
{
	close(transport->fd);
}

static int on_identify(void *context, void *client, const struct transport *transport,
		       struct client_identity *identity, struct error *error)
{
	(void)context, (void)client, (void)transport, (void)error;
	identity_set_local(identity);
	return 0;
}

static void on_closed(void *context, struct session *session, bool orderly)
{
	(void)context, (void)session, (void)orderly;
}

static void open_bounded(struct fixture *f, size_t chunk, bool bounded)
{
	static const struct transport_ops ops = {.handshake = on_handshake, .write = on_write, .pending = nothing,
						 .unsent = nothing, .destroy = on_destroy};
	static const uint32_t cpu_of[] = {0};
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct session_config config;
	struct stream *stream;
	struct error error;
	int pair[2];

	*f = (struct fixture){.base = event_base_new(), .codec = frame_codec_create(1),
			      .host = {.identify = on_identify, .closed = on_closed},
			      .bounds = {60 * NS_PER_S, 60 * NS_PER_S, 60 * NS_PER_S, false},
			      .bytes_sent = counter_read(COUNTER_bytes_sent),
			      .frames_sent = counter_read(COUNTER_frames_sent)};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	f->peer = pair[1];
	f->socket = (struct buffer){.transport = {.ops = &ops, .fd = pair[0]}, .chunk = chunk,
				    .out = malloc(4 * SEND_TURN_BYTES)};
	f->wanted = malloc(4 * SEND_TURN_BYTES);
	f->host.context = f;
	allowance_set(&f->allowance, RATE);
	config = (struct session_config){.base = f->base, .host = &f->host, .bounds = &f->bounds, .codec = f->codec,
					 .allowance = bounded ? &f->allowance : NULL};
	f->session = session_create(&config, &f->socket.transport, 1, "peer");
	assert_non_null(f->session);
	assert_int_equal(subscription_create(&request, small_catalog_get(), 1, 64 << 20, &f->subscription, &error), 0);
	stream = stream_create(f->subscription, f->codec, cpu_of, 64 << 20, NULL,
			       LOSS_REASON_UNKNOWN);
	assert_non_null(stream);
	session_subscribed(f->session, stream, frame_ref_create(FRAME_CATALOG, 1),
			   frame_ref_create(FRAME_SUBSCRIBED, 1));
	/* These two are written first; their one byte is not looked at here. */
	while (!session_idle(f->session))
		session_wake(f->session);
	assert_int_equal(f->socket.bytes, 2);
	f->socket.bytes = f->socket.writes = 0;
}

static void open_all(struct fixture *f, size_t chunk)
{
	open_bounded(f, chunk, false);
}

static void close_all(struct fixture *f)
{
	session_destroy(f->session, false);
	close(f->peer);
	subscription_destroy(f->subscription);
	frame_codec_destroy(f->codec);
	event_base_free(f->base);
	free(f->socket.out);
	free(f->wanted);
}

/* Bytes that no other frame has where these are. */
static struct frame_ref *make(struct fixture *f, enum frame_type type, size_t bytes)
{
	struct frame_ref *frame = frame_ref_create(type, bytes);

	for (size_t i = 0; i < bytes; i++)
		frame->data[i] = (uint8_t)((f->bytes + i) * 2654435761u >> 13);
	memcpy(f->wanted + f->bytes, frame->data, bytes);
	f->bytes += bytes;
	return frame;
}

static void append(struct fixture *f, size_t bytes)
{
	struct frame_ref *frame = make(f, FRAME_BATCH, bytes);

	frame->first_seq = f->seq++;
	frame->end_seq = f->seq;
	frame->events = 1;
	subscription_append(f->subscription, frame);
}

static void check_sent(const struct fixture *f, size_t bytes, uint64_t frames)
{
	assert_int_equal(f->socket.bytes, bytes);
	assert_memory_equal(f->socket.out, f->wanted, bytes);
	assert_int_equal(session_wire_bytes(f->session), 2 + bytes);
	assert_int_equal(session_frames(f->session), 2 + frames);
	assert_int_equal(counter_read(COUNTER_bytes_sent), f->bytes_sent + 2 + bytes);
	assert_int_equal(counter_read(COUNTER_frames_sent), f->frames_sent + 2 + frames);
}

/* Answers, then the stream. */
static void test_each_byte_once_in_order(void **state)
{
	static const size_t chunks[] = {1, 2, 7, 10, 11, 100, 1000, 1 << 20};
	struct fixture f;

	(void)state;
	for (unsigned i = 0; i < sizeof(chunks) / sizeof(*chunks); i++) {
		open_all(&f, chunks[i]);
		for (unsigned j = 0; j < 3; j++)
			session_send(f.session, make(&f, FRAME_CATALOG, 10 + j));
		for (unsigned j = 0; j < FRAMES; j++)
			append(&f, 5 + j % 13);
		for (unsigned j = 0; j < 4096 && !session_idle(f.session); j++)
			session_wake(f.session);
		check_sent(&f, f.bytes, 3 + FRAMES);
		close_all(&f);
	}
}

/* What is answered while a frame is out in part comes right behind that, before the stream goes on. */
static void test_answer_behind_a_part(void **state)
{
	struct fixture f;

	(void)state;
	for (unsigned part = 1; part < 10; part++) {
		open_all(&f, part);
		f.socket.full_after = 1;
		append(&f, 10);
		session_wake(f.session);
		check_sent(&f, part, 0);
		assert_false(session_idle(f.session));
		session_send(f.session, make(&f, FRAME_CATALOG, 7));
		append(&f, 10);
		f.socket.full_after = 0;
		session_wake(f.session);
		check_sent(&f, 27, 3);
		assert_true(session_idle(f.session));
		/* And an answer that is out in part, before one more. */
		f.socket.full_after = f.socket.writes + 1;
		session_send(f.session, make(&f, FRAME_CATALOG, 10));
		session_wake(f.session);
		check_sent(&f, 27 + part, 3);
		session_send(f.session, make(&f, FRAME_CATALOG, 5));
		append(&f, 10);
		f.socket.full_after = 0;
		session_wake(f.session);
		check_sent(&f, f.bytes, 6);
		close_all(&f);
	}
}

/* So much in one turn, and no more, though the socket would take all. */
static void test_one_turn(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, SIZE_MAX / 4);
	for (unsigned i = 0; i < 2 * TURN_FRAMES + 1; i++)
		append(&f, SEND_TURN_BYTES / TURN_FRAMES);
	session_wake(f.session);
	check_sent(&f, SEND_TURN_BYTES, TURN_FRAMES);
	assert_int_equal(f.socket.writes, 1);
	assert_false(session_idle(f.session));
	session_wake(f.session);
	check_sent(&f, 2 * SEND_TURN_BYTES, 2 * TURN_FRAMES);
	session_wake(f.session);
	check_sent(&f, f.bytes, 2 * TURN_FRAMES + 1);
	assert_int_equal(f.socket.writes, 3);
	assert_true(session_idle(f.session));
	close_all(&f);
	/* The same where the socket takes a frame and a half of each write. */
	open_all(&f, 3 * SEND_TURN_BYTES / TURN_FRAMES / 2);
	for (unsigned i = 0; i < 2 * TURN_FRAMES; i++)
		append(&f, SEND_TURN_BYTES / TURN_FRAMES);
	session_wake(f.session);
	assert_int_equal(f.socket.writes, 6);
	check_sent(&f, 9 * SEND_TURN_BYTES / TURN_FRAMES, 9);
	close_all(&f);
}

/* What is beyond its allowance waits, and is not lost: so much at once, then so much a second. */
static void test_allowance(void **state)
{
	uint64_t holds = counter_read(COUNTER_relay_holds), begun_ns;
	struct fixture f;

	(void)state;
	open_bounded(&f, SIZE_MAX / 4, true);
	assert_false(session_held_back(f.session));
	begun_ns = now_ns;
	for (unsigned i = 0; i < 3 * FRAMES; i++)
		append(&f, 1999 + i % 13);
	session_wake(f.session);
	/* The two bytes of the beginning were of it. */
	assert_int_equal(f.socket.bytes, SAVED - 2);
	assert_true(session_held_back(f.session));
	assert_false(session_idle(f.session));
	/* Whoever wakes it meanwhile: nothing goes. */
	for (unsigned i = 0; i < 5; i++)
		session_wake(f.session);
	assert_int_equal(f.socket.bytes, SAVED - 2);
	assert_int_equal(counter_read(COUNTER_relay_holds), holds + 1);
	for (unsigned i = 0; i < 4096 && !session_idle(f.session); i++) {
		now_ns += NS_PER_S / 32;
		session_wake(f.session);
		assert_true(f.socket.bytes <= SAVED + (now_ns - begun_ns) * RATE / NS_PER_S);
	}
	check_sent(&f, f.bytes, 3 * FRAMES);
	assert_false(session_held_back(f.session));
	assert_in_range(now_ns - begun_ns, (f.bytes - SAVED) * NS_PER_S / RATE,
			(f.bytes - SAVED) * NS_PER_S / RATE + NS_PER_S / 4);
	close_all(&f);
}

/* Nobody wakes it: it goes on by itself. An answer comes right behind the frame that is out in part. */
static void test_allowance_comes_back(void **state)
{
	struct fixture f;

	(void)state;
	open_bounded(&f, SIZE_MAX / 4, true);
	append(&f, SAVED + 100);
	append(&f, 100);
	session_wake(f.session);
	check_sent(&f, SAVED - 2, 0);
	session_send(f.session, make(&f, FRAME_CATALOG, 7));
	memmove(f.wanted + SAVED + 100 + 7, f.wanted + SAVED + 100, 100);
	for (unsigned i = 0; i < 7; i++)
		f.wanted[SAVED + 100 + i] = (uint8_t)((SAVED + 200 + i) * 2654435761u >> 13);
	for (unsigned i = 0; i < 100 && !session_idle(f.session); i++) {
		now_ns += NS_PER_S / 8 + 1;
		assert_int_equal(event_base_loop(f.base, EVLOOP_ONCE), 0);
	}
	check_sent(&f, f.bytes, 3);
	close_all(&f);
}

/* With nothing to write, a session whose allowance is used up waits for nothing; without an allowance, none does. */
static void test_allowance_used_up_and_idle(void **state)
{
	struct fixture f;

	(void)state;
	open_bounded(&f, SIZE_MAX / 4, true);
	append(&f, SAVED - 2);
	session_wake(f.session);
	session_wake(f.session);
	check_sent(&f, SAVED - 2, 1);
	assert_true(session_idle(f.session));
	assert_false(session_held_back(f.session));
	/* A reload takes the bound away. */
	append(&f, 4 * SAVED);
	session_wake(f.session);
	assert_true(session_held_back(f.session));
	allowance_set(&f.allowance, 0);
	session_wake(f.session);
	check_sent(&f, f.bytes, 2);
	assert_false(session_held_back(f.session));
	close_all(&f);
	open_all(&f, SIZE_MAX / 4);
	append(&f, 4 * SAVED);
	session_wake(f.session);
	check_sent(&f, f.bytes, 1);
	close_all(&f);
}

/* However few bytes the socket takes of a write, what it took counts, and no more. */
static void test_allowance_and_a_slow_socket(void **state)
{
	struct fixture f;

	(void)state;
	open_bounded(&f, 100, true);
	append(&f, 1000);
	f.socket.full_after = f.socket.writes + 3;
	session_wake(f.session);
	assert_int_equal(f.socket.bytes, 300);
	assert_false(session_held_back(f.session));
	f.socket.full_after = 0;
	append(&f, SAVED);
	session_wake(f.session);
	assert_int_equal(f.socket.bytes, SAVED - 2);
	assert_true(session_held_back(f.session));
	now_ns += NS_PER_S;
	session_wake(f.session);
	check_sent(&f, f.bytes, 2);
	close_all(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_byte_once_in_order),
		cmocka_unit_test(test_answer_behind_a_part),
		cmocka_unit_test(test_one_turn),
		cmocka_unit_test(test_allowance),
		cmocka_unit_test(test_allowance_comes_back),
		cmocka_unit_test(test_allowance_used_up_and_idle),
		cmocka_unit_test(test_allowance_and_a_slow_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
