/*
 * http: a small HTTP/1.1 server for reading: GET and HEAD, answers from a handler.
 *
 *	(TLS, in its turn) ─► head ─► handler ─► answer ─► next head, or shut down and linger
 *
 * In: connected sockets (a listener's). Each connection has a deadline for each state, so that a client that
 * sends or reads one byte at a time is disconnected as surely as a silent one. Connections that have not
 * authenticated have a pool of their own; if it is full, the oldest of them is closed, so that connecting alone
 * keeps nobody out. Main thread.
 *
 * Why not libevent's evhttp: docs/architecture.md.
 */
#ifndef RINGTAIL_DAEMON_HTTP_HTTP_H
#define RINGTAIL_DAEMON_HTTP_HTTP_H

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>

#include "daemon/http/request.h"

struct http;
struct transport_tls_context;
struct turnstile;

struct http_answer {
	int status;			/* 200 */
	const char *type;		/* content type; static */
	const char *field;		/* more header fields, each with its CRLF; static; may be NULL */
	struct evbuffer *body;		/* what the handler put there */
	bool admitted;			/* whoever asked proved that it may: it is no stranger any more */
};

struct http_config {
	struct event_base *base;

	struct transport_tls_context *tls;	/* NULL: plain */
	struct turnstile *turnstile;		/* where handshakes wait; NULL: they do not */

	/* Fills in the answer; its body is empty. */
	void (*handle)(void *context, const struct http_request *request,
		       struct bufferevent *peer, struct http_answer *answer);
	void *context;
};

/* NULL: out of memory. */
struct http *http_create(const struct http_config *config);

/* Closes every connection. NULL is safe. */
void http_destroy(struct http *http);

/* A listener_accepted: takes over fd. */
void http_accept(void *http, int fd, const char *peer);

#endif
