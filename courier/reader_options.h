/*
 * reader_options: the command line of ringtail-kafka; the table is reader_options.def. In: argv, and the variables
 * RINGTAIL_KAFKA_CA, _CERT, _KEY, _SASL, _SASL_USER and _SASL_PASSWORD_FILE, for who runs it through tracectl.
 * Out: settings.
 */
#ifndef RINGTAIL_COURIER_READER_OPTIONS_H
#define RINGTAIL_COURIER_READER_OPTIONS_H

#include "courier/kafka.h"
#include "courier/option.h"

#define SOURCE_BYTES_MAX 2048u

struct reader_options {
#define OPTION(member, name, argument, KIND, help) OPTION_##KIND member;
#include "courier/reader_options.def"
#undef OPTION
	bool ledger, json;
	char parts[SOURCE_BYTES_MAX];	/* of --source */
	struct kafka_settings kafka;
};

/* -EINVAL with *error: usage. `options` is zeros before. */
int reader_options_parse(int argc, char **argv, struct reader_options *options, struct ringtail_error *error);
void reader_options_help(FILE *to);

#endif
