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

/* 0; -EINVAL: what was written is wrong; -ENOENT, -EACCES, ...: what it names is not to be had. */
int start_check(const struct config *config, struct error *error);

#endif
