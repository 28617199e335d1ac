/*
 * Where the daemon listens: what it makes, whose it is, and what it does about somebody, or something,
 * that is there already.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/net/listener.h"
#include "daemon/net/lock_file.h"
#include "daemon/net/turnstile.h"

/* The next lock is tried on a file whose name and lock are given up just then. */
static const char *removed_when_opened;

int __real_flock(int fd, int operation);
int __wrap_flock(int fd, int operation);

int __wrap_flock(int fd, int operation)
{
	if (removed_when_opened) {
		unlink(removed_when_opened);
		removed_when_opened = NULL;
		return 0;
	}
	return __real_flock(fd, operation);
}

struct fixture {
	struct event_base *base;
	struct turnstile *turnstile;
	char directory[64], path[96];
	struct address address;
	unsigned accepted;
	char peer[128];
};

static void on_accepted(void *context, int fd, const struct address *address, const char *peer)
{
	struct fixture *f = context;

	(void)address;
	f->accepted++;
	snprintf(f->peer, sizeof(f->peer), "%s", peer);
	assert_true(fcntl(fd, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
}

static void open_place(struct fixture *f)
{
	struct error error;
	char text[128];

	memset(f, 0, sizeof(*f));
	f->base = event_base_new();
	f->turnstile = turnstile_create(f->base);
	snprintf(f->directory, sizeof(f->directory), "/tmp/ringtail-listener-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->path, sizeof(f->path), "%s/run/sock", f->directory);
	snprintf(text, sizeof(text), "unix:%s", f->path);
	assert_int_equal(address_parse(text, &f->address, &error), 0);
}

static void close_place(struct fixture *f)
{
	char run[80];

	snprintf(run, sizeof(run), "%s/run", f->directory);
	unlink(f->path);
	rmdir(run);
	assert_int_equal(rmdir(f->directory), 0);
	turnstile_destroy(f->turnstile);
	event_base_free(f->base);
}

/* A socket bound there by somebody else; -1: no listening. */
static int occupy(struct fixture *f, int backlog)
{
	char run[80];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(run, sizeof(run), "%s/run", f->directory);
	mkdir(run, 0755);
	assert_int_equal(bind(fd, (struct sockaddr *)&f->address.socket, f->address.socket_bytes), 0);
	if (backlog >= 0)
		assert_int_equal(listen(fd, backlog), 0);
	return fd;
}

static int connect_to(const struct address *address)
{
	int fd = socket(address->socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (connect(fd, (const struct sockaddr *)&address->socket, address->socket_bytes) == 0 ||
	    errno == EINPROGRESS)
		return fd;
	close(fd);
	return -1;
}

static int start(struct fixture *f, struct listener *listener)
{
	struct error error;

	return listener_start(listener, f->base, f->turnstile, on_accepted, f, &error);
}

static void expect_error(const struct address *address, const char *code)
{
	struct listener *listener;
	struct error error;

	assert_true(listener_create(address, getuid(), getgid(), &listener, &error) < 0);
	assert_string_equal(error.code, code);
	assert_true(*error.what && *error.hint);
}

static void run(struct fixture *f, unsigned accepted)
{
	for (unsigned i = 0; i < 1000 && f->accepted < accepted; i++) {
		event_base_loop(f->base, EVLOOP_NONBLOCK);
		usleep(100);
	}
	assert_int_equal(f->accepted, accepted);
}

static void test_mode_and_owner(void **state)
{
	uid_t uid = geteuid() == 0 ? 12 : getuid();
	gid_t gid = geteuid() == 0 ? 34 : getgid();
	struct listener *listener;
	char directory[80], peer[64];
	struct stat stat;
	struct error error;
	struct fixture f;
	int fd;

	(void)state;
	open_place(&f);
	assert_int_equal(listener_create(&f.address, uid, gid, &listener, &error), 0);
	assert_int_equal(lstat(f.path, &stat), 0);
	assert_int_equal(stat.st_mode, S_IFSOCK | 0660);
	assert_int_equal(stat.st_uid, uid);
	assert_int_equal(stat.st_gid, gid);
	snprintf(directory, sizeof(directory), "%s/run", f.directory);
	assert_int_equal(lstat(directory, &stat), 0);
	assert_int_equal(stat.st_mode, S_IFDIR | 0755);
	assert_int_equal(stat.st_uid, uid);
	/* Who connects before the daemon is ready waits for it. */
	fd = connect_to(&f.address);
	assert_true(fd >= 0);
	event_base_loop(f.base, EVLOOP_NONBLOCK);
	assert_int_equal(f.accepted, 0);
	assert_int_equal(start(&f, listener), 0);
	run(&f, 1);
	snprintf(peer, sizeof(peer), "unix pid %d uid %u", getpid(), getuid());
	assert_string_equal(f.peer, peer);
	close(fd);
	listener_destroy(listener);
	assert_int_equal(access(f.path, F_OK), -1);
	listener_destroy(NULL);
	close_place(&f);
}

static void test_stale_socket(void **state)
{
	struct listener *listener;
	struct error error;
	struct fixture f;

	(void)state;
	open_place(&f);
	close(occupy(&f, 1));
	assert_int_equal(access(f.path, F_OK), 0);
	assert_int_equal(listener_create(&f.address, getuid(), getgid(), &listener, &error), 0);
	listener_destroy(listener);
	close_place(&f);
}

static void test_living_socket(void **state)
{
	struct listener *listener;
	struct error error;
	struct fixture f;
	char lock[112];
	int fd;

	(void)state;
	open_place(&f);
	assert_int_equal(listener_create(&f.address, getuid(), getgid(), &listener, &error), 0);
	assert_int_equal(start(&f, listener), 0);
	expect_error(&f.address, "listen-in-use");
	/* As a daemon of before, which makes no lock. */
	snprintf(lock, sizeof(lock), "%s.lock", f.path);
	assert_int_equal(unlink(lock), 0);
	expect_error(&f.address, "listen-in-use");
	run(&f, 1);		/* it was asked */
	fd = connect_to(&f.address);
	assert_true(fd >= 0);
	run(&f, 2);
	close(fd);
	listener_destroy(listener);
	close_place(&f);
}

/* It is bound, and its daemon listens when it is ready: until then a connect(2) is refused as by a dead one. */
static void test_socket_of_a_starting_daemon(void **state)
{
	struct listener *listener, *other;
	struct error error;
	struct fixture f;

	(void)state;
	open_place(&f);
	assert_int_equal(listener_create_for_all(&f.address, getuid(), getgid(), &listener, &error), 0);
	assert_int_equal(connect_to(&f.address), -1);
	expect_error(&f.address, "listen-in-use");
	assert_true(listener_create_for_all(&f.address, getuid(), getgid(), &other, &error) < 0);
	assert_non_null(strstr(error.hint, "--listen, --programs or --relay-courier"));
	assert_int_equal(access(f.path, F_OK), 0);
	assert_int_equal(start(&f, listener), 0);
	listener_destroy(listener);
	close_place(&f);
}

/* A lock is no longer than its daemon's life, and a file without one is nobody's. */
static void test_lock_of_a_killed_daemon(void **state)
{
	struct listener *listener;
	struct error error;
	struct fixture f;
	char lock[112], byte;
	int ready[2], status;
	pid_t other;

	(void)state;
	open_place(&f);
	close(occupy(&f, 1));
	snprintf(lock, sizeof(lock), "%s.lock", f.path);
	assert_int_equal(pipe(ready), 0);
	other = fork();
	if (!other) {
		if (lock_file_take(lock) >= 0 && write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	expect_error(&f.address, "listen-in-use");
	kill(other, SIGKILL);
	assert_int_equal(waitpid(other, &status, 0), other);
	assert_int_equal(access(lock, F_OK), 0);
	assert_int_equal(listener_create(&f.address, getuid(), getgid(), &listener, &error), 0);
	listener_destroy(listener);
	assert_int_equal(access(lock, F_OK), -1);
	close(ready[0]);
	close(ready[1]);
	close_place(&f);
}

/* The daemon that stops has removed the name in between: what was opened is no lock that anybody else would find. */
static void test_lock_that_was_removed(void **state)
{
	struct fixture f;
	char lock[112];
	int first, second;

	(void)state;
	open_place(&f);
	close(occupy(&f, 1));
	snprintf(lock, sizeof(lock), "%s.lock", f.path);
	first = lock_file_take(lock);
	assert_true(first >= 0);
	assert_int_equal(lock_file_take(lock), -EWOULDBLOCK);
	removed_when_opened = lock;
	second = lock_file_take(lock);
	assert_true(second >= 0);
	assert_null(removed_when_opened);
	assert_int_equal(lock_file_take(lock), -EWOULDBLOCK);
	/* The first one's file is not that any more, and the second's stays. */
	lock_file_leave(lock, first);
	assert_int_equal(access(lock, F_OK), 0);
	lock_file_leave(lock, second);
	assert_int_equal(access(lock, F_OK), -1);
	lock_file_leave(lock, -1);
	assert_int_equal(lock_file_take("/nowhere/lock"), -ENOENT);
	close_place(&f);
}

/* Somebody who does not come to accept: that is no reason to wait for him, or to take his place. */
static void test_busy_socket(void **state)
{
	struct fixture f;
	int fd, waiting[8];

	(void)state;
	open_place(&f);
	fd = occupy(&f, 0);
	for (unsigned i = 0; i < 8; i++)
		waiting[i] = connect_to(&f.address);
	assert_int_equal(waiting[7], -1);
	expect_error(&f.address, "listen-in-use");
	assert_int_equal(access(f.path, F_OK), 0);
	for (unsigned i = 0; i < 8; i++)
		if (waiting[i] >= 0)
			close(waiting[i]);
	close(fd);
	close_place(&f);
}

static void test_something_else_is_there(void **state)
{
	struct fixture f;
	char run_path[80];
	int fd;

	(void)state;
	open_place(&f);
	close(occupy(&f, -1));
	unlink(f.path);
	fd = open(f.path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	expect_error(&f.address, "listen-bind");
	assert_int_equal(access(f.path, F_OK), 0);
	unlink(f.path);
	/* And where no directory can be made. */
	snprintf(run_path, sizeof(run_path), "%s/run", f.directory);
	rmdir(run_path);
	fd = open(run_path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	close(fd);
	expect_error(&f.address, "listen-bind");
	unlink(run_path);
	close_place(&f);
	expect_error(&f.address, "listen-directory");
}

/* A daemon of root was killed there: one of another user cannot open its lock, and the message has the file. */
static void test_lock_of_another_user(void **state)
{
	struct listener *listener;
	struct error error;
	struct fixture f;
	char lock[112];

	(void)state;
	if (geteuid() != 0)
		skip();
	open_place(&f);
	assert_int_equal(chown(f.directory, 12, 34), 0);
	assert_int_equal(listener_create(&f.address, 12, 34, &listener, &error), 0);
	listener_destroy(listener);
	snprintf(lock, sizeof(lock), "%s.lock", f.path);
	close(open(lock, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
	assert_int_equal(listener_create(&f.address, 12, 34, &listener, &error), -EACCES);
	assert_string_equal(error.code, "listen-bind");
	assert_non_null(strstr(error.what, lock));
	assert_non_null(strstr(error.hint, "remove what a killed daemon of another user left there"));
	assert_int_equal(unlink(lock), 0);
	close_place(&f);
}

static void test_port(void **state)
{
	struct listener *listener;
	struct address address, same;
	struct error error;
	struct fixture f;
	int fd;

	(void)state;
	open_place(&f);
	assert_int_equal(address_parse("tcp:127.0.0.1:0", &address, &error), 0);
	assert_int_equal(listener_create(&address, 0, 0, &listener, &error), 0);
	assert_int_equal(start(&f, listener), 0);
	assert_memory_equal(listener_text(listener), "tcp:127.0.0.1:", 14);
	assert_int_equal(address_parse(listener_text(listener), &same, &error), 0);
	expect_error(&same, "listen-in-use");
	fd = connect_to(&same);
	run(&f, 1);
	assert_memory_equal(f.peer, "127.0.0.1:", 10);
	close(fd);
	listener_destroy(listener);
	/* It is free again at once. */
	assert_int_equal(listener_create(&same, 0, 0, &listener, &error), 0);
	listener_destroy(listener);
	close_place(&f);
}

/* ---- A storm ---------------------------------------------------------------------------------- */

#define STORM 400u

struct let_in {
	struct fixture *f;
	unsigned turns, accepted, between_max;
};

/* Its socket is always ready, as of a client that has much to ask. */
static void on_let_in(evutil_socket_t fd, short what, void *context)
{
	struct let_in *let_in = context;
	unsigned between = let_in->f->accepted - let_in->accepted;

	(void)fd, (void)what;
	let_in->turns++;
	let_in->accepted = let_in->f->accepted;
	if (between > let_in->between_max)
		let_in->between_max = between;
}

/* However many connect at once, few are accepted between two turns of a client that was let in. */
static void test_storm_of_strangers(void **state)
{
	struct let_in let_in = {0};
	struct listener *listener;
	struct event *event;
	struct error error;
	struct fixture f;
	int ready[2], fd[STORM];

	(void)state;
	open_place(&f);
	assert_int_equal(listener_create(&f.address, getuid(), getgid(), &listener, &error), 0);
	assert_int_equal(start(&f, listener), 0);
	for (unsigned i = 0; i < STORM; i++) {
		fd[i] = connect_to(&f.address);
		assert_true(fd[i] >= 0);
	}
	assert_int_equal(pipe(ready), 0);
	assert_int_equal(write(ready[1], "", 1), 1);
	let_in.f = &f;
	event = event_new(f.base, ready[0], EV_READ | EV_PERSIST, on_let_in, &let_in);
	event_add(event, NULL);
	while (f.accepted < STORM)
		event_base_loop(f.base, EVLOOP_ONCE);
	assert_true(let_in.between_max <= STRANGERS_TURN_MAX * ACCEPT_TURN_MAX);
	assert_true(let_in.turns >= STORM / (STRANGERS_TURN_MAX * ACCEPT_TURN_MAX));
	event_free(event);
	for (unsigned i = 0; i < STORM; i++)
		close(fd[i]);
	close(ready[0]);
	close(ready[1]);
	listener_destroy(listener);
	close_place(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mode_and_owner),
		cmocka_unit_test(test_stale_socket),
		cmocka_unit_test(test_living_socket),
		cmocka_unit_test(test_socket_of_a_starting_daemon),
		cmocka_unit_test(test_lock_of_a_killed_daemon),
		cmocka_unit_test(test_lock_that_was_removed),
		cmocka_unit_test(test_busy_socket),
		cmocka_unit_test(test_something_else_is_there),
		cmocka_unit_test(test_lock_of_another_user),
		cmocka_unit_test(test_port),
		cmocka_unit_test(test_storm_of_strangers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
