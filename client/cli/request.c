#include "client/cli/request.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/failure.h"
#include "client/lib/host.h"
#include "client/lib/limits.h"
#include "client/lib/unpack.h"
#include "proto/limits.h"

struct request {
	struct conn *conn;
	struct frame_codec *codec;
	struct ringtail_host host;
	uint8_t raw[FRAME_RAW_BYTES_MAX];
};

static int read_hello(struct request *request, struct ringtail_error *error)
{
	const Ringtail__V1__ServerHello *hello;
	struct arena *arena;
	const uint8_t *body;
	size_t bytes;
	int err = request_wait(request, FRAME_SERVER_HELLO, REPLY_TIMEOUT_MS, &body, &bytes, error);

	if (err)
		return err;
	hello = unpack(&ringtail__v1__server_hello__descriptor, body, bytes, &arena);
	if (!hello)
		return failure_set(error, EBADMSG, "bad-message", "the hello of %s does not unpack",
				   conn_name(request->conn));
	err = host_from_hello(hello, &request->host, error);
	arena_destroy(arena);
	return err;
}

int request_open(const char *address_text, int interrupt_fd, struct request **made,
		 struct ringtail_error *error)
{
	struct request *request;
	struct address address;
	int err = address_parse(address_text, &address, error);

	if (err)
		return err;
	request = calloc(1, sizeof(*request));
	if (request)
		request->codec = frame_codec_create(1);
	if (!request || !request->codec)
		err = failure_set(error, ENOMEM, "no-memory", "out of memory");
	else
		err = conn_open(&address, interrupt_fd, &request->conn, error);
	if (!err)
		err = conn_send_hello(request->conn, error);
	if (!err)
		err = read_hello(request, error);
	if (err) {
		request_close(request);
		return err;
	}
	*made = request;
	return 0;
}

void request_close(struct request *request)
{
	if (!request)
		return;
	conn_close(request->conn);
	frame_codec_destroy(request->codec);
	free(request);
}

int request_send(struct request *request, enum frame_type type, const ProtobufCMessage *message,
		 struct ringtail_error *error)
{
	return conn_send(request->conn, type, message, error);
}

static int refused(const uint8_t *body, size_t bytes, struct ringtail_error *error)
{
	struct arena *arena;
	const Ringtail__V1__Error *told =
		unpack(&ringtail__v1__error__descriptor, body, bytes, &arena);
	int err;

	if (!told)
		return failure_set(error, EPROTO, "refused",
				   "the daemon refused, and its reason does not unpack");
	err = host_error(told, error);
	arena_destroy(arena);
	return err;
}

int request_wait(struct request *request, enum frame_type type, int timeout_ms,
		 const uint8_t **body, size_t *bytes, struct ringtail_error *error)
{
	for (unsigned i = 0; i < REPLY_FRAMES_MAX; i++) {
		enum frame_status status;
		struct frame frame;

		switch (conn_wait(request->conn, timeout_ms, &frame, error)) {
		case CONN_FRAME:
			break;
		case CONN_TIMEOUT:
			failure_set(error, ETIMEDOUT, "timeout", "%s sent no %s within %d s",
				    conn_name(request->conn), frame_type_name(type),
				    timeout_ms / 1000);
			failure_hint(error, "is it a ringtaild? Is it overloaded?");
			return -ETIMEDOUT;
		case CONN_INTERRUPTED:
			return failure_set(error, EINTR, "interrupted", "interrupted");
		case CONN_BAD:
			return -EBADMSG;
		default:
			return -ECONNRESET;
		}
		status = frame_open(request->codec, frame.bytes, &frame.header, request->raw, body);
		if (status != FRAME_OK)
			return failure_set(error, EBADMSG, frame_status_name(status),
					   "%s frame of %s: %s", frame_type_name(frame.header.type),
					   conn_name(request->conn), frame_status_text(status));
		*bytes = frame.header.raw_bytes;
		if (frame.header.type == FRAME_ERROR)
			return refused(*body, *bytes, error);
		if (frame.header.type == type)
			return 0;
	}
	return failure_set(error, EBADMSG, "bad-reply", "%s sent %u frames and no %s among them",
			   conn_name(request->conn), REPLY_FRAMES_MAX, frame_type_name(type));
}

const struct ringtail_host *request_host(const struct request *request)
{
	return &request->host;
}
