/*
 * meter: what events add to what, who is charged for them, and what is kept of slow calls; and the
 * metrics made of it, with their bound on series.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/metrics/kernel.h"
#include "daemon/metrics/format.h"
#include "tests/unit/daemon/small_catalog.h"

#define SECOND 1000000000ull

struct bench {
	struct meters *meters;
	struct meter *meter;
	struct meter_ring ring;
	struct thread_table *threads;
	struct probe_set probes;
	uint64_t now, seq;
};

static struct bench *bench_create(unsigned workers, bool comm)
{
	struct bench *bench = calloc(1, sizeof(*bench));
	struct meters_config config = {
		.workers = workers,
		.catalog = small_catalog_get(),
		.probes = &bench->probes,
		.slow_ns = 1000000,
		.comm = comm,
	};

	for (uint32_t i = RT_PROBE_EVENT_MIN; i < RT_PROBE_MAX; i++)
		probe_set_add(&bench->probes, i);
	bench->meters = meters_create(&config);
	bench->threads = thread_table_create(1000);
	assert_non_null(bench->meters);
	bench->meter = meters_get(bench->meters, 0);
	bench->ring.cpu = 3;
	bench->now = 1000;
	return bench;
}

static void bench_destroy(struct bench *bench)
{
	meters_destroy(bench->meters);
	thread_table_destroy(bench->threads);
	free(bench);
}

static void learn(struct bench *bench, uint32_t tid, uint32_t pid, const char *comm)
{
	struct rt_thread thread = {.pid = pid};

	memcpy(thread.comm, comm, strlen(comm));
	thread_table_learn(bench->threads, tid, &thread);
}

static void take(struct bench *bench, uint32_t tid, uint32_t probe, const uint64_t *payload,
		 uint16_t words)
{
	struct ring_item item = {
		.seq = bench->seq++, .time_ns = bench->now++, .tid = tid, .probe = (uint16_t)probe,
		.words = words, .payload = payload,
	};

	meter_event(bench->meter, &bench->ring, &item, bench->threads,
		    thread_table_find(bench->threads, tid));
}

static void call(struct bench *bench, uint32_t tid, uint32_t probe, uint64_t ns, int64_t ret)
{
	take(bench, tid, probe, (uint64_t[]){ns, (uint64_t)ret}, 2);
}

static void end_pass(struct bench *bench)
{
	meter_end_run(bench->meter, &bench->ring, bench->threads, bench->now);
	meter_end_pass(bench->meter, bench->now, bench->now);
}

static void test_buckets(void **state)
{
	(void)state;
	assert_int_equal(meter_bucket_of(0), 0);
	assert_int_equal(meter_bucket_of(256), 0);
	assert_int_equal(meter_bucket_of(257), 1);
	for (unsigned i = 0; i < METER_BUCKET_BOUNDS; i++) {
		uint64_t bound = 1ull << (METER_BUCKET_MIN_SHIFT + i);

		assert_int_equal(meter_bucket_of(bound), i);
		assert_int_equal(meter_bucket_of(bound + 1), i + 1);
		assert_true(meter_bucket_seconds(i) == (double)bound / 1e9);
	}
	assert_int_equal(meter_bucket_of(UINT64_MAX), METER_BUCKET_BOUNDS);
}

/* 2^(i/8), i from -400 on: by eighths' roots of two, and doubling. */
static long double bound_of(int i)
{
	static const long double part[8] = {
		1.0L, 1.0905077326652576592070106557607L, 1.1892071150027210667174999705605L,
		1.2968395546510096659337541177925L, 1.4142135623730950488016887242097L,
		1.5422108254079408236122918620907L, 1.6817928305074290860622509524664L,
		1.8340080864093424634870831895883L,
	};
	long double bound = part[(i + 400) % 8];

	for (int whole = (i + 400) / 8 - 50; whole; whole += whole < 0 ? 1 : -1)
		bound *= whole < 0 ? 0.5L : 2.0L;
	return bound;
}

/* In the bucket of either kind that it belongs to, as somebody else computes those. */
static void check_cell(uint64_t ns)
{
	unsigned cell = meter_cell_of(ns);
	long double seconds = (long double)ns / 1e9L;
	int native = meter_native_of_cell(cell);

	assert_in_range(cell, 0, METER_CELLS - 1);
	assert_int_equal(meter_bucket_of_cell(cell), meter_bucket_of(ns));
	assert_true((cell == 0) == (seconds <= (long double)METER_NATIVE_ZERO_SECONDS));
	if (cell && cell < METER_CELLS - 1) {
		assert_true(seconds > bound_of(native - 1));
		assert_true(seconds <= bound_of(native));
	}
}

/* The same without a table of slots: where a process is new and there is no room, it takes the least busy one's. */
static void add_plainly(struct top_entry *entry, uint32_t *n, const struct top_entry *from)
{
	struct top_entry *mine = NULL;

	for (uint32_t i = 0; i < *n; i++)
		if (entry[i].pid == from->pid)
			mine = &entry[i];
	if (!mine && *n < METER_PROCESSES_MAX) {
		mine = &entry[(*n)++];
		*mine = (struct top_entry){.pid = from->pid};
	}
	if (!mine) {
		mine = entry;
		for (uint32_t i = 1; i < *n; i++)
			if (entry[i].weight < mine->weight)
				mine = &entry[i];
		*mine = (struct top_entry){.pid = from->pid, .weight = mine->weight};
	}
	memcpy(mine->comm, from->comm, sizeof(mine->comm));
	mine->calls += from->calls;
	mine->errors += from->errors;
	mine->cpu_ns += from->cpu_ns;
	mine->weight += from->calls * 256 + from->cpu_ns;
}

static void test_top_of_any_load(void **state)
{
	static struct meter_top top;
	static struct top_entry plain[METER_PROCESSES_MAX];
	uint32_t n = 0, random = 1;

	(void)state;
	for (unsigned i = 0; i < 60000; i++) {
		struct top_entry from = {.comm = "a"};

		random = random * 1664525 + 1013904223;
		/* Few that are busy, many that are not; numbers in a row, and far apart. */
		from.pid = random >> 31 ? 1 + (random >> 20 & 63) : 1 + (random >> 8 & 0x3ff) * (random & 128 ? 1 : 4051);
		from.calls = random >> 4 & 7;
		from.errors = random >> 7 & 1;
		from.cpu_ns = random >> 12 & 0xfff;
		from.comm[0] = (char)('a' + i % 26);
		meter_top_add(&top, &from);
		add_plainly(plain, &n, &from);
		if (i % 64 == 0 || i > 59900) {
			assert_int_equal(top.entries, n);
			assert_memory_equal(top.entry, plain, n * sizeof(plain[0]));
		}
	}
	assert_int_equal(n, METER_PROCESSES_MAX);
}

static void test_cells(void **state)
{
	unsigned last = 0;

	(void)state;
	for (uint64_t ns = 0; ns < 5000; ns++)
		check_cell(ns);
	for (unsigned shift = 8; shift < 63; shift++)
		for (int i = -2; i <= 2; i++)
			check_cell((1ull << shift) + (uint64_t)i);
	for (int i = -176; i <= 97; i++)
		for (int j = -2; j <= 2; j++)
			check_cell((uint64_t)((int64_t)(1e9L * bound_of(i)) + j));
	check_cell(UINT64_MAX);
	for (uint64_t ns = 1; ns < 1ull << 43; ns += ns / 50 + 1) {
		assert_in_range(meter_cell_of(ns), last, last + 2);	/* one is narrow */
		last = meter_cell_of(ns);
	}
	assert_int_equal(last, METER_CELLS - 1);
}

static void test_calls(void **state)
{
	struct bench *bench = bench_create(1, false);
	struct meter_call_sum sum;

	(void)state;
	assert_false(meters_read_call(bench->meters, 0, &sum));
	for (unsigned i = 0; i < 100; i++)
		call(bench, 7, SMALL_READ, 300, 5);
	call(bench, 7, SMALL_READ, 10, -EAGAIN);
	call(bench, 7, SMALL_READ, 10, -512);
	call(bench, 7, SMALL_READ, 10, -516);
	call(bench, 7, SMALL_READ, 10, -4000);
	call(bench, 7, SMALL_READ, 10, -4096);	/* no errno: an address */
	call(bench, 7, SMALL_READ, 10, INT64_MIN);
	call(bench, 7, SMALL_EXIT, RT_DURATION_NEVER, 0);
	assert_true(meters_read_call(bench->meters, 0, &sum));
	assert_int_equal(sum.duration.count, 106);
	assert_int_equal(sum.duration.bucket[1], 100);
	assert_int_equal(sum.duration.bucket[0], 6);
	assert_int_equal(sum.duration.sum_ns, 100 * 300 + 60);
	assert_int_equal(sum.errors, 4);
	assert_int_equal(sum.error[EAGAIN], 1);
	assert_int_equal(sum.error[METER_ERRNO_RESTART], 1);
	assert_int_equal(sum.error[METER_ERRNO_RESTART + 4], 1);
	assert_int_equal(sum.error[METER_ERRNO_OTHER], 1);
	assert_true(meters_read_call(bench->meters, 231, &sum));
	assert_int_equal(sum.never, 1);
	assert_int_equal(sum.duration.count, 0);
	assert_string_equal(meters_call_name(bench->meters, 257), "openat");
	assert_null(meters_call_name(bench->meters, 1));
	assert_null(meters_call_name(bench->meters, RT_SYSCALLS_MAX));
	bench_destroy(bench);
}

static void test_only_what_is_metered(void **state)
{
	struct bench *bench = bench_create(1, false);
	struct probe_set probes = {0};
	struct meter_call_sum sum;

	(void)state;
	probe_set_add(&probes, SMALL_OPENAT);
	meters_set_probes(bench->meters, &probes);
	call(bench, 7, SMALL_READ, 300, 5);
	call(bench, 7, SMALL_OPENAT, 300, 5);
	call(bench, 7, SMALL_OPENAT_ENTRY, 300, 5);
	assert_false(meters_read_call(bench->meters, 0, &sum));
	assert_true(meters_read_call(bench->meters, 257, &sum));
	assert_int_equal(sum.duration.count, 1);
	bench_destroy(bench);
}

static void test_slow_calls(void **state)
{
	struct bench *bench = bench_create(1, false);
	struct meter_slow_call slow;

	(void)state;
	call(bench, 7, SMALL_READ, 999999, 0);
	assert_false(meters_read_slow(bench->meters, 0, meter_bucket_of(999999), &slow));
	call(bench, 7, SMALL_READ, 1000000, 0);
	call(bench, 7, SMALL_READ, 1000001, 0);
	assert_true(meters_read_slow(bench->meters, 0, meter_bucket_of(1000000), &slow));
	assert_int_equal(slow.cpu, 3);
	assert_int_equal(slow.seq, 2);
	assert_int_equal(slow.duration_ns, 1000001);
	assert_int_equal(slow.time_ns, 1002);
	meters_set_slow(bench->meters, 10);
	call(bench, 7, SMALL_READ, 10, 0);
	assert_true(meters_read_slow(bench->meters, 0, 0, &slow));
	/* Another ring, read later, was earlier: what is kept does not go back. */
	bench->now = 500;
	call(bench, 7, SMALL_READ, 1000000, 0);
	assert_true(meters_read_slow(bench->meters, 0, meter_bucket_of(1000000), &slow));
	assert_int_equal(slow.time_ns, 1002);
	bench_destroy(bench);
}

static struct top_entry *find(struct top_entry *entry, uint32_t n, uint32_t pid)
{
	for (uint32_t i = 0; i < n; i++)
		if (entry[i].pid == pid)
			return &entry[i];
	return NULL;
}

static void test_who_is_charged(void **state)
{
	struct bench *bench = bench_create(1, false);
	struct top_entry top[METER_PROCESSES_MAX], *one;
	uint64_t span;
	uint32_t n;

	(void)state;
	learn(bench, 11, 10, "two threads");
	learn(bench, 12, 10, "two threads");
	learn(bench, 20, 20, "sixteen bytes xx");
	end_pass(bench);		/* the first second begins */
	bench->now += SECOND;
	end_pass(bench);
	for (unsigned i = 0; i < 5; i++) {
		call(bench, 11, SMALL_READ, 10, 0);
		call(bench, 12, SMALL_READ, 10, -ENOENT);
		call(bench, 20, SMALL_READ, 10, 0);
	}
	/* 20 comes on, runs for 500 ns, and gives way to 11, which is still there in the end. */
	take(bench, 12, RT_PROBE_SCHED_SWITCH, (uint64_t[]){0, 1, 20, 0}, 4);
	bench->now += 499;
	take(bench, 20, RT_PROBE_SCHED_SWITCH, (uint64_t[]){0, 1, 11, 0}, 4);
	bench->now += SECOND - 1;
	end_pass(bench);
	n = meters_read_top(bench->meters, top, &span);
	assert_true(span >= SECOND);
	one = find(top, n, 10);
	assert_int_equal(one->calls, 10);
	assert_int_equal(one->errors, 5);
	assert_int_equal(one->cpu_ns, SECOND);
	one = find(top, n, 20);
	assert_int_equal(one->calls, 5);
	assert_int_equal(one->cpu_ns, 500);
	assert_memory_equal(one->comm, "sixteen bytes xx", RT_COMM_BYTES);
	/* After a loss nobody knows who runs. */
	meter_loss(bench->meter, &bench->ring);
	bench->now += SECOND;
	end_pass(bench);
	n = meters_read_top(bench->meters, top, &span);
	assert_int_equal(n, 0);
	bench_destroy(bench);
}

/* A CPU without work runs a thread 0 of its own, which wakes others and gives way to them. */
static void test_an_idle_cpu_is_no_process(void **state)
{
	struct bench *bench = bench_create(1, false);
	struct top_entry top[METER_PROCESSES_MAX], *one;
	uint64_t span;
	uint32_t n;

	(void)state;
	learn(bench, 0, 0, "swapper/0");
	learn(bench, 20, 20, "works");
	end_pass(bench);
	bench->now += SECOND;
	end_pass(bench);
	take(bench, 20, RT_PROBE_SCHED_SWITCH, (uint64_t[]){0, 1, 0, 0}, 4);
	bench->now += 9999;
	take(bench, 0, RT_PROBE_SCHED_WAKEUP, (uint64_t[]){20, 0, 0}, 3);
	bench->now += 4999;
	take(bench, 0, RT_PROBE_SCHED_SWITCH, (uint64_t[]){0, 0, 20, 0}, 4);
	bench->now += 499;
	take(bench, 20, RT_PROBE_SCHED_SWITCH, (uint64_t[]){0, 1, 0, 0}, 4);
	bench->now += SECOND;
	end_pass(bench);
	n = meters_read_top(bench->meters, top, &span);
	assert_int_equal(n, 1);
	one = find(top, n, 20);
	assert_non_null(one);
	assert_int_equal(one->cpu_ns, 500);
	bench_destroy(bench);
}

static void test_switches_and_waits(void **state)
{
	struct bench *bench = bench_create(1, false);
	struct meter_sum sum;

	(void)state;
	take(bench, 7, RT_PROBE_SCHED_SWITCH, (uint64_t[]){0, 1, 0, 0}, 4);
	bench->now += 99;
	take(bench, 0, RT_PROBE_SCHED_WAKEUP, (uint64_t[]){7, 0, 0}, 3);
	bench->now += 49;
	take(bench, 0, RT_PROBE_SCHED_SWITCH, (uint64_t[]){0, 0, 7, 0}, 4);
	take(bench, 7, RT_PROBE_SCHED_FORK, (uint64_t[]){8, 8}, 2);
	take(bench, 7, RT_PROBE_SCHED_EXEC, (uint64_t[]){7, 0}, 2);
	take(bench, 7, RT_PROBE_SCHED_EXIT, (uint64_t[]){0, 1}, 2);
	end_pass(bench);
	assert_int_equal(meters_read_count(bench->meters, METER_SWITCHES), 2);
	assert_int_equal(meters_read_count(bench->meters, METER_WAKEUPS), 1);
	assert_int_equal(meters_read_count(bench->meters, METER_FORKS), 1);
	assert_int_equal(meters_read_count(bench->meters, METER_EXECS), 1);
	assert_int_equal(meters_read_count(bench->meters, METER_EXITS), 1);
	meters_read_latency(bench->meters, &sum);
	assert_int_equal(sum.count, 1);
	assert_int_equal(sum.sum_ns, 50);
	meters_read_off_cpu(bench->meters, OFF_SLEEPING, &sum);
	assert_int_equal(sum.count, 1);
	assert_int_equal(sum.sum_ns, 150);
	bench_destroy(bench);
}

/* Whoever is busy stays in the table, whatever number of others come by. */
static void test_heavy_hitters(void **state)
{
	static struct meter_top top;
	uint64_t weight = 0;

	(void)state;
	memset(&top, 0, sizeof(top));
	for (uint32_t i = 0; i < 100000; i++) {
		meter_top_add(&top, &(struct top_entry){.pid = 1000 + i, .calls = 1});
		if (i % 20 == 0)
			meter_top_add(&top, &(struct top_entry){.pid = 1, .calls = 1,
								.cpu_ns = 1000});
	}
	assert_int_equal(top.entries, METER_PROCESSES_MAX);
	assert_non_null(find(top.entry, top.entries, 1));
	for (uint32_t i = 0; i < top.entries; i++) {
		weight += top.entry[i].weight;
		assert_ptr_equal(find(top.entry, top.entries, top.entry[i].pid), &top.entry[i]);
		meter_top_add(&top, &(struct top_entry){.pid = top.entry[i].pid});
	}
	assert_int_equal(top.entries, METER_PROCESSES_MAX);
	/* Nothing of the weight is lost to those that went. */
	assert_int_equal(weight, 100000 * 256 + 5000 * 1256);
}

/* Each worker has its own meter: what is read is of all of them. */
static void test_workers_are_summed(void **state)
{
	static struct meter_comm_sum comm[METER_COMMS_MAX + 1];
	struct bench *bench = bench_create(2, true);
	struct meter_call_sum sum;
	struct meter_slow_call slow;
	uint32_t comms;

	(void)state;
	learn(bench, 7, 7, "one");
	for (unsigned i = 0; i < 2; i++) {
		bench->meter = meters_get(bench->meters, i);
		bench->ring = (struct meter_ring){.cpu = i};
		call(bench, 7, SMALL_READ, 2000000, -133);
		call(bench, 7, SMALL_READ, RT_DURATION_NEVER, 0);
		call(bench, 8, SMALL_OPENAT, 0, 0);
		take(bench, 7, RT_PROBE_SCHED_FORK, (uint64_t[]){8, 8}, 2);
		end_pass(bench);
	}
	assert_true(meters_read_call(bench->meters, 0, &sum));
	assert_int_equal(sum.duration.count, 2);
	assert_int_equal(sum.duration.sum_ns, 2 * 2000000);
	assert_int_equal(sum.never, 2);
	assert_int_equal(sum.error[METER_ERRNO_LAST], 2);
	assert_int_equal(meters_read_count(bench->meters, METER_FORKS), 2);
	/* Calls that took no time are calls. */
	assert_true(meters_read_call(bench->meters, 257, &sum));
	assert_int_equal(sum.duration.count, 2);
	assert_true(meters_read_slow(bench->meters, 0, meter_bucket_of(2000000), &slow));
	assert_int_equal(slow.cpu, 1);		/* the newest */
	comms = meters_read_comms(bench->meters, comm);
	assert_int_equal(comms, 2);
	assert_int_equal(comm[0].calls, 4);
	assert_int_equal(comm[1].calls, 2);	/* of a thread that nobody knows */
	bench_destroy(bench);
}

static void test_names_that_begin_alike(void **state)
{
	static struct meter_comm_sum comm[METER_COMMS_MAX + 1];
	struct bench *bench = bench_create(1, true);
	uint32_t comms;

	(void)state;
	learn(bench, 7, 7, "worker-1/a");
	learn(bench, 8, 8, "worker-1/b");
	call(bench, 7, SMALL_READ, 300, 0);
	for (unsigned i = 0; i < 2; i++)
		call(bench, 8, SMALL_READ, 300, 0);
	end_pass(bench);
	comms = meters_read_comms(bench->meters, comm);
	assert_int_equal(comms, 3);		/* the last one is the rest's */
	assert_string_equal(comm[0].comm, "worker-1/a");
	assert_int_equal(comm[0].calls, 1);
	assert_string_equal(comm[1].comm, "worker-1/b");
	assert_int_equal(comm[1].calls, 2);
	assert_int_equal(comm[2].calls, 0);
	bench_destroy(bench);
}

/* A thread that runs on over several passes: each of them adds what came in it alone. */
static void test_errors_are_counted_once(void **state)
{
	struct bench *bench = bench_create(1, false);
	struct top_entry top[METER_PROCESSES_MAX];
	uint64_t span;

	(void)state;
	learn(bench, 7, 7, "one");
	call(bench, 7, SMALL_READ, 300, -EAGAIN);
	end_pass(bench);
	for (unsigned i = 0; i < 2; i++) {
		call(bench, 7, SMALL_READ, 300, 0);
		end_pass(bench);
	}
	bench->now += SECOND;
	end_pass(bench);
	assert_int_equal(meters_read_top(bench->meters, top, &span), 1);
	assert_int_equal(top[0].pid, 7);
	assert_int_equal(top[0].calls, 3);
	assert_int_equal(top[0].errors, 1);
	bench_destroy(bench);
}

/* ---- As metrics ------------------------------------------------------------------------------ */

static char *text_of(struct metric_kernel *kernel, enum metric_format format)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	const struct metric_snapshot *snapshot;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	metric_kernel_add(kernel, builder, 0);
	snapshot = metric_builder_end(builder, 0, 0);
	assert_int_equal(metric_format_write(snapshot, format, out), 0);
	metric_snapshot_destroy(snapshot);
	fclose(out);
	return text;
}

static void assert_lines(struct metric_kernel *kernel, enum metric_format format,
			 const char *const *lines)
{
	char *text = text_of(kernel, format);

	for (; *lines; lines++) {
		char want[256];

		snprintf(want, sizeof(want), "\n%s\n", *lines);
		if (!strstr(text, want))
			fail_msg("no line %s in\n%s", *lines, text);
	}
	free(text);
}

#define LINES(...) ((const char *const[]){__VA_ARGS__, NULL})

static void test_series_have_a_bound(void **state)
{
	struct bench *bench = bench_create(2, true);
	struct metric_kernel_config config = {.meters = bench->meters, .series_max = 2,
					      .comm = true};
	struct metric_kernel *kernel = metric_kernel_create(&config);
	struct meter *first = bench->meter;
	struct meter_ring ring = bench->ring;

	(void)state;
	learn(bench, 7, 7, "a\"\\\n\x80");
	call(bench, 7, SMALL_OPENAT, 300, -ENOENT);
	call(bench, 7, SMALL_KILL, 300, -EPERM);
	end_pass(bench);
	assert_lines(kernel, METRIC_PROMETHEUS,
		     LINES("ringtail_syscalls_total{syscall=\"openat\"} 1",
			   "ringtail_syscalls_total{syscall=\"kill\"} 1",
			   "ringtail_syscall_errors_total{syscall=\"openat\",errno=\"ENOENT\"} 1",
			   "ringtail_comm_syscalls_total{comm=\"\\\\x61\\\\x22\\\\x5c\\\\x0a\\\\x80\"} 2"));
	/* A smaller number that comes later takes nobody's place, nor does another worker's. */
	bench->meter = meters_get(bench->meters, 1);
	memset(&bench->ring, 0, sizeof(bench->ring));
	call(bench, 8, SMALL_READ, 300, -EINTR);
	call(bench, 8, SMALL_EXIT, RT_DURATION_NEVER, 0);
	call(bench, 8, SMALL_OPENAT, 300, -EACCES);
	end_pass(bench);
	bench->meter = first;
	bench->ring = ring;
	assert_lines(kernel, METRIC_OPENMETRICS,
		     LINES("ringtail_syscalls_total{syscall=\"openat\"} 2",
			   "ringtail_syscalls_total{syscall=\"other\"} 2",
			   "ringtail_syscall_duration_seconds_count{syscall=\"other\"} 1",
			   "ringtail_syscall_errors_total{syscall=\"openat\",errno=\"other\"} 1",
			   "ringtail_syscall_errors_total{syscall=\"other\",errno=\"other\"} 1",
			   "ringtail_comm_syscalls_total{comm=\"(all other names)\"} 3"));
	metric_kernel_destroy(kernel);
	bench_destroy(bench);
}

static void test_names_have_a_bound(void **state)
{
	struct bench *bench = bench_create(1, true);
	struct meter_comm_sum comm[METER_COMMS_MAX + 1];
	uint32_t comms;
	uint64_t calls = 0;

	(void)state;
	for (uint32_t i = 1; i <= METER_COMMS_MAX + 10; i++) {
		char name[16];

		snprintf(name, sizeof(name), "name %u", i);
		learn(bench, i, i, name);
		call(bench, i, SMALL_READ, 300, 0);
	}
	end_pass(bench);
	comms = meters_read_comms(bench->meters, comm);
	assert_int_equal(comms, METER_COMMS_MAX + 1);
	for (uint32_t i = 0; i < comms; i++)
		calls += comm[i].calls;
	assert_int_equal(calls, METER_COMMS_MAX + 10);
	assert_string_equal(comm[METER_COMMS_MAX].comm, "");
	assert_int_equal(comm[METER_COMMS_MAX].calls, 10);
	bench_destroy(bench);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_buckets),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_top_of_any_load),
		cmocka_unit_test(test_calls),
		cmocka_unit_test(test_only_what_is_metered),
		cmocka_unit_test(test_slow_calls),
		cmocka_unit_test(test_who_is_charged),
		cmocka_unit_test(test_an_idle_cpu_is_no_process),
		cmocka_unit_test(test_switches_and_waits),
		cmocka_unit_test(test_heavy_hitters),
		cmocka_unit_test(test_workers_are_summed),
		cmocka_unit_test(test_names_that_begin_alike),
		cmocka_unit_test(test_errors_are_counted_once),
		cmocka_unit_test(test_series_have_a_bound),
		cmocka_unit_test(test_names_have_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
