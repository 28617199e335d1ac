/*
 * socket_text: the host and the port in the text of a socket's address, and networks to compare it with.
 *
 *	127.0.0.1:5432	[::1]:443  [fe80::1%2]:443	what an event has (daemon/collect/socket_address.h)
 *	10.0.0.0/8  10.1.2.3  fe80::/10  ::1		what a filter asks for
 *
 * An IPv4 address that is written as an IPv6 one, ::ffff:10.1.2.3, is the IPv4 address. Pure; any thread.
 */
#ifndef RINGTAIL_QUERY_SOCKET_TEXT_H
#define RINGTAIL_QUERY_SOCKET_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct socket_host {
	bool v6;
	uint8_t address[16];	/* of IPv4 the first four */
};

struct socket_network {
	struct socket_host host;
	unsigned bits;		/* how many of the address count */
};

/* False: it is no address of IPv4 or IPv6 with a port. */
bool socket_text_parse(const char *text, size_t bytes, struct socket_host *host, uint16_t *port);

/* False: it is no address or network, or has a bit behind the network's. */
bool socket_network_parse(const char *text, struct socket_network *network);

bool socket_network_has(const struct socket_network *network, const struct socket_host *host);

#endif
