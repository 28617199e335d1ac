/*
 * What root makes for the engine's user: whose it is, where it is made with root's rights and where it is not,
 * and that this user, who swaps names as fast as it can, is handed nothing else of root's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/privileges.h"
#include "daemon/net/listener.h"

#define RACES 3000u
#define RACER_S 60

static const struct account user = {.uid = 12345, .gid = 23456};

struct place {
	char top[64];		/* root's */
	char own[80];		/* the user's, in it */
};

/* Good for as long as a test uses few of them. */
static __attribute__((noinline)) char *in(const char *directory, const char *name)
{
	static char path[64][160];
	static unsigned at;

	at = (at + 1) % 64;
	snprintf(path[at], sizeof(path[at]), "%s/%s", directory, name);
	return path[at];
}

static int setup(void **state)
{
	struct place *place = calloc(1, sizeof(*place));

	*state = place;
	if (geteuid() != 0)
		return 0;
	snprintf(place->top, sizeof(place->top), "/tmp/ringtail-as-user-XXXXXX");
	assert_non_null(mkdtemp(place->top));
	assert_int_equal(chmod(place->top, 0755), 0);
	snprintf(place->own, sizeof(place->own), "%s/own", place->top);
	assert_int_equal(mkdir(place->own, 0755), 0);
	assert_int_equal(chown(place->own, user.uid, user.gid), 0);
	return 0;
}

static int teardown(void **state)
{
	struct place *place = *state;
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", place->top);
	assert_true(!*place->top || system(command) == 0);
	free(place);
	return 0;
}

static void assert_is(const char *path, mode_t mode, uid_t uid)
{
	struct stat stat;

	assert_int_equal(lstat(path, &stat), 0);
	assert_int_equal(stat.st_mode, mode);
	assert_int_equal(stat.st_uid, uid);
	assert_int_equal(stat.st_gid, uid ? user.gid : 0);
}

static void test_directories(void **state)
{
	const struct place *place = *state;
	char *path = in(place->own, "a");

	if (geteuid() != 0)
		skip();
	assert_int_equal(privileges_make_directory(&user, path, 0700), 0);
	assert_is(path, S_IFDIR | 0700, user.uid);
	/* Where it may not write, in a directory of root's: it is its own all the same. */
	path = in(place->top, "b");
	assert_int_equal(privileges_make_directory(&user, path, 0755), 0);
	assert_is(path, S_IFDIR | 0755, user.uid);
	assert_int_equal(privileges_make_directory(&user, path, 0755), 0);
	/* Nothing is left of the user's rights, or of its lack of them. */
	path = in(place->top, "c");
	assert_int_equal(mkdir(path, 0700), 0);
	assert_is(path, S_IFDIR | 0700, 0);
	assert_int_equal(privileges_make_directory(&user, in(path, "d"), 0700), 0);
	assert_is(in(path, "d"), S_IFDIR | 0700, user.uid);
	assert_int_equal(privileges_make_directory(&(struct account){0}, in(path, "e"), 0700), 0);
	assert_is(in(path, "e"), S_IFDIR | 0700, 0);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "none/f"), 0700), -ENOENT);
}

/* What is done as the user leaves root what it was: its groups, and which rights new files have. */
static void test_root_is_what_it_was(void **state)
{
	const struct place *place = *state;
	const gid_t groups[] = {4, 27};
	gid_t before[NGROUPS_MAX], after[NGROUPS_MAX];
	int had;
	mode_t mask;

	if (geteuid() != 0)
		skip();
	had = getgroups(NGROUPS_MAX, before);
	assert_true(had >= 0);
	assert_int_equal(setgroups(2, groups), 0);
	mask = umask(027);
	assert_int_equal(privileges_make_directory(&user, in(place->own, "h"), 0777), 0);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "none/h"), 0777), -ENOENT);
	assert_int_equal(umask(mask), 027);
	assert_int_equal(getgroups(NGROUPS_MAX, after), 2);
	assert_true(after[0] == 4 && after[1] == 27);
	assert_int_equal(setgroups((size_t)had, before), 0);
	assert_is(in(place->own, "h"), S_IFDIR | 0777, user.uid);
	assert_int_equal(setfsgid((gid_t)-1), 0);
	assert_int_equal(setfsuid((uid_t)-1), 0);
}

/* By a link of root's it may be made, by one of the user's only what the user can make by itself. */
static void test_links(void **state)
{
	const struct place *place = *state;
	char *roots = in(place->top, "roots");

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(roots, 0755), 0);
	assert_int_equal(symlink(roots, in(place->top, "link")), 0);
	assert_int_equal(symlink("roots", in(place->top, "relative")), 0);
	assert_int_equal(symlink("self", in(place->top, "self")), 0);
	assert_int_equal(symlink(roots, in(place->own, "link")), 0);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "link/a"), 0700), 0);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "relative/../roots//b"), 0700), 0);
	assert_is(in(roots, "a"), S_IFDIR | 0700, user.uid);
	assert_is(in(roots, "b"), S_IFDIR | 0700, user.uid);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "self/c"), 0700), -ELOOP);
	assert_int_equal(privileges_make_directory(&user, in(place->own, "link/d"), 0700), -EACCES);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "own/link/d"), 0700), -EACCES);
	assert_int_equal(access(in(roots, "d"), F_OK), -1);
	/* As in /tmp, where names belong to their owners. */
	assert_int_equal(mkdir(in(place->top, "tmp"), 0700), 0);
	assert_int_equal(chmod(in(place->top, "tmp"), 01777), 0);
	assert_int_equal(symlink(roots, in(place->top, "tmp/link")), 0);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "tmp/link/e"), 0700), 0);
	assert_int_equal(lchown(in(place->top, "tmp/link"), user.uid, user.gid), 0);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "tmp/link/g"), 0700), -EACCES);
	assert_int_equal(chmod(in(place->top, "tmp"), 0777), 0);
	assert_int_equal(privileges_make_directory(&user, in(place->top, "tmp/link/g"), 0700), -EACCES);
}

/* ---- Races ------------------------------------------------------------------------------------- */

/*
 * As the user, until it is ended: what appears under that name is moved away, and the name leads to root's for
 * a moment. In the next one the name is free again.
 */
static void swap_names(const char *name, const char *spare, const char *away, const char *roots)
{
	struct stat stat;
	char inside[200];

	snprintf(inside, sizeof(inside), "%s/sock", away);
	for (;;) {
		if (symlink(roots, spare) != 0 && errno != EEXIST)
			return;
		while (lstat(name, &stat) != 0)
			;
		/* Over a socket at once; a directory has to go first. */
		if (rename(spare, name) != 0) {
			rename(name, away);
			rename(spare, name);
		}
		usleep(20);
		unlink(name);
		unlink(inside);
		rmdir(away);
	}
}

static pid_t start_racer(const struct place *place, const char *name, const char *roots)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid)
		return pid;
	alarm(RACER_S);		/* a check that fails does not end it */
	if (!setgroups(0, NULL) && !setgid(user.gid) && !setuid(user.uid) &&
	    prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
		swap_names(name, in(place->own, "spare"), in(place->own, "away"), roots);
	_exit(1);
}

static void end_racer(pid_t pid)
{
	int status;

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static void race(const struct place *place, const char *listen, const char *swapped,
		 const char *roots, mode_t mode, bool makes)
{
	pid_t racer;
	struct listener *listener;
	struct address address;
	struct error error;
	char text[200], name[160];

	snprintf(name, sizeof(name), "%s/%s", place->own, swapped);
	snprintf(text, sizeof(text), "unix:%s/%s", place->own, listen);
	assert_int_equal(address_parse(text, &address, &error), 0);
	racer = start_racer(place, name, roots);
	for (unsigned i = 0; i < RACES; i++) {
		if (listener_create(&address, user.uid, user.gid, &listener, &error) == 0)
			listener_destroy(listener);
		if (makes)
			privileges_make_directory(&user, name, 0700);
		assert_is(roots, mode, 0);
	}
	end_racer(racer);
	assert_int_equal(access(in(roots, "sock"), F_OK), -1);
}

/* The socket's name is root's file, as soon as it is bound. */
static void test_bind_race(void **state)
{
	const struct place *place = *state;
	char *roots = in(place->top, "secret");
	int fd;

	if (geteuid() != 0)
		skip();
	fd = open(roots, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	race(place, "sock", "sock", roots, S_IFREG | 0600, false);
}

/* And its directory is one of root's, as soon as it is made. */
static void test_directory_race(void **state)
{
	const struct place *place = *state;
	char *roots = in(place->top, "secrets");

	if (geteuid() != 0)
		skip();
	assert_int_equal(mkdir(roots, 0755), 0);
	race(place, "run/sock", "run", roots, S_IFDIR | 0755, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_directories, setup, teardown),
		cmocka_unit_test_setup_teardown(test_root_is_what_it_was, setup, teardown),
		cmocka_unit_test_setup_teardown(test_links, setup, teardown),
		cmocka_unit_test_setup_teardown(test_bind_race, setup, teardown),
		cmocka_unit_test_setup_teardown(test_directory_race, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
