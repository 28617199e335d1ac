#include "query/socket_text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HOST_TEXT_BYTES		64u
#define MAPPED_BITS		96u

#define UNIX_PATH	offsetof(struct sockaddr_un, sun_path)

/* What the text needs; the kernel may ask for more. */
#define INET_BYTES	offsetof(struct sockaddr_in, sin_zero)
#define INET6_BYTES	offsetof(struct sockaddr_in6, sin6_scope_id)

_Static_assert(RT_SOCKADDR_BYTES_MAX == sizeof(struct sockaddr_un), "the longest one with a text");
_Static_assert(SOCKET_TEXT_BYTES > INET6_ADDRSTRLEN + sizeof("[%4294967295]:65535"),
	       "an IPv6 address may not fit");
_Static_assert(SOCKET_TEXT_BYTES < RT_STRING_BYTES_MAX, "readers would take it for cut");

/* ---- To text --------------------------------------------------------------------------------- */

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
			return (size_t)snprintf(text, SOCKET_TEXT_BYTES, "%s",
						known[i].name);
	return (size_t)snprintf(text, SOCKET_TEXT_BYTES, "family %u", family);
}

static size_t short_text(char *text, unsigned family)
{
	size_t used = family_text(text, family);

	return used + (size_t)snprintf(text + used, SOCKET_TEXT_BYTES - used,
				       ", cut short");
}

static size_t inet_text(char *text, const struct sockaddr_in *address)
{
	char host[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host));
	return (size_t)snprintf(text, SOCKET_TEXT_BYTES, "%s:%u", host,
				ntohs(address->sin_port));
}

static size_t inet6_text(char *text, const struct sockaddr_in6 *address)
{
	char host[INET6_ADDRSTRLEN], scope[sizeof("%4294967295")] = "";

	inet_ntop(AF_INET6, &address->sin6_addr, host, sizeof(host));
	if (address->sin6_scope_id)
		snprintf(scope, sizeof(scope), "%%%u", address->sin6_scope_id);
	return (size_t)snprintf(text, SOCKET_TEXT_BYTES, "[%s%s]:%u", host, scope,
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

size_t socket_text_of(char text[SOCKET_TEXT_BYTES], const void *address, size_t bytes)
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
		return (size_t)snprintf(text, SOCKET_TEXT_BYTES, "cut short");
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

/* ---- From text ------------------------------------------------------------------------------- */

/* A decimal number of at most five digits, all of the text. */
static bool parse_decimal(const char *text, size_t bytes, unsigned max, unsigned *number)
{
	*number = 0;
	if (!bytes || bytes > 5)
		return false;
	for (size_t i = 0; i < bytes; i++) {
		if (!isdigit((unsigned char)text[i]))
			return false;
		*number = *number * 10 + (unsigned)(text[i] - '0');
	}
	return *number <= max;
}

static bool parse_host(const char *text, size_t bytes, struct socket_host *host)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char copy[HOST_TEXT_BYTES];

	if (bytes >= sizeof(copy))
		return false;
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	*host = (struct socket_host){ .v6 = memchr(copy, ':', bytes) };
	if (inet_pton(host->v6 ? AF_INET6 : AF_INET, copy, host->address) != 1)
		return false;
	if (host->v6 && !memcmp(host->address, mapped, sizeof(mapped))) {
		host->v6 = false;
		memmove(host->address, host->address + 12, 4);
		memset(host->address + 4, 0, 12);
	}
	return true;
}

bool socket_text_parse(const char *text, size_t bytes, struct socket_host *host, uint16_t *port)
{
	const char *colon = memrchr(text, ':', bytes), *end = colon, *scope;
	unsigned number;

	if (!colon || !parse_decimal(colon + 1, (size_t)(text + bytes - colon - 1), UINT16_MAX, &number))
		return false;
	*port = (uint16_t)number;
	if (text[0] != '[')
		return parse_host(text, (size_t)(end - text), host) && !host->v6;
	text++;
	if (--end < text || *end != ']')
		return false;
	scope = memchr(text, '%', (size_t)(end - text));
	return parse_host(text, (size_t)((scope ? scope : end) - text), host);
}

static bool bit_of(const struct socket_host *host, unsigned bit)
{
	return host->address[bit / 8] >> (7 - bit % 8) & 1;
}

bool socket_network_parse(const char *text, struct socket_network *network)
{
	const char *slash = strchr(text, '/');
	size_t bytes = slash ? (size_t)(slash - text) : strlen(text);
	bool written_v6 = memchr(text, ':', bytes);
	unsigned all = written_v6 ? 128 : 32;

	network->bits = all;
	if (!parse_host(text, bytes, &network->host) ||
	    (slash && !parse_decimal(slash + 1, strlen(slash + 1), all, &network->bits)))
		return false;
	if (written_v6 && !network->host.v6) {
		if (network->bits < MAPPED_BITS)
			return false;
		network->bits -= MAPPED_BITS;
	}
	for (unsigned bit = network->bits; bit < (network->host.v6 ? 128 : 32); bit++)
		if (bit_of(&network->host, bit))
			return false;
	return true;
}

bool socket_network_has(const struct socket_network *network, const struct socket_host *host)
{
	unsigned whole = network->bits / 8, rest = network->bits % 8;

	return network->host.v6 == host->v6 && !memcmp(network->host.address, host->address, whole) &&
	       (!rest || !((network->host.address[whole] ^ host->address[whole]) >> (8 - rest)));
}
