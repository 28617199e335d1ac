/*
 * dialler: this daemon as the agent of a relay (option relay). In: the relays' addresses, and the end of the
 * connection before. Out: a transport to a relay, given to the server as a client that it has dialled itself.
 * Main thread.
 *
 *	wait -> look the name up -> connect -> shake hands -> send AgentHello -> peek at the answer -> server
 *
 * A relay answers with a ClientHello. Whatever else comes is said in the log, with what to do, and the next relay
 * is dialled, after a wait that grows and is never the same for two hosts. What is not acknowledged meanwhile
 * stays in the spool.
 */
#ifndef RINGTAIL_DAEMON_SERVE_DIALLER_H
#define RINGTAIL_DAEMON_SERVE_DIALLER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/config/config.h"
#include "daemon/serve/server.h"
#include "query/error.h"

struct dialler;

struct dialler_config {
	struct event_base *base;
	struct server *server;
	struct frame_codec *codec;
	const struct config *config;	/* stays where it is; a reload may change what is in it */
};

/* -EINVAL with *error: with this configuration no relay can be dialled. Reads no file. */
int dialler_check(const struct config *config, struct error *error);

/* Begins to dial. -errno with *error: the files of TLS are wrong. */
int dialler_create(const struct dialler_config *config, struct dialler **dialler,
		   struct error *error);

/* Dials no more; a connection that the server has is the server's. NULL is safe. */
void dialler_destroy(struct dialler *dialler);

/* The server's connection to the relay has ended: a server_config's relay_left. */
void dialler_again(struct dialler *dialler);

/* That relay asks for another connection, for a client of it: a server_config's dial. NULL is safe. */
int dialler_dial_back(struct dialler *dialler, const uint8_t token[16], const char *client, struct error *error);

#endif
