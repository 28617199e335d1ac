/*
 * sandbox_view: what a process still sees of the file system: the engine an empty tree with the few
 * places that it works with, the loader nothing. Who is root makes the tree; the unit has made one for
 * each of them, for those whom it starts. In: places; out: a tree that this process is in. The main thread,
 * before there is another.
 */
#ifndef RINGTAIL_DAEMON_HOST_SANDBOX_VIEW_H
#define RINGTAIL_DAEMON_HOST_SANDBOX_VIEW_H

#include "query/error.h"

#define SANDBOX_PLACES_MAX 256

enum sandbox_access {
	SANDBOX_READ,
	SANDBOX_WRITE,
};

struct sandbox_view {
	unsigned count;
	struct sandbox_place {
		char *path;		/* absolute */
		enum sandbox_access access;
	} place[SANDBOX_PLACES_MAX];
};

/*
 * Adds a directory or a file; what does not exist is left out. A relative path begins where the
 * process is now. -ENOMEM, or -E2BIG beyond the bound.
 */
int sandbox_view_add(struct sandbox_view *view, const char *path, enum sandbox_access access);

/*
 * Adds the directory that the file lies in, and where links lead, the one that it truly lies in: so
 * a file that rename(2) puts in its place is seen as well. Of the root, only the file.
 */
int sandbox_view_add_file(struct sandbox_view *view, const char *path, enum sandbox_access access);

/*
 * The calling process, which has one thread, moves into a tree of these places and no other, under
 * the names that they had. Its working directory stays, if empty. -EPERM without CAP_SYS_ADMIN and
 * -ENOSYS before Linux 5.12: nothing is changed then.
 */
int sandbox_view_enter(struct sandbox_view *view, struct error *error);

/*
 * The calling process moves into the tree that the unit has made for it: /ringtail/NAME, which has the
 * places under the names that they had. 1: it is there; 0: there is none, or the process may not
 * (without CAP_SYS_CHROOT).
 */
int sandbox_view_of_unit(const char *name, struct error *error);

void sandbox_view_fini(struct sandbox_view *view);

#endif
