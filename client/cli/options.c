#include "client/cli/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/cli/units.h"
#include "query/nearest.h"

enum kind { TEXT, TEXTS, COUNT, DURATION, FLAGS, FORMAT, SUMMARY, COLOR, TIME_COLUMN, SWITCH };

static const struct row {
	char letter;
	const char *name;
	const char *argument;
	enum kind kind;
	unsigned commands;
	size_t member;
	const char *help;
} rows[] = {
#define OPTION(member, letter, name, argument, KIND, commands, help) \
	{ letter, name, argument, KIND, commands, offsetof(struct settings, member), help },
#include "client/cli/options.def"
#undef OPTION
};

#define ROWS (sizeof(rows) / sizeof(*rows))

/* Before the command's name go the options that every command has, and those that none has. */
static bool applies(const struct row *row, enum option_commands command)
{
	return command == NONE ? row->commands == EVERY || row->commands == NONE :
	       (row->commands & command) != 0;
}

/* ---- Values --------------------------------------------------------------------------------- */

static int bad_value(struct ringtail_error *error, const struct row *row, const char *text,
		     const char *wanted)
{
	return failure_set(error, EINVAL, "bad-value", "--%s %s: %s", row->name, text, wanted);
}

static int parse_choice(const char *text, const char *const *choice, size_t choices)
{
	for (size_t i = 0; i < choices; i++)
		if (!strcmp(text, choice[i]))
			return (int)i;
	return -1;
}

static int parse_flags(const struct row *row, const char *text, unsigned *flags,
		       struct ringtail_error *error)
{
	static const char *const name[] = { "kstack", "ustack", "strings", "context", "fds",
					    "data" };
	static const unsigned flag[] = { RINGTAIL_KSTACK, RINGTAIL_USTACK, RINGTAIL_STRINGS,
					 RINGTAIL_CONTEXT, RINGTAIL_FDS, RINGTAIL_DATA };
	const unsigned names = sizeof(name) / sizeof(*name);
	const char *at = text;

	if (strcmp(text, "none") == 0) {
		*flags = 0;		/* also those of a question that has a name */
		return 0;
	}
	do {
		size_t bytes = strcspn(at, ",");
		char word[16];
		int i;

		snprintf(word, sizeof(word), "%.*s", (int)(bytes < 15 ? bytes : 15), at);
		i = parse_choice(word, name, names);
		if (i < 0) {
			char near[NEAREST_TEXT_BYTES];
			struct nearest nearest;
			int err = bad_value(error, row, text,
					    "may be kstack, ustack, strings, context, fds and data, with "
					    "commas between, or none");

			nearest_init(&nearest, word);
			for (i = 0; i < (int)names; i++)
				nearest_offer(&nearest, name[i]);
			if (nearest_text(&nearest, near))
				failure_hint(error, "did you mean %s by '%s'?", near, word);
			return err;
		}
		*flags |= flag[i];
		at += bytes;
	} while (*at++ == ',');
	return 0;
}

/* Only where there may be too many of them is it worth something to see none. */
static bool shows_events(enum option_commands command)
{
	return command & (STREAM | RECORD | READ);
}

static int parse_format(const struct row *row, enum option_commands command, const char *text,
			enum format *format, struct ringtail_error *error)
{
	static const struct {
		const char *name;
		enum option_commands commands;
	} known[] = {
		[FORMAT_TEXT] = { "text", EVERY },
		[FORMAT_JSON] = { "json", EVERY },
		[FORMAT_NONE] = { "none", STREAM | RECORD | READ },
		[FORMAT_FOLDED] = { "folded", STREAM | RECORD | READ },
		[FORMAT_CSV] = { "csv", STREAM | RECORD | READ },
		[FORMAT_PPROF] = { "pprof", STREAM | RECORD | READ },
		[FORMAT_PERFETTO] = { "perfetto", STREAM | RECORD | READ },
		[FORMAT_KPTRACE] = { "kptrace", STREAM | RECORD | READ },
		[FORMAT_SQLITE] = { "sqlite", READ },
		[FORMAT_CTF] = { "ctf", READ },
	};
	const size_t formats = sizeof(known) / sizeof(*known);
	const char *last = NULL;
	char wanted[128] = "may be ";

	for (size_t i = FORMAT_TEXT; i < formats; i++) {
		if (!(known[i].commands & command))
			continue;
		if (!strcmp(text, known[i].name)) {
			*format = (enum format)i;
			return 0;
		}
		if (last)
			snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), "%s%s",
				 wanted[sizeof("may be ") - 1] ? ", " : "", last);
		last = known[i].name;
	}
	snprintf(wanted + strlen(wanted), sizeof(wanted) - strlen(wanted), " or %s", last);
	bad_value(error, row, text, wanted);
	for (size_t i = FORMAT_TEXT; i < formats; i++)
		if (known[i].commands == READ && !strcmp(text, known[i].name))
			failure_hint(error, "of a recording: tracectl read FILE -o %s -w OUTPUT", text);
	return -EINVAL;
}

static int parse_number(const struct row *row, const char *text, uint64_t *number,
			struct ringtail_error *error)
{
	int err = row->kind == COUNT ? units_parse_count(text, number) :
		  units_parse_duration(text, number);

	if (!err && *number)
		return 0;
	if (err == -ERANGE)
		return bad_value(error, row, text, "is too large");
	return bad_value(error, row, text, row->kind == COUNT ?
			 "is a whole number of at least 1, as 1000 or 1.5k" :
			 "is a time above 0, as 10s, 500ms, 2min or 1h");
}

static int set(const struct row *row, enum option_commands command, const char *text,
	       struct settings *settings, struct ringtail_error *error)
{
	void *member = (char *)settings + row->member;
	struct texts *texts = member;
	int i;

	switch (row->kind) {
	case TEXT:
		*(const char **)member = text;
		return 0;
	case TEXTS:
		if (texts->n == SUBSCRIBE_PROBES_MAX)
			return bad_value(error, row, text, strcmp(row->argument, "SPEC") ?
					 "is one too many" : "is one too many; use globs");
		texts->text[texts->n++] = text;
		return 0;
	case COUNT:
	case DURATION:
		return parse_number(row, text, member, error);
	case FLAGS:
		settings->flags_given = true;
		return parse_flags(row, text, member, error);
	case FORMAT:
		return parse_format(row, command, text, member, error);
	case SUMMARY:
		i = parse_choice(text, (const char *const[]){ "text", "json" }, 2);
		if (i < 0)
			return bad_value(error, row, text, "may be text or json");
		*(enum summary *)member = (enum summary)(SUMMARY_TEXT + i);
		return 0;
	case COLOR:
		i = parse_choice(text, (const char *const[]){ "auto", "always", "never" }, 3);
		if (i < 0)
			return bad_value(error, row, text, "may be auto, always or never");
		*(enum color *)member = (enum color)i;
		return 0;
	case TIME_COLUMN:
		i = parse_choice(text, (const char *const[]){ "absolute", "utc", "relative", "delta" }, 4);
		if (i < 0)
			return bad_value(error, row, text, "may be absolute, utc, relative or delta");
		*(enum time_column *)member = (enum time_column)i;
		return 0;
	case SWITCH:
		*(bool *)member = true;
		return 0;
	}
	return 0;
}

/* ---- A command behind -- ---------------------------------------------------------------------- */

/* What of argv is before `--`; what is behind it is a command, where one may be. */
static int take_command(enum option_commands command, int argc, char **argv, struct settings *settings)
{
	for (int i = 1; i < argc && command & (STREAM | RECORD | ASK); i++)
		if (!strcmp(argv[i], "--")) {
			settings->command = i + 1 < argc ? argv + i + 1 : NULL;
			return i;
		}
	return argc;
}

/* ---- Flags ---------------------------------------------------------------------------------- */

/* What getopt_long() is to look for. Long options bring their row's number + LONG_BASE. */
#define LONG_BASE 256

static void make_tables(enum option_commands command, char *letters, struct option *longs)
{
	/* '+': stop at the first word, the command's name; ':': tell a missing value apart. */
	*letters++ = command == NONE ? '+' : ':';
	if (command == NONE)
		*letters++ = ':';
	for (size_t i = 0; i < ROWS; i++) {
		if (!applies(&rows[i], command))
			continue;
		if (rows[i].letter) {
			*letters++ = rows[i].letter;
			if (rows[i].argument)
				*letters++ = ':';
		}
		*longs++ = (struct option){
			.name = rows[i].name,
			.has_arg = rows[i].argument ? required_argument : no_argument,
			.val = LONG_BASE + (int)i,
		};
	}
	*letters = '\0';
	*longs = (struct option){ 0 };
}

static const struct row *find_row(enum option_commands command, int found)
{
	if (found >= LONG_BASE)
		return &rows[found - LONG_BASE];
	for (size_t i = 0; i < ROWS; i++)
		if (rows[i].letter == found && applies(&rows[i], command))
			return &rows[i];
	return NULL;
}

static int unknown_option(enum option_commands command, const char *word,
			  struct ringtail_error *error)
{
	char bare[64], near[NEAREST_TEXT_BYTES];
	struct nearest nearest;
	int err;

	if (optopt && optopt < LONG_BASE) {
		err = failure_set(error, EINVAL, "unknown-option", "there is no option -%c",
				  optopt);
		return err;
	}
	snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(word + 2, "="), word + 2);
	nearest_init(&nearest, bare);
	for (size_t i = 0; i < ROWS; i++) {
		char whole[NEAREST_NAME_BYTES];

		snprintf(whole, sizeof(whole), "--%s", rows[i].name);
		if (applies(&rows[i], command))
			nearest_offer_as(&nearest, rows[i].name, whole);
	}
	err = failure_set(error, EINVAL, "unknown-option", "there is no option --%s here", bare);
	if (nearest_text(&nearest, near))
		failure_hint(error, "did you mean %s?", near);
	return err;
}

int options_parse(enum option_commands command, const char *operand, int argc, char **argv,
		  struct settings *settings, struct ringtail_error *error)
{
	struct option longs[ROWS + 1];
	char letters[2 * ROWS + 3];
	bool several = operand && strstr(operand, "...");
	int found;

	argc = take_command(command, argc, argv, settings);
	make_tables(command, letters, longs);
	opterr = 0;
	optind = 0;		/* GNU: begin anew */
	for (;;) {
		int at = optind ? optind : 1;
		const struct row *row;
		int err;

		found = getopt_long(argc, argv, letters, longs, NULL);
		if (found == -1)
			break;
		if (found == '?')
			return unknown_option(command, argv[optind > at ? optind - 1 : at], error);
		if (found == ':')
			return failure_set(error, EINVAL, "no-value", "%s wants a value",
					   argv[optind - 1]);
		row = find_row(command, found);
		err = set(row, command, optarg, settings, error);
		if (err)
			return err;
	}
	if (command == NONE)
		return optind;
	while (several && optind < argc && settings->operands.n < SUBSCRIBE_PROBES_MAX)
		settings->operands.text[settings->operands.n++] = argv[optind++];
	if (operand && !several && optind < argc)
		settings->operand = argv[optind++];
	if (optind < argc)
		return failure_set(error, EINVAL, "too-many-words", several ?
				   "%s: there are too many, '%s' is one of them" : operand ?
				   "one %s at most, '%s' is another" : "%s'%s' has no place here",
				   operand ? operand : "", argv[optind]);
	return optind;
}

void options_print_help(FILE *to, enum option_commands command)
{
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *row = &rows[i];
		char left[64], letter[8] = "    ";

		if (!applies(row, command))
			continue;
		if (row->letter)
			snprintf(letter, sizeof(letter), "-%c, ", row->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, row->name,
			 row->argument ? " " : "", row->argument ? row->argument : "");
		fprintf(to, "  %-27s %s%s\n", left, row->help,
			row->kind == FORMAT && shows_events(command) ? "; or none" : "");
	}
}

bool options_row(size_t i, char *letter, const char **name, const char **argument)
{
	if (i >= ROWS)
		return false;
	*letter = rows[i].letter;
	*name = rows[i].name;
	*argument = rows[i].argument;
	return true;
}
