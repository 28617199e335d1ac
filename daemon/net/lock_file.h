/*
 * lock_file: a file beside a socket's that only one daemon holds: whether the socket is in use cannot be seen from the
 * socket while its daemon starts, and two that look at the same time would both find it stale. In: a path. Out: a
 * descriptor that is the lock, as long as it is open. The kernel takes the lock back however the daemon ends. Main
 * thread.
 */
#ifndef RINGTAIL_DAEMON_NET_LOCK_FILE_H
#define RINGTAIL_DAEMON_NET_LOCK_FILE_H

/* Makes the file (0600) if there is none. A descriptor; -EWOULDBLOCK: somebody else holds it; or -errno. */
int lock_file_take(const char *path);

/* Removes the file, if it is still that one, and gives the lock back. -1 is no lock. */
void lock_file_leave(const char *path, int fd);

#endif
