/* parcel: a label as headers, and read again: what is beyond its bounds is no label. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "courier/parcel.h"
#include "proto/frame.h"
#include "proto/limits.h"

static bool reads(const struct parcel_label *label, struct parcel_label *again)
{
	struct parcel *parcel = parcel_create(KAFKA_FRAMES, label, "x", 1, NULL, 0);
	rd_kafka_headers_t *headers = parcel_headers(parcel);
	bool good = parcel_read_label(headers, again);

	rd_kafka_headers_destroy(headers);
	free(parcel);
	return good;
}

static void test_a_label_at_its_bounds(void **state)
{
	struct parcel_label label = {
		.run = { .boot_id = { 1, 0xff, 3 }, .epoch = UINT64_MAX }, .catalog = UINT32_MAX,
		.type = FRAME_BATCH, .span = { true, CURSOR_POSITIONS_MAX - 1, 5, UINT64_MAX },
	}, again;

	(void)state;
	assert_true(reads(&label, &again));
	assert_true(run_equal(&again.run, &label.run));
	assert_int_equal(again.catalog, label.catalog);
	assert_int_equal(again.type, FRAME_BATCH);
	assert_true(again.span.known);
	assert_int_equal(again.span.cpu, CURSOR_POSITIONS_MAX - 1);
	assert_int_equal(again.span.first_seq, 5);
	assert_int_equal(again.span.end_seq, UINT64_MAX);
	label.span.cpu = CURSOR_POSITIONS_MAX;
	assert_false(reads(&label, &again));
	label.span = (struct forward_span){ true, 0, 6, 5 };
	assert_false(reads(&label, &again));
	label.span = (struct forward_span){ true, 0, 5, 5 };
	assert_true(reads(&label, &again));
	/* A batch and a gap are of some CPU; a watermark is of all. */
	label.span.known = false;
	assert_false(reads(&label, &again));
	label.type = FRAME_GAP;
	assert_false(reads(&label, &again));
	label.type = FRAME_WATERMARK;
	assert_true(reads(&label, &again));
	assert_false(again.span.known);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_label_at_its_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
