/*
 * lock_file: a file beside a unix socket, which one daemon keeps locked as long as the socket's path is its own.
 *
 * The socket itself does not show that. While its daemon starts, a connect(2) is refused as by a dead one, and two
 * daemons that look at the same time would both find it stale.
 *
 * In: the path of the lock file. Out: a descriptor, which is the lock as long as it is open. However the daemon ends,
 * the kernel frees the lock. Main thread.
 */
#ifndef RINGTAIL_DAEMON_NET_LOCK_FILE_H
#define RINGTAIL_DAEMON_NET_LOCK_FILE_H

/* Makes the file (0600) if there is none, and locks it: a descriptor. -EWOULDBLOCK: another daemon has it; -errno. */
int lock_file_take(const char *path);

/* Removes the file, if the path still leads to it, and frees the lock. fd: of lock_file_take(); below 0: none. */
void lock_file_leave(const char *path, int fd);

#endif
