#include "daemon/source/loader_message.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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

/* ---- What a message has to be ----------------------------------------------------------------- */

static const struct kind {
	enum loader_end sender;
	unsigned fds_min, fds_max;
} kinds[LOADER_MSG_TYPES] = {
	[LOADER_MSG_RING] = {LOADER_END_LOADER, 3, 3},
	[LOADER_MSG_READY] = {LOADER_END_LOADER, 2, 2},
	[LOADER_MSG_FAILED] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_CONFIGURE] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_CONFIGURED] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_ASK_STATS] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_STATS] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_FINISHED] = {LOADER_END_LOADER, 0, 0},
	[LOADER_MSG_KEEP] = {LOADER_END_LOADER, 1, 1},
	[LOADER_MSG_DROP] = {LOADER_END_LOADER, 0, 1},
	[LOADER_MSG_MAKE] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_MADE] = {LOADER_END_LOADER, 0, 1},
	[LOADER_MSG_ASK_STUCK] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_STUCK] = {LOADER_END_LOADER, 0, 1},
};

static bool has_end(const char *text, size_t bytes)
{
	return memchr(text, '\0', bytes) != NULL;
}

static bool failure_has_ends(const struct loader_failure *failure)
{
	return has_end(failure->code, sizeof(failure->code)) &&
	       has_end(failure->what, sizeof(failure->what)) &&
	       has_end(failure->hint, sizeof(failure->hint));
}

static bool contents_fit(const struct loader_message *message)
{
	switch (message->type) {
	case LOADER_MSG_READY:
		return has_end(message->ready.source, sizeof(message->ready.source)) &&
		       has_end(message->ready.providers, sizeof(message->ready.providers)) &&
		       failure_has_ends(&message->ready.why_not);
	case LOADER_MSG_FAILED:
		return message->failed.err < 0 && failure_has_ends(&message->failed);
	case LOADER_MSG_CONFIGURED:
		return message->configured.failure.err <= 0 &&
		       failure_has_ends(&message->configured.failure);
	case LOADER_MSG_STUCK:
		return message->stuck.failure.err <= 0 && failure_has_ends(&message->stuck.failure);
	case LOADER_MSG_KEEP:
	case LOADER_MSG_DROP:
		return has_end(message->name, sizeof(message->name));
	case LOADER_MSG_MAKE:
		return has_end(message->make, sizeof(message->make));
	case LOADER_MSG_MADE:
		return message->made.failure.err <= 0 &&
		       has_end(message->made.spec, sizeof(message->made.spec)) &&
		       failure_has_ends(&message->made.failure);
	default:
		return true;
	}
}

static bool fits(const struct loader_message *message, enum loader_end sender, unsigned fds)
{
	const struct kind *kind;

	if (message->type >= LOADER_MSG_TYPES)
		return false;
	kind = &kinds[message->type];
	return kind->sender == sender && fds >= kind->fds_min && fds <= kind->fds_max &&
	       contents_fit(message);
}

/* ---- Receiving -------------------------------------------------------------------------------- */

/* Takes the descriptors that there is room for and closes the others; returns how many came. */
static size_t take_descriptors(struct msghdr *header, int *fds, unsigned *n)
{
	size_t came = 0;

	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg; cmsg = CMSG_NXTHDR(header, cmsg)) {
		size_t count = 0;

		if (cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS)
			count = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++, came++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(fd), sizeof(fd));
			if (*n < LOADER_MESSAGE_FDS_MAX)
				fds[(*n)++] = fd;
			else
				close(fd);
		}
	}
	return came;
}

int loader_message_receive(int socket, enum loader_end sender, struct loader_message *message,
			   int *fds, unsigned *n, int flags)
{
	struct iovec iov = {.iov_base = message, .iov_len = sizeof(*message)};
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
	came = take_descriptors(&header, fds, n);
	if (got == sizeof(*message) && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
	    came == *n && fits(message, sender, *n))
		return 1;
	while (*n)
		close(fds[--*n]);
	return got || came ? -EPROTO : 0;
}
