/*
 * A worker without memory: whichever allocation fails, each attempt is accounted for once, in order, and
 * what was lost is said once there is memory again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/collect/batcher.h"
#include "daemon/collect/worker.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_catalog.h"

#define RING		3u
#define CPU		5u
#define PLENTY		1000000u
#define BATCHES		6
#define EVENTS		20		/* in each; and a skip and a loss */

struct fixture {
	struct mailbox mailbox;
	struct handoff out;
	struct thread_table *threads;
	struct probe_table probes;
	struct batcher_spec spec;
	struct batcher *batcher;
	uint64_t seq;			/* written */

	/* What came. */
	uint64_t seq_seen, events, skipped, lost, out_of_memory, given_up, bytes;
};

static void setup_batcher(struct fixture *f)
{
	struct error error;

	memset(f, 0, sizeof(*f));
	allocations_left = PLENTY;
	failures_left = 0;
	assert_int_equal(mailbox_init(&f->mailbox), 0);
	assert_int_equal(probe_table_init(&f->probes, small_catalog_get(), &error), 0);
	assert_int_equal(probe_set_add_glob(&f->spec.probes, "*:*:*", small_catalog_get(), &error),
			 0);
	f->out.mailbox = &f->mailbox;
	f->out.codec = frame_codec_create(1);
	f->threads = thread_table_create(16);
	f->batcher = batcher_create(&(struct batcher_config){
		.spec = &f->spec, .threads = f->threads, .codec = f->out.codec,
		.sink = handoff_frame, .context = &f->out, .ring = RING, .cpu = CPU,
	});
	assert_non_null(f->batcher);
	batcher_start(f->batcher, 0, 0);
}

static void write_batch(struct fixture *f)
{
	uint64_t payload[8] = {0};

	for (unsigned i = 0; i < EVENTS; i++) {
		struct ring_item item = {.seq = f->seq++, .time_ns = 1000 + f->seq, .tid = 7,
					 .probe = SMALL_GETPPID, .words = 2, .payload = payload};

		batcher_event(f->batcher, &item, &f->probes.probe[SMALL_GETPPID], THREAD_NONE);
	}
	f->seq++;
	batcher_skip(f->batcher);
	f->seq += 3;
	batcher_loss(f->batcher, 3, LOSS_STAGE_RING, LOSS_REASON_RING_FULL);
	batcher_flush(f->batcher);
}

/* What a client is told is what the ledger has of it. */
static void check_gap(const struct fixture *f, const struct frame_ref *frame)
{
	struct frame_header header;
	const uint8_t *body;
	uint8_t raw[256];
	Ringtail__V1__Gap *gap;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header),
			 FRAME_OK);
	assert_int_equal(frame_open(f->out.codec, frame->data, &header, raw, &body), FRAME_OK);
	gap = ringtail__v1__gap__unpack(NULL, header.raw_bytes, body);
	assert_non_null(gap);
	assert_int_equal(gap->cpu, CPU);
	assert_int_equal(gap->first_seq, frame->first_seq);
	assert_int_equal(gap->end_seq, frame->end_seq);
	assert_int_equal(gap->events, frame_ref_losses(frame));
	assert_int_equal(gap->stage, LOSS_STAGE_QUEUE);
	assert_int_equal(frame->loss[0].stage, LOSS_STAGE_QUEUE);
	assert_int_equal(gap->reason, frame->loss[0].reason);
	ringtail__v1__gap__free_unpacked(gap, NULL);
}

static void take_mails(struct fixture *f)
{
	struct mail *mail = mailbox_take(&f->mailbox), *next;

	for (; mail; mail = next) {
		struct worker_mail *mine = (struct worker_mail *)mail;
		struct frame_ref *frame = mine->frame;

		next = mail->next;
		assert_int_equal(mine->kind, WORKER_FRAME);
		assert_int_equal(frame->ring, RING);
		assert_int_equal(frame->cpu, CPU);
		if (frame->type == FRAME_GAP)
			check_gap(f, frame);
		assert_int_equal(frame->first_seq, f->seq_seen);
		assert_int_equal(frame_ref_attempts(frame),
				 frame->events + frame->skipped + frame_ref_losses(frame));
		f->seq_seen = frame->end_seq;
		f->events += frame->events;
		f->skipped += frame->skipped;
		for (uint32_t i = 0; i < frame->losses; i++) {
			f->lost += frame->loss[i].count;
			if (frame->loss[i].reason == LOSS_REASON_MEMORY)
				f->out_of_memory += frame->loss[i].count;
			if (frame->loss[i].reason == LOSS_REASON_QUEUE_FULL)
				f->given_up += frame->loss[i].count;
		}
		f->bytes += frame->bytes;
		frame_ref_put(frame);
		free(mine);
	}
}

static void close_batcher(struct fixture *f)
{
	batcher_destroy(f->batcher);
	thread_table_destroy(f->threads);
	frame_codec_destroy(f->out.codec);
	mailbox_fini(&f->mailbox);
}

/* How many attempts were lost for want of memory. */
static uint64_t run_with(unsigned before, unsigned failures)
{
	struct fixture f;

	setup_batcher(&f);
	allocations_left = before;
	failures_left = failures;
	for (unsigned i = 0; i < BATCHES; i++) {
		write_batch(&f);
		take_mails(&f);
	}
	allocations_left = PLENTY;
	failures_left = 0;
	batcher_flush(f.batcher);
	take_mails(&f);
	assert_int_equal(f.seq_seen, f.seq);
	assert_int_equal(f.events + f.lost, BATCHES * (EVENTS + 3));
	assert_int_equal(f.skipped, BATCHES);
	close_batcher(&f);
	return f.out_of_memory;
}

static void test_each_allocation(void **state)
{
	unsigned losses = 0;

	(void)state;
	assert_int_equal(run_with(PLENTY, 0), 0);
	for (unsigned n = 0; n < 4 * BATCHES; n++)
		losses += run_with(n, 1) > 0;
	assert_true(losses > 2);
}

static void test_none_for_a_while(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 4 * BATCHES; n++)
		for (unsigned failures = 2; failures < 12; failures += 3)
			run_with(n, failures);
	/* And none until the end. */
	assert_int_equal(run_with(0, PLENTY), BATCHES * (EVENTS + 3));
}

/* Losses of more kinds than a frame tells of, and one reason at two stages: each is told as it was. */
static void test_losses_of_many_kinds(void **state)
{
	const uint32_t ring = LOSS_STAGE_RING;
	const uint32_t decode = LOSS_STAGE_DECODE;
	uint64_t count = 0;
	struct mail *mail;
	struct fixture f;

	(void)state;
	setup_batcher(&f);
	batcher_loss(f.batcher, 3, ring, LOSS_REASON_MEMORY);
	batcher_loss(f.batcher, 4, decode, LOSS_REASON_MEMORY);
	batcher_loss(f.batcher, 5, ring, LOSS_REASON_MEMORY);
	f.seq = 12;
	batcher_flush(f.batcher);
	mail = mailbox_take(&f.mailbox);
	assert_non_null(mail);
	assert_int_equal(((struct worker_mail *)mail)->frame->losses, 2);
	assert_int_equal(((struct worker_mail *)mail)->frame->loss[0].count, 8);
	assert_int_equal(((struct worker_mail *)mail)->frame->loss[1].count, 4);
	f.seq_seen = ((struct worker_mail *)mail)->frame->end_seq;
	frame_ref_put(((struct worker_mail *)mail)->frame);
	free(mail);
	for (unsigned i = 0; i < 2 * FRAME_LOSSES_MAX; i++) {
		batcher_loss(f.batcher, 1 + i, i % 2 ? ring : decode, i / 2 % LOSS_REASONS);
		count += 1 + i;
	}
	f.seq += count;
	batcher_flush(f.batcher);
	take_mails(&f);
	assert_int_equal(f.lost, count);
	assert_int_equal(f.seq_seen, f.seq);
	close_batcher(&f);
}

static uint64_t handed_over(struct fixture *f)
{
	return atomic_load(&f->out.bytes);
}

/* The main loop takes nothing: what is beyond the bound is given up as a gap, and skips are no loss. */
static void test_main_loop_far_behind(void **state)
{
	uint64_t dropped = counter_read(COUNTER_handoff_dropped);
	struct fixture f;

	(void)state;
	setup_batcher(&f);
	write_batch(&f);
	take_mails(&f);
	assert_true(f.bytes);
	assert_int_equal(handed_over(&f), f.bytes);
	assert_int_equal(f.given_up, 0);
	atomic_store(&f.out.bytes, HANDOFF_BYTES_MAX + 1);
	write_batch(&f);
	take_mails(&f);
	assert_int_equal(f.given_up, EVENTS + 3);
	assert_int_equal(counter_read(COUNTER_handoff_dropped), dropped + 1);
	/* Skips alone have no bytes to give up. */
	f.seq++;
	batcher_skip(f.batcher);
	batcher_flush(f.batcher);
	take_mails(&f);
	assert_int_equal(counter_read(COUNTER_handoff_dropped), dropped + 1);
	atomic_store(&f.out.bytes, 0);
	write_batch(&f);
	take_mails(&f);
	assert_int_equal(f.given_up, EVENTS + 3);
	assert_int_equal(f.events, 2 * EVENTS);
	assert_int_equal(f.skipped, 4);
	assert_int_equal(f.lost, EVENTS + 9);
	assert_int_equal(f.seq_seen, f.seq);
	close_batcher(&f);
}

/* And there is no memory for that gap: the batch does not go out instead. */
static void test_main_loop_far_behind_without_memory(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 12; n++) {
		struct fixture f;

		setup_batcher(&f);
		atomic_store(&f.out.bytes, HANDOFF_BYTES_MAX + 1);
		allocations_left = n;
		failures_left = 1;
		write_batch(&f);
		allocations_left = PLENTY;
		failures_left = 0;
		write_batch(&f);
		take_mails(&f);
		assert_int_equal(f.events, 0);
		assert_int_equal(f.lost, 2 * (EVENTS + 3));
		assert_int_equal(f.skipped, 2);
		assert_int_equal(f.seq_seen, f.seq);
		close_batcher(&f);
	}
}

static void test_watermark(void **state)
{
	struct worker_mail *mail;
	struct fixture f;

	(void)state;
	setup_batcher(&f);
	allocations_left = 0;
	failures_left = 1;
	handoff_watermark(&f.out, 5);
	assert_null(mailbox_take(&f.mailbox));
	handoff_watermark(&f.out, 6);
	mail = (struct worker_mail *)mailbox_take(&f.mailbox);
	assert_non_null(mail);
	assert_int_equal(mail->time_ns, 6);
	free(mail);
	close_batcher(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_allocation),
		cmocka_unit_test(test_none_for_a_while),
		cmocka_unit_test(test_losses_of_many_kinds),
		cmocka_unit_test(test_main_loop_far_behind),
		cmocka_unit_test(test_main_loop_far_behind_without_memory),
		cmocka_unit_test(test_watermark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
