#include "daemon/net/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "query/quantity.h"

#define HOST_BYTES 64

static int parse_unix(const char *path, struct address *address, struct error *error)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&address->socket;
	size_t bytes = strlen(path);

	if (bytes == 0 || bytes >= sizeof(un->sun_path))
		return error_set(error, EINVAL, "address-bad-path",
				 "`%s`: the path of a unix socket has 1 to %zu bytes",
				 address->text, sizeof(un->sun_path) - 1);
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, bytes + 1);
	address->socket_bytes = offsetof(struct sockaddr_un, sun_path) + bytes + 1;
	return 0;
}

static int parse_host(const char *host, uint16_t port, struct address *address,
		      struct error *error)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&address->socket;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->socket;
	char name[HOST_BYTES];
	size_t bytes = strlen(host);

	if (host[0] == '[' && bytes > 2 && host[bytes - 1] == ']') {
		memcpy(name, host + 1, bytes - 2);
		name[bytes - 2] = '\0';
		if (inet_pton(AF_INET6, name, &in6->sin6_addr) == 1) {
			in6->sin6_family = AF_INET6;
			in6->sin6_port = htons(port);
			address->socket_bytes = sizeof(*in6);
			address->loopback = IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
			return 0;
		}
	} else if (inet_pton(AF_INET, strcmp(host, "localhost") ? host : "127.0.0.1",
			     &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		address->socket_bytes = sizeof(*in);
		address->loopback = ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
		return 0;
	}
	error_set(error, EINVAL, "address-bad-host", "`%s`: `%s` is not an address", address->text,
		  host);
	error_hint(error, "write localhost, 127.0.0.1 or [::1]; names are not looked up");
	return -EINVAL;
}

static int parse_tcp(const char *rest, struct address *address, struct error *error)
{
	const char *colon = strrchr(rest, ':');
	char host[HOST_BYTES];
	uint64_t port;

	if (!colon || colon == rest || (size_t)(colon - rest) >= sizeof(host)) {
		error_set(error, EINVAL, "address-no-port", "`%s` is not tcp:HOST:PORT",
			  address->text);
		error_hint(error, "as in tcp:127.0.0.1:7117");
		return -EINVAL;
	}
	if (quantity_parse(colon + 1, QUANTITY_COUNT, &port, NULL) || port > UINT16_MAX)
		return error_set(error, EINVAL, "address-bad-port",
				 "`%s`: the port `%s` is not a number from 0 to %u", address->text,
				 colon + 1, UINT16_MAX);
	memcpy(host, rest, colon - rest);
	host[colon - rest] = '\0';
	return parse_host(host, port, address, error);
}

int address_parse(const char *text, struct address *address, struct error *error)
{
	memset(address, 0, sizeof(*address));
	if (strlen(text) >= sizeof(address->text))
		return error_set(error, EINVAL, "address-too-long",
				 "the address `%.40s...` is longer than %zu bytes", text,
				 sizeof(address->text) - 1);
	strcpy(address->text, text);
	if (strncmp(text, "unix:", 5) == 0)
		return parse_unix(text + 5, address, error);
	if (strncmp(text, "tcp:", 4) == 0)
		return parse_tcp(text + 4, address, error);
	error_set(error, EINVAL, "address-bad-family", "`%s` is not an address", text);
	error_hint(error, "write unix:PATH or tcp:HOST:PORT");
	return -EINVAL;
}

static bool is_host_name(const char *host)
{
	return host[0] && strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				       "0123456789.-_:") == strlen(host);
}

int address_parse_dial(const char *text, struct address_dial *dial, struct error *error)
{
	const char *host = text + 4, *colon = strrchr(text, ':');
	uint64_t port = 0;
	size_t bytes;

	memset(dial, 0, sizeof(*dial));
	if (strncmp(text, "tls:", 4) != 0 || !colon || colon <= host ||
	    strlen(text) >= sizeof(dial->text)) {
		error_set(error, EINVAL, "address-bad-family", "`%.80s` is not tls:HOST:PORT", text);
		error_hint(error, "as in tls:relay.example:7119");
		return -EINVAL;
	}
	bytes = (size_t)(colon - host);
	if (host[0] == '[' && bytes > 2 && host[bytes - 1] == ']') {
		host++;
		bytes -= 2;
	}
	memcpy(dial->host, host, bytes);
	if (!is_host_name(dial->host))
		return error_set(error, EINVAL, "address-bad-host", "`%s`: `%s` is not a host", text,
				 dial->host);
	if (quantity_parse(colon + 1, QUANTITY_COUNT, &port, NULL) || port < 1 || port > UINT16_MAX)
		return error_set(error, EINVAL, "address-bad-port",
				 "`%s`: the port `%s` is not a number from 1 to %u", text, colon + 1,
				 UINT16_MAX);
	strcpy(dial->text, text);
	snprintf(dial->port, sizeof(dial->port), "%u", (unsigned)port);
	return 0;
}

const char *address_path(const struct address *address)
{
	return ((const struct sockaddr_un *)&address->socket)->sun_path;
}

int address_no_network(const char *wanted, int err, struct error *error)
{
	error_set(error, err, "no-network", "%s: cannot open an internet socket: %s", wanted,
		  strerror(err));
	error_hint(error, "under systemd: install -D -m 0644 /usr/share/ringtail/network.conf "
		   "/etc/systemd/system/ringtaild.service.d/network.conf, then systemctl "
		   "daemon-reload; clients need only a ListenStream= in ringtaild.socket");
	return -err;
}

int address_check_network(const char *wanted, struct error *error)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return address_no_network(wanted, errno, error);
	close(fd);
	return 0;
}
