/*
 * bridge: connections of clients of this relay to its hosts.
 *
 *	client			relay			agent
 *	Reach	--------------->
 *				Dial, token ----------->	on the connection that the agent has
 *				<---------------------- AgentHello, token	on another, which it dials for this
 *		<--------------- Reached
 *		<======= bytes, both ways, unread =======>
 *
 * In: who asks for which host; the agent's second connection, with the token that its host was given. Out: bytes
 * from one side to the other. A side is read only while the other side takes what was read: so nothing is lost here,
 * and a client that reads slowly is one to its agent, which counts what it drops. Main thread.
 */
#ifndef RINGTAIL_DAEMON_RELAY_BRIDGE_H
#define RINGTAIL_DAEMON_RELAY_BRIDGE_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "daemon/access/gate.h"
#include "daemon/host/identity.h"
#include "daemon/net/transport.h"
#include "daemon/relay/host.h"
#include "proto/frame.h"
#include "query/error.h"

struct bridges;

struct bridges_config {
	struct event_base *base;
	const struct gate *gate;	/* borrowed */
	struct frame_codec *codec;	/* borrowed */
	uint64_t linger_ns;		/* that one side may take to end when the other has ended */
	uint64_t silence_ns;		/* that what was read may wait for the other side to take it */
};

/* Who asks. Either is called once, from the loop, unless bridges_leave() was called before. */
struct bridge_asker {
	void *context;

	/* The host is there: the client's transport, on which nothing is under way; NULL: the client is of no use. */
	struct transport *(*reached)(void *context);

	void (*failed)(void *context, const struct error *error);
};

/* NULL: out of memory. */
struct bridges *bridges_create(const struct bridges_config *config);

/* Ends all of them. NULL is safe. */
void bridges_destroy(struct bridges *bridges);

/* -errno with *error: this host cannot be reached. The identity is an operator's, by the gate; `who` is shown. */
int bridges_ask(struct bridges *bridges, struct relay_host *host, const struct client_identity *identity,
		const char *who, const struct bridge_asker *asker, struct error *error);

/* Whoever asked with that context has left, or has been answered. */
void bridges_leave(struct bridges *bridges, const void *context);

/*
 * A connection of that host, by its certificate, shows a token. 0: the transport is taken over. -EACCES with *error:
 * the token is not one that this host was given, or its client has left.
 */
int bridges_join(struct bridges *bridges, const char *host, const uint8_t *token, size_t bytes,
		 struct transport *transport, struct error *error);

/* The host does not dial for that token. False: nobody asked it so. */
bool bridges_refuse(struct bridges *bridges, const char *host, const uint8_t *token, size_t bytes,
		    const struct error *error);

/* The host's connection has ended: who waits for it is told. */
void bridges_host_left(struct bridges *bridges, const char *host);

/* After a reload: what the gate no longer allows ends. */
void bridges_judge(struct bridges *bridges);

#endif
