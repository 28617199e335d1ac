/*
 * http_status: what the HTTP server answers:
 *
 *	/		the status page: one file, embedded; it asks for /api/live each second
 *	/api/live	numbers for it, as JSON
 *	/api/history	the latencies of the last minutes, as JSON
 *	/api/process/PID	what one process calls, as JSON (closeup.h)
 *	/metrics	all metrics, in the format that Accept names
 *	/healthz	ok, for whoever only wants to know whether the daemon lives; without authentication
 *
 * On loopback it is plain and open to every user of the host, and answers only to a Host that is
 * loopback too, so that no page of another site can read it by way of a name that it controls. Behind
 * TLS it is for viewers alone. What a browser asks for in the name of another site's page is refused, but for
 * /healthz, and links to / and /metrics. Nothing here changes anything. Main thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_STATUS_H
#define RINGTAIL_DAEMON_HTTP_STATUS_H

#include <event2/event.h>

#include "daemon/net/address.h"
#include "daemon/access/gate.h"
#include "daemon/ask/watch.h"
#include "daemon/collect/meter.h"
#include "daemon/metrics/source.h"

struct http_status;
struct turnstile;

struct http_status_config {
	struct event_base *base;
	struct turnstile *turnstile;	/* where handshakes in TLS wait */
	struct metric_source *source;
	struct meters *meters;
	const struct gate *gate;	/* NULL: plain, on loopback */
	const struct gate *rules;	/* what somebody on loopback may do */
	struct ask_watches_config watch;	/* for what is recorded because somebody looks at it */
};

/* NULL: out of memory. */
struct http_status *http_status_create(const struct http_status_config *config);
void http_status_destroy(struct http_status *status);

/* A listener_accepted. */
void http_status_accept(void *status, int fd, const struct address *address, const char *peer);

#endif
