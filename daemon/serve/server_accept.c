/*
 * server_accept: how clients come in: by which door, and what becomes of those that there is no room
 * for. See server.h. In: sockets from the listeners; out: sessions. Main thread.
 *
 * Whoever is turned away is told by which limit, as far as that costs next to nothing:
 *
 *	plain, and TLS that is shaken hands with	an Error frame, into a socket that is empty
 *	TLS, in the middle of its handshake		that frame once it is shaken; TURNED_AWAY_MAX wait so
 *	TLS, of which nothing was heard yet		an alert, which can say no more than "no room"
 */
#include "daemon/serve/server.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/serve/server_private.h"
#include "daemon/net/transport_tls.h"

static struct client *oldest(struct server *server, enum client_state state)
{
	return TAILQ_FIRST(&server->list[state]);
}

static void turn_away(struct server *server, struct client *client)
{
	struct error error;

	error_set(&error, EBUSY, "too-many-pending", "of %u connections that have not said who they"
		  " are, as many as this daemon holds, this was the oldest from where most come",
		  server->config.bounds.pending_max);
	error_hint(&error, "come back in a moment, or raise pending-max");
	if (session_turn_away(client->session, &error))
		return;
	if (server->count[CLIENT_TURNED_AWAY] == TURNED_AWAY_MAX)
		session_destroy(oldest(server, CLIENT_TURNED_AWAY)->session, false);
	server_move(server, client, CLIENT_TURNED_AWAY);
}

/* Who has not said who it is may not keep others from saying it. */
static void make_room_for_pending(struct server *server)
{
	while (server->count[CLIENT_PENDING] >= server->config.bounds.pending_max) {
		struct client *client = server_pending_to_go(server);

		counter_add(COUNTER_sessions_pending_evicted, 1);
		log_info("pending-max", "client %llu (%s) goes: %u others have not said who they are",
			 (unsigned long long)session_id(client->session),
			 session_peer(client->session), server->count[CLIENT_PENDING] - 1);
		turn_away(server, client);
	}
}

void server_serve(struct server *server, enum server_door door, struct transport *transport,
		  const char *peer)
{
	struct session_config config = {
		.base = server->config.base,
		.host = &server->host,
		.bounds = &server->config.bounds.session,
		.codec = server->config.codec,
		.turnstile = server->config.turnstile,
	};
	bool full = server->count[CLIENT_SERVED] >= server->config.bounds.clients_max;
	struct client *client;
	struct error error;

	/* Who comes in TLS is pending meanwhile, and hears it when it has said who it is. */
	if (full && door != SERVER_TLS && server->count[CLIENT_REFUSED] >= REFUSED_MAX) {
		counter_add(COUNTER_sessions_refused, 1);
		transport_destroy(transport);
		return;
	}
	client = calloc(1, sizeof(*client));
	if (!client) {
		transport_destroy(transport);
		goto no_memory;
	}
	client->origin = server_origin_of(server, peer);
	client->state = full && door != SERVER_TLS ? CLIENT_REFUSED : CLIENT_PENDING;
	if (client->state == CLIENT_PENDING)
		make_room_for_pending(server);
	client->door = door;
	server_enlist(server, client);
	config.client = client;
	client->session = session_create(&config, transport, ++server->next_id, peer);
	if (!client->session) {
		server_forget_client(server, client);
		goto no_memory;
	}
	counter_add(COUNTER_sessions_accepted, 1);
	log_debug("client-came", "client %llu is %s",
		  (unsigned long long)session_id(client->session), peer);
	if (client->state == CLIENT_REFUSED) {
		server_set_full(server, &error);
		session_refuse(client->session, &error, true);
	}
	return;

no_memory:
	counter_add(COUNTER_sessions_out_of_memory, 1);
	log_warn("client-memory", "cannot serve %s: out of memory", peer);
}

/* What fits into an empty socket is said. */
static void say_no_descriptor(const struct server *server, int fd)
{
	Ringtail__V1__Error message = RINGTAIL__V1__ERROR__INIT;
	struct frame_ref *frame;

	message.code = "descriptors-exhausted";
	message.what = "this daemon has no descriptor left for another client";
	message.hint = "raise its limit of open files (LimitNOFILE), or lower clients-max";
	message.fatal = true;
	frame = frame_ref_pack(server->config.codec, FRAME_ERROR, &message.base);
	if (frame && send(fd, frame->data, frame->bytes, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		shutdown(fd, SHUT_WR);
	frame_ref_put(frame);
}

/* The last descriptors are for files. */
static void refuse_descriptor(const struct server *server, enum server_door door, int fd)
{
	counter_add(COUNTER_sessions_refused, 1);
	log_warn("descriptors-exhausted", "no descriptor is left for another client: raise the limit"
		 " (LimitNOFILE), or lower clients-max");
	if (door == SERVER_TLS)
		transport_tls_turn_away(fd);
	else
		say_no_descriptor(server, fd);
	close(fd);
}

/* A peer that does not acknowledge what it is sent, or never has room for it, is gone by then. */
static void bound_acknowledgement(const struct server *server, int fd)
{
	uint64_t ms = server->config.bounds.session.silence_timeout_ns / 1000000;
	unsigned timeout_ms = ms < INT_MAX ? (unsigned)ms : INT_MAX;

	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms, sizeof(timeout_ms));
}

void server_accept(void *context, int fd, const struct address *address, const char *peer)
{
	struct server *server = context;
	enum server_door door = address_is_unix(address)				   ? SERVER_UNIX :
				address->loopback && server->config.bounds.insecure ? SERVER_PLAIN :
										      SERVER_TLS;
	struct transport *transport;

	if (server->descriptors_max <= DESCRIPTORS_RESERVED ||
	    (rlim_t)fd >= server->descriptors_max - DESCRIPTORS_RESERVED) {
		refuse_descriptor(server, door, fd);
		return;
	}
	if (door != SERVER_UNIX)
		bound_acknowledgement(server, fd);
	transport = door == SERVER_TLS ? transport_tls_create(gate_tls(server->config.gate), fd) :
					 transport_plain_create(fd);
	if (transport) {
		server_serve(server, door, transport, peer);
	} else {
		counter_add(COUNTER_sessions_out_of_memory, 1);
		log_warn("client-memory", "cannot serve %s: out of memory", peer);
	}
}
