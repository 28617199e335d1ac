/*
 * Rings written here, drained there: every record comes or is told as lost; an order is answered
 * when it has taken effect; an idle worker is quiet, and wakes at the first record; what a worker
 * leaves the next one goes on with.
 */
#include "tests/unit/daemon/small_worker.h"

#include <errno.h>

#include "daemon/base/counters.h"
#include "daemon/collect/redaction.h"

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"

static void test_contiguous(void **state)
{
	for (unsigned workers = 1; workers <= 2; workers++) {
		struct fixture *f = malloc(sizeof(*f));

		(void)state;
		open_worker(f, workers, 40 * MS, 1 << 20);
		add(f, 0);
		for (unsigned i = 0; i < 10000; i++) {
			write_call(f, i % 3 == 0, i % 2 ? SMALL_GETPPID : SMALL_READ);
			if (i == 3000)
				add(f, 1);	/* in the middle of it */
			if (i % 50 == 0) {
				take_mails(f);
				poll(NULL, 0, 1);
			}
		}
		drain(f);
		assert_int_equal(f->events[0], 10000);
		assert_true(f->events[1] >= 3499 && f->events[1] <= 3500);
		assert_int_equal(f->seq[0][0], f->written[0]);
		assert_int_equal(f->seq[1][1], f->written[1]);
		assert_true(f->watermarks > 2 * workers);
		for (unsigned i = 0; i < RINGS; i++)
			check_stat(f, i, f->written[i], 0);
		assert_int_equal(worker_ring_stat(f->worker[0], 5, &(struct worker_ring_stat){}),
				 -ENOENT);
		close_worker(f);
		free(f);
	}
}

/* A ring that nobody made room in for a while; what it refused is in its place. */
static void test_losses(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t lost = 0;

	(void)state;
	open_worker(f, 1, 1000 * MS, RT_RING_BYTES_MIN);
	add(f, 0);
	for (unsigned i = 0; i < RECORDS_MAX; i++)
		write_call(f, 0, SMALL_READ);
	drain(f);
	lost = RECORDS_MAX - f->events[0];
	assert_int_equal(f->losses, lost);
	assert_int_equal(f->seq[0][0], RECORDS_MAX);
	check_stat(f, 0, f->events[0], lost);
	close_worker(f);
	free(f);
}

/* Nothing happens: a beat a second. Something does: it is here in no time. */
static void test_idle(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	unsigned before, late = 0;
	uint64_t begin, beats;

	(void)state;
	open_worker(f, 1, 5 * MS, 1 << 20);
	add(f, 0);
	AWAIT(f, f->watermarks >= 2);
	poll(NULL, 0, 50);
	take_mails(f);
	before = f->watermarks;
	begin = clock_monotonic();
	poll(NULL, 0, 300);
	take_mails(f);
	assert_true(f->watermarks - before <= 1 + (clock_monotonic() - begin) / HEARTBEAT_NS);
	for (unsigned i = 1; i <= 20; i++) {
		begin = clock_monotonic();
		write_call(f, i % RINGS, SMALL_READ);
		AWAIT(f, f->events[0] == i);
		late += clock_monotonic() - begin > 700 * MS;
	}
	/* Each comes right after a heartbeat: without a bell, all would wait for the next one. */
	assert_true(late < 10);
	before = f->watermarks;
	beats = worker_beats(f->worker[0]);
	AWAIT(f, f->watermarks > before + 1);	/* and time still goes on */
	AWAIT(f, worker_beats(f->worker[0]) > beats);
	close_worker(f);
	free(f);
}

/* A batch interval longer than this test: the bell at half a ring makes room in it. */
static void test_bell_between_ticks(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t ticks = counter_read(COUNTER_ticks);

	(void)state;
	open_worker(f, 1, 2 * WAIT_NS, 256 << 10);
	add(f, 0);
	for (unsigned i = 0; i < 15000; i++) {
		assert_int_equal(ring_writer_wait(f->writer[0], 5, WAIT_NS), 0);
		write_call(f, 0, SMALL_READ);
	}
	drain(f);
	assert_int_equal(counter_read(COUNTER_ticks), ticks);
	assert_int_equal(f->losses, 0);
	assert_int_equal(f->events[0], 15000);
	close_worker(f);
	free(f);
}

static void test_remove(void **state)
{
	for (unsigned workers = 1; workers <= 2; workers++) {
		struct fixture *f = malloc(sizeof(*f));

		(void)state;
		open_worker(f, workers, 1 * MS, 1 << 20);
		for (unsigned i = 0; i < SUBSCRIPTIONS; i++)
			add(f, i);
		for (unsigned i = 0; i < 1000; i++)
			write_call(f, i % RINGS, SMALL_GETPPID);
		AWAIT(f, f->events[1] == 1000);
		remove_one(f, 0);
		for (unsigned i = 0; i < 1000; i++)
			write_call(f, i % RINGS, SMALL_GETPPID);
		drain(f);
		assert_int_equal(f->events[0], 1000);
		assert_int_equal(f->events[1], 2000);
		assert_int_equal(f->events[2], 0);
		assert_int_equal(f->seq[2][0], 1000);	/* nothing but skips is told, too */
		remove_one(f, 1);
		remove_one(f, 2);
		write_call(f, 0, SMALL_GETPPID);
		poll(NULL, 0, 20);
		take_mails(f);
		close_worker(f);
		free(f);
	}
}

static void test_corrupt_ring(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t corrupt_ns;
	size_t bytes;

	(void)state;
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	write_call(f, 0, SMALL_READ);
	write_call(f, 1, SMALL_READ);
	AWAIT(f, f->events[0] == 2);
	__atomic_store_n(&ring_writer_map(f->writer[1], &bytes)->producer_pos, 12345677,
			 __ATOMIC_SEQ_CST);
	AWAIT(f, f->corrupt == 1);
	corrupt_ns = clock_monotonic();
	/* The other ring goes on, and time with it. */
	for (unsigned i = 0; i < 100; i++)
		write_call(f, 0, SMALL_READ);
	drain(f);
	assert_int_equal(f->events[0], 102);
	assert_int_equal(f->corrupt, 1);
	AWAIT(f, f->watermark_ns[0] > corrupt_ns);
	assert_true(f->watermark_ns[0] <= clock_monotonic());
	close_worker(f);
	free(f);
}

/* What is handed over and not taken is as much as may be: batches become gaps, until it is taken. */
static void test_handed_over_bytes_come_back(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	worker_mail_free(f->worker[0], NULL, -(uint64_t)(HANDOFF_BYTES_MAX + 1));
	for (unsigned i = 0; i < 10; i++)
		write_call(f, 0, SMALL_READ);
	AWAIT(f, f->losses == 10);
	worker_mail_free(f->worker[0], NULL, HANDOFF_BYTES_MAX + 1);
	for (unsigned i = 0; i < 10; i++)
		write_call(f, 0, SMALL_READ);
	AWAIT(f, f->events[0] == 10);
	assert_int_equal(f->losses, 10);
	close_worker(f);
	free(f);
}

/* Another worker on the same rings, as in a later run of the daemon; not started. */
static void replace_worker(struct fixture *f, uint64_t interval_ns)
{
	struct worker_config config = {.batch_interval_ns = interval_ns, .probes = &f->probes,
				       .out = &f->mailbox};
	struct error error;

	worker_destroy(f->worker[0]);
	assert_int_equal(worker_create(&config, &f->worker[0], &error), 0);
	for (unsigned i = 0; i < RINGS; i++) {
		struct ring_handle ring;

		ring_writer_describe(f->writer[i], &ring);
		assert_int_equal(worker_add_ring(f->worker[0], i, &ring, &error), 0);
	}
	f->drained = 0;
}

/* A worker leaves what comes to the next one, which numbers it on: take_mail() checks that. */
static void test_leaves_and_goes_on(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct worker_baseline baseline;
	struct error error;
	uint64_t beats;

	(void)state;
	open_worker(f, 1, 20 * MS, 1 << 20);
	assert_int_equal(worker_baseline(f->worker[0], RINGS, &baseline), -ENOENT);
	add(f, 0);
	for (unsigned i = 0; i < 1000; i++)
		write_call(f, i % 2, SMALL_GETPPID);
	assert_int_equal(worker_leave(f->worker[0]), 0);
	AWAIT(f, f->drained == 1);
	beats = worker_beats(f->worker[0]);
	assert_int_equal(f->events[0], 1000);
	for (unsigned i = 0; i < 500; i++)
		write_call(f, i % 2, SMALL_GETPPID);
	/* It reads no more, whatever it is asked for. */
	assert_int_equal(worker_empty(f->worker[0]), 0);
	AWAIT(f, f->drained == 2);
	add(f, 1);
	assert_int_equal(f->events[0], 1000);
	/* Nor by itself: the tick of its batches comes no more. */
	poll(NULL, 0, 60);
	assert_int_equal(worker_beats(f->worker[0]), beats);

	replace_worker(f, 20 * MS);
	for (unsigned i = 0; i < RINGS; i++) {
		assert_int_equal(worker_baseline(f->worker[0], i, &baseline), 0);
		assert_int_equal(baseline.seq, 500);
	}
	assert_int_equal(baseline.epoch, 0);
	worker_set_epoch(f->worker[0], 1234);
	assert_int_equal(worker_adopt_subscription(f->worker[0], 0, &f->spec[0]), 0);
	assert_int_equal(worker_start(f->worker[0], &error), 0);
	for (unsigned i = 0; i < 100; i++)
		write_call(f, i % 2, SMALL_GETPPID);
	drain(f);
	assert_int_equal(f->events[0], 1600);
	check_stat(f, 0, 300, 0);

	/* Its epoch is found by the one after it. */
	replace_worker(f, 20 * MS);
	assert_int_equal(worker_baseline(f->worker[0], 1, &baseline), 0);
	assert_int_equal(baseline.epoch, 1234);
	assert_int_equal(baseline.seq, 800);
	close_worker(f);
	free(f);
}

/* Whoever comes first begins behind what was counted while nobody read, and is told of no events that it did not ask for. */
static void test_begins_behind_what_was_counted(void **state)
{
	const struct question_request request = {.of = ""};
	struct fixture *f = malloc(sizeof(*f));
	struct question *question;
	struct error error;

	(void)state;
	open_worker(f, 1, 5 * MS, 1 << 20);
	assert_int_equal(question_create(&request, &f->spec[1].probes, small_catalog_get(), &question, &error), 0);
	f->spec[1].question = question;
	worker_set_epoch(f->worker[0], 1234);
	add(f, 1);
	write_call(f, 0, SMALL_GETPPID);
	ring_writer_count(f->writer[0], SMALL_GETPPID, 5, 0);
	AWAIT(f, f->events[1] == 6);
	assert_int_equal(worker_leave(f->worker[0]), 0);
	AWAIT(f, f->drained == 1);
	ring_writer_count(f->writer[0], SMALL_GETPPID, 30, 0);

	replace_worker(f, 3600 * NS_PER_S);
	worker_set_epoch(f->worker[0], 1234);
	assert_int_equal(worker_start(f->worker[0], &error), 0);
	add(f, 2);
	assert_int_equal(f->seq[2][0], 36);
	assert_int_equal(f->seq[2][1], 0);
	close_worker(f);
	question_destroy(question);
	free(f);
}

static uint64_t unread(const struct fixture *f, unsigned ring)
{
	struct worker_ring_stat stat;

	assert_int_equal(worker_ring_stat(f->worker[0], ring, &stat), 0);
	return stat.usage.in_flight;
}

/* What lies in the rings is known at once, and not at the first tick, which is an hour away. */
static void test_stat_before_a_tick(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct error error;

	(void)state;
	open_worker(f, 1, 20 * MS, 1 << 20);
	add(f, 0);
	assert_int_equal(worker_leave(f->worker[0]), 0);
	AWAIT(f, f->drained == 1);
	for (unsigned i = 0; i < 10; i++)
		write_call(f, 1, SMALL_READ);
	replace_worker(f, 3600 * NS_PER_S);
	assert_int_equal(worker_start(f->worker[0], &error), 0);
	AWAIT(f, unread(f, 1) == 10);
	close_worker(f);
	free(f);
}

/* Of no time that a watermark speaks of. */
static void write_record(struct fixture *f, unsigned ring, const struct ring_writer_record *record)
{
	f->written_ns[ring][f->written[ring]++] = UINT64_MAX;
	ring_writer_write(f->writer[ring], record);
}

static void write_thread(struct fixture *f, unsigned ring, const char *comm)
{
	struct rt_thread thread = {.pid = 7};
	struct ring_writer_record record = {.probe = RT_PROBE_THREAD, .tid = 7, .payload = (const uint64_t *)&thread,
					    .words = sizeof(thread) / 8};

	memcpy(thread.comm, comm, strlen(comm));
	write_record(f, ring, &record);
}

/* Of each ring by itself: events, what is none, and what nobody can read. */
static void test_stat_of_each_ring(void **state)
{
	const struct ring_writer_record unknown = {.probe = RT_PROBE_MAX - 1, .tid = 7};
	struct fixture *f = malloc(sizeof(*f));
	struct worker_ring_stat stat[RINGS];

	(void)state;
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	for (unsigned ring = 0; ring < RINGS; ring++) {
		write_thread(f, ring, "one");
		for (unsigned i = 0; i <= 2 * ring; i++) {
			write_call(f, ring, SMALL_READ);
			write_record(f, ring, &unknown);
		}
	}
	AWAIT(f, worker_ring_stat(f->worker[0], 0, &stat[0]) == 0 && stat[0].bad == 1 &&
		 worker_ring_stat(f->worker[0], 1, &stat[1]) == 0 && stat[1].bad == 3);
	for (unsigned ring = 0; ring < RINGS; ring++) {
		assert_int_equal(stat[ring].events, 1 + 2 * ring);
		assert_int_equal(stat[ring].meta, 1);
	}
	assert_int_equal(worker_ring_stat(f->worker[0], RINGS, &stat[0]), -ENOENT);
	close_worker(f);
	free(f);
}

static bool none_is_made(void *context, const char *glob)
{
	(void)context, (void)glob;
	return false;
}

/* Rules are in use on every ring once they are set, and no longer once others are. */
static void test_rules_on_each_ring(void **state)
{
	char *const hides[] = {(char *)"* * */secret*"}, *const hides_other[] = {(char *)"* * */other*"};
	uint64_t redacted = counter_read(COUNTER_texts_redacted);
	struct fixture *f = malloc(sizeof(*f));
	struct redaction *rules, *other;
	struct error error;

	(void)state;
	assert_int_equal(redaction_create(hides, 1, small_catalog_get(), none_is_made, NULL, &rules, &error), 0);
	assert_int_equal(redaction_create(hides_other, 1, small_catalog_get(), none_is_made, NULL, &other, &error), 0);
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	worker_set_redaction(f->worker[0], rules);
	for (unsigned ring = 0; ring < RINGS; ring++)
		write_thread(f, ring, "a/secret");
	AWAIT(f, counter_read(COUNTER_texts_redacted) == redacted + RINGS);
	worker_set_redaction(f->worker[0], other);
	for (unsigned ring = 0; ring < RINGS; ring++) {
		write_thread(f, ring, "b/secret");
		write_thread(f, ring, "b/other");
	}
	AWAIT(f, f->seq[0][0] == 3 && f->seq[0][1] == 3);
	assert_int_equal(counter_read(COUNTER_texts_redacted), redacted + 2 * RINGS);
	close_worker(f);
	redaction_destroy(rules);
	redaction_destroy(other);
	free(f);
}

/* However long batches may take to fill. */
static void test_idle_one_reads_soon_what_rings(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_worker(f, 1, 1 * MS, 1 << 20);
	add(f, 0);
	AWAIT(f, f->watermarks >= 2);
	worker_set_batch_interval(f->worker[0], 3600 * NS_PER_S);
	poll(NULL, 0, 50);
	write_call(f, 0, SMALL_READ);
	AWAIT(f, f->events[0] == 1);
	close_worker(f);
	free(f);
}

/* Ended with orders on their way, and frames nobody took. */
static void test_destroyed_busy(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_worker(f, 2, 40 * MS, 1 << 20);
	add(f, 0);
	for (unsigned i = 0; i < 5000; i++)
		write_call(f, i % RINGS, SMALL_READ);
	worker_add_subscription(f->worker[0], 1, &f->spec[1]);
	worker_remove_subscription(f->worker[1], 0);
	worker_empty(f->worker[0]);
	close_worker(f);
	/* And one that was never started. */
	struct worker_config config = {.batch_interval_ns = MS, .probes = &f->probes};
	struct worker *worker;
	struct error error;

	assert_int_equal(worker_create(&config, &worker, &error), 0);
	worker_add_subscription(worker, 0, &f->spec[0]);
	worker_destroy(worker);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_contiguous),
		cmocka_unit_test(test_losses),
		cmocka_unit_test(test_idle),
		cmocka_unit_test(test_bell_between_ticks),
		cmocka_unit_test(test_remove),
		cmocka_unit_test(test_corrupt_ring),
		cmocka_unit_test(test_handed_over_bytes_come_back),
		cmocka_unit_test(test_begins_behind_what_was_counted),
		cmocka_unit_test(test_stat_before_a_tick),
		cmocka_unit_test(test_stat_of_each_ring),
		cmocka_unit_test(test_rules_on_each_ring),
		cmocka_unit_test(test_idle_one_reads_soon_what_rings),
		cmocka_unit_test(test_destroyed_busy),
		cmocka_unit_test(test_leaves_and_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
