/*
 * conn: a byte stream of frames, to a daemon (both ways) or from a file (one way).
 *
 * One thread. It waits in poll(2) alone, and every wait has an end: a timeout, or the interrupt
 * descriptor.
 */
#ifndef RINGTAIL_CLIENT_LIB_CONN_H
#define RINGTAIL_CLIENT_LIB_CONN_H

#include <protobuf-c/protobuf-c.h>

#include "client/lib/address.h"
#include "client/lib/conn_tls.h"
#include "client/lib/frame_reader.h"
#include "client/lib/ringtail.h"

struct conn;

enum conn_wait {
	CONN_FRAME,
	CONN_TIMEOUT,
	CONN_INTERRUPTED,
	CONN_END,		/* end of file between two frames; */
	CONN_LOST,		/* the connection broke, or the end is inside a frame; */
	CONN_BAD,		/* these are not frames; *error says which of these three */
};

/* Connects, within CONNECT_TIMEOUT_MS. Nothing is said yet. */
int conn_open(const struct address *address, int interrupt_fd, struct conn **conn,
	      struct ringtail_error *error);

/*
 * Connects, and shakes hands only to see the daemon's certificate, believed or not. The address is one
 * that is spoken to in TLS. -errno with *error: none was to be seen.
 */
int conn_see_certificate(const struct address *address, struct tls_span *span,
			 struct ringtail_error *error);

/* A file, pipe or connected socket; `fd` is taken, also on failure. `name` is for messages. */
int conn_open_fd(int fd, const char *name, struct conn **conn, struct ringtail_error *error);
void conn_close(struct conn *conn);

/* Sends one frame whole, within REPLY_TIMEOUT_MS. */
int conn_send(struct conn *conn, enum frame_type type, const ProtobufCMessage *message,
	      struct ringtail_error *error);

/* ClientHello. */
/* Called when a daemon listens and does not answer yet, with a text for the user. */
typedef void conn_notice(const char *text);
void conn_set_notice(conn_notice *notice);

/* Waits for the answer to begin, too: a daemon that is starting listens already. */
int conn_send_hello(struct conn *conn, struct ringtail_error *error);

/* From here on another daemon is at the other end: it is called so in messages, and does not get the token. */
void conn_pass_on(struct conn *conn, const char *name);

/* The next frame, borrowed until the next call. timeout_ms < 0: no timeout. */
enum conn_wait conn_wait(struct conn *conn, int timeout_ms, struct frame *frame,
			 struct ringtail_error *error);

/* Of the stream: where the next frame begins, and up to where bytes have come to this host. Over TLS
 * the latter is an upper bound: these bytes are counted as they were sent. */
uint64_t conn_offset(const struct conn *conn);
uint64_t conn_arrived_end(const struct conn *conn);

/* -1: nothing interrupts. */
void conn_set_interrupt(struct conn *conn, int fd);
const char *conn_name(const struct conn *conn);

/* CLOCK_MONOTONIC of this host. */
uint64_t conn_now_ns(void);

#endif
