/*
 * How long a daemon can hold a program up that attaches to it: 200 ms, whatever the daemon does with them. Time is the
 * test's own.
 */
#include "proto/ringtail-probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

#define MS		1000000ull
#define POLLS_MAX	64

int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_poll(struct pollfd *wanted, nfds_t count, int ms);
int __real_connect(int fd, const struct sockaddr *address, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes);
ssize_t __real_send(int fd, const void *data, size_t bytes, int flags);
ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags);

static char directory[] = "/tmp/ringtail-attach-XXXXXX", path[64];
static int listener;
static uint64_t passed_ns;		/* of the test's time */
static uint64_t interrupt_ns;		/* a signal comes so often; 0: none does */
static uint64_t connect_ns;		/* until the daemon accepts */
static unsigned takes;			/* so many bytes of what is sent */
static unsigned polls;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
	(void)clock;
	now->tv_sec = 1000 + (time_t)(passed_ns / 1000000000);
	now->tv_nsec = (long)(passed_ns % 1000000000);
	return 0;
}

int __wrap_poll(struct pollfd *wanted, nfds_t count, int ms)
{
	assert_true(count == 1 && wanted->fd > 2 && ms > 0);
	assert_true(++polls < POLLS_MAX);
	if (!interrupt_ns) {
		passed_ns += (uint64_t)ms * MS;
		return 0;
	}
	passed_ns += interrupt_ns;
	errno = EINTR;
	return -1;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t bytes)
{
	passed_ns += connect_ns;
	return __real_connect(fd, address, bytes);
}

ssize_t __wrap_send(int fd, const void *data, size_t bytes, int flags)
{
	assert_true(flags & MSG_DONTWAIT);
	if (!takes) {
		errno = EAGAIN;
		return -1;
	}
	if (bytes > takes)
		bytes = takes;
	takes -= (unsigned)bytes;
	return __real_send(fd, data, bytes, flags);
}

static int begin(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/socket", directory);
	memcpy(address.sun_path, path, strlen(path));
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(listener, 64), 0);
	return setenv("RINGTAIL_PROGRAMS", path, 1);
}

static int finish(void **state)
{
	(void)state;
	close(listener);
	return unlink(path) || rmdir(directory);
}

static void never_called(int n)
{
	RT_PROBE(app, never, "%d", n);
}

/* The daemon has got no answer out in 200 ms, and the program goes on without it. */
static void check_bound(uint64_t signals_ns, uint64_t accepts_ns, unsigned bytes)
{
	passed_ns = 0;
	polls = 0;
	interrupt_ns = signals_ns;
	connect_ns = accepts_ns;
	takes = bytes;
	never_called(0);
	assert_int_equal(rt_probe_attach(), -1);
	assert_int_equal(rt_probe_socket, -1);
	assert_true(passed_ns >= 200 * MS && passed_ns <= 201 * MS + signals_ns);
}

static void test_never_answers(void **state)
{
	(void)state;
	check_bound(0, 0, UINT32_MAX);
	assert_int_equal(polls, 1);
}

static void test_never_answers_amid_signals(void **state)
{
	(void)state;
	check_bound(7 * MS, 0, UINT32_MAX);
}

static void test_accepts_late(void **state)
{
	(void)state;
	check_bound(0, 150 * MS, UINT32_MAX);
	check_bound(0, 199 * MS + MS / 2, UINT32_MAX);
}

static void test_does_not_read(void **state)
{
	(void)state;
	check_bound(0, 0, 0);
	check_bound(0, 120 * MS, 48);
	check_bound(9 * MS, 120 * MS, 60);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_answers),
		cmocka_unit_test(test_never_answers_amid_signals),
		cmocka_unit_test(test_accepts_late),
		cmocka_unit_test(test_does_not_read),
	};

	return cmocka_run_group_tests(tests, begin, finish);
}
