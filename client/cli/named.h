/*
 * named: questions that have a name, each a command of tracectl: `tracectl opens` asks who opens which files.
 *
 * In: the name. Out: the words that it stands for, as a person could write them behind `tracectl`, and the settings
 * that they make together with what the person adds.
 */
#ifndef RINGTAIL_CLIENT_CLI_NAMED_H
#define RINGTAIL_CLIENT_CLI_NAMED_H

#include <stdio.h>

#include "client/cli/options.h"

#define NAMED_WORDS_MAX	16

struct named {
	const char *name;
	const char *summary;			/* as --help has it */
	const char *words[NAMED_WORDS_MAX];	/* a command's name and its options; NULL ends them */
};

/* NULL: no question has that name. */
const struct named *named_find(const char *name);

/* The i-th, in the order of --help; NULL past the last. */
const struct named *named_at(size_t i);

/* `stream -p 'syscall:open*:call'`: quoted as a shell wants it. */
void named_print(const struct named *named, FILE *to);

/*
 * As options_parse() for `command`, which is what named->words[0] names, with the words of the question before those
 * of the person: an option that can stand once is the person's, filters must both hold. -EINVAL with *error only for
 * the person's words.
 */
int named_parse(const struct named *named, enum option_commands command, const char *operand, int argc, char **argv,
		struct settings *settings, struct ringtail_error *error);

#endif
