/*
 * Rules of `on`: what is written becomes probes, a filter and actions; whatever is wrong is refused at its column.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/trigger/rule.h"

static struct trigger_rule parsed(const char *text)
{
	struct trigger_rule rule;
	struct error error = {0};

	if (trigger_rule_parse(text, 3, NULL, &rule, &error) != 0)
		fail_msg("%s: %s", text, error.what);
	return rule;
}

static void test_quoted_condition(void **state)
{
	struct trigger_rule rule = parsed(
		" slow-fsync: 'syscall:fsync:call,fdatasync  duration > 50ms && comm == \"it's\" '"
		" at 5/s dump 30s , log, enable sched:sched_switch 1min every 10s ");

	(void)state;
	assert_string_equal(rule.name, "slow-fsync");
	assert_int_equal(rule.globs, 2);
	assert_string_equal(rule.glob[0], "syscall:fsync:call");
	assert_string_equal(rule.glob[1], "fdatasync");
	assert_string_equal(rule.filter, "duration > 50ms && comm == \"it's\" ");
	assert_int_equal(rule.matches_per_s, 5);
	assert_int_equal(rule.dump_ns, 30000000000ll);
	assert_string_equal(rule.enable, "sched:sched_switch");
	assert_int_equal(rule.enable_ns, 60000000000ll);
	assert_int_equal(rule.every_ns, 10000000000ll);
	trigger_rule_fini(&rule);
}

static void test_conditions_with_a_name(void **state)
{
	struct trigger_rule rule = parsed("signal SIGSEGV log");

	(void)state;
	assert_string_equal(rule.name, "trigger-3");
	assert_string_equal(rule.glob[0], "tracepoint:signal:signal_generate");
	assert_string_equal(rule.filter, "sig == SIGSEGV && result == 0");
	assert_int_equal(rule.dump_ns, 0);
	assert_int_equal(rule.every_ns, 60000000000ll);
	trigger_rule_fini(&rule);
	rule = parsed("oom dump 1min");
	assert_string_equal(rule.glob[0], "tracepoint:oom:mark_victim");
	assert_string_equal(rule.filter, "");
	trigger_rule_fini(&rule);
}

static void test_url(void **state)
{
	struct trigger_rule rule = parsed("oom call https://pager:8443/hook?a=b%2Cc , dump 1s, log every 1h");

	(void)state;
	assert_string_equal(rule.url, "https://pager:8443/hook?a=b%2Cc");
	assert_int_equal(rule.dump_ns, 1000000000);
	assert_int_equal(rule.every_ns, 3600000000000ll);
	assert_string_equal(rule.shown, "oom call https://pager:8443/... , dump 1s, log every 1h");
	trigger_rule_fini(&rule);
	rule = parsed("oom call http://pager?key=a every 1s");
	assert_string_equal(rule.shown, "oom call http://pager/... every 1s");
	trigger_rule_fini(&rule);
	rule = parsed("oom call http://pager/,log");
	assert_string_equal(rule.url, "http://pager/");
	assert_string_equal(rule.shown, "oom call http://pager/,log");
	trigger_rule_fini(&rule);
	rule = parsed("oom log");
	assert_null(rule.url);
	assert_string_equal(rule.shown, "oom log");
	trigger_rule_fini(&rule);
}

static void test_whether_any_calls(void **state)
{
	struct config_words rules = {.count = 2, .word = {"oom log", "'getppid' at 0/s call http://a"}};

	(void)state;
	assert_false(trigger_rules_call(&rules));
	rules.word[1] = "'getppid' call http://a";
	assert_true(trigger_rules_call(&rules));
	rules.count = 1;
	assert_false(trigger_rules_call(&rules));
}

/* A probe has colons, too: it does not begin with a name. */
static void test_no_name_before_a_quote(void **state)
{
	struct trigger_rule rule = parsed("'getppid' log");

	(void)state;
	assert_string_equal(rule.name, "trigger-3");
	assert_string_equal(rule.glob[0], "getppid");
	assert_string_equal(rule.filter, "");
	trigger_rule_fini(&rule);
}

/* The bounds themselves are within them. */
static void test_bounds(void **state)
{
	struct trigger_rule rule = parsed("this-is-a-name-of-just-32-bytes-: oom dump 100ms every 1s");

	(void)state;
	assert_string_equal(rule.name, "this-is-a-name-of-just-32-bytes-");
	assert_int_equal(rule.dump_ns, TRIGGER_DUMP_NS_MIN);
	assert_int_equal(rule.every_ns, TRIGGER_EVERY_NS_MIN);
	trigger_rule_fini(&rule);
	rule = parsed("oom dump 1h, enable kill 1s every 24h");
	assert_int_equal(rule.dump_ns, TRIGGER_DUMP_NS_MAX);
	assert_int_equal(rule.enable_ns, TRIGGER_ENABLE_NS_MIN);
	assert_int_equal(rule.every_ns, TRIGGER_EVERY_NS_MAX);
	trigger_rule_fini(&rule);
}

static const struct {
	const char *text;
	unsigned column;
	const char *code;
} wrong[] = {
	{"", 1, "trigger-condition"},
	{"slow:", 6, "trigger-condition"},
	{"sometimes dump 1s", 1, "trigger-condition"},
	{"'getppid pid == 1 dump 1s", 1, "trigger-open-quote"},
	{"'' dump 1s", 2, "trigger-incomplete"},
	{"'getppid, ' dump 1s", 11, "trigger-incomplete"},
	{"'a,a,a,a,a,a,a,a,a' log", 18, "too-many-probes"},
	{"'getppid pid = 1' log", 14, "filter-bad-character"},
	{"'getppid,a:b:c:d' log", 10, "probe-bad-spec"},
	{"'getppid' enable a:b:c:d 5s", 18, "probe-bad-spec"},
	{"'getppid' ", 11, "trigger-incomplete"},
	{"'getppid' dmp 1s", 11, "trigger-action"},
	{"'getppid' dump", 15, "trigger-incomplete"},
	{"'getppid' dump 1ms", 16, "trigger-out-of-range"},
	{"'getppid' dump 2h", 16, "trigger-out-of-range"},
	{"'getppid' dump 1parsec", 16, "unit-unknown"},
	{"'getppid' dump 1s, dump 2s", 20, "trigger-twice"},
	{"'getppid' dump 1s,", 19, "trigger-incomplete"},
	{"'getppid' call", 15, "trigger-incomplete"},
	{"'getppid' call ftp://a", 16, "trigger-url"},
	{"'getppid' call pager", 16, "trigger-url"},
	{"'getppid' call http://a, call http://b", 26, "trigger-twice"},
	{"'getppid' log log", 15, "trigger-rest"},
	{"'getppid' at 5 log", 14, "trigger-rate"},
	{"'getppid' at 0/s log", 14, "trigger-rate"},
	{"'getppid' enable 5s", 20, "trigger-incomplete"},
	{"'getppid' log every 1ms", 21, "trigger-out-of-range"},
	{"'getppid' enable kill 999ms", 23, "trigger-out-of-range"},
	{"'getppid' enable kill 61min", 23, "trigger-out-of-range"},
	{"'getppid pid \\' log", 14, "filter-bad-character"},
	{"a-name-of-33-bytes-is-one-too-big: oom log", 1, "trigger-name"},
	{"signal 11 log", 8, "trigger-signal"},
	{"signal SIG_BLOCK log", 8, "trigger-signal"},
	{"signal", 7, "trigger-incomplete"},
	{"a-name-that-is-longer-than-32-bytes-is: oom log", 1, "trigger-name"},
};

static void test_mistakes_have_columns(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct trigger_rule rule;
		struct error error = {0};
		int err = trigger_rule_parse(wrong[i].text, 1, NULL, &rule, &error);
		char column[32];

		if (err != -EINVAL || error.column != wrong[i].column)
			fail_msg("%s: %d, column %u: [%s] %s", wrong[i].text, err, error.column,
				 error.code, error.what);
		assert_string_equal(error.code, wrong[i].code);
		snprintf(column, sizeof(column), "column %u: ", wrong[i].column);
		if (strncmp(error.what, column, strlen(column)) != 0)
			fail_msg("%s: %s", wrong[i].text, error.what);
		assert_null(rule.text);
	}
}

static void test_two_of_one_name(void **state)
{
	const struct config_words words = {
		.word = {(char *)"a: oom log", (char *)"b: oom log", (char *)"a: 'getppid' log"},
		.count = 3,
	};
	struct config_words two = words;
	struct error error = {0};

	(void)state;
	two.count = 2;
	assert_int_equal(trigger_rules_check(&two, NULL, &error), 0);
	assert_int_equal(trigger_rules_check(&words, NULL, &error), -EINVAL);
	assert_string_equal(error.code, "trigger-name");
	two.word[1] = words.word[0];		/* beside each other */
	assert_int_equal(trigger_rules_check(&two, NULL, &error), -EINVAL);
	two.word[0] = two.word[1] = words.word[2] + 3;	/* those without a name are called by their numbers */
	assert_int_equal(trigger_rules_check(&two, NULL, &error), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_quoted_condition),
		cmocka_unit_test(test_conditions_with_a_name),
		cmocka_unit_test(test_url), cmocka_unit_test(test_whether_any_calls), cmocka_unit_test(test_no_name_before_a_quote),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_mistakes_have_columns),
		cmocka_unit_test(test_two_of_one_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
