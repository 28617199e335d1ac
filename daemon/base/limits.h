/*
 * limits: every bound inside the daemon that is not an option, with its name; the table is
 * limits.def.
 */
#ifndef RINGTAIL_DAEMON_BASE_LIMITS_H
#define RINGTAIL_DAEMON_BASE_LIMITS_H

/* An enum each: rows may use those before them. */
#define LIMIT(name, value, unit, beyond, told, help) enum { name = value };
#include "daemon/base/limits.def"
#undef LIMIT

#endif
