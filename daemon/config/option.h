/*
 * config_option: the rows of options.def as a table, and what is printed from it.
 *
 * Private to config*.c and their tests. Constant; any thread.
 */
#ifndef RINGTAIL_DAEMON_CONFIG_OPTION_H
#define RINGTAIL_DAEMON_CONFIG_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/config/config.h"
#include "query/error.h"

enum config_kind {
	CONFIG_FLAG,
	CONFIG_COUNT,
	CONFIG_BYTES,
	CONFIG_POWER2,
	CONFIG_DURATION,
	CONFIG_CHOICE,
	CONFIG_TEXT,
	CONFIG_SOURCE,
	CONFIG_LISTEN,
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

#endif
