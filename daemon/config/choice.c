#include "daemon/config/choice.h"

#include <stdio.h>

#include "query/filter.h"
#include "query/probe_set.h"

/* Puts the option in front of what is wrong with its text. */
static int of_option(const char *option, int err, struct error *error)
{
	char what[ERROR_TEXT_BYTES];

	snprintf(what, sizeof(what), "%s: %.400s", option, error->what);
	snprintf(error->what, sizeof(error->what), "%s", what);
	return err;
}

static int check_globs(const struct config_words *globs, const Ringtail__V1__Catalog *catalog,
		       struct error *error)
{
	int err = 0;

	for (unsigned i = 0; !err && i < globs->count; i++) {
		struct probe_set set = {0};

		err = catalog ? probe_set_add_glob(&set, globs->word[i], catalog, error) :
				probe_set_check_glob(globs->word[i], error);
	}
	return err;
}

int config_check_choice(const struct config_words *globs, const char *globs_option,
		       const char *filter, const char *filter_option,
		       const Ringtail__V1__Catalog *catalog, struct error *error)
{
	int err = check_globs(globs, catalog, error);
	struct filter *compiled;

	if (err)
		return of_option(globs_option, err, error);
	err = filter ? filter_compile(filter, catalog, &compiled, error) : 0;
	if (err)
		return of_option(filter_option, err, error);
	if (filter)
		filter_destroy(compiled);
	return 0;
}
