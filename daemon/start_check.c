#include "daemon/start_check.h"

#include <stdio.h>

#include "daemon/export/choose.h"
#include "daemon/export/target.h"
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

int start_check_choice(const struct config_words *globs, const char *globs_option,
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

static int check_exports(const struct config *config, const struct account *account,
			 struct error *error)
{
	char filter[FILTER_BYTES_MAX + 1];
	struct export_targets targets;
	int err = export_targets_read(config, account, &targets, error);

	if (err)
		return err;
	export_targets_free(&targets);
	err = start_check_choice(&config->export_probe, "export-probe", config->export_filter,
				 "export-filter", NULL, error);
	return err ? err : export_choose_request(config, filter, error);
}

int start_check(const struct config *config, struct error *error)
{
	struct account account;
	int err = privileges_find(config->user, &account, error);

	if (!err)
		err = check_exports(config, &account, error);
	if (!err)
		err = start_check_choice(&config->probe, "probe", config->filter, "filter", NULL,
					 error);
	if (!err)
		err = start_check_choice(&config->metrics_probe, "metrics-probe", NULL, NULL, NULL,
					 error);
	return err;
}
