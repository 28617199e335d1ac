/*
 * courier_options: the command line of ringtail-courier; the table is courier_options.def. In: argv. Out: settings.
 */
#ifndef RINGTAIL_COURIER_COURIER_OPTIONS_H
#define RINGTAIL_COURIER_COURIER_OPTIONS_H

#include "courier/courier.h"
#include "courier/option.h"

struct courier_options {
#define OPTION(member, name, argument, KIND, help) OPTION_##KIND member;
#include "courier/courier_options.def"
#undef OPTION
	struct courier_settings settings;	/* made of those; points into them */
};

/* -EINVAL with *error: usage. `options` is zeros before. */
int courier_options_parse(int argc, char **argv, struct courier_options *options, struct ringtail_error *error);
void courier_options_help(FILE *to);

#endif
