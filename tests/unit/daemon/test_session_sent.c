/*
 * What a session writes, byte for byte, however few of them the socket takes at a time: answers and the
 * stream's frames, each whole and once, in order; and how much of it in one turn. The socket is a buffer here.
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

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/serve/session.h"
#include "daemon/stream/stream.h"
#include "tests/unit/daemon/small_catalog.h"

#define FRAMES		(2 * SEND_IOV_MAX + 3)	/* more than go into one write */
#define TURN_FRAMES	8u

struct buffer {
	struct transport transport;
	uint8_t *out;
	size_t bytes, chunk;		/* written so far; taken of each write at most */
	unsigned writes, full_after;	/* so many of these, or (0) never */
};

struct fixture {
	struct event_base *base;
	struct frame_codec *codec;
	struct subscription *subscription;
	struct session_host host;
	struct session_bounds bounds;
	struct session *session;
	struct buffer socket;
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

static void open_all(struct fixture *f, size_t chunk)
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
	close(pair[1]);
	f->socket = (struct buffer){.transport = {.ops = &ops, .fd = pair[0]}, .chunk = chunk,
				    .out = malloc(4 * SEND_TURN_BYTES)};
	f->wanted = malloc(4 * SEND_TURN_BYTES);
	f->host.context = f;
	config = (struct session_config){.base = f->base, .host = &f->host, .bounds = &f->bounds, .codec = f->codec};
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

static void close_all(struct fixture *f)
{
	session_destroy(f->session, false);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_byte_once_in_order),
		cmocka_unit_test(test_answer_behind_a_part),
		cmocka_unit_test(test_one_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
