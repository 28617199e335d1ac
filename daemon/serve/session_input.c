/* session_input: what a session hears: bytes, frames, requests; each is answered by the host. See
 * session.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/serve/session_private.h"
#include "query/message_text.h"
#include "query/visible.h"
#include "proto/limits.h"
#include "proto/message.h"

/* ---- Requests -------------------------------------------------------------------------------- */

static void refuse_frame(struct session *session, enum frame_status status)
{
	struct error error;

	counter_add(COUNTER_frames_bad, 1);
	error_set(&error, EPROTO, frame_status_name(status), "frame %llu from this client: %s",
		  (unsigned long long)session->requests + 1, frame_status_text(status));
	error_hint(&error, "the connection speaks ringtail frames, docs/protocol.md");
	session_refuse(session, &error, true);
}

static void take_hello(struct session *session, const Ringtail__V1__ClientHello *hello)
{
	struct frame_ref *answer;
	struct error refused = {0};

	if (hello->version_min > FRAME_VERSION || hello->version_max < FRAME_VERSION) {
		struct error error;

		error_set(&error, EPROTO, "version-unsupported",
			  "this daemon speaks version %d, the client %u to %u", FRAME_VERSION,
			  hello->version_min, hello->version_max);
		error_hint(&error, "use a client and a daemon of the same release");
		session_refuse(session, &error, true);
		return;
	}
	visible_copy(session->software, sizeof(session->software), hello->software,
		     strlen(hello->software));
	if (session->config.host->admit(session->config.host->context, session, hello->token,
					&refused) != 0) {
		session_refuse(session, &refused, true);
		return;
	}
	answer = session->config.host->hello(session->config.host->context, session);
	if (!answer) {
		error_set(&refused, ENOMEM, "out-of-memory", "no memory is left for a ServerHello");
		error_hint(&refused, "come back in a moment");
		session_refuse(session, &refused, true);
		return;
	}
	session->state = SESSION_READY;
	session_arm(session, session->config.bounds->hello_timeout_ns);
	session_send(session, answer);
}

static void send_stat(struct session *session)
{
	struct frame_ref *frame = session->config.host->stat(session->config.host->context);

	if (frame) {
		session_send(session, frame);
	} else {
		struct error error;

		error_set(&error, EMSGSIZE, "stat-too-large",
			  "the answer does not fit into a frame, or into memory");
		error_hint(&error, "ask again when fewer clients are connected");
		session_refuse(session, &error, false);
	}
}

void session_on_stat(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd, (void)what;
	/* One that does not read its answers is not sent more of them. */
	if (STAILQ_EMPTY(&session->answers))
		send_stat(session);
	session_wake(session);
}

static void take_stat(struct session *session, const Ringtail__V1__StatRequest *request)
{
	uint32_t ms = request->interval_ms;

	send_stat(session);
	if (ms) {
		struct timeval interval;

		ms = ms < STAT_INTERVAL_MS_MIN ? STAT_INTERVAL_MS_MIN : ms;
		interval = session_timeval(ms * 1000000ull);
		event_add(session->stat_timer, &interval);
	}
}

static void take_list(struct session *session, const Ringtail__V1__ListRequest *request)
{
	struct error error = {0};
	struct frame_ref *frame = session->config.host->list(session->config.host->context,
							     request->glob, &error);

	if (frame)
		session_send(session, frame);
	else
		session_refuse(session, &error, false);
}

static void take_subscribe(struct session *session, const Ringtail__V1__Subscribe *subscribe)
{
	struct error error = {0};

	if (session->subscribing) {
		session_refuse_fatal(session, "already-subscribed", "this connection has a subscription",
			     "open one connection for each subscription");
		return;
	}
	session->subscribing = true;
	if (session->config.host->subscribe(session->config.host->context, session, subscribe,
					    &error) != 0)
		session_refuse(session, &error, true);
}

static void take_ack(struct session *session, const Ringtail__V1__Ack *ack)
{
	struct error error = {0};

	if (session->config.host->ack(session->config.host->context, session, ack, &error) != 0)
		session_refuse(session, &error, false);
}

static void take_probes(struct session *session)
{
	struct frame_ref *frame = session->config.host->probes(session->config.host->context);

	if (frame)
		session_send(session, frame);
	else
		session_break(session);
}

static void take_change(struct session *session, const Ringtail__V1__Change *change)
{
	session->changing = true;
	session->config.host->change(session->config.host->context, session, change);
}

static void take_forget(struct session *session, const Ringtail__V1__Forget *forget)
{
	session->changing = true;
	session->config.host->forget(session->config.host->context, session, forget->consumer);
}

void session_answer(struct session *session, struct frame_ref *answer, const struct error *error)
{
	session->changing = false;
	if (answer)
		session_send(session, answer);
	else
		session_refuse(session, error, false);
	/* Requests may have come meanwhile; not from in here, where the caller still holds it. */
	event_add(session->writable, NULL);
}

static void take_bye(struct session *session)
{
	session->orderly = true;
	session_close_soon(session);
}

static void dispatch(struct session *session, enum frame_type type, const void *message)
{
	switch (type) {
	case FRAME_CLIENT_HELLO:
		take_hello(session, message);
		break;
	case FRAME_LIST:
		take_list(session, message);
		break;
	case FRAME_SUBSCRIBE:
		take_subscribe(session, message);
		break;
	case FRAME_STAT_REQUEST:
		take_stat(session, message);
		break;
	case FRAME_ACK:
		take_ack(session, message);
		break;
	case FRAME_PROBES_REQUEST:
		take_probes(session);
		break;
	case FRAME_CHANGE:
		take_change(session, message);
		break;
	case FRAME_FORGET:
		take_forget(session, message);
		break;
	default:
		take_bye(session);
		break;
	}
}

/* Before a byte of it is unpacked: what no client of ours packs costs nothing. */
static bool check_request(struct session *session, const ProtobufCMessageDescriptor *descriptor,
			  const uint8_t *body, uint32_t bytes)
{
	struct message_place place;
	enum message_fault fault =
		message_check(descriptor, body, bytes, REQUEST_ELEMENTS_MAX, &place);
	struct error error;

	if (fault == MESSAGE_GOOD)
		return true;
	counter_add(COUNTER_frames_bad, 1);
	error_set(&error, EPROTO, message_fault_code(fault), "request %llu from this client: %s%s%s %s",
		  (unsigned long long)session->requests + 1, place.message, place.field ? "." : "",
		  place.field ? place.field : "", message_fault_text(fault));
	error_hint(&error, "send what docs/protocol.md says: a field once, unless it is repeated, and at"
			   " most %d elements", REQUEST_ELEMENTS_MAX);
	session_refuse(session, &error, true);
	return false;
}

/* What it says is shown to others, and kept: text is of one line, and acts on nobody's terminal. */
static bool check_text(struct session *session, const ProtobufCMessage *message)
{
	struct message_text_place place;
	struct error error;

	if (message_text_is_visible(message, &place))
		return true;
	counter_add(COUNTER_frames_bad, 1);
	error_set(&error, EPROTO, "text-invalid", place.no_text ?
		  "request %llu from this client: %s.%s has the byte %02X at %zu, which is not UTF-8" :
		  "request %llu from this client: %s.%s has U+%04X at byte %zu, which does not show",
		  (unsigned long long)session->requests + 1, place.message, place.field,
		  (unsigned)place.code, place.byte + 1);
	error_hint(&error, "send text as UTF-8 in one line, without control characters and without"
			   " those that turn the direction of text");
	session_refuse(session, &error, true);
	return false;
}

/* What a client may send, once it has said hello. */
static void take_request(struct session *session, enum frame_type type, const uint8_t *body,
			 uint32_t bytes)
{
	static const ProtobufCMessageDescriptor *const message_of[] = {
		[FRAME_CLIENT_HELLO] = &ringtail__v1__client_hello__descriptor,
		[FRAME_LIST] = &ringtail__v1__list_request__descriptor,
		[FRAME_SUBSCRIBE] = &ringtail__v1__subscribe__descriptor,
		[FRAME_BYE] = &ringtail__v1__bye__descriptor,
		[FRAME_STAT_REQUEST] = &ringtail__v1__stat_request__descriptor,
		[FRAME_ACK] = &ringtail__v1__ack__descriptor,
		[FRAME_FORGET] = &ringtail__v1__forget__descriptor,
		[FRAME_PROBES_REQUEST] = &ringtail__v1__probes_request__descriptor,
		[FRAME_CHANGE] = &ringtail__v1__change__descriptor,
	};
	size_t types = sizeof(message_of) / sizeof(message_of[0]);
	ProtobufCMessage *message;

	if (type >= types || !message_of[type] ||
	    (session->state == SESSION_NEW) != (type == FRAME_CLIENT_HELLO)) {
		session_refuse_fatal(session, "unexpected-frame",
			     session->state == SESSION_NEW ? "the first frame is not a ClientHello"
							   : "a client does not send this here",
			     "the connection speaks ringtail frames, docs/protocol.md");
		return;
	}
	if (!check_request(session, message_of[type], body, bytes))
		return;
	message = message_unpack_checked(message_of[type], NULL, body, bytes);
	if (!message) {
		refuse_frame(session, FRAME_BAD_MESSAGE);
		return;
	}
	if (!check_text(session, message))
		goto free_message;
	event_del(session->timeout);
	session->requests++;
	dispatch(session, type, message);
free_message:
	protobuf_c_message_free_unpacked(message, NULL);
}

/* ---- Input ----------------------------------------------------------------------------------- */

/* One frame off the front of the input. False: no whole one is there, or the session is closing. */
static bool take_frame(struct session *session)
{
	struct frame_header header;
	uint8_t raw[REQUEST_RAW_BYTES_MAX];
	const uint8_t *body;
	enum frame_status status;
	size_t bytes;

	if (session->state == SESSION_CLOSING)
		return false;
	status = frame_parse_header(session->input, session->input_bytes, REQUEST_RAW_BYTES_MAX,
				    &header);
	if (status == FRAME_SHORT)
		return false;
	if (status == FRAME_OK && header.body_bytes > REQUEST_RAW_BYTES_MAX)
		status = FRAME_TOO_LARGE;
	if (status != FRAME_OK) {
		refuse_frame(session, status);
		return false;
	}
	bytes = FRAME_HEADER_BYTES + header.body_bytes;
	if (session->input_bytes < bytes) {
		session->input_wanted = bytes;
		return false;
	}
	status = frame_open(session->config.codec, session->input, &header, raw, &body);
	if (status != FRAME_OK) {
		refuse_frame(session, status);
		return false;
	}
	take_request(session, header.type, body, header.raw_bytes);
	session->input_bytes -= bytes;
	memmove(session->input, session->input + bytes, session->input_bytes);
	return true;
}

static bool make_room(struct session *session)
{
	uint8_t *input;

	if (session->input_wanted <= session->input_capacity)
		return true;
	input = realloc(session->input, session->input_wanted);
	if (!input)
		return false;
	session->input = input;
	session->input_capacity = session->input_wanted;
	return true;
}

/* One large request, once, is no reason to be large for ever. */
static void give_room_back(struct session *session)
{
	uint8_t *input;

	if (session->input_bytes || session->input_capacity == INPUT_BYTES_FIRST)
		return;
	input = realloc(session->input, INPUT_BYTES_FIRST);
	if (!input)
		return;
	session->input = input;
	session->input_capacity = INPUT_BYTES_FIRST;
	session->input_wanted = 0;
}

/* As transport_read(): what came is in the input. */
static ssize_t receive(struct session *session)
{
	ssize_t got;

	if (!make_room(session)) {
		counter_add(COUNTER_sessions_out_of_memory, 1);
		return -ENOMEM;
	}
	/* Read on while closing: to close with bytes unread would reset the connection, and the
	 * client might never see why. */
	if (session->state == SESSION_CLOSING)
		session->input_bytes = 0;
	got = transport_read(session->transport, session->input + session->input_bytes,
			     session->input_capacity - session->input_bytes);
	if (got > 0)
		session->input_bytes += (size_t)got;
	return got;
}

static void hear(struct session *session)
{
	ssize_t got = receive(session);

	if (got == -EAGAIN) {
		if (session->transport->wanted == EV_WRITE) {
			event_del(session->readable);
			event_add(session->writable, NULL);
		}
		return;
	}
	if (got <= 0) {
		session_destroy(session, session->orderly);
		return;
	}
	session->active_ns = clock_monotonic();
	session_wake(session);
}

void session_take_turn(void *context)
{
	struct session *session = context;

	session_shake_hands(session);
	/* What came right behind the handshake may be inside the transport already. */
	if (session->state == SESSION_NEW)
		hear(session);
}

void session_on_readable(evutil_socket_t fd, short what, void *context)
{
	struct session *session = context;

	(void)fd, (void)what;
	if (session->state != SESSION_SHAKING) {
		hear(session);
		return;
	}
	/* A handshake is dear, and whoever connects can ask for one. */
	event_del(session->readable);
	turnstile_join(session->config.turnstile, &session->turn);
}

/*
 * Takes what has come in, one request at a time: while an answer waits to be written, the next request
 * waits too, and then nothing is read. So one who asks and never listens costs one answer.
 */
void session_take_requests(struct session *session)
{
	while (!session->replies && !session->changing && take_frame(session))
		;
	if ((session->replies || session->changing) && session->state != SESSION_CLOSING) {
		event_del(session->readable);
		return;
	}
	give_room_back(session);
	event_add(session->readable, NULL);
	/* No event will tell of what the transport has taken off the socket already. */
	if (transport_pending(session->transport))
		event_active(session->readable, EV_READ, 0);
}

/* The client has gone: perhaps it said before that it would not come back. */
void session_hear_last(struct session *session)
{
	if (session->state == SESSION_SHAKING)
		return;
	receive(session);
	while (!session->replies && !session->changing && take_frame(session))
		;
}
