/*
 * transport: a connected stream socket, as it is (transport_plain.c) or inside TLS
 * (transport_tls.c), behind one table of operations. In: a connected socket; out: its bytes, both ways.
 * Nothing here blocks. Main thread.
 *
 * Where an operation returns -EAGAIN, `wanted` says what the socket must become first: EV_READ or
 * EV_WRITE. TLS may have to write in order to read, and the other way round.
 */
#ifndef RINGTAIL_DAEMON_NET_TRANSPORT_H
#define RINGTAIL_DAEMON_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "query/error.h"

struct transport;

struct transport_ops {
	/* 0 once both sides may speak; -EAGAIN; -errno with *error: then only read() and destroy()
	 * make sense, so that the other side gets to read why before the socket is closed. */
	int (*handshake)(struct transport *transport, struct error *error);

	/* For one that has to go before it has shaken hands: tells it that there is no room, and is
	 * true, where nothing was said to it yet. */
	bool (*turn_away)(struct transport *transport);

	/* As readv(2) and writev(2), but -errno instead of errno. What write() has taken is never to
	 * be given again, though it may not have left yet: see unsent(). */
	ssize_t (*read)(struct transport *transport, void *bytes, size_t n);
	ssize_t (*write)(struct transport *transport, const struct iovec *iov, unsigned n);

	/* Bytes that were taken off the socket and not yet read: no event will tell of them. */
	bool (*pending)(const struct transport *transport);

	/* Something that write() has taken is not on the socket yet: write() with n of 0 tries. */
	bool (*unsent)(const struct transport *transport);

	/* No more will be written; the other side may still speak. */
	void (*shutdown)(struct transport *transport);

	/* Closes the socket. */
	void (*destroy)(struct transport *transport);
};

struct transport {
	const struct transport_ops *ops;
	int fd;
	short wanted;
	bool shakes;		/* hands: that takes time, and something from the other side first */
};

/* Takes over fd, a connected nonblocking socket. NULL: out of memory, fd is closed. */
struct transport *transport_plain_create(int fd);

static inline int transport_handshake(struct transport *transport, struct error *error)
{
	return transport->ops->handshake(transport, error);
}

static inline bool transport_turn_away(struct transport *transport)
{
	return transport->ops->turn_away(transport);
}

static inline ssize_t transport_read(struct transport *transport, void *bytes, size_t n)
{
	return transport->ops->read(transport, bytes, n);
}

static inline ssize_t transport_write(struct transport *transport, const struct iovec *iov,
				      unsigned n)
{
	return transport->ops->write(transport, iov, n);
}

static inline bool transport_pending(const struct transport *transport)
{
	return transport->ops->pending(transport);
}

static inline bool transport_unsent(const struct transport *transport)
{
	return transport->ops->unsent(transport);
}

static inline void transport_shutdown(struct transport *transport)
{
	transport->ops->shutdown(transport);
}

/* NULL is safe. */
static inline void transport_destroy(struct transport *transport)
{
	if (transport)
		transport->ops->destroy(transport);
}

#endif
