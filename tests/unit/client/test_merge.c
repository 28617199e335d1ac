/* test_merge: one time order out of many CPUs, up to the watermark, in bounded memory. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/limits.h"
#include "client/lib/merge.h"
#include "client/lib/unpack.h"
#include "tests/unit/client/maker.h"

static struct maker maker;
static struct catalog *catalog;
static struct merge *merge;

/* Where not 0, what each decoder is said to hold; and whether there is memory for another one. */
static size_t decoder_bytes;
static bool no_decoder;
static unsigned decoders, decoders_made;	/* there are, and were ever */

size_t __wrap_batch_decoder_bytes(const struct batch_decoder *decoder);
size_t __real_batch_decoder_bytes(const struct batch_decoder *decoder);
struct batch_decoder *__wrap_catalog_decoder_create(struct catalog *of);
struct batch_decoder *__real_catalog_decoder_create(struct catalog *of);
void __wrap_batch_decoder_destroy(struct batch_decoder *decoder);
void __real_batch_decoder_destroy(struct batch_decoder *decoder);

size_t __wrap_batch_decoder_bytes(const struct batch_decoder *decoder)
{
	return decoder_bytes ? decoder_bytes : __real_batch_decoder_bytes(decoder);
}

struct batch_decoder *__wrap_catalog_decoder_create(struct catalog *of)
{
	if (no_decoder)
		return NULL;
	decoders++;
	decoders_made++;
	return __real_catalog_decoder_create(of);
}

void __wrap_batch_decoder_destroy(struct batch_decoder *decoder)
{
	decoders -= decoder != NULL;
	__real_batch_decoder_destroy(decoder);
}

static int setup(void **state)
{
	const uint8_t *body;
	struct frame_header header;
	static uint8_t raw[1 << 16];

	(void)state;
	decoder_bytes = 0;
	no_decoder = false;
	decoders = decoders_made = 0;
	maker_init(&maker);
	maker_catalog(&maker);
	assert_int_equal(frame_parse_header(maker.bytes, maker.size, FRAME_RAW_BYTES_MAX, &header),
			 0);
	assert_int_equal(frame_open(maker.codec, maker.bytes, &header, raw, &body), FRAME_OK);
	assert_int_equal(catalog_create(body, header.raw_bytes, NULL, &catalog, NULL), 0);
	merge = merge_create(1 << 20);
	assert_non_null(merge);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	merge_destroy(merge);
	merge_destroy(NULL);
	catalog_unref(catalog);
	maker_fini(&maker);
	return 0;
}

/* Ends the maker's batch and pushes it. */
static void push(uint32_t cpu)
{
	const uint8_t *raw;
	size_t bytes;
	struct merge_entry *entry;

	raw = batch_encode_finish(maker.encoder, &bytes);
	entry = merge_entry_create(catalog, bytes);
	memcpy(entry->message, raw, bytes);
	assert_int_equal(merge_push(merge, cpu, entry), 0);
}

static void push_times(uint32_t cpu, uint64_t first_seq, const uint64_t *time, unsigned n)
{
	maker_begin(&maker, cpu, first_seq, time[0]);
	for (unsigned i = 0; i < n; i++)
		maker_open(&maker, 100 + cpu, time[i], 0);
	push(cpu);
}

static void push_gap(uint32_t cpu, uint64_t first_seq, uint64_t end_seq)
{
	struct merge_entry *entry = merge_entry_create(NULL, 0);

	entry->gap = (struct merge_gap){ .first_seq = first_seq, .end_seq = end_seq };
	assert_int_equal(merge_push(merge, cpu, entry), 0);
}

static void expect_event(uint32_t cpu, uint64_t seq, uint64_t time)
{
	struct merge_item item;

	assert_int_equal(merge_next(merge, &item), MERGE_EVENT);
	assert_int_equal(item.cpu, cpu);
	assert_int_equal(item.batch->seq, seq);
	assert_int_equal(item.time_ns, time);
	assert_int_equal(item.batch->event.field[2], (uint32_t)-100);
}

static void expect_nothing(void)
{
	struct merge_item item;

	assert_int_equal(merge_next(merge, &item), MERGE_EMPTY);
}

static void order(void **state)
{
	(void)state;
	expect_nothing();
	push_times(0, 0, (uint64_t[]){ 10, 30, 50 }, 3);
	push_times(1, 0, (uint64_t[]){ 20, 40, 60 }, 3);
	expect_nothing();			/* no watermark yet */
	merge_watermark(merge, 45);
	merge_watermark(merge, 15);		/* never back */
	expect_event(0, 0, 10);
	expect_event(1, 0, 20);
	expect_event(0, 1, 30);
	expect_event(1, 1, 40);
	expect_nothing();
	merge_watermark(merge, 44);		/* never back */
	merge_watermark(merge, 50);		/* an event at 50 may still come */
	expect_nothing();
	push_times(1, 3, (uint64_t[]){ 61, 62 }, 2);
	merge_watermark(merge, 1000);
	expect_event(0, 2, 50);
	expect_event(1, 2, 60);
	expect_event(1, 3, 61);
	expect_event(1, 4, 62);
	expect_nothing();
	assert_int_equal(merge_late(merge), 0);
	assert_int_equal(merge_bytes(merge), 0);
}

/* Within a CPU the order is the ring's, whatever the clock did. */
static void ring_order(void **state)
{
	(void)state;
	push_times(0, 0, (uint64_t[]){ 10, 90, 20, 30 }, 4);
	push_times(1, 0, (uint64_t[]){ 50, 95 }, 2);
	merge_watermark(merge, 1000);
	expect_event(0, 0, 10);
	expect_event(1, 0, 50);
	expect_event(0, 1, 90);
	expect_event(0, 2, 20);
	expect_event(0, 3, 30);
	expect_event(1, 1, 95);
	expect_nothing();
}

static void expect_loss(uint32_t cpu, uint64_t first_seq, uint64_t time_ns)
{
	struct merge_item item;

	assert_int_equal(merge_next(merge, &item), MERGE_LOSS);
	assert_int_equal(item.cpu, cpu);
	assert_int_equal(item.batch->loss.first_seq, first_seq);
	assert_int_equal(item.time_ns, time_ns);
}

/* Before any event of its batch it is of the batch's time, and waits for it. */
static void loss_first_in_a_batch(void **state)
{
	(void)state;
	maker_begin(&maker, 0, 0, 30);
	batch_encode_loss(maker.encoder, 7, 0, 1);
	push(0);
	push_times(1, 0, (uint64_t[]){ 20 }, 1);
	merge_watermark(merge, 30);
	expect_event(1, 0, 20);
	expect_nothing();
	merge_watermark(merge, 31);
	expect_loss(0, 0, 30);
}

/* A loss is of the time of what came before it; a clock that goes back does not make it older. */
static void loss_behind_a_clock_that_went_back(void **state)
{
	(void)state;
	maker_begin(&maker, 0, 0, 90);
	maker_open(&maker, 1, 90, 0);
	maker_open(&maker, 1, 20, 0);
	batch_encode_loss(maker.encoder, 7, 0, 1);
	push(0);
	merge_watermark(merge, 91);
	expect_event(0, 0, 90);
	expect_event(0, 1, 20);
	expect_loss(0, 2, 90);
}

static void losses_in_place(void **state)
{
	struct merge_item item;

	(void)state;
	maker_begin(&maker, 0, 5, 10);
	maker_open(&maker, 1, 10, 0);
	batch_encode_skip(maker.encoder, 2);
	batch_encode_loss(maker.encoder, 7, 0, 1);
	maker_open(&maker, 1, 30, 0);
	push(0);
	push_gap(0, 16, 20);
	push_times(0, 20, (uint64_t[]){ 40 }, 1);
	push_times(1, 0, (uint64_t[]){ 20 }, 1);
	merge_watermark(merge, 35);
	expect_event(0, 5, 10);
	assert_int_equal(merge_next(merge, &item), MERGE_LOSS);
	assert_int_equal(item.batch->loss.count, 7);
	assert_int_equal(item.batch->loss.first_seq, 8);
	assert_int_equal(item.time_ns, 10);
	expect_event(1, 0, 20);
	expect_event(0, 15, 30);
	assert_int_equal(merge_next(merge, &item), MERGE_GAP);
	assert_int_equal(item.gap->first_seq, 16);
	assert_int_equal(item.time_ns, 30);
	expect_nothing();
	merge_watermark(merge, 41);
	expect_event(0, 20, 40);
	expect_nothing();
}

static void positions(void **state)
{
	uint64_t seq;
	struct merge_item item;

	(void)state;
	assert_false(merge_waiting(merge, 0, &seq));
	push_times(0, 3, (uint64_t[]){ 10, 20 }, 2);
	push_gap(0, 5, 9);
	assert_true(merge_waiting(merge, 0, &seq));
	assert_int_equal(seq, 3);
	merge_flush(merge);
	expect_event(0, 3, 10);
	assert_true(merge_waiting(merge, 0, &seq));
	assert_int_equal(seq, 4);
	expect_event(0, 4, 20);
	assert_int_equal(merge_next(merge, &item), MERGE_GAP);
	assert_true(merge_waiting(merge, 0, &seq));
	assert_int_equal(seq, 9);
	expect_nothing();
	assert_false(merge_waiting(merge, 0, &seq));
	/* A loss that was given out is behind, too. */
	maker_begin(&maker, 0, 9, 30);
	batch_encode_loss(maker.encoder, 4, 0, 1);
	maker_open(&maker, 1, 40, 0);
	push(0);
	merge_flush(merge);
	assert_true(merge_waiting(merge, 0, &seq));
	assert_int_equal(seq, 9);
	assert_int_equal(merge_next(merge, &item), MERGE_LOSS);
	assert_true(merge_waiting(merge, 0, &seq));
	assert_int_equal(seq, 13);
	expect_event(0, 13, 40);
}

/* A gap comes first of a new run: the numbers of the run before are no place in it. */
static void position_at_a_gap_of_a_new_run(void **state)
{
	struct merge_item item;
	uint64_t seq;

	(void)state;
	push_times(0, 4000, (uint64_t[]){ 10 }, 1);
	merge_restart(merge);
	expect_event(0, 4000, 10);
	push_gap(0, 7, 7);
	expect_nothing();
	assert_true(merge_waiting(merge, 0, &seq));
	assert_int_equal(seq, 7);
	merge_watermark(merge, 1);
	assert_int_equal(merge_next(merge, &item), MERGE_GAP);
	push_times(0, 7, (uint64_t[]){ 5 }, 1);
	assert_true(merge_waiting(merge, 0, &seq));
	assert_int_equal(seq, 7);
}

/* Batches of nothing but skips vanish, and what is behind them comes. */
static void skips_only(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		maker_begin(&maker, 0, 10 * i, 5);
		batch_encode_skip(maker.encoder, 10);
		push(0);
	}
	assert_int_equal(merge_bytes(merge), 0);
	push_times(0, 30, (uint64_t[]){ 7 }, 1);
	merge_watermark(merge, 100);
	expect_event(0, 30, 7);
	expect_nothing();
}

static void bounded(void **state)
{
	struct merge_item item;
	uint64_t time[64], last = 0;
	unsigned given = 0;

	(void)state;
	merge_destroy(merge);
	merge = merge_create(20000);
	for (unsigned i = 0; i < 200; i++) {
		for (unsigned j = 0; j < 64; j++)
			time[j] = 1000 + i * 64 + j;
		push_times(0, i * 64, time, 64);
		while (merge_next(merge, &item) == MERGE_EVENT) {
			assert_true(item.time_ns >= last);	/* the oldest go first */
			last = item.time_ns;
			given++;
		}
		assert_true(merge_bytes(merge) <= 20000);
	}
	assert_true(given > 0 && given < 200 * 64);
	assert_int_equal(merge_late(merge), 0);
	/* What another CPU held back all that time is late, counted, and not thrown away. */
	push_times(1, 0, (uint64_t[]){ 1, 2, 3 }, 3);
	merge_flush(merge);
	expect_event(1, 0, 1);
	expect_event(1, 1, 2);
	expect_event(1, 2, 3);
	assert_int_equal(merge_late(merge), 3);
}

static void flush_is_for_what_waits(void **state)
{
	(void)state;
	push_times(0, 0, (uint64_t[]){ 10, 20 }, 2);
	push_times(1, 0, (uint64_t[]){ 15 }, 1);
	merge_flush(merge);
	expect_event(0, 0, 10);
	expect_event(1, 0, 15);
	expect_event(0, 1, 20);
	expect_nothing();
	push_times(0, 2, (uint64_t[]){ 30 }, 1);
	expect_nothing();
	merge_watermark(merge, 31);
	expect_event(0, 2, 30);
}

/* A flush counts anew what waits. */
static void flush_after_a_flush(void **state)
{
	(void)state;
	push_times(0, 0, (uint64_t[]){ 10, 20 }, 2);
	merge_flush(merge);
	merge_flush(merge);
	expect_event(0, 0, 10);
	expect_event(0, 1, 20);
	expect_nothing();
	push_times(0, 2, (uint64_t[]){ 30 }, 1);
	expect_nothing();
}

/* Just as much as may wait, waits. */
static void as_much_as_may_wait(void **state)
{
	size_t bytes;

	(void)state;
	push_times(0, 0, (uint64_t[]){ 10 }, 1);
	bytes = merge_bytes(merge);
	merge_destroy(merge);
	merge = merge_create(bytes);
	push_times(0, 0, (uint64_t[]){ 10 }, 1);
	assert_int_equal(merge_bytes(merge), bytes);
	expect_nothing();
	push_gap(1, 0, 1);
	assert_true(merge_bytes(merge) > bytes);
	assert_int_equal(merge_next(merge, &(struct merge_item){ 0 }), MERGE_GAP);
}

static void another_catalog(void **state)
{
	(void)state;
	merge_set_catalog(merge, catalog);
	push_times(0, 0, (uint64_t[]){ 10 }, 1);
	push_times(1, 0, (uint64_t[]){ 20 }, 1);
	merge_set_catalog(merge, catalog);
	expect_event(0, 0, 10);
	expect_event(1, 0, 20);
	push_times(0, 1, (uint64_t[]){ 30 }, 1);
	expect_nothing();
}

static void as_many_cpus_as_there_are(void **state)
{
	struct merge_entry *entry = merge_entry_create(NULL, 0);

	(void)state;
	for (uint32_t cpu = 0; cpu < CURSOR_POSITIONS_MAX; cpu++)
		push_gap(7 * cpu, 0, 1);
	assert_int_equal(merge_push(merge, 1, entry), -ENOMEM);
	merge_entry_destroy(entry);
	push_gap(7, 1, 2);
	merge_flush(merge);
	for (uint32_t i = 0; i <= CURSOR_POSITIONS_MAX; i++)
		assert_int_equal(merge_next(merge, &(struct merge_item){ 0 }), MERGE_GAP);
	expect_nothing();
}

/*
 * Two decoders of more than they may hold together: the batch that is oldest goes out whole, and its
 * decoder with it; then the other is alone, and order holds again.
 */
static void decoders_that_hold_too_much(void **state)
{
	(void)state;
	decoder_bytes = MERGE_DECODE_BYTES_MAX / 2 + 1;
	push_times(0, 0, (uint64_t[]){ 10, 30 }, 2);
	push_times(1, 0, (uint64_t[]){ 20, 40 }, 2);
	merge_watermark(merge, 1000);
	expect_event(0, 0, 10);
	expect_event(0, 1, 30);
	expect_event(1, 0, 20);
	assert_int_equal(merge_late(merge), 1);
	expect_event(1, 1, 40);
	expect_nothing();
	/* As much as they may is not too much. */
	decoder_bytes = MERGE_DECODE_BYTES_MAX / 2;
	push_times(0, 2, (uint64_t[]){ 50, 70 }, 2);
	push_times(1, 2, (uint64_t[]){ 60, 80 }, 2);
	expect_event(0, 2, 50);
	expect_event(1, 2, 60);
	expect_event(0, 3, 70);
	expect_event(1, 3, 80);
	assert_int_equal(merge_late(merge), 1);
	/* Nothing waits for a watermark while they hold too much. */
	decoder_bytes = MERGE_DECODE_BYTES_MAX / 2 + 1;
	push_times(0, 4, (uint64_t[]){ 2000, 2001 }, 2);
	push_times(1, 4, (uint64_t[]){ 2002 }, 1);
	expect_event(0, 4, 2000);
	expect_event(0, 5, 2001);
	expect_nothing();
}

/* One serves until the catalog changes, and is kept for the next batch as long as they hold little. */
static void decoders_that_are_kept(void **state)
{
	(void)state;
	merge_set_catalog(merge, catalog);
	merge_watermark(merge, 1000);
	for (unsigned i = 0; i < 3; i++) {
		push_times(0, i, (uint64_t[]){ 10 }, 1);
		expect_event(0, i, 10);
		expect_nothing();
		assert_int_equal(decoders, 1);
	}
	assert_int_equal(decoders_made, 1);
	merge_set_catalog(merge, NULL);
	assert_int_equal(decoders, 0);
	push_times(0, 3, (uint64_t[]){ 10 }, 1);	/* of a catalog that is not the newest */
	expect_event(0, 3, 10);
	expect_nothing();
	assert_int_equal(decoders, 0);
	merge_set_catalog(merge, catalog);
	decoder_bytes = MERGE_DECODE_BYTES_MAX / 2;
	push_times(0, 4, (uint64_t[]){ 10 }, 1);
	expect_event(0, 4, 10);
	expect_nothing();
	assert_int_equal(decoders, 1);
	push_times(1, 0, (uint64_t[]){ 10 }, 1);
	expect_event(1, 0, 10);
	expect_nothing();
	assert_int_equal(decoders, 1);		/* two would be more than half of what they may */
}

/* What a batch would have held is missing; the next one is decoded. */
static void no_memory_for_a_decoder(void **state)
{
	struct merge_entry *entry = merge_entry_create(catalog, 0);
	struct merge_item item;
	uint64_t seq;

	(void)state;
	entry->gap = (struct merge_gap){ .first_seq = 10, .end_seq = 14 };
	no_decoder = true;
	assert_int_equal(merge_push(merge, 0, entry), 0);
	merge_flush(merge);
	assert_int_equal(merge_next(merge, &item), MERGE_BAD);
	assert_int_equal(item.first_seq, 10);
	assert_int_equal(item.end_seq, 14);
	assert_string_equal(item.why, "out of memory");
	assert_true(merge_waiting(merge, 0, &seq));
	no_decoder = false;
	push_times(0, 14, (uint64_t[]){ 10 }, 1);
	merge_watermark(merge, 11);
	expect_event(0, 14, 10);
}

/* After a boot the clock is young again, and nobody waits for the old one. */
static void restart(void **state)
{
	(void)state;
	push_times(0, 0, (uint64_t[]){ 1000 }, 1);
	merge_watermark(merge, 2000);
	expect_event(0, 0, 1000);
	push_times(0, 1, (uint64_t[]){ 3000 }, 1);
	merge_restart(merge);
	expect_event(0, 1, 3000);
	expect_nothing();
	push_times(0, 0, (uint64_t[]){ 5, 9 }, 2);
	push_times(1, 0, (uint64_t[]){ 7 }, 1);
	expect_nothing();
	merge_watermark(merge, 8);
	expect_event(0, 0, 5);
	expect_event(1, 0, 7);
	expect_nothing();
	assert_int_equal(merge_late(merge), 0);
}

static void expect_lost(enum merge_next next, bool is_early)
{
	struct merge_item item;

	assert_int_equal(merge_next(merge, &item), next);
	assert_int_equal(item.is_early, is_early);
}

/* What was lost before the time that was asked for says so, by the event from before that time behind it. */
static void lost_before_a_time(void **state)
{
	(void)state;
	merge_set_since(merge, 100);
	push_gap(0, 0, 5);
	merge_watermark(merge, 50);
	expect_nothing();			/* what comes behind it? */
	push_times(0, 5, (uint64_t[]){ 60, 70 }, 2);
	expect_lost(MERGE_GAP, true);
	expect_nothing();
	merge_watermark(merge, 200);
	expect_event(0, 5, 60);
	expect_event(0, 6, 70);
	push_gap(0, 7, 7);			/* of no size: behind the last early event */
	push_gap(0, 7, 9);
	maker_begin(&maker, 0, 9, 120);
	batch_encode_loss(maker.encoder, 7, 0, 2);
	maker_open(&maker, 1, 120, 0);
	push(0);
	expect_lost(MERGE_GAP, false);
	expect_lost(MERGE_GAP, false);
	expect_lost(MERGE_LOSS, false);
	expect_event(0, 9 + 7, 120);
	merge_restart(merge);			/* another run: its numbers begin anew, and its clock */
	merge_set_since(merge, 30);
	maker_begin(&maker, 0, 0, 10);
	batch_encode_loss(maker.encoder, 7, 0, 2);
	maker_open(&maker, 1, 20, 0);
	batch_encode_loss(maker.encoder, 7, 0, 2);
	maker_open(&maker, 1, 40, 0);
	push(0);
	merge_watermark(merge, 50);
	expect_lost(MERGE_LOSS, true);
	expect_event(0, 7, 20);
	expect_lost(MERGE_LOSS, false);
	expect_event(0, 7 + 1 + 7, 40);
	merge_restart(merge);
	push_gap(0, 0, 3);
	push_times(0, 3, (uint64_t[]){ 40 }, 1);
	merge_watermark(merge, 50);
	expect_lost(MERGE_GAP, false);
	expect_event(0, 3, 40);
}

/* Where nothing came behind it by that time, nobody knows: it is told. So is all when the end has come. */
static void lost_perhaps_before_a_time(void **state)
{
	(void)state;
	merge_set_since(merge, 100);
	push_gap(0, 0, 5);
	merge_watermark(merge, 99);
	expect_nothing();
	merge_watermark(merge, 100);
	expect_lost(MERGE_GAP, false);
	merge_restart(merge);
	push_gap(1, 0, 5);
	merge_watermark(merge, 50);
	expect_nothing();
	merge_flush(merge);
	expect_lost(MERGE_GAP, false);
}

/* All gaps at a CPU's end, and not the last alone, stand behind the run's events of every CPU. */
static void gaps_at_the_end_of_a_run(void **state)
{
	struct merge_item item;

	(void)state;
	push_gap(0, 0, 1);		/* in the middle: where it is */
	push_times(0, 1, (uint64_t[]){ 10 }, 1);
	push_gap(0, 2, 3);
	push_gap(0, 3, 4);
	push_times(1, 0, (uint64_t[]){ 20, 30 }, 2);
	merge_end_run(merge);
	assert_int_equal(merge_next(merge, &item), MERGE_GAP);
	assert_int_equal(item.gap->first_seq, 0);
	expect_event(0, 1, 10);
	expect_event(1, 0, 20);
	expect_event(1, 1, 30);
	for (uint64_t first_seq = 2; first_seq < 4; first_seq++) {
		assert_int_equal(merge_next(merge, &item), MERGE_GAP);
		assert_int_equal(item.gap->first_seq, first_seq);
		assert_int_equal(item.time_ns, 30);
	}
	expect_nothing();
}

static void damaged(void **state)
{
	struct merge_entry *entry;
	struct merge_item item;
	const uint8_t *raw;
	size_t bytes;
	enum merge_next next;
	unsigned bad = 0, turned = 0;

	(void)state;
	/* Every byte of a batch, turned: an error or other values, and the next batch is whole. */
	maker_begin(&maker, 0, 0, 10);
	for (unsigned i = 0; i < 4; i++)
		maker_open(&maker, 1 + i, 10 + i, 0);
	raw = batch_encode_finish(maker.encoder, &bytes);
	for (size_t i = 0; i < bytes; i++) {
		entry = merge_entry_create(catalog, bytes);
		memcpy(entry->message, raw, bytes);
		entry->message[i] ^= 0xff;
		entry->offset = 77;
		assert_int_equal(merge_push(merge, 0, entry), 0);
		merge_flush(merge);
		turned++;
		while ((next = merge_next(merge, &item)) != MERGE_EMPTY) {
			if (next != MERGE_BAD)
				continue;
			assert_int_equal(item.offset, 77);
			assert_true(item.why[0]);
			bad++;
		}
		assert_int_equal(merge_bytes(merge), 0);
	}
	assert_true(bad > turned / 3);
}

/* Against a plain sort, with many CPUs. */
static void random_order(void **state)
{
	enum { CPUS = 9, BATCHES = 30, EVENTS = 40 };
	uint64_t clock[CPUS], seq[CPUS] = { 0 }, last = 0, low;
	unsigned seed = (unsigned)getpid(), given = 0;
	struct merge_item item;

	(void)state;
	print_message("seed %u\n", seed);
	srandom(seed);
	for (unsigned i = 0; i < CPUS; i++)
		clock[i] = 1000;
	for (unsigned batch = 0; batch < BATCHES * CPUS; batch++) {
		unsigned cpu = (unsigned)random() % CPUS, n = 1 + (unsigned)random() % EVENTS;

		maker_begin(&maker, cpu, seq[cpu], clock[cpu]);
		for (unsigned i = 0; i < n; i++)
			maker_open(&maker, 100 + cpu, clock[cpu] += (uint64_t)random() % 100, 0);
		push(cpu);
		seq[cpu] += n;
		low = UINT64_MAX;
		for (unsigned i = 0; i < CPUS; i++)
			low = clock[i] < low ? clock[i] : low;
		merge_watermark(merge, low);
		while (merge_next(merge, &item) == MERGE_EVENT) {
			assert_true(item.time_ns >= last && item.time_ns < low);
			last = item.time_ns;
			given++;
		}
	}
	merge_flush(merge);
	while (merge_next(merge, &item) == MERGE_EVENT) {
		assert_true(item.time_ns >= last);
		last = item.time_ns;
		given++;
	}
	for (unsigned i = 0; i < CPUS; i++)
		given -= (unsigned)seq[i];
	assert_int_equal(given, 0);
	assert_int_equal(merge_late(merge), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(order),
		TEST(ring_order),
		TEST(losses_in_place),
		TEST(loss_first_in_a_batch),
		TEST(loss_behind_a_clock_that_went_back),
		TEST(positions),
		TEST(position_at_a_gap_of_a_new_run),
		TEST(skips_only),
		TEST(bounded),
		TEST(flush_is_for_what_waits),
		TEST(flush_after_a_flush),
		TEST(as_much_as_may_wait),
		TEST(another_catalog),
		TEST(as_many_cpus_as_there_are),
		TEST(decoders_that_hold_too_much),
		TEST(decoders_that_are_kept),
		TEST(no_memory_for_a_decoder),
		TEST(restart),
		TEST(lost_before_a_time),
		TEST(lost_perhaps_before_a_time),
		TEST(gaps_at_the_end_of_a_run),
		TEST(damaged),
		TEST(random_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
