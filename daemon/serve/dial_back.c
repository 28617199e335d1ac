#include "daemon/serve/dial_back.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/net/address.h"
#include "daemon/net/transport.h"
#include "proto/frame.h"
#include "proto/ringtail.pb-c.h"

struct dial_back {
	LIST_ENTRY(dial_back) link;
	struct dial_backs *backs;
	enum {
		BACK_CONNECTING,
		BACK_SHAKING,
		BACK_GREETING,
	} state;
	int fd;				/* without a transport yet; -1: none */
	struct transport_tls_context *tls;
	struct transport *transport;
	struct event *readable, *writable, *timeout;
	struct frame_ref *hello;
	size_t sent;			/* of it */
	char host[ADDRESS_TEXT_BYTES], text[ADDRESS_TEXT_BYTES];
	char client[IDENTITY_TEXT_BYTES];
};

struct dial_backs {
	struct dial_backs_config config;
	LIST_HEAD(dial_back_list, dial_back) list;
	unsigned count;
};

/* ---- The end of one ---------------------------------------------------------------------------- */

static void free_back(struct dial_back *back)
{
	LIST_REMOVE(back, link);
	back->backs->count--;
	if (back->readable)
		event_free(back->readable);
	if (back->writable)
		event_free(back->writable);
	if (back->timeout)
		event_free(back->timeout);
	if (back->fd >= 0)
		close(back->fd);
	transport_destroy(back->transport);
	transport_tls_context_destroy(back->tls);
	frame_ref_put(back->hello);
	free(back);
}

static void fail(struct dial_back *back, const char *what)
{
	counter_add(COUNTER_dials_refused, 1);
	log_warn("dial-failed", "cannot dial the relay %s for its client %s: %s", back->text, back->client, what);
	free_back(back);
}

/* From here on the client speaks. */
static void hand_over(struct dial_back *back)
{
	struct server *server = back->backs->config.server;
	struct transport *transport = back->transport;
	char text[ADDRESS_TEXT_BYTES], client[IDENTITY_TEXT_BYTES];

	back->transport = NULL;
	snprintf(text, sizeof(text), "%s", back->text);
	snprintf(client, sizeof(client), "%s", back->client);
	free_back(back);
	log_info("dialled-for-client", "connected to the relay %s, for its client %s", text, client);
	server_serve_through(server, transport, text, client);
}

/* ---- Turns --------------------------------------------------------------------------------------- */

static void wait_for(struct dial_back *back, short what)
{
	event_add(what == EV_WRITE ? back->writable : back->readable, NULL);
}

static void greet(struct dial_back *back)
{
	struct iovec rest = {.iov_base = back->hello->data + back->sent, .iov_len = back->hello->bytes - back->sent};
	ssize_t n = transport_write(back->transport, &rest, rest.iov_len ? 1 : 0);

	if (n == -EAGAIN) {
		wait_for(back, back->transport->wanted);
		return;
	}
	if (n < 0) {
		fail(back, strerror((int)-n));
		return;
	}
	back->sent += (size_t)n;
	if (back->sent < back->hello->bytes || transport_unsent(back->transport))
		wait_for(back, EV_WRITE);
	else
		hand_over(back);
}

static void shake_hands(struct dial_back *back)
{
	struct error error = {0};
	int err = transport_handshake(back->transport, &error);

	if (err == -EAGAIN) {
		wait_for(back, back->transport->wanted);
	} else if (err) {
		fail(back, error.what);
	} else {
		back->state = BACK_GREETING;
		greet(back);
	}
}

static void begin_tls(struct dial_back *back)
{
	const struct config *config = back->backs->config.config;
	const struct transport_tls_files files = {.cert = config->tls_cert, .key = config->tls_key,
						  .client_ca = config->relay_ca};
	struct error error = {0};
	int fd = back->fd, err, failure = 0;
	socklen_t bytes = sizeof(failure);

	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &bytes) != 0)
		failure = errno;
	if (failure) {
		fail(back, strerror(failure));
		return;
	}
	err = transport_tls_dial_context_create(&files, &back->tls, &error);
	if (!err) {
		back->fd = -1;
		err = transport_tls_dial(back->tls, fd, back->host, &back->transport, &error);
	}
	if (err) {
		fail(back, error.what);
		return;
	}
	back->state = BACK_SHAKING;
	shake_hands(back);
}

static void on_ready(evutil_socket_t fd, short what, void *context)
{
	struct dial_back *back = context;

	(void)fd, (void)what;
	if (back->state == BACK_CONNECTING)
		begin_tls(back);
	else if (back->state == BACK_SHAKING)
		shake_hands(back);
	else
		greet(back);
}

static void on_timeout(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	fail(context, "no answer in time");
}

/* ---- The beginning ------------------------------------------------------------------------------- */

static struct frame_ref *pack_hello(const struct dial_backs *backs, const uint8_t *token)
{
	Ringtail__V1__AgentHello hello = RINGTAIL__V1__AGENT_HELLO__INIT;

	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = "ringtaild " RINGTAIL_VERSION;
	hello.token = (ProtobufCBinaryData){DIAL_BACK_TOKEN_BYTES, (uint8_t *)token};
	return frame_ref_pack(backs->config.codec, FRAME_AGENT_HELLO, &hello.base);
}

static struct dial_back *create(struct dial_backs *backs, const struct dial_back_request *request)
{
	struct dial_back *back = calloc(1, sizeof(*back));

	if (!back)
		return NULL;
	back->backs = backs;
	LIST_INSERT_HEAD(&backs->list, back, link);
	backs->count++;
	snprintf(back->host, sizeof(back->host), "%s", request->host);
	snprintf(back->text, sizeof(back->text), "%s", request->text);
	snprintf(back->client, sizeof(back->client), "%s", request->client);
	back->fd = socket(request->to->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	back->hello = pack_hello(backs, request->token);
	back->timeout = evtimer_new(backs->config.base, on_timeout, back);
	if (back->fd >= 0) {
		back->readable = event_new(backs->config.base, back->fd, EV_READ, on_ready, back);
		back->writable = event_new(backs->config.base, back->fd, EV_WRITE, on_ready, back);
	}
	if (back->hello && back->timeout && back->readable && back->writable)
		return back;
	free_back(back);
	return NULL;
}

int dial_backs_begin(struct dial_backs *backs, const struct dial_back_request *request, struct error *error)
{
	struct timeval delay = {.tv_sec = BRIDGE_DIAL_NS / NS_PER_S};
	struct dial_back *back;

	if (backs->count >= BRIDGES_HOST_MAX) {
		error_set(error, EBUSY, "too-many-dials", "this host dials its relay for %u clients already",
			  BRIDGES_HOST_MAX);
		error_hint(error, "wait until one of them has ended");
		return -EBUSY;
	}
	back = create(backs, request);
	if (!back)
		return error_set(error, ENOMEM, "out-of-memory", "this host has no memory, or no descriptor, to dial its relay");
	transport_keep_alive(back->fd);
	if (connect(back->fd, request->to, request->to_bytes) != 0 && errno != EINPROGRESS) {
		int err = errno;

		free_back(back);
		return error_set(error, err, "dial-failed", "this host cannot connect to its relay: %s", strerror(err));
	}
	event_add(back->timeout, &delay);
	wait_for(back, EV_WRITE);
	return 0;
}

struct dial_backs *dial_backs_create(const struct dial_backs_config *config)
{
	struct dial_backs *backs = calloc(1, sizeof(*backs));

	if (!backs)
		return NULL;
	backs->config = *config;
	LIST_INIT(&backs->list);
	return backs;
}

void dial_backs_destroy(struct dial_backs *backs)
{
	struct dial_back *back;

	if (!backs)
		return;
	while ((back = LIST_FIRST(&backs->list)))
		free_back(back);
	free(backs);
}
