/*
 * peer: a client of the code under test, in the same thread: it sends frames, runs the loop until an
 * answer is there, and checks every frame's header, checksum and message on the way.
 */
#ifndef RINGTAIL_TESTS_PEER_H
#define RINGTAIL_TESTS_PEER_H

#include <errno.h>
#include <event2/event.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define PEER_WAIT_NS (60 * NS_PER_S)	/* what comes at all comes sooner, on a busy machine, too */

struct peer {
	struct event_base *base;
	struct frame_codec *codec;
	int fd;
	bool ended;			/* the other side has closed, or shut down its half */
	size_t bytes;
	uint8_t input[2 * FRAME_RAW_BYTES_MAX];
	uint8_t raw[FRAME_RAW_BYTES_MAX];
};

static const ProtobufCMessageDescriptor *peer_message_of(enum frame_type type)
{
	switch (type) {
	case FRAME_CLIENT_HELLO:
		return &ringtail__v1__client_hello__descriptor;
	case FRAME_SERVER_HELLO:
		return &ringtail__v1__server_hello__descriptor;
	case FRAME_ERROR:
		return &ringtail__v1__error__descriptor;
	case FRAME_CATALOG:
		return &ringtail__v1__catalog__descriptor;
	case FRAME_LIST:
		return &ringtail__v1__list_request__descriptor;
	case FRAME_SUBSCRIBE:
		return &ringtail__v1__subscribe__descriptor;
	case FRAME_SUBSCRIBED:
		return &ringtail__v1__subscribed__descriptor;
	case FRAME_BATCH:
		return &ringtail__v1__batch__descriptor;
	case FRAME_WATERMARK:
		return &ringtail__v1__watermark__descriptor;
	case FRAME_GAP:
		return &ringtail__v1__gap__descriptor;
	case FRAME_BYE:
		return &ringtail__v1__bye__descriptor;
	case FRAME_STAT_REQUEST:
		return &ringtail__v1__stat_request__descriptor;
	case FRAME_STAT:
		return &ringtail__v1__stat__descriptor;
	case FRAME_ACK:
		return &ringtail__v1__ack__descriptor;
	case FRAME_FORGET:
		return &ringtail__v1__forget__descriptor;
	case FRAME_PROBES_REQUEST:
		return &ringtail__v1__probes_request__descriptor;
	case FRAME_PROBES:
		return &ringtail__v1__probes__descriptor;
	case FRAME_CHANGE:
		return &ringtail__v1__change__descriptor;
	case FRAME_REACH:
		return &ringtail__v1__reach__descriptor;
	case FRAME_REACHED:
		return &ringtail__v1__reached__descriptor;
	case FRAME_DIAL:
		return &ringtail__v1__dial__descriptor;
	case FRAME_DIAL_REFUSED:
		return &ringtail__v1__dial_refused__descriptor;
	case FRAME_SEGMENT_HEAD:
		return &ringtail__v1__segment_head__descriptor;
	case FRAME_SEGMENT_END:
		return &ringtail__v1__segment_end__descriptor;
	case FRAME_STUCK_REQUEST:
		return &ringtail__v1__stuck_request__descriptor;
	case FRAME_STUCK:
		return &ringtail__v1__stuck__descriptor;
	case FRAME_DUMPS_REQUEST:
		return &ringtail__v1__dumps_request__descriptor;
	case FRAME_DUMPS:
		return &ringtail__v1__dumps__descriptor;
	case FRAME_AGENT_HELLO:
		return &ringtail__v1__agent_hello__descriptor;
	case FRAME_COURIER_HELLO:
		return &ringtail__v1__courier_hello__descriptor;
	case FRAME_CONSIGN:
		return &ringtail__v1__consign__descriptor;
	case FRAME_DELIVERED:
		return &ringtail__v1__delivered__descriptor;
	case FRAME_HOSTS_REQUEST:
		return &ringtail__v1__hosts_request__descriptor;
	case FRAME_HOSTS:
		return &ringtail__v1__hosts__descriptor;
	}
	return NULL;
}

static inline struct peer *peer_open(struct event_base *base, int fd)
{
	struct peer *peer = calloc(1, sizeof(*peer));

	assert_non_null(peer);
	peer->base = base;
	peer->codec = frame_codec_create(1);
	peer->fd = fd;
	return peer;
}

/* The near end of a new socketpair; the far end, nonblocking, in *fd. */
static inline struct peer *peer_pair(struct event_base *base, int *fd)
{
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
	*fd = fds[1];
	return peer_open(base, fds[0]);
}

static inline void peer_hang_up(struct peer *peer)
{
	if (peer->fd >= 0)
		close(peer->fd);
	peer->fd = -1;
}

static inline void peer_close(struct peer *peer)
{
	peer_hang_up(peer);
	frame_codec_destroy(peer->codec);
	free(peer);
}

/* What is due now, but for what follows from it. */
static inline void peer_run(struct event_base *base)
{
	for (unsigned i = 0; i < 10; i++)
		event_base_loop(base, EVLOOP_NONBLOCK);
}

/* And what is due when the time is over. */
static inline void peer_run_for(struct event_base *base, uint64_t ns)
{
	uint64_t end = clock_monotonic() + ns;

	while (clock_monotonic() < end) {
		event_base_loop(base, EVLOOP_NONBLOCK);
		poll(NULL, 0, 1);
	}
	peer_run(base);
}

/* Runs the loop until it holds. */
#define PEER_AWAIT(base, condition)                                                               \
	do {                                                                                      \
		uint64_t deadline = clock_monotonic() + PEER_WAIT_NS;                             \
                                                                                                  \
		while (!(condition) && clock_monotonic() < deadline)                              \
			peer_run_for(base, 1000000);                                              \
		assert_true(condition);                                                           \
	} while (0)

static inline void peer_write(struct peer *peer, const void *bytes, size_t n)
{
	uint64_t deadline = clock_monotonic() + PEER_WAIT_NS;
	const uint8_t *at = bytes;

	while (n) {
		ssize_t sent = send(peer->fd, at, n, MSG_DONTWAIT | MSG_NOSIGNAL);

		assert_true(sent > 0 || errno == EAGAIN);
		assert_true(clock_monotonic() < deadline);
		if (sent > 0)
			at += sent, n -= (size_t)sent;
		else
			event_base_loop(peer->base, EVLOOP_NONBLOCK);
	}
}

/* The message as a frame, into `frame`; returns its bytes. */
static inline size_t peer_seal(struct peer *peer, enum frame_type type, const void *message,
			       uint8_t *frame)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *raw = malloc(bytes + 1);
	size_t n;

	assert_non_null(raw);
	protobuf_c_message_pack(message, raw);
	n = frame_seal(peer->codec, type, raw, (uint32_t)bytes, frame);
	free(raw);
	return n;
}

static inline void peer_send(struct peer *peer, enum frame_type type, const void *message)
{
	uint8_t *frame = malloc(frame_bound((uint32_t)protobuf_c_message_get_packed_size(message)));

	assert_non_null(frame);
	peer_write(peer, frame, peer_seal(peer, type, message, frame));
	free(frame);
}

/* The next frame that has already come, unpacked, or NULL. */
static inline ProtobufCMessage *peer_take(struct peer *peer, enum frame_type *type)
{
	struct frame_header header;
	ProtobufCMessage *message;
	enum frame_status status;
	const uint8_t *body;
	size_t bytes;
	ssize_t got = recv(peer->fd, peer->input + peer->bytes,
			   sizeof(peer->input) - peer->bytes, MSG_DONTWAIT);

	if (got > 0)
		peer->bytes += (size_t)got;
	if (peer->bytes < sizeof(peer->input) &&
	    (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)))
		peer->ended = true;
	status = frame_parse_header(peer->input, peer->bytes, FRAME_RAW_BYTES_MAX, &header);
	if (status == FRAME_SHORT)
		return NULL;
	assert_int_equal(status, FRAME_OK);
	bytes = FRAME_HEADER_BYTES + header.body_bytes;
	if (peer->bytes < bytes)
		return NULL;
	assert_int_equal(frame_open(peer->codec, peer->input, &header, peer->raw, &body), FRAME_OK);
	message = protobuf_c_message_unpack(peer_message_of(header.type), NULL, header.raw_bytes,
					    body);
	assert_non_null(message);
	*type = header.type;
	peer->bytes -= bytes;
	memmove(peer->input, peer->input + bytes, peer->bytes);
	return message;
}

/* The next frame; NULL at the end of the connection. Fails when neither comes. */
static inline ProtobufCMessage *peer_next(struct peer *peer, enum frame_type *type)
{
	uint64_t deadline = clock_monotonic() + PEER_WAIT_NS;

	while (clock_monotonic() < deadline) {
		ProtobufCMessage *message = peer_take(peer, type);

		if (message || peer->ended)
			return message;
		event_base_loop(peer->base, EVLOOP_NONBLOCK);
		if (poll(&(struct pollfd){.fd = peer->fd, .events = POLLIN}, 1, 1) < 0)
			break;
	}
	fail_msg("nothing came");
	return NULL;
}

/* The next frame of that type; what comes before it is passed over. */
static inline void *peer_await(struct peer *peer, enum frame_type wanted)
{
	enum frame_type type;
	ProtobufCMessage *message;

	while ((message = peer_next(peer, &type)) && type != wanted)
		protobuf_c_message_free_unpacked(message, NULL);
	if (!message)
		fail_msg("the connection ended before a %s", frame_type_name(wanted));
	return message;
}

/* The next frame, which is of that type. */
static inline void *peer_expect(struct peer *peer, enum frame_type wanted)
{
	enum frame_type type;
	ProtobufCMessage *message = peer_next(peer, &type);

	if (!message)
		fail_msg("the connection ended before a %s", frame_type_name(wanted));
	assert_string_equal(frame_type_name(type), frame_type_name(wanted));
	return message;
}

static inline void peer_free(void *message)
{
	protobuf_c_message_free_unpacked(message, NULL);
}

static inline void peer_expect_end(struct peer *peer)
{
	enum frame_type type;

	assert_null(peer_next(peer, &type));
}

static inline void peer_expect_error(struct peer *peer, const char *code, bool fatal)
{
	Ringtail__V1__Error *error = peer_expect(peer, FRAME_ERROR);

	assert_string_equal(error->code, code);
	assert_true(*error->what);
	assert_int_equal(error->fatal, fatal);
	peer_free(error);
}

static inline void peer_send_hello(struct peer *peer)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;

	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = (char *)"peer";
	peer_send(peer, FRAME_CLIENT_HELLO, &hello);
}

static inline void peer_greet(struct peer *peer)
{
	peer_send_hello(peer);
	peer_free(peer_expect(peer, FRAME_SERVER_HELLO));
}

static inline void peer_send_list(struct peer *peer, const char *glob)
{
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;

	list.glob = (char *)glob;
	peer_send(peer, FRAME_LIST, &list);
}

static inline void peer_send_stat(struct peer *peer, uint32_t interval_ms)
{
	Ringtail__V1__StatRequest stat = RINGTAIL__V1__STAT_REQUEST__INIT;

	stat.interval_ms = interval_ms;
	peer_send(peer, FRAME_STAT_REQUEST, &stat);
}

/* probe NULL: none; filter NULL: none; since NULL: from now. */
static inline void peer_send_subscribe(struct peer *peer, const char *probe, const char *filter,
				       Ringtail__V1__Cursor *since)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;

	subscribe.probe = (char **)&probe;
	subscribe.n_probe = probe != NULL;
	if (filter)
		subscribe.filter = (char *)filter;
	subscribe.since = since;
	peer_send(peer, FRAME_SUBSCRIBE, &subscribe);
}

static inline void peer_send_question(struct peer *peer, const char *probe, Ringtail__V1__Question *question)
{
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;

	subscribe.probe = (char **)&probe;
	subscribe.n_probe = 1;
	subscribe.question = question;
	peer_send(peer, FRAME_SUBSCRIBE, &subscribe);
}

static inline void peer_send_bye(struct peer *peer)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;

	peer_send(peer, FRAME_BYE, &bye);
}

#endif
