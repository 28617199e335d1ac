/*
 * options: the command line, as the rows of options.def say.
 *
 * In: argv. Out: struct settings, or one message that names what is wrong and what is nearest.
 */
#ifndef RINGTAIL_CLIENT_CLI_OPTIONS_H
#define RINGTAIL_CLIENT_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/cli/pump.h"
#include "client/lib/ringtail.h"
#include "proto/limits.h"

enum option_commands {
	NONE	= 0,
	LIST	= 1 << 0,
	STREAM	= 1 << 1,
	RECORD	= 1 << 2,
	READ	= 1 << 3,
	STAT	= 1 << 4,
	DOCTOR	= 1 << 5,
	FORGET	= 1 << 6,
	PROBES	= 1 << 7,
	ENABLE	= 1 << 8,
	DISABLE	= 1 << 9,
	TOKEN	= 1 << 10,
	ASK	= 1 << 11,	/* count, hist, summary */
	STUCK	= 1 << 12,
	DUMP	= 1 << 13,
	TOP	= 1 << 14,
	DUMPS	= 1 << 15,
	EVERY	= LIST | STREAM | RECORD | READ | STAT | DOCTOR | FORGET | PROBES | ENABLE | DISABLE |
		  TOKEN | ASK | STUCK | DUMP | TOP | DUMPS,
};

enum format {
	FORMAT_DEFAULT,
	FORMAT_TEXT,
	FORMAT_JSON,
	FORMAT_NONE,
	FORMAT_FOLDED,
	FORMAT_CSV,
	FORMAT_PPROF,
	FORMAT_PERFETTO,
	FORMAT_KPTRACE,
	FORMAT_SQLITE,
	FORMAT_CTF,
};

enum color {
	COLOR_AUTO,
	COLOR_ALWAYS,
	COLOR_NEVER,
};

/* What the first column of text is. */
enum time_column {
	TIMES_LOCAL,
	TIMES_UTC,
	TIMES_RELATIVE,
	TIMES_DELTA,
};

struct texts {
	size_t n;
	const char *text[SUBSCRIBE_PROBES_MAX];
};

/* A kind of option: the C type of its member. */
typedef const char *option_TEXT;
typedef struct texts option_TEXTS;
typedef uint64_t option_COUNT;
typedef uint64_t option_DURATION;	/* ns */
typedef unsigned option_FLAGS;		/* RINGTAIL_KSTACK, ... */
typedef enum format option_FORMAT;
typedef enum summary option_SUMMARY;
typedef enum color option_COLOR;
typedef enum time_column option_TIME_COLUMN;
typedef bool option_SWITCH;

struct settings {
#define OPTION(member, letter, name, argument, KIND, commands, help) option_##KIND member;
#include "client/cli/options.def"
#undef OPTION
	bool flags_given;		/* --flags, perhaps `none` */
	const char *question;		/* the filter of a question that has a name; NULL: none */
	const char *operand;		/* the FILE or GLOB after the options; NULL: none */
	struct texts operands;		/* where several may follow */
	char *const *command;		/* what follows `--`, NULL-terminated; NULL: nothing */
};

/*
 * Takes the options that `command` knows from argv[1] on; for NONE (before the command's name) it
 * stops at the first word that is none. `operand`: what the command calls the one word that may
 * follow, "WORD..." if several may, NULL if none may. Returns the index in argv of the first word not
 * taken, or -EINVAL with *error. What follows `--` is a command to run, for commands that follow events.
 */
int options_parse(enum option_commands command, const char *operand, int argc, char **argv,
		  struct settings *settings, struct ringtail_error *error);

/* The lines of --help about the command's options. */
void options_print_help(FILE *to, enum option_commands command);

/* One row, for tests and the manual. False past the last. */
bool options_row(size_t i, char *letter, const char **name, const char **argument);

#endif
