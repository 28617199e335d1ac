/* fleet_ask: asks a relay for its hosts, one answer after the other. In: a connection. Out: a fleet. One thread. */
#ifndef RINGTAIL_CLIENT_CLI_FLEET_ASK_H
#define RINGTAIL_CLIENT_CLI_FLEET_ASK_H

#include "client/cli/fleet.h"
#include "client/cli/request.h"

/*
 * Until there are no more. -EOPNOTSUPP: the daemon is too old; -EPROTO: it is no relay; or as request_wait().
 * fleet_free() also after a failure.
 */
int fleet_ask(struct request *request, struct fleet *fleet, struct ringtail_error *error);

#endif
