/*
 * What a worker does with each of its rings, pass by pass: whose CPU a slow call is of, who is charged at
 * the end of a pass, what a loss puts in doubt, which epoch and which journal is a ring's. No thread runs:
 * the test makes the passes. The rings are of CPUs 4 and 7, and have the numbers 10 and 11.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/collect/meter.h"
#include "daemon/collect/worker.h"
#include "daemon/ring/thread_journal.h"
#include "daemon/ring/writer.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS 2
#define NUMBER(i) (10 + (i))
#define CPU(i) (4 + 3 * (i))
#define SLOW_NS 1000000

struct fixture {
	struct ring_writer *writer[RINGS];
	struct mailbox mailbox;
	struct probe_table probes;
	struct meters *meters;
	struct worker *worker;
	uint64_t time_ns;		/* of the next record */
};

static void open_all(struct fixture *f, uint64_t batch_interval_ns)
{
	struct probe_set all = {0};
	struct meters_config meters = {.workers = 1, .catalog = small_catalog_get(), .probes = &all,
				       .slow_ns = SLOW_NS};
	struct worker_config worker = {.batch_interval_ns = batch_interval_ns, .probes = &f->probes,
				       .out = &f->mailbox};
	struct error error;

	memset(f, 0, sizeof(*f));
	for (uint32_t i = RT_PROBE_EVENT_MIN; i < RT_PROBE_MAX; i++)
		probe_set_add(&all, i);
	assert_int_equal(mailbox_init(&f->mailbox), 0);
	assert_int_equal(probe_table_init(&f->probes, small_catalog_get(), &error), 0);
	f->meters = meters_create(&meters);
	assert_non_null(f->meters);
	worker.meter = meters_get(f->meters, 0);
	assert_int_equal(worker_create(&worker, &f->worker, &error), 0);
	for (unsigned i = 0; i < RINGS; i++) {
		struct ring_writer_config config = {.cpu = CPU(i), .ring_bytes = RT_RING_BYTES_MIN,
						    .policy = RT_POLICY_DROP};
		struct ring_handle ring;

		assert_int_equal(ring_writer_create(&config, &f->writer[i], &error), 0);
		ring_writer_describe(f->writer[i], &ring);
		assert_int_equal(worker_add_ring(f->worker, NUMBER(i), &ring, &error), 0);
	}
	f->time_ns = clock_monotonic() - NS_PER_S;
}

static void close_all(struct fixture *f)
{
	worker_destroy(f->worker);
	for (struct mail *mail = mailbox_take(&f->mailbox), *next; mail; mail = next) {
		next = mail->next;
		frame_ref_put(((struct worker_mail *)mail)->frame);
		free(mail);
	}
	mailbox_fini(&f->mailbox);
	meters_destroy(f->meters);
	for (unsigned i = 0; i < RINGS; i++)
		ring_writer_destroy(f->writer[i]);
}

static void write_record(struct fixture *f, unsigned ring, uint16_t probe, uint32_t tid,
			 const void *payload, uint32_t words)
{
	struct ring_writer_record record = {.probe = probe, .tid = tid, .time_ns = f->time_ns++,
					    .payload = payload, .words = words};

	assert_int_equal(ring_writer_write(f->writer[ring], &record), 0);
}

static void call(struct fixture *f, unsigned ring, uint32_t tid, uint64_t ns)
{
	const uint64_t payload[] = {ns, 0, 0, 0, 0};

	write_record(f, ring, SMALL_READ, tid, payload, 5);
}

/* One thread sleeps, and the other comes on. */
static void switch_to(struct fixture *f, unsigned ring, uint32_t from, uint32_t to)
{
	const uint64_t payload[] = {0, 1, to, 0};

	write_record(f, ring, RT_PROBE_SCHED_SWITCH, from, payload, 4);
}

static uint64_t times_asleep(const struct fixture *f)
{
	struct meter_sum sum;

	meters_read_off_cpu(f->meters, OFF_SLEEPING, &sum);
	return sum.count;
}

/* ---- Meters ---------------------------------------------------------------------------------- */

static void slow_call_is_of_its_rings_cpu(void **state)
{
	struct meter_slow_call slow;
	struct fixture f;

	(void)state;
	open_all(&f, 1000);
	for (unsigned i = 0; i < RINGS; i++) {
		call(&f, i, 7, 1);
		call(&f, i, 7, SLOW_NS << (4 * i));
		worker_pass(f.worker);
		assert_true(meters_read_slow(f.meters, 0, meter_bucket_of(SLOW_NS << (4 * i)), &slow));
		assert_int_equal(slow.cpu, CPU(i));
		assert_int_equal(slow.seq, 1);
	}
	close_all(&f);
}

static void who_called_on_any_ring_is_charged_with_the_pass(void **state)
{
	struct top_entry top[METER_PROCESSES_MAX];
	struct fixture f;
	uint64_t span;

	(void)state;
	open_all(&f, 1000);
	for (unsigned i = 0; i < RINGS; i++)
		call(&f, i, 70 + i, 1);
	worker_pass(f.worker);
	assert_int_equal(meters_read_top(f.meters, top, &span), RINGS);
	for (unsigned i = 0; i < RINGS; i++) {
		assert_int_equal(top[i].pid, 70 + i);
		assert_int_equal(top[i].calls, 1);
	}
	close_all(&f);
}

/* Another thread has come on since its call, and makes none itself. */
static void who_runs_in_the_end_is_charged_with_the_pass(void **state)
{
	struct top_entry top[METER_PROCESSES_MAX];
	struct fixture f;
	uint64_t span;

	(void)state;
	open_all(&f, 1000);
	switch_to(&f, 1, 70, 71);
	worker_pass(f.worker);
	assert_int_equal(meters_read_top(f.meters, top, &span), 1);
	assert_int_equal(top[0].pid, 71);
	assert_true(top[0].cpu_ns >= NS_PER_S);
	close_all(&f);
}

/* It may have come back, and gone again, among what was lost. */
static void sleep_across_a_loss_is_not_measured(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1000);
	switch_to(&f, 0, 7, 8);
	switch_to(&f, 0, 8, 7);
	worker_pass(f.worker);
	assert_int_equal(times_asleep(&f), 1);
	switch_to(&f, 0, 7, 9);
	ring_writer_lose(f.writer[0], RT_LOST_NEST, 1);
	switch_to(&f, 0, 9, 7);
	worker_pass(f.worker);
	assert_int_equal(times_asleep(&f), 1);
	close_all(&f);
}

/* Another ring's event may be on its way that comes between. */
static void waits_are_measured_up_to_the_watermark_alone(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 10 * NS_PER_S);		/* the watermark is behind by a part of it */
	f.time_ns = clock_monotonic() - 2;
	switch_to(&f, 0, 7, 8);
	switch_to(&f, 0, 8, 7);
	worker_pass(f.worker);
	assert_int_equal(times_asleep(&f), 0);
	worker_set_batch_interval(f.worker, 0);
	worker_pass(f.worker);
	assert_int_equal(times_asleep(&f), 1);
	close_all(&f);
}

/* ---- From one run to the next ---------------------------------------------------------------- */

static void every_ring_gets_the_epoch(void **state)
{
	struct worker_baseline baseline;
	struct fixture f;

	(void)state;
	open_all(&f, 1000);
	worker_set_epoch(f.worker, 1234);
	for (unsigned i = 0; i < RINGS; i++) {
		assert_int_equal(worker_baseline(f.worker, NUMBER(i), &baseline), 0);
		assert_int_equal(baseline.epoch, 1234);
	}
	close_all(&f);
}

static struct thread_ring *journal_create(void)
{
	struct thread_ring *journal =
		calloc(1, sizeof(*journal) + THREADS_PER_RING_MAX * sizeof(journal->slot[0]));

	assert_non_null(journal);
	return journal;
}

static void each_journal_keeps_the_threads_of_its_ring(void **state)
{
	struct thread_ring *journal[RINGS];
	struct rt_thread thread = {.pid = 70};
	struct fixture f;

	(void)state;
	open_all(&f, 1000);
	for (unsigned i = 0; i < RINGS; i++) {
		journal[i] = journal_create();
		worker_keep_threads(f.worker, NUMBER(i), journal[i]);
	}
	worker_keep_threads(f.worker, NUMBER(0), NULL);		/* nothing is kept */
	for (unsigned i = 0; i < RINGS; i++)
		write_record(&f, i, RT_PROBE_THREAD, 71 + i, &thread, sizeof(thread) / 8);
	worker_pass(f.worker);
	for (unsigned i = 0; i < RINGS; i++) {
		assert_int_equal(journal[i]->slots, 1);
		assert_int_equal(journal[i]->slot[0].tid, 71 + i);
	}
	close_all(&f);
	for (unsigned i = 0; i < RINGS; i++)
		free(journal[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slow_call_is_of_its_rings_cpu),
		cmocka_unit_test(who_called_on_any_ring_is_charged_with_the_pass),
		cmocka_unit_test(who_runs_in_the_end_is_charged_with_the_pass),
		cmocka_unit_test(sleep_across_a_loss_is_not_measured),
		cmocka_unit_test(waits_are_measured_up_to_the_watermark_alone),
		cmocka_unit_test(every_ring_gets_the_epoch),
		cmocka_unit_test(each_journal_keeps_the_threads_of_its_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
