/*
 * Rings written here, drained there: what a worker's mails promise. For each ring and subscription
 * frames are contiguous; a watermark comes after every frame it speaks of; an order is answered when it
 * has taken effect; an idle worker is quiet, and wakes at the first record.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/clock.h"
#include "daemon/counters.h"
#include "daemon/limits.h"
#include "daemon/ring_writer.h"
#include "daemon/worker.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS 2
#define SUBSCRIPTIONS 3
#define RECORDS_MAX 20000
#define MS 1000000ull
#define WAIT_NS (60 * NS_PER_S)

struct fixture {
	struct ring_writer *writer[RINGS];
	struct mailbox mailbox;
	struct probe_table probes;
	struct worker *worker[RINGS];
	unsigned workers;
	uint64_t interval_ns;				/* of the batches */
	struct batcher_spec spec[SUBSCRIPTIONS];

	uint64_t written_ns[RINGS][RECORDS_MAX];	/* when each record was */
	uint64_t written[RINGS];

	/* What the mails said. */
	bool started[SUBSCRIPTIONS][RINGS], removed[SUBSCRIPTIONS];
	uint64_t seq[SUBSCRIPTIONS][RINGS];
	uint64_t events[SUBSCRIPTIONS], losses;
	uint64_t watermark_ns[RINGS];			/* by worker */
	unsigned watermarks, drained, corrupt, removals[SUBSCRIPTIONS];
};

static void open_worker(struct fixture *f, unsigned workers, uint64_t interval_ns, uint64_t ring_bytes)
{
	static const char *const glob[SUBSCRIPTIONS] = {"*:*:*", "syscall:getppid", "syscall:kill"};
	struct error error;

	memset(f, 0, sizeof(*f));
	f->interval_ns = interval_ns;
	assert_int_equal(mailbox_init(&f->mailbox), 0);
	assert_int_equal(probe_table_init(&f->probes, small_catalog_get(), &error), 0);
	for (unsigned i = 0; i < SUBSCRIPTIONS; i++)
		assert_int_equal(probe_set_add_glob(&f->spec[i].probes, glob[i],
						    small_catalog_get(), &error), 0);
	for (; f->workers < workers; f->workers++) {
		struct worker_config config = {.id = f->workers, .batch_interval_ns = interval_ns,
					       .probes = &f->probes, .out = &f->mailbox};

		assert_int_equal(worker_create(&config, &f->worker[f->workers], &error), 0);
	}
	for (unsigned i = 0; i < RINGS; i++) {
		struct ring_writer_config config = {.cpu = i, .ring_bytes = ring_bytes,
						    .policy = RT_POLICY_DROP};
		struct source_ring ring;

		assert_int_equal(ring_writer_create(&config, &f->writer[i], &error), 0);
		ring_writer_describe(f->writer[i], &ring);
		assert_int_equal(worker_add_ring(f->worker[i % workers], i, &ring, &error), 0);
	}
	for (unsigned i = 0; i < workers; i++)
		assert_int_equal(worker_start(f->worker[i], &error), 0);
}

/* Subscription 0 has what was written from the beginning on, and nobody removed it. */
static bool is_whole(const struct fixture *f)
{
	return f->started[0][0] && f->started[0][1] && !f->removals[0];
}

/* Every record before the watermark is here: subscription 0 has them all. */
static void check_watermark(struct fixture *f, const struct worker_mail *mail)
{
	f->watermark_ns[mail->worker] = mail->time_ns;
	f->watermarks++;
	for (unsigned ring = mail->worker; is_whole(f) && ring < RINGS; ring += f->workers) {
		uint64_t seq = f->seq[0][ring];

		if (seq < f->written[ring])
			assert_true(f->written_ns[ring][seq] >= mail->time_ns);
	}
}

static void take_mail(struct fixture *f, const struct worker_mail *mail)
{
	struct frame_ref *frame = mail->frame;
	uint32_t subscription = mail->subscription;

	switch (mail->kind) {
	case WORKER_STARTED:
		assert_false(f->removed[subscription]);
		for (unsigned i = 0; i < mail->positions; i++) {
			f->started[subscription][mail->position[i].ring] = true;
			f->seq[subscription][mail->position[i].ring] = mail->position[i].seq;
		}
		break;
	case WORKER_FRAME:
		assert_true(f->started[subscription][frame->ring] && !f->removed[subscription]);
		assert_int_equal(frame->first_seq, f->seq[subscription][frame->ring]);
		assert_true(frame->end_seq > frame->first_seq);
		assert_int_equal(frame_ref_attempts(frame),
				 frame->events + frame->skipped + frame_ref_losses(frame));
		f->seq[subscription][frame->ring] = frame->end_seq;
		f->events[subscription] += frame->events;
		if (subscription == 0)
			f->losses += frame_ref_losses(frame);
		break;
	case WORKER_WATERMARK:
		check_watermark(f, mail);
		break;
	case WORKER_REMOVED:
		f->removed[subscription] = ++f->removals[subscription] == f->workers;
		break;
	case WORKER_DRAINED:
		f->drained++;
		break;
	case WORKER_CORRUPT:
		f->corrupt++;
		assert_int_equal(mail->ring, 1);
		break;
	}
}

static void take_mails(struct fixture *f)
{
	for (struct mail *mail = mailbox_take(&f->mailbox), *next; mail; mail = next) {
		struct worker_mail *mine = (struct worker_mail *)mail;
		struct frame_ref *frame = mine->frame;

		next = mail->next;
		take_mail(f, mine);
		worker_mail_free(f->worker[mine->worker], mine, frame ? frame->bytes : 0);
		frame_ref_put(frame);
	}
}

static void close_worker(struct fixture *f)
{
	take_mails(f);
	for (unsigned i = 0; i < f->workers; i++)
		worker_destroy(f->worker[i]);
	worker_destroy(NULL);
	for (struct mail *mail = mailbox_take(&f->mailbox), *next; mail; mail = next) {
		next = mail->next;
		frame_ref_put(((struct worker_mail *)mail)->frame);
		free(mail);
	}
	mailbox_fini(&f->mailbox);
	for (unsigned i = 0; i < RINGS; i++)
		ring_writer_destroy(f->writer[i]);
}

/* Until it holds, with the mails taken as they come. */
#define AWAIT(f, condition)                                                                       \
	do {                                                                                      \
		uint64_t deadline = clock_monotonic() + WAIT_NS;                                  \
		struct pollfd mails = {.fd = mailbox_fd(&(f)->mailbox), .events = POLLIN};        \
                                                                                                  \
		for (take_mails(f); !(condition) && clock_monotonic() < deadline; take_mails(f))  \
			poll(&mails, 1, 10);                                                      \
		assert_true(condition);                                                           \
	} while (0)

static void write_call(struct fixture *f, unsigned ring, uint16_t probe)
{
	const uint64_t payload[] = {100, 1, 2, 3, 4};
	struct ring_writer_record record = {.probe = probe, .tid = 7, .time_ns = clock_monotonic(),
					    .payload = payload, .words = 5};
	bool put_off;

	ring_writer_write(f->writer[ring], &record);
	/* Nothing is promised of one that did not come from the clock to the ring at once. */
	put_off = clock_monotonic() - record.time_ns > f->interval_ns / WATERMARK_SLACK_PART;
	f->written_ns[ring][f->written[ring]++] = put_off ? UINT64_MAX : record.time_ns;
}

static void add(struct fixture *f, unsigned subscription)
{
	for (unsigned i = 0; i < f->workers; i++)
		assert_int_equal(worker_add_subscription(f->worker[i], subscription,
							 &f->spec[subscription]), 0);
	AWAIT(f, f->started[subscription][0] && f->started[subscription][1]);
}

static void remove_one(struct fixture *f, unsigned subscription)
{
	for (unsigned i = 0; i < f->workers; i++)
		assert_int_equal(worker_remove_subscription(f->worker[i], subscription), 0);
	AWAIT(f, f->removed[subscription]);
}

static void drain(struct fixture *f)
{
	for (unsigned i = 0; i < f->workers; i++)
		assert_int_equal(worker_drain(f->worker[i]), 0);
	AWAIT(f, f->drained == f->workers);
}

static void check_stat(struct fixture *f, unsigned ring, uint64_t events, uint64_t lost)
{
	struct worker_ring_stat stat;
	uint64_t sum = 0;

	assert_int_equal(worker_ring_stat(f->worker[ring % f->workers], ring, &stat), 0);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		sum += stat.usage.lost[i];
	assert_int_equal(sum, lost);
	assert_int_equal(stat.events, events);
	assert_int_equal(stat.usage.produced, events + lost);
	assert_int_equal(stat.usage.records, events);
	assert_int_equal(stat.usage.in_flight, 0);
}

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
	uint64_t begin;

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
	AWAIT(f, f->watermarks > before + 1);	/* and time still goes on */
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

/* Records reserved and not committed hold the watermark back, and the end of a drain, for a while. */
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
	assert_int_equal(worker_drain(f->worker[0]), 0);
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
			assert_int_equal(worker_drain(f->worker[0]), 0);
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
 * Nobody finishes a record: after a while time goes on without that ring, and says so. When it is finished
 * after all, what waited comes late, in its order.
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

static void test_corrupt_ring(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
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
	/* The other ring goes on, and time with it. */
	for (unsigned i = 0; i < 100; i++)
		write_call(f, 0, SMALL_READ);
	drain(f);
	assert_int_equal(f->events[0], 102);
	assert_int_equal(f->corrupt, 1);
	assert_true(f->watermark_ns[0] <= clock_monotonic());
	close_worker(f);
	free(f);
}

/* Another worker on the same rings, as in a later run of the daemon; not started. */
static void replace_worker(struct fixture *f)
{
	struct worker_config config = {.batch_interval_ns = 20 * MS, .probes = &f->probes,
				       .out = &f->mailbox};
	struct error error;

	worker_destroy(f->worker[0]);
	assert_int_equal(worker_create(&config, &f->worker[0], &error), 0);
	for (unsigned i = 0; i < RINGS; i++) {
		struct source_ring ring;

		ring_writer_describe(f->writer[i], &ring);
		assert_int_equal(worker_add_ring(f->worker[0], i, &ring, &error), 0);
	}
	f->drained = 0;
}

/* A worker leaves what comes to the next one, which numbers it on: take_mail() checks each frame. */
static void test_leaves_and_goes_on(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct worker_baseline baseline;
	struct error error;

	(void)state;
	open_worker(f, 1, 20 * MS, 1 << 20);
	assert_int_equal(worker_baseline(f->worker[0], RINGS, &baseline), -ENOENT);
	add(f, 0);
	for (unsigned i = 0; i < 1000; i++)
		write_call(f, i % 2, SMALL_GETPPID);
	assert_int_equal(worker_leave(f->worker[0]), 0);
	AWAIT(f, f->drained == 1);
	assert_int_equal(f->events[0], 1000);
	for (unsigned i = 0; i < 500; i++)
		write_call(f, i % 2, SMALL_GETPPID);
	/* It reads no more, whatever it is asked for. */
	assert_int_equal(worker_drain(f->worker[0]), 0);
	AWAIT(f, f->drained == 2);
	add(f, 1);
	assert_int_equal(f->events[0], 1000);

	replace_worker(f);
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
	replace_worker(f);
	assert_int_equal(worker_baseline(f->worker[0], 1, &baseline), 0);
	assert_int_equal(baseline.epoch, 1234);
	assert_int_equal(baseline.seq, 800);
	close_worker(f);
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
	replace_worker(f);
	worker_set_batch_interval(f->worker[0], 3600 * NS_PER_S);
	assert_int_equal(worker_start(f->worker[0], &error), 0);
	AWAIT(f, unread(f, 1) == 10);
	close_worker(f);

	/* And of an idle one, whose bell rang. */
	open_worker(f, 1, 1 * MS, 1 << 20);
	AWAIT(f, f->watermarks >= 2);
	worker_set_batch_interval(f->worker[0], 3600 * NS_PER_S);
	poll(NULL, 0, 50);
	write_call(f, 0, SMALL_READ);
	AWAIT(f, unread(f, 0) == 1);
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
	worker_drain(f->worker[0]);
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
		cmocka_unit_test(test_unfinished_writer),
		cmocka_unit_test(test_slow_writers),
		cmocka_unit_test(test_dead_writer),
		cmocka_unit_test(test_stuck_ring),
		cmocka_unit_test(test_corrupt_ring),
		cmocka_unit_test(test_stat_before_a_tick),
		cmocka_unit_test(test_destroyed_busy),
		cmocka_unit_test(test_leaves_and_goes_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
