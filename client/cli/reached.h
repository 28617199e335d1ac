/*
 * reached: the hosts of a relay that --host names: which there are, and a connection to each, through the relay. What
 * cannot be asked is said on `messages` of the pump, by name. One thread calls it; reached_connect() starts others, and
 * waits until they have ended.
 */
#ifndef RINGTAIL_CLIENT_CLI_REACHED_H
#define RINGTAIL_CLIENT_CLI_REACHED_H

#include "client/cli/fleet.h"
#include "client/cli/options.h"
#include "client/cli/pump.h"

/* Names of hosts, borrowed from a fleet. */
struct reached_names {
	const char **name;		/* those that are connected to the relay, by name */
	const char **away;		/* those that are not */
	size_t names, aways;
};

/*
 * Those of the fleet that a glob matches. -ENOENT, -EHOSTUNREACH, -E2BIG with *error: none, none of them connected, too
 * many. reached_free() also after a failure.
 */
int reached_choose(const struct fleet *fleet, const struct texts *glob, struct reached_names *names,
		   struct ringtail_error *error);
void reached_free(struct reached_names *names);

/* Hosts of the pump, with their labels. -errno with *error: none can be asked. hosts_close() also after a failure. */
int reached_connect(const char *relay, const struct texts *glob, struct pump *pump, struct ringtail_error *error);

/* Says that the host at that place of the pump cannot be asked, and why; closes it, and takes it out of the pump. */
void reached_drop(struct pump *pump, size_t i, const struct ringtail_error *error);

#endif
