/* Questions of `ask`: what is written becomes probes, fields and a filter; whatever is wrong is refused at its column. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "daemon/ask/question.h"
#include "tests/unit/daemon/small_catalog.h"

static struct ask_question parsed(const char *text)
{
	struct ask_question question;
	struct error error = {0};

	if (ask_question_parse(text, 3, &small_catalog, &question, &error) != 0)
		fail_msg("%s: %s", text, error.what);
	return question;
}

static void test_all_parts(void **state)
{
	struct ask_question question = parsed(" opens: count syscall:openat:call , syscall:read:call  by comm,filename"
					      " top 7 of duration where error && comm == \"a b\"");

	(void)state;
	assert_string_equal(question.name, "opens");
	assert_int_equal(question.shape, ASK_COUNT);
	assert_int_equal(question.globs, 2);
	assert_string_equal(question.glob[1], "syscall:read:call");
	assert_int_equal(question.bys, 2);
	assert_string_equal(question.by[1], "filename");
	assert_string_equal(question.of, "duration");
	assert_int_equal(question.top, 7);
	assert_string_equal(question.filter, "error && comm == \"a b\"");
	assert_int_equal(question.flags, RT_FLAG_STRINGS);
	ask_question_fini(&question);
}

static void test_what_is_left_out(void **state)
{
	struct ask_question question = parsed("count syscall:openat:call");

	(void)state;
	assert_string_equal(question.name, "ask-3");
	assert_string_equal(question.of, "");
	assert_string_equal(question.filter, "");
	assert_int_equal(question.top, 20);
	assert_int_equal(question.bys + question.flags, 0);
	ask_question_fini(&question);
	question = parsed("summary syscall:*:call by function,container");
	assert_string_equal(question.of, "duration");
	assert_int_equal(question.flags, RT_FLAG_CONTEXT);
	ask_question_fini(&question);
	question = parsed("hist syscall:read:call by fd");
	assert_int_equal(question.flags, RT_FLAG_FDS);
	ask_question_fini(&question);
}

static void test_mistakes_have_a_column(void **state)
{
	static const struct {
		const char *text, *code;
		unsigned column;
	} cases[] = {
		{"", "ask-shape", 1},
		{"cuont syscall:read:call", "ask-shape", 1},
		{"count", "ask-incomplete", 6},
		{"count syscall:reed:call", "unknown-probe", 7},
		{"count syscall:read:call by", "ask-incomplete", 27},
		{"count syscall:read:call by nothing", "ask-field", 28},
		{"count syscall:read:call by comm,comm", "ask-field", 33},
		{"count syscall:read:call by comm,pid,tid,cpu", "ask-field", 41},
		{"count syscall:read:call by a-b", "ask-field", 28},
		{"count syscall:read:call by ask", "ask-field", 28},
		{"count syscall:read:call by le", "ask-field", 28},
		{"count syscall:read:call top 0", "ask-top", 29},
		{"count syscall:read:call top 201", "ask-top", 29},
		{"count syscall:read:call top x", "number-missing", 29},
		{"count syscall:openat:call of filename", "ask-field", 30},
		{"hist syscall:read:call of count", "ask-field", 27},
		{"count syscall:read:call if pid == 1", "ask-rest", 25},
		{"count syscall:read:call where pid ==", "filter", 0},
		{"a-name-that-is-longer-than-32-bytes: count syscall:read:call", "ask-name", 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ask_question question;
		struct error error = {0};

		assert_true(ask_question_parse(cases[i].text, 1, &small_catalog, &question, &error) < 0);
		if (strncmp(error.code, cases[i].code, strlen(cases[i].code)) != 0 ||
		    (cases[i].column && error.column != cases[i].column))
			fail_msg("%s: [%s] %s", cases[i].text, error.code, error.what);
		assert_null(question.text);
	}
}

static void test_names_are_told_apart(void **state)
{
	struct config_words words = {.word = {"a: count syscall:read:call", "a: hist syscall:read:call"}, .count = 2};
	struct error error = {0};

	(void)state;
	assert_int_equal(ask_questions_check(&words, &small_catalog, &error), -EINVAL);
	assert_string_equal(error.what, "ask: two questions are called a");
	words.word[1] = "hist syscall:read:call";
	assert_int_equal(ask_questions_check(&words, &small_catalog, &error), 0);
	words.word[0] = "count syscall:made:up";
	assert_int_equal(ask_questions_check(&words, NULL, &error), 0);
}

static int set_up(void **state)
{
	(void)state;
	small_catalog_get();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_parts),
		cmocka_unit_test(test_what_is_left_out),
		cmocka_unit_test(test_mistakes_have_a_column),
		cmocka_unit_test(test_names_are_told_apart),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
