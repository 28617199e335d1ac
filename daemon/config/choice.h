/*
 * choice: the probes and the filter that an option names. In: the words of the configuration; out: whether
 * they are written as such, and with a catalog, whether they are there. Any thread.
 */
#ifndef RINGTAIL_DAEMON_CONFIG_CHOICE_H
#define RINGTAIL_DAEMON_CONFIG_CHOICE_H

#include "daemon/config/config.h"
#include "query/error.h"
#include "proto/ringtail.pb-c.h"

/*
 * The probes and the filter of one option each: "export-probe", "export-filter". With a catalog they
 * have to be in it. filter: NULL for none.
 */
int config_check_choice(const struct config_words *globs, const char *globs_option,
			const char *filter, const char *filter_option,
			const Ringtail__V1__Catalog *catalog, struct error *error);

#endif
