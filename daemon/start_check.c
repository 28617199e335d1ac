#include "daemon/start_check.h"

#include "daemon/config/config.h"
#include "daemon/export/choose.h"
#include "daemon/export/target.h"
#include "query/filter.h"

static int check_exports(const struct config *config, const struct account *account,
			 struct error *error)
{
	char filter[FILTER_BYTES_MAX + 1];
	struct export_targets targets;
	int err = export_targets_read(config, account, &targets, error);

	if (err)
		return err;
	export_targets_free(&targets);
	err = config_check_choice(&config->export_probe, "export-probe", config->export_filter,
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
		err = config_check_choice(&config->probe, "probe", config->filter, "filter", NULL,
					  error);
	if (!err)
		err = config_check_choice(&config->metrics_probe, "metrics-probe", NULL, NULL, NULL,
					  error);
	return err;
}
