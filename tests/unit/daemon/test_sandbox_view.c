/* sandbox_view: a process sees the places that it was given, under their names, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/sandbox.h"

static char home[] = "/tmp/ringtail-view-XXXXXX";

static void make_file(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	close(fd);
}

/* home/{state/, config/{a,link->../kept/b}, kept/b, hidden}; the working directory is home. */
static int setup(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(home));
	assert_int_equal(chdir(home), 0);
	assert_int_equal(mkdir("state", 0700) | mkdir("config", 0700) | mkdir("kept", 0700), 0);
	make_file("config/a");
	make_file("kept/b");
	make_file("hidden");
	return symlink("../kept/b", "config/link");
}

static int teardown(void **state)
{
	(void)state;
	unlink("config/a");
	unlink("config/link");
	unlink("kept/b");
	unlink("hidden");
	unlink("state/new");
	rmdir("state");
	rmdir("config");
	rmdir("kept");
	return chdir("/") || rmdir(home);
}

static bool is_there(const char *path)
{
	return access(path, F_OK) == 0;
}

/* In a child: it enters the view and looks around; the line that is not so is its exit code. */
#define MUST(holds) do { if (!(holds)) _exit(__LINE__ % 250 + 1); } while (0)

static int in_child(void (*look)(void))
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		look();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void look_around(void)
{
	struct sandbox_view view = {0};
	struct error error;

	MUST(sandbox_view_add(&view, "state", SANDBOX_WRITE) == 0);
	MUST(sandbox_view_add_file(&view, "config/link", SANDBOX_READ) == 0);
	MUST(sandbox_view_add(&view, "/etc/passwd", SANDBOX_READ) == 0);
	MUST(sandbox_view_add(&view, "/not/there", SANDBOX_READ) == 0);
	MUST(sandbox_view_enter(&view, &error) == 0);
	sandbox_view_fini(&view);
	MUST(is_there("config/a") && is_there("config/link") && is_there("kept/b"));
	MUST(is_there("/etc/passwd") && !is_there("/etc/shells") && !is_there("/proc"));
	MUST(!is_there("hidden") && !is_there("/usr") && !is_there("/not"));
	MUST(open("state/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
	MUST(open("config/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
	MUST(open("/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
	MUST(chdir("/") == 0 && chdir("..") == 0 && !is_there("usr") && is_there("etc"));
}

static bool has(const char *path, unsigned long flags)
{
	struct statvfs about;

	return statvfs(path, &about) == 0 && (about.f_flag & flags) == flags;
}

/* Nothing in it can be run, or has rights of its own; nor in what is mounted below a place. */
static void look_for_programs(void)
{
	const unsigned long data = ST_NOEXEC | ST_NOSUID | ST_NODEV;
	struct sandbox_view view = {0};
	struct error error;

	MUST(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	MUST(mount("none", "kept", "tmpfs", 0, NULL) == 0);
	MUST(!has("kept", ST_NOEXEC) && !has("kept", ST_RDONLY));
	MUST(sandbox_view_add(&view, "state", SANDBOX_WRITE) == 0);
	MUST(sandbox_view_add(&view, ".", SANDBOX_READ) == 0);
	MUST(sandbox_view_enter(&view, &error) == 0);
	sandbox_view_fini(&view);
	MUST(has("/", data | ST_RDONLY) && has("config", data | ST_RDONLY) && has("state", data));
	MUST(!has("state", ST_RDONLY));
	MUST(has("kept", data | ST_RDONLY));
}

static void look_from_the_root(void)
{
	struct sandbox_view view = {0};
	struct error error;

	MUST(sandbox_view_add(&view, "/etc/passwd", SANDBOX_READ) == 0);
	MUST(chdir("/") == 0);
	MUST(sandbox_view_enter(&view, &error) == 0);
	sandbox_view_fini(&view);
	MUST(is_there("etc/passwd") && !is_there("usr"));
}

static void look_into_nested(void)
{
	struct sandbox_view view = {0};
	struct error error;

	/* In whatever order they come, and however often: what may be written stays so. */
	MUST(sandbox_view_add(&view, "state", SANDBOX_WRITE) == 0);
	MUST(sandbox_view_add(&view, "state", SANDBOX_READ) == 0);
	MUST(sandbox_view_add(&view, ".", SANDBOX_READ) == 0);
	MUST(sandbox_view_enter(&view, &error) == 0);
	sandbox_view_fini(&view);
	MUST(is_there("hidden") && is_there("kept/b"));
	MUST(open("state/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) >= 0);
	MUST(open("kept/new", O_WRONLY | O_CREAT | O_CLOEXEC, 0600) < 0 && errno == EROFS);
}

static void look_without_rights(void)
{
	struct sandbox_view view = {0};
	struct error error;

	MUST(sandbox_view_add(&view, "/etc/passwd", SANDBOX_READ) == 0);
	MUST(geteuid() != 0 || setuid(65534) == 0);
	MUST(sandbox_view_enter(&view, &error) == -EPERM);
	sandbox_view_fini(&view);
	MUST(is_there("/etc/shells"));
}

static void sees_its_places_alone(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(in_child(look_around), 0);
	assert_true(is_there("state/new"));
}

static void holds_data_alone(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(in_child(look_for_programs), 0);
}

static void may_begin_in_the_root_directory(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(in_child(look_from_the_root), 0);
}

static void places_may_lie_in_each_other(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(in_child(look_into_nested), 0);
}

static void without_rights_nothing_changes(void **state)
{
	(void)state;
	assert_int_equal(in_child(look_without_rights), 0);
}

static void too_many_places_are_refused(void **state)
{
	struct sandbox_view view = {0};
	char path[sizeof(home) + SANDBOX_PLACES_MAX + 2];
	int err = 0;

	(void)state;
	/* As many names of one place as there may be, and one more. */
	strcpy(path, home);
	for (unsigned i = 0; !err && i <= SANDBOX_PLACES_MAX; i++) {
		err = sandbox_view_add(&view, path, SANDBOX_READ);
		strcat(path, "/");
	}
	assert_int_equal(err, -E2BIG);
	assert_int_equal(view.count, SANDBOX_PLACES_MAX);
	sandbox_view_fini(&view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sees_its_places_alone),
		cmocka_unit_test(holds_data_alone),
		cmocka_unit_test(may_begin_in_the_root_directory),
		cmocka_unit_test(places_may_lie_in_each_other),
		cmocka_unit_test(without_rights_nothing_changes),
		cmocka_unit_test(too_many_places_are_refused),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
