/*
 * activation: the descriptors that the service manager hands to this process: sockets that it
 * listens on for us, and what an earlier run has left in its store (service_manager.h). By name, as
 * FileDescriptorName= or FDNAME= gave it.
 *
 * In: LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES. The main thread, before there is another.
 */
#ifndef RINGTAIL_DAEMON_HOST_ACTIVATION_H
#define RINGTAIL_DAEMON_HOST_ACTIVATION_H

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

#endif
