/* What the service manager hands over, by name; and what it must not be believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/service_manager.h"

#define HANDED 3		/* descriptors 3, 4, 5 */

/* Each case runs in a process of its own, whose low descriptors it may take. */
static void in_child(void (*body)(void))
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		body();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

#define EXPECT(condition) \
	do { \
		if (!(condition)) { \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			_exit(1); \
		} \
	} while (0)

static void hand_over(const char *fds, const char *names)
{
	char pid[16];

	for (int fd = 3; fd < 3 + HANDED; fd++)
		EXPECT(dup2(open("/dev/null", O_RDONLY), fd) == fd);
	snprintf(pid, sizeof(pid), "%d", getpid());
	setenv("LISTEN_PID", pid, 1);
	setenv("LISTEN_FDS", fds, 1);
	if (names)
		setenv("LISTEN_FDNAMES", names, 1);
}

static void by_name(void)
{
	struct activation activation;
	const char *name;

	hand_over("3", "http.socket:source.bpf.x:source.bpf.y");
	EXPECT(activation_take(&activation) == 0);
	EXPECT(activation.count == 3);
	EXPECT(!getenv("LISTEN_PID") && !getenv("LISTEN_FDS") && !getenv("LISTEN_FDNAMES"));
	EXPECT(fcntl(4, F_GETFD) == FD_CLOEXEC);
	EXPECT(activation_next(&activation, "http", NULL) == -1);
	EXPECT(activation_next(&activation, "http.socket", NULL) == 3);
	EXPECT(activation_next(&activation, "http.socket", NULL) == -1);
	EXPECT(activation_next(&activation, "source.*", &name) == 4);
	EXPECT(strcmp(name, "source.bpf.x") == 0);
	activation_close(&activation);
	EXPECT(fcntl(3, F_GETFD) >= 0 && fcntl(4, F_GETFD) >= 0);	/* taken */
	EXPECT(fcntl(5, F_GETFD) < 0 && errno == EBADF);
	EXPECT(activation.count == 0);
}

static void nameless(void)
{
	struct activation activation;

	hand_over("3", "one");
	EXPECT(activation_take(&activation) == 0);
	EXPECT(strcmp(activation.entry[0].name, "one") == 0);
	EXPECT(strcmp(activation.entry[1].name, "unknown") == 0);
	EXPECT(strcmp(activation.entry[2].name, "unknown") == 0);
	activation_close(&activation);
}

static void not_there(void)
{
	struct activation activation;

	hand_over("3", "a:b:c");
	close(4);
	EXPECT(activation_take(&activation) == 0);
	EXPECT(activation.count == 2);
	EXPECT(activation_next(&activation, "b", NULL) == -1);
	EXPECT(activation_next(&activation, "c", NULL) == 5);
	activation_close(&activation);
}

static void for_another(void)
{
	struct activation activation;

	hand_over("3", "a:b:c");
	setenv("LISTEN_PID", "1", 1);
	EXPECT(activation_take(&activation) == 0);
	EXPECT(activation.count == 0 && !getenv("LISTEN_FDS"));
	activation_close(&activation);
	unsetenv("LISTEN_PID");
	EXPECT(activation_take(&activation) == 0 && activation.count == 0);
}

static void nonsense(void)
{
	static const char *const fds[] = {"", "x", "-1", "3x", "999999999999999999999", "4097"};
	struct activation activation;

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
		hand_over(fds[i], "a");
		EXPECT(activation_take(&activation) == -EINVAL);
		EXPECT(activation.count == 0);
	}
}

static void test_by_name(void **state) { (void)state; in_child(by_name); }
static void test_nameless(void **state) { (void)state; in_child(nameless); }
static void test_not_there(void **state) { (void)state; in_child(not_there); }
static void test_for_another(void **state) { (void)state; in_child(for_another); }
static void test_nonsense(void **state) { (void)state; in_child(nonsense); }

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_by_name),
		cmocka_unit_test(test_nameless),
		cmocka_unit_test(test_not_there),
		cmocka_unit_test(test_for_another),
		cmocka_unit_test(test_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
