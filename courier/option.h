/*
 * option: a command line by a table of OPTION(member, name, argument, KIND, help). One row makes the flag, the
 * member of a struct, and the line of --help. KIND is TEXT, TEXTS (repeatable), BYTES, COUNT or SWITCH.
 */
#ifndef RINGTAIL_COURIER_OPTION_H
#define RINGTAIL_COURIER_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/lib/ringtail.h"
#include "proto/limits.h"

#define OPTIONS_MAX 64u

struct option_texts {
	size_t n;
	const char *text[SUBSCRIBE_PROBES_MAX];
};

#define OPTION_TEXT const char *
#define OPTION_TEXTS struct option_texts
#define OPTION_BYTES uint64_t
#define OPTION_COUNT uint64_t
#define OPTION_SWITCH bool

struct option_row {
	const char *name, *argument;
	enum option_kind { TEXT, TEXTS, BYTES, COUNT, SWITCH } kind;
	size_t member;			/* its offset */
	const char *help;
};

/* Into `options`, which is zeros before, and keeps pointers to argv. -EINVAL with *error: usage. */
int option_parse(const struct option_row *rows, size_t count, int argc, char **argv, void *options,
		 struct ringtail_error *error);
void option_help(const struct option_row *rows, size_t count, FILE *to);

/* "--NAME 'TEXT' WHY" */
int option_refuse(struct ringtail_error *error, const char *name, const char *text, const char *why);

#endif
