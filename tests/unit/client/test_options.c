/* test_options: the command line, each kind of value, each error, and the manual's completeness. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/cli/options.h"

static struct settings settings;
static struct ringtail_error error;

/* Splits at blanks. Settings point to the words until the next call. */
static int parse(enum option_commands command, const char *operand, const char *line)
{
	static char text[2048];
	char *argv[80];
	int argc = 0;

	snprintf(text, sizeof(text), "%s", line);
	memset(&settings, 0, sizeof(settings));
	memset(&error, 0, sizeof(error));
	for (char *word = strtok(text, " "); word && argc < 79; word = strtok(NULL, " "))
		argv[argc++] = word;
	argv[argc] = NULL;
	return options_parse(command, operand, argc, argv, &settings, &error);
}

static void values(void **state)
{
	(void)state;
	assert_int_equal(parse(STREAM, NULL, "stream -p a -p b --probe=c -f x==1 -o json -n 10k "
			       "--duration 1.5s --since S --flags kstack,strings --summary json "
			       "--connect unix:/x --connect unix:/y"), 24);
	assert_int_equal(settings.probe.n, 3);
	assert_string_equal(settings.probe.text[2], "c");
	assert_string_equal(settings.filter, "x==1");
	assert_int_equal(settings.output, FORMAT_JSON);
	assert_int_equal(settings.count, 10000);
	assert_int_equal(settings.duration, 1500000000);
	assert_string_equal(settings.since, "S");
	assert_int_equal(settings.flags, RINGTAIL_KSTACK | RINGTAIL_STRINGS);
	assert_int_equal(settings.summary, SUMMARY_JSON);
	assert_int_equal(settings.connect.n, 2);
	assert_string_equal(settings.connect.text[0], "unix:/x");
	assert_string_equal(settings.connect.text[1], "unix:/y");
	assert_int_equal(parse(ASK, "FILE", "count -c nginx --comm php* -d 2min"), 7);
	assert_int_equal(settings.comm.n, 2);
	assert_string_equal(settings.comm.text[1], "php*");
	assert_int_equal(settings.duration, 120000000000);
	assert_int_equal(parse(READ, "FILE", "read f -o none"), 4);
	assert_string_equal(settings.operand, "f");
	assert_int_equal(settings.output, FORMAT_NONE);
	assert_int_equal(parse(READ, "FILE", "read -"), 2);
	assert_string_equal(settings.operand, "-");
	assert_int_equal(parse(RECORD, NULL, "record -w f"), 3);
	assert_string_equal(settings.write, "f");
	assert_int_equal(parse(STAT, NULL, "stat -w -i 100ms"), 4);
	assert_true(settings.watch);
	/* A command to run keeps its own options. */
	assert_int_equal(parse(ASK, "FILE", "count --pid 3 --pid 4 -- ls -p -- x"), 5);
	assert_int_equal(settings.pid.n, 2);
	assert_int_equal(settings.probe.n, 0);
	assert_null(settings.operand);
	assert_string_equal(settings.command[0], "ls");
	assert_string_equal(settings.command[2], "--");
	assert_string_equal(settings.command[3], "x");
	assert_null(settings.command[4]);
	parse(STREAM, NULL, "stream --tree 1 --");
	assert_null(settings.command);
	/* Before the command: stop at its name. */
	assert_int_equal(parse(NONE, NULL, "tracectl --summary text stream -n 5"), 3);
	assert_int_equal(settings.summary, SUMMARY_TEXT);
	assert_int_equal(parse(NONE, NULL, "tracectl --version"), 2);
	assert_true(settings.version);
}

static void errors(void **state)
{
	static const struct {
		enum option_commands command;
		const char *operand, *line, *code, *says;
	} cases[] = {
		{ STREAM, NULL, "stream --prob x --bad", "unknown-option", "--bad" },
		{ STREAM, NULL, "stream --fliter x", "unknown-option", "did you mean `--filter`" },
		{ STREAM, NULL, "stream --zzzzzzzz", "unknown-option", "no option --zzzzzzzz" },
		{ STREAM, NULL, "stream -z", "unknown-option", "-z" },
		{ STREAM, NULL, "stream -w x", "unknown-option", "-w" },
		{ NONE, NULL, "tracectl --conect x", "unknown-option", "did you mean `--connect`" },
		{ NONE, NULL, "tracectl -n 5", "unknown-option", "-n" },
		{ NONE, NULL, "tracectl --connect", "no-value", "--connect" },
		{ STREAM, NULL, "stream -p", "no-value", "-p" },
		{ STREAM, NULL, "stream -n x", "bad-value", "number" },
		{ STREAM, NULL, "stream -n 0", "bad-value", "at least 1" },
		{ STREAM, NULL, "stream -n 99999999999G", "bad-value", "too large" },
		{ STREAM, NULL, "stream --duration 5parsec", "bad-value", "10s" },
		{ STREAM, NULL, "stream --duration 0s", "bad-value", "above 0" },
		{ STREAM, NULL, "stream -o xml", "bad-value", "folded, csv, pprof, perfetto or kptrace" },
		{ STREAM, NULL, "stream -o sqlite", "bad-value", "tracectl read FILE -o sqlite" },
		{ READ, "FILE", "read -o xml", "bad-value", "sqlite or ctf" },
		{ LIST, "GLOB", "list -o none", "bad-value", "text or json" },
		{ STREAM, NULL, "stream --flags kstck", "bad-value", "kstack" },
		{ STREAM, NULL, "stream --flags kstack,", "bad-value", "strings" },
		{ STREAM, NULL, "stream --flags nothinglikethisatall", "bad-value", "ustack" },
		{ STREAM, NULL, "stream --summary yaml", "bad-value", "text or json" },
		{ STREAM, NULL, "stream --color sometimes", "bad-value", "auto, always or never" },
		{ STREAM, NULL, "stream word", "too-many-words", "'word'" },
		{ READ, "FILE", "read a b", "too-many-words", "'b'" },
	};
	char line[1024] = "stream";

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		assert_int_equal(parse(cases[i].command, cases[i].operand, cases[i].line), -EINVAL);
		assert_string_equal(error.code, cases[i].code);
		if (!strstr(error.what, cases[i].says) && !strstr(error.hint, cases[i].says))
			fail_msg("'%s' says '%s' and '%s'", cases[i].line, error.what, error.hint);
	}
	for (unsigned i = 0; i <= SUBSCRIBE_PROBES_MAX; i++)
		strcat(line, " -px");
	assert_int_equal(parse(STREAM, NULL, line), -EINVAL);
	assert_non_null(strstr(error.what, "one too many"));
}

static void help(void **state)
{
	char *text;
	size_t bytes;
	FILE *to = open_memstream(&text, &bytes);

	(void)state;
	options_print_help(to, RECORD);
	fclose(to);
	assert_non_null(strstr(text, "-w, --write FILE"));
	assert_non_null(strstr(text, "--since WHEN"));
	assert_null(strstr(text, "--watch"));
	free(text);
}

/* Every row of the table is in the manual. */
static void manual(void **state)
{
	FILE *file = fopen("docs/tracectl.1", "re");
	char letter, wanted[80], *page;
	const char *name, *argument;
	size_t bytes;

	(void)state;
	assert_non_null(file);		/* tests run from the repo's root */
	page = calloc(1, 1 << 17);
	bytes = fread(page, 1, (1 << 17) - 1, file);
	assert_true(bytes > 0 && bytes < (1 << 17) - 1);
	fclose(file);
	for (size_t i = 0; options_row(i, &letter, &name, &argument); i++) {
		if (letter)
			snprintf(wanted, sizeof(wanted), "Fl %c , -%s", letter, name);
		else
			snprintf(wanted, sizeof(wanted), "Fl -%s", name);
		if (!strstr(page, wanted))
			fail_msg("docs/tracectl.1 lacks '%s'", wanted);
	}
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values), cmocka_unit_test(errors), cmocka_unit_test(help),
		cmocka_unit_test(manual),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
