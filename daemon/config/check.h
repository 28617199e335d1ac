/*
 * config_check: what concerns more than one option and is about who may come in: authentication that
 * is only half there is refused, and so is what would never be used.
 *
 * Private to config.c. Pure.
 */
#ifndef RINGTAIL_DAEMON_CONFIG_CHECK_H
#define RINGTAIL_DAEMON_CONFIG_CHECK_H

#include "daemon/config/config.h"
#include "query/error.h"

/* 0, or -EINVAL with *error: what is missing, and what to do. */
int config_check(const struct config *config, struct error *error);

#endif
