/*
 * The status page's numbers of calls and processes, as JSON, from meters that have seen some; how many clients and
 * processes are shown; and the last minutes, second by second. No time passes: the seconds are set off.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <event2/event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/collect/meter.h"
#include "daemon/http/live.h"
#include "tests/unit/daemon/small_catalog.h"

static struct event *second;
static uint64_t realtime_ns;

int __real_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in);
int __wrap_event_add(struct event *event, const struct timeval *in)
{
	second = event;
	assert_int_equal(in->tv_sec, 1);
	assert_int_equal(in->tv_usec, 0);
	return __real_event_add(event, in);
}

uint64_t __real_clock_read(clockid_t clock);
uint64_t __wrap_clock_read(clockid_t clock);
uint64_t __wrap_clock_read(clockid_t clock)
{
	return clock == CLOCK_REALTIME ? realtime_ns : __real_clock_read(clock);
}

struct bench {
	struct meters *meters;
	struct meter_ring ring;
	struct thread_table *threads;
	struct probe_set probes;
	uint64_t now, seq;
	char *text;
};

static int open_bench(void **state)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct meters_config config = {.workers = 1, .catalog = small_catalog_get(), .probes = &bench->probes};

	for (uint32_t i = RT_PROBE_EVENT_MIN; i < RT_PROBE_MAX; i++)
		probe_set_add(&bench->probes, i);
	bench->meters = meters_create(&config);
	bench->threads = thread_table_create(1000);
	bench->now = 1000;
	*state = bench;
	return 0;
}

static int close_bench(void **state)
{
	struct bench *bench = *state;

	meters_destroy(bench->meters);
	thread_table_destroy(bench->threads);
	free(bench->text);
	free(bench);
	return 0;
}

static void call(struct bench *bench, uint32_t tid, uint32_t probe, uint64_t ns, int64_t result)
{
	const uint64_t payload[] = {ns, (uint64_t)result};
	struct ring_item item = {.seq = bench->seq++, .time_ns = bench->now++, .tid = tid, .probe = (uint16_t)probe,
				 .words = 2, .payload = payload};

	meter_event(meters_get(bench->meters, 0), &bench->ring, &item, bench->threads,
		    thread_table_find(bench->threads, tid));
}

static void learn(struct bench *bench, uint32_t tid, const char *comm)
{
	struct rt_thread thread = {.pid = tid};

	memcpy(thread.comm, comm, strlen(comm));
	thread_table_learn(bench->threads, tid, &thread);
}

/* A second is over. */
static void end_pass(struct bench *bench)
{
	struct meter *meter = meters_get(bench->meters, 0);

	meter_end_run(meter, &bench->ring, bench->threads, bench->now);
	meter_end_pass(meter, bench->now, bench->now);
	bench->now += NS_PER_S;
	meter_end_run(meter, &bench->ring, bench->threads, bench->now);
	meter_end_pass(meter, bench->now, bench->now);
}

static const char *live(struct bench *bench, const struct daemon_stat *stat)
{
	size_t bytes;
	FILE *out;

	free(bench->text);
	out = open_memstream(&bench->text, &bytes);
	http_live_write(stat, bench->meters, out);
	fclose(out);
	return bench->text;
}

static void has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("no %s in %s", part, text);
}

static unsigned count(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part))) {
		n++;
		text += strlen(part);
	}
	return n;
}

/* Brackets and braces, outside of strings, are closed in their order. */
static void well_formed(const char *at)
{
	char open[16];
	unsigned depth = 0;

	do {
		if (*at == '"') {
			for (at++; *at != '"'; at++)
				at += *at == '\\';
		} else if (*at == '{' || *at == '[') {
			open[depth++] = *at == '{' ? '}' : ']';
			assert_true(depth < sizeof(open));
		} else if (*at == '}' || *at == ']') {
			assert_true(depth > 0);
			assert_int_equal(*at, open[--depth]);
		}
		at++;
	} while (depth && *at);
	assert_string_equal(at, "\n");
}

/* So many numbers are in the list that begins there. */
static void has_buckets(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	unsigned n = 1;

	assert_non_null(at);
	for (at += strlen(name); *at != ']'; at++)
		n += *at == ',';
	assert_int_equal(n, METER_BUCKETS);
}

static void the_whole_of_it(void **state)
{
	struct bench *bench = *state;
	struct stat_ring rings[2] = {{.cpu = 4}, {.cpu = 5}};
	struct stat_client client = {.id = 9};
	char none[] = "", host[128] = "", expected[200];
	struct daemon_stat stat = {.source = "s", .durability = "d", .rings = 2, .ring = rings, .client = &client,
				   .clients = 1};

	client.peer = client.filter = none;
	gethostname(host, sizeof(host) - 1);
	snprintf(expected, sizeof(expected), "{\"host\":\"%s\",\"version\":\"", host);
	call(bench, 7, SMALL_READ, 300, 0);
	live(bench, &stat);
	assert_int_equal(strncmp(bench->text, expected, strlen(expected)), 0);
	well_formed(bench->text);
	has(bench->text, ",\"rings\":[{\"cpu\":4,");
	has(bench->text, ",\"lost\":[]},{\"cpu\":5,");
	has(bench->text, ",\"lost\":[]}],\"clients_connected\":0,");
	has(bench->text, "\"name\":\"read\",\"calls\":1,\"errors\":0,\"sum_ns\":300,\"buckets\":[0,1]}");
	has_buckets(strstr(bench->text, "\"duration\":"), "\"buckets\":[");
}

/* The call that was made most comes first; its buckets end with the last that has any. */
static void calls_and_their_sum(void **state)
{
	struct bench *bench = *state;
	struct daemon_stat stat = {.source = "s", .durability = "d"};
	const char *text;

	has(live(bench, &stat), ",\"calls\":[],\"syscalls\":0,\"errors\":0,\"duration\":{\"count\":0,\"sum_ns\":0,\"buckets\":[0,0,");
	call(bench, 7, SMALL_READ, 300, -EAGAIN);
	call(bench, 7, SMALL_EXIT, RT_DURATION_NEVER, 0);
	call(bench, 7, SMALL_EXIT, RT_DURATION_NEVER, 0);
	for (unsigned i = 0; i < 50; i++)
		call(bench, 7, SMALL_KILL, 100, 0);
	for (unsigned i = 0; i < 98; i++)
		call(bench, 7, SMALL_OPENAT, 100, 0);
	call(bench, 7, SMALL_OPENAT, 1000, -ENOENT);
	call(bench, 7, SMALL_OPENAT, 1000, -ENOENT);
	text = live(bench, &stat);
	has(text, "\"calls\":[{\"name\":\"openat\",\"calls\":100,\"errors\":2,\"sum_ns\":11800,\"buckets\":[98,0,2]},"
		  "{\"name\":\"kill\",\"calls\":50,\"errors\":0,\"sum_ns\":5000,\"buckets\":[50]},"
		  "{\"name\":\"exit_group\",\"calls\":2,\"errors\":0,\"sum_ns\":0,\"buckets\":[]},"
		  "{\"name\":\"read\",\"calls\":1,\"errors\":1,\"sum_ns\":300,\"buckets\":[0,1]}],"
		  "\"syscalls\":153,\"errors\":3,\"duration\":{\"count\":151,\"sum_ns\":17100,\"buckets\":[148,1,2,0,");
	has(text, "\"switches\":0,\"wakeups\":0,\"forks\":0,\"execs\":0,\"exits\":0,\"sched_latency\":{\"count\":0,");
}

/* The busiest come first, and no more than the page has lines for. */
static void the_busiest_processes(void **state)
{
	struct bench *bench = *state;
	struct daemon_stat stat = {.source = "s", .durability = "d"};
	const char *text;

	has(live(bench, &stat), "\"processes_span_ns\":0,\"processes\":[]");
	for (uint32_t i = 1; i <= 100; i++) {
		char comm[8];

		snprintf(comm, sizeof(comm), "c%u", i);
		learn(bench, i, comm);
		for (uint32_t j = 0; j < i * 7 % 101; j++)
			call(bench, i, SMALL_READ, 300, j ? 0 : -EIO);
	}
	end_pass(bench);
	text = live(bench, &stat);
	has(text, "\"processes\":[{\"pid\":72,\"comm\":\"c72\",\"calls\":100,\"errors\":1,\"cpu_ns\":0},"
		  "{\"pid\":43,\"comm\":\"c43\",\"calls\":99,\"errors\":1,\"cpu_ns\":0},");
	assert_int_equal(count(text, "{\"pid\":"), 64);
}

static void so_many_clients(void **state)
{
	struct bench *bench = *state;
	struct stat_client *client = calloc(100, sizeof(*client));
	struct daemon_stat stat = {.source = "s", .durability = "d", .client = client, .clients = 64, .connected = 100};
	char peer[] = "a\"b", filter[] = "", probe_a[] = "a", probe_b[] = "b", *probe[] = {probe_a, probe_b};

	for (unsigned i = 0; i < 100; i++) {
		client[i].id = i;
		client[i].peer = peer;
		client[i].filter = filter;
		client[i].probe = probe;
		client[i].probes = 2;
	}
	assert_int_equal(count(live(bench, &stat), "{\"id\":"), 64);
	stat.clients = 65;
	assert_int_equal(count(live(bench, &stat), "{\"id\":"), 64);
	has(bench->text, "\"clients_connected\":100,\"clients\":[{\"id\":0,\"peer\":\"a\\\"b\",\"probe\":[\"a\",\"b\"],\"filter\":\"\",");
	has(bench->text, ",\"lost\":[]},{\"id\":1,");
	free(client);
}

static const char *history_of(struct bench *bench, const struct http_history *history)
{
	size_t bytes;
	FILE *out;

	free(bench->text);
	out = open_memstream(&bench->text, &bytes);
	http_history_write(history, out);
	fclose(out);
	return bench->text;
}

/* Each second has what was new in it; the oldest gives its place to the newest. */
static void the_last_minutes(void **state)
{
	struct bench *bench = *state;
	struct event_base *base = event_base_new();
	struct http_history *history = http_history_create(base, bench->meters);
	char part[100];

	assert_string_equal(history_of(bench, history), "[]\n");
	assert_true(event_get_events(second) & EV_PERSIST);
	for (unsigned i = 1; i <= HTTP_HISTORY_SECONDS + 2; i++) {
		realtime_ns = i * NS_PER_S + 999999;
		for (unsigned j = 0; j < i % 7; j++)
			call(bench, 7, SMALL_READ, 300, 0);
		call(bench, 7, SMALL_READ, 100, 0);
		event_active(second, EV_TIMEOUT, 0);
		event_base_loop(base, EVLOOP_NONBLOCK);
		history_of(bench, history);
		snprintf(part, sizeof(part), "{\"at\":%u000,\"duration\":[1,%u,0,", i, i % 7);
		has(bench->text, part);
		assert_int_equal(count(bench->text, "{\"at\":"), i < HTTP_HISTORY_SECONDS ? i : HTTP_HISTORY_SECONDS);
		assert_int_equal(count(bench->text, "],\"sched_latency\":["), i < HTTP_HISTORY_SECONDS ? i : HTTP_HISTORY_SECONDS);
	}
	assert_int_equal(strncmp(bench->text, "[{\"at\":3000,\"duration\":[1,3,0,", 30), 0);
	well_formed(bench->text);
	has_buckets(bench->text, "\"duration\":[");
	has_buckets(bench->text, "\"sched_latency\":[");
	http_history_destroy(history);
	http_history_destroy(NULL);
	event_base_free(base);
}

int main(void)
{
#define WITH_METERS(test) cmocka_unit_test_setup_teardown(test, open_bench, close_bench)
	const struct CMUnitTest tests[] = {
		WITH_METERS(the_whole_of_it),
		WITH_METERS(calls_and_their_sum),
		WITH_METERS(the_busiest_processes),
		WITH_METERS(so_many_clients),
		WITH_METERS(the_last_minutes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
