/*
 * privileges: what the engine gives up once the loader is forked and the sockets are bound.
 */
#ifndef RINGTAIL_DAEMON_HOST_PRIVILEGES_H
#define RINGTAIL_DAEMON_HOST_PRIVILEGES_H

#include <sys/types.h>

#include "query/error.h"

struct identity {
	uid_t uid;
	gid_t gid;
};

/* Whom to become; who we are, when not root. -ENOENT: there is no such user. */
int privileges_find(const char *user, struct identity *identity, struct error *error);

/*
 * Takes a better place in the scheduler's queue, where we may: a ring is small, and its producers can
 * fill it in the time slice of a neighbour. The draining itself is short. Quiet where we may not.
 */
void privileges_raise_priority(void);

/* As many descriptors as we may have: each ring takes three, and each client one. */
void privileges_raise_descriptors(void);

/* Becomes that user, with no capabilities and no way to get any. */
int privileges_drop(const struct identity *identity, struct error *error);

#endif
