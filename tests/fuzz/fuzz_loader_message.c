/*
 * fuzz_loader_message: any packets over the socket between engine and loader, with descriptors, read
 * by either end. What is accepted is a message of its sender's with that message's descriptors; of
 * what is not, no descriptor stays open.
 *
 * A packet of the input is: 1 byte, who reads it (bit 7) and how many descriptors come with it (bits
 * 0-2); 1 byte, its length: 0 a message's, else as many bytes fewer or (signed) more; 1 byte, how many
 * bytes of it follow; those bytes, from the message's first on, and the rest is zero.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "daemon/source/loader_message.h"

#define PACKETS_MAX	8
#define FDS_SENT_MAX	7
#define LENGTH_OFF_MAX	128

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct packet {
	enum loader_end sender;
	unsigned fds;
	size_t length;
	char bytes[sizeof(struct loader_message) + LENGTH_OFF_MAX];
};

/* Takes one packet from the input; returns what is left of it. */
static const uint8_t *take(const uint8_t *data, const uint8_t *end, struct packet *packet)
{
	size_t bytes = data[2];

	memset(packet->bytes, 0, sizeof(packet->bytes));
	packet->sender = data[0] & 0x80 ? LOADER_END_ENGINE : LOADER_END_LOADER;
	packet->fds = data[0] & FDS_SENT_MAX;
	packet->length = sizeof(struct loader_message) - (size_t)(int8_t)data[1];
	data += 3;
	if (bytes > (size_t)(end - data))
		bytes = (size_t)(end - data);
	memcpy(packet->bytes, data, bytes);
	return data + bytes;
}

static void send_packet(int socket, struct packet *packet)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS_SENT_MAX * sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec iov = {.iov_base = packet->bytes, .iov_len = packet->length};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	int fds[FDS_SENT_MAX];

	for (unsigned i = 0; i < packet->fds; i++)
		fds[i] = socket;
	if (packet->fds) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(packet->fds * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(packet->fds * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, packet->fds * sizeof(int));
	}
	if (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)packet->length)
		abort();
}

static void check_accepted(enum loader_end sender, const struct loader_message *message)
{
	bool of_engine = message->type == LOADER_MSG_CONFIGURE ||
			 message->type == LOADER_MSG_JOINED || message->type == LOADER_MSG_ASK_STATS ||
			 message->type == LOADER_MSG_MAKE || message->type == LOADER_MSG_ASK_STUCK;

	if (message->type >= LOADER_MSG_TYPES || of_engine != (sender == LOADER_END_ENGINE))
		abort();
	if ((message->type == LOADER_MSG_KEEP || message->type == LOADER_MSG_DROP) &&
	    strnlen(message->name, sizeof(message->name)) == sizeof(message->name))
		abort();
	if (message->type == LOADER_MSG_MAKE &&
	    strnlen(message->make, sizeof(message->make)) == sizeof(message->make))
		abort();
	if (message->type == LOADER_MSG_MADE &&
	    strnlen(message->made.spec, sizeof(message->made.spec)) == sizeof(message->made.spec))
		abort();
}

static void receive(int socket, const struct packet *packet)
{
	struct loader_message *message = malloc(sizeof(*message));
	int fds[LOADER_MESSAGE_FDS_MAX];
	unsigned n = ~0u;
	int got;

	if (!message)
		abort();
	got = loader_message_receive(socket, packet->sender, message, fds, &n, MSG_DONTWAIT);
	if (got == 1)
		check_accepted(packet->sender, message);
	if (n != (got == 1 ? packet->fds : 0))
		abort();
	while (n)
		if (close(fds[--n]) != 0)
			abort();
	free(message);
}

static int next_descriptor(void)
{
	int fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	if (fd < 0)
		abort();
	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct packet packet;
	const uint8_t *end = data + size;
	int before = next_descriptor(), pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		abort();
	for (unsigned i = 0; i < PACKETS_MAX && end - data >= 3; i++) {
		data = take(data, end, &packet);
		send_packet(pair[0], &packet);
		receive(pair[1], &packet);
	}
	close(pair[0]);
	close(pair[1]);
	if (next_descriptor() != before)
		abort();
	return 0;
}
