/*
 * server: all connected clients.
 *
 * In: sockets from the listeners. Out: sessions, for whom the gate lets in, which are answered from
 * answers, fanout and control. Main thread.
 *
 * A client is pending until its hello is accepted, then served. Neither those that never say who
 * they are nor those that are refused take a place of those that are served.
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
	uint64_t relay_interval_ns;	/* between two times that a relay gets what was recorded */
	bool insecure;			/* tcp on loopback is plain */
};

struct server_config {
	struct event_base *base;
	struct answers *answers;
	struct gate *gate;
	struct control *control;
	struct frame_codec *codec;
	struct turnstile *turnstile;	/* where handshakes in TLS wait; NULL: they do not */
	struct server_bounds bounds;
	struct dumps *dumps;		/* with the disk thread; NULL: there is no state directory */
	struct disk_thread *disk_thread;

	/* Its relay has left, or was refused. NULL: none is dialled. */
	void (*relay_left)(void *context);
	void *context;
	enum role relay_role;
};

/* What a configuration says of them. */
struct server_bounds server_bounds_of(const struct config *config);

struct server *server_create(const struct server_config *config);

/* Ends every session. NULL is safe. */
void server_destroy(struct server *server);

/* A listener_accepted: fd came in at that address. */
void server_accept(void *server, int fd, const struct address *address, const char *peer);

/* How a client came, and so how it is to prove who it is. */
enum server_door {
	SERVER_UNIX,
	SERVER_PLAIN,
	SERVER_TLS,
	SERVER_RELAY,		/* this daemon has dialled it */
};

/* The same with its transport made, which is taken over. */
void server_serve(struct server *server, enum server_door door, struct transport *transport,
		  const char *peer);

/* How the daemon stands, with its clients; for daemon_stat_free(). NULL: out of memory. */
struct daemon_stat *server_stat(void *server);

/* The same as clients get it; NULL: out of memory, or too large. */
struct frame_ref *server_stat_frame(void *server);

/* Probes that clients wait for were made: see fanout_config.made. */
void server_made(struct server *server);

/* Writes what can be written; true once no client has anything left to take. */
bool server_flush(struct server *server);

/* After a reload: new bounds, and everybody's role judged anew. */
void server_set_bounds(struct server *server, const struct server_bounds *bounds);

#endif
