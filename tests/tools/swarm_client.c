/* swarm's clients: what one says, in each mode, and how it comes and goes. */
#include "tests/tools/swarm.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "proto/ringtail.pb-c.h"

#define TURN_BYTES	(1 << 16)
#define ASK_AGAIN_NS	10000000000ull	/* a connected client's next question */
#define STALL_RECEIVE_BYTES 4096

static uint8_t request[8192];		/* what each says first */
static size_t request_bytes;
static uint8_t question[256];		/* and a connected one again and again */
static size_t question_bytes;

/* ---- What it says ---------------------------------------------------------------------------- */

static size_t put_frame(uint8_t *to, size_t room, enum frame_type type,
			const ProtobufCMessage *message)
{
	uint8_t raw[8192], sealed[sizeof(raw) + 1024];
	size_t bytes = protobuf_c_message_get_packed_size(message);

	if (bytes > sizeof(raw) || frame_bound((uint32_t)bytes) > sizeof(sealed)) {
		errno = E2BIG;
		die("request");
	}
	protobuf_c_message_pack(message, raw);
	bytes = frame_seal(codec, type, raw, (uint32_t)bytes, sealed);
	if (bytes > room) {
		errno = E2BIG;
		die("request");
	}
	memcpy(to, sealed, bytes);
	return bytes;
}

void client_make_requests(void)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;
	Ringtail__V1__Subscribe subscribe = RINGTAIL__V1__SUBSCRIBE__INIT;
	Ringtail__V1__ListRequest list = RINGTAIL__V1__LIST_REQUEST__INIT;
	static const uint8_t tls[] = {0x16, 0x03, 0x01, 0x02, 0x00, 0x01,
				      0x00, 0x01, 0xfc, 0x03, 0x03};
	char software[] = "swarm";

	if (options.tls) {
		memcpy(request, tls, sizeof(tls));
		request_bytes = sizeof(tls) + 0x1fc;
		return;
	}
	hello.version_min = hello.version_max = FRAME_VERSION;
	hello.software = software;
	request_bytes = put_frame(request, sizeof(request), FRAME_CLIENT_HELLO, &hello.base);
	list.glob = options.probe;
	question_bytes = put_frame(question, sizeof(question), FRAME_LIST, &list.base);
	subscribe.n_probe = 1;
	subscribe.probe = &options.probe;
	subscribe.filter = (char *)options.filter;
	if (options.mode == CONNECTED) {
		memcpy(request + request_bytes, question, question_bytes);
		request_bytes += question_bytes;
	} else if (options.mode != SLOWLORIS) {
		request_bytes += put_frame(request + request_bytes, sizeof(request) - request_bytes,
					   FRAME_SUBSCRIBE, &subscribe.base);
	}
}

void client_wait_for(struct client *client, bool readable, bool writable)
{
	struct epoll_event event = {.data.u64 = (uint64_t)(client - clients),
				    .events = (readable ? EPOLLIN : 0u) |
					      (writable ? EPOLLOUT : 0u)};

	if (epoll_ctl(poll_fd, EPOLL_CTL_MOD, client->fd, &event))
		die("epoll_ctl");
}

/* Gone; back after a moment. */
static void leave(struct client *client, uint64_t after_ns)
{
	struct linger abrupt = {.l_onoff = 1};

	/* Strangers would run out of ports that wait for the end of a connection. */
	if (options.mode == RESET || options.mode == STRANGERS)
		setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &abrupt, sizeof(abrupt));
	close(client->fd);
	client->fd = -1;
	client->state = AWAY;
	client->due_ns = options.mode == STRANGERS ? stranger_next(client) : now_ns() + after_ns;
}

static void say(struct client *client)
{
	size_t bytes = request_bytes - client->said;
	ssize_t n;

	if (options.mode == TRICKLE || options.mode == SLOWLORIS)
		bytes = 1;
	if (options.mode == RESET && client->break_at < request_bytes)
		bytes = client->break_at - client->said;
	n = bytes ? send(client->fd, request + client->said, bytes, MSG_NOSIGNAL) : 0;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n < 0) {
		counts.closed++;
		leave(client, RETRY_NS);
		return;
	}
	client->said += (size_t)n;
	if (options.mode == RESET && client->said == client->break_at) {
		counts.broken_off++;
		leave(client, 0);
	} else if (options.mode == SLOWLORIS) {
		/* The last byte never comes. */
		client->due_ns = client->said + 1 < request_bytes ? now_ns() + options.hold_ns : 0;
		client_wait_for(client, true, false);
	} else if (client->said == request_bytes) {
		client_wait_for(client, true, false);
	}
}

/* ---- What it hears, which swarm_stream.c takes apart ----------------------------------------- */

static void hear(struct client *client)
{
	size_t turn = 0, bytes;
	ssize_t n;

	while (turn < TURN_BYTES && client->fd >= 0) {
		if (!stream_make_room(client))
			die("memory");
		bytes = client->input_capacity - client->input_bytes;
		if (options.mode == TRICKLE)
			bytes = 1;
		if (options.mode == RESET && client->break_at > request_bytes &&
		    bytes > client->break_at - request_bytes - client->heard)
			bytes = client->break_at - request_bytes - client->heard;
		n = recv(client->fd, client->input + client->input_bytes, bytes, 0);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		if (n <= 0) {
			counts.closed++;
			leave(client, RETRY_NS);
			return;
		}
		client->input_bytes += (size_t)n;
		client->heard += (size_t)n;
		counts.heard_bytes += (uint64_t)n;
		turn += options.mode == TRICKLE ? TURN_BYTES / 64 : (size_t)n;
		stream_take_frames(client);
		if (options.mode == RESET && request_bytes + client->heard == client->break_at &&
		    client->fd >= 0) {
			counts.broken_off++;
			leave(client, 0);
		}
		if (options.mode == STALL && client->state == SUBSCRIBED)
			return;
	}
}

/* ---- Coming and going ------------------------------------------------------------------------ */

static void come(struct client *client)
{
	struct epoll_event event = {.events = EPOLLOUT, .data.u64 = (uint64_t)(client - clients)};
	int one = 1, small = STALL_RECEIVE_BYTES;

	client->fd = socket(options.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			    0);
	if (client->fd < 0)
		die("socket");
	if (options.mode == STALL)
		setsockopt(client->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
	if (options.address.ss_family == AF_INET)
		setsockopt(client->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (connect(client->fd, (struct sockaddr *)&options.address, options.address_bytes) != 0 &&
	    errno != EINPROGRESS) {
		leave(client, RETRY_NS);
		return;
	}
	client->state = CONNECTING;
	client->due_ns = 0;
	client->said = client->heard = client->input_bytes = 0;
	/* Half of them while they speak, half while they listen. */
	client->break_at = 1 + random_below(random_below(2) ? request_bytes - 1 :
							      request_bytes + 4096);
	if (client->break_at == request_bytes)
		client->break_at++;
	if (epoll_ctl(poll_fd, EPOLL_CTL_ADD, client->fd, &event))
		die("epoll_ctl");
}

static void on_connected(struct client *client)
{
	socklen_t bytes = sizeof(int);
	int err = 0;

	getsockopt(client->fd, SOL_SOCKET, SO_ERROR, &err, &bytes);
	if (err) {
		leave(client, RETRY_NS);
		return;
	}
	counts.came++;
	client->state = TALKING;
	if (options.mode == CONNECTED)
		client->due_ns = now_ns() + ASK_AGAIN_NS;
	if (options.mode == STRANGERS)
		client->due_ns = client->next_ns + 1000000000ull * options.clients / options.rate;
	client_wait_for(client, true, true);
}

void client_on_due(struct client *client)
{
	client->due_ns = 0;
	if (client->state == AWAY) {
		come(client);
	} else if (options.mode == SLOWLORIS) {
		say(client);
	} else if (options.mode == STRANGERS) {
		counts.broken_off++;
		leave(client, 0);
		if (client->due_ns <= now_ns())
			client_on_due(client);
	} else if (options.mode == STORM) {
		counts.broken_off++;
		leave(client, 0);
	} else if (options.mode == CONNECTED) {
		if (send(client->fd, question, question_bytes, MSG_NOSIGNAL) < 0 &&
		    errno != EAGAIN) {
			counts.closed++;
			leave(client, RETRY_NS);
			return;
		}
		client->due_ns = now_ns() + ASK_AGAIN_NS;
	}
}

void client_on_ready(struct client *client, uint32_t events)
{
	if (client->state == CONNECTING)
		on_connected(client);
	if (options.mode == STRANGERS && client->fd >= 0) {
		if (!stranger_on_ready(client)) {
			counts.closed++;
			leave(client, 0);
		}
		return;
	}
	if (client->fd >= 0 && events & EPOLLOUT && client->said < request_bytes)
		say(client);
	if (client->fd >= 0 && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		hear(client);
}
