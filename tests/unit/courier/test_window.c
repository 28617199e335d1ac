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
	assert_int_equal(windows.count, 0);
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
	assert_int_equal(windows.ledger.confirmed, 3);
	assert_int_equal(windows.ledger.confirmed_bytes, 30);
}

static unsigned count_moved(void)
{
	const struct window *moved;
	unsigned n = 0;

	TAILQ_FOREACH(moved, &windows.moved, moved_link)
		n++;
	return n;
}

/* The source is to hear of it once, however much of it has moved. */
static void test_what_has_moved_is_listed_once(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10);

	(void)state;
	send_next();
	send_next();
	window_confirm(b);			/* it waits for the first */
	assert_int_equal(count_moved(), 0);
	window_confirm(a);
	assert_int_equal(count_moved(), 1);
	assert_ptr_equal(TAILQ_FIRST(&windows.moved), &window);
	window_note_move(&window);
	assert_int_equal(count_moved(), 1);
}

/* What a producer has stays, and what stood behind it is dealt with where nothing before it is left. */
static void test_what_no_producer_has_is_given_up(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10);

	(void)state;
	assert_int_equal(windows_in_flight(&windows), 2);
	assert_ptr_equal(send_next(), a);
	assert_int_equal(windows_in_flight(&windows), 2);
	window_give_up_waiting(&window);	/* the second */
	assert_int_equal(windows.ledger.returned, 1);
	assert_int_equal(windows_in_flight(&windows), 1);
	assert_ptr_equal(TAILQ_FIRST(&window.parcels), a);
	b = push(KAFKA_FRAMES, 10);
	assert_ptr_equal(send_next(), b);
	window_confirm(b);
	windows_rewind(&windows);
	window_give_up_waiting(&window);	/* the first: what is confirmed behind it is not given up */
	assert_int_equal(windows.ledger.returned, 2);
	assert_true(TAILQ_EMPTY(&window.parcels));
	assert_int_equal(window_confirmed_upto(&window), 3);
}

/* At the end, too, what Kafka has is not given up. */
static void test_what_is_confirmed_is_not_given_up_at_the_end(void **state)
{
	const struct parcel_label label = { .type = FRAME_BATCH };
	struct parcel *parcel[2];
	struct window other;

	(void)state;
	window_init(&other, &windows, "web-2");
	for (unsigned i = 0; i < 2; i++) {
		parcel[i] = parcel_create(KAFKA_FRAMES, &label, "x", 1, NULL, 0);
		assert_non_null(parcel[i]);
		window_push(&other, parcel[i]);
	}
	send_next();
	assert_ptr_equal(send_next(), parcel[1]);
	window_confirm(parcel[1]);
	window_fini(&other);
	assert_int_equal(windows.ledger.returned, 1);
	assert_int_equal(windows.ledger.confirmed, 1);
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

/* A host that sends much takes turns with one that sends little. */
static void test_each_host_has_its_turn(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *c = push(KAFKA_FRAMES, 10), *b, *d;
	struct window other;

	(void)state;
	window_init(&other, &windows, "web-2");
	b = push_other(&other, KAFKA_FRAMES);
	d = push_other(&other, KAFKA_FRAMES);
	assert_ptr_equal(send_next(), a);
	assert_ptr_equal(send_next(), b);
	assert_ptr_equal(send_next(), c);
	assert_ptr_equal(send_next(), d);
	window_fini(&other);
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

/* Its place, among what was sent before and what waits behind it. */
static void test_a_gap_goes_before_what_still_waits(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10), *c, *gap;

	(void)state;
	send_next();
	send_next();
	assert_null(send_next());
	c = push(KAFKA_FRAMES, 10);
	window_confirm(a);
	gap = parcel_create_gap(b);
	window_reject(b, gap);
	assert_int_equal(gap->index, 1);
	assert_ptr_equal(send_next(), gap);
	assert_ptr_equal(send_next(), c);
	window_confirm(c);
	assert_int_equal(window_confirmed_upto(&window), 1);
	window_confirm(gap);
	assert_int_equal(window_confirmed_upto(&window), 3);
}

/* A frame of no attempts, as a watermark, costs none. */
static void test_a_rejected_frame_of_no_attempts(void **state)
{
	const struct parcel_label label = { .type = FRAME_WATERMARK, .span = { false, 1, 10, 30 } };
	struct parcel *parcel = parcel_create(KAFKA_FRAMES, &label, "x", 1, NULL, 0);

	(void)state;
	assert_non_null(parcel);
	window_push(&window, parcel);
	send_next();
	window_reject(parcel, NULL);
	assert_int_equal(windows.ledger.rejected, 1);
	assert_int_equal(windows.ledger.rejected_attempts, 0);
	assert_int_equal(window_confirmed_upto(&window), 1);
}

/* What was confirmed behind it is dealt with. */
static void test_what_stood_behind_a_rejected_frame(void **state)
{
	struct parcel *a = push(KAFKA_FRAMES, 10), *b = push(KAFKA_FRAMES, 10);

	(void)state;
	send_next();
	send_next();
	window_confirm(b);
	assert_int_equal(window_confirmed_upto(&window), 0);
	window_reject(a, NULL);
	assert_int_equal(window_confirmed_upto(&window), 2);
	assert_int_equal(windows.count, 0);
}

/* Its source hears of a refusal, though nothing is confirmed by it; and of no host that is there no more. */
static void test_a_refused_host_is_told_while_it_is_there(void **state)
{
	struct window other;

	(void)state;
	window_init(&other, &windows, "web-2");
	push_other(&other, KAFKA_RUNS);
	send_next();
	assert_int_equal(count_moved(), 0);
	window_refuse(&other);
	assert_int_equal(count_moved(), 1);
	assert_ptr_equal(TAILQ_FIRST(&windows.moved), &other);
	window_fini(&other);
	assert_int_equal(count_moved(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(test_a_later_report_confirms_nothing_before_it),
		TEST(test_what_has_moved_is_listed_once),
		TEST(test_what_no_producer_has_is_given_up),
		TEST(test_what_is_confirmed_is_not_given_up_at_the_end),
		TEST(test_a_window_is_full_at_its_bytes),
		TEST(test_a_window_is_full_at_its_records),
		TEST(test_a_host_is_in_no_other_hosts_way),
		TEST(test_each_host_has_its_turn),
		TEST(test_frames_wait_for_the_beginning_of_their_run),
		TEST(test_a_new_producer_sends_what_was_not_confirmed_in_its_order),
		TEST(test_a_gap_stands_where_the_rejected_frame_stood),
		TEST(test_a_gap_is_sent_behind_what_is_under_way),
		TEST(test_a_gap_goes_before_what_still_waits),
		TEST(test_a_rejected_frame_of_no_attempts),
		TEST(test_what_stood_behind_a_rejected_frame),
		TEST(test_a_refused_host_is_told_while_it_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
