/*
 * What the status page is told each second, to the byte: each number under its own name, what is many in
 * its order and within its bound; and of the last minutes each second's own share. What is counted, and
 * time, are this test's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <event2/event.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/http/live.h"
#include "daemon/metrics/self.h"
#include "proto/losses.h"
#include "tests/lib/failing_memory.h"

#define QUEUE	RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE
#define FULL	RINGTAIL__V1__LOSS_REASON__REASON_QUEUE_FULL
#define DISK	RINGTAIL__V1__LOSS_REASON__REASON_DISK
#define RING	RINGTAIL__V1__LOSS_STAGE__LOSS_RING
#define CLIENTS_SHOWN	64u
#define PROCESSES_SHOWN	20u

/* ---- What is counted ------------------------------------------------------------------------- */

static struct meter_sum durations, latency;
static unsigned processes;
static uint64_t realtime_ns;

void __wrap_metric_process_read(int fd, struct metric_process *process);
void __wrap_metric_process_read(int fd, struct metric_process *process)
{
	assert_int_equal(fd, -1);
	*process = (struct metric_process){.cpu_seconds = 1.5};
}

int __wrap_gethostname(char *name, size_t bytes);
int __wrap_gethostname(char *name, size_t bytes)
{
	snprintf(name, bytes, "a\"host");
	return 0;
}

uint64_t __wrap_clock_read(clockid_t id);
uint64_t __wrap_clock_read(clockid_t id)
{
	assert_int_equal(id, CLOCK_REALTIME);
	return realtime_ns;
}

static const struct {
	uint32_t number;
	const char *name;
	struct meter_call_sum sum;
} calls[] = {
	{3, "few", {.duration = {.sum_ns = 70, .count = 4, .bucket = {1, 1, 2}}, .never = 1, .errors = 2}},
	{5, "once", {.never = 1}},
	{7, "never", {.never = 6}},
	{RT_SYSCALLS_MAX - 1, NULL,
	 {.duration = {.sum_ns = 900, .count = 100, .bucket = {[0] = 49, [5] = 50, [27] = 1}}, .errors = 3}},
};

bool __wrap_meters_read_call(const struct meters *meters, uint32_t number, struct meter_call_sum *sum);
bool __wrap_meters_read_call(const struct meters *meters, uint32_t number, struct meter_call_sum *sum)
{
	(void)meters;
	assert_true(number < RT_SYSCALLS_MAX);
	for (unsigned i = 0; i < 4; i++)
		if (calls[i].number == number) {
			*sum = calls[i].sum;
			return true;
		}
	return false;
}

const char *__wrap_meters_call_name(const struct meters *meters, uint32_t number);
const char *__wrap_meters_call_name(const struct meters *meters, uint32_t number)
{
	(void)meters;
	for (unsigned i = 0; i < 4; i++)
		if (calls[i].number == number)
			return calls[i].name;
	fail();
	return NULL;
}

uint64_t __wrap_meters_read_count(const struct meters *meters, enum meter_count count);
uint64_t __wrap_meters_read_count(const struct meters *meters, enum meter_count count)
{
	(void)meters;
	return 10 + (unsigned)count;
}

void __wrap_meters_read_durations(const struct meters *meters, struct meter_sum *sum);
void __wrap_meters_read_durations(const struct meters *meters, struct meter_sum *sum)
{
	(void)meters;
	*sum = durations;
}

void __wrap_meters_read_latency(const struct meters *meters, struct meter_sum *sum);
void __wrap_meters_read_latency(const struct meters *meters, struct meter_sum *sum)
{
	(void)meters;
	*sum = latency;
}

/* The busiest last but one. */
uint32_t __wrap_meters_read_top(struct meters *meters, struct top_entry *entry, uint64_t *span_ns);
uint32_t __wrap_meters_read_top(struct meters *meters, struct top_entry *entry, uint64_t *span_ns)
{
	(void)meters;
	*span_ns = 1000000001;
	for (unsigned i = 0; i < processes; i++) {
		entry[i] = (struct top_entry){.pid = i, .calls = 2 * i, .errors = 3 * i, .cpu_ns = 4 * i,
					      .weight = i == processes - 1 ? 0 : i};
		memset(entry[i].comm, 'a' + (int)i % 26, sizeof(entry[i].comm));
	}
	return processes;
}

/* ---- What is expected ------------------------------------------------------------------------ */

static void put_buckets(FILE *out, const uint64_t *bucket)
{
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		fprintf(out, "%s%" PRIu64, i ? "," : "", bucket[i]);
}

static void put_loss(FILE *out, const char *stage, const char *name, unsigned reason, unsigned count)
{
	fprintf(out, "{\"stage\":\"%s\",\"reason\":\"%s\",\"remedy\":\"%s\",\"count\":%u}", stage, name,
		loss_reason(reason)->remedy, count);
}

static void put_meters(FILE *out, unsigned first_process, unsigned shown)
{
	const uint64_t all[METER_BUCKETS] = {[0] = 50, [1] = 1, [2] = 2, [5] = 50, [27] = 1};

	fputs(",\"switches\":10,\"wakeups\":11,\"forks\":12,\"execs\":13,\"exits\":14"
	      ",\"sched_latency\":{\"count\":9,\"sum_ns\":8,\"buckets\":[", out);
	put_buckets(out, latency.bucket);
	/* The call with the most comes first; of 100, the 51st is the median, and the 100th the 99 %. */
	fputs("]},\"calls\":["
	      "{\"name\":\"?\",\"calls\":100,\"errors\":3,\"sum_ns\":900,\"p50_ns\":8192,\"p99_ns\":34359738368},"
	      "{\"name\":\"never\",\"calls\":6,\"errors\":0,\"sum_ns\":0,\"p50_ns\":0,\"p99_ns\":0},"
	      "{\"name\":\"few\",\"calls\":5,\"errors\":2,\"sum_ns\":70,\"p50_ns\":1024,\"p99_ns\":1024},"
	      "{\"name\":\"once\",\"calls\":1,\"errors\":0,\"sum_ns\":0,\"p50_ns\":0,\"p99_ns\":0}"
	      "],\"syscalls\":112,\"errors\":5,\"duration\":{\"count\":104,\"sum_ns\":970,\"buckets\":[", out);
	put_buckets(out, all);
	fputs("]},\"processes_span_ns\":1000000001,\"processes\":[", out);
	for (unsigned i = 0; i < shown; i++) {
		unsigned pid = first_process - i, letter = 'a' + pid % 26;

		fprintf(out, "%s{\"pid\":%u,\"comm\":\"", i ? "," : "", pid);
		for (unsigned j = 0; j < RT_COMM_BYTES; j++)
			putc((int)letter, out);
		fprintf(out, "\",\"calls\":%u,\"errors\":%u,\"cpu_ns\":%u}", 2 * pid, 3 * pid, 4 * pid);
	}
	fputs("]}\n", out);
}

static char *written(const struct daemon_stat *stat)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	http_live_write(stat, NULL, out);
	fclose(out);
	return text;
}

static void set_meters(unsigned n)
{
	latency = (struct meter_sum){.count = 9, .sum_ns = 8, .bucket = {[1] = 4, [27] = 5}};
	processes = n;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void with_nothing(void **state)
{
	const struct daemon_stat stat = {.monotonic_ns = 1, .uptime_ns = 2, .recursion_lost = 3, .source = "bpf",
					 .durability = "memory", .connected = 4};
	char *text, *wanted = NULL;
	size_t bytes;
	FILE *out = open_memstream(&wanted, &bytes);

	(void)state;
	set_meters(0);
	counter_add(COUNTER_records_read, 41);
	counter_add(COUNTER_bytes_sent, 42);
	fputs("{\"host\":\"a\\\"host\",\"version\":\"" RINGTAIL_VERSION "\",\"source\":\"bpf\""
	      ",\"durability\":\"memory\",\"monotonic_ns\":1,\"uptime_ns\":2,\"cpu_ns\":1500000000"
	      ",\"records\":41,\"wire_bytes\":42,\"recursion_lost\":3,\"rings\":[],\"clients_connected\":4"
	      ",\"clients\":[],\"spools\":[],\"exports\":[]", out);
	put_meters(out, 0, 0);
	fclose(out);
	text = written(&stat);
	assert_string_equal(text, wanted);
	free(text);
	free(wanted);
}

static void put_ledgers(FILE *out)
{
	fputs(",\"rings\":[{\"cpu\":3,\"produced\":1,\"events\":2,\"meta\":3,\"in_flight\":4,\"residual\":-5"
	      ",\"size\":6,\"used\":7,\"stuck_ns\":8,\"lost\":[", out);
	put_loss(out, "ring", "queue_full", FULL, 9);
	putc(',', out);
	put_loss(out, "decode", "disk", DISK, 10);
	fputs("]},{\"cpu\":4,\"produced\":0,\"events\":0,\"meta\":0,\"in_flight\":0,\"residual\":0,\"size\":0"
	      ",\"used\":0,\"stuck_ns\":0,\"lost\":[]}],\"clients_connected\":2,\"clients\":["
	      "{\"id\":1,\"peer\":\"here\",\"probe\":[\"a\",\"b\"],\"filter\":\"pid == 1\",\"produced\":2"
	      ",\"delivered\":3,\"filtered\":4,\"in_flight\":5,\"residual\":6,\"queue\":7,\"wire\":8,\"lost\":[", out);
	put_loss(out, "queue", "queue_full", FULL, 11);
	fputs("]},{\"id\":2,\"peer\":\"there\",\"probe\":[],\"filter\":\"\",\"produced\":0,\"delivered\":0"
	      ",\"filtered\":0,\"in_flight\":0,\"residual\":0,\"queue\":0,\"wire\":0,\"lost\":[]}],\"spools\":["
	      "{\"name\":\"s\",\"state\":\"full\",\"size\":1,\"limit\":2,\"produced\":3,\"stored\":4,\"in_flight\":5"
	      ",\"residual\":-6,\"lost\":[", out);
	put_loss(out, "queue", "unknown", 0, 12);
	fputs("]},{\"name\":\"t\",\"state\":\"ok\",\"size\":0,\"limit\":0,\"produced\":0,\"stored\":0,\"in_flight\":0"
	      ",\"residual\":0,\"lost\":[]}],\"exports\":["
	      "{\"name\":\"e\",\"state\":\"held\",\"events\":1,\"accepted\":2,\"filtered\":3,\"in_flight\":4"
	      ",\"residual\":-5,\"retries\":6,\"lost\":[", out);
	put_loss(out, "queue", "queue_full", FULL, 13);
	fputs("]},{\"name\":\"f\",\"state\":\"ok\",\"events\":0,\"accepted\":0,\"filtered\":0,\"in_flight\":0"
	      ",\"residual\":0,\"retries\":0,\"lost\":[]}]", out);
}

static void each_ledger_under_its_own_names(void **state)
{
	static uint64_t of_client[1][LOSS_REASONS], of_spool[1][LOSS_REASONS], of_export[1][LOSS_REASONS];
	char *probe[] = {(char *)"a", (char *)"b"};
	struct stat_ring ring[2] = {
		{.cpu = 3, .residual = -5,
		 .now = {.usage = {.produced = 1, .in_flight = 4, .size_bytes = 6, .unread_bytes = 7},
			 .events = 2, .meta = 3, .stuck_ns = 8}},
		{.cpu = 4},
	};
	struct stat_client client[2] = {
		{.id = 1, .peer = "here", .probe = probe, .probes = 2, .filter = "pid == 1", .delivered = 3,
		 .filtered = 4, .wire_bytes = 8, .lost = {of_client, QUEUE, 1},
		 .now = {.produced = 2, .in_flight = 5, .residual = 6, .lag_bytes = 7}},
		{.id = 2, .peer = "there", .filter = "", .lost = {NULL, QUEUE, 0}},
	};
	struct stat_spool spool[2] = {
		{.name = "s", .residual = -6, .lost = {of_spool, QUEUE, 1},
		 .now = {.state = "full", .bytes = 1, .size_bytes = 2, .produced = 3, .stored = 4, .in_flight = 5}},
		{.name = "t", .now = {.state = "ok"}, .lost = {NULL, QUEUE, 0}},
	};
	struct stat_export export[2] = {
		{.name = "e", .state = "held", .events = 1, .accepted = 2, .filtered = 3, .in_flight = 4,
		 .residual = -5, .retries = 6, .lost = {of_export, QUEUE, 1}},
		{.name = "f", .state = "ok", .lost = {NULL, QUEUE, 0}},
	};
	const struct daemon_stat stat = {.source = "s", .durability = "d", .connected = 2, .rings = 2, .ring = ring,
					 .clients = 2, .client = client, .spools = 2, .spool = spool, .exports = 2,
					 .export = export};
	char *text, *wanted = NULL;
	size_t bytes;
	FILE *out = open_memstream(&wanted, &bytes);

	(void)state;
	set_meters(3);
	ring[0].lost_by[0][FULL] = 9;
	ring[0].lost_by[1][DISK] = 10;
	for (unsigned i = 0; i < 2; i++)
		ring[i].lost = (struct stat_losses){ring[i].lost_by, RING, STAT_RING_STAGES};
	of_client[0][FULL] = 11;
	of_spool[0][0] = 12;
	of_export[0][FULL] = 13;
	put_ledgers(out);
	fclose(out);
	text = written(&stat);
	assert_non_null(strstr(text, wanted));
	free(text);
	free(wanted);
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		n++;
	return n;
}

static void no_more_clients_than_are_shown(void **state)
{
	struct stat_client client[CLIENTS_SHOWN + 1] = {0};
	struct daemon_stat stat = {.source = "s", .durability = "d", .client = client};

	(void)state;
	for (unsigned i = 0; i <= CLIENTS_SHOWN; i++)
		client[i].peer = client[i].filter = "";
	for (unsigned i = 0; i < 2; i++) {
		char *text;

		stat.clients = CLIENTS_SHOWN + i;
		text = written(&stat);
		assert_int_equal(count(text, "\"peer\":"), CLIENTS_SHOWN);
		free(text);
	}
}

static void the_busiest_processes_first(void **state)
{
	const struct daemon_stat stat = {.source = "s", .durability = "d"};
	char *text, *wanted = NULL;
	size_t bytes;
	FILE *out = open_memstream(&wanted, &bytes);

	(void)state;
	set_meters(PROCESSES_SHOWN + 3);
	put_meters(out, PROCESSES_SHOWN + 1, PROCESSES_SHOWN);	/* the last has no weight */
	fclose(out);
	text = written(&stat);
	assert_non_null(strstr(text, wanted));
	free(text);
	free(wanted);
}

/* Calls are left out, and nothing is read from where there is nothing. */
static void without_memory_for_calls(void **state)
{
	const struct daemon_stat stat = {.source = "s", .durability = "d"};

	(void)state;
	set_meters(0);
	for (unsigned n = 0; n < 2; n++) {
		char *text = NULL;
		size_t bytes;
		FILE *out = open_memstream(&text, &bytes);

		setvbuf(out, NULL, _IOFBF, 1 << 16);
		allocations_left = n;
		failures_left = 1;
		http_live_write(&stat, NULL, out);
		failures_left = allocations_left = 0;
		fclose(out);
		assert_non_null(strstr(text, "\"calls\":[],\"syscalls\":0,\"errors\":0"));
		free(text);
	}
}

/* ---- The last minutes ------------------------------------------------------------------------ */

static struct event *tick;
static event_callback_fn on_tick;
static void *tick_context;

struct event *__real_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn call,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn call,
			       void *context);
struct event *__wrap_event_new(struct event_base *base, evutil_socket_t fd, short what, event_callback_fn call,
			       void *context)
{
	assert_int_equal(what, EV_PERSIST);
	on_tick = call;
	tick_context = context;
	tick = __real_event_new(base, fd, what, call, context);
	return tick;
}

static void pass_second(uint64_t calls_more, uint64_t waits_more)
{
	realtime_ns += NS_PER_S;
	durations.bucket[2] += calls_more;
	latency.bucket[4] += waits_more;
	on_tick(-1, EV_TIMEOUT, tick_context);
}

static char *history_text(const struct http_history *history)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	http_history_write(history, out);
	fclose(out);
	return text;
}

static void put_second(FILE *out, uint64_t ms, uint64_t calls_more, uint64_t waits_more)
{
	const uint64_t duration[METER_BUCKETS] = {[2] = calls_more}, wait[METER_BUCKETS] = {[4] = waits_more};

	fprintf(out, "{\"at\":%" PRIu64 ",\"duration\":[", ms);
	put_buckets(out, duration);
	fputs("],\"sched_latency\":[", out);
	put_buckets(out, wait);
	fputs("]}", out);
}

static void each_second_has_its_own_share(void **state)
{
	struct event_base *base = event_base_new();
	struct http_history *history = http_history_create(base, NULL);
	char *text, *wanted = NULL;
	struct timeval due;
	size_t bytes;
	FILE *out = open_memstream(&wanted, &bytes);

	(void)state;
	assert_non_null(history);
	assert_true(event_pending(tick, EV_TIMEOUT, &due));
	text = history_text(history);
	assert_string_equal(text, "[]\n");
	free(text);
	durations = latency = (struct meter_sum){0};
	realtime_ns = 1000 * NS_PER_S;
	pass_second(3, 5);
	pass_second(7, 0);
	putc('[', out);
	put_second(out, 1001000, 3, 5);
	putc(',', out);
	put_second(out, 1002000, 7, 0);
	fputs("]\n", out);
	fclose(out);
	text = history_text(history);
	assert_string_equal(text, wanted);
	free(text);
	/* As many as are kept, and then the oldest goes. */
	for (unsigned i = 2; i < HTTP_HISTORY_SECONDS; i++)
		pass_second(1, 1);
	text = history_text(history);
	assert_int_equal(count(text, "\"at\""), HTTP_HISTORY_SECONDS);
	assert_int_equal(strncmp(text, "[{\"at\":1001000,", 15), 0);
	free(text);
	pass_second(1, 1);
	text = history_text(history);
	assert_int_equal(count(text, "\"at\""), HTTP_HISTORY_SECONDS);
	assert_int_equal(strncmp(text, "[{\"at\":1002000,", 15), 0);
	free(text);
	free(wanted);
	http_history_destroy(history);
	http_history_destroy(NULL);
	event_base_free(base);
}

static void no_memory_for_a_history(void **state)
{
	struct event_base *base = event_base_new();

	(void)state;
	failures_left = 1;
	assert_null(http_history_create(base, NULL));
	failures_left = 0;
	event_base_free(base);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(with_nothing),
		cmocka_unit_test(each_ledger_under_its_own_names),
		cmocka_unit_test(no_more_clients_than_are_shown),
		cmocka_unit_test(the_busiest_processes_first),
		cmocka_unit_test(without_memory_for_calls),
		cmocka_unit_test(each_second_has_its_own_share),
		cmocka_unit_test(no_memory_for_a_history),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
