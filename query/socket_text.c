#include "query/socket_text.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#define HOST_TEXT_BYTES		64u
#define MAPPED_BITS		96u

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
