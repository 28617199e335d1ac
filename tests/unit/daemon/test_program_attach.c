/*
 * How long a daemon can hold a program up that attaches to it: 200 ms, whatever the daemon does with them; and what a
 * program does while the daemon is about to listen. Time is the test's own.
 */
#include "proto/ringtail-probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>

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
static unsigned connects;

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
	connects++;
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

/* ---- Before the daemon listens -------------------------------------------------------------------- */

static unsigned evaluated;

static int evaluate(void)
{
	return (int)++evaluated;
}

static void pass(void)
{
	RT_PROBE(app, early, "%d", evaluate());
}

/* Passes the probe `times` in each second: how often it has looked for a daemon. */
static unsigned pass_for(unsigned seconds, unsigned times)
{
	unsigned before = connects;

	for (unsigned second = 0; second < seconds; second++) {
		passed_ns += 1000 * MS;
		for (unsigned i = 0; i < times; i++)
			pass();
	}
	return connects - before;
}

/* The socket is there, and nobody listens on it. */
static void begin_to_start(struct sockaddr_un *address, int *starting)
{
	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	snprintf(address->sun_path, sizeof(address->sun_path), "%s/starting", directory);
	*starting = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(*starting, (struct sockaddr *)address, sizeof(*address)), 0);
	assert_int_equal(setenv("RINGTAIL_PROGRAMS", address->sun_path, 1), 0);
	passed_ns = interrupt_ns = connect_ns = 0;
	polls = evaluated = 0;
	takes = UINT32_MAX;
	rt_probe_looked_s = 0;
	assert_int_equal(rt_probe_attach(), -1);
	assert_true(passed_ns == 0);
}

static void end_of_start(const struct sockaddr_un *address, int starting)
{
	rt_probe_detach();
	close(starting);
	unlink(address->sun_path);
	setenv("RINGTAIL_PROGRAMS", path, 1);
}

static void test_looks_while_daemon_starts(void **state)
{
	struct rt_program_segment *page;
	struct sockaddr_un address;
	int starting;

	(void)state;
	begin_to_start(&address, &starting);
	page = rt_probe_segment;
	assert_int_equal(pass_for(10, 3), 10);
	assert_int_equal(evaluated, 30);
	/* For five minutes; then nothing of the probe is evaluated any more. */
	assert_int_equal(pass_for(290, 2), 290);
	assert_true(pass_for(10, 2) <= 3);
	assert_int_equal(rt_probe_shift, 0);
	evaluated = 0;
	assert_int_equal(pass_for(3, 3), 0);
	assert_int_equal(evaluated, 0);
	/* Another attempt is another five minutes, with the same page. */
	assert_int_equal(rt_probe_attach(), -1);
	assert_ptr_equal(rt_probe_segment, page);
	assert_int_equal(pass_for(290, 1), 290);
	end_of_start(&address, starting);
}

static void test_finds_daemon_that_began_to_listen(void **state)
{
	struct sockaddr_un address;
	int starting, met;

	(void)state;
	begin_to_start(&address, &starting);
	assert_int_equal(pass_for(2, 1), 2);
	assert_int_equal(listen(starting, 8), 0);
	assert_int_equal(pass_for(1, 1), 1);
	met = accept(starting, NULL, NULL);
	assert_true(met >= 0);
	close(met);
	end_of_start(&address, starting);
}

/* So does the child of a fork(2). */
static void test_child_looks_while_daemon_starts(void **state)
{
	struct sockaddr_un address;
	int starting, status;
	pid_t child;

	(void)state;
	begin_to_start(&address, &starting);
	child = fork();
	if (!child)
		_exit(pass_for(3, 2) == 3 ? 0 : 1);
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	end_of_start(&address, starting);
}

/* Without a socket there is no daemon, and nothing is looked for. */
static void test_no_socket(void **state)
{
	(void)state;
	setenv("RINGTAIL_PROGRAMS", "/nowhere/socket", 1);
	evaluated = 0;
	assert_int_equal(rt_probe_attach(), -1);
	assert_int_equal(rt_probe_shift, 0);
	assert_int_equal(pass_for(3, 2), 0);
	assert_int_equal(evaluated, 0);
	setenv("RINGTAIL_PROGRAMS", path, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_never_answers),
		cmocka_unit_test(test_never_answers_amid_signals),
		cmocka_unit_test(test_accepts_late),
		cmocka_unit_test(test_does_not_read),
		cmocka_unit_test(test_looks_while_daemon_starts),
		cmocka_unit_test(test_finds_daemon_that_began_to_listen),
		cmocka_unit_test(test_child_looks_while_daemon_starts),
		cmocka_unit_test(test_no_socket),
	};

	return cmocka_run_group_tests(tests, begin, finish);
}
