/*
 * http_live: what the status page asks for each second, as one JSON object. Counters are cumulative,
 * so that the page makes rates of two answers and misses nothing in between. Main thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_LIVE_H
#define RINGTAIL_DAEMON_HTTP_LIVE_H

#include <stdio.h>

#include "daemon/collect/meter.h"
#include "daemon/metrics/stat.h"

struct event_base;
struct http_history;

void http_live_write(const struct daemon_stat *stat, struct meters *meters, FILE *out);

/* A JSON string, quoted; bytes that are not UTF-8 are shown as U+FFFD. */
void http_live_string(const char *text, size_t bytes, FILE *out);

/* Of a member that is not the first: `,"lost":[...]`, each with its remedy. */
void http_live_losses(const struct stat_losses *losses, FILE *out);

/* Without brackets, and without the empty ones at the end: most calls are short. */
void http_live_buckets(const uint64_t bucket[METER_BUCKETS], FILE *out);

/*
 * The latencies of the last minutes, second by second: a map for the page to show when it is opened.
 * Looks once a second. NULL: out of memory.
 */
struct http_history *http_history_create(struct event_base *base, struct meters *meters);
void http_history_destroy(struct http_history *history);

/*
 * [{"at":ms since 1970,"duration":[by bucket],"sched_latency":[by bucket]}, ...], the oldest second
 * first, at most HTTP_HISTORY_SECONDS of them.
 */
void http_history_write(const struct http_history *history, FILE *out);

#endif
