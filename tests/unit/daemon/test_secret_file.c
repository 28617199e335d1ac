/*
 * A secret file that root opens for the daemon's user: nobody else can send root to another file, and
 * that user only to his own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/secret_file.h"

#define USER	12345u		/* the daemon's */
#define OTHER	12346u

static char top[64];

static const char *path_of(const char *name)
{
	static char path[4][256];
	static unsigned next;
	char *to = path[next++ % 4];

	snprintf(to, sizeof(path[0]), "%s/%s", top, name);
	return to;
}

static void make_dir(const char *name, uid_t owner, mode_t mode)
{
	assert_int_equal(mkdir(path_of(name), 0700), 0);
	assert_int_equal(chown(path_of(name), owner, owner), 0);
	assert_int_equal(chmod(path_of(name), mode), 0);
}

static void make_file(const char *name, uid_t owner)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fchown(fd, owner, owner), 0);
	close(fd);
}

static void make_link(const char *to, const char *name, uid_t owner)
{
	assert_int_equal(symlink(to, path_of(name)), 0);
	assert_int_equal(lchown(path_of(name), owner, owner), 0);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(top, "/tmp/secret_file.XXXXXX");
	assert_non_null(mkdtemp(top));
	assert_int_equal(chmod(top, 0755), 0);
	make_dir("roots", 0, 0755);
	make_file("roots/root", 0);
	make_file("roots/user", USER);
	make_file("roots/other", OTHER);
	make_dir("users", USER, 0755);
	make_file("users/user", USER);
	make_file("users/root", 0);
	make_link("../roots/root", "users/link", USER);
	make_link("../roots/user", "users/link_to_his", USER);
	make_dir("others", OTHER, 0755);
	make_file("others/user", USER);
	make_link("../roots/user", "others/link", OTHER);
	make_link("users/user", "link_into_users", 0);
	make_link("roots/root", "link", 0);
	make_link("loop", "loop", 0);
	make_dir("open", 0, 0777);
	make_file("open/root", 0);
	make_dir("group", 0, 0770);
	assert_int_equal(chown(path_of("group"), 0, OTHER), 0);
	make_file("group/root", 0);
	make_dir("sticky", 0, 01777);
	make_file("sticky/root", 0);
	make_file("sticky/user", USER);
	make_link("../roots/root", "sticky/link", OTHER);
	make_link("../roots/root", "sticky/roots_link", 0);
	make_dir("others_sticky", OTHER, 01777);
	make_file("others_sticky/root", 0);
	make_file("others_sticky/user", USER);
	assert_int_equal(mkfifo(path_of("roots/pipe"), 0600), 0);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command);
}

static int try(const char *path, uid_t user, const char **code)
{
	static struct error error;
	int fd = -1, err;

	error = (struct error){0};
	err = secret_file_open_for(user, path, "option", &fd, &error);
	*code = error.code;
	if (!err)
		close(fd);
	return err;
}

static void expect_open(const char *name)
{
	const char *code;
	int err = try(path_of(name), USER, &code);

	if (err)
		fail_msg("%s: %s", name, code);
}

static void expect_refused(const char *name)
{
	const char *code;

	if (try(path_of(name), USER, &code) != -EACCES)
		fail_msg("%s is opened", name);
	assert_string_equal(code, "secret-file-open");
}

static void test_roots_way_is_taken(void **state)
{
	const char *code;

	(void)state;
	expect_open("roots/root");
	expect_open("roots/user");
	expect_refused("roots/other");
	expect_open("link");
	expect_open("users/../roots//./root");
	expect_open("sticky/root");
	expect_open("sticky/roots_link");
	assert_int_equal(try(path_of("loop"), USER, &code), -ELOOP);
	assert_int_equal(try(path_of("nothing"), USER, &code), -ENOENT);
	assert_int_equal(try(path_of("roots"), USER, &code), -EACCES);
	assert_int_equal(chdir(path_of("roots")), 0);
	assert_int_equal(try("root", USER, &code), 0);
	assert_int_equal(chdir("/"), 0);
}

static void test_user_can_name_only_what_is_his(void **state)
{
	(void)state;
	expect_open("users/user");
	expect_open("link_into_users");
	expect_open("users/link_to_his");
	expect_open("sticky/user");
	expect_refused("users/link");
	expect_refused("users/root");
}

static void test_others_can_name_nothing(void **state)
{
	(void)state;
	expect_refused("others/user");
	expect_refused("others/link");
	expect_refused("open/root");
	expect_refused("group/root");
	expect_refused("sticky/link");
	/* Who owns such a directory may change every name in it. */
	expect_refused("others_sticky/root");
	expect_refused("others_sticky/user");
}

/* The daemon's group may read it, and nobody else do anything with it. */
static void test_others_may_do_nothing_with_it(void **state)
{
	static const mode_t open_to[] = {0620, 0610, 0604, 0602, 0601};

	(void)state;
	for (unsigned i = 0; i < sizeof(open_to) / sizeof(open_to[0]); i++) {
		assert_int_equal(chmod(path_of("roots/user"), open_to[i]), 0);
		expect_refused("roots/user");
	}
	assert_int_equal(chmod(path_of("roots/user"), 0640), 0);
	expect_open("roots/user");
}

/* Nobody writes into it: it is not waited for. */
static void test_a_pipe_is_no_file(void **state)
{
	(void)state;
	expect_refused("roots/pipe");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_roots_way_is_taken),
		cmocka_unit_test(test_user_can_name_only_what_is_his),
		cmocka_unit_test(test_others_can_name_nothing),
		cmocka_unit_test(test_others_may_do_nothing_with_it),
		cmocka_unit_test(test_a_pipe_is_no_file),
	};

	if (geteuid() != 0) {
		puts("only root can be sent elsewhere");
		return 77;
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
