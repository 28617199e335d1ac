#include "client/lib/conn.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client/lib/conn_tls.h"
#include "client/lib/failure.h"
#include "client/lib/frame_reader.h"
#include "client/lib/limits.h"
#include "client/lib/trust.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define TLS_RECORD_BYTES_MAX	16384	/* what may be decrypted and not read: RFC 8446, 5.1 */

struct conn {
	int fd;
	int interrupt_fd;
	bool is_file;
	struct frame_reader *reader;
	struct frame_codec *codec;
	struct conn_tls *tls;		/* NULL: plain */
	char token[TRUST_TOKEN_BYTES_MAX];
	char name[ADDRESS_TEXT_BYTES];
};

uint64_t conn_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- Connecting ------------------------------------------------------------------------------ */

/* 1: ready, 0: time is over, -EINTR: interrupted. deadline_ns of UINT64_MAX: wait for ever. */
static int conn_wait_for(int fd, short events, int interrupt_fd, uint64_t deadline_ns)
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

/* A connected socket that does not block, within CONNECT_TIMEOUT_MS; -errno with *error. */
static int conn_connect(const struct address *address, int interrupt_fd, struct ringtail_error *error)
{
	int fd;

	if (address->kind == ADDRESS_TCP)
		return connect_tcp(address, interrupt_fd, error);
	fd = connect_unix(address, interrupt_fd);
	return fd < 0 ? cannot_connect(address, -fd, error) : fd;
}

/* ---- A daemon that is starting --------------------------------------------------------------- */

static conn_notice *notice_set;

void conn_set_notice(conn_notice *notice)
{
	notice_set = notice;
}

/* 0 once the socket is ready, or -errno. */
static int wait_while_starting(struct conn *conn, short events, struct ringtail_error *error)
{
	int ready = conn_wait_for(conn->fd, events, conn->interrupt_fd,
				  conn_now_ns() + STARTING_NOTICE_MS * 1000000ull);
	char text[sizeof(conn->name) + 128];

	if (ready == 0) {
		snprintf(text, sizeof(text), "%s listens, but does not answer yet: the daemon is "
			 "starting, or is busy; waiting for up to %d s", conn->name,
			 STARTING_TIMEOUT_MS / 1000);
		if (notice_set)
			notice_set(text);
		ready = conn_wait_for(conn->fd, events, conn->interrupt_fd,
				      conn_now_ns() + STARTING_TIMEOUT_MS * 1000000ull);
	}
	if (ready > 0)
		return 0;
	if (ready < 0)
		return failure_set(error, -ready, "interrupted", "interrupted");
	failure_set(error, ETIMEDOUT, "timeout", "%s listens, but has not answered for %d s: the "
		    "daemon is starting, or is held up", conn->name, STARTING_TIMEOUT_MS / 1000);
	failure_hint(error, "`systemctl status ringtaild` and `journalctl -u ringtaild` say which");
	return -ETIMEDOUT;
}

/* ---- Connecting ----------------------------------------------------------------------------- */

static int shake_hands(struct conn *conn, const struct address *address,
		       struct ringtail_error *error)
{
	int err = conn_tls_create(conn->fd, address, &conn->tls, error);

	if (err)
		return err;
	frame_reader_set_source(conn->reader, conn_tls_read, conn->tls);
	while ((err = conn_tls_shake(conn->tls, error)) == -EAGAIN) {
		err = wait_while_starting(conn, conn_tls_wanted(conn->tls), error);
		if (err)
			return err;
	}
	return err;
}

/* What goes over plain tcp anybody on the host may read. */
static int take_token(struct conn *conn, const struct address *address,
		      struct ringtail_error *error)
{
	int err;

	if (address->kind == ADDRESS_UNIX || !address->trust.insecure)
		return trust_read_token(&address->trust, conn->token, error);
	if (!address->trust.token_file)
		return 0;
	err = failure_set(error, EACCES, "token-in-clear",
			  "a token is not sent over plain tcp, where others could read it");
	failure_hint(error, "leave --insecure out, or --token-file (RINGTAIL_TOKEN_FILE)");
	return err;
}

static int connect_to(const struct address *address, int interrupt_fd, struct conn **made,
		      struct ringtail_error *error)
{
	int fd = conn_connect(address, interrupt_fd, error), err;

	if (fd < 0)
		return fd;
	err = conn_open_fd(fd, address->text, made, error);
	if (err)
		return err;
	(*made)->interrupt_fd = interrupt_fd;
	(*made)->is_file = false;
	return 0;
}

int conn_open(const struct address *address, int interrupt_fd, struct conn **made,
	      struct ringtail_error *error)
{
	struct conn *conn;
	int err = connect_to(address, interrupt_fd, &conn, error);

	if (err)
		return err;
	err = take_token(conn, address, error);
	if (!err && address->kind == ADDRESS_TCP && !address->trust.insecure)
		err = shake_hands(conn, address, error);
	if (err)
		conn_close(conn);
	else
		*made = conn;
	return err;
}

int conn_see_certificate(const struct address *address, struct tls_span *span,
			 struct ringtail_error *error)
{
	struct conn *conn;
	int err = connect_to(address, -1, &conn, error);
	bool seen;

	if (err)
		return err;
	err = shake_hands(conn, address, error);
	seen = conn->tls && conn_tls_peer_span(conn->tls, span);
	conn_close(conn);
	return seen ? 0 : err;
}

int conn_open_fd(int fd, const char *name, struct conn **made, struct ringtail_error *error)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	if (conn) {
		conn->fd = fd;
		conn->interrupt_fd = -1;
		conn->is_file = true;
		snprintf(conn->name, sizeof(conn->name), "%s", name);
		conn->reader = frame_reader_create(fd, FRAME_RAW_BYTES_MAX);
		conn->codec = frame_codec_create(1);
	}
	if (!conn || !conn->reader || !conn->codec) {
		if (conn)
			conn_close(conn);
		else
			close(fd);
		return failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	*made = conn;
	return 0;
}

void conn_close(struct conn *conn)
{
	if (!conn)
		return;
	frame_reader_destroy(conn->reader);
	conn_tls_destroy(conn->tls);
	frame_codec_destroy(conn->codec);
	close(conn->fd);
	free(conn);
}

/* ---- Frames --------------------------------------------------------------------------------- */

static int send_all(struct conn *conn, const uint8_t *bytes, size_t n,
		    struct ringtail_error *error)
{
	uint64_t deadline_ns = conn_now_ns() + REPLY_TIMEOUT_MS * 1000000ull;
	size_t sent = 0;

	while (sent < n) {
		ssize_t some = conn->tls ? conn_tls_write(conn->tls, bytes + sent, n - sent) :
			       send(conn->fd, bytes + sent, n - sent, MSG_NOSIGNAL);
		int ready;

		if (some >= 0) {
			sent += (size_t)some;
			continue;
		}
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return failure_set(error, errno, "connection-lost",
					   "the connection to %s broke: %s", conn->name,
					   strerror(errno));
		ready = conn_wait_for(conn->fd, conn->tls ? conn_tls_wanted(conn->tls) : POLLOUT,
				      conn->interrupt_fd, deadline_ns);
		if (ready == 0)
			return failure_set(error, ETIMEDOUT, "timeout",
					   "%s does not read what is sent to it", conn->name);
		if (ready < 0)
			return failure_set(error, -ready, "interrupted", "interrupted");
	}
	return 0;
}

int conn_send(struct conn *conn, enum frame_type type, const ProtobufCMessage *message,
	      struct ringtail_error *error)
{
	size_t raw_bytes = protobuf_c_message_get_packed_size(message), bytes;
	uint8_t *raw, *out;
	int err;

	if (raw_bytes > REQUEST_RAW_BYTES_MAX)
		return failure_set(error, EMSGSIZE, "too-large",
				   "the request is too large: %zu bytes, of at most %u",
				   raw_bytes, REQUEST_RAW_BYTES_MAX);
	raw = malloc(raw_bytes + 1);
	out = malloc(frame_bound((uint32_t)raw_bytes));
	if (raw && out) {
		protobuf_c_message_pack(message, raw);
		bytes = frame_seal(conn->codec, type, raw, (uint32_t)raw_bytes, out);
		err = send_all(conn, out, bytes, error);
	} else {
		err = failure_set(error, ENOMEM, "no-memory", "out of memory");
	}
	free(raw);
	free(out);
	return err;
}

int conn_send_hello(struct conn *conn, struct ringtail_error *error)
{
	Ringtail__V1__ClientHello hello = RINGTAIL__V1__CLIENT_HELLO__INIT;
	Ringtail__V1__Feature feature[] = {
		RINGTAIL__V1__FEATURE__FEATURE_WATERMARK,
		RINGTAIL__V1__FEATURE__FEATURE_RESUME,
		RINGTAIL__V1__FEATURE__FEATURE_CONTROL,
		RINGTAIL__V1__FEATURE__FEATURE_CONTEXT,
		RINGTAIL__V1__FEATURE__FEATURE_HOSTS,
		RINGTAIL__V1__FEATURE__FEATURE_COUNTS,
	};
	char software[] = "tracectl " RINGTAIL_VERSION;
	int err;

	hello.version_min = FRAME_VERSION;
	hello.version_max = FRAME_VERSION;
	hello.n_feature = sizeof(feature) / sizeof(*feature);
	hello.feature = feature;
	hello.software = software;
	hello.token = conn->token;
	err = conn_send(conn, FRAME_CLIENT_HELLO, &hello.base, error);
	/* A daemon that lets nobody in says why, and closes: that is there to be read. */
	if (err)
		return err == -EPIPE || err == -ECONNRESET ? 0 : err;
	return conn->tls ? 0 : wait_while_starting(conn, POLLIN, error);
}

void conn_pass_on(struct conn *conn, const char *name)
{
	explicit_bzero(conn->token, sizeof(conn->token));
	snprintf(conn->name, sizeof(conn->name), "%s", name);
}

/* What comes first is not the magic of a frame, or there is nothing at all. */
static enum conn_wait foreign(struct conn *conn, struct ringtail_error *error)
{
	size_t bytes;
	const uint8_t *at = frame_reader_peek(conn->reader, &bytes);

	failure_set(error, EBADMSG, conn->is_file ? "foreign-file" : "no-ringtaild",
		    conn->is_file ? "%s holds no frames of ringtail: it looks like %s" :
		    "what answers at %s is no ringtaild: it looks like %s", conn->name,
		    file_kind_name(at, bytes));
	return CONN_BAD;
}

static enum conn_wait ended(struct conn *conn, enum frame_read how, struct ringtail_error *error)
{
	uint64_t offset = frame_reader_offset(conn->reader);
	size_t left;
	const uint8_t *at = frame_reader_peek(conn->reader, &left);

	if (how == FRAME_READ_FAILED && conn->tls && conn_tls_refused(conn->tls, error))
		return CONN_BAD;
	if (how == FRAME_READ_FAILED) {
		failure_set(error, errno, conn->is_file ? "cannot-read" : "connection-lost",
			    conn->is_file ? "cannot read %s: %s" : "the connection to %s broke: %s",
			    conn->name, strerror(errno));
		return CONN_LOST;
	}
	if (offset == 0 && (left ? at[0] != (FRAME_MAGIC & 0xff) : conn->is_file))
		return foreign(conn, error);
	if (how == FRAME_READ_TRUNCATED) {
		failure_set(error, EBADMSG, "truncated",
			    "%s is cut off: of the frame at byte %llu only %zu bytes are there",
			    conn->name, (unsigned long long)offset, left);
		return CONN_LOST;
	}
	failure_set(error, ECONNRESET, "connection-lost", conn->is_file ? "%s ends" :
		    "the daemon at %s closed the connection", conn->name);
	if (offset == 0 && !conn->is_file && !conn->tls && !strncmp(conn->name, "tcp:", 4))
		failure_hint(error, "if it speaks TLS, leave --insecure out");
	return CONN_END;
}

static enum conn_wait bad(struct conn *conn, struct ringtail_error *error)
{
	enum frame_status status = frame_reader_status(conn->reader);
	uint64_t offset = frame_reader_offset(conn->reader);

	if (offset == 0 && status == FRAME_BAD_MAGIC)
		return foreign(conn, error);
	failure_set(error, EBADMSG, frame_status_name(status), "%s, byte %llu: %s", conn->name,
		    (unsigned long long)offset, frame_status_text(status));
	if (status == FRAME_BAD_VERSION)
		failure_hint(error, "install the same release of ringtail on both sides");
	else if (conn->is_file && offset)
		failure_hint(error, "what comes before that byte was read and is good");
	return CONN_BAD;
}

enum conn_wait conn_wait(struct conn *conn, int timeout_ms, struct frame *frame,
			 struct ringtail_error *error)
{
	uint64_t deadline_ns = timeout_ms < 0 ? UINT64_MAX :
			       conn_now_ns() + (uint64_t)timeout_ms * 1000000u;

	for (;;) {
		enum frame_read read = frame_reader_next(conn->reader, frame);
		int ready;

		if (read == FRAME_READ_FRAME)
			return CONN_FRAME;
		if (read == FRAME_READ_BAD)
			return bad(conn, error);
		ready = conn->tls && conn_tls_pending(conn->tls) ?
				1 : conn_wait_for(conn->fd, POLLIN, conn->interrupt_fd, deadline_ns);
		if (ready == 0)
			return CONN_TIMEOUT;
		if (ready < 0)
			return CONN_INTERRUPTED;
		read = frame_reader_fill(conn->reader);
		if (read != FRAME_READ_MORE)
			return ended(conn, read, error);
	}
}

uint64_t conn_offset(const struct conn *conn)
{
	return frame_reader_offset(conn->reader);
}

uint64_t conn_arrived_end(const struct conn *conn)
{
	size_t decrypted = conn->tls ? TLS_RECORD_BYTES_MAX : 0, buffered;
	int queued = 0;

	frame_reader_peek(conn->reader, &buffered);
	ioctl(conn->fd, FIONREAD, &queued);
	return frame_reader_offset(conn->reader) + buffered + decrypted + (size_t)queued;
}

void conn_set_interrupt(struct conn *conn, int fd)
{
	conn->interrupt_fd = fd;
}

const char *conn_name(const struct conn *conn)
{
	return conn->name;
}
