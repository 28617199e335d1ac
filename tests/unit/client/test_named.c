/* test_named: each question that has a name is one that its command takes, and what a person adds is added. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/cli/named.h"
#include "query/filter.h"

static struct settings settings;
static struct ringtail_error error;

static enum option_commands bit_of(const struct named *named)
{
	return strcmp(named->words[0], "stream") ? ASK : STREAM;
}

/* Splits at blanks. Settings point to the words until the next call. */
static int parse(const char *name, enum option_commands command, const char *operand, const char *line)
{
	static char text[256];
	char *argv[16];
	int argc = 0;

	snprintf(text, sizeof(text), "%s", line);
	memset(&settings, 0, sizeof(settings));
	memset(&error, 0, sizeof(error));
	for (char *word = strtok(text, " "); word && argc < 15; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	return named_parse(named_find(name), command, operand, argc, argv, &settings, &error);
}

static void each_is_a_question(void **state)
{
	struct filter *filter;
	struct error why;

	(void)state;
	for (size_t i = 0; named_at(i); i++) {
		const struct named *named = named_at(i);

		assert_ptr_equal(named_find(named->name), named);	/* one of each name */
		assert_true(strlen(named->name) < 30 && strlen(named->summary) < 60);
		assert_true(named->words[0] && !named->words[NAMED_WORDS_MAX - 1]);
		assert_int_equal(parse(named->name, bit_of(named), NULL, named->name), 1);
		assert_null(settings.filter);
		if (!settings.question)
			continue;
		assert_int_equal(filter_compile(settings.question, NULL, &filter, &why), 0);
		filter_destroy(filter);
	}
	assert_null(named_find("stream"));
	assert_null(named_find(""));
}

static void a_person_adds(void **state)
{
	(void)state;
	assert_true(parse("missing", ASK, "FILE", "missing -c nginx -f pid>3 --top 3 -p syscall:stat:call -d 10s") > 0);
	assert_string_equal(settings.question, "error == ENOENT");
	assert_string_equal(settings.filter, "pid>3");
	assert_int_equal(settings.comm.n, 1);
	assert_int_equal(settings.top, 3);
	assert_int_equal(settings.probe.n, 2);
	assert_int_equal(settings.duration, 10000000000);
	assert_string_equal(settings.by, "comm,path");
	assert_true(parse("missing", ASK, "FILE", "missing a.rt --by pid") > 0);
	assert_string_equal(settings.operand, "a.rt");
	assert_string_equal(settings.by, "pid");
	assert_true(parse("opens", STREAM, NULL, "opens") > 0);
	assert_int_equal(settings.flags, RINGTAIL_STRINGS);
	assert_true(parse("opens", STREAM, NULL, "opens --flags none") > 0);
	assert_int_equal(settings.flags, 0);
	assert_true(settings.flags_given);
	assert_true(parse("opens", STREAM, NULL, "opens -- ls -l") > 0);
	assert_string_equal(settings.command[0], "ls");
	/* Of a file: what is asked for chooses there, too. */
	assert_int_equal(parse("exits", STREAM, NULL, "exits a.rt"), -EINVAL);
	assert_string_equal(error.code, "too-many-words");
	assert_true(parse("exits", READ, "FILE", "exits a.rt") > 0);
	assert_string_equal(settings.operand, "a.rt");
	assert_string_equal(settings.question, "group_dead == 1 && exit_code != 0");
	assert_string_equal(settings.probe.text[0], "sched_process_exit");
	assert_int_equal(parse("exits", READ, "FILE", "exits a.rt -d 10s"), -EINVAL);
	assert_string_equal(error.code, "unknown-option");
}

static void as_a_shell_reads_it(void **state)
{
	size_t bytes;
	char *text;
	FILE *to = open_memstream(&text, &bytes);

	(void)state;
	named_print(named_find("missing"), to);
	fclose(to);
	assert_string_equal(text, "count -p 'syscall:open*:call' -f 'error == ENOENT' --by comm,path --top 50");
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_a_question), cmocka_unit_test(a_person_adds),
		cmocka_unit_test(as_a_shell_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
