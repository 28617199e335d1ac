/* What /etc/machine-id may hold: an id, none yet, or anything else; only an id is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/host/machine.h"

static const char *read_back(const char *text)
{
	char path[] = "/tmp/test_machine-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_true(dprintf(fd, "%s", text) >= 0);
	close(fd);
	machine_read_id(path);
	unlink(path);
	return machine_id();
}

static void test_id(void **state)
{
	(void)state;
	assert_string_equal(read_back("0123456789abcdef0123456789abcdef\n"),
			    "0123456789abcdef0123456789abcdef");
	assert_string_equal(read_back("0123456789abcdef0123456789abcdef"),
			    "0123456789abcdef0123456789abcdef");
	assert_string_equal(read_back("uninitialized\n"), "");
	assert_string_equal(read_back("0123456789abcdef0123456789abcde\n"), "");
	assert_string_equal(read_back("0123456789abcdef0123456789abcdeg\n"), "");
	assert_string_equal(read_back(""), "");
	machine_read_id("/nonexistent/machine-id");
	assert_string_equal(machine_id(), "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_id)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
