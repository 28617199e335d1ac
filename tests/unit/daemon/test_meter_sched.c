/*
 * meter_sched: every wait of a random history is found, with its length and its reason, however its
 * events come in: by CPU, in passes, by several workers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/collect/meter_sched.h"

#define CPUS		4
#define THREADS		40
#define STEPS		20000
#define PASSES		50

static const uint32_t states[] = {0x100, 0x1, 0x2, 0x80, 0x4};
static const enum off_reason reasons[] = {OFF_PREEMPTED, OFF_SLEEPING, OFF_BLOCKED, OFF_IDLE,
					  OFF_OTHER};

struct expected {
	uint64_t latency, latency_ns;
	uint64_t off_cpu[OFF_REASONS], off_cpu_ns[OFF_REASONS];
};

static uint64_t count_of(const struct meter_histogram *histogram)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < METER_CELLS; i++)
		count += histogram->cell[i];
	return count;
}

static void check(const struct meter_sched *sched, const struct expected *expected)
{
	const struct meter_sched_totals *totals = meter_sched_totals(sched);

	assert_int_equal(count_of(&totals->latency), expected->latency);
	assert_int_equal(totals->latency.sum_ns, expected->latency_ns);
	for (unsigned i = 0; i < OFF_REASONS; i++) {
		assert_int_equal(count_of(&totals->off_cpu[i]), expected->off_cpu[i]);
		assert_int_equal(totals->off_cpu[i].sum_ns, expected->off_cpu_ns[i]);
	}
}

static int by_key(const void *a, const void *b)
{
	const struct sched_event *left = a, *right = b;

	return (left->key > right->key) - (left->key < right->key);
}

static void test_sort(void **state)
{
	struct sched_event event[1000], copy[1000], scratch[1000];

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		uint32_t n = (uint32_t)rand() % 1000;

		for (uint32_t i = 0; i < n; i++) {
			/* A few runs that grow, as rings give them, or no order at all. */
			uint64_t time = round % 2 ? (uint64_t)rand() : i * 7 % 300 + i / 300;

			copy[i] = event[i] = sched_event_make(SCHED_WAKE, time, i, 0);
		}
		meter_sched_sort(event, n, scratch);
		qsort(copy, n, sizeof(copy[0]), by_key);
		for (uint32_t i = 0; i < n; i++)
			assert_int_equal(event[i].key, copy[i].key);
		for (uint32_t i = 1; i < n; i++)
			assert_true(event[i - 1].key < event[i].key ||
				    event[i - 1].tid < event[i].tid);
	}
}

/* ---- A history ------------------------------------------------------------------------------- */

struct thread {
	enum {ON_CPU, WAITING, WOKEN} state;
	uint32_t reason;
	uint64_t out_ns, wake_ns;
};

static struct sched_event *history[CPUS];
static uint32_t events[CPUS];

static void tell(uint32_t cpu, struct sched_event event)
{
	history[cpu][events[cpu]++] = event;
}

/* In order of time, each thread anywhere: what a real machine could do. */
static void make_history(struct expected *expected)
{
	struct thread thread[THREADS] = {{0}};
	uint64_t now = 1000;

	memset(expected, 0, sizeof(*expected));
	for (uint32_t i = 0; i < CPUS; i++) {
		free(history[i]);
		history[i] = calloc(STEPS, sizeof(*history[i]));
		events[i] = 0;
	}
	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t tid = (uint32_t)rand() % THREADS, cpu = (uint32_t)rand() % CPUS;
		struct thread *one = &thread[tid];

		now += 1 + (uint64_t)rand() % 5000;
		if (one->state == ON_CPU) {
			one->reason = (uint32_t)rand() % OFF_REASONS;
			one->out_ns = now;
			one->state = reasons[one->reason] == OFF_PREEMPTED ? WOKEN : WAITING;
			one->wake_ns = 0;
			tell(cpu, sched_event_make(SCHED_OUT, now, tid + 1, states[one->reason]));
		} else if (one->state == WAITING || rand() % 4 == 0) {
			/* One that is woken already may be woken again: its wait is no shorter. */
			if (!one->wake_ns)
				one->wake_ns = now;
			one->state = WOKEN;
			tell(cpu, sched_event_make(SCHED_WAKE, now, tid + 1, 0));
		} else {
			enum off_reason reason = reasons[one->reason];

			one->state = ON_CPU;
			tell(cpu, sched_event_make(SCHED_IN, now, tid + 1, 0));
			if (one->wake_ns) {
				expected->latency++;
				expected->latency_ns += now - one->wake_ns;
			}
			expected->off_cpu[reason]++;
			expected->off_cpu_ns[reason] += now - one->out_ns;
		}
	}
}

/* Each worker has its CPUs, and sees more of one than of another in a pass. */
static void play(struct meter_sched *sched, unsigned workers)
{
	static struct sched_event batch[CPUS * STEPS], scratch[CPUS * STEPS];
	uint32_t at[CPUS] = {0};

	for (unsigned pass = 1; pass <= PASSES; pass++)
		for (unsigned i = 0; i < workers; i++) {
			unsigned worker = (i + pass) % workers;
			uint64_t watermark = UINT64_MAX;
			uint32_t n = 0;

			for (uint32_t cpu = worker; cpu < CPUS; cpu += workers) {
				uint32_t end = pass == PASSES ? events[cpu] : events[cpu] * pass /
					PASSES + (uint32_t)rand() % 20;

				while (at[cpu] < events[cpu] && at[cpu] < end)
					batch[n++] = history[cpu][at[cpu]++];
				if (at[cpu] < events[cpu] &&
				    history[cpu][at[cpu]].key >> 2 < watermark)
					watermark = history[cpu][at[cpu]].key >> 2;
			}
			meter_sched_sort(batch, n, scratch);
			meter_sched_pass(sched, worker, batch, n, watermark);
		}
}

static void test_histories(void **state)
{
	(void)state;
	for (unsigned workers = 1; workers <= CPUS; workers++)
		for (unsigned round = 0; round < 5; round++) {
			uint64_t unmatched = counter_read(COUNTER_meter_switches_unmatched);
			struct meter_sched *sched = meter_sched_create(workers);
			struct expected expected;

			assert_non_null(sched);
			make_history(&expected);
			/* Every thread is on a CPU at first, and nobody saw it come. */
			play(sched, workers);
			check(sched, &expected);
			assert_int_equal(counter_read(COUNTER_meter_switches_unmatched), unmatched);
			meter_sched_destroy(sched);
		}
}

/* ---- Single cases ---------------------------------------------------------------------------- */

static struct meter_sched *feed(const struct sched_event *event, uint32_t n)
{
	struct meter_sched *sched = meter_sched_create(1);

	assert_non_null(sched);
	meter_sched_pass(sched, 0, event, n, UINT64_MAX);
	return sched;
}

#define FEED(...) \
	feed((struct sched_event[]){__VA_ARGS__}, \
	     sizeof((struct sched_event[]){__VA_ARGS__}) / sizeof(struct sched_event))

static void test_woken_while_it_ran(void **state)
{
	struct expected expected = {.off_cpu[OFF_PREEMPTED] = 1, .off_cpu_ns[OFF_PREEMPTED] = 5};
	struct meter_sched *sched = FEED(sched_event_make(SCHED_WAKE, 10, 7, 0),
					 sched_event_make(SCHED_OUT, 20, 7, 0x100),
					 sched_event_make(SCHED_IN, 25, 7, 0));

	(void)state;
	check(sched, &expected);
	meter_sched_destroy(sched);
}

static void test_at_the_same_time(void **state)
{
	struct expected expected = {.latency = 1, .off_cpu[OFF_SLEEPING] = 1,
				    .off_cpu_ns[OFF_SLEEPING] = 20};
	struct sched_event event[3] = {sched_event_make(SCHED_IN, 30, 7, 0),
				       sched_event_make(SCHED_WAKE, 30, 7, 0),
				       sched_event_make(SCHED_OUT, 10, 7, 1)}, scratch[3];
	struct meter_sched *sched;

	(void)state;
	meter_sched_sort(event, 3, scratch);
	sched = feed(event, 3);
	check(sched, &expected);
	meter_sched_destroy(sched);
}

static void test_dead_do_not_come_back(void **state)
{
	struct expected expected = {0};
	uint64_t unmatched = counter_read(COUNTER_meter_switches_unmatched);
	/* The tid is another thread's then. */
	struct meter_sched *sched = FEED(sched_event_make(SCHED_WAKE, 5, 7, 0),
					 sched_event_make(SCHED_OUT, 10, 7, 0x20),
					 sched_event_make(SCHED_IN, 30, 7, 0));

	(void)state;
	check(sched, &expected);
	assert_int_equal(counter_read(COUNTER_meter_switches_unmatched), unmatched + 1);
	meter_sched_destroy(sched);
}

static void test_came_back_unseen(void **state)
{
	struct expected expected = {.off_cpu[OFF_SLEEPING] = 1, .off_cpu_ns[OFF_SLEEPING] = 3};
	uint64_t unmatched = counter_read(COUNTER_meter_switches_unmatched);
	struct meter_sched *sched = FEED(sched_event_make(SCHED_OUT, 10, 7, 1),
					 sched_event_make(SCHED_OUT, 20, 7, 1),
					 sched_event_make(SCHED_IN, 23, 7, 0));

	(void)state;
	check(sched, &expected);
	assert_int_equal(counter_read(COUNTER_meter_switches_unmatched), unmatched + 1);
	meter_sched_destroy(sched);
}

static void test_nothing_is_trusted_across_a_loss(void **state)
{
	struct expected expected = {.off_cpu[OFF_BLOCKED] = 1, .off_cpu_ns[OFF_BLOCKED] = 4};
	struct meter_sched *sched = FEED(sched_event_make(SCHED_OUT, 10, 7, 1),
					 sched_event_make(SCHED_LOSS, 15, 0, 0),
					 sched_event_make(SCHED_IN, 30, 7, 0),
					 sched_event_make(SCHED_OUT, 40, 7, 2),
					 sched_event_make(SCHED_IN, 44, 7, 0));

	(void)state;
	check(sched, &expected);
	meter_sched_destroy(sched);
}

static void test_too_many_threads(void **state)
{
	uint64_t evicted = counter_read(COUNTER_meter_threads_evicted);
	struct meter_sched *sched = meter_sched_create(1);
	const uint32_t threads = 40000;
	uint64_t found;

	(void)state;
	for (uint32_t i = 1; i <= threads; i++) {
		struct sched_event event = sched_event_make(SCHED_OUT, i, i, 1);

		meter_sched_pass(sched, 0, &event, 1, UINT64_MAX);
	}
	evicted = counter_read(COUNTER_meter_threads_evicted) - evicted;
	assert_true(evicted > 0);
	for (uint32_t i = 1; i <= threads; i++) {
		struct sched_event event = sched_event_make(SCHED_IN, threads + i, i, 0);

		meter_sched_pass(sched, 0, &event, 1, UINT64_MAX);
	}
	found = count_of(&meter_sched_totals(sched)->off_cpu[OFF_SLEEPING]);
	assert_int_equal(found + evicted, threads);
	meter_sched_destroy(sched);
}

/* A worker that does not come on holds the others back, up to a bound. */
static void test_too_many_events(void **state)
{
	static struct sched_event event[METER_SCHED_EVENTS_MAX];
	uint64_t unordered = counter_read(COUNTER_meter_events_unordered);
	struct meter_sched *sched = meter_sched_create(2);
	uint64_t time = 1;

	(void)state;
	for (unsigned pass = 0; pass <= METER_SCHED_PENDING_MAX / METER_SCHED_EVENTS_MAX; pass++) {
		for (uint32_t i = 0; i < METER_SCHED_EVENTS_MAX; i += 2, time += 2) {
			event[i] = sched_event_make(SCHED_OUT, time, 7, 1);
			event[i + 1] = sched_event_make(SCHED_IN, time + 1, 7, 0);
		}
		assert_int_equal(count_of(&meter_sched_totals(sched)->off_cpu[OFF_SLEEPING]), 0);
		meter_sched_pass(sched, 0, event, METER_SCHED_EVENTS_MAX, time);
	}
	assert_int_equal(counter_read(COUNTER_meter_events_unordered) - unordered,
			 METER_SCHED_PENDING_MAX);
	assert_int_equal(count_of(&meter_sched_totals(sched)->off_cpu[OFF_SLEEPING]),
			 METER_SCHED_PENDING_MAX / 2);
	meter_sched_destroy(sched);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sort),
		cmocka_unit_test(test_histories),
		cmocka_unit_test(test_woken_while_it_ran),
		cmocka_unit_test(test_at_the_same_time),
		cmocka_unit_test(test_dead_do_not_come_back),
		cmocka_unit_test(test_came_back_unseen),
		cmocka_unit_test(test_nothing_is_trusted_across_a_loss),
		cmocka_unit_test(test_too_many_threads),
		cmocka_unit_test(test_too_many_events),
	};
	const char *given = getenv("RINGTAIL_SEED");
	unsigned seed = given ? (unsigned)strtoul(given, NULL, 0) : (unsigned)time(NULL);
	int failed;

	printf("seed %u\n", seed);
	srand(seed);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	for (unsigned i = 0; i < CPUS; i++)
		free(history[i]);
	return failed;
}
