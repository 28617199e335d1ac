/*
 * reach: a host behind a relay. In: a connection to the relay, on which nothing was said yet. Out: the same connection,
 * to the daemon of that host, on which nothing was said yet. One thread.
 *
 *	ClientHello -> ServerHello, Reach -> Reached (docs/protocol.md)
 */
#ifndef RINGTAIL_CLIENT_LIB_REACH_H
#define RINGTAIL_CLIENT_LIB_REACH_H

#include "client/lib/conn.h"
#include "client/lib/ringtail.h"

/*
 * Within REACHED_TIMEOUT_MS. -EOPNOTSUPP: the relay is too old; -EPROTO: the relay, or the host, refuses; or as
 * conn_wait() ends.
 */
int reach_host(struct conn *conn, const char *host, struct ringtail_error *error);

/* As ringtail_connect(), to a host that the relay at that address serves: its name there. It reconnects the same way. */
int reach_connect(const char *relay, const char *host, struct ringtail **ringtail, struct ringtail_error *error);

#endif
