/*
 * start_check: what a start would find out from the configuration alone, before it has a source to
 * ask: whom to become, where to export to and what goes along, that files which are named can be
 * read, and that filters and probes are written as such. Whether a probe is there, or an argument
 * of that name, the kernel alone knows: that is told at a start.
 *
 * For --check-config. Opens files, changes nothing. Main thread.
 */
#ifndef RINGTAIL_DAEMON_START_CHECK_H
#define RINGTAIL_DAEMON_START_CHECK_H

#include "daemon/config/config.h"
#include "query/error.h"
#include "proto/ringtail.pb-c.h"

/* 0; -EINVAL: what was written is wrong; -ENOENT, -EACCES, ...: what it names is not to be had. */
int start_check(const struct config *config, struct error *error);

/*
 * The probes and the filter of one option each: "export-probe", "export-filter". With a catalog they
 * have to be in it. filter: NULL for none.
 */
int start_check_choice(const struct config_words *globs, const char *globs_option,
		       const char *filter, const char *filter_option,
		       const Ringtail__V1__Catalog *catalog, struct error *error);

#endif
