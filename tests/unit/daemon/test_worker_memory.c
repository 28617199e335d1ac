/*
 * A worker without memory: whichever allocation fails, each attempt is accounted for once, in order, and
 * what was lost is said once there is memory again.
 *
 * What encodes and sends is compiled into this program with an allocator that can fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/failing_memory.h"

#define calloc failing_calloc
#define malloc failing_malloc
#include "daemon/collect/batcher.c"
#include "daemon/base/frame_ref.c"
#include "daemon/collect/worker_out.c"
#undef calloc
#undef malloc

#include "tests/unit/daemon/small_catalog.h"

#define PLENTY		1000000u
#define BATCHES		6
#define EVENTS		20		/* in each; and a skip and a loss */

struct fixture {
	struct mailbox mailbox;
	struct worker_out out;
	struct thread_table *threads;
	struct probe_table probes;
	struct batcher_spec spec;
	struct batcher *batcher;
	uint64_t seq;			/* written */

	/* What came. */
	uint64_t seq_seen, events, skipped, lost, out_of_memory;
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
		.sink = worker_out_frame, .context = &f->out,
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
	batcher_loss(f->batcher, 3, RINGTAIL__V1__LOSS_STAGE__LOSS_RING,
		     RINGTAIL__V1__LOSS_REASON__REASON_RING_FULL);
	batcher_flush(f->batcher);
}

static void take_mails(struct fixture *f)
{
	struct mail *mail = mailbox_take(&f->mailbox), *next;

	for (; mail; mail = next) {
		struct worker_mail *mine = (struct worker_mail *)mail;
		struct frame_ref *frame = mine->frame;

		next = mail->next;
		assert_int_equal(mine->kind, WORKER_FRAME);
		assert_int_equal(frame->first_seq, f->seq_seen);
		assert_int_equal(frame_ref_attempts(frame),
				 frame->events + frame->skipped + frame_ref_losses(frame));
		f->seq_seen = frame->end_seq;
		f->events += frame->events;
		f->skipped += frame->skipped;
		for (uint32_t i = 0; i < frame->losses; i++) {
			f->lost += frame->loss[i].count;
			if (frame->loss[i].reason == RINGTAIL__V1__LOSS_REASON__REASON_MEMORY)
				f->out_of_memory += frame->loss[i].count;
		}
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

static void test_watermark(void **state)
{
	struct worker_mail *mail;
	struct fixture f;

	(void)state;
	setup_batcher(&f);
	allocations_left = 0;
	failures_left = 1;
	worker_out_watermark(&f.out, 5);
	assert_null(mailbox_take(&f.mailbox));
	worker_out_watermark(&f.out, 6);
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
		cmocka_unit_test(test_watermark),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
