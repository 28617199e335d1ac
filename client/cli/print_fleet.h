/*
 * print_fleet: how the hosts of a relay stand, for people and for programs. Lines of text fit 80 columns, but for what
 * the relay itself makes longer: a name that is too long for its column has a line of its own.
 */
#ifndef RINGTAIL_CLIENT_CLI_PRINT_FLEET_H
#define RINGTAIL_CLIENT_CLI_PRINT_FLEET_H

#include "client/cli/fleet.h"
#include "client/cli/out.h"
#include "client/lib/ringtail.h"

/* All hosts, a line each; as JSON an object each. */
void print_fleet_hosts(struct out *out, const struct fleet *fleet);
void print_fleet_hosts_json(struct out *out, const struct fleet *fleet);

/* The ledgers that the relay knows, and of the hosts the FLEET_ROWS worst; as JSON one object, with all. */
void print_fleet_ledger(struct out *out, const struct ringtail_host *relay, const struct fleet *fleet);
void print_fleet_ledger_json(struct out *out, const struct fleet *fleet);

#endif
