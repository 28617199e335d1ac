#include "daemon/base/descriptor.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of Linux 6.3; these headers may be older. */
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif

int descriptor_memory_file(const char *name, bool sealable)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, MFD_CLOEXEC | (sealable ? MFD_ALLOW_SEALING : 0));
	return fd < 0 ? -errno : fd;
}

/* ---- Messages --------------------------------------------------------------------------------- */

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
};

int descriptor_send(int socket, const void *message, size_t bytes, const int *fds, unsigned n)
{
	struct iovec iov = {.iov_base = (void *)message, .iov_len = bytes};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	union control control;
	ssize_t sent;

	if (n) {
		memset(&control, 0, sizeof(control));
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
	}
	do {
		sent = sendmsg(socket, &header, MSG_NOSIGNAL);
	} while (sent < 0 && errno == EINTR);
	return sent < 0 ? -errno : 0;
}

/* Takes the descriptors that there is room for and closes the others; returns how many came. */
static size_t take(struct msghdr *header, int *fds, unsigned most, unsigned *n)
{
	size_t came = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		size_t count = 0;

		if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
			count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++, came++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(fd), sizeof(fd));
			if (*n < most)
				fds[(*n)++] = fd;
			else
				close(fd);
		}
	}
	return came;
}

int descriptor_receive(int socket, void *message, size_t bytes, int *fds, unsigned most, unsigned *n,
		       int flags)
{
	struct iovec iov = {.iov_base = message, .iov_len = bytes};
	union control control;
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				.msg_controllen = sizeof(control)};
	size_t came;
	ssize_t got;

	*n = 0;
	do {
		got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | flags);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	came = take(&header, fds, most, n);
	if ((size_t)got == bytes && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && came == *n)
		return 1;
	while (*n)
		close(fds[--*n]);
	return got || came ? -EPROTO : 0;
}
