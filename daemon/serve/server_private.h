/* server_private: all clients together, for server*.c alone. */
#ifndef RINGTAIL_DAEMON_SERVE_SERVER_PRIVATE_H
#define RINGTAIL_DAEMON_SERVE_SERVER_PRIVATE_H

#include <sys/queue.h>
#include <sys/resource.h>

#include "daemon/serve/server.h"

/* In the order in which stat tells of them. */
enum client_state {
	CLIENT_SERVED,
	CLIENT_PENDING,
	CLIENT_TURNED_AWAY,	/* beyond pending-max, in the middle of TLS: until it can be told so */
	CLIENT_REFUSED,		/* beyond clients-max, just long enough to be told so */
	CLIENT_STATES,
};

#define ORIGINS 256u	/* users and addresses share so many counts */

struct client {
	TAILQ_ENTRY(client) link;
	enum client_state state;
	enum server_door door;
	uint8_t origin;			/* where it comes from: a user, or an address */
	struct session *session;	/* NULL: being made */
};

TAILQ_HEAD(client_list, client);

struct server {
	struct server_config config;
	struct session_host host;
	struct event *sweep;
	uint64_t sweep_due_ns;
	uint64_t next_id;
	rlim_t descriptors_max;
	unsigned count[CLIENT_STATES];
	unsigned pending_from[ORIGINS];	/* of count[CLIENT_PENDING] */
	uint64_t origin_seed;
	struct client_list list[CLIENT_STATES];		/* each from its oldest */
};

/* Takes its place in the list of its state. */
void server_enlist(struct server *server, struct client *client);
void server_move(struct server *server, struct client *client, enum client_state state);
void server_forget_client(struct server *server, struct client *client);

/* Counts one more, and says why. */
void server_set_full(const struct server *server, struct error *error);

/* ---- server_places.c ------------------------------------------------------------------------- */

/* Of clients-max. */
unsigned server_kept_for_operators(const struct server *server);

/* Whether there is a place for one that was let in; -EBUSY with *error: what is full, and what to do. */
int server_find_place(const struct server *server, const struct client_identity *identity,
		      struct error *error);

uint8_t server_origin_of(const struct server *server, const char *peer);

/* Of those that have not said who they are, the oldest from where most of them come. */
struct client *server_pending_to_go(const struct server *server);

#endif
