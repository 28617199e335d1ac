/*
 * users: the names of this host's users, which filters know: read once, before the engine loses sight of
 * the host's files.
 */
#ifndef RINGTAIL_DAEMON_HOST_USERS_H
#define RINGTAIL_DAEMON_HOST_USERS_H

#define USERS_BYTES_MAX	(1u << 20)	/* of the file; users beyond it have no name */

/* NULL: /etc/passwd. What cannot be read has no names: root is known all the same. */
void users_read(const char *path);

#endif
