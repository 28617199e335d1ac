#include "client/lib/address.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/lib/failure.h"
#include "client/lib/trust.h"

#define SYSTEM_SOCKET "/run/ringtail/ringtail.sock"

static int bad(struct ringtail_error *error, const char *text, const char *why)
{
	int err = failure_set(error, EINVAL, "bad-address", "'%s' is no address: %s", text, why);

	failure_hint(error, "write unix:PATH or tcp:HOST:PORT, as in unix:" SYSTEM_SOCKET
		     " or tcp:127.0.0.1:7117");
	return err;
}

static int parse_unix(const char *path, const char *text, struct address *address,
		      struct ringtail_error *error)
{
	address->kind = ADDRESS_UNIX;
	if (!*path)
		return bad(error, text, "the path is missing");
	if (strlen(path) >= sizeof(address->path))
		return bad(error, text, "a socket's path has at most 107 bytes");
	memcpy(address->path, path, strlen(path) + 1);
	snprintf(address->text, sizeof(address->text), "unix:%s", path);
	return 0;
}

static int parse_tcp(const char *rest, const char *text, struct address *address,
		     struct ringtail_error *error)
{
	const char *host = rest, *host_end, *port;
	unsigned long number;
	char *end;

	address->kind = ADDRESS_TCP;
	if (*rest == '[') {
		host = rest + 1;
		host_end = strchr(host, ']');
		if (!host_end || host_end[1] != ':')
			return bad(error, text, "an IPv6 address is written [ADDRESS]:PORT");
		port = host_end + 2;
	} else {
		host_end = strchr(rest, ':');
		if (!host_end)
			return bad(error, text, "the port is missing");
		port = host_end + 1;
		if (strchr(port, ':'))
			return bad(error, text, "an IPv6 address is written [ADDRESS]:PORT");
	}
	if (host_end == host)
		return bad(error, text, "the host is missing");
	if ((size_t)(host_end - host) >= sizeof(address->host))
		return bad(error, text, "the host is too long");
	number = strtoul(port, &end, 10);
	if (end == port || *end || *port == '-' || *port == '+' || number < 1 || number > 65535)
		return bad(error, text, "the port is a number from 1 to 65535");
	memcpy(address->host, host, host_end - host);
	address->host[host_end - host] = '\0';
	snprintf(address->port, sizeof(address->port), "%lu", number);
	snprintf(address->text, sizeof(address->text), strchr(address->host, ':') ? "tcp:[%s]:%s" :
		 "tcp:%s:%s", address->host, address->port);
	return 0;
}

int address_parse(const char *text, struct address *address, struct ringtail_error *error)
{
	memset(address, 0, sizeof(*address));
	trust_get(&address->trust);
	if (!text) {
		const char *dir = getenv("XDG_RUNTIME_DIR");
		char path[4096];

		/* A daemon of one's own is asked only where there is none of the system's. */
		if (geteuid() == 0 || !dir || !*dir || access(SYSTEM_SOCKET, F_OK) == 0)
			return parse_unix(SYSTEM_SOCKET, SYSTEM_SOCKET, address, error);
		snprintf(path, sizeof(path), "%s/ringtail.sock", dir);
		return parse_unix(path, path, address, error);
	}
	if (!strncmp(text, "unix:", 5))
		return parse_unix(text + 5, text, address, error);
	if (!strncmp(text, "tcp:", 4))
		return parse_tcp(text + 4, text, address, error);
	if (!strncmp(text, "kafka:", 6))
		return bad(error, text, "it is no daemon; kafka: is for stream, count, hist, summary and read");
	return bad(error, text, "it begins with neither unix: nor tcp:");
}
