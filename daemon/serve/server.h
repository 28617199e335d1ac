/*
 * server: all connected clients.
 *
 * In: sockets from the listeners. Out: a session for each client that the gate admits; answers, fanout and control
 * answer its requests. Main thread.
 *
 * A client is pending until its hello is accepted; then it is served. Pending clients have places of their own, so
 * clients that send no hello, or that are refused, take no place of a served client.
 */
#ifndef RINGTAIL_DAEMON_SERVE_SERVER_H
#define RINGTAIL_DAEMON_SERVE_SERVER_H

#include <stdbool.h>

#include "daemon/net/address.h"
#include "daemon/trigger/dumps.h"
#include "daemon/serve/control.h"
#include "daemon/serve/answers.h"
#include "daemon/access/gate.h"
#include "daemon/serve/session.h"

struct server;

struct server_bounds {
	struct session_bounds session;
	unsigned clients_max, pending_max;
	unsigned identity_max;		/* of clients_max, of one identity; 0: no bound */
	uint64_t relay_interval_ns;	/* frames for a relay are sent together after this time */
	uint64_t relay_bandwidth;	/* bytes a second to a relay; 0: any number */
	bool relay_clients;		/* clients of the relay may be served */
	bool insecure;			/* allow plain tcp on loopback */
};

struct server_config {
	struct event_base *base;
	struct answers *answers;
	struct gate *gate;
	struct control *control;
	struct frame_codec *codec;
	struct turnstile *turnstile;	/* where TLS handshakes wait for their turn; NULL: they do not wait */
	struct server_bounds bounds;
	struct dumps *dumps;		/* with the disk thread; NULL: there is no state directory */
	struct disk_thread *disk_thread;

	/* The relay that this daemon dialled has disconnected, or was refused. NULL: the daemon dials none. */
	void (*relay_left)(void *context);

	/* That relay asks to be dialled once more, for a client, with that token. -errno with *error: it is not. NULL: as
	 * relay_left. */
	int (*dial)(void *context, const uint8_t token[16], const char *client, struct error *error);
	void *context;
	enum role relay_role;
};

/* The bounds that a configuration sets. */
struct server_bounds server_bounds_of(const struct config *config);

struct server *server_create(const struct server_config *config);

/* Ends every session. NULL is safe. */
void server_destroy(struct server *server);

/* A listener_accepted: fd is a new connection at that address. */
void server_accept(void *server, int fd, const struct address *address, const char *peer);

/* How a client connected, and so how it authenticates. */
enum server_door {
	SERVER_UNIX,
	SERVER_PLAIN,
	SERVER_TLS,
	SERVER_RELAY,		/* this daemon dialled it */
	SERVER_THROUGH,		/* and dialled it once more, for a client of it */
};

/* The same for a transport that exists already; the server owns it from now on. */
void server_serve(struct server *server, enum server_door door, struct transport *transport,
		  const char *peer);

/* The same for a client of the relay, whom the relay calls so. */
void server_serve_through(struct server *server, struct transport *transport, const char *peer, const char *client);

/* The state of the daemon and its clients; free it by daemon_stat_free(). NULL: out of memory. */
struct daemon_stat *server_stat(void *server);

/* The same as a frame for clients; NULL: out of memory, or too large. */
struct frame_ref *server_stat_frame(void *server);

/* Probes that clients may wait for were made (see fanout_config.made), or a program brings some. */
void server_made(struct server *server);

/* Writes what sockets take. True: nothing is pending for any client. */
bool server_flush(struct server *server);

/* After a reload: sets new bounds, and decides each client's role again. */
void server_set_bounds(struct server *server, const struct server_bounds *bounds);

#endif
