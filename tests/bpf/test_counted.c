/*
 * What the BPF producer counts instead of recording it: as many as there were, by result, and each event either counted
 * or recorded, whenever a request changes what is wanted.
 */
#include <pthread.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

#define CALL(name)	(RT_PROBE_SYSCALL_CALL + SYS_##name)
#define CALLS		harness_fewer(100000)
#define CHANGES		harness_fewer(60)

static struct harness harness;

/* Of one probe: counted since the test began, and recorded. */
struct seen {
	uint16_t probe;
	uint64_t good, bad, recorded, recorded_bad;
};

static void see_record(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct seen *seen = context;

	(void)cpu;
	if (item->probe != seen->probe)
		return;
	seen->recorded++;
	seen->recorded_bad += item->payload[1] >= (uint64_t)-RT_ERRNO_MAX;
}

static void take(struct seen *seen)
{
	struct ring_counted counted;

	harness_drain(&harness, see_record, seen);
	for (unsigned i = 0; i < harness.rings; i++)
		if (ring_reader_take_counted(harness.ring[i].reader, &counted, 1)) {
			assert_int_equal(counted.probe, seen->probe);
			seen->good += counted.good;
			seen->bad += counted.bad;
			harness.ring[i].seq += counted.good + counted.bad;
		}
}

static void want_mine(struct source_request *request, uint16_t probe, bool counted)
{
	memset(request, 0, sizeof(*request));
	harness_want(request, probe);
	harness_want_pid(request, getpid());
	if (counted)
		request->counted[probe / 8] |= (uint8_t)(1u << probe % 8);
}

static void watch(struct seen *seen)
{
	for (unsigned i = 0; i < harness.rings; i++) {
		ring_reader_unwatch_counted(harness.ring[i].reader);
		assert_true(ring_reader_watch_counted(harness.ring[i].reader, seen->probe));
	}
	take(seen);
	*seen = (struct seen){.probe = seen->probe};
}

static void calls_are_counted_by_result_and_leave_no_record(void **state)
{
	struct seen seen = {.probe = CALL(close)};
	struct source_request request;

	(void)state;
	watch(&seen);
	want_mine(&request, seen.probe, true);
	harness_configure(&harness, &request);
	for (unsigned i = 0; i < CALLS; i++)
		syscall(SYS_close, -1);
	for (unsigned i = 0; i < CALLS / 10; i++)
		syscall(SYS_close, syscall(SYS_dup, 0));
	take(&seen);
	harness_reset(&harness);
	assert_int_equal(seen.bad, CALLS);
	assert_int_equal(seen.good, CALLS / 10);
	assert_int_equal(seen.recorded, 0);
}

static void *call_for_long(void *context)
{
	unsigned *calls = context;

	for (; !__atomic_load_n(&calls[1], __ATOMIC_ACQUIRE); calls[0]++)
		syscall(SYS_getppid);
	return NULL;
}

/* Requests change amid calls, on another CPU where there is one. */
static void each_call_is_either_counted_or_recorded(void **state)
{
	struct seen seen = {.probe = CALL(getppid)};
	struct source_request request;
	unsigned calls[2] = {0}, before;
	pthread_t thread;

	(void)state;
	watch(&seen);
	want_mine(&request, seen.probe, true);
	harness_configure(&harness, &request);
	assert_int_equal(pthread_create(&thread, NULL, call_for_long, calls), 0);
	for (unsigned i = 0; i < CHANGES; i++) {
		want_mine(&request, seen.probe, i % 2);
		harness_configure(&harness, &request);
		before = __atomic_load_n(&calls[0], __ATOMIC_RELAXED);
		while (__atomic_load_n(&calls[0], __ATOMIC_RELAXED) - before < 200)
			take(&seen);
	}
	__atomic_store_n(&calls[1], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	take(&seen);
	harness_reset(&harness);
	assert_true(seen.good && seen.recorded);
	assert_int_equal(seen.bad, 0);
	assert_int_equal(seen.good + seen.recorded + harness.lost, calls[0]);
}

static void nobody_else_is_counted(void **state)
{
	struct seen seen = {.probe = CALL(getppid)};
	struct source_request request;

	(void)state;
	watch(&seen);
	want_mine(&request, seen.probe, true);
	request.clause[0].pid = 1;
	harness_configure(&harness, &request);
	for (unsigned i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	take(&seen);
	harness_reset(&harness);
	assert_int_equal(seen.good + seen.bad + seen.recorded, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_counted_by_result_and_leave_no_record),
		cmocka_unit_test(each_call_is_either_counted_or_recorded),
		cmocka_unit_test(nobody_else_is_counted),
	};
	int failed;

	harness_open(&harness, 1 << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
