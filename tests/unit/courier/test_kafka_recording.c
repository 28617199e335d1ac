/*
 * recording: a host's records as they lie in a topic, with what was sent twice and what is gone; the library reads
 * what comes of it: each event once, each hole a gap, residual 0.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/lib/lanes.h"
#include "client/lib/ringtail.h"
#include "courier/recording.h"
#include "courier/runs.h"
#include "tests/unit/client/maker.h"

static struct maker hello, catalog, frames;
static struct recording_output *output;
static struct recording *recording;
static struct ringtail_error error;
static FILE *file;
static size_t at;			/* in `frames`: what has been taken */
static uint64_t epoch, unknown_epoch;
static const uint8_t boot[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

static int find(void *context, const struct parcel_label *label, struct runs_beginning *beginning,
		struct ringtail_error *why)
{
	(void)context;
	(void)why;
	if (label->run.epoch == unknown_epoch)
		return -ENOENT;
	hello.size = 0;
	maker_hello(&hello, 1, label->run.epoch);
	*beginning = (struct runs_beginning){ hello.bytes, catalog.bytes, hello.size, catalog.size };
	return 0;
}

static int setup(void **state)
{
	(void)state;
	maker_init(&hello);
	maker_init(&catalog);
	maker_init(&frames);
	maker_catalog(&catalog);
	at = 0;
	epoch = 7;
	unknown_epoch = 0;
	file = fdopen(memfd_create("recording", MFD_CLOEXEC), "w+");
	output = recording_output_create(file);
	recording = output ? recording_create(output, find, NULL) : NULL;
	return recording ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	recording_destroy(recording);
	recording_output_destroy(output);
	fclose(file);
	maker_fini(&hello);
	maker_fini(&catalog);
	maker_fini(&frames);
	return 0;
}

/* What the maker has made since: one frame. */
static void record(unsigned type, bool known, uint32_t cpu, uint64_t first_seq, uint64_t end_seq)
{
	struct parcel_label label = { .type = type, .span = { known, cpu, first_seq, end_seq } };

	memcpy(label.run.boot_id, boot, sizeof(boot));
	label.run.epoch = epoch;
	assert_int_equal(recording_take(recording, &label, frames.bytes + at, frames.size - at, &error), 0);
	at = frames.size;
}

static void batch(uint32_t cpu, uint64_t first_seq, unsigned events)
{
	uint64_t end_seq = maker_batch(&frames, cpu, first_seq, 1000 + first_seq * 10, 10, events);

	record(FRAME_BATCH, true, cpu, first_seq, end_seq);
}

static void watermark(uint64_t time_ns, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	Ringtail__V1__Watermark message = RINGTAIL__V1__WATERMARK__INIT;
	Ringtail__V1__Position position = RINGTAIL__V1__POSITION__INIT, *list = &position;

	position.cpu = cpu;
	position.seq = seq;
	position.skipped = skipped;
	message.time_ns = time_ns;
	message.n_position = 1;
	message.position = &list;
	maker_message(&frames, FRAME_WATERMARK, &message.base);
	record(FRAME_WATERMARK, false, 0, 0, 0);
}

static void subscribed(uint64_t a, uint64_t b)
{
	const uint64_t seq[2] = { a, b };

	maker_subscribed(&frames, 2, seq);
	record(FRAME_SUBSCRIBED, false, 0, 0, 0);
}

/* What the library reads of it. */
static struct ringtail_totals totals;
static uint64_t seen[2][256], gaps, gap_first, gap_count;
static unsigned gap_reason;

static void read_back(void)
{
	struct ringtail *ringtail;
	struct ringtail_item item;
	enum ringtail_kind kind;

	memset(seen, 0, sizeof(seen));
	gaps = 0;
	assert_int_equal(recording_end(recording, "end", &error), 0);
	assert_int_equal(fflush(file), 0);
	lseek(fileno(file), 0, SEEK_SET);
	assert_int_equal(ringtail_open(dup(fileno(file)), "recording", false, &ringtail, &error), 0);
	while ((kind = ringtail_next(ringtail, &item, 1000)) != RINGTAIL_END) {
		assert_int_not_equal(kind, RINGTAIL_ERROR);
		assert_int_not_equal(kind, RINGTAIL_TIMEOUT);
		if (kind == RINGTAIL_EVENT)
			seen[item.cpu][item.seq]++;
		if (kind == RINGTAIL_GAP) {
			gaps++;
			gap_first = item.seq;
			gap_count = item.count;
			gap_reason = item.reason;
		}
	}
	totals = *ringtail_totals(ringtail);
	ringtail_close(ringtail);
	assert_int_equal(totals.residual, 0);
	assert_int_equal(totals.cut_short, 0);
}

static void each_once(uint32_t cpu, uint64_t first, uint64_t end)
{
	for (uint64_t i = first; i < end; i++)
		assert_int_equal(seen[cpu][i], 1);
}

static void ledger(uint64_t records, uint64_t taken, uint64_t duplicate, uint64_t holes)
{
	const struct recording_ledger *now = recording_ledger(recording);

	assert_int_equal(now->records, records);
	assert_int_equal(now->taken, taken);
	assert_int_equal(now->duplicate, duplicate);
	assert_int_equal(now->holes, holes);
	assert_int_equal(now->records, now->taken + now->duplicate + now->damaged);
}

static void test_frames_that_a_killed_courier_sent_again_are_left_out(void **state)
{
	(void)state;
	subscribed(0, 0);
	batch(0, 0, 20);
	batch(1, 0, 10);
	watermark(5000, 0, 20, 0);
	batch(0, 20, 20);
	subscribed(0, 0);		/* it begins again where it acknowledged last */
	batch(0, 0, 20);
	batch(1, 0, 10);
	watermark(5000, 0, 20, 0);
	batch(0, 20, 20);
	batch(0, 40, 20);
	read_back();
	each_once(0, 0, 60);
	each_once(1, 0, 10);
	assert_int_equal(totals.events, 70);
	ledger(11, 6, 5, 0);
}

static void test_a_batch_that_was_cut_otherwise_the_second_time_gives_each_event_once(void **state)
{
	(void)state;
	subscribed(0, 0);
	batch(0, 0, 20);
	batch(1, 0, 10);
	batch(0, 10, 30);		/* 10-19 have come, and wait for a watermark still */
	batch(1, 5, 20);
	watermark(90000, 0, 40, 0);
	read_back();
	each_once(0, 0, 40);
	each_once(1, 0, 25);
	assert_int_equal(totals.events, 65);
	assert_int_equal(totals.lost, 0);
	ledger(6, 6, 0, 0);
}

static void test_what_retention_deleted_is_a_gap_in_its_place(void **state)
{
	(void)state;
	subscribed(0, 0);
	batch(0, 0, 20);
	batch(0, 50, 20);
	read_back();
	each_once(0, 0, 20);
	each_once(0, 50, 70);
	assert_int_equal(gaps, 1);
	assert_int_equal(gap_first, 20);
	assert_int_equal(gap_count, 30);
	assert_int_equal(gap_reason, RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE);
	assert_int_equal(totals.lost, 30);
	ledger(3, 3, 0, 1);
}

static void test_what_was_not_asked_for_is_no_hole(void **state)
{
	(void)state;
	subscribed(0, 0);
	batch(0, 0, 20);
	watermark(5000, 0, 100, 80);
	batch(0, 100, 20);
	read_back();
	assert_int_equal(gaps, 0);
	ledger(4, 4, 0, 0);
}

static void test_a_watermark_that_skips_less_than_it_passes_is_a_hole(void **state)
{
	(void)state;
	subscribed(0, 0);
	batch(0, 0, 20);
	watermark(5000, 0, 100, 50);	/* 30 of these were a batch, which is gone */
	read_back();
	assert_int_equal(gaps, 1);
	assert_int_equal(gap_count, 30);
	ledger(3, 3, 0, 1);
}

static void test_frames_of_the_run_before_come_late_and_change_nothing(void **state)
{
	(void)state;
	subscribed(0, 0);
	batch(0, 0, 20);
	epoch = 8;
	subscribed(0, 0);
	batch(0, 0, 10);
	epoch = 7;
	batch(0, 0, 20);
	epoch = 8;
	batch(0, 0, 10);
	batch(0, 10, 10);
	read_back();
	assert_int_equal(totals.events, 40);
	ledger(7, 5, 2, 0);
}

static void test_a_reader_who_comes_later_begins_where_the_topic_does(void **state)
{
	(void)state;
	batch(0, 60, 20);
	batch(0, 80, 20);
	read_back();
	each_once(0, 60, 100);
	assert_int_equal(gaps, 0);
	ledger(2, 2, 0, 0);
}

/* Of CPU 0, as its headers say. */
static void damaged(unsigned type, uint64_t first_seq, uint64_t end_seq, const uint8_t *bytes, size_t n)
{
	struct parcel_label label = { .type = type, .span = { true, 0, first_seq, end_seq } };
	uint64_t before = recording_ledger(recording)->damaged;

	memcpy(label.run.boot_id, boot, sizeof(boot));
	label.run.epoch = epoch;
	assert_int_equal(recording_take(recording, &label, bytes, n, &error), 0);
	assert_int_equal(recording_ledger(recording)->damaged, before + 1);
	at = frames.size;
}

static void test_records_that_are_damaged_are_gaps_in_their_place(void **state)
{
	struct parcel_label watermark_label = { .type = FRAME_WATERMARK, .run.epoch = 7 };

	(void)state;
	subscribed(0, 0);
	batch(0, 0, 20);
	maker_batch(&frames, 0, 20, 1200, 10, 20);
	damaged(FRAME_GAP, 20, 40, frames.bytes + at, frames.size - at);	/* not what its headers say */
	maker_batch(&frames, 0, 40, 1400, 10, 20);
	damaged(FRAME_BATCH, 40, 60, frames.bytes + at, frames.size - at - 1);	/* cut */
	damaged(FRAME_BATCH, 60, 80, NULL, 0);					/* a tombstone */
	maker_batch(&frames, 0, 80, 1800, 10, 20);
	frames.bytes[frames.size - 1] ^= 1;
	damaged(FRAME_BATCH, 80, 100, frames.bytes + at, frames.size - at);	/* changed */
	batch(0, 100, 20);
	damaged(FRAME_BATCH, 100, 120, NULL, 0);				/* it came before */
	memcpy(watermark_label.run.boot_id, boot, sizeof(boot));
	assert_int_equal(recording_take(recording, &watermark_label, NULL, 0, &error), 0);
	damaged(FRAME_BATCH, 110, 130, NULL, 0);				/* the last: some of it came */
	read_back();
	each_once(0, 0, 20);
	each_once(0, 100, 120);
	assert_int_equal(totals.events, 40);
	assert_int_equal(totals.lost, 90);
	assert_int_equal(gaps, 5);
	assert_int_equal(gap_first, 120);
	assert_int_equal(gap_count, 10);
	assert_int_equal(gap_reason, RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT);
	assert_int_equal(recording_ledger(recording)->missing, 90);
	ledger(10, 3, 0, 5);
}

static void test_a_run_that_nothing_decodes_is_passed_over_and_told_once(void **state)
{
	(void)state;
	unknown_epoch = 8;
	subscribed(0, 0);
	batch(0, 0, 20);
	epoch = 8;
	subscribed(0, 0);
	batch(0, 0, 30);
	batch(0, 30, 30);
	watermark(5000, 0, 60, 0);
	epoch = 9;
	subscribed(0, 0);
	batch(0, 0, 10);
	read_back();
	assert_int_equal(totals.events, 30);
	assert_int_equal(gaps, 1);
	assert_int_equal(gap_count, 0);
	assert_int_equal(totals.unknown, 1);
	assert_int_equal(recording_ledger(recording)->missing, 60);
	assert_int_equal(recording_ledger(recording)->damaged, 3);
	ledger(8, 5, 0, 1);
}

/* It is known only later: that something is missing is told then, and the rest is read. */
static void test_a_run_whose_beginning_comes_late_is_read_from_then_on(void **state)
{
	(void)state;
	unknown_epoch = 7;
	subscribed(0, 0);
	batch(0, 0, 20);
	unknown_epoch = 0;
	batch(0, 20, 20);
	read_back();
	each_once(0, 20, 40);
	assert_int_equal(totals.events, 20);
	assert_int_equal(totals.unknown, 1);
	assert_int_equal(recording_ledger(recording)->damaged, 1);
}

/* The library takes the hosts of one stream apart again. */
static void test_hosts_of_one_stream_are_told_apart(void **state)
{
	static const char *const name[] = { "web-1", "web-2" };
	const struct lanes_wanted wanted = { 0 };
	struct recording *both[2] = { recording, recording_create(output, find, NULL) };
	struct ringtail_item item;
	enum lanes_next next;
	struct lanes *lanes;
	size_t lane;

	(void)state;
	assert_non_null(both[1]);
	/* The second one has no records yet when the first one begins; and one that never has any is not there. */
	recording_set_lane(both[0], 0, name[0]);
	recording_set_lane(both[1], 1, name[1]);
	for (unsigned i = 0; i < 6; i++) {
		recording = both[i % 2];
		if (i < 2)
			subscribed(0, 0);
		batch(0, i / 2 * 20, i % 2 ? 20 : 10);
	}
	assert_int_equal(recording_break(both[1], &error), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(recording_end(both[i], "end", &error), 0);
	assert_int_equal(fflush(file), 0);
	lseek(fileno(file), 0, SEEK_SET);
	assert_int_equal(lanes_open(dup(fileno(file)), "hosts", &wanted, &lanes, &error), 0);
	while ((next = lanes_next(lanes, 1000, &lane, &error)) == LANES_FRAME)
		while (ringtail_next(lanes_handle(lanes, lane), &item, 0) != RINGTAIL_TIMEOUT)
			;
	assert_int_equal(next, LANES_END);
	assert_int_equal(lanes_count(lanes), 2);
	for (unsigned i = 0; i < 2; i++) {
		while (ringtail_next(lanes_handle(lanes, i), &item, 0) != RINGTAIL_END)
			;
		totals = *ringtail_totals(lanes_handle(lanes, i));
		assert_string_equal(lanes_host(lanes, i), name[i]);
		assert_int_equal(totals.events, i ? 60 : 30);
		assert_int_equal(totals.residual, 0);
		assert_int_equal(totals.lost, i ? 0 : 20);	/* holes of 10 and 10 */
		assert_int_equal(totals.unknown, i);
		assert_int_equal(totals.cut_short, 0);
	}
	lanes_close(lanes);
	recording = both[0];
	recording_destroy(both[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_frames_that_a_killed_courier_sent_again_are_left_out),
		TEST(test_a_batch_that_was_cut_otherwise_the_second_time_gives_each_event_once),
		TEST(test_what_retention_deleted_is_a_gap_in_its_place),
		TEST(test_what_was_not_asked_for_is_no_hole),
		TEST(test_a_watermark_that_skips_less_than_it_passes_is_a_hole),
		TEST(test_frames_of_the_run_before_come_late_and_change_nothing),
		TEST(test_a_reader_who_comes_later_begins_where_the_topic_does),
		TEST(test_records_that_are_damaged_are_gaps_in_their_place),
		TEST(test_a_run_that_nothing_decodes_is_passed_over_and_told_once),
		TEST(test_a_run_whose_beginning_comes_late_is_read_from_then_on),
		TEST(test_hosts_of_one_stream_are_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
