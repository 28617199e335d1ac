#include "client/lib/conn_connect.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "client/lib/conn.h"
#include "client/lib/failure.h"
#include "client/lib/limits.h"

int conn_wait_for(int fd, short events, int interrupt_fd, uint64_t deadline_ns)
{
	struct pollfd polled[2] = {
		{ .fd = fd, .events = events },
		{ .fd = interrupt_fd, .events = POLLIN },
	};

	for (;;) {
		uint64_t now_ns = conn_now_ns();
		int timeout_ms = -1, n;

		if (deadline_ns != UINT64_MAX) {
			uint64_t left_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;

			timeout_ms = left_ns > 3600000000000u ? 3600000 :
				     (int)((left_ns + 999999) / 1000000);
		}
		n = poll(polled, 2, timeout_ms);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n > 0 && polled[1].revents)
			return -EINTR;
		if (n > 0)
			return 1;
		if (n == 0 && conn_now_ns() >= deadline_ns)
			return 0;
	}
}

static int cannot_connect(const struct address *address, int err, struct ringtail_error *error)
{
	bool local = address->kind == ADDRESS_UNIX;

	switch (err) {
	case ENOENT:
		failure_set(error, err, "no-daemon", "no daemon at %s: there is no such socket",
			    address->text);
		failure_hint(error,
			     "start one: `systemctl start ringtaild`, or `ringtaild --listen %s` "
			     "as root",
			     address->text);
		return -err;
	case ECONNREFUSED:
		failure_set(error, err, "refused", "nobody listens at %s", address->text);
		failure_hint(error, local ? "the daemon has ended without removing its socket: "
			     "`systemctl start ringtaild`, or `ringtaild` as root" :
			     "is ringtaild running there, with --listen for this address?");
		return -err;
	case EACCES:
	case EPERM:
		failure_set(error, err, "no-permission", "you may not connect to %s",
			    address->text);
		failure_hint(error, "join the socket's group (`ls -l` shows it), or use sudo");
		return -err;
	case ETIMEDOUT:
		failure_set(error, err, "timeout", "no answer from %s within %d s", address->text,
			    CONNECT_TIMEOUT_MS / 1000);
		failure_hint(error, "check the address, the network and its firewalls");
		return -err;
	case EINTR:
		return failure_set(error, err, "interrupted", "interrupted");
	default:
		return failure_set(error, err, "cannot-connect", "cannot connect to %s: %s",
				   address->text, strerror(err));
	}
}

/* A connected socket that does not block, or -errno. */
static int connect_socket(int family, const struct sockaddr *to, socklen_t to_bytes,
			  int interrupt_fd)
{
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	socklen_t err_bytes;
	int err, ready;

	if (fd < 0)
		return -errno;
	if (connect(fd, to, to_bytes) == 0)
		return fd;
	err = errno;
	if (err == EINPROGRESS || err == EAGAIN) {
		ready = conn_wait_for(fd, POLLOUT, interrupt_fd,
				      conn_now_ns() + CONNECT_TIMEOUT_MS * 1000000ull);
		err_bytes = sizeof(err);
		if (ready == 0)
			err = ETIMEDOUT;
		else if (ready < 0)
			err = -ready;
		else if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &err_bytes))
			err = errno;
		if (!err)
			return fd;
	}
	close(fd);
	return -err;
}

static int connect_unix(const struct address *address, int interrupt_fd)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };

	memcpy(to.sun_path, address->path, sizeof(to.sun_path));
	return connect_socket(AF_UNIX, (struct sockaddr *)&to, sizeof(to), interrupt_fd);
}

static bool is_loopback(const struct sockaddr *to)
{
	const struct sockaddr_in *in = (const void *)to;
	const struct sockaddr_in6 *in6 = (const void *)to;

	return to->sa_family == AF_INET ? ntohl(in->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET :
	       to->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr);
}

/* A daemon whose network is gone says nothing, and never will: it is asked whether it is there. */
static void watch_peer(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS },
		{ IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS },
		{ IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(*options); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			   sizeof(options[i].value));
}

/* The first of the host's addresses that answers. */
static int connect_tcp(const struct address *address, int interrupt_fd,
		       struct ringtail_error *error)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *found, *at;
	int err = getaddrinfo(address->host, address->port, &hints, &found), fd = -EHOSTUNREACH;
	bool plain = address->trust.insecure, refused = false;

	if (err) {
		failure_set(error, EHOSTUNREACH, "unknown-host", "no address of host '%s': %s",
			    address->host, gai_strerror(err));
		failure_hint(error, "check how it is written");
		return -EHOSTUNREACH;
	}
	for (at = found; at && fd < 0 && fd != -EINTR; at = at->ai_next) {
		refused |= plain && !is_loopback(at->ai_addr);
		if (!plain || is_loopback(at->ai_addr))
			fd = connect_socket(at->ai_family, at->ai_addr, at->ai_addrlen,
					    interrupt_fd);
	}
	freeaddrinfo(found);
	if (fd < 0 && refused) {
		failure_set(error, EACCES, "insecure-remote",
			    "%s is not on loopback: --insecure is for this host alone",
			    address->text);
		failure_hint(error, "without --insecure it is TLS");
		return -EACCES;
	}
	if (fd < 0)
		return cannot_connect(address, -fd, error);
	watch_peer(fd);
	return fd;
}

int conn_connect(const struct address *address, int interrupt_fd, struct ringtail_error *error)
{
	int fd;

	if (address->kind == ADDRESS_TCP)
		return connect_tcp(address, interrupt_fd, error);
	fd = connect_unix(address, interrupt_fd);
	return fd < 0 ? cannot_connect(address, -fd, error) : fd;
}
