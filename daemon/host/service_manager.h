/*
 * service_manager: the sockets that the manager passes to this process, the messages to the manager (sd_notify(3)), and
 * the descriptors that it stores from one run of the daemon to the next.
 *
 * It hands over sockets that it listens on for us, and what an earlier run has left in its store; by name, as
 * FileDescriptorName= or FDNAME= gave it: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES. The main thread takes them before
 * there is another.
 *
 * The socket is connected once, so that later neither the path nor the right to it is needed. Its
 * calls are the main thread's. Without NOTIFY_SOCKET each of them does nothing.
 */
#ifndef RINGTAIL_DAEMON_HOST_SERVICE_MANAGER_H
#define RINGTAIL_DAEMON_HOST_SERVICE_MANAGER_H

#include <stdbool.h>

#define ACTIVATION_NAME_BYTES	256	/* what systemd allows, and the terminator */

struct activation {
	unsigned count;
	struct activation_fd {
		int fd;				/* -1: taken */
		char name[ACTIVATION_NAME_BYTES];
	} *entry;
};

/*
 * Takes the descriptors that are meant for this process, marks them close-on-exec, and clears the
 * three variables, so that no child believes in them. None is no error. -ENOMEM; what cannot be
 * parsed is -EINVAL with nothing taken.
 */
int activation_take(struct activation *activation);

/* Closes what nobody took. */
void activation_close(struct activation *activation);

/*
 * The next untaken descriptor with that name ("x*": one that begins with x), or -1. It is the
 * caller's from then on. `name` may be NULL, else it is set to the entry's own; borrowed.
 */
int activation_next(struct activation *activation, const char *pattern, const char **name);

struct service_manager;

/* Connects, as $NOTIFY_SOCKET says. NULL: there is no manager; every call takes that. */
struct service_manager *service_manager_connect(void);
void service_manager_close(struct service_manager *manager);

/* "READY=1" and the like, one assignment a line. 0, or -errno where a manager is there. */
int service_manager_notify(struct service_manager *manager, const char *text);

/*
 * Has the manager store a copy of the descriptor under that name for the next run. It does so only if its unit has
 * FileDescriptorStoreMax=, which service_manager_stores() checks.
 */
int service_manager_store(struct service_manager *manager, const char *name, int fd);

/*
 * Has it let go of all that has that name. `barrier` (-1: none): a pipe's write end, of which it
 * closes its copy once it has done that and everything asked before.
 */
int service_manager_drop(struct service_manager *manager, const char *name, int barrier);

/* Begins to keep a witness in its store: from now on service_manager_stores() knows. */
int service_manager_begin_store(struct service_manager *manager);

/* Whether everything that was to be stored is kept there, as far as can be known. */
bool service_manager_stores(const struct service_manager *manager);

#endif
