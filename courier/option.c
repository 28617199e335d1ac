#include "courier/option.h"

#include <errno.h>
#include <getopt.h>

#include "client/lib/failure.h"
#include "query/quantity.h"

int option_refuse(struct ringtail_error *error, const char *name, const char *text, const char *why)
{
	failure_set(error, EINVAL, "usage", "--%s '%.100s' %s", name, text, why);
	failure_hint(error, "--help lists the options");
	return -EINVAL;
}

static int set(const struct option_row *row, const char *text, void *options, struct ringtail_error *error)
{
	void *member = (char *)options + row->member;
	struct option_texts *texts = member;
	struct error why;

	switch (row->kind) {
	case TEXT:
		*(const char **)member = text;
		return 0;
	case TEXTS:
		if (texts->n == SUBSCRIBE_PROBES_MAX)
			return option_refuse(error, row->name, text, "is one too many; use globs");
		texts->text[texts->n++] = text;
		return 0;
	case BYTES:
	case COUNT:
		return quantity_parse(text, row->kind == BYTES ? QUANTITY_BYTES : QUANTITY_COUNT, member, &why) ?
			       option_refuse(error, row->name, text, why.what) : 0;
	case SWITCH:
		*(bool *)member = true;
		return 0;
	}
	return 0;
}

int option_parse(const struct option_row *rows, size_t count, int argc, char **argv, void *options,
		 struct ringtail_error *error)
{
	struct option longs[OPTIONS_MAX + 1] = { 0 };
	int found, i = 0, err;

	for (size_t row = 0; row < count && row < OPTIONS_MAX; row++)
		longs[row] = (struct option){ rows[row].name, rows[row].argument ? required_argument : no_argument,
					      NULL, 'a' };
	optind = 0;
	opterr = 0;
	while ((found = getopt_long(argc, argv, ":", longs, &i)) != -1) {
		if (found != 'a')
			return failure_set(error, EINVAL, "usage", "%.100s %s", argv[optind - 1], found == ':' ?
					   "wants a value" : "is no option; --help lists them");
		err = set(&rows[i], optarg, options, error);
		if (err)
			return err;
	}
	if (optind < argc)
		return failure_set(error, EINVAL, "usage", "'%.100s' is no option; --help lists them", argv[optind]);
	return 0;
}

void option_help(const struct option_row *rows, size_t count, FILE *to)
{
	for (size_t i = 0; i < count; i++) {
		char name[64];

		snprintf(name, sizeof(name), "--%s%s%s", rows[i].name, rows[i].argument ? " " : "",
			 rows[i].argument ? rows[i].argument : "");
		fprintf(to, "  %-28s %s\n", name, rows[i].help);
	}
}
