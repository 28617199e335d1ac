/*
 * privileges: the user that each of the two processes becomes, and the rights that it gives up: the engine when the
 * loader is forked and the sockets are bound, the loader when its source is open. In: names of users. Out: accounts, and
 * this process as one of them; directories that root makes for the engine's user. The main thread, before there is
 * another.
 */
#ifndef RINGTAIL_DAEMON_HOST_PRIVILEGES_H
#define RINGTAIL_DAEMON_HOST_PRIVILEGES_H

#include <stdbool.h>
#include <sys/capability.h>
#include <sys/types.h>

#include "query/error.h"

/* A user of this host that a process becomes. */
struct account {
	uid_t uid;
	gid_t gid;
};

/* Finds the account to become; this process's own, if it is not root. -ENOENT: there is no such user. */
int privileges_find(const char *user, struct account *account, struct error *error);

/*
 * Takes a better place in the scheduler's queue, where we may: a ring is small, and its producers can
 * fill it in the time slice of a neighbour. The draining itself is short. Quiet where we may not.
 */
void privileges_raise_priority(void);

/* As many descriptors as we may have: each ring takes three, and each client one. */
void privileges_raise_descriptors(void);

/*
 * Finds the account for the loader, which is neither root's nor the engine's: `ringtail-loader`; if there is none, a
 * number that no account has. A process that may not change users keeps its own, which is *loader then.
 */
int privileges_find_loader(const struct account *engine, struct account *loader,
			   struct error *error);

/*
 * Whether files are opened as root's until it is turned off: for a process that may change users and
 * has no other right to read tracefs. It changes nothing else, and for nobody else.
 */
void privileges_open_as_root(bool on);

/* Becomes that user, in no group, with these capabilities at most, and no way to get others. */
int privileges_keep(const struct account *account, const cap_value_t *keep, size_t count,
		    struct error *error);

/* Keeps the user, and gives up every capability. */
int privileges_give_up(struct error *error);

/* Becomes that user, with no capabilities and no way to get any. */
int privileges_drop(const struct account *account, struct error *error);

/*
 * What root makes for the user that the engine becomes: directories and sockets.
 *
 * A name in a directory that this user may change can lead anywhere by the time that root uses it; so no
 * name is used twice, as in bind(2) and then chown(2). What is made is the user's from the beginning, and it
 * is made with the user's rights alone. Where these do not suffice, as for a directory in /run, it is made
 * with root's, but only if no other than root may change any directory that leads to the last one: then
 * nobody can lead it elsewhere.
 */

/* 0 or -errno. It may run twice: the first time it was refused, with -EACCES or -EPERM. */
typedef int privileges_work(void *context);

/* Does the work, which is about `path`. Whoever is not root, or becomes root, just does it. */
int privileges_work_as(const struct account *user, const char *path, privileges_work *work,
		       void *context);

/* Makes that directory, if there is none. Its mode is exactly that one. */
int privileges_make_directory(const struct account *user, const char *path, mode_t mode);

#endif
