/*
 * request: one question to a daemon and its answers, for what is not a stream: list, stat, doctor.
 */
#ifndef RINGTAIL_CLIENT_CLI_REQUEST_H
#define RINGTAIL_CLIENT_CLI_REQUEST_H

#include "client/lib/conn.h"
#include "client/lib/ringtail.h"

struct request;

/* Connects and exchanges hellos. `address` as in address_parse(). */
int request_open(const char *address, int interrupt_fd, struct request **request,
		 struct ringtail_error *error);
void request_close(struct request *request);

int request_send(struct request *request, enum frame_type type, const ProtobufCMessage *message,
		 struct ringtail_error *error);

/*
 * Waits for the next frame of that type; the body is borrowed until the next call. -EPROTO: the
 * daemon refused, *error says why. -EINTR: interrupted. -ETIMEDOUT.
 */
int request_wait(struct request *request, enum frame_type type, int timeout_ms,
		 const uint8_t **body, size_t *bytes, struct ringtail_error *error);

const struct ringtail_host *request_host(const struct request *request);

#endif
