/*
 * sim_net: the daemon's descriptors: eventfds, and sockets to clients over links that are slow, cut
 * reads and writes short, and break. Numbers are never used twice, so that a descriptor used after
 * its end is found out. What is not ours (memory files) is the kernel's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/sim/sim.h"

#define FD_FIRST 1000000
#define FDS_MAX 65536
#define BACKLOG 64u

/* One direction. */
struct pipe {
	uint8_t *bytes;			/* arrived and unread */
	size_t n, room;
	size_t on_the_way;
	uint64_t last_ns;		/* when the newest of these arrives */
};

struct sim_conn {
	unsigned id, references;
	int fd;				/* -1: not accepted */
	struct sim_link link;
	struct sim_peer peer;
	struct pipe up, down;		/* to the server, to the client */
	bool client_gone, server_gone;	/* closed */
	bool reset;			/* the server finds out at its next call */
	bool up_ended;			/* the server reads an end of file after `up` */
	bool down_ending;		/* the server has said that there will be no more */
};

enum fd_kind {
	FD_CLOSED,
	FD_EVENT,
	FD_SOCKET,
	FD_LISTEN,
};

struct descriptor {
	enum fd_kind kind;
	uint64_t count;
	struct sim_conn *conn;
};

/* Bytes on their way, or (n = 0) the end. */
struct parcel {
	struct sim_conn *conn;
	bool up;
	size_t n;
	uint8_t bytes[];
};

static struct descriptor descriptor[FDS_MAX];
static int descriptors;
static struct sim_conn *backlog[BACKLOG];
static unsigned waiting, connections;
static int listener = -1;

/* ---- Descriptors ----------------------------------------------------------------------------- */

static int open_fd(enum fd_kind kind)
{
	if (descriptors == FDS_MAX)
		sim_fail("the daemon has opened %d descriptors", FDS_MAX);
	descriptor[descriptors].kind = kind;
	return FD_FIRST + descriptors++;
}

/* NULL: the kernel's. */
static struct descriptor *find(int fd)
{
	if (fd < FD_FIRST)
		return NULL;
	if (fd >= FD_FIRST + descriptors || descriptor[fd - FD_FIRST].kind == FD_CLOSED)
		sim_fail("descriptor %d is used after its end", fd - FD_FIRST);
	return &descriptor[fd - FD_FIRST];
}

unsigned sim_net_sockets(void)
{
	unsigned n = 0;

	for (int i = 0; i < descriptors; i++)
		n += descriptor[i].kind == FD_SOCKET;
	return n;
}

/* ---- Parcels --------------------------------------------------------------------------------- */

static void release(struct sim_conn *conn)
{
	if (--conn->references)
		return;
	free(conn->up.bytes);
	free(conn->down.bytes);
	free(conn);
}

static void put(struct pipe *pipe, const uint8_t *bytes, size_t n)
{
	if (!n)
		return;
	if (pipe->n + n > pipe->room) {
		pipe->room = 2 * (pipe->n + n);
		pipe->bytes = sim_realloc(pipe->bytes, pipe->room);
	}
	memcpy(pipe->bytes + pipe->n, bytes, n);
	pipe->n += n;
}

static size_t get(struct pipe *pipe, void *bytes, size_t n)
{
	n = n < pipe->n ? n : pipe->n;
	if (!n)
		return 0;
	memcpy(bytes, pipe->bytes, n);
	pipe->n -= n;
	memmove(pipe->bytes, pipe->bytes + n, pipe->n);
	return n;
}

static void arrive(void *context)
{
	struct parcel *parcel = context;
	struct sim_conn *conn = parcel->conn;

	if (parcel->up) {
		conn->up.on_the_way -= parcel->n;
		put(&conn->up, parcel->bytes, parcel->n);
		conn->up_ended |= !parcel->n;
	} else if (!conn->client_gone && !conn->reset) {
		conn->down.on_the_way -= parcel->n;
		put(&conn->down, parcel->bytes, parcel->n);
		if (parcel->n)
			conn->peer.arrived(conn->peer.context);
		else
			conn->peer.ended(conn->peer.context, false);
	}
	free(parcel);
	release(conn);
}

static void send_parcel(struct sim_conn *conn, bool up, const struct iovec *iov, size_t n)
{
	struct pipe *pipe = up ? &conn->up : &conn->down;
	struct parcel *parcel = sim_calloc(sizeof(*parcel) + n);
	uint64_t at = sim.now_ns + conn->link.latency_ns + sim_below(conn->link.latency_ns + 1);

	*parcel = (struct parcel){.conn = conn, .up = up, .n = n};
	for (size_t done = 0; done < n; iov++) {
		size_t part = iov->iov_len < n - done ? iov->iov_len : n - done;

		memcpy(parcel->bytes + done, iov->iov_base, part);
		done += part;
	}
	pipe->last_ns = at > pipe->last_ns ? at : pipe->last_ns;
	pipe->on_the_way += n;
	conn->references++;
	sim_after(pipe->last_ns - sim.now_ns, arrive, parcel);
}

static void tell_reset(void *context)
{
	struct sim_conn *conn = context;

	if (!conn->client_gone)
		conn->peer.ended(conn->peer.context, true);
	release(conn);
}

/* Both ways at once; what was on its way is lost. */
static void reset(struct sim_conn *conn)
{
	if (conn->reset)
		return;
	conn->reset = true;
	conn->up.n = 0;
	conn->references++;
	sim_after(conn->link.latency_ns, tell_reset, conn);
}

/* ---- The client's end ------------------------------------------------------------------------ */

int sim_listen(void)
{
	return listener = open_fd(FD_LISTEN);
}

int sim_accept(void)
{
	struct sim_conn *conn;

	if (!waiting)
		return -1;
	conn = backlog[0];
	memmove(backlog, backlog + 1, --waiting * sizeof(backlog[0]));
	conn->fd = open_fd(FD_SOCKET);
	descriptor[conn->fd - FD_FIRST].conn = conn;
	return conn->fd;
}

struct sim_conn *sim_connect(const struct sim_link *link, const struct sim_peer *peer)
{
	struct sim_conn *conn;

	if (listener < 0 || waiting == BACKLOG)
		return NULL;
	conn = sim_calloc(sizeof(*conn));
	conn->id = ++connections;
	conn->references = 2;
	conn->fd = -1;
	conn->link = *link;
	conn->peer = *peer;
	backlog[waiting++] = conn;
	return conn;
}

unsigned sim_conn_id(const struct sim_conn *conn)
{
	return conn->id;
}

void sim_conn_write(struct sim_conn *conn, const void *bytes, size_t n)
{
	if (n && !conn->server_gone && !conn->reset)
		send_parcel(conn, true, &(struct iovec){(void *)bytes, n}, n);
}

size_t sim_conn_read(struct sim_conn *conn, void *bytes, size_t n)
{
	return get(&conn->down, bytes, n);
}

size_t sim_conn_unread(const struct sim_conn *conn)
{
	return conn->down.n;
}

bool sim_conn_is_dropped(const struct sim_conn *conn)
{
	return conn->server_gone;
}

void sim_conn_close(struct sim_conn *conn, bool by_reset)
{
	conn->client_gone = true;
	if (by_reset || conn->down.n)
		reset(conn);
	else if (!conn->server_gone)
		send_parcel(conn, true, NULL, 0);
	release(conn);
}

/* ---- The server's end ------------------------------------------------------------------------ */

static void close_socket(struct sim_conn *conn)
{
	conn->server_gone = true;
	/* As TCP does: with bytes unread, the client may never see what was sent. */
	if (conn->up.n || conn->up.on_the_way)
		reset(conn);
	else if (!conn->reset && !conn->down_ending)
		send_parcel(conn, false, NULL, 0);
	release(conn);
}

void sim_net_kill(void)
{
	for (int i = 0; i < descriptors; i++) {
		if (descriptor[i].kind == FD_SOCKET) {
			reset(descriptor[i].conn);
			close_socket(descriptor[i].conn);
		}
		/* Others may have the rest too: the kernel its bells. */
		if (descriptor[i].kind != FD_EVENT)
			descriptor[i].kind = FD_CLOSED;
	}
	for (; waiting; waiting--) {
		reset(backlog[waiting - 1]);
		backlog[waiting - 1]->server_gone = true;
		release(backlog[waiting - 1]);
	}
	listener = -1;
}

static size_t room(const struct sim_conn *conn)
{
	size_t used = conn->down.n + conn->down.on_the_way;

	return used < conn->link.capacity ? conn->link.capacity - used : 0;
}

bool sim_fd_readable(int fd)
{
	struct descriptor *mine = find(fd);

	if (!mine)
		sim_fail("a loop waits for descriptor %d, which is real", fd);
	if (mine->kind == FD_EVENT)
		return mine->count;
	if (mine->kind == FD_LISTEN)
		return waiting;
	return mine->conn->up.n || mine->conn->up_ended || mine->conn->reset;
}

bool sim_fd_writable(int fd)
{
	struct descriptor *mine = find(fd);

	return mine && mine->kind == FD_SOCKET && (room(mine->conn) || mine->conn->reset);
}

/* Mostly as much as was asked for. */
static size_t some(size_t n)
{
	return n > 1 && sim_chance(20) ? sim_between(1, n) : n;
}

static ssize_t receive(struct sim_conn *conn, void *bytes, size_t n)
{
	if (sim_chance(2))
		return errno = EINTR, -1;
	if (conn->reset)
		return errno = ECONNRESET, -1;
	if (conn->up.n)
		return (ssize_t)get(&conn->up, bytes, some(n < conn->up.n ? n : conn->up.n));
	if (conn->up_ended)
		return 0;
	return errno = EAGAIN, -1;
}

static ssize_t transmit(struct sim_conn *conn, const struct iovec *iov, size_t iovs)
{
	size_t n = 0;

	for (size_t i = 0; i < iovs; i++)
		n += iov[i].iov_len;
	if (conn->reset)
		return errno = ECONNRESET, -1;
	if (conn->down_ending)
		return errno = EPIPE, -1;
	if (sim_chance(2))
		return errno = EINTR, -1;
	n = n < room(conn) ? n : room(conn);
	if (!n)
		return errno = EAGAIN, -1;
	n = some(n);
	/* Who has closed sends a reset for what still comes. */
	if (conn->client_gone)
		reset(conn);
	else
		send_parcel(conn, false, iov, n);
	return (ssize_t)n;
}

/* ---- In the place of the system calls -------------------------------------------------------- */

ssize_t __real_read(int fd, void *bytes, size_t n);
ssize_t __real_write(int fd, const void *bytes, size_t n);
int __real_close(int fd);
int __real_fcntl(int fd, int command, ...);

int __wrap_eventfd(unsigned count, int flags);
int __wrap_eventfd(unsigned count, int flags)
{
	int fd = open_fd(FD_EVENT);

	(void)flags;
	descriptor[fd - FD_FIRST].count = count;
	return fd;
}

ssize_t __wrap_read(int fd, void *bytes, size_t n);
ssize_t __wrap_read(int fd, void *bytes, size_t n)
{
	struct descriptor *mine = find(fd);

	if (!mine)
		return __real_read(fd, bytes, n);
	if (mine->kind == FD_SOCKET)
		return receive(mine->conn, bytes, n);
	if (!mine->count)
		return errno = EAGAIN, -1;
	memcpy(bytes, &mine->count, sizeof(mine->count));
	mine->count = 0;
	return sizeof(mine->count);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
	struct descriptor *mine = find(fd);
	uint64_t more;

	if (!mine)
		return __real_write(fd, bytes, n);
	if (mine->kind == FD_SOCKET)
		return transmit(mine->conn, &(struct iovec){(void *)bytes, n}, 1);
	memcpy(&more, bytes, sizeof(more));
	mine->count += more;
	return sizeof(more);
}

int __wrap_close(int fd);
int __wrap_close(int fd)
{
	struct descriptor *mine = find(fd);

	if (!mine)
		return __real_close(fd);
	if (mine->kind == FD_SOCKET)
		close_socket(mine->conn);
	if (mine->kind == FD_LISTEN)
		listener = -1;
	mine->kind = FD_CLOSED;
	return 0;
}

int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...)
{
	va_list arguments;
	long argument;

	va_start(arguments, command);
	argument = va_arg(arguments, long);
	va_end(arguments);
	return find(fd) ? 0 : __real_fcntl(fd, command, argument);
}

/* These are called with sockets alone, and a socket is always ours. */
static struct sim_conn *socket_of(int fd)
{
	struct descriptor *mine = find(fd);

	if (!mine || mine->kind != FD_SOCKET)
		sim_fail("descriptor %d is no socket", fd);
	return mine->conn;
}

ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *bytes, size_t n, int flags)
{
	(void)flags;
	return receive(socket_of(fd), bytes, n);
}

ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *bytes, size_t n, int flags)
{
	(void)flags;
	return transmit(socket_of(fd), &(struct iovec){(void *)bytes, n}, 1);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
	(void)flags;
	return transmit(socket_of(fd), message->msg_iov, message->msg_iovlen);
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
	struct sim_conn *conn = socket_of(fd);

	if (how != SHUT_RD && !conn->down_ending && !conn->reset) {
		conn->down_ending = true;
		send_parcel(conn, false, NULL, 0);
	}
	return 0;
}
