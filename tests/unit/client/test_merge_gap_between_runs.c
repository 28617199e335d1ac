/*
 * test_merge_gap_between_runs: what is missing between two runs of the rings stands between them: after
 * the last event of every CPU of the old run, before the first of the new one. In segments of a spool,
 * where the reader finds that it is missing, and in a stream or a recording, where the daemon says so.
 */
#include "tests/unit/client/handle.h"

enum {
	STAGE_SPOOL = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL,
	RESTART = RINGTAIL__V1__LOSS_REASON__REASON_RESTART,
	CORRUPT = RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT,
};

/* CPU 1 has events that are younger than all of CPU 0, on whose lane the gap comes. */
static void put_old_run(void)
{
	maker_batch(&stream, 0, 0, 1000, 10, 3);
	maker_batch(&stream, 1, 0, 1005, 1000, 3);
}

static void put_new_run(uint64_t epoch)
{
	static const uint64_t zero[2];

	maker_hello(&stream, 1, epoch);
	maker_catalog(&stream);
	maker_subscribed(&stream, 2, zero);
	maker_batch(&stream, 1, 0, 500, 10, 2);	/* its clock may be another one, too */
	maker_batch(&stream, 0, 0, 505, 10, 2);
}

static void check_events(struct ringtail *ringtail, unsigned n)
{
	uint64_t before = 0;

	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(next(ringtail), RINGTAIL_EVENT);
		assert_true(item.time_ns > before);
		before = item.time_ns;
	}
}

static void check_gap(struct ringtail *ringtail, uint64_t count, unsigned reason)
{
	assert_int_equal(next(ringtail), RINGTAIL_GAP);
	assert_int_equal(item.count, count);
	assert_int_equal(item.reason, reason);
	assert_int_equal(item.time_ns, 3005);	/* of what came before it, of any CPU */
}

static struct ringtail *open_stream(void)
{
	struct ringtail *ringtail;

	assert_int_equal(ringtail_open(maker_file(&stream, stream.size), "x", false, &ringtail,
				       &error), 0);
	return ringtail;
}

static void check_two_runs(struct ringtail *ringtail, uint64_t count, unsigned reason)
{
	check_events(ringtail, 6);
	check_gap(ringtail, count, reason);
	check_events(ringtail, 4);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->gaps, 1);
	assert_int_equal(ringtail_totals(ringtail)->late, 0);
	ringtail_close(ringtail);
}

static void in_segments(void **state)
{
	Ringtail__V1__SegmentHead head = RINGTAIL__V1__SEGMENT_HEAD__INIT;
	uint8_t boot_id[16] = {1};

	(void)state;
	head.boot_id.data = boot_id;
	head.boot_id.len = sizeof(boot_id);
	maker_message(&stream, FRAME_SEGMENT_HEAD, &head.base);
	maker_start(&stream);
	put_old_run();
	maker_message(&stream, FRAME_SEGMENT_HEAD, &head.base);
	put_new_run(8);
	check_two_runs(open_stream(), 0, RESTART);
}

/* A watermark would let the gap out at once, before events that it does not reach. */
static void in_stream(void **state)
{
	(void)state;
	maker_start(&stream);
	put_old_run();
	maker_watermark(&stream, 1500, 3, 3);
	maker_gap(&stream, 0, 3, 3, 0, STAGE_SPOOL, RESTART);
	put_new_run(8);
	check_two_runs(open_stream(), 0, RESTART);
}

static void of_known_size(void **state)
{
	(void)state;
	maker_start(&stream);
	put_old_run();
	maker_gap(&stream, 0, 3, 53, 50, STAGE_SPOOL, CORRUPT);
	put_new_run(8);
	check_two_runs(open_stream(), 50, CORRUPT);
}

/* One of each CPU, and one of no size. */
static void several(void **state)
{
	struct ringtail *ringtail;

	(void)state;
	maker_start(&stream);
	put_old_run();
	maker_gap(&stream, 0, 3, 53, 50, STAGE_SPOOL, CORRUPT);
	maker_gap(&stream, 1, 3, 43, 40, STAGE_SPOOL, CORRUPT);
	maker_gap(&stream, 1, 43, 43, 0, STAGE_SPOOL, CORRUPT);
	put_new_run(8);
	ringtail = open_stream();
	check_events(ringtail, 6);
	check_gap(ringtail, 40, CORRUPT);	/* CPU 1's stand where its last event did */
	check_gap(ringtail, 0, CORRUPT);
	check_gap(ringtail, 50, CORRUPT);
	check_events(ringtail, 4);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	ringtail_close(ringtail);
}

/* Within a run a gap stays in its place, whatever its size, and one at the very end is not lost. */
static void within_a_run(void **state)
{
	struct ringtail *ringtail;

	(void)state;
	maker_start(&stream);
	maker_gap(&stream, 0, 0, 0, 0, STAGE_SPOOL, RESTART);
	put_old_run();
	maker_gap(&stream, 0, 3, 3, 0, STAGE_SPOOL, RESTART);
	ringtail = open_stream();
	assert_int_equal(next(ringtail), RINGTAIL_GAP);
	check_events(ringtail, 4);		/* CPU 0 has no more, and it is before the others */
	assert_int_equal(next(ringtail), RINGTAIL_GAP);
	check_events(ringtail, 2);
	assert_int_equal(next(ringtail), RINGTAIL_END);
	assert_int_equal(ringtail_totals(ringtail)->gaps, 2);
	assert_int_equal(ringtail_totals(ringtail)->unknown, 2);
	ringtail_close(ringtail);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(in_segments),
		TEST(in_stream),
		TEST(of_known_size),
		TEST(several),
		TEST(within_a_run),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
