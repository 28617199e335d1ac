/* transport_plain: a socket as it is. See transport.h. */
#include <errno.h>
#include <event2/event.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/net/transport.h"

static int plain_handshake(struct transport *transport, struct error *error)
{
	(void)transport, (void)error;
	return 0;
}

/* It never has to: hands are shaken from the start. */
static bool plain_turn_away(struct transport *transport)
{
	(void)transport;
	return false;
}

static ssize_t plain_read(struct transport *transport, void *bytes, size_t n)
{
	ssize_t got = recv(transport->fd, bytes, n, MSG_DONTWAIT);

	if (got >= 0)
		return got;
	transport->wanted = EV_READ;
	return errno == EINTR ? -EAGAIN : -errno;
}

static ssize_t plain_write(struct transport *transport, const struct iovec *iov, unsigned n)
{
	struct msghdr message = {.msg_iov = (struct iovec *)iov, .msg_iovlen = n};
	ssize_t sent;

	if (!n)
		return 0;
	sent = sendmsg(transport->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (sent >= 0)
		return sent;
	transport->wanted = EV_WRITE;
	return errno == EINTR ? -EAGAIN : -errno;
}

static bool plain_pending(const struct transport *transport)
{
	(void)transport;
	return false;
}

static void plain_shutdown(struct transport *transport)
{
	shutdown(transport->fd, SHUT_WR);
}

static void plain_destroy(struct transport *transport)
{
	close(transport->fd);
	free(transport);
}

struct transport *transport_plain_create(int fd)
{
	static const struct transport_ops ops = {
		.handshake = plain_handshake,
		.turn_away = plain_turn_away,
		.read = plain_read,
		.write = plain_write,
		.pending = plain_pending,
		.unsent = plain_pending,
		.shutdown = plain_shutdown,
		.destroy = plain_destroy,
	};
	struct transport *transport = malloc(sizeof(*transport));

	if (!transport) {
		close(fd);
		return NULL;
	}
	*transport = (struct transport){.ops = &ops, .fd = fd, .wanted = EV_READ};
	return transport;
}
