/*
 * address: where a daemon listens, `unix:PATH` or `tcp:HOST:PORT`, as text and as a socket address.
 *
 * HOST is a number, in brackets if it is IPv6, or `localhost`, which is 127.0.0.1: no name is
 * looked up, so that what may be listened on is decided here and not by a resolver. In: text; out: a
 * socket address, or why it is none. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_NET_ADDRESS_H
#define RINGTAIL_DAEMON_NET_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

#include "query/error.h"

#define ADDRESS_TEXT_BYTES	128

struct address {
	char text[ADDRESS_TEXT_BYTES];	/* as it was written */
	struct sockaddr_storage socket;	/* ready for bind(2) */
	socklen_t socket_bytes;
	bool loopback;			/* tcp on loopback; false for unix */
};

/* 0, or -EINVAL with *error. Port 0 is any free one. */
int address_parse(const char *text, struct address *address, struct error *error);

/* An address to dial: `tls:HOST:PORT`, where HOST may be a name, or a number, in brackets if it is IPv6. */
#define DIAL_HOST_BYTES	254

struct address_dial {
	char text[ADDRESS_TEXT_BYTES];
	char host[DIAL_HOST_BYTES];	/* without brackets */
	char port[8];
};

/* 0, or -EINVAL with *error. */
int address_parse_dial(const char *text, struct address_dial *dial, struct error *error);

static inline bool address_is_unix(const struct address *address)
{
	return address->socket.ss_family == AF_UNIX;
}

/* The path of a unix address. */
const char *address_path(const struct address *address);

/* The last socket() for the network failed with `err`: says so, and what opens the network of the unit. */
int address_no_network(const char *wanted, int err, struct error *error);

/* Whether this process may open internet sockets for what is `wanted`: 0, or *error says what to do. */
int address_check_network(const char *wanted, struct error *error);

#endif
