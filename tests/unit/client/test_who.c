/* test_who: what --pid, --comm, a filter and a question with a name make of a filter, and where a slip in it is. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/cli/who.h"
#include "query/filter.h"

static struct ringtail_error error;

static void check_filter(const struct settings *settings, const char *wanted)
{
	struct filter *filter;
	struct error why;
	struct who who;

	assert_int_equal(who_create(settings, "syscall:*:call", &who, &error), 0);
	assert_string_equal(who.filter, wanted);
	assert_int_equal(filter_compile(who.filter, NULL, &filter, &why), 0);
	filter_destroy(filter);
	assert_int_equal(who_destroy(&who), 0);
}

static void all_must_hold(void **state)
{
	struct settings settings = { .filter = "ret < 0 || uid == 0" };

	(void)state;
	check_filter(&settings, "ret < 0 || uid == 0");
	settings.pid = (struct texts){ .n = 2, .text = { "7", "8" } };
	check_filter(&settings, "(ret < 0 || uid == 0) && pid in (7, 8)");
	settings.comm = (struct texts){ .n = 3, .text = { "nginx", "php*", "a-name-of-fifteen" } };
	check_filter(&settings, "(ret < 0 || uid == 0) && pid in (7, 8) && "
		     "(comm == \"nginx\" || comm =~ \"php*\" || comm == \"a-name-of-fifte\")");
	settings.question = "error";
	check_filter(&settings, "(ret < 0 || uid == 0) && (error) && pid in (7, 8) && "
		     "(comm == \"nginx\" || comm =~ \"php*\" || comm == \"a-name-of-fifte\")");
	settings.filter = " ";
	settings.pid.n = settings.comm.n = 0;
	check_filter(&settings, "(error)");
	settings.question = NULL;
	settings.comm = (struct texts){ .n = 1, .text = { "\\**" } };
	check_filter(&settings, "(comm =~ \"\\\\**\")");
	settings.comm = (struct texts){ .n = 1, .text = { "a\" || b" } };
	check_filter(&settings, "(comm == \"a\\\" || b\")");
	settings.tree = (struct texts){ .n = 1, .text = { "9" } };
	check_filter(&settings, "(comm == \"a\\\" || b\") || probe in (\"tracepoint:sched:sched_process_fork\", "
		     "\"tracepoint:sched:sched_process_exec\", \"tracepoint:sched:sched_process_exit\")");
	settings.comm.n = 0;
	settings.tree.n = 1;
	{
		struct who who;

		assert_int_equal(who_create(&settings, "syscall:*:call", &who, &error), 0);
		assert_string_equal(who.filter, "");	/* of all processes: the tree is chosen here */
		who_destroy(&who);
	}
}

/* Where the person made it; of what the person did not write there is no place. */
static void slips(void **state)
{
	struct settings settings = { .filter = "pid == 1 && zebra == 2", .question = "lion == 3" };
	struct who who;

	(void)state;
	assert_int_equal(who_create(&settings, "syscall:*:call", &who, &error), 0);
	error.column = 14;
	snprintf(error.what, sizeof(error.what), "filter, column 14: no name is called `zebra`");
	who_place(&who, &error);
	assert_int_equal(error.column, 13);
	assert_string_equal(error.what, "filter, column 13: no name is called `zebra`");
	error.column = 28;
	snprintf(error.what, sizeof(error.what), "filter, column 28: no name is called `lion`");
	who_place(&who, &error);
	assert_int_equal(error.column, 0);
	error.column = 3;
	snprintf(error.what, sizeof(error.what), "a cursor's text");
	who_place(&who, &error);
	assert_int_equal(error.column, 3);
	who_destroy(&who);
	settings.filter = "pid == (";
	assert_int_equal(who_create(&settings, "syscall:*:call", &who, &error), -EINVAL);
	assert_int_equal(error.column, 8);
	settings = (struct settings){ .pid = { .n = 1, .text = { "x" } } };
	assert_int_equal(who_create(&settings, "syscall:*:call", &who, &error), -EINVAL);
	assert_string_equal(error.what, "--pid x: is not the number of a process");
	settings = (struct settings){ .tree = { .n = 1, .text = { "0" } } };
	assert_int_equal(who_create(&settings, "syscall:*:call", &who, &error), -EINVAL);
	assert_string_equal(error.what, "--tree 0: is not the number of a process");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(all_must_hold), cmocka_unit_test(slips) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
