/*
 * What root's process has left when it has given up what it may do: another user, no group, the capabilities
 * that it keeps and no other, in no set; and nothing to be gained by what it executes. In a child: there is no
 * way back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <grp.h>
#include <pwd.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/host/privileges.h"

static const struct account user = {.uid = 12345, .gid = 23456};
static const cap_value_t kept[] = {CAP_CHOWN};

/* In the child: which line it was that did not hold. */
#define HOLDS(condition) do { if (!(condition)) _exit(__LINE__ % 255 + 1); } while (0)

static void check_user(void)
{
	uid_t uid[3];
	gid_t gid[3];

	HOLDS(getresuid(&uid[0], &uid[1], &uid[2]) == 0 && getresgid(&gid[0], &gid[1], &gid[2]) == 0);
	for (unsigned i = 0; i < 3; i++)
		HOLDS(uid[i] == user.uid && gid[i] == user.gid);
	HOLDS(getgroups(0, NULL) == 0);
}

/* In every set that there is. */
static void check_capabilities(bool chown)
{
	cap_t want = cap_init(), have = cap_get_proc();

	if (chown) {
		cap_set_flag(want, CAP_PERMITTED, 1, kept, CAP_SET);
		cap_set_flag(want, CAP_EFFECTIVE, 1, kept, CAP_SET);
	}
	HOLDS(cap_compare(want, have) == 0);
	for (unsigned long i = 0; i <= CAP_LAST_CAP; i++)
		HOLDS(prctl(PR_CAPBSET_READ, i, 0, 0, 0) <= 0 && prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, i, 0, 0) <= 0);
	HOLDS(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
	cap_free(want);
	cap_free(have);
}

static void keep_one(void)
{
	struct error error;

	HOLDS(privileges_keep(&user, kept, 1, &error) == 0);
	check_user();
	check_capabilities(true);
	HOLDS(setuid(0) != 0 && setgid(0) != 0);
	HOLDS(privileges_give_up(&error) == 0);
	check_user();
	check_capabilities(false);
}

static void drop_all(void)
{
	struct error error;

	HOLDS(privileges_drop(&user, &error) == 0);
	check_user();
	check_capabilities(false);
}

static void in_child(void (*what)(void))
{
	static const gid_t groups[] = {0, 4, 27};
	static const cap_value_t handed_on[] = {CAP_SETUID};
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		cap_t own = cap_get_proc();

		/* Who starts it is in groups, and hands capabilities on. */
		HOLDS(setgroups(3, groups) == 0);
		HOLDS(cap_set_flag(own, CAP_INHERITABLE, 1, handed_on, CAP_SET) == 0 && cap_set_proc(own) == 0);
		HOLDS(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SETUID, 0, 0) == 0);
		cap_free(own);
		what();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status))
		fail_msg("line %d", WEXITSTATUS(status) - 1);
}

static void nothing_is_left_but_what_is_kept(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	in_child(keep_one);
	in_child(drop_all);
}

/* The first number that nobody has is the engine's own: the loader takes another. */
static void the_loader_is_not_the_engine(void **state)
{
	struct account engine = {0}, loader = {0}, other = {0};
	struct error error;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(privileges_find_loader(&engine, &loader, &error), 0);
	assert_int_not_equal(loader.uid, 0);
	engine = loader;
	if (getpwuid(loader.uid))
		return;			/* it has a name of its own, and is the loader's alone */
	assert_int_equal(privileges_find_loader(&engine, &other, &error), 0);
	assert_int_not_equal(other.uid, 0);
	assert_int_not_equal(other.uid, engine.uid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_left_but_what_is_kept),
		cmocka_unit_test(the_loader_is_not_the_engine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
