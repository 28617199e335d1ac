/*
 * A batcher whose frames nobody can take, for lack of memory: what they told goes on as a gap of that
 * size, in its place, once somebody can; what had nothing to tell is told later. And one with a filter:
 * what it remembers of a thread holds until the thread is another.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/collect/batcher.h"
#include "daemon/ring/probe_table.h"
#include "tests/unit/daemon/small_catalog.h"

#define FRAMES_MAX 16u

struct fixture {
	struct batcher *batcher;
	struct thread_table *threads;
	struct frame_codec *codec;
	struct batcher_spec spec;
	struct filter *filter;
	struct probe_table probes;
	bool full;			/* no memory to take a frame */
	unsigned refuse;		/* nor for so many more; then there is again */
	unsigned frames;
	struct frame_ref *frame[FRAMES_MAX];
};

static bool take(void *context, uint32_t subscription, struct frame_ref *frame)
{
	struct fixture *f = context;

	assert_int_equal(subscription, 3);
	if (f->full)
		return false;
	if (f->refuse) {
		f->refuse--;
		return false;
	}
	assert_true(f->frames < FRAMES_MAX);
	f->frame[f->frames++] = frame;
	return true;
}

static int set_up(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct batcher_config config = {.sink = take, .context = f, .subscription = 3, .ring = 1,
					.cpu = 5};
	struct error error;

	assert_non_null(f);
	f->codec = frame_codec_create(1);
	f->threads = thread_table_create(16);
	assert_int_equal(probe_table_init(&f->probes, small_catalog_get(), &error), 0);
	assert_int_equal(probe_set_add_glob(&f->spec.probes, "syscall:getppid:call",
					    small_catalog_get(), &error), 0);
	config.spec = &f->spec;
	config.threads = f->threads;
	config.codec = f->codec;
	f->batcher = batcher_create(&config);
	assert_non_null(f->batcher);
	batcher_start(f->batcher, 100, 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	batcher_destroy(f->batcher);
	for (unsigned i = 0; i < f->frames; i++)
		frame_ref_put(f->frame[i]);
	thread_table_destroy(f->threads);
	frame_codec_destroy(f->codec);
	free(f);
	return 0;
}

static void add_events(struct fixture *f, unsigned events)
{
	const uint64_t payload[] = {100, 1};
	struct ring_item item = {.time_ns = 1000, .tid = 7, .probe = SMALL_GETPPID, .words = 2,
				 .payload = payload};

	for (unsigned i = 0; i < events; i++)
		batcher_event(f->batcher, &item, &f->probes.probe[SMALL_GETPPID], THREAD_NONE);
}

static void check_range(const struct frame_ref *frame, enum frame_type type, uint64_t first_seq,
			uint64_t end_seq)
{
	assert_int_equal(frame->type, type);
	assert_int_equal(frame->ring, 1);
	assert_int_equal(frame->cpu, 5);
	assert_int_equal(frame->first_seq, first_seq);
	assert_int_equal(frame->end_seq, end_seq);
	assert_int_equal(frame_ref_attempts(frame),
			 frame->events + frame->skipped + frame_ref_losses(frame));
}

static void check_gap(struct fixture *f, const struct frame_ref *frame, uint64_t events)
{
	struct frame_header header;
	Ringtail__V1__Gap *gap;
	const uint8_t *body;
	uint8_t raw[256];

	assert_int_equal(frame_ref_losses(frame), events);
	assert_int_equal(frame->loss[0].reason, LOSS_REASON_MEMORY);
	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header),
			 FRAME_OK);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	gap = ringtail__v1__gap__unpack(NULL, header.raw_bytes, body);
	assert_non_null(gap);
	assert_int_equal(gap->cpu, 5);
	assert_int_equal(gap->first_seq, frame->first_seq);
	assert_int_equal(gap->end_seq, frame->end_seq);
	assert_int_equal(gap->events, events);
	assert_int_equal(gap->stage, LOSS_STAGE_QUEUE);
	assert_int_equal(frame->loss[0].stage, LOSS_STAGE_QUEUE);
	assert_int_equal(gap->reason, LOSS_REASON_MEMORY);
	ringtail__v1__gap__free_unpacked(gap, NULL);
}

static void test_refused_once(void **state)
{
	uint64_t given_up = counter_read(COUNTER_batches_out_of_memory);
	struct fixture *f = *state;

	f->full = true;
	add_events(f, 10);
	batcher_skip(f->batcher);
	batcher_loss(f->batcher, 4, LOSS_STAGE_RING, LOSS_REASON_RING_FULL);
	batcher_flush(f->batcher);
	assert_int_equal(f->frames, 0);
	f->full = false;
	add_events(f, 5);
	batcher_flush(f->batcher);
	assert_int_equal(f->frames, 2);
	check_range(f->frame[0], FRAME_GAP, 100, 115);
	check_gap(f, f->frame[0], 14);
	assert_int_equal(counter_read(COUNTER_batches_out_of_memory), given_up + 1);
	check_range(f->frame[1], FRAME_BATCH, 115, 120);
	assert_int_equal(f->frame[1]->events, 5);
}

/* It is one gap, however often; and it is told even if nothing comes after it. */
static void test_refused_again(void **state)
{
	struct fixture *f = *state;

	f->full = true;
	for (unsigned i = 0; i < 3; i++) {
		add_events(f, 10);
		batcher_flush(f->batcher);
		batcher_flush(f->batcher);
	}
	f->full = false;
	batcher_flush(f->batcher);
	batcher_flush(f->batcher);
	assert_int_equal(f->frames, 1);
	check_range(f->frame[0], FRAME_GAP, 100, 130);
	check_gap(f, f->frame[0], 30);
}

/* Memory that comes back between the gap's refusal and the batch is not the batch's: the gap comes first. */
static void test_no_batch_overtakes_the_gap_before_it(void **state)
{
	struct fixture *f = *state;

	f->full = true;
	add_events(f, 10);
	batcher_flush(f->batcher);
	f->full = false;
	add_events(f, 5);
	f->refuse = 1;
	batcher_flush(f->batcher);
	assert_int_equal(f->frames, 1);
	check_range(f->frame[0], FRAME_GAP, 100, 115);
	check_gap(f, f->frame[0], 15);
	add_events(f, 2);
	batcher_flush(f->batcher);
	assert_int_equal(f->frames, 2);
	check_range(f->frame[1], FRAME_BATCH, 115, 117);
}

/* Nobody lost anything by it: the range goes on, and belongs to the next batch. */
static void test_skips_are_kept(void **state)
{
	struct fixture *f = *state;

	f->full = true;
	batcher_skip(f->batcher);
	batcher_skip(f->batcher);
	batcher_flush(f->batcher);
	f->full = false;
	add_events(f, 1);
	batcher_flush(f->batcher);
	assert_int_equal(f->frames, 1);
	check_range(f->frame[0], FRAME_BATCH, 100, 103);
	assert_int_equal(f->frame[0]->skipped, 2);
	assert_int_equal(f->frame[0]->events, 1);
}

static uint32_t introduce(struct fixture *f, uint32_t tid, const char *comm)
{
	struct rt_thread thread = {.pid = 7};
	uint32_t index;

	memcpy(thread.comm, comm, strlen(comm));
	index = thread_table_learn(f->threads, tid, &thread);
	assert_int_not_equal(index, THREAD_NONE);
	batcher_forget_thread(f->batcher, index);
	batcher_skip(f->batcher);
	return index;
}

/* One call of 100 ns that returned `ret`; returns whether it passed. */
static bool passes(struct fixture *f, uint32_t thread, uint64_t ret)
{
	const uint64_t payload[] = {100, ret};
	struct ring_item item = {.time_ns = 1000, .tid = 7, .probe = SMALL_GETPPID, .words = 2,
				 .payload = payload};

	batcher_event(f->batcher, &item, &f->probes.probe[SMALL_GETPPID], thread);
	batcher_flush(f->batcher);
	batcher_flush(f->batcher);
	assert_true(f->frames > 0);
	return f->frame[f->frames - 1]->events == 1;
}

static int set_up_filter(void **state, const char *text)
{
	struct fixture *f;
	struct batcher_config config;
	struct error error;

	if (set_up(state))
		return -1;
	f = *state;
	config = (struct batcher_config){.spec = &f->spec, .sink = take, .context = f,
					 .threads = f->threads, .codec = f->codec,
					 .subscription = 3, .ring = 1, .cpu = 5};
	assert_int_equal(filter_compile(text, small_catalog_get(), &f->filter, &error), 0);
	f->spec.filter = f->filter;
	batcher_destroy(f->batcher);
	f->batcher = batcher_create(&config);
	assert_non_null(f->batcher);
	batcher_start(f->batcher, 100, 0);
	return 0;
}

static int set_up_by_name(void **state)
{
	return set_up_filter(state, "comm == \"sh\" && cpu == 5");
}

static int set_up_by_result(void **state)
{
	return set_up_filter(state, "comm == \"sh\" && ret == 1");
}

static int tear_down_filter(void **state)
{
	struct fixture *f = *state;

	filter_destroy(f->filter);
	return tear_down(state);
}

static void test_judged_by_thread(void **state)
{
	struct fixture *f = *state;
	uint32_t sh = introduce(f, 7, "sh"), cat = introduce(f, 8, "cat");

	assert_true(passes(f, sh, 1));
	assert_true(passes(f, sh, 2));
	assert_false(passes(f, cat, 1));
	assert_false(passes(f, THREAD_NONE, 1));
	assert_true(passes(f, sh, 1));
	assert_int_equal(introduce(f, 7, "ls"), sh);
	assert_false(passes(f, sh, 1));
	assert_int_equal(introduce(f, 7, "sh"), sh);
	assert_true(passes(f, sh, 1));
}

/* What a stage lost for two reasons is two losses; more of a reason it had adds to that one. */
static void test_reasons_are_told_apart(void **state)
{
	const uint32_t stage = LOSS_STAGE_RING;
	const uint32_t full = LOSS_REASON_RING_FULL;
	const uint32_t bad = LOSS_REASON_BAD_RECORD;
	struct fixture *f = *state;

	batcher_loss(f->batcher, 3, stage, full);
	batcher_loss(f->batcher, 4, stage, bad);
	batcher_loss(f->batcher, 10, stage, full);
	batcher_flush(f->batcher);
	assert_int_equal(f->frames, 1);
	check_range(f->frame[0], FRAME_BATCH, 100, 117);
	assert_int_equal(f->frame[0]->losses, 2);
	assert_int_equal(f->frame[0]->loss[0].stage, stage);
	assert_int_equal(f->frame[0]->loss[0].reason, full);
	assert_int_equal(f->frame[0]->loss[0].count, 13);
	assert_int_equal(f->frame[0]->loss[1].stage, stage);
	assert_int_equal(f->frame[0]->loss[1].reason, bad);
	assert_int_equal(f->frame[0]->loss[1].count, 4);
}

static int set_up_by_tid(void **state)
{
	return set_up_filter(state, "tid == 7");
}

/* Nobody was judged before, and nobody knows who it is. */
static void test_judged_first_a_stranger(void **state)
{
	struct fixture *f = *state;

	assert_true(passes(f, THREAD_NONE, 1));
	assert_true(passes(f, introduce(f, 7, "sh"), 1));
	assert_true(passes(f, THREAD_NONE, 1));
}

/* The first of the table was there before the batcher was, which has judged nobody. */
static void test_the_first_thread_is_judged(void **state)
{
	struct rt_thread thread = {.pid = 7, .comm = "sh"};
	struct fixture *f = *state;

	assert_int_equal(thread_table_learn(f->threads, 7, &thread), 0);
	assert_true(passes(f, 0, 1));
}

static void test_judged_by_event(void **state)
{
	struct fixture *f = *state;
	uint32_t sh = introduce(f, 7, "sh");

	assert_true(passes(f, sh, 1));
	assert_false(passes(f, sh, 2));
	assert_true(passes(f, sh, 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_judged_by_thread, set_up_by_name,
						tear_down_filter),
		cmocka_unit_test_setup_teardown(test_judged_first_a_stranger, set_up_by_tid,
						tear_down_filter),
		cmocka_unit_test_setup_teardown(test_the_first_thread_is_judged, set_up_by_name,
						tear_down_filter),
		cmocka_unit_test_setup_teardown(test_judged_by_event, set_up_by_result,
						tear_down_filter),
		cmocka_unit_test_setup_teardown(test_refused_once, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_refused_again, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_no_batch_overtakes_the_gap_before_it, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_skips_are_kept, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_reasons_are_told_apart, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
