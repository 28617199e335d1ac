/*
 * server_places: who may have a place among those served, and who gives one up among those that have not
 * said who they are, so that no one keeps others out. In: sessions, as they are let in; out: yes, or a
 * refusal. Main thread.
 */
#include <errno.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/serve/server_private.h"

/* ---- Those served ------------------------------------------------------------------------------ */

unsigned server_kept_for_operators(const struct server *server)
{
	unsigned part = server->config.bounds.clients_max / OPERATORS_KEPT_PART;

	if (server->config.bounds.clients_max < OPERATORS_KEPT_FROM)
		return 0;
	return part < 1 ? 1 : part < OPERATORS_KEPT_MAX ? part : OPERATORS_KEPT_MAX;
}

static int refuse_identity(const struct client_identity *identity, unsigned has,
			   struct error *error)
{
	counter_add(COUNTER_sessions_refused, 1);
	counter_add(COUNTER_sessions_of_one_refused, 1);
	error_set(error, EBUSY, "too-many-of-identity",
		  "%s has %u connections here, as many as one identity may have", identity->text,
		  has);
	error_hint(error, "close one of them, or raise clients-per-identity");
	return -EBUSY;
}

static int refuse_viewer(const struct server *server, unsigned kept, struct error *error)
{
	counter_add(COUNTER_sessions_refused, 1);
	error_set(error, EBUSY, "too-many-clients", "this daemon serves %u clients at once, and keeps"
		  " %u of these places for operators", server->config.bounds.clients_max, kept);
	error_hint(error, "wait until one leaves, or raise clients-max");
	return -EBUSY;
}

int server_find_place(const struct server *server, const struct client_identity *identity,
		      struct error *error)
{
	unsigned kept = server_kept_for_operators(server), viewers = 0, same = 0;
	const struct server_bounds *bounds = &server->config.bounds;
	const struct client *client;

	TAILQ_FOREACH(client, &server->list[CLIENT_SERVED], link) {
		const struct client_identity *other = session_identity(client->session);

		viewers += other->role != ROLE_OPERATOR;
		same += strcmp(other->text, identity->text) == 0;
	}
	if (server->count[CLIENT_SERVED] >= bounds->clients_max) {
		server_set_full(server, error);
		return -EBUSY;
	}
	if (bounds->identity_max && same >= bounds->identity_max)
		return refuse_identity(identity, same, error);
	if (identity->role != ROLE_OPERATOR && viewers >= bounds->clients_max - kept)
		return refuse_viewer(server, kept, error);
	return 0;
}

/* ---- Those that have not said who they are ------------------------------------------------------- */

/* "unix pid 12 uid 34" comes from a user, and "1.2.3.4:56" from an address. */
uint8_t server_origin_of(const struct server *server, const char *peer)
{
	const char *user = strncmp(peer, "unix ", 5) == 0 ? strstr(peer, " uid ") : NULL;
	const char *from = user ? user : peer, *port = user ? NULL : strrchr(peer, ':');
	size_t bytes = port ? (size_t)(port - from) : strlen(from);
	uint64_t hash = server->origin_seed;

	/* FNV-1a (Fowler, Noll, Vo), from where nobody outside knows. */
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ (uint8_t)from[i]) * 0x100000001b3ull;
	return (uint8_t)((hash ^ hash >> 32) % ORIGINS);
}

struct client *server_pending_to_go(const struct server *server)
{
	unsigned most = 0;
	struct client *client;

	for (unsigned i = 0; i < ORIGINS; i++)
		if (server->pending_from[i] > most)
			most = server->pending_from[i];
	TAILQ_FOREACH(client, &server->list[CLIENT_PENDING], link)
		if (server->pending_from[client->origin] == most)
			return client;
	return NULL;
}
