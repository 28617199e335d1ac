/*
 * What is said to a service manager, which here is the other end of a datagram socket; and what the
 * next run finds of that: subscriptions and threads.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/stream/saved_subscriptions.h"
#include "daemon/host/service_manager.h"
#include "daemon/ring/thread_journal.h"
#include "daemon/ring/thread_table.h"

struct fixture {
	int socket;
	char path[64];
	struct service_manager *manager;
	char text[512];			/* of the last message */
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	assert_non_null(f);
	snprintf(f->path, sizeof(f->path), "/tmp/ringtail-notify-%d", getpid());
	unlink(f->path);
	strcpy(address.sun_path, f->path);
	f->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(f->socket, (struct sockaddr *)&address, sizeof(address)), 0);
	setenv("NOTIFY_SOCKET", f->path, 1);
	f->manager = service_manager_connect();
	assert_non_null(f->manager);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	service_manager_close(f->manager);
	close(f->socket);
	unlink(f->path);
	free(f);
	return 0;
}

/* The next message and its descriptor, or -1; the caller's. */
static int hear(struct fixture *f)
{
	struct iovec iov = {.iov_base = f->text, .iov_len = sizeof(f->text) - 1};
	char control[CMSG_SPACE(sizeof(int))];
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
				.msg_controllen = sizeof(control)};
	struct cmsghdr *cmsg;
	ssize_t got = recvmsg(f->socket, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
	int fd = -1;

	assert_true(got > 0);
	f->text[got] = '\0';
	cmsg = CMSG_FIRSTHDR(&header);
	if (cmsg)
		memcpy(&fd, CMSG_DATA(cmsg), sizeof(fd));
	return fd;
}

static void expect_silence(struct fixture *f)
{
	char byte;

	assert_int_equal(recv(f->socket, &byte, 1, MSG_DONTWAIT), -1);
	assert_int_equal(errno, EAGAIN);
}

static void test_messages(void **state)
{
	struct fixture *f = *state;
	int fd, end[2];
	char byte;

	assert_int_equal(service_manager_notify(f->manager, "READY=1"), 0);
	assert_int_equal(hear(f), -1);
	assert_string_equal(f->text, "READY=1");

	fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	assert_int_equal(service_manager_store(f->manager, "a.name", fd), 0);
	close(fd);
	fd = hear(f);
	assert_true(fd >= 0);
	close(fd);
	assert_string_equal(f->text, "FDSTORE=1\nFDPOLL=0\nFDNAME=a.name");

	assert_int_equal(pipe2(end, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(service_manager_drop(f->manager, "a.name", end[1]), 0);
	close(end[1]);
	assert_int_equal(hear(f), -1);
	assert_string_equal(f->text, "FDSTOREREMOVE=1\nFDNAME=a.name");
	assert_int_equal(read(end[0], &byte, 1), -1);	/* not yet */
	fd = hear(f);
	assert_string_equal(f->text, "BARRIER=1");
	close(fd);
	assert_int_equal(read(end[0], &byte, 1), 0);
	close(end[0]);
}

/* It stores as long as it holds the witness; and the witness sees that we have gone. */
static void test_witness(void **state)
{
	struct fixture *f = *state;
	struct pollfd poll_fd = {0};
	int witness;

	assert_false(service_manager_stores(f->manager));
	assert_int_equal(service_manager_begin_store(f->manager), 0);
	hear(f);
	assert_string_equal(f->text, "FDSTOREREMOVE=1\nFDNAME=ringtail.witness");
	assert_true(service_manager_stores(f->manager));
	witness = hear(f);
	assert_string_equal(f->text, "FDSTORE=1\nFDNAME=ringtail.witness");
	assert_true(service_manager_stores(f->manager));
	poll_fd.fd = fcntl(witness, F_DUPFD_CLOEXEC, 0);
	close(witness);
	assert_true(service_manager_stores(f->manager));
	assert_int_equal(poll(&poll_fd, 1, 0), 0);
	close(poll_fd.fd);
	assert_false(service_manager_stores(f->manager));

	assert_int_equal(service_manager_begin_store(f->manager), 0);
	hear(f);
	poll_fd.fd = hear(f);
	service_manager_close(f->manager);
	f->manager = NULL;
	assert_int_equal(poll(&poll_fd, 1, 0), 1);
	assert_true(poll_fd.revents & POLLERR);
	close(poll_fd.fd);
}

static void test_nobody(void **state)
{
	struct activation none = {0};
	struct thread_journal *journal;
	struct error error;

	(void)state;
	assert_int_equal(service_manager_notify(NULL, "READY=1"), 0);
	assert_int_equal(service_manager_store(NULL, "x", 0), 0);
	assert_int_equal(service_manager_drop(NULL, "x", -1), 0);
	assert_int_equal(service_manager_begin_store(NULL), 0);
	assert_false(service_manager_stores(NULL));
	service_manager_close(NULL);
	assert_int_equal(thread_journal_open(&none, NULL, 2, false, &journal, &error), 0);
	assert_null(journal);
	assert_null(thread_journal_ring(journal, 0));
	thread_journal_close(journal);
}

/* A manager that has gone: it is said, and nothing counts as stored. */
static void test_gone(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(service_manager_begin_store(f->manager), 0);
	close(f->socket);
	f->socket = -1;
	assert_int_equal(service_manager_store(f->manager, "x", 0), -ECONNREFUSED);
	assert_false(service_manager_stores(f->manager));
	setenv("NOTIFY_SOCKET", f->path, 1);
	assert_null(service_manager_connect());
	setenv("NOTIFY_SOCKET", "relative", 1);
	assert_null(service_manager_connect());
	unsetenv("NOTIFY_SOCKET");
	assert_null(service_manager_connect());
}

/* ---- Subscriptions ----------------------------------------------------------------------------- */

static struct activation_fd *handed(struct activation *activation, const char *name, int fd)
{
	struct activation_fd *entry = &activation->entry[activation->count++];

	entry->fd = fd;
	snprintf(entry->name, sizeof(entry->name), "%s", name);
	return entry;
}

struct seen {
	unsigned count;
	char text[1024];
};

static int see(void *context, const struct subscription_request *request)
{
	struct seen *seen = context;
	size_t at = strlen(seen->text);

	seen->count++;
	for (size_t i = 0; i < request->globs; i++)
		at += (size_t)snprintf(seen->text + at, sizeof(seen->text) - at, "%s ",
				       request->glob[i]);
	snprintf(seen->text + at, sizeof(seen->text) - at, "[%s] %u%s;", request->filter,
		 request->flags, request->file_strings ? " export" : "");
	return 0;
}

static const char *const globs[] = {"syscall:*:call", "tracepoint:sched:*"};
static const struct subscription_request requests[] = {
	{.glob = globs, .globs = 2, .filter = "comm = \"a\nb\" && ret < 0", .flags = 5},
	{.glob = globs, .globs = 1, .filter = NULL},
};

static void test_subscriptions(void **state)
{
	struct fixture *f = *state;
	struct activation_fd entries[4];
	struct activation activation = {.entry = entries};
	struct saved_subscriptions *saved = saved_subscriptions_create(f->manager, &activation);
	struct seen seen = {0};
	struct error error;
	int fd;

	assert_int_equal(saved_subscriptions_restore(saved, see, &seen, &error), 0);
	assert_int_equal(seen.count, 0);
	assert_int_equal(saved_subscriptions_save(saved, requests, 2), 0);
	fd = hear(f);
	assert_string_equal(f->text, "FDSTORE=1\nFDPOLL=0\nFDNAME=ringtail.subscriptions.1");
	assert_int_equal(saved_subscriptions_save(saved, requests, 2), 0);
	expect_silence(f);
	saved_subscriptions_destroy(saved);

	/* Of two versions the newer counts, whatever their order. */
	handed(&activation, "ringtail.subscriptions.1", fd);
	handed(&activation, "ringtail.subscriptions.0", open("/dev/null", O_RDONLY | O_CLOEXEC));
	handed(&activation, "other", -1);
	saved = saved_subscriptions_create(f->manager, &activation);
	assert_int_equal(saved_subscriptions_restore(saved, see, &seen, &error), 0);
	assert_int_equal(seen.count, 2);
	assert_string_equal(seen.text, "syscall:*:call tracepoint:sched:* "
			    "[comm = \"a\nb\" && ret < 0] 5;syscall:*:call [] 0;");
	assert_int_equal(saved_subscriptions_save(saved, requests, 1), 0);
	close(hear(f));
	assert_string_equal(f->text, "FDSTORE=1\nFDPOLL=0\nFDNAME=ringtail.subscriptions.2");
	hear(f);
	assert_string_equal(f->text, "FDSTOREREMOVE=1\nFDNAME=ringtail.subscriptions.1");
	saved_subscriptions_destroy(saved);
}

/* Those that are not for producers are high bits: what has them comes back, and so does what is after it. */
static void test_subscriptions_with_every_flag(void **state)
{
	static const uint32_t flags[] = {RT_FLAG_CONTEXT, RT_FLAG_CONTEXT | RT_FLAG_STRINGS, UINT32_MAX, 1};
	struct subscription_request all[4], wanted = requests[1];
	struct seen seen = {0};
	struct error error;
	char *text;
	size_t bytes;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		all[i] = wanted;
		all[i].flags = flags[i];
	}
	assert_int_equal(saved_subscriptions_print(all, 4, &text, &bytes), 0);
	assert_int_equal(saved_subscriptions_parse(text, bytes, see, &seen, &error), 0);
	assert_string_equal(seen.text, "syscall:*:call [] 1073741824;syscall:*:call [] 1073741828;"
			    "syscall:*:call [] 4294967295;syscall:*:call [] 1;");
	free(text);
	/* One more than there is room for. */
	assert_int_equal(saved_subscriptions_parse("subscription 4294967296 0\nfilter 0:\n", 36, see, &seen,
						   &error), -EBADMSG);
}

/* So that the export goes on with it, and nobody else. */
static void test_subscription_of_an_export(void **state)
{
	struct subscription_request all[] = {requests[1], requests[1]};
	struct seen seen = {0};
	struct error error;
	char *text;
	size_t bytes;

	(void)state;
	all[0].file_strings = true;
	assert_int_equal(saved_subscriptions_print(all, 2, &text, &bytes), 0);
	assert_int_equal(saved_subscriptions_parse(text, bytes, see, &seen, &error), 0);
	assert_string_equal(seen.text, "syscall:*:call [] 0 export;syscall:*:call [] 0;");
	free(text);
}

static void test_bad_subscriptions(void **state)
{
	static const char *const bad[] = {
		"x", "subscription", "subscription 1\n", "subscription 1 1\n",
		"subscription 1 65\n", "subscription 0 1\nprobe 5:abc\n",
		"subscription 0 1\nprobe 3:abcd\nfilter 0:\n", "subscription 0 0\nfilter 1:\n",
		"subscription 0 0\nfilter 99999999999:\n", "subscription 0 0\nfilter 0:",
		"subscription 0 0\nfilter :\n", "export subscription 0 0\nfilter 0:\n", "subscription 0 1\nprobe 3:abc\n",
	};
	struct seen seen = {0};
	struct error error;
	char *text;
	size_t bytes;

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(saved_subscriptions_parse(bad[i], strlen(bad[i]), see, &seen,
							   &error), -EBADMSG);
		assert_int_equal(seen.count, 0);
	}
	assert_int_equal(saved_subscriptions_print(requests, 1, &text, &bytes), 0);
	for (size_t i = 1; i < bytes; i++)
		assert_int_equal(saved_subscriptions_parse(text, i, see, &seen, &error), -EBADMSG);
	assert_int_equal(seen.count, 0);
	free(text);
}

/* ---- Threads ----------------------------------------------------------------------------------- */

static struct rt_thread named(const char *comm)
{
	struct rt_thread thread = {.pid = 7, .uid = 3};

	snprintf(thread.comm, sizeof(thread.comm), "%s", comm);
	return thread;
}

static void learn(struct thread_table *table, uint32_t tid, const char *comm)
{
	struct rt_thread thread = named(comm);

	assert_int_not_equal(thread_table_learn(table, tid, &thread), THREAD_NONE);
}

static void expect_known(struct thread_table *table, uint32_t tid, const char *comm)
{
	uint32_t index = thread_table_find(table, tid);

	if (!comm) {
		assert_int_equal(index, THREAD_NONE);
		return;
	}
	assert_int_not_equal(index, THREAD_NONE);
	assert_string_equal(thread_table_get(table, index)->comm, comm);
	assert_int_equal(thread_table_get(table, index)->pid, 7);
}

static struct thread_journal *open_journal(struct fixture *f, struct activation *activation,
					   unsigned rings, bool adopted)
{
	struct thread_journal *journal;
	struct error error;

	assert_int_equal(thread_journal_open(activation, f->manager, rings, adopted, &journal,
					     &error), 0);
	assert_non_null(journal);
	return journal;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct activation_fd entries[4];
	struct activation activation = {.entry = entries};
	struct thread_journal *journal = open_journal(f, &activation, 2, false);
	struct thread_table *table = thread_table_create(THREADS_PER_RING_MAX);
	uint32_t other = UINT32_MAX;		/* a version */
	int fd, copy;

	hear(f);
	assert_string_equal(f->text, "FDSTOREREMOVE=1\nFDNAME=ringtail.threads");
	fd = hear(f);
	assert_string_equal(f->text, "FDSTORE=1\nFDPOLL=0\nFDNAME=ringtail.threads");
	thread_table_keep(table, thread_journal_ring(journal, 1));
	for (uint32_t tid = 1000; tid < 1600; tid++)
		learn(table, tid, "many");
	learn(table, 0, "swapper");
	learn(table, 1234, "renamed");
	for (uint32_t tid = 1000; tid < 1200; tid++)
		thread_table_forget(table, tid);
	/* Killed here: nothing is said, nothing closed in order. */
	thread_table_destroy(table);
	thread_journal_close(journal);

	copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	handed(&activation, "ringtail.threads", fd);
	journal = open_journal(f, &activation, 2, true);
	expect_silence(f);
	table = thread_table_create(THREADS_PER_RING_MAX);
	thread_table_keep(table, thread_journal_ring(journal, 1));
	for (uint32_t tid = 1000; tid < 1200; tid++)
		expect_known(table, tid, NULL);
	for (uint32_t tid = 1200; tid < 1600; tid++)
		expect_known(table, tid, tid == 1234 ? "renamed" : "many");
	expect_known(table, 0, "swapper");
	thread_table_forget(table, 0);
	thread_table_destroy(table);
	table = thread_table_create(THREADS_PER_RING_MAX);
	thread_table_keep(table, thread_journal_ring(journal, 1));
	expect_known(table, 0, NULL);
	expect_known(table, 1599, "many");
	thread_table_destroy(table);
	/* The other ring has its own. */
	table = thread_table_create(THREADS_PER_RING_MAX);
	thread_table_keep(table, thread_journal_ring(journal, 0));
	expect_known(table, 1599, NULL);
	thread_table_destroy(table);
	assert_null(thread_journal_ring(journal, 2));
	thread_journal_close(journal);

	/* Another daemon wrote it in its own way: the size is the same, and nothing is read of it. */
	assert_int_equal(pwrite(copy, &other, sizeof(other), sizeof(uint64_t)), sizeof(other));
	activation.count = 0;
	handed(&activation, "ringtail.threads", fcntl(copy, F_DUPFD_CLOEXEC, 0));
	journal = open_journal(f, &activation, 2, true);
	hear(f);
	close(hear(f));
	table = thread_table_create(THREADS_PER_RING_MAX);
	thread_table_keep(table, thread_journal_ring(journal, 1));
	expect_known(table, 1599, NULL);
	thread_table_destroy(table);
	thread_journal_close(journal);

	/* One of another shape is not taken. */
	activation.count = 0;
	handed(&activation, "ringtail.threads", copy);
	journal = open_journal(f, &activation, 3, true);
	hear(f);
	close(hear(f));
	thread_journal_close(journal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_messages, setup, teardown),
		cmocka_unit_test_setup_teardown(test_witness, setup, teardown),
		cmocka_unit_test(test_nobody),
		cmocka_unit_test_setup_teardown(test_gone, setup, teardown),
		cmocka_unit_test_setup_teardown(test_subscriptions, setup, teardown),
		cmocka_unit_test(test_subscriptions_with_every_flag),
		cmocka_unit_test(test_subscription_of_an_export),
		cmocka_unit_test(test_bad_subscriptions),
		cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
