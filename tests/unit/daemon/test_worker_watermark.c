/*
 * What a watermark promises: every record before it was sent before it, also of a writer that had read the
 * clock and was preempted before it reserved its place, and of one that wrote while the rings were read.
 *
 * The worker has a clock of the test's own, and writers that come just as a ring has been read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/collect/drain.h"
#include "daemon/collect/worker.h"
#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/ring/writer.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS		2
#define INTERVAL_NS	80000000ull
#define SLACK_NS	(INTERVAL_NS / WATERMARK_SLACK_PART)

static uint64_t now_ns;

uint64_t clock_read(clockid_t id)
{
	(void)id;
	return now_ns;
}

uint64_t clock_monotonic(void)
{
	return now_ns;
}

struct fixture {
	struct ring_writer *writer[RINGS];
	struct mailbox mailbox;
	struct probe_table probes;
	struct batcher_spec spec;
	struct worker *worker;

	/* What the mails said. */
	uint64_t events, watermark_ns, events_before;
	unsigned watermarks;
};

static struct fixture f;
static uint64_t late_ns;	/* a writer of ring 0 comes with that time, once it has been read; 0: none */

static void write_at(unsigned ring, uint64_t time_ns)
{
	const uint64_t payload[] = {100, 1};
	struct ring_writer_record record = {.probe = SMALL_GETPPID, .tid = 7, .time_ns = time_ns,
					    .payload = payload, .words = 2};

	assert_int_equal(ring_writer_write(f.writer[ring], &record), 0);
}

uint32_t __real_drain_read(struct drain *drain, uint32_t records);
uint32_t __wrap_drain_read(struct drain *drain, uint32_t records);

uint32_t __wrap_drain_read(struct drain *drain, uint32_t records)
{
	uint32_t read = __real_drain_read(drain, records);

	if (late_ns && drain->index == 0) {
		write_at(0, late_ns);
		late_ns = 0;
		now_ns += 10 * INTERVAL_NS;	/* and the worker itself is preempted */
	}
	return read;
}

static int setup(void **state)
{
	struct worker_config config = {.batch_interval_ns = INTERVAL_NS, .probes = &f.probes,
				       .out = &f.mailbox};
	struct error error;

	(void)state;
	memset(&f, 0, sizeof(f));
	late_ns = 0;
	now_ns = 1000 * NS_PER_S;
	assert_int_equal(mailbox_init(&f.mailbox), 0);
	assert_int_equal(probe_table_init(&f.probes, small_catalog_get(), &error), 0);
	assert_int_equal(probe_set_add_glob(&f.spec.probes, "*:*:*", small_catalog_get(), &error),
			 0);
	assert_int_equal(worker_create(&config, &f.worker, &error), 0);
	for (unsigned i = 0; i < RINGS; i++) {
		struct ring_writer_config of = {.cpu = i, .ring_bytes = RT_RING_BYTES_MIN,
						.policy = RT_POLICY_DROP};
		struct ring_handle ring;

		assert_int_equal(ring_writer_create(&of, &f.writer[i], &error), 0);
		ring_writer_describe(f.writer[i], &ring);
		assert_int_equal(worker_add_ring(f.worker, i, &ring, &error), 0);
	}
	return worker_adopt_subscription(f.worker, 0, &f.spec);
}

static int teardown(void **state)
{
	(void)state;
	worker_destroy(f.worker);
	mailbox_fini(&f.mailbox);
	for (unsigned i = 0; i < RINGS; i++)
		ring_writer_destroy(f.writer[i]);
	return 0;
}

/* One pass, and its mails: the watermark is the last. Nothing is counted as under way then. */
static void pass(void)
{
	unsigned watermarks = f.watermarks;
	struct mail *mail, *next;

	worker_pass(f.worker);
	for (mail = mailbox_take(&f.mailbox); mail; mail = next) {
		struct worker_mail *mine = (struct worker_mail *)mail;
		struct frame_ref *frame = mine->frame;

		next = mail->next;
		assert_int_equal(f.watermarks, watermarks);
		if (mine->kind == WORKER_WATERMARK) {
			f.watermark_ns = mine->time_ns;
			f.events_before = f.events;
			f.watermarks++;
		} else {
			assert_int_equal(mine->kind, WORKER_FRAME);
			f.events += frame->events;
		}
		worker_mail_free(f.worker, mine, frame ? frame->bytes : 0);
		frame_ref_put(frame);
	}
	assert_int_equal(f.watermarks, watermarks + 1);
}

/* It had read the clock, and was not in the ring yet: the watermark leaves it a part of an interval. */
static void test_preempted_before_its_place(void **state)
{
	uint64_t read_clock_ns = now_ns;

	(void)state;
	now_ns += SLACK_NS - 1;
	pass();
	assert_true(f.watermark_ns < read_clock_ns);
	write_at(0, read_clock_ns);
	now_ns += INTERVAL_NS;
	pass();
	assert_true(f.watermark_ns > read_clock_ns);
	assert_int_equal(f.events_before, 1);
	/* And no more than that: what is that old is told at once. */
	assert_int_equal(f.watermark_ns, now_ns - SLACK_NS);
}

static void test_written_while_the_rings_are_read(void **state)
{
	uint64_t written_ns = now_ns + 1;

	(void)state;
	write_at(1, now_ns);
	late_ns = written_ns;
	pass();
	assert_int_equal(f.events_before, 1);
	assert_true(f.watermark_ns < written_ns);
	pass();
	assert_true(f.watermark_ns > written_ns);
	assert_int_equal(f.events_before, 2);
}

/* Whichever ring it is in, a record that is not finished holds all of them back. */
static void test_unfinished_in_either_ring(void **state)
{
	const uint64_t payload[] = {100, 1};

	(void)state;
	for (unsigned ring = 0; ring < RINGS; ring++) {
		struct ring_writer_record record = {.probe = SMALL_GETPPID, .payload = payload,
						    .words = 2, .time_ns = now_ns};
		struct ring_writer_slot slot;

		assert_int_equal(ring_writer_reserve(f.writer[ring], 2, record.time_ns, &slot), 0);
		now_ns += INTERVAL_NS;
		write_at(!ring, now_ns);
		now_ns += INTERVAL_NS;
		pass();
		assert_true(f.watermark_ns <= record.time_ns);
		ring_writer_commit(f.writer[ring], &slot, &record);
		pass();
		assert_true(f.watermark_ns > record.time_ns);
		assert_int_equal(f.events_before, 2 * (ring + 1));
	}
}

/* There is room for one batch more: what the main thread has taken makes room for the next. */
static void test_taken_bytes_make_room(void **state)
{
	(void)state;
	worker_mail_free(f.worker, NULL, -(uint64_t)HANDOFF_BYTES_MAX);
	for (unsigned i = 1; i < 4; i++) {
		write_at(0, ++now_ns);
		pass();
		assert_int_equal(f.events, i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_preempted_before_its_place, setup, teardown),
		cmocka_unit_test_setup_teardown(test_written_while_the_rings_are_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_unfinished_in_either_ring, setup, teardown),
		cmocka_unit_test_setup_teardown(test_taken_bytes_make_room, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
