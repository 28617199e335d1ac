/*
 * transport_tls: TLS 1.3 for everybody who listens: our certificate and key, and the authority whose
 * clients' certificates we believe. In: these files, connected sockets; out: transports, and who is at
 * their other end. Main thread.
 *
 * A context is shared by all sockets. A reload gives it new files; connections made before go on as
 * they are. No older version, no compression, no tickets and no early data: each connection proves
 * itself anew.
 */
#ifndef RINGTAIL_DAEMON_NET_TRANSPORT_TLS_H
#define RINGTAIL_DAEMON_NET_TRANSPORT_TLS_H

#include <event2/bufferevent.h>
#include <event2/event.h>

#include "query/error.h"
#include "daemon/host/identity.h"
#include "daemon/net/transport.h"

struct transport_tls_context;

struct transport_tls_files {
	const char *cert;	/* PEM: our certificate, then its chain */
	const char *key;	/* PEM; nobody but us, root and our group may be able to read it */
	const char *client_ca;	/* PEM; NULL: clients have no certificates */
	bool cert_optional;	/* one without a certificate may show a token instead */
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

/* Tells a client that came for TLS, and was answered nothing yet, that there is no room for it. The
 * socket is the caller's. */
void transport_tls_turn_away(int fd);

/* After the handshake: who that is by its certificate, IDENTITY_UNPROVED without one. -EACCES with
 * *error if the certificate's name is none. */
int transport_tls_identity(const struct transport *transport, struct client_identity *identity,
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
