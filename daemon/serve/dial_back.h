/*
 * dial_back: this daemon dials its relay once more, for a client of the relay that asks for this host.
 *
 * In: where the relay is that asks, the token of its Dial and what it calls the client. Out: a transport to that relay,
 * given to the server as a client of the relay's. Main thread.
 *
 *	connect -> shake hands -> send AgentHello with the token -> server
 *
 * It is the address that the daemon is connected to, not the relay's name: another relay of that name would not know
 * the token. What is said on it next is the client's. An attempt that fails is said in the log alone: the relay tells
 * the client when its time is over.
 */
#ifndef RINGTAIL_DAEMON_SERVE_DIAL_BACK_H
#define RINGTAIL_DAEMON_SERVE_DIAL_BACK_H

#include <event2/event.h>
#include <stdint.h>
#include <sys/socket.h>

#include "daemon/config/config.h"
#include "daemon/serve/server.h"
#include "query/error.h"

#define DIAL_BACK_TOKEN_BYTES	16

struct dial_backs;

struct dial_backs_config {
	struct event_base *base;
	struct server *server;
	struct frame_codec *codec;
	const struct config *config;	/* stays where it is */
};

/* All of it is borrowed for the call. */
struct dial_back_request {
	const struct sockaddr *to;
	socklen_t to_bytes;
	const char *host;		/* which the relay's certificate has to name */
	const char *text;		/* of the relay, for messages */
	const uint8_t *token;
	const char *client;
};

/* NULL: out of memory. */
struct dial_backs *dial_backs_create(const struct dial_backs_config *config);

/* Gives up those that are under way. NULL is safe. */
void dial_backs_destroy(struct dial_backs *backs);

/* Begins to dial. -errno with *error: it does not. */
int dial_backs_begin(struct dial_backs *backs, const struct dial_back_request *request, struct error *error);

#endif
