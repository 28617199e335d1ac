#include "client/lib/reach.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/lib/failure.h"
#include "client/lib/host.h"
#include "client/lib/limits.h"
#include "client/lib/unpack.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

/* Its answers are small. */
struct answer {
	struct frame_codec *codec;
	uint8_t raw[REQUEST_RAW_BYTES_MAX];
	const uint8_t *body;
	size_t bytes;
};

static int take_error(const struct answer *answer, struct ringtail_error *error)
{
	struct arena *arena;
	const Ringtail__V1__Error *told = unpack(&ringtail__v1__error__descriptor, answer->body, answer->bytes, &arena);
	int err;

	if (!told)
		return failure_set(error, EBADMSG, "bad-message", "the relay refuses, and its reason does not unpack");
	err = host_error(told, error);
	arena_destroy(arena);
	return err;
}

/* The next frame is that one, or an Error. */
static int await(struct conn *conn, enum frame_type type, int timeout_ms, struct answer *answer,
		 struct ringtail_error *error)
{
	enum frame_status status;
	struct frame frame;

	switch (conn_wait(conn, timeout_ms, &frame, error)) {
	case CONN_FRAME:
		break;
	case CONN_TIMEOUT:
		return failure_set(error, ETIMEDOUT, "timeout", "%s sent no %s within %d s", conn_name(conn),
				   frame_type_name(type), timeout_ms / 1000);
	case CONN_INTERRUPTED:
		return failure_set(error, EINTR, "interrupted", "interrupted");
	case CONN_BAD:
		return -EBADMSG;
	default:
		return -ECONNRESET;
	}
	status = frame.header.raw_bytes > sizeof(answer->raw) ? FRAME_TOO_LARGE :
		 frame_open(answer->codec, frame.bytes, &frame.header, answer->raw, &answer->body);
	if (status != FRAME_OK)
		return failure_set(error, EBADMSG, frame_status_name(status), "%s frame of %s: %s",
				   frame_type_name(frame.header.type), conn_name(conn), frame_status_text(status));
	answer->bytes = frame.header.raw_bytes;
	if (frame.header.type == FRAME_ERROR)
		return take_error(answer, error);
	if (frame.header.type == type)
		return 0;
	if (frame.header.type == FRAME_BYE)
		return failure_set(error, ECONNRESET, "daemon-left", "%s left", conn_name(conn));
	return failure_set(error, EBADMSG, "bad-reply", "%s sent a frame %s, and not %s", conn_name(conn),
			   frame_type_name(frame.header.type), frame_type_name(type));
}

static bool names_reach(const Ringtail__V1__ServerHello *hello)
{
	for (size_t i = 0; i < hello->n_feature; i++)
		if (hello->feature[i] == RINGTAIL__V1__FEATURE__FEATURE_REACH)
			return true;
	return false;
}

static int check_hello(struct conn *conn, const struct answer *answer, struct ringtail_error *error)
{
	struct arena *arena;
	const Ringtail__V1__ServerHello *hello = unpack(&ringtail__v1__server_hello__descriptor, answer->body,
							answer->bytes, &arena);
	struct ringtail_host relay;
	int err;

	if (!hello)
		return failure_set(error, EBADMSG, "bad-message", "the hello of %s does not unpack", conn_name(conn));
	err = host_from_hello(hello, &relay, error);
	if (!err && !names_reach(hello)) {
		err = failure_set(error, EOPNOTSUPP, "relay-too-old", "the relay at %s (%.64s) is too old to be asked for"
				  " its hosts", conn_name(conn), relay.software);
		failure_hint(error, "upgrade ringtaild there");
	}
	arena_destroy(arena);
	return err;
}

static int reach(struct conn *conn, const char *host, struct answer *answer, struct ringtail_error *error)
{
	Ringtail__V1__Reach request = RINGTAIL__V1__REACH__INIT;
	char name[ADDRESS_TEXT_BYTES];
	int err = conn_send_hello(conn, error);

	if (!err)
		err = await(conn, FRAME_SERVER_HELLO, REPLY_TIMEOUT_MS, answer, error);
	if (!err)
		err = check_hello(conn, answer, error);
	request.host = (char *)host;
	if (!err)
		err = conn_send(conn, FRAME_REACH, &request.base, error);
	if (!err)
		err = await(conn, FRAME_REACHED, REACHED_TIMEOUT_MS, answer, error);
	if (err)
		return err;
	snprintf(name, sizeof(name), "%s through %.200s", host, conn_name(conn));
	conn_pass_on(conn, name);
	return 0;
}

int reach_host(struct conn *conn, const char *host, struct ringtail_error *error)
{
	struct answer *answer = malloc(sizeof(*answer));
	int err = -ENOMEM;

	if (answer)
		answer->codec = frame_codec_create(1);
	if (answer && answer->codec)
		err = reach(conn, host, answer, error);
	else
		failure_set(error, ENOMEM, "no-memory", "out of memory");
	if (answer)
		frame_codec_destroy(answer->codec);
	free(answer);
	return err;
}
