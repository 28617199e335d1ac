/*
 * test_segments: a spool's segments as a stream of events: what is missing between two of them is a
 * gap, with its size where that is known, and its reason.
 */
#include "tests/unit/client/check.h"

#include <fcntl.h>

#include "client/lib/ringtail.h"
#include "tests/unit/client/maker.h"

enum { STAGE_SPOOL = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL };

static struct maker stream;
static struct ringtail *ringtail;
static struct ringtail_item item;

static int setup(void **state)
{
	(void)state;
	maker_init(&stream);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	ringtail_close(ringtail);
	ringtail = NULL;
	maker_fini(&stream);
	return 0;
}

static enum ringtail_kind next(void)
{
	enum ringtail_kind kind;

	do
		kind = ringtail_next(ringtail, &item, 3000);
	while (kind == RINGTAIL_WATERMARK);
	return kind;
}

static void begin(uint64_t sequence, uint64_t epoch, uint64_t first_seq)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;
	uint64_t start[2] = {first_seq, 0};
	uint8_t boot_id[16] = {1};

	head.sequence = sequence;
	head.boot_id.data = boot_id;
	head.boot_id.len = sizeof(boot_id);
	maker_message(&stream, FRAME_SEGMENT_HEAD, &head.base);
	maker_hello(&stream, 1, epoch);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, start);
	maker_batch(&stream, 0, first_seq, 1000 * sequence, 10, 2);
}

static void end(bool final)
{
	Ringtail__V1__SegmentEnd said = RINGTAIL__V1__SEGMENT_END__INIT;

	said.final = final;
	maker_message(&stream, FRAME_SEGMENT_END, &said.base);
}

/* What spool_dir says of segments that were deleted as it came to them. */
static void gone(void)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;

	maker_message(&stream, FRAME_SEGMENT_HEAD, &head.base);
}

static void check_events(uint64_t first_seq)
{
	for (uint64_t i = 0; i < 2; i++) {
		assert_int_equal(next(), RINGTAIL_EVENT);
		assert_int_equal(item.seq, first_seq + i);
	}
}

static void check_gap(uint64_t first_seq, uint64_t count, unsigned reason)
{
	assert_int_equal(next(), RINGTAIL_GAP);
	assert_int_equal(item.cpu, 0);
	assert_int_equal(item.seq, first_seq);
	assert_int_equal(item.count, count);
	assert_int_equal(item.stage, STAGE_SPOOL);
	assert_int_equal(item.reason, reason);
}

static void check_end(uint64_t gaps)
{
	struct ringtail_totals totals;

	assert_int_equal(next(), RINGTAIL_END);
	totals = *ringtail_totals(ringtail);
	assert_int_equal(totals.gaps, gaps);
	assert_int_equal(totals.residual, 0);
	assert_int_equal(totals.late, 0);
}

static void open_stream(void)
{
	assert_int_equal(ringtail_open(maker_file(&stream, stream.size), "spool", false, &ringtail,
				       NULL), 0);
}

/* Killed twice: between its runs nobody knows how much is missing, and that is said. */
static void runs_that_ended_badly(void **state)
{
	(void)state;
	begin(1, 7, 0);
	end(false);
	begin(2, 7, 2);		/* the same run: nothing is missing */
	begin(3, 8, 0);		/* it has no end at all */
	end(false);
	begin(4, 9, 5);
	open_stream();
	check_events(0);
	check_events(2);
	check_gap(4, 0, RINGTAIL__V1__LOSS_REASON__REASON_RESTART);
	check_events(0);
	check_gap(2, 0, RINGTAIL__V1__LOSS_REASON__REASON_RESTART);
	check_events(5);
	check_end(2);
}

/* All that it recorded is there, and until the next run nothing was recorded. */
static void run_that_ended_well(void **state)
{
	(void)state;
	begin(1, 7, 0);
	end(true);
	begin(2, 8, 0);
	end(true);
	begin(3, 8, 2);		/* not the end of the run after all, */
	begin(4, 9, 0);		/* which is missing */
	open_stream();
	check_events(0);
	check_gap(2, 0, RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED);
	check_events(0);
	check_events(2);
	check_gap(4, 0, RINGTAIL__V1__LOSS_REASON__REASON_RESTART);
	check_events(0);
	check_end(2);
}

/* Of a segment there is no more than its head: whose end it had is not known. */
static void only_a_head(void **state)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;

	(void)state;
	begin(1, 7, 0);
	end(true);
	head.boot_id.data = (uint8_t *)"0123456789abcde";
	head.boot_id.len = 16;
	maker_message(&stream, FRAME_SEGMENT_HEAD, &head.base);
	begin(3, 8, 0);
	open_stream();
	check_events(0);
	check_gap(2, 0, RINGTAIL__V1__LOSS_REASON__REASON_RESTART);
	check_events(0);
	check_end(1);
}

static void holes(void **state)
{
	(void)state;
	begin(1, 7, 0);
	end(false);
	begin(3, 7, 10);	/* what lay between is damaged */
	end(false);
	gone();
	begin(9, 7, 30);	/* and here it was deleted meanwhile, */
	end(true);
	gone();
	begin(12, 8, 4);	/* with the end of the run, or the begin of the next one */
	open_stream();
	check_events(0);
	check_gap(2, 8, RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT);
	check_events(10);
	check_gap(12, 18, RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL);
	check_events(30);
	check_gap(32, 0, RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL);
	check_events(4);
	check_end(3);
}

static void begins_late(void **state)
{
	(void)state;
	gone();
	begin(5, 7, 100);
	open_stream();
	check_events(100);
	check_end(0);
}

static void no_such_end(void **state)
{
	(void)state;
	begin(1, 7, 0);
	maker_raw(&stream, FRAME_SEGMENT_END, (const uint8_t *)"\xff\xff\xff", 3);
	open_stream();
	check_events(0);
	assert_int_equal(next(), RINGTAIL_ERROR);
	assert_non_null(strstr(ringtail_last_error(ringtail)->what, "segment-end"));
}

static void give_up(uint64_t first_seq, uint64_t end_seq)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;

	gap.first_seq = first_seq;
	gap.end_seq = end_seq;
	gap.events = end_seq - first_seq;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL;
	gap.reason = RINGTAIL__V1__LOSS_REASON__REASON_DISK;
	maker_message(&stream, FRAME_GAP, &gap.base);
}

/* It was written, and only then the disk failed. */
static void given_up_but_there(void **state)
{
	(void)state;
	begin(1, 7, 10);
	give_up(10, 12);
	give_up(10, 20);
	end(true);
	open_stream();
	check_events(10);
	check_gap(12, 8, RINGTAIL__V1__LOSS_REASON__REASON_DISK);
	check_end(1);
}

/* A segment's beginning, of which CPU 0 is to come from there. */
static void begin_at(uint64_t sequence, uint64_t seq)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;
	uint64_t start[2] = {seq, 0};
	uint8_t boot_id[16] = {1};

	head.sequence = sequence;
	head.boot_id.data = boot_id;
	head.boot_id.len = sizeof(boot_id);
	maker_message(&stream, FRAME_SEGMENT_HEAD, &head.base);
	maker_hello(&stream, 1, 7);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, start);
}

static void batch(uint32_t cpu, uint64_t first_seq, unsigned events)
{
	maker_batch(&stream, cpu, first_seq, 1000 + first_seq * 10, 10, events);
}

/*
 * What a relay had stored when it failed comes again, to another segment: as it was, or in a batch that is cut
 * otherwise; with the losses in it. Here in the order of the numbers.
 */
static void make_overlap(void)
{
	begin_at(1, 0);
	batch(0, 0, 4);
	batch(1, 0, 2);
	batch(0, 4, 4);
	maker_watermark(&stream, 1055, 8, 2);	/* events 6 and 7 wait for the next one */
	maker_gap(&stream, 0, 8, 12, 4, RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE,
		  RINGTAIL__V1__LOSS_REASON__REASON_DISK);
	end(false);
	begin_at(2, 4);
	batch(0, 4, 4);				/* all of it came */
	maker_gap(&stream, 0, 8, 12, 4, RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE,
		  RINGTAIL__V1__LOSS_REASON__REASON_DISK);
	batch(0, 10, 6);			/* from 12 on it is new */
	maker_begin(&stream, 1, 1, 1010);	/* from 2 on it is */
	maker_open(&stream, 100, 1010, 0);
	batch_encode_loss(stream.encoder, 3, 0, 1);
	maker_end(&stream);
	end(true);
}

static void segments_that_overlap(void **state)
{
	uint64_t seen[2][16] = {0}, lost = 0;
	struct ringtail_totals totals;
	enum ringtail_kind kind;

	(void)state;
	make_overlap();
	open_stream();
	while ((kind = next()) != RINGTAIL_END) {
		assert_int_not_equal(kind, RINGTAIL_ERROR);
		if (kind == RINGTAIL_EVENT)
			seen[item.cpu][item.seq]++;
		else
			lost += item.count;
	}
	for (uint64_t seq = 0; seq < 16; seq++) {
		assert_int_equal(seen[0][seq], seq < 8 || seq >= 12);
		assert_int_equal(seen[1][seq], seq < 2);
	}
	totals = *ringtail_totals(ringtail);
	assert_int_equal(totals.events, 14);
	assert_int_equal(totals.duplicate, 4 + 2 + 1);
	assert_int_equal(totals.lost, 4 + 3);
	assert_int_equal(lost, 4 + 3);
	assert_int_equal(totals.gaps, 1);
	assert_int_equal(totals.residual, 0);
	assert_int_equal(totals.late, 0);
}

/* A loss of which the segment before had a part; and what is only counted is counted once. */
static void losses_that_overlap(void **state)
{
	(void)state;
	for (unsigned counts = 0; counts < 2; counts++) {
		const struct ringtail_totals *totals;
		enum ringtail_kind kind;

		stream.size = 0;
		begin_at(1, 0);
		batch(0, 0, 6);
		end(false);
		begin_at(2, 2);
		maker_begin(&stream, 0, 2, 1020);
		batch_encode_loss(stream.encoder, 2, 0, 1);
		maker_open(&stream, 100, 1020, 0);
		batch_encode_loss(stream.encoder, 4, 0, 1);	/* 5 to 8: 6 to 8 are new */
		maker_open(&stream, 100, 1030, 0);
		maker_end(&stream);
		end(true);
		assert_int_equal(ringtail_open(maker_file(&stream, stream.size), "spool", counts, &ringtail,
					       NULL), 0);
		while ((kind = next()) != RINGTAIL_END)
			assert_int_not_equal(kind, RINGTAIL_ERROR);
		totals = ringtail_totals(ringtail);
		assert_int_equal(totals->events, 7);
		assert_int_equal(totals->lost, 3);
		assert_int_equal(totals->duplicate, 1);
		assert_int_equal(totals->residual, 0);
		ringtail_close(ringtail);
		ringtail = NULL;
	}
}

/* Within one segment each number comes once: that it does not is no relay's repetition. */
static void segment_that_repeats_itself(void **state)
{
	(void)state;
	begin_at(1, 0);
	batch(0, 0, 4);
	batch(0, 2, 4);
	end(true);
	open_stream();
	while (next() != RINGTAIL_END)
		assert_int_not_equal(item.kind, RINGTAIL_ERROR);
	assert_int_equal(ringtail_totals(ringtail)->residual, 2);
	assert_int_equal(ringtail_totals(ringtail)->duplicate, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(runs_that_ended_badly, setup, teardown),
		cmocka_unit_test_setup_teardown(run_that_ended_well, setup, teardown),
		cmocka_unit_test_setup_teardown(only_a_head, setup, teardown),
		cmocka_unit_test_setup_teardown(holes, setup, teardown),
		cmocka_unit_test_setup_teardown(given_up_but_there, setup, teardown),
		cmocka_unit_test_setup_teardown(begins_late, setup, teardown),
		cmocka_unit_test_setup_teardown(no_such_end, setup, teardown),
		cmocka_unit_test_setup_teardown(segments_that_overlap, setup, teardown),
		cmocka_unit_test_setup_teardown(losses_that_overlap, setup, teardown),
		cmocka_unit_test_setup_teardown(segment_that_repeats_itself, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
