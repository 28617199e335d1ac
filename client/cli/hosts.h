/*
 * hosts: the daemons that --connect names: what may be asked of several, their connections, and what tells them
 * apart. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_HOSTS_H
#define RINGTAIL_CLIENT_CLI_HOSTS_H

#include "client/cli/cmd.h"

/* NULL: events of several hosts can be told apart in what is asked for; else what of it is for one alone. */
const char *hosts_single(const struct settings *settings, const struct cmd_view *view);

/* -EINVAL with *error for what only one daemon can be asked. */
int hosts_check(const struct settings *settings, const struct cmd_view *view, struct ringtail_error *error);

/* Connects to each, in turn; with --host, to hosts of a relay. hosts_close() also after a failure. */
int hosts_connect(const struct settings *settings, struct pump *pump, struct ringtail_error *error);

/* Once more to the host at that place of the pump. */
int hosts_connect_again(const struct settings *settings, const struct pump *pump, size_t i, struct ringtail **made,
			struct ringtail_error *error);

/* What the user calls it: its name at the relay, or its address. */
const char *hosts_name(const struct settings *settings, const struct pump *pump, size_t i);

/* Names each by its host's name; by its address, where two have the same name. One alone has no label. */
int hosts_label(const struct settings *settings, struct pump *pump, struct ringtail_error *error);

void hosts_close(struct pump *pump);

#endif
