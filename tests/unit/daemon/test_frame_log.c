/* The log of a subscription: serials, sums, and what is given up when it is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "daemon/stream/frame_log.h"

struct evicted {
	uint64_t serials, next;
};

static void on_evict(void *context, uint64_t serial, const struct frame_ref *frame,
		     Ringtail__V1__LossReason reason)
{
	assert_int_equal(reason, RINGTAIL__V1__LOSS_REASON__REASON_QUEUE_FULL);
	struct evicted *evicted = context;

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums),
		cmocka_unit_test(test_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
