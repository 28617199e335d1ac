/*
 * http_live: what the status page asks for each second, as one JSON object. Counters are cumulative,
 * so that the page makes rates of two answers and misses nothing in between. Main thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_LIVE_H
#define RINGTAIL_DAEMON_HTTP_LIVE_H

#include <stdio.h>

#include "daemon/collect/meter.h"
#include "daemon/metrics/stat.h"

void http_live_write(const struct daemon_stat *stat, struct meters *meters, FILE *out);

/* A JSON string, quoted; bytes that are not UTF-8 are shown as U+FFFD. */
void http_live_string(const char *text, size_t bytes, FILE *out);

#endif
