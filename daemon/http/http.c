#include "daemon/http/http.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/net/transport.h"
#include "daemon/net/turnstile.h"

enum connection_state {
	CONNECTION_SHAKING,	/* hands, in TLS */
	CONNECTION_IDLE,	/* nothing of a request has come */
	CONNECTION_READING,
	CONNECTION_WRITING,
	CONNECTION_LINGERING,	/* the last answer is out; what comes is thrown away */
};

/*
 * Anybody who can reach the port can open connections. A connection leaves the strangers' pool when it has sent a
 * whole request that authenticated it; from then on no stranger can take its place.
 */
enum connection_pool {
	POOL_STRANGERS,
	POOL_KNOWN,
	POOLS,
};

struct connection {
	TAILQ_ENTRY(connection) link;
	struct http *http;
	enum connection_pool pool;
	struct transport *transport;	/* while shaking hands; then NULL */
	struct event *ready;		/* its socket, as long */
	struct turnstile_place turn;
	struct bufferevent *peer;	/* then */
	struct event *deadline;
	enum connection_state state;
	bool first;		/* no request has been answered yet */
	bool last;		/* the answer being written is */
};

struct http {
	struct http_config config;
	struct pool {
		unsigned count;
		/* Strangers as they came; of the known the one that was active last is last. */
		TAILQ_HEAD(connections, connection) list;
	} pool[POOLS];
};

static void leave_pool(struct connection *connection)
{
	struct pool *pool = &connection->http->pool[connection->pool];

	TAILQ_REMOVE(&pool->list, connection, link);
	pool->count--;
}

static void join_pool(struct connection *connection, enum connection_pool which)
{
	struct pool *pool = &connection->http->pool[which];

	connection->pool = which;
	TAILQ_INSERT_TAIL(&pool->list, connection, link);
	pool->count++;
}

static void connection_free(struct connection *connection)
{
	turnstile_leave(connection->http->config.turnstile, &connection->turn);
	if (connection->ready)
		event_free(connection->ready);
	if (connection->deadline)
		event_free(connection->deadline);
	if (connection->peer)
		bufferevent_free(connection->peer);
	transport_destroy(connection->transport);
	free(connection);
}

static void connection_destroy(struct connection *connection)
{
	leave_pool(connection);
	connection_free(connection);
}

static void enter(struct connection *connection, enum connection_state state, uint64_t ns)
{
	struct timeval in = {.tv_sec = (time_t)(ns / NS_PER_S),
			     .tv_usec = (suseconds_t)(ns % NS_PER_S / 1000)};

	connection->state = state;
	event_add(connection->deadline, &in);
	if (connection->pool == POOL_KNOWN) {
		leave_pool(connection);
		join_pool(connection, POOL_KNOWN);
	}
}

static void on_deadline(evutil_socket_t fd, short what, void *context)
{
	struct connection *connection = context;

	(void)fd, (void)what;
	if (connection->state == CONNECTION_SHAKING || connection->state == CONNECTION_READING ||
	    connection->state == CONNECTION_WRITING || (connection->state == CONNECTION_IDLE && connection->first))
		counter_add(COUNTER_http_refused, 1);
	connection_destroy(connection);
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Among strangers the oldest goes, whatever it is at: it has had the longest time. */
static void make_room_for_stranger(struct http *http)
{
	if (http->pool[POOL_STRANGERS].count < HTTP_STRANGERS_MAX)
		return;
	counter_add(COUNTER_http_refused, 1);
	connection_destroy(TAILQ_FIRST(&http->pool[POOL_STRANGERS].list));
}

/* Among the known one goes that is between two requests, or done; one at work is left alone. */
static bool make_room_for_known(struct http *http)
{
	struct connection *connection;

	if (http->pool[POOL_KNOWN].count < HTTP_CONNECTIONS_MAX)
		return true;
	TAILQ_FOREACH(connection, &http->pool[POOL_KNOWN].list, link)
		if (connection->state == CONNECTION_IDLE ||
		    connection->state == CONNECTION_LINGERING) {
			counter_add(COUNTER_http_refused, 1);
			connection_destroy(connection);
			return true;
		}
	return false;
}

/* Without room it stays among the strangers: it is answered as well, and may be the next to be closed. */
static void make_known(struct connection *connection)
{
	if (connection->pool == POOL_KNOWN || !make_room_for_known(connection->http))
		return;
	leave_pool(connection);
	join_pool(connection, POOL_KNOWN);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static const char *status_text(int status)
{
	switch (status) {
	case 200:	return "OK";
	case 400:	return "Bad Request";
	case 401:	return "Unauthorized";
	case 403:	return "Forbidden";
	case 404:	return "Not Found";
	case 405:	return "Method Not Allowed";
	case 413:	return "Content Too Large";
	case 421:	return "Misdirected Request";
	case 431:	return "Request Header Fields Too Large";
	case 501:	return "Not Implemented";
	case 503:	return "Service Unavailable";
	case 505:	return "HTTP Version Not Supported";
	default:	return "Internal Server Error";
	}
}

/* Nothing here is to be framed, sniffed, kept or told to others. */
#define SECURITY_FIELDS \
	"X-Content-Type-Options: nosniff\r\n" \
	"Referrer-Policy: no-referrer\r\n" \
	"Cross-Origin-Resource-Policy: same-origin\r\n" \
	"Cross-Origin-Opener-Policy: same-origin\r\n" \
	"Cache-Control: no-store\r\n"

static void send_answer(struct connection *connection, const struct http_answer *answer, bool head)
{
	struct evbuffer *output = bufferevent_get_output(connection->peer);

	counter_add(COUNTER_http_requests, 1);
	evbuffer_add_printf(output,
			    "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s%s%s\r\n",
			    answer->status, status_text(answer->status), answer->type,
			    evbuffer_get_length(answer->body),
			    connection->last ? "Connection: close\r\n" : "",
			    answer->field ? answer->field : "", SECURITY_FIELDS);
	if (!head)
		evbuffer_add_buffer(output, answer->body);
	connection->first = false;
	bufferevent_disable(connection->peer, EV_READ);
	enter(connection, CONNECTION_WRITING, HTTP_WRITE_NS);
}

/* What is wrong with the request itself: no other is waited for. */
static void refuse(struct connection *connection, struct http_answer *answer, int status)
{
	connection->last = true;
	answer->status = status;
	answer->type = "text/plain; charset=utf-8";
	answer->field = NULL;
	evbuffer_add_printf(answer->body, "%d %s\n", status, status_text(status));
}

static int refusal_of(enum http_parse got, const struct http_request *request)
{
	switch (got) {
	case HTTP_BAD:		return 400;
	case HTTP_TOO_LONG:	return 431;
	case HTTP_VERSION:	return 505;
	case HTTP_CODING:	return 501;
	default:		return request->has_body ? 413 : 0;
	}
}

static void answer_request(struct connection *connection, enum http_parse got,
			   const struct http_request *request)
{
	struct http_config *config = &connection->http->config;
	struct http_answer answer = {.status = 200, .body = evbuffer_new()};
	int status = refusal_of(got, request);

	if (!answer.body) {
		connection_destroy(connection);
		return;
	}
	connection->last = !request->keep_alive;
	if (got == HTTP_OK && request->method == HTTP_OTHER) {
		refuse(connection, &answer, 405);
		answer.field = "Allow: GET, HEAD\r\n";
	} else if (status) {
		refuse(connection, &answer, status);
	} else {
		config->handle(config->context, request, connection->peer, &answer);
		if (answer.admitted)
			make_known(connection);
	}
	send_answer(connection, &answer, request->method == HTTP_HEAD);
	evbuffer_free(answer.body);
}

/* ---- The peer -------------------------------------------------------------------------------- */

static void on_read(struct bufferevent *peer, void *context)
{
	struct connection *connection = context;
	struct evbuffer *input = bufferevent_get_input(peer);
	size_t bytes = evbuffer_get_length(input), used = 0;
	struct http_request request;
	const unsigned char *head;
	enum http_parse got;

	if (connection->state == CONNECTION_LINGERING) {
		evbuffer_drain(input, bytes);
		return;
	}
	if (connection->state == CONNECTION_WRITING || !bytes)
		return;
	if (connection->state == CONNECTION_IDLE && !connection->first)
		enter(connection, CONNECTION_READING, HTTP_HEAD_NS);
	connection->state = CONNECTION_READING;
	if (bytes > HTTP_HEAD_BYTES_MAX)
		bytes = HTTP_HEAD_BYTES_MAX;
	head = evbuffer_pullup(input, (ssize_t)bytes);
	if (!head) {	/* out of memory */
		connection_destroy(connection);
		return;
	}
	got = http_request_parse((const char *)head, bytes, &request, &used);
	if (got == HTTP_MORE && bytes < HTTP_HEAD_BYTES_MAX)
		return;
	if (got == HTTP_MORE)
		got = HTTP_TOO_LONG;
	evbuffer_drain(input, got == HTTP_OK ? used : evbuffer_get_length(input));
	answer_request(connection, got, &request);
}

/* The answer is out. A peer that is still sending must not lose it to a reset. */
static void on_written(struct bufferevent *peer, void *context)
{
	struct connection *connection = context;

	if (connection->state != CONNECTION_WRITING)
		return;
	bufferevent_enable(peer, EV_READ);
	if (connection->last) {
		enter(connection, CONNECTION_LINGERING, HTTP_LINGER_NS);
		shutdown(bufferevent_getfd(peer), SHUT_WR);
		on_read(peer, connection);
		return;
	}
	enter(connection, CONNECTION_IDLE, HTTP_IDLE_NS);
	on_read(peer, connection);
}

static void on_event(struct bufferevent *peer, short what, void *context)
{
	(void)peer;
	if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR | BEV_EVENT_TIMEOUT))
		connection_destroy(context);
}

/* ---- Coming and going ------------------------------------------------------------------------ */

/* Hands are shaken, or need not be: from now on it is about requests. Takes over `peer`. */
static void open_for_requests(struct connection *connection, struct bufferevent *peer)
{
	connection->peer = peer;
	connection->state = CONNECTION_IDLE;
	bufferevent_setcb(peer, on_read, on_written, on_event, connection);
	/* One head more than can be answered is never taken from the socket. */
	bufferevent_setwatermark(peer, EV_READ, 0, HTTP_HEAD_BYTES_MAX);
	bufferevent_enable(peer, EV_READ | EV_WRITE);
}

static void wait_for_socket(struct connection *connection, short what)
{
	event_assign(connection->ready, connection->http->config.base, connection->transport->fd,
		     what, event_get_callback(connection->ready), connection);
	event_add(connection->ready, NULL);
}

/* Its turn. */
static void shake_hands(void *context)
{
	struct connection *connection = context;
	struct transport *transport = connection->transport;
	struct bufferevent *peer = NULL;
	struct error error;
	int err = transport_handshake(transport, &error);

	if (err == -EAGAIN) {
		wait_for_socket(connection, transport->wanted);
		return;
	}
	if (!err) {
		connection->transport = NULL;
		peer = transport_tls_bufferevent(transport, connection->http->config.base);
	}
	if (peer) {
		open_for_requests(connection, peer);
		return;
	}
	counter_add(COUNTER_http_refused, 1);
	connection_destroy(connection);
}

static void on_ready(evutil_socket_t fd, short what, void *context)
{
	struct connection *connection = context;

	(void)fd, (void)what;
	turnstile_join(connection->http->config.turnstile, &connection->turn);
}

/* What it takes to begin. False: out of memory; fd is taken over all the same. */
static bool begin(struct connection *connection, int fd)
{
	const struct http_config *config = &connection->http->config;
	struct bufferevent *peer;

	connection->deadline = evtimer_new(config->base, on_deadline, connection);
	if (config->tls) {
		connection->transport = transport_tls_create(config->tls, fd);
		connection->ready = event_new(config->base, fd, EV_READ, on_ready, connection);
		return connection->deadline && connection->transport && connection->ready &&
		       event_add(connection->ready, NULL) == 0;
	}
	peer = bufferevent_socket_new(config->base, fd, BEV_OPT_CLOSE_ON_FREE);
	if (peer)
		open_for_requests(connection, peer);
	else
		close(fd);
	return connection->deadline && peer;
}

void http_accept(void *context, int fd, const char *peer)
{
	struct http *http = context;
	struct connection *connection;

	(void)peer;
	make_room_for_stranger(http);
	connection = calloc(1, sizeof(*connection));
	if (!connection) {
		close(fd);
		return;
	}
	connection->http = http;
	connection->first = true;
	connection->turn = (struct turnstile_place){.go = shake_hands, .context = connection};
	if (!begin(connection, fd)) {
		connection_free(connection);
		return;
	}
	join_pool(connection, POOL_STRANGERS);
	enter(connection, connection->state, HTTP_HEAD_NS);
}

struct http *http_create(const struct http_config *config)
{
	struct http *http = calloc(1, sizeof(*http));

	if (!http)
		return NULL;
	http->config = *config;
	for (unsigned i = 0; i < POOLS; i++)
		TAILQ_INIT(&http->pool[i].list);
	return http;
}

void http_destroy(struct http *http)
{
	struct connection *connection;

	if (!http)
		return;
	for (unsigned i = 0; i < POOLS; i++)
		while ((connection = TAILQ_FIRST(&http->pool[i].list)))
			connection_destroy(connection);
	free(http);
}
