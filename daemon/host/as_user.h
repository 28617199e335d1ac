/*
 * as_user: what root makes for the user that the engine becomes: directories and sockets.
 *
 * A name in a directory that this user may change can lead anywhere by the time that root uses it; so no
 * name is used twice, as in bind(2) and then chown(2). What is made is the user's from the beginning, and it
 * is made with the user's rights alone. Where these do not suffice, as for a directory in /run, it is made
 * with root's, but only if no other than root may change any directory that leads to the last one: then
 * nobody can lead it elsewhere. Main thread, before there is another.
 */
#ifndef RINGTAIL_DAEMON_HOST_AS_USER_H
#define RINGTAIL_DAEMON_HOST_AS_USER_H

#include <sys/types.h>

#include "daemon/host/privileges.h"

/* 0 or -errno. It may run twice: the first time it was refused, with -EACCES or -EPERM. */
typedef int as_user_work(void *context);

/* Does the work, which is about `path`. Whoever is not root, or becomes root, just does it. */
int as_user(const struct account *user, const char *path, as_user_work *work, void *context);

/* Makes that directory, if there is none. Its mode is exactly that one. */
int as_user_make_directory(const struct account *user, const char *path, mode_t mode);

#endif
