/*
 * http_history: the latencies of the last minutes, second by second, so that the status page has a
 * map to show when it is opened. Main thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_HISTORY_H
#define RINGTAIL_DAEMON_HTTP_HISTORY_H

#include <stdio.h>

#include "daemon/collect/meter.h"

struct event_base;
struct http_history;

/* Begins to look, once a second. NULL: out of memory. */
struct http_history *http_history_create(struct event_base *base, struct meters *meters);
void http_history_destroy(struct http_history *history);

/*
 * [{"at":ms since 1970,"duration":[by bucket],"sched_latency":[by bucket]}, ...], the oldest second
 * first, at most HTTP_HISTORY_SECONDS of them.
 */
void http_history_write(const struct http_history *history, FILE *out);

#endif
