/*
 * transport: a connected stream socket, as it is or inside TLS, behind one table of operations. In: a connected
 * socket, and for TLS our files; out: its bytes, both ways, and who is at the other end. Nothing here blocks. Main
 * thread.
 *
 * Where an operation returns -EAGAIN, `wanted` says what the socket must become first: EV_READ or
 * EV_WRITE. TLS may have to write in order to read, and the other way round.
 */
#ifndef RINGTAIL_DAEMON_NET_TRANSPORT_H
#define RINGTAIL_DAEMON_NET_TRANSPORT_H

#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "daemon/host/identity.h"
#include "query/error.h"

struct transport;

struct transport_ops {
	/* 0 once both sides may speak; -EAGAIN; -errno with *error: then only read() and destroy()
	 * make sense, so that the other side gets to read why before the socket is closed. */
	int (*handshake)(struct transport *transport, struct error *error);

	/* For a client that is refused before its handshake has ended. True: nothing had been sent to it yet, and
	 * now an alert, that there is no room. */
	bool (*turn_away)(struct transport *transport);

	/* As readv(2) and writev(2), but -errno instead of errno. What write() has taken is never to
	 * be given again, though it may not have left yet: see unsent(). */
	ssize_t (*read)(struct transport *transport, void *bytes, size_t n);
	ssize_t (*write)(struct transport *transport, const struct iovec *iov, unsigned n);

	/* Bytes that were received from the socket and not yet read: no event follows for them. */
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

/* Has the kernel probe a silent peer: if the peer has died or cannot be reached, the connection ends within about two
 * minutes. Also sends small frames at once. */
void transport_keep_alive(int fd);

/* NULL is safe. */
static inline void transport_destroy(struct transport *transport)
{
	if (transport)
		transport->ops->destroy(transport);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

/*
 * TLS 1.3 for listeners: the daemon's certificate and key, and the authority whose clients' certificates are
 * trusted.
 *
 * A context is shared by all sockets. A reload gives it new files; connections made before go on as
 * they are. No older version, no compression, no tickets and no early data: each connection proves
 * itself anew.
 */
struct transport_tls_context;

struct transport_tls_files {
	const char *cert;	/* PEM: our certificate, then its chain */
	const char *key;	/* PEM; nobody but us, root and our group may be able to read it */
	const char *client_ca;	/* PEM; NULL: clients have no certificates */
	bool cert_optional;	/* one without a certificate may show a token instead */
	const char *client_crl;	/* PEM: certificates that client_ca has revoked; NULL: none */
};

/* 0, or -errno with *error: which file, what is wrong with it, and what to do. Warns in the log of a
 * certificate that has expired or is about to. */
int transport_tls_context_create(const struct transport_tls_files *files,
				 struct transport_tls_context **context, struct error *error);

/* When our certificate expires, in seconds since 1970. */
int64_t transport_tls_context_expires(const struct transport_tls_context *context);

/* For connections from now on, `context` takes what `next` has; `next` is destroyed. */
void transport_tls_context_swap(struct transport_tls_context *context,
				struct transport_tls_context *next);

/* NULL is safe. Connections that use it go on. */
void transport_tls_context_destroy(struct transport_tls_context *context);

/* Takes over fd, as transport_plain_create(). The server's side. */
struct transport *transport_tls_create(struct transport_tls_context *context, int fd);

/*
 * For connections that the daemon dials: its certificate and key, and in client_ca the authority whose servers'
 * certificates are trusted. The same otherwise.
 */
int transport_tls_dial_context_create(const struct transport_tls_files *files,
				      struct transport_tls_context **context, struct error *error);

/* Takes over fd, as transport_plain_create(). The client's side: the server has to prove `name`, which may be
 * a number. *error says why not. */
int transport_tls_dial(struct transport_tls_context *context, int fd, const char *name,
		       struct transport **transport, struct error *error);

/* What comes next, which stays to be read: as transport_read(), with *error where the other side refused us. */
ssize_t transport_tls_peek(struct transport *transport, void *bytes, size_t n, struct error *error);

/* Tells a client that came for TLS, and was answered nothing yet, that there is no room for it. The
 * socket is the caller's. */
void transport_tls_turn_away(int fd);

/* After the handshake: the identity that the peer's certificate proves; IDENTITY_UNPROVED without a certificate.
 * -EACCES with *error if the certificate has no usable name. */
int transport_tls_identity(const struct transport *transport, struct client_identity *identity,
			   struct error *error);

/* Whether the certificate that was shown is on the context's lists as they are now. -EACCES with *error: it is. Context
 * NULL: there is no list. */
int transport_tls_check_revoked(const struct transport_tls_context *context, const struct transport *transport,
				struct error *error);

/* For the HTTP server: once hands are shaken, a bufferevent that takes the transport's place. NULL: out
 * of memory, and the transport is destroyed. */
struct bufferevent *transport_tls_bufferevent(struct transport *transport,
					      struct event_base *base);

/* As transport_tls_identity(), of a bufferevent that transport_tls_bufferevent() made. */
int transport_tls_bufferevent_identity(struct bufferevent *bufferevent,
				       struct client_identity *identity, struct error *error);

/*
 * The name in a DER certificate: its subject's one common name, by identity_is_name(). Whether the
 * certificate is to be believed is not looked at. -EACCES with *error.
 */
int transport_tls_name_of(const uint8_t *der, size_t bytes, char name[IDENTITY_NAME_BYTES],
			  struct error *error);

#endif
