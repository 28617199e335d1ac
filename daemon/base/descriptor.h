/*
 * descriptor: descriptors for other processes: files in memory that another process receives, or that outlive
 * the daemon; and messages over unix sockets, with descriptors. Any thread.
 */
#ifndef RINGTAIL_DAEMON_BASE_DESCRIPTOR_H
#define RINGTAIL_DAEMON_BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>

#define DESCRIPTORS_MAX 3	/* with one message */

/*
 * A descriptor, close-on-exec, or -errno. Nobody can run the file or make it executable, since Linux
 * 6.3. `sealable`: the caller adds seals of its own.
 */
int descriptor_memory_file(const char *name, bool sealable);

/* One message, which is sent whole or not at all. fds may be NULL with n 0. 0 or -errno. */
int descriptor_send(int socket, const void *message, size_t bytes, const int *fds, unsigned n);

/*
 * 1: a message of just that size, 0: the other end is closed, -errno. Descriptors that came along are
 * the caller's and close-on-exec: *n of them. A message of another size, or with more than `most` of them,
 * which is at most DESCRIPTORS_MAX, is -EPROTO: all of them are closed, and *n is 0. `flags` as recvmsg(2) takes them.
 */
int descriptor_receive(int socket, void *message, size_t bytes, int *fds, unsigned most, unsigned *n,
		       int flags);

#endif
