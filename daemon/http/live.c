#include "daemon/http/live.h"

#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/metrics/self.h"
#include "proto/losses.h"
#include "query/visible.h"

#define PROCESSES_SHOWN	64u
#define CLIENTS_SHOWN	64u

/* ---- JSON ------------------------------------------------------------------------------------ */

void http_live_string(const char *at, size_t n, FILE *out)
{
	size_t bytes;
	uint32_t code;

	putc('"', out);
	for (; n; at += bytes, n -= bytes) {
		enum visible what = visible_next(at, n, &bytes, &code);

		if (what == VISIBLE_NO_TEXT)
			fputs("\xef\xbf\xbd", out);
		else if (what == VISIBLE_HIDDEN)
			fprintf(out, "\\u%04x", (unsigned)code);
		else if (*at == '"' || *at == '\\')
			fprintf(out, "\\%c", *at);
		else
			fwrite(at, 1, bytes, out);
	}
	putc('"', out);
}

static void write_text(const char *text, FILE *out)
{
	http_live_string(text, strlen(text), out);
}

/* ---- Ledgers --------------------------------------------------------------------------------- */

void http_live_losses(const struct stat_losses *losses, FILE *out)
{
	const char *before = "";
	struct loss_count loss;

	fputs(",\"lost\":[", out);
	for (unsigned at = 0; stat_losses_next(losses, &at, &loss);) {
		fprintf(out, "%s{\"stage\":\"%s\",\"reason\":\"%s\",\"remedy\":\"%s\",\"count\":%"
			PRIu64 "}", before, metric_stage_name(loss.stage),
			metric_reason_name(loss.reason), loss_text(loss.reason)->remedy,
			loss.count);
		before = ",";
	}
	putc(']', out);
}

static void write_rings(const struct daemon_stat *stat, FILE *out)
{
	fputs(",\"rings\":[", out);
	for (unsigned i = 0; i < stat->rings; i++) {
		const struct stat_ring *ring = &stat->ring[i];

		fprintf(out,
			"%s{\"cpu\":%u,\"produced\":%" PRIu64 ",\"events\":%" PRIu64
			",\"meta\":%" PRIu64 ",\"in_flight\":%" PRIu64 ",\"residual\":%" PRId64
			",\"size\":%" PRIu64 ",\"used\":%" PRIu64 ",\"stuck_ns\":%" PRIu64,
			i ? "," : "", ring->cpu, ring->now.usage.produced, ring->now.events,
			ring->now.meta, ring->now.usage.in_flight, ring->residual,
			ring->now.usage.size_bytes, ring->now.usage.unread_bytes,
			ring->now.stuck_ns);
		http_live_losses(&ring->lost, out);
		putc('}', out);
	}
	putc(']', out);
}

static void write_client(const struct stat_client *client, FILE *out)
{
	fprintf(out, "{\"id\":%" PRIu64 ",\"peer\":", client->id);
	write_text(client->peer, out);
	fputs(",\"probe\":[", out);
	for (size_t i = 0; i < client->probes; i++) {
		if (i)
			putc(',', out);
		write_text(client->probe[i], out);
	}
	fputs("],\"filter\":", out);
	write_text(client->filter, out);
	fprintf(out,
		",\"produced\":%" PRIu64 ",\"delivered\":%" PRIu64 ",\"filtered\":%" PRIu64
		",\"in_flight\":%" PRIu64 ",\"residual\":%" PRId64 ",\"queue\":%" PRIu64
		",\"wire\":%" PRIu64,
		client->now.produced, client->delivered, client->filtered, client->now.in_flight,
		client->now.residual, client->now.lag_bytes, client->wire_bytes);
	http_live_losses(&client->lost, out);
	putc('}', out);
}

static void write_clients(const struct daemon_stat *stat, FILE *out)
{
	fprintf(out, ",\"clients_connected\":%u,\"clients\":[", stat->connected);
	for (unsigned i = 0; i < stat->clients && i < CLIENTS_SHOWN; i++) {
		if (i)
			putc(',', out);
		write_client(&stat->client[i], out);
	}
	putc(']', out);
}

static void write_spools(const struct daemon_stat *stat, FILE *out)
{
	fputs(",\"spools\":[", out);
	for (unsigned i = 0; i < stat->spools; i++) {
		const struct stat_spool *spool = &stat->spool[i];

		fprintf(out, "%s{\"name\":", i ? "," : "");
		write_text(spool->name, out);
		fputs(",\"state\":", out);
		write_text(spool->now.state, out);
		fprintf(out,
			",\"size\":%" PRIu64 ",\"limit\":%" PRIu64 ",\"produced\":%" PRIu64
			",\"stored\":%" PRIu64 ",\"in_flight\":%" PRIu64 ",\"residual\":%" PRId64,
			spool->now.bytes, spool->now.size_bytes, spool->now.produced,
			spool->now.stored, spool->now.in_flight, spool->residual);
		http_live_losses(&spool->lost, out);
		putc('}', out);
	}
	fputs("],\"exports\":[", out);
	for (unsigned i = 0; i < stat->exports; i++) {
		const struct stat_export *one = &stat->export[i];

		fprintf(out, "%s{\"name\":", i ? "," : "");
		write_text(one->name, out);
		fputs(",\"state\":", out);
		write_text(one->state, out);
		fprintf(out,
			",\"events\":%" PRIu64 ",\"accepted\":%" PRIu64 ",\"filtered\":%" PRIu64
			",\"in_flight\":%" PRIu64 ",\"residual\":%" PRId64 ",\"retries\":%" PRIu64,
			one->events, one->accepted, one->filtered, one->in_flight, one->residual,
			one->retries);
		http_live_losses(&one->lost, out);
		putc('}', out);
	}
	putc(']', out);
}

/* ---- What the meters say --------------------------------------------------------------------- */

struct shown_call {
	uint32_t number;
	uint64_t calls, errors, sum_ns;
	uint64_t bucket[METER_BUCKETS];
};

static int by_time(const void *a, const void *b)
{
	const struct shown_call *left = a, *right = b;

	return (right->calls > left->calls) - (right->calls < left->calls);
}

static void add_sum(struct meter_sum *to, const struct meter_sum *from)
{
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
	to->sum_ns += from->sum_ns;
	to->count += from->count;
}

static void write_sum(const char *name, const struct meter_sum *sum, FILE *out)
{
	fprintf(out, ",\"%s\":{\"count\":%" PRIu64 ",\"sum_ns\":%" PRIu64 ",\"buckets\":[", name,
		sum->count, sum->sum_ns);
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", sum->bucket[i]);
	fputs("]}", out);
}

void http_live_buckets(const uint64_t bucket[METER_BUCKETS], FILE *out)
{
	unsigned buckets = METER_BUCKETS;

	while (buckets && !bucket[buckets - 1])
		buckets--;
	for (unsigned i = 0; i < buckets; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", bucket[i]);
}

static void write_calls(struct meters *meters, FILE *out)
{
	struct shown_call *call = calloc(RT_SYSCALLS_MAX, sizeof(*call));
	struct meter_call_sum *one = malloc(sizeof(*one));
	struct meter_sum all = {0};
	uint64_t calls = 0, errors = 0;
	size_t shown = 0;

	fputs(",\"calls\":[", out);
	for (uint32_t i = 0; call && one && i < RT_SYSCALLS_MAX; i++) {
		if (!meters_read_call(meters, i, one))
			continue;
		call[shown++] = (struct shown_call){
			.number = i,
			.calls = one->duration.count + one->never,
			.errors = one->errors,
			.sum_ns = one->duration.sum_ns,
		};
		memcpy(call[shown - 1].bucket, one->duration.bucket, sizeof(call[0].bucket));
		calls += one->duration.count + one->never;
		errors += one->errors;
		add_sum(&all, &one->duration);
	}
	if (shown)
		qsort(call, shown, sizeof(*call), by_time);
	for (size_t i = 0; i < shown; i++) {
		const char *name = meters_call_name(meters, call[i].number);

		fprintf(out, "%s{\"name\":", i ? "," : "");
		write_text(name ? name : "?", out);
		fprintf(out,
			",\"calls\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"sum_ns\":%" PRIu64 ",\"buckets\":[",
			call[i].calls, call[i].errors, call[i].sum_ns);
		http_live_buckets(call[i].bucket, out);
		fputs("]}", out);
	}
	fprintf(out, "],\"syscalls\":%" PRIu64 ",\"errors\":%" PRIu64, calls, errors);
	write_sum("duration", &all, out);
	free(call);
	free(one);
}

static int by_weight(const void *a, const void *b)
{
	const struct top_entry *left = a, *right = b;

	return (right->weight > left->weight) - (right->weight < left->weight);
}

static void write_processes(struct meters *meters, FILE *out)
{
	struct top_entry process[METER_PROCESSES_MAX];
	uint64_t span_ns;
	uint32_t n = meters_read_top(meters, process, &span_ns);

	qsort(process, n, sizeof(process[0]), by_weight);
	fprintf(out, ",\"processes_span_ns\":%" PRIu64 ",\"processes\":[", span_ns);
	for (uint32_t i = 0; i < n && i < PROCESSES_SHOWN; i++) {
		fprintf(out, "%s{\"pid\":%u,\"comm\":", i ? "," : "", process[i].pid);
		http_live_string(process[i].comm, strnlen(process[i].comm, RT_COMM_BYTES), out);
		fprintf(out,
			",\"calls\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"cpu_ns\":%" PRIu64 "}",
			process[i].calls, process[i].errors, process[i].cpu_ns);
	}
	putc(']', out);
}

static void write_meters(struct meters *meters, FILE *out)
{
	static const char *const count_name[METER_COUNTS] = {
		[METER_SWITCHES] = "switches", [METER_WAKEUPS] = "wakeups",
		[METER_FORKS] = "forks", [METER_EXECS] = "execs", [METER_EXITS] = "exits",
	};
	struct meter_sum sum;

	for (unsigned i = 0; i < METER_COUNTS; i++)
		fprintf(out, ",\"%s\":%" PRIu64, count_name[i], meters_read_count(meters, i));
	meters_read_latency(meters, &sum);
	write_sum("sched_latency", &sum, out);
	write_calls(meters, out);
	write_processes(meters, out);
}

void http_live_write(const struct daemon_stat *stat, struct meters *meters, FILE *out)
{
	struct metric_process process;
	char host[128] = "";

	metric_process_read(-1, &process);
	gethostname(host, sizeof(host) - 1);
	fputs("{\"host\":", out);
	write_text(host, out);
	fputs(",\"version\":\"" RINGTAIL_VERSION "\",\"source\":", out);
	write_text(stat->source, out);
	fputs(",\"durability\":", out);
	write_text(stat->durability, out);
	fprintf(out,
		",\"monotonic_ns\":%" PRIu64 ",\"uptime_ns\":%" PRIu64 ",\"cpu_ns\":%" PRIu64
		",\"records\":%" PRIu64 ",\"wire_bytes\":%" PRIu64 ",\"recursion_lost\":%" PRIu64,
		stat->monotonic_ns, stat->uptime_ns, (uint64_t)(process.cpu_seconds * 1e9),
		counter_read(COUNTER_records_read), counter_read(COUNTER_bytes_sent),
		stat->recursion_lost);
	write_rings(stat, out);
	write_clients(stat, out);
	write_spools(stat, out);
	write_meters(meters, out);
	fputs("}\n", out);
}

/* ---- The last minutes, second by second ------------------------------------------------------ */

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
