/* config_reload: which options a reload cannot change. In: two configurations; out: names. Main thread. */
#ifndef RINGTAIL_DAEMON_CONFIG_RELOAD_H
#define RINGTAIL_DAEMON_CONFIG_RELOAD_H

#include <stddef.h>

#include "daemon/config/config.h"

/* The names of those that differ and stay as they are until a restart, "a, b"; "" if there are none. */
void config_reload_ignored(const struct config *old, const struct config *new, char *names,
			   size_t bytes);

#endif
