/*
 * socket_text: what a call was given as struct sockaddr, as text; and the host and the port in such a text, with
 * networks to compare them with. The bytes are user space's, and may be anything. Pure; any thread.
 *
 *	127.0.0.1:5432  [::1]:443  [fe80::1%2]:443	IPv4, IPv6 (with the number of its interface)
 *	/run/x.sock  ./x.sock  @name			unix: a path (relative: with ./), abstract
 *	unix  netlink  unspec  family 77		what else there is, by its family alone
 *	inet, cut short					too short for its family
 *	10.0.0.0/8  10.1.2.3  fe80::/10  ::1		networks: what a filter asks for
 *
 * An IPv4 address that is written as an IPv6 one, ::ffff:10.1.2.3, is the IPv4 address.
 */
#ifndef RINGTAIL_QUERY_SOCKET_TEXT_H
#define RINGTAIL_QUERY_SOCKET_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmod/uapi/ringtail.h"

#define SOCKET_TEXT_BYTES	(RT_SOCKADDR_BYTES_MAX + 4u)

struct socket_host {
	bool v6;
	uint8_t address[16];	/* of IPv4 the first four */
};

struct socket_network {
	struct socket_host host;
	unsigned bits;		/* how many of the address count */
};

/*
 * Returns its length, at least 1. A name is as it came, also with characters that are not to be shown, but
 * without zeros: those inside an abstract name are '@', as ss(8) has them. Bytes beyond
 * RT_SOCKADDR_BYTES_MAX are not looked at.
 */
size_t socket_text_of(char text[SOCKET_TEXT_BYTES], const void *address, size_t bytes);

/* False: it is no address of IPv4 or IPv6 with a port. */
bool socket_text_parse(const char *text, size_t bytes, struct socket_host *host, uint16_t *port);

/* False: it is no address or network, or has a bit behind the network's. */
bool socket_network_parse(const char *text, struct socket_network *network);

bool socket_network_has(const struct socket_network *network, const struct socket_host *host);

#endif
