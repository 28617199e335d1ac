/*
 * sandbox: what each of the two processes can no longer do, once it has started. A filter in the
 * kernel ends the process (SIGSYS) at the first system call that is not on its list: one that makes
 * such a call is not ours any more. In: what the process still does; out: a filter. The main thread, for
 * all threads.
 */
#ifndef RINGTAIL_DAEMON_HOST_SANDBOX_H
#define RINGTAIL_DAEMON_HOST_SANDBOX_H

#include <stdbool.h>
#include <sys/types.h>

#include "query/error.h"

/*
 * Sanitizers make calls of their own, at any time: a daemon built with one has no filter, and says
 * so at start. No other has none.
 */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANDBOX_FILTERS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
	__has_feature(memory_sanitizer)
#define SANDBOX_FILTERS 0
#endif
#endif
#ifndef SANDBOX_FILTERS
#define SANDBOX_FILTERS 1
#endif

struct sandbox_engine {
	pid_t loader;		/* the one process that it may end */
	bool resolves;		/* it connects to back ends, by name */
};

/* For the calling process, all its threads, and those that they make: nothing takes it back. */
int sandbox_engine(const struct sandbox_engine *engine, struct error *error);

/* For the loader, when the source is open. */
int sandbox_loader(struct error *error);

/* For the finder, which opens files and forks readers; and for a reader, once its file is open. */
int sandbox_finder(bool attaches, struct error *error);
int sandbox_reader(struct error *error);

/* For the courier, before it connects to anybody: it reads files, talks to the daemon and to Kafka, and no more. */
int sandbox_courier(struct error *error);

/*
 * The view: the part of the file system that a process can still open. The engine has an empty tree with
 * the few places that it works with, the loader has nothing. A process of root makes its tree itself;
 * systemd's unit makes one for each process that it starts. The main thread, before there is another.
 */
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
