/*
 * config_value: one option's value, from text to its member of struct config and back.
 *
 * Private to config.c: what each KIND of options.def accepts. Main thread.
 */
#ifndef RINGTAIL_DAEMON_CONFIG_VALUE_H
#define RINGTAIL_DAEMON_CONFIG_VALUE_H

#include <stdbool.h>
#include <stdio.h>

#include "daemon/config/config.h"
#include "daemon/config/option.h"

/*
 * Sets the option's member of *config, or appends to it if it is a list. -EINVAL (or -ENOMEM) with
 * an *error that names the value, not the place it was found in.
 */
int config_value_set(const struct config_option *option, struct config *config, const char *text,
		     struct error *error);

/* Frees what the member holds and empties it. */
void config_value_clear(const struct config_option *option, struct config *config);

/* Writes the `name = value` lines that make this value; none where it is empty. */
void config_value_print(const struct config_option *option, const struct config *config,
			FILE *out);

/* Whether the option may be given more than once. */
bool config_value_repeats(const struct config_option *option);

#endif
