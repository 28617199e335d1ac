#include "daemon/source/loader_message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

union control {
	struct cmsghdr header;
	char bytes[CMSG_SPACE(LOADER_MESSAGE_FDS_MAX * sizeof(int))];
};

int loader_message_send(int socket, const struct loader_message *message, const int *fds,
			unsigned n)
{
	struct iovec iov = {.iov_base = (void *)message, .iov_len = sizeof(*message)};
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

int loader_message_receive(int socket, struct loader_message *message, int *fds, unsigned *n,
			   int flags)
{
	struct iovec iov = {.iov_base = message, .iov_len = sizeof(*message)};
	union control control;
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				.msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg;
	ssize_t got;

	*n = 0;
	do {
		got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC | flags);
	} while (got < 0 && errno == EINTR);
	if (got <= 0)
		return got < 0 ? -errno : 0;
	for (cmsg = CMSG_FIRSTHDR(&header); cmsg; cmsg = CMSG_NXTHDR(&header, cmsg)) {
		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		*n = (unsigned)((cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(fds, CMSG_DATA(cmsg), *n * sizeof(int));
	}
	return got == sizeof(*message) ? 1 : -EPROTO;
}
