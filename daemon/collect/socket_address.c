#include "daemon/collect/socket_address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define UNIX_PATH	offsetof(struct sockaddr_un, sun_path)

/* What the text needs; the kernel may ask for more. */
#define INET_BYTES	offsetof(struct sockaddr_in, sin_zero)
#define INET6_BYTES	offsetof(struct sockaddr_in6, sin6_scope_id)

_Static_assert(RT_SOCKADDR_BYTES_MAX == sizeof(struct sockaddr_un), "the longest one with a text");
_Static_assert(SOCKET_ADDRESS_TEXT_BYTES > INET6_ADDRSTRLEN + sizeof("[%4294967295]:65535"),
	       "an IPv6 address may not fit");
_Static_assert(SOCKET_ADDRESS_TEXT_BYTES < RT_STRING_BYTES_MAX, "readers would take it for cut");

static size_t family_text(char *text, unsigned family)
{
	static const struct {
		unsigned family;
		const char *name;
	} known[] = {
		{ AF_UNSPEC, "unspec" }, { AF_UNIX, "unix" }, { AF_INET, "inet" },
		{ AF_INET6, "inet6" }, { AF_NETLINK, "netlink" }, { AF_PACKET, "packet" },
		{ AF_ALG, "alg" }, { AF_BLUETOOTH, "bluetooth" }, { AF_CAN, "can" },
		{ AF_TIPC, "tipc" }, { AF_VSOCK, "vsock" }, { AF_XDP, "xdp" },
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].family == family)
			return (size_t)snprintf(text, SOCKET_ADDRESS_TEXT_BYTES, "%s",
						known[i].name);
	return (size_t)snprintf(text, SOCKET_ADDRESS_TEXT_BYTES, "family %u", family);
}

static size_t short_text(char *text, unsigned family)
{
	size_t used = family_text(text, family);

	return used + (size_t)snprintf(text + used, SOCKET_ADDRESS_TEXT_BYTES - used,
				       ", cut short");
}

static size_t inet_text(char *text, const struct sockaddr_in *address)
{
	char host[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host));
	return (size_t)snprintf(text, SOCKET_ADDRESS_TEXT_BYTES, "%s:%u", host,
				ntohs(address->sin_port));
}

static size_t inet6_text(char *text, const struct sockaddr_in6 *address)
{
	char host[INET6_ADDRSTRLEN], scope[sizeof("%4294967295")] = "";

	inet_ntop(AF_INET6, &address->sin6_addr, host, sizeof(host));
	if (address->sin6_scope_id)
		snprintf(scope, sizeof(scope), "%%%u", address->sin6_scope_id);
	return (size_t)snprintf(text, SOCKET_ADDRESS_TEXT_BYTES, "[%s%s]:%u", host, scope,
				ntohs(address->sin6_port));
}

/* A path ends at its zero; an abstract name begins with one, and has the length that it was given. */
static size_t unix_text(char *text, const char *path, size_t bytes)
{
	size_t used = 0;

	if (!bytes)
		return family_text(text, AF_UNIX);
	if (path[0]) {
		bytes = strnlen(path, bytes);
		if (path[0] != '/') {	/* so that none looks like another kind of address */
			text[used++] = '.';
			text[used++] = '/';
		}
	}
	for (size_t i = 0; i < bytes; i++)
		text[used++] = path[i] ? path[i] : '@';
	text[used] = '\0';
	return used;
}

size_t socket_address_text(char text[SOCKET_ADDRESS_TEXT_BYTES], const void *address, size_t bytes)
{
	union {
		struct sockaddr any;
		struct sockaddr_in inet;
		struct sockaddr_in6 inet6;
		struct sockaddr_un local;
	} copy = { 0 };			/* it may stand anywhere; what is missing is zero */

	if (bytes > RT_SOCKADDR_BYTES_MAX)
		bytes = RT_SOCKADDR_BYTES_MAX;
	memcpy(&copy, address, bytes);
	if (bytes < sizeof(copy.any.sa_family))
		return (size_t)snprintf(text, SOCKET_ADDRESS_TEXT_BYTES, "cut short");
	switch (copy.any.sa_family) {
	case AF_INET:
		return bytes < INET_BYTES ? short_text(text, AF_INET) : inet_text(text, &copy.inet);
	case AF_INET6:
		return bytes < INET6_BYTES ? short_text(text, AF_INET6) :
					     inet6_text(text, &copy.inet6);
	case AF_UNIX:
		return unix_text(text, copy.local.sun_path, bytes - UNIX_PATH);
	default:
		return family_text(text, copy.any.sa_family);
	}
}
