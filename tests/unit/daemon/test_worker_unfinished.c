/*
 * Writers that have reserved and not committed, for a moment, in turn, or for ever: how long a
 * watermark and a drain wait for them, and what is said of a ring that is stuck.
 */
#include "tests/unit/daemon/small_worker.h"

#include "daemon/base/limits.h"

/* Records reserved and not committed hold the watermark back, and the end of a drain, a while. */
static void test_unfinished_writer(void **state)
{
	const uint64_t payload[] = {100, 1};
	struct ring_writer_record record = {.probe = SMALL_GETPPID, .payload = payload, .words = 2};
	struct fixture *f = malloc(sizeof(*f));
	struct ring_writer_slot slot;
	uint64_t held;
	unsigned before;

	(void)state;
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	write_call(f, 0, SMALL_READ);
	f->written_ns[0][f->written[0]++] = held = clock_monotonic();
	assert_int_equal(ring_writer_reserve(f->writer[0], 2, held, &slot), 0);
	write_call(f, 0, SMALL_READ);
	before = f->watermarks;
	AWAIT(f, f->watermarks > before + 10);
	assert_true(f->watermark_ns[0] <= held);
	assert_int_equal(f->events[0], 1);
	assert_int_equal(worker_empty(f->worker[0]), 0);
	poll(NULL, 0, 100);
	take_mails(f);
	assert_int_equal(f->drained, 0);
	record.time_ns = held;
	ring_writer_commit(f->writer[0], &slot, &record);
	AWAIT(f, f->drained == 1);
	assert_int_equal(f->events[0], 3);
	assert_true(f->watermark_ns[0] > held);
	close_worker(f);
	free(f);
}

/* One writer after the other is unfinished, for longer than one of them would be waited for. */
static void test_slow_writers(void **state)
{
	const uint64_t payload[] = {100, 1};
	struct ring_writer_record record = {.probe = SMALL_GETPPID, .payload = payload, .words = 2};
	struct fixture *f = malloc(sizeof(*f));
	struct ring_writer_slot slot, next;
	const unsigned writers = 2 + 2 * STOP_DRAIN_NS / (500 * MS);

	(void)state;
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	for (unsigned i = 0; i < writers; i++) {
		record.time_ns = f->written_ns[0][f->written[0]++] = clock_monotonic();
		assert_int_equal(ring_writer_reserve(f->writer[0], 2, record.time_ns, &next), 0);
		if (i == 0)
			assert_int_equal(worker_empty(f->worker[0]), 0);
		else
			ring_writer_commit(f->writer[0], &slot, &record);
		slot = next;
		poll(NULL, 0, 250);
	}
	ring_writer_commit(f->writer[0], &slot, &record);
	AWAIT(f, f->drained == 1);
	assert_int_equal(f->events[0], writers);
	close_worker(f);
	free(f);
}

/* A writer that never finishes ends the drain; what is behind its record is not made up. */
static void test_dead_writer(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct ring_writer_slot slot;

	(void)state;
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	write_call(f, 0, SMALL_READ);
	assert_int_equal(ring_writer_reserve(f->writer[0], 2, clock_monotonic(), &slot), 0);
	write_call(f, 0, SMALL_READ);
	write_call(f, 1, SMALL_READ);
	drain(f);
	assert_int_equal(f->events[0], 2);
	assert_int_equal(f->losses, 0);
	close_worker(f);
	free(f);
}

/*
 * Nobody finishes a record: after a while time goes on without that ring, and says so. When it is
 * finished after all, what waited comes late, in its order.
 */
static void test_stuck_ring(void **state)
{
	const uint64_t payload[] = {100, 1};
	struct ring_writer_record record = {.probe = SMALL_GETPPID, .payload = payload, .words = 2};
	struct fixture *f = malloc(sizeof(*f));
	struct ring_writer_slot slot;
	struct worker_ring_stat stat;
	uint64_t held;

	(void)state;
	open_worker(f, 1, 20 * MS, RT_RING_BYTES_MIN);
	add(f, 0);
	write_call(f, 0, SMALL_READ);
	held = clock_monotonic();
	assert_int_equal(ring_writer_reserve(f->writer[0], 2, held, &slot), 0);
	f->written_ns[0][f->written[0]++] = UINT64_MAX;	/* the watermark does not wait for it, */
	record.time_ns = held;
	for (unsigned i = 0; i < 1000; i++) {		/* nor for what it takes to fill the ring */
		write_call(f, 0, SMALL_READ);
		f->written_ns[0][f->written[0] - 1] = UINT64_MAX;
	}
	write_call(f, 1, SMALL_READ);
	AWAIT(f, f->events[0] == 2);
	poll(NULL, 0, 500);
	take_mails(f);
	assert_true(f->watermark_ns[0] <= held);
	/* It stands still, and is not stuck yet. */
	assert_int_equal(worker_ring_stat(f->worker[0], 0, &stat), 0);
	assert_true(!stat.stuck_ns || clock_monotonic() - held >= RING_STUCK_NS);
	AWAIT(f, f->watermark_ns[0] > held);
	assert_true(clock_monotonic() - held >= RING_STUCK_NS);
	AWAIT(f, worker_ring_stat(f->worker[0], 0, &stat) == 0 && stat.stuck_ns);
	assert_true(stat.stuck_ns >= RING_STUCK_NS);
	assert_int_equal(stat.usage.produced, 1002);
	assert_int_equal(stat.usage.records, 1);
	assert_int_equal(stat.usage.in_flight, 1001);
	assert_int_equal(worker_ring_stat(f->worker[0], 1, &stat), 0);
	assert_int_equal(stat.stuck_ns, 0);
	ring_writer_commit(f->writer[0], &slot, &record);
	AWAIT(f, f->seq[0][0] == 1002);
	AWAIT(f, worker_ring_stat(f->worker[0], 0, &stat) == 0 && !stat.stuck_ns);
	assert_int_equal(stat.usage.in_flight, 0);
	assert_true(f->losses > 0);
	drain(f);
	check_stat(f, 0, 1002 - f->losses, f->losses);
	close_worker(f);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unfinished_writer),
		cmocka_unit_test(test_slow_writers),
		cmocka_unit_test(test_dead_writer),
		cmocka_unit_test(test_stuck_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
