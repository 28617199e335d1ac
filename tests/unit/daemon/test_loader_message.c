/*
 * What one end of the loader's socket may do to the other by a packet: nothing. Whatever is no message
 * of that sender is refused, and every descriptor that came with it is closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/source/loader.h"
#include "daemon/source/loader_message.h"

#define FDS_SENT_MAX	8
#define LENGTH(array)	(sizeof(array) / sizeof((array)[0]))
#define WAIT_MS		60000

/* A packet of any length, with any number of descriptors: what loader_message_send() would not send. */
static void send_packet(int socket, const void *bytes, size_t length, unsigned n)
{
	union {
		struct cmsghdr header;
		char bytes[CMSG_SPACE(FDS_SENT_MAX * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = length};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	int fds[FDS_SENT_MAX];

	for (unsigned i = 0; i < n; i++)
		fds[i] = STDERR_FILENO;
	if (n) {
		header.msg_control = control.bytes;
		header.msg_controllen = CMSG_SPACE(n * sizeof(int));
		control.header.cmsg_level = SOL_SOCKET;
		control.header.cmsg_type = SCM_RIGHTS;
		control.header.cmsg_len = CMSG_LEN(n * sizeof(int));
		memcpy(CMSG_DATA(&control.header), fds, n * sizeof(int));
	}
	assert_int_equal(sendmsg(socket, &header, MSG_NOSIGNAL), (ssize_t)length);
}

/* The number that the next descriptor would have: the same again when none was left open. */
static int next_descriptor(void)
{
	int fd = dup(STDERR_FILENO);

	assert_true(fd >= 0);
	close(fd);
	return fd;
}

/* What becomes of such a packet. Guards stand on both sides of the receiver's descriptors. */
static int outcome(enum loader_end sender, const struct loader_message *message, size_t length,
		   unsigned n)
{
	static char packet[2 * sizeof(struct loader_message)];
	struct {
		int before, fds[LOADER_MESSAGE_FDS_MAX], after[FDS_SENT_MAX];
	} place;
	struct loader_message received;
	int pair[2], next, got;
	unsigned came = 77;

	memset(&place, 0x5a, sizeof(place));
	memset(packet, 0, sizeof(packet));
	memcpy(packet, message, sizeof(*message));
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	next = next_descriptor();
	send_packet(pair[0], packet, length, n);
	got = loader_message_receive(pair[1], sender, &received, place.fds, &came, MSG_DONTWAIT);
	assert_int_equal(place.before, 0x5a5a5a5a);
	for (size_t i = 0; i < LENGTH(place.after); i++)
		assert_int_equal(place.after[i], 0x5a5a5a5a);
	assert_int_equal(came, got == 1 ? n : 0);
	for (unsigned i = 0; i < came; i++) {
		assert_int_equal(fcntl(place.fds[i], F_GETFD), FD_CLOEXEC);
		close(place.fds[i]);
	}
	assert_int_equal(next_descriptor(), next);
	close(pair[0]);
	close(pair[1]);
	return got;
}

/* A message of that kind that is well formed. */
static struct loader_message good(uint32_t type)
{
	struct loader_message message;

	memset(&message, 0, sizeof(message));
	message.type = type;
	if (type == LOADER_MSG_FAILED)
		message.failed.err = -EPERM;
	return message;
}

/* By kind: who sends it, and with how many descriptors. */
static const struct {
	enum loader_end sender;
	unsigned min, max;
} wanted[] = {
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
	[LOADER_MSG_ARRIVED] = {LOADER_END_LOADER, 1, 1},
	[LOADER_MSG_ASK_STUCK] = {LOADER_END_ENGINE, 0, 0},
	[LOADER_MSG_STUCK] = {LOADER_END_LOADER, 0, 1},
	[LOADER_MSG_JOINED] = {LOADER_END_ENGINE, 0, 0},
};

static void test_a_fourth_descriptor_and_those_where_none_belong(void **state)
{
	(void)state;
	assert_int_equal(LENGTH(wanted), LOADER_MSG_TYPES);
	for (uint32_t type = 0; type < LOADER_MSG_TYPES; type++) {
		struct loader_message message = good(type);

		for (unsigned n = 0; n <= FDS_SENT_MAX; n++)
			for (enum loader_end from = LOADER_END_ENGINE; from <= LOADER_END_LOADER; from++)
				assert_int_equal(outcome(from, &message, sizeof(message), n),
						 from == wanted[type].sender && n >= wanted[type].min &&
						 n <= wanted[type].max ? 1 : -EPROTO);
	}
}

static void test_a_length_that_does_not_fit(void **state)
{
	static const size_t lengths[] = {
		1, sizeof(uint32_t), sizeof(struct loader_message) - 1,
		sizeof(struct loader_message) + 1, 2 * sizeof(struct loader_message),
	};

	(void)state;
	for (uint32_t type = 0; type < LOADER_MSG_TYPES; type++) {
		struct loader_message message = good(type);

		for (size_t i = 0; i < LENGTH(lengths); i++)
			for (unsigned n = wanted[type].min; n <= wanted[type].max; n++)
				assert_int_equal(outcome(wanted[type].sender, &message, lengths[i], n),
						 -EPROTO);
	}
}

static void test_an_unknown_kind(void **state)
{
	static const uint32_t types[] = {LOADER_MSG_TYPES, LOADER_MSG_TYPES + 1, 1u << 16, UINT32_MAX};

	(void)state;
	for (size_t i = 0; i < LENGTH(types); i++) {
		struct loader_message message = good(types[i]);

		assert_int_equal(outcome(LOADER_END_ENGINE, &message, sizeof(message), 0), -EPROTO);
		assert_int_equal(outcome(LOADER_END_LOADER, &message, sizeof(message), 3), -EPROTO);
	}
}

static void refused(const struct loader_message *message)
{
	assert_int_equal(outcome(wanted[message->type].sender, message, sizeof(*message),
				 wanted[message->type].min), -EPROTO);
}

static void test_a_text_without_end(void **state)
{
	struct loader_message message;

	(void)state;
	message = good(LOADER_MSG_READY);
	memset(message.ready.source, 'x', sizeof(message.ready.source));
	refused(&message);
	message = good(LOADER_MSG_READY);
	memset(message.ready.why_not.hint, 'x', sizeof(message.ready.why_not.hint));
	refused(&message);
	message = good(LOADER_MSG_READY);
	memset(message.ready.providers, 'x', sizeof(message.ready.providers));
	refused(&message);
	message = good(LOADER_MSG_MADE);
	memset(message.made.spec, 'x', sizeof(message.made.spec));
	refused(&message);
	message = good(LOADER_MSG_MADE);
	memset(message.made.failure.what, 'x', sizeof(message.made.failure.what));
	refused(&message);
	message = good(LOADER_MSG_MAKE);
	memset(message.make, 'x', sizeof(message.make));
	refused(&message);
	message = good(LOADER_MSG_FAILED);
	memset(message.failed.code, 'x', sizeof(message.failed.code));
	refused(&message);
	message = good(LOADER_MSG_CONFIGURED);
	memset(message.configured.failure.what, 'x', sizeof(message.configured.failure.what));
	refused(&message);
	for (uint32_t type = LOADER_MSG_KEEP; type <= LOADER_MSG_DROP; type++) {
		message = good(type);
		memset(message.name, 'x', sizeof(message.name));
		refused(&message);
	}
}

static void test_a_failure_that_is_none(void **state)
{
	struct loader_message message = good(LOADER_MSG_FAILED);

	(void)state;
	for (int32_t err = 0; err <= 1; err++) {
		message.failed.err = err;
		refused(&message);
	}
	message = good(LOADER_MSG_CONFIGURED);
	message.configured.failure.err = 1;
	refused(&message);
}

/* The real loader, of an engine that was taken over: it ends rather than do what is no message. */
static void test_the_loader_ends_at_what_is_no_message(void **state)
{
	static const struct {
		uint32_t type;
		size_t length;
		unsigned fds;
	} packets[] = {
		{LOADER_MSG_ASK_STATS, sizeof(struct loader_message), 4},
		{LOADER_MSG_ASK_STATS, sizeof(struct loader_message), 1},
		{LOADER_MSG_CONFIGURE, sizeof(uint32_t), 0},
		{LOADER_MSG_READY, sizeof(struct loader_message), 1},
		{LOADER_MSG_TYPES, sizeof(struct loader_message), 0},
	};
	struct source_config config = {
		.ring_bytes = 1 << 20, .path = "tests/data/capture.rt", .replay_fast = true,
	};

	(void)state;
	for (size_t i = 0; i < LENGTH(packets); i++) {
		struct loader_message message = good(packets[i].type);
		struct loader_report report;
		struct loader *loader;
		struct error error;
		int next = next_descriptor();

		assert_int_equal(loader_start("replay", &config, false, NULL, &loader, &error), 0);
		send_packet(loader_fd(loader), &message, packets[i].length, packets[i].fds);
		assert_int_equal(poll(&(struct pollfd){.fd = loader_fd(loader), .events = POLLIN}, 1,
				      WAIT_MS), 1);
		assert_int_equal(loader_receive(loader, &report), 0);
		assert_int_equal(report.event, LOADER_GONE);
		loader_stop(loader);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
		assert_int_equal(next_descriptor(), next);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_fourth_descriptor_and_those_where_none_belong),
		cmocka_unit_test(test_a_length_that_does_not_fit),
		cmocka_unit_test(test_an_unknown_kind),
		cmocka_unit_test(test_a_text_without_end),
		cmocka_unit_test(test_a_failure_that_is_none),
		cmocka_unit_test(test_the_loader_ends_at_what_is_no_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
