#include "daemon/net/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libgen.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/host/service_manager.h"
#include "daemon/host/privileges.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/net/lock_file.h"
#include "daemon/net/turnstile.h"

#define BACKLOG 4096	/* a storm of clients that come back waits here; the kernel may lower it */
#define ACCEPT_PAUSE_MS 100
#define LOCK_SUFFIX ".lock"
#define LOCK_PATH_BYTES (sizeof(((struct sockaddr_un *)0)->sun_path) + sizeof(LOCK_SUFFIX))

struct listener {
	struct address address;
	char text[ADDRESS_TEXT_BYTES];
	int fd;
	int lock;			/* of a unix socket's path (net/lock_file.h); -1: none */
	bool for_all;			/* every user may connect to the unix socket */
	bool adopted;			/* the service manager's: its file stays */
	struct turnstile *turnstile;
	struct turnstile_place place;
	struct event *readable, *resume;
	listener_accepted *accepted;
	void *context;
};

/*
 * Whether somebody listens there: 1; if not, what is left of them is removed: 0. Who is too busy to answer
 * is alive. -EACCES where it cannot be asked, or not be removed.
 */
static int is_alive(const struct address *address)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat stat;
	int err = 0;

	if (fd < 0)
		return 0;
	if (connect(fd, (const struct sockaddr *)&address->socket, address->socket_bytes) != 0)
		err = errno;
	close(fd);
	if (err == EACCES)
		return -EACCES;
	if (err != ECONNREFUSED)
		return err != ENOENT && err != ENOTDIR;
	if (lstat(address_path(address), &stat) == 0 && S_ISSOCK(stat.st_mode) &&
	    unlink(address_path(address)) != 0 && errno == EACCES)
		return -EACCES;
	return 0;
}

static int make_directory(const struct address *address, const struct account *owner,
			  struct error *error)
{
	char copy[sizeof(((struct sockaddr_un *)0)->sun_path) + 1];
	int err;

	snprintf(copy, sizeof(copy), "%s", address_path(address));
	err = privileges_make_directory(owner, dirname(copy), 0755);
	if (!err)
		return 0;
	error_set(error, -err, "listen-directory", "cannot make the directory of %s: %s",
		  address->text, strerror(-err));
	error_hint(error, "make it, or choose another path with --listen");
	return err;
}

static void lock_path(const struct address *address, char path[LOCK_PATH_BYTES])
{
	snprintf(path, LOCK_PATH_BYTES, "%s" LOCK_SUFFIX, address_path(address));
}

/* 0: the path is this daemon's alone, from here to the end; 1: another daemon has it, and may not listen yet. */
static int take_lock(struct listener *listener)
{
	char path[LOCK_PATH_BYTES];

	if (listener->lock >= 0)
		return 0;
	lock_path(&listener->address, path);
	listener->lock = lock_file_take(path);
	if (listener->lock >= 0)
		return 0;
	return listener->lock == -EWOULDBLOCK ? 1 : listener->lock;
}

static void leave_lock(const struct listener *listener)
{
	char path[LOCK_PATH_BYTES];

	if (listener->lock < 0)
		return;
	lock_path(&listener->address, path);
	lock_file_leave(path, listener->lock);
}

/*
 * Its mode and owner are right from the beginning: afterwards the name may lead anywhere. Who listens there without a
 * lock is the service manager, or a daemon of before.
 */
static int bind_here(void *context)
{
	struct listener *listener = context;
	const struct address *address = &listener->address;
	int err = take_lock(listener);
	mode_t before;

	if (!err)
		err = is_alive(address);
	if (err)
		return err;
	before = umask(listener->for_all ? 0111 : 0117);
	if (bind(listener->fd, (const struct sockaddr *)&address->socket,
		 address->socket_bytes) != 0)
		err = -errno;
	umask(before);
	return err;
}

static int bind_unix(struct listener *listener, const struct account *owner, struct error *error)
{
	const struct address *address = &listener->address;
	int err = make_directory(address, owner, error);

	if (err)
		return err;
	err = privileges_work_as(owner, address_path(address), bind_here, listener);
	if (err > 0) {
		error_set(error, EADDRINUSE, "listen-in-use", "%s: another daemon listens there, or is about to",
			  address->text);
		error_hint(error, "stop it, or choose another path with --listen, --programs or --relay-courier");
		return -EADDRINUSE;
	}
	if (err == -EACCES || err == -EPERM) {
		error_set(error, -err, "listen-bind", "cannot bind %s: uid %u may not write to its directory, or not replace "
			  "what is there, or not open %s" LOCK_SUFFIX, address->text, owner->uid, address_path(address));
		error_hint(error, "make that user, or root, the owner of the directory and of all above it; remove what a killed"
			   " daemon of another user left there; or choose another path with --listen");
	} else if (err) {
		error_set(error, -err, "listen-bind", "cannot bind %s: %s", address->text,
			  strerror(-err));
		error_hint(error, "something else is at that path, or its directory is closed to "
				  "us: choose another with --listen");
	}
	return err;
}

static int bind_tcp(struct listener *listener, struct error *error)
{
	const struct address *address = &listener->address;
	int one = 1, err;

	setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(listener->fd, (const struct sockaddr *)&address->socket,
		 address->socket_bytes) == 0)
		return 0;
	err = errno;
	error_set(error, err, err == EADDRINUSE ? "listen-in-use" : "listen-bind",
		  "cannot bind %s: %s", address->text, strerror(err));
	error_hint(error, err == EADDRINUSE ? "another program has that port: ss -ltnp shows which; "
					      "choose another with --listen"
					    : "choose another address with --listen");
	return -err;
}

static void name_port(struct listener *listener)
{
	struct sockaddr_storage bound;
	socklen_t bytes = sizeof(bound);
	char host[INET6_ADDRSTRLEN] = "";

	snprintf(listener->text, sizeof(listener->text), "%s", listener->address.text);
	if (getsockname(listener->fd, (struct sockaddr *)&bound, &bytes) != 0)
		return;
	if (bound.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)&bound;

		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(listener->text, sizeof(listener->text), "tcp:%s:%u", host,
			 ntohs(in->sin_port));
	} else if (bound.ss_family == AF_INET6) {
		const struct sockaddr_in6 *in6 = (const void *)&bound;

		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(listener->text, sizeof(listener->text), "tcp:[%s]:%u", host,
			 ntohs(in6->sin6_port));
	}
}

static int begin_to_listen(const struct listener *listener, struct error *error)
{
	int err = listen(listener->fd, BACKLOG) == 0 ? 0 : errno;

	if (!err)
		return 0;
	error_set(error, err, "listen-failed", "cannot listen on %s: %s", listener->address.text, strerror(err));
	error_hint(error, "choose another address with --listen");
	return -err;
}

static int create(const struct address *address, uid_t uid, gid_t gid, bool for_all, struct listener **out,
		  struct error *error)
{
	const struct account owner = {.uid = uid, .gid = gid};
	struct listener *listener = calloc(1, sizeof(*listener));
	int err;

	if (!listener)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	listener->address = *address;
	listener->lock = -1;
	listener->for_all = for_all;
	listener->fd = socket(address->socket.ss_family,
			      SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listener->fd < 0) {
		err = address_no_network(address->text, errno, error);
		free(listener);
		return err;
	}
	err = address_is_unix(address) ? bind_unix(listener, &owner, error)
				       : bind_tcp(listener, error);
	/* Whoever connects before the daemon is ready waits; to be refused would mean that it is gone. */
	if (!err && !for_all)
		err = begin_to_listen(listener, error);
	if (err) {
		close(listener->fd);
		leave_lock(listener);
		free(listener);
		return err;
	}
	name_port(listener);
	*out = listener;
	return 0;
}

int listener_create(const struct address *address, uid_t uid, gid_t gid, struct listener **listener,
		    struct error *error)
{
	return create(address, uid, gid, false, listener, error);
}

int listener_create_for_all(const struct address *address, uid_t uid, gid_t gid, struct listener **listener,
			    struct error *error)
{
	return create(address, uid, gid, true, listener, error);
}

static bool is_listening_at(int fd, const struct address *address)
{
	struct sockaddr_storage bound = {0};
	socklen_t bytes = sizeof(bound), value_bytes = sizeof(int);
	int type = 0, listening = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &value_bytes) != 0 || type != SOCK_STREAM ||
	    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &value_bytes) != 0 ||
	    !listening || getsockname(fd, (struct sockaddr *)&bound, &bytes) != 0 ||
	    bound.ss_family != address->socket.ss_family)
		return false;
	if (address_is_unix(address))
		return strcmp(((const struct sockaddr_un *)&bound)->sun_path,
			      address_path(address)) == 0;
	return bytes == address->socket_bytes && memcmp(&bound, &address->socket, bytes) == 0;
}

int listener_adopt(struct activation *activation, const struct address *address,
		   struct listener **out, struct error *error)
{
	struct listener *listener;

	*out = NULL;
	for (unsigned i = 0; i < activation->count; i++) {
		struct activation_fd *passed = &activation->entry[i];

		if (passed->fd < 0 || strcmp(passed->name, LISTENER_PASSED_NAME) != 0 ||
		    !is_listening_at(passed->fd, address))
			continue;
		if (evutil_make_socket_nonblocking(passed->fd) != 0)
			return error_set(error, errno, "listen-failed", "%s: %s", address->text,
					 strerror(errno));
		listener = calloc(1, sizeof(*listener));
		if (!listener)
			return error_set(error, ENOMEM, "out-of-memory", "out of memory");
		listener->address = *address;
		listener->lock = -1;
		listener->adopted = true;
		listener->fd = passed->fd;
		passed->fd = -1;
		name_port(listener);
		*out = listener;
		return 0;
	}
	return 0;
}

int listener_check_adopted(struct activation *activation, struct error *error)
{
	int fd = activation_next(activation, LISTENER_PASSED_NAME, NULL);

	if (fd < 0)
		return 0;
	close(fd);
	error_set(error, EINVAL, "listen-not-configured",
		  "the service manager passes a socket whose address `listen` does not name");
	error_hint(error, "give each ListenStream= of ringtaild.socket a `listen` of its own");
	return -EINVAL;
}

static void describe_peer(const struct listener *listener, int fd, char *peer, size_t bytes)
{
	struct sockaddr_storage from;
	socklen_t from_bytes = sizeof(from);
	char host[INET6_ADDRSTRLEN] = "?";
	struct ucred who;
	socklen_t who_bytes = sizeof(who);

	if (address_is_unix(&listener->address)) {
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_bytes) == 0)
			snprintf(peer, bytes, "unix pid %d uid %u", who.pid, who.uid);
		return;
	}
	if (getpeername(fd, (struct sockaddr *)&from, &from_bytes) != 0)
		return;
	if (from.ss_family == AF_INET) {
		inet_ntop(AF_INET, &((struct sockaddr_in *)&from)->sin_addr, host, sizeof(host));
		snprintf(peer, bytes, "%s:%u", host, ntohs(((struct sockaddr_in *)&from)->sin_port));
	} else {
		inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&from)->sin6_addr, host, sizeof(host));
		snprintf(peer, bytes, "[%s]:%u", host,
			 ntohs(((struct sockaddr_in6 *)&from)->sin6_port));
	}
}

/* A peer that is gone without a word is found out by questions while nothing is said; what is not
 * acknowledged is the server's to bound. */
static void watch_peer(int fd)
{
	const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1},
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_PROBES},
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			   sizeof(options[i].value));
}

static void take(struct listener *listener, int fd)
{
	char peer[128] = "?";

	describe_peer(listener, fd, peer, sizeof(peer));
	if (!address_is_unix(&listener->address))
		watch_peer(fd);
	listener->accepted(listener->context, fd, &listener->address, peer);
}

/* What accept(2) says of a connection that broke in the queue; the next one may be whole. */
static bool is_about_one(int err)
{
	return err == EINTR || err == ECONNABORTED || err == EPROTO || err == ENOPROTOOPT ||
	       err == ENETDOWN || err == ENETUNREACH || err == EHOSTDOWN || err == EHOSTUNREACH ||
	       err == ENONET || err == EOPNOTSUPP || err == EPERM;
}

/* Out of descriptors or memory: the backlog waits until somebody has left. */
static void pause_accepting(struct listener *listener, int err)
{
	struct timeval pause = {.tv_usec = ACCEPT_PAUSE_MS * 1000};

	log_warn("accept-failed", "cannot accept on %s: %s", listener->text, strerror(err));
	event_add(listener->resume, &pause);
}

/* Its turn: as long as more may wait in the backlog it stays in line. */
static void accept_some(void *context)
{
	struct listener *listener = context;

	for (unsigned i = 0; i < ACCEPT_TURN_MAX; i++) {
		int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd >= 0) {
			take(listener, fd);
		} else if (errno == EAGAIN) {
			event_add(listener->readable, NULL);
			return;
		} else if (!is_about_one(errno)) {
			pause_accepting(listener, errno);
			return;
		}
	}
	turnstile_join(listener->turnstile, &listener->place);
}

/* Somebody has connected, or a pause is over. */
static void on_connection(evutil_socket_t fd, short what, void *context)
{
	struct listener *listener = context;

	(void)fd, (void)what;
	turnstile_join(listener->turnstile, &listener->place);
}

int listener_start(struct listener *listener, struct event_base *base,
		   struct turnstile *turnstile, listener_accepted *accepted, void *context,
		   struct error *error)
{
	listener->turnstile = turnstile;
	listener->place = (struct turnstile_place){.go = accept_some, .context = listener};
	listener->accepted = accepted;
	listener->context = context;
	listener->resume = evtimer_new(base, on_connection, listener);
	listener->readable = event_new(base, listener->fd, EV_READ, on_connection, listener);
	if (!listener->resume || !listener->readable || event_add(listener->readable, NULL) != 0)
		return error_set(error, errno ? errno : ENOMEM, "listen-failed",
				 "cannot listen on %s: %s", listener->text, strerror(errno));
	return listener->for_all ? begin_to_listen(listener, error) : 0;
}

void listener_destroy(struct listener *listener)
{
	if (!listener)
		return;
	turnstile_leave(listener->turnstile, &listener->place);
	if (listener->readable)
		event_free(listener->readable);
	if (listener->resume)
		event_free(listener->resume);
	close(listener->fd);
	/* The directory may be of those who started us, and not of the user that we are by now. */
	if (address_is_unix(&listener->address) && !listener->adopted &&
	    unlink(address_path(&listener->address)) != 0 && errno != ENOENT)
		log_warn("socket-left", "%s stays behind: %s; the next start takes it away",
			 address_path(&listener->address), strerror(errno));
	leave_lock(listener);
	free(listener);
}

const char *listener_text(const struct listener *listener)
{
	return listener->text;
}
