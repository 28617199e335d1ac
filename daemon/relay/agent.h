/*
 * agent: one connection of an agent to this relay. In: bytes of a transport that the agent dialled. Out: the
 * frames of its host, each with its end on each of the host's CPUs; acknowledgements, back to the agent.
 *
 *	agent					relay
 *	AgentHello	------------------>
 *			<------------------	ClientHello
 *	ServerHello	------------------>
 *			<------------------	Subscribe, as the durable consumer CONSUMER_RELAY
 *	Catalog, Subscribed, frames ------>
 *			<------------------	Ack
 *			<------------------	StatRequest, behind a frame, once a minute at most
 *	Stat		------------------>
 *			<------------------	Dial, where a client of the relay asks for this host
 *	DialRefused	------------------>	unless the agent dials once more, with the Dial's token in its AgentHello
 *
 * So behind the first frame the relay is a client as any other. Its host is who the certificate names. Main
 * thread.
 */
#ifndef RINGTAIL_DAEMON_RELAY_AGENT_H
#define RINGTAIL_DAEMON_RELAY_AGENT_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/base/limits.h"
#include "daemon/host/identity.h"
#include "daemon/net/transport.h"
#include "daemon/relay/sink.h"
#include "proto/cursor.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "query/error.h"

struct relay_agent;
struct relay_host;
struct turnstile;

/* What connections share: for one of them at a time; and what they have in all. */
struct relay_desk {
	struct frame_codec *codec;
	uint8_t *input;			/* RELAY_INPUT_BYTES */
	uint8_t *raw;			/* FRAME_RAW_BYTES_MAX */
	uint64_t *rest_bytes;		/* the room of every agent's `input` */
};

/* As much of a connection's bytes as is looked at together; a frame, and what is read at once. */
#define RELAY_INPUT_BYTES	(FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX + RELAY_READ_BYTES)

#define RELAY_TOKEN_BYTES	16	/* of a Dial */

struct relay_agent_host {
	void *context;

	/* It has said hello: whose connection is it? NULL with *error refuses. */
	struct relay_host *(*admit)(void *context, struct relay_agent *agent, const char *name,
				    struct error *error);

	/* A frame of its host that is new; taken over. False: out of memory. */
	bool (*forward)(void *context, struct relay_agent *agent, struct relay_opening *opening,
			struct frame_ref *frame, struct cursor *upto);

	/* Whether so much of its host is on its way to the sink that nothing more is to be read. */
	bool (*is_full)(void *context, const struct relay_agent *agent);

	/*
	 * It has dialled for a client, and shows the token that its host was given. 0: the transport is taken over, and the
	 * agent ends; -errno with *error refuses.
	 */
	int (*join)(void *context, const char *name, const uint8_t *token, size_t bytes, struct transport *transport,
		    struct error *error);

	/* Its host does not dial for that token. False: it was not asked to. */
	bool (*refused_dial)(void *context, const char *name, const uint8_t *token, size_t bytes,
			     const struct error *error);

	/* What waits for the rest of its frame is too much, of all agents. False: it is this one that has to go. */
	bool (*make_way)(void *context, struct relay_agent *agent);

	/* It is about to be freed. */
	void (*closed)(void *context, struct relay_agent *agent);
};

struct relay_agent_config {
	struct event_base *base;
	const struct relay_agent_host *host;
	const struct relay_desk *desk;
	struct turnstile *turnstile;
	uint64_t hello_timeout_ns;
};

struct relay_agent {
	TAILQ_ENTRY(relay_agent) link;	/* its owner's */
	bool pending;			/* the same: it is in the list of those without a host */
	uint8_t origin;			/* the same: where it comes from, */
	uint64_t began_ns;		/* and since when it shakes hands */
	struct relay_host *of;		/* NULL: it has not said hello */

	struct relay_agent_config config;	/* from here on its own */
	struct transport *transport;
	char peer[128];
	char software[64];
	enum {
		AGENT_SHAKING,		/* hands */
		AGENT_NEW,		/* no AgentHello yet */
		AGENT_GREETED,		/* it was sent our ClientHello */
		AGENT_STREAMING,	/* it was sent our Subscribe */
		AGENT_JOINING,		/* it has shown a token instead: it is for a client */
		AGENT_CLOSING,		/* refused: it gets to read why */
	} state;
	bool heard;			/* it has sent something */
	bool shaken;			/* hands: its certificate is good */
	bool dials;			/* it answers a Dial */
	bool full;			/* nothing is read until relay_agent_go_on() */
	bool broken;			/* the socket is, or memory ran out */
	struct event *readable, *writable, *timeout;
	struct turnstile_place *turn;
	uint8_t *input;			/* what waits for the rest of its frame; NULL: nothing does */
	size_t input_at, input_bytes, input_capacity;	/* where it begins, how much that is, the room */
	struct frame_ref *out[4];	/* what is to be sent */
	unsigned outs;
	size_t out_sent;		/* of the first */
	bool owes_ack;
	uint64_t asked_ns;		/* how its spool stands; 0: never */
	bool owes_stat;			/* it has not answered that */

	uint8_t token[RELAY_TOKEN_BYTES];	/* of AGENT_JOINING, */
	size_t token_bytes;
	char name[IDENTITY_NAME_BYTES];		/* and its host */

	/* How its stream begins. */
	struct relay_opening *opening;	/* of the frames that come; NULL: none has come */
	struct relay_opening *next;	/* of those that will; NULL: the same */
	struct cursor *since;		/* of `next`: this was acknowledged; NULL: not said */
};

/* Takes over the transport. NULL: out of memory, and the transport is destroyed. */
struct relay_agent *relay_agent_create(const struct relay_agent_config *config,
				       struct transport *transport, const char *peer);

/* Tells the owner. */
void relay_agent_destroy(struct relay_agent *agent);

/* Sends an Error frame, and closes the connection once it is sent. */
void relay_agent_refuse(struct relay_agent *agent, const struct error *error);

/* The same, where another connection of its host has come in its place. */
void relay_agent_replace(struct relay_agent *agent, const struct error *error);

/* Sends an acknowledgement of what its host has stored. */
void relay_agent_acknowledge(struct relay_agent *agent);

/* Asks it to dial once more, for that client. False: what was sent before still waits, or it is out of memory. */
bool relay_agent_dial(struct relay_agent *agent, const uint8_t *token, size_t bytes, const char *client);

/* There is room again. */
void relay_agent_go_on(struct relay_agent *agent);

#endif
