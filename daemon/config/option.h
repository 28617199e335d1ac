/*
 * config_option: the rows of options.def as a table, their values from text to the member of struct config
 * and back, and what is printed of them.
 *
 * Private to config.c and its tests. The table is constant; values are the main thread's.
 */
#ifndef RINGTAIL_DAEMON_CONFIG_OPTION_H
#define RINGTAIL_DAEMON_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "daemon/config/config.h"
#include "query/error.h"

enum config_kind {
	CONFIG_FLAG,
	CONFIG_COUNT,
	CONFIG_BYTES,
	CONFIG_POWER2,
	CONFIG_DURATION,
	CONFIG_RATE,		/* bytes in a second, as `2MiB/s`; 0: no bound, whatever the least is */
	CONFIG_CHOICE,
	CONFIG_TEXT,
	CONFIG_SOURCE,
	CONFIG_LISTEN,
	CONFIG_LISTEN_TLS,
	CONFIG_HTTP,
	CONFIG_WORDS,
};

enum config_place {
	CONFIG_ANYWHERE,
	CONFIG_FLAG_ONLY,
};

/* One row of options.def. */
struct config_option {
	const char *name;
	enum config_kind kind;
	enum config_place place;
	const char *def;		/* as text; NULL: none */
	uint64_t min, max;		/* of a number's value, a text's length */
	const char *argument;		/* for --help; a choice's list; NULL: a flag takes none */
	const char *help;
	size_t offset;			/* of the member */
};

enum {
#define OPTION(member, name, kind, place, def, min, max, argument, help) OPTION_##member,
#include "daemon/config/options.def"
#undef OPTION
	OPTIONS
};

extern const struct config_option config_options[OPTIONS];

/* The row of that name, or -1. */
int config_option_find(const char *name);

/* -EINVAL: there is no such flag (without its dashes), or key; *error names the nearest. */
int config_option_refuse(const char *name, bool flag, struct error *error);

/*
 * Sets the option's member of *config, or appends to it if it is a list. -EINVAL (or -ENOMEM) with
 * an *error that names the value, not the place it was found in.
 */
int config_value_set(const struct config_option *option, struct config *config, const char *text,
		     struct error *error);

/* Frees what the member holds and empties it. */
void config_value_clear(const struct config_option *option, struct config *config);

/* Writes the `name = value` lines that make this value; none where it is empty. */
void config_value_print(const struct config_option *option, const struct config *config,
			FILE *out);

/* Whether the option may be given more than once. */
bool config_value_repeats(const struct config_option *option);

#endif
