/* window: what Kafka has not confirmed, in its order, with a ledger that closes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "courier/window.h"

#define FULL_BYTES 4096u

static struct windows windows;
static struct window window;

static int setup(void **state)
{
	(void)state;
	windows_init(&windows, FULL_BYTES);
	window_init(&window, &windows, "web-1");
	return 0;
}

static int teardown(void **state)
{
	const struct window_ledger *ledger = &windows.ledger;
	struct parcel *parcel;
	uint64_t waiting = 0;

	(void)state;
	TAILQ_FOREACH(parcel, &window.parcels, link)
		waiting += parcel->state != PARCEL_CONFIRMED;
	assert_int_equal(ledger->forwarded, ledger->confirmed + ledger->rejected + ledger->returned + waiting);
	window_fini(&window);
	assert_int_equal(windows.bytes, 0);
	return 0;
}

static struct parcel *push(enum kafka_topic topic, size_t bytes)
{
	static const uint8_t value[FULL_BYTES];
	const struct parcel_label label = { .type = FRAME_BATCH, .span = { true, 1, 10, 30 } };
	struct parcel *parcel = parcel_create(topic, &label, value, bytes, NULL, 0);

	assert_non_null(parcel);
	window_push(&window, parcel);
	return parcel;
}

static struct parcel *send_next(void)
{
	struct parcel *parcel = windows_next(&windows);

	if (parcel)
		window_sent(parcel);
	return parcel;
}

static void test_a_later_report_confirms_nothing_before_it(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10), *c = push(KAFKA_FRAMES, 10);

	(void)state;
	assert_ptr_equal(send_next(), a);
	assert_ptr_equal(send_next(), b);
	assert_ptr_equal(send_next(), c);
	assert_null(send_next());
	window_confirm(b);
	assert_int_equal(window_confirmed_upto(&window), 0);
	window_confirm(a);
	assert_int_equal(window_confirmed_upto(&window), 2);
	window_confirm(c);
	assert_int_equal(window_confirmed_upto(&window), 3);
}

static void test_a_window_is_full_at_its_bytes(void **state)
{
	(void)state;
	push(KAFKA_FRAMES, FULL_BYTES - 1);
	assert_false(windows_are_full(&windows));
	push(KAFKA_FRAMES, 1);
	assert_true(windows_are_full(&windows));
	window_confirm(send_next());
	assert_false(windows_are_full(&windows));
}

static void test_a_window_is_full_at_its_records(void **state)
{
	(void)state;
	for (unsigned i = 0; i < FULL_BYTES / WINDOW_RECORD_BYTES; i++) {
		assert_false(windows_are_full(&windows));
		push(KAFKA_FRAMES, 1);
	}
	assert_true(windows_are_full(&windows));
}

static struct parcel *push_other(struct window *other, enum kafka_topic topic)
{
	const struct parcel_label label = { .type = FRAME_BATCH, .span = { true, 1, 10, 30 } };
	struct parcel *parcel = parcel_create(topic, &label, "x", 1, NULL, 0);

	assert_non_null(parcel);
	window_push(other, parcel);
	return parcel;
}

/* Whose run waits, and whose run is refused: the other host goes on. Each has its turn. */
static void test_a_host_is_in_no_other_hosts_way(void **state)
{
	struct parcel *run = push(KAFKA_RUNS, 10), *a, *b, *c, *d;
	struct window other;

	(void)state;
	window_init(&other, &windows, "web-2");
	a = push(KAFKA_FRAMES, 10);
	c = push(KAFKA_FRAMES, 10);
	b = push_other(&other, KAFKA_FRAMES);
	d = push_other(&other, KAFKA_FRAMES);
	assert_ptr_equal(send_next(), run);
	assert_ptr_equal(send_next(), b);
	assert_ptr_equal(send_next(), d);
	assert_null(send_next());
	window_confirm(b);
	window_confirm(run);
	assert_ptr_equal(send_next(), a);
	window_refuse(&window);
	assert_null(send_next());
	windows_rewind(&windows);
	assert_ptr_equal(send_next(), d);
	assert_null(send_next());
	window_give_up_waiting(&window);
	assert_int_equal(windows.ledger.returned, 2);
	assert_int_equal(windows_in_flight(&windows), 1);
	window_fini(&other);
	assert_int_equal(windows.ledger.returned, 3);
	(void)c;
}

static void test_frames_wait_for_the_beginning_of_their_run(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *run = push(KAFKA_RUNS, 10), *b = push(KAFKA_FRAMES, 10);

	(void)state;
	assert_ptr_equal(send_next(), a);
	assert_ptr_equal(send_next(), run);
	assert_null(send_next());
	window_confirm(run);
	assert_ptr_equal(send_next(), b);
}

static void test_a_new_producer_sends_what_was_not_confirmed_in_its_order(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10), *c = push(KAFKA_FRAMES, 10);

	(void)state;
	send_next();
	send_next();
	window_confirm(b);
	windows_rewind(&windows);
	assert_ptr_equal(send_next(), a);
	assert_ptr_equal(send_next(), c);
	assert_null(send_next());
	assert_int_equal(windows.ledger.resent, 1);
}

static void test_a_gap_stands_where_the_rejected_frame_stood(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10), *gap;

	(void)state;
	send_next();
	gap = parcel_create_gap(a);
	window_reject(a, gap);
	assert_int_equal(windows.ledger.rejected_attempts, 20);
	assert_ptr_equal(send_next(), gap);
	assert_ptr_equal(send_next(), b);
	window_confirm(b);
	assert_int_equal(window_confirmed_upto(&window), 0);
	window_confirm(gap);
	assert_int_equal(window_confirmed_upto(&window), 2);
}

/* Also of a frame that others were sent behind; and it stands for as many of the source's items. */
static void test_a_gap_is_sent_behind_what_is_under_way(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10), *gap;

	(void)state;
	a->items = 7;
	send_next();
	send_next();
	assert_null(send_next());
	gap = parcel_create_gap(a);
	window_reject(a, gap);
	assert_int_equal(gap->items, 7);
	assert_ptr_equal(send_next(), gap);
	assert_null(send_next());
	window_confirm(b);
	window_confirm(gap);
	assert_int_equal(window_confirmed_upto(&window), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_a_later_report_confirms_nothing_before_it),
		TEST(test_a_window_is_full_at_its_bytes),
		TEST(test_a_window_is_full_at_its_records),
		TEST(test_a_host_is_in_no_other_hosts_way),
		TEST(test_frames_wait_for_the_beginning_of_their_run),
		TEST(test_a_new_producer_sends_what_was_not_confirmed_in_its_order),
		TEST(test_a_gap_stands_where_the_rejected_frame_stood),
		TEST(test_a_gap_is_sent_behind_what_is_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
