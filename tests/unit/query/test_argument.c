/* argument: of each call that does not always look at all its arguments, which it looks at; of all others, all. */
#include <fcntl.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "query/argument.h"

static bool reads(const char *function, const char *by, uint64_t value, const char *argument)
{
	const struct argument_rule *rule = argument_rule(function);

	assert_non_null(rule);
	assert_string_equal(argument_rule_by(rule), by);
	assert_true(argument_is_read(rule, by, value));
	return argument_is_read(rule, argument, value);
}

static void a_mode_is_read_to_create(void **state)
{
	static const char *const opens[] = {"open", "openat"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		assert_true(reads(opens[i], "flags", O_WRONLY | O_CREAT, "mode"));
		assert_true(reads(opens[i], "flags", O_RDWR | O_TMPFILE, "mode"));
		assert_false(reads(opens[i], "flags", O_RDONLY | O_DIRECTORY | O_CLOEXEC, "mode"));
		assert_true(reads(opens[i], "flags", O_RDONLY, "filename"));
	}
	assert_false(reads("mknodat", "mode", S_IFIFO | 0600, "dev"));
	assert_true(reads("mknodat", "mode", S_IFCHR | 0600, "dev"));
	assert_true(reads("mknod", "mode", S_IFBLK | 0600, "dev"));
}

static void commands_have_arguments_or_none(void **state)
{
	(void)state;
	assert_false(reads("fcntl", "cmd", F_GETFL, "arg"));
	assert_true(reads("fcntl", "cmd", F_SETFL, "arg"));
	assert_true(reads("fcntl", "cmd", F_SETLK, "arg"));
	assert_true(reads("fcntl", "cmd", F_GETFL, "fd"));
	assert_true(reads("fcntl", "cmd", 4711, "arg"));
	assert_false(reads("prctl", "option", PR_GET_DUMPABLE, "arg2"));
	assert_true(reads("prctl", "option", PR_SET_NAME, "arg2"));
	assert_false(reads("prctl", "option", PR_SET_NAME, "arg3"));
	assert_true(reads("prctl", "option", PR_SET_NO_NEW_PRIVS, "arg5"));
}

/* Also with the flags that stand beside the operation; of one that nobody knows, all is shown. */
static void operations_of_futex(void **state)
{
	static const struct {
		unsigned operation;
		bool time, second, third;
	} cases[] = {
		{FUTEX_WAIT, true, false, false}, {FUTEX_WAKE, false, false, false},
		{FUTEX_REQUEUE, true, true, false}, {FUTEX_CMP_REQUEUE, true, true, true},
		{FUTEX_WAKE_OP, true, true, true}, {FUTEX_LOCK_PI, true, false, false},
		{FUTEX_UNLOCK_PI, false, false, false}, {FUTEX_WAIT_BITSET, true, false, true},
		{FUTEX_WAKE_BITSET, false, false, true}, {FUTEX_WAIT_REQUEUE_PI, true, true, false},
		{100, true, true, true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t flags = cases[i].operation | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME;

		assert_int_equal(reads("futex", "op", flags, "utime"), cases[i].time);
		assert_int_equal(reads("futex", "op", flags, "uaddr2"), cases[i].second);
		assert_int_equal(reads("futex", "op", flags, "val3"), cases[i].third);
		assert_true(reads("futex", "op", flags, "uaddr"));
	}
}

static void other_calls_look_at_all(void **state)
{
	static const char *const calls[] = {"", "read", "fcntl64", "openat2", "zzz"};

	(void)state;
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		assert_null(argument_rule(calls[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mode_is_read_to_create),
		cmocka_unit_test(commands_have_arguments_or_none),
		cmocka_unit_test(operations_of_futex),
		cmocka_unit_test(other_calls_look_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
