#include "daemon/http/history.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"

struct second {
	uint64_t realtime_ns;
	uint64_t duration[METER_BUCKETS], latency[METER_BUCKETS];
};

struct http_history {
	struct meters *meters;
	struct event *tick;
	struct meter_sum duration, latency;	/* up to the last second */
	uint64_t seconds;			/* ever */
	struct second second[HTTP_HISTORY_SECONDS];
};

static void subtract(uint64_t *to, const struct meter_sum *now, const struct meter_sum *then)
{
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		to[i] = now->bucket[i] - then->bucket[i];
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	struct http_history *history = context;
	struct second *second = &history->second[history->seconds++ % HTTP_HISTORY_SECONDS];
	struct meter_sum duration, latency;

	(void)fd, (void)what;
	meters_read_durations(history->meters, &duration);
	meters_read_latency(history->meters, &latency);
	second->realtime_ns = clock_read(CLOCK_REALTIME);
	subtract(second->duration, &duration, &history->duration);
	subtract(second->latency, &latency, &history->latency);
	history->duration = duration;
	history->latency = latency;
}

struct http_history *http_history_create(struct event_base *base, struct meters *meters)
{
	struct http_history *history = calloc(1, sizeof(*history));
	const struct timeval second = {.tv_sec = 1};

	if (!history)
		return NULL;
	history->meters = meters;
	history->tick = event_new(base, -1, EV_PERSIST, on_tick, history);
	if (!history->tick || event_add(history->tick, &second) != 0) {
		http_history_destroy(history);
		return NULL;
	}
	return history;
}

void http_history_destroy(struct http_history *history)
{
	if (!history)
		return;
	if (history->tick)
		event_free(history->tick);
	free(history);
}

static void write_counts(const char *name, const uint64_t *count, FILE *out)
{
	fprintf(out, ",\"%s\":[", name);
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", count[i]);
	putc(']', out);
}

void http_history_write(const struct http_history *history, FILE *out)
{
	uint64_t at = history->seconds > HTTP_HISTORY_SECONDS
			      ? history->seconds - HTTP_HISTORY_SECONDS : 0;

	putc('[', out);
	for (uint64_t i = at; i < history->seconds; i++) {
		const struct second *second = &history->second[i % HTTP_HISTORY_SECONDS];

		fprintf(out, "%s{\"at\":%" PRIu64, i > at ? "," : "",
			second->realtime_ns / 1000000);
		write_counts("duration", second->duration, out);
		write_counts("sched_latency", second->latency, out);
		putc('}', out);
	}
	fputs("]\n", out);
}
