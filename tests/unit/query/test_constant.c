/*
 * test_constant: numbers have the names of the kernel's headers: flags, numbers among flags, what is left
 * over, and what another argument decides.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "query/constant.h"

static const char *print(const char *function, const char *argument, uint64_t value)
{
	static char text[CONSTANT_TEXT_BYTES];
	const struct constant_rule *rule = constant_rule(function, argument);

	size_t bytes;

	assert_non_null(rule);
	bytes = constant_print(rule, value, text);
	assert_int_equal(bytes, strlen(text));
	return text;
}

static void flags_have_names(void **state)
{
	(void)state;
	assert_string_equal(print("openat", "flags", O_RDONLY), "O_RDONLY");
	assert_string_equal(print("openat", "flags", O_RDWR | O_CREAT | O_CLOEXEC),
			    "O_RDWR|O_CREAT|O_CLOEXEC");
	assert_string_equal(print("openat", "flags", O_SYNC | O_WRONLY), "O_WRONLY|O_SYNC");
	assert_string_equal(print("openat", "flags", O_DSYNC | O_WRONLY), "O_WRONLY|O_DSYNC");
	assert_string_equal(print("mprotect", "prot", 0), "PROT_NONE");
	assert_string_equal(print("mprotect", "prot", PROT_READ | PROT_EXEC), "PROT_READ|PROT_EXEC");
	assert_string_equal(print("clone", "clone_flags", CLONE_IO), "CLONE_IO");	/* bit 31 */
	assert_string_equal(print("mmap", "flags", MAP_SHARED_VALIDATE | MAP_FIXED),
			    "MAP_SHARED_VALIDATE|MAP_FIXED");
	assert_string_equal(print("socket", "type", SOCK_DGRAM | SOCK_CLOEXEC),
			    "SOCK_DGRAM|SOCK_CLOEXEC");
	assert_string_equal(print("clone", "clone_flags", CLONE_VM | CLONE_VFORK | SIGCHLD),
			    "SIGCHLD|CLONE_VM|CLONE_VFORK");
	assert_string_equal(print("futex", "op", FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG |
				  FUTEX_CLOCK_REALTIME), "FUTEX_WAIT_BITSET_PRIVATE|FUTEX_CLOCK_REALTIME");
}

static void what_is_left_is_a_number(void **state)
{
	(void)state;
	assert_string_equal(print("mprotect", "prot", PROT_READ | 0x800), "PROT_READ|0x800");
	assert_string_equal(print("mprotect", "prot", 0x800), "");
	assert_string_equal(print("mprotect", "prot", 1ull << 40), "");
	assert_string_equal(print("openat", "flags", O_ACCMODE | O_CREAT), "O_CREAT|0x3");
	assert_string_equal(print("kill", "sig", 77), "");
	assert_string_equal(print("sendto", "flags", 0), "");
}

static void numbers_have_names(void **state)
{
	(void)state;
	assert_string_equal(print("kill", "sig", SIGKILL), "SIGKILL");
	assert_string_equal(print("getrusage", "who", (uint64_t)-1), "RUSAGE_CHILDREN");
	assert_string_equal(print("getrusage", "who", UINT32_MAX), "RUSAGE_CHILDREN");
	assert_string_equal(print("socket", "family", AF_INET6), "AF_INET6");
	assert_null(constant_rule("read", "count"));
	assert_null(constant_rule("openat", "dfd"));
	assert_null(constant_rule("", ""));
}

static void another_argument_decides(void **state)
{
	const struct constant_rule *rule = constant_rule("setsockopt", "optname");
	char text[CONSTANT_TEXT_BYTES];
	bool found = false;
	uint32_t value;

	(void)state;
	for (; rule; rule = constant_rule_next(rule)) {
		assert_string_equal(constant_rule_other(rule, &value), "level");
		if (value != SOL_SOCKET)
			continue;
		found = constant_print(rule, SO_REUSEADDR, text);
		assert_string_equal(text, "SO_REUSEADDR");
	}
	assert_true(found);
	assert_null(constant_rule_next(constant_rule("kill", "sig")));
	assert_null(constant_rule_other(constant_rule("kill", "sig"), &value));
}

static void names_have_values(void **state)
{
	int64_t value;
	size_t names = 0;

	(void)state;
	assert_true(constant_find("O_CLOEXEC", &value));
	assert_int_equal(value, O_CLOEXEC);
	assert_true(constant_find("SIGKILL", &value));
	assert_int_equal(value, SIGKILL);
	assert_true(constant_find("AT_FDCWD", &value));
	assert_int_equal(value, AT_FDCWD);
	assert_false(constant_find("O_NOTHING", &value));
	assert_false(constant_find("", &value));
	while (constant_name(names))
		assert_true(constant_find(constant_name(names++), &value));
	assert_true(names > 1000);
	assert_true(constant_rule_by_machine(constant_rule("openat", "flags")));
	assert_false(constant_rule_by_machine(constant_rule("kill", "sig")));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_have_names),
		cmocka_unit_test(what_is_left_is_a_number),
		cmocka_unit_test(numbers_have_names),
		cmocka_unit_test(another_argument_decides),
		cmocka_unit_test(names_have_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
