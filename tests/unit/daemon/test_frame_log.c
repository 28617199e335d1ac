/* The log of a subscription: serials, sums, and what is given up when it is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/stream/frame_log.h"
#include "tests/lib/failing_memory.h"

struct evicted {
	uint64_t serials, next;
	const struct frame_log *log;		/* NULL: it is not looked into */
	enum loss_reason reason;	/* 0: the log is full */
};

static void on_evict(void *context, uint64_t serial, const struct frame_ref *frame,
		     enum loss_reason reason)
{
	struct evicted *evicted = context;

	assert_int_equal(reason, evicted->reason ? evicted->reason : LOSS_REASON_QUEUE_FULL);
	if (evicted->log) {			/* it is there still: a stream looks it up */
		assert_int_equal(frame_log_first(evicted->log), serial);
		assert_ptr_equal(frame_log_get(evicted->log, serial), frame);
	}
	assert_int_equal(serial, evicted->next++);
	assert_int_equal(frame->first_seq, serial * 10);
	evicted->serials++;
}

static struct frame_ref *numbered(uint64_t serial, size_t bytes)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, bytes);

	frame->first_seq = serial * 10;
	frame->end_seq = serial * 10 + 10;
	return frame;
}

static void test_sums(void **state)
{
	struct evicted evicted = {0};
	struct frame_log *log = frame_log_create(1 << 20, on_evict, &evicted);

	(void)state;
	for (uint64_t serial = 0; serial < 1000; serial++)
		frame_log_append(log, numbered(serial, 100));
	assert_int_equal(evicted.serials, 0);
	assert_int_equal(frame_log_first(log), 0);
	assert_int_equal(frame_log_end(log), 1000);
	for (uint64_t serial = 0; serial < 1000; serial += 111)
		assert_int_equal(frame_log_get(log, serial)->first_seq, serial * 10);
	assert_int_equal(frame_log_attempts_from(log, 0), 10000);
	assert_int_equal(frame_log_attempts_from(log, 990), 100);
	assert_int_equal(frame_log_attempts_from(log, 1000), 0);
	assert_int_equal(frame_log_bytes_from(log, 1000), 0);
	assert_int_equal(frame_log_bytes_from(log, 0), 2 * frame_log_bytes_from(log, 500));
	frame_log_destroy(log);
}

static void test_bound(void **state)
{
	struct evicted evicted = {0};
	struct frame_log *log = frame_log_create(10000, on_evict, &evicted);

	(void)state;
	for (uint64_t serial = 0; serial < 5000; serial++) {
		frame_log_append(log, numbered(serial, 500));
		assert_true(frame_log_bytes_from(log, frame_log_first(log)) <= 10000);
	}
	assert_true(evicted.serials > 4900);
	assert_int_equal(frame_log_first(log), evicted.serials);
	/* One that is over the bound by itself is kept as long as it is the newest. */
	frame_log_append(log, numbered(5000, 50000));
	assert_int_equal(frame_log_end(log) - frame_log_first(log), 1);
	assert_int_equal(frame_log_get(log, 5000)->bytes, 50000);
	frame_log_append(log, numbered(5001, 10));
	assert_int_equal(frame_log_first(log), 5001);
	frame_log_set_bytes_max(log, 0);
	frame_log_append(log, numbered(5002, 10));
	assert_int_equal(frame_log_first(log), 5002);
	frame_log_destroy(log);
	frame_log_destroy(NULL);
}

/* What is exactly the bound stays; each entry costs more than its bytes, or small ones would escape it. */
static void test_exact_bound(void **state)
{
	struct evicted evicted = {0};
	struct frame_log *log = frame_log_create(1 << 20, on_evict, &evicted);
	uint64_t cost;

	(void)state;
	frame_log_append(log, numbered(0, 0));
	cost = frame_log_bytes_from(log, 0);
	assert_true(cost > sizeof(struct frame_ref));
	frame_log_append(log, numbered(1, 100));
	assert_int_equal(frame_log_bytes_from(log, 0), 2 * cost + 100);
	assert_int_equal(frame_log_bytes_from(log, 1), cost + 100);
	frame_log_set_bytes_max(log, 3 * cost + 100);
	frame_log_append(log, numbered(2, 0));
	assert_int_equal(evicted.serials, 0);
	frame_log_set_bytes_max(log, 4 * cost + 100 - 1);
	assert_int_equal(evicted.serials, 0);		/* from the next one on */
	frame_log_append(log, numbered(3, 0));
	assert_int_equal(evicted.serials, 1);
	assert_int_equal(frame_log_bytes_from(log, 1), 3 * cost + 100);
	frame_log_destroy(log);
}

/* It is told of while it is still there, counted, and let go of; whoever holds it keeps it. */
static void test_what_goes_is_let_go_of(void **state)
{
	struct evicted evicted = {0};
	struct frame_log *log = frame_log_create(1, on_evict, &evicted);
	struct frame_ref *first = numbered(0, 10), *last = numbered(1, 10);
	uint64_t counted = counter_read(COUNTER_history_evicted);

	(void)state;
	evicted.log = log;
	frame_log_append(log, frame_ref_get(first));
	assert_int_equal(first->refs, 2);
	frame_log_append(log, frame_ref_get(last));
	assert_int_equal(evicted.serials, 1);
	assert_int_equal(counter_read(COUNTER_history_evicted), counted + 1);
	assert_int_equal(first->refs, 1);
	assert_int_equal(last->refs, 2);
	frame_log_destroy(log);
	assert_int_equal(last->refs, 1);
	frame_ref_put(first);
	frame_ref_put(last);
}

/* Because memory is scarce, or for any other reason: the only one stays. */
static void test_given_up_for_a_reason(void **state)
{
	struct evicted evicted = {.reason = LOSS_REASON_MEMORY};
	struct frame_log *log = frame_log_create(1 << 20, on_evict, &evicted);

	(void)state;
	frame_log_evict_oldest(log, evicted.reason);
	for (uint64_t serial = 0; serial < 3; serial++)
		frame_log_append(log, numbered(serial, 10));
	for (unsigned i = 0; i < 4; i++)
		frame_log_evict_oldest(log, evicted.reason);
	assert_int_equal(evicted.serials, 2);
	assert_int_equal(frame_log_first(log), 2);
	assert_int_equal(frame_log_end(log), 3);
	frame_log_destroy(log);
}

/* The oldest makes room, and the newest is always kept; once there is memory, none has to go. */
static void test_no_memory_for_another_entry(void **state)
{
	struct evicted evicted = {.reason = LOSS_REASON_MEMORY};
	struct frame_log *log = frame_log_create(1 << 20, on_evict, &evicted);
	uint64_t serial = 0;

	(void)state;
	while (!evicted.serials && serial < 1000) {
		struct frame_ref *frame = numbered(serial++, 10);

		memory_fails_after(0);
		frame_log_append(log, frame);
		memory_suffices();
	}
	assert_int_equal(frame_log_end(log), serial);
	assert_int_equal(frame_log_first(log), 1);
	for (unsigned i = 0; i < 500; i++, serial++)
		frame_log_append(log, numbered(serial, 10));
	assert_int_equal(evicted.serials, 1);
	for (uint64_t i = 1; i < serial; i++)
		assert_int_equal(frame_log_get(log, i)->first_seq, i * 10);
	frame_log_destroy(log);
}

/* Of a range, all that it speaks of: events, skips, losses. */
static void test_attempts_are_no_events(void **state)
{
	struct evicted evicted = {0};
	struct frame_log *log = frame_log_create(1 << 20, on_evict, &evicted);
	struct frame_ref *frame = numbered(0, 10);

	(void)state;
	frame->events = 3;
	frame->skipped = 7;
	frame_log_append(log, frame);
	frame_log_append(log, frame_ref_create(FRAME_WATERMARK, 10));
	assert_int_equal(frame_log_attempts_from(log, 0), 10);
	assert_int_equal(frame_log_attempts_from(log, 1), 0);
	frame_log_destroy(log);
}

static void test_no_memory_for_a_log(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		memory_fails_after(i);
		assert_null(frame_log_create(1, on_evict, NULL));
		memory_suffices();
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_exact_bound),
		cmocka_unit_test(test_what_goes_is_let_go_of),
		cmocka_unit_test(test_given_up_for_a_reason),
		cmocka_unit_test(test_no_memory_for_another_entry),
		cmocka_unit_test(test_attempts_are_no_events),
		cmocka_unit_test(test_no_memory_for_a_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
