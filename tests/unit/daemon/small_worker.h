/*
 * small_worker: workers, two rings that a test writes, and what the mails promise, which is checked
 * as they are taken: for each ring and subscription frames are contiguous; a watermark comes after
 * every frame it speaks of.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_SMALL_WORKER_H
#define RINGTAIL_TESTS_UNIT_DAEMON_SMALL_WORKER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"

#include "daemon/base/limits.h"
#include "daemon/ring/writer.h"
#include "daemon/collect/worker.h"
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

static inline void open_worker(struct fixture *f, unsigned workers, uint64_t interval_ns,
			       uint64_t ring_bytes)
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
						    .policy = RT_POLICY_DROP, .counts = true};
		struct ring_handle ring;

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
	case WORKER_EMPTIED:
		f->drained++;
		break;
	case WORKER_CORRUPT:
		f->corrupt++;
		assert_int_equal(mail->ring, 1);
		break;
	}
}

static inline void take_mails(struct fixture *f)
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

static inline void close_worker(struct fixture *f)
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

static inline void write_call(struct fixture *f, unsigned ring, uint16_t probe)
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

static inline void add(struct fixture *f, unsigned subscription)
{
	for (unsigned i = 0; i < f->workers; i++)
		assert_int_equal(worker_add_subscription(f->worker[i], subscription,
							 &f->spec[subscription]), 0);
	AWAIT(f, f->started[subscription][0] && f->started[subscription][1]);
}

static inline void remove_one(struct fixture *f, unsigned subscription)
{
	for (unsigned i = 0; i < f->workers; i++)
		assert_int_equal(worker_remove_subscription(f->worker[i], subscription), 0);
	AWAIT(f, f->removed[subscription]);
}

static inline void drain(struct fixture *f)
{
	for (unsigned i = 0; i < f->workers; i++)
		assert_int_equal(worker_empty(f->worker[i]), 0);
	AWAIT(f, f->drained == f->workers);
}

static inline void check_stat(struct fixture *f, unsigned ring, uint64_t events, uint64_t lost)
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

#endif
