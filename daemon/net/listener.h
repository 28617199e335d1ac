/*
 * listener: the sockets the daemon listens on. In: addresses; out: connected sockets, each given to
 * `accepted`, which owns it. Main thread.
 */
#ifndef RINGTAIL_DAEMON_NET_LISTENER_H
#define RINGTAIL_DAEMON_NET_LISTENER_H

#include <event2/event.h>
#include <sys/types.h>

#include "daemon/net/address.h"
#include "query/error.h"

/* What the service manager calls its sockets for clients: FileDescriptorName=. */
#define LISTENER_PASSED_NAME "listen"

struct activation;
struct listener;
struct turnstile;

typedef void listener_accepted(void *context, int fd, const struct address *address,
			       const char *peer);

/*
 * Binds and listens. A stale unix socket is replaced; a living one is an error, and one whose daemon is about to
 * listen. A unix socket, its lock and the directory made for it belong to uid and gid from the beginning (host/privileges.h).
 */
int listener_create(const struct address *address, uid_t uid, gid_t gid,
		    struct listener **listener, struct error *error);

/*
 * The same, but every user may connect to the unix socket: who accepts has to ask who it is. It listens from
 * listener_start() on: those who connect before that are programs, which do not wait.
 */
int listener_create_for_all(const struct address *address, uid_t uid, gid_t gid,
			    struct listener **listener, struct error *error);

/*
 * Takes the socket that the service manager listens on at exactly that address, if there is one;
 * *listener is NULL if not. Its file and its rights are the manager's.
 */
int listener_adopt(struct activation *activation, const struct address *address,
		   struct listener **listener, struct error *error);

/* -EINVAL where a socket is left whose clients nobody would serve. */
int listener_check_adopted(struct activation *activation, struct error *error);

/* Begins to accept: a few connections whenever its turn comes. */
int listener_start(struct listener *listener, struct event_base *base,
		   struct turnstile *turnstile, listener_accepted *accepted, void *context,
		   struct error *error);

/* Closes, and removes the socket file if it is ours. NULL is safe. */
void listener_destroy(struct listener *listener);

/* The address as it is now: with the port that 0 became. */
const char *listener_text(const struct listener *listener);

#endif
