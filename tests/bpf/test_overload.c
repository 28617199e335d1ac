/* Full rings, hostile consumers, bells, and what user space may not do. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "tests/bpf/harness.h"

#define PROBE	(RT_PROBE_SYSCALL_CALL + SYS_getppid)
#define CALLS	50000
#define ROUNDS	40

static struct harness harness;

static void count_records(void *context, uint32_t cpu, const struct ring_item *item)
{
	(void)cpu;
	*(uint64_t *)context += item->probe == PROBE;
}

static void make_calls(int calls)
{
	for (int i = 0; i < calls; i++)
		syscall(SYS_getppid);
}

static void start(void)
{
	struct source_request request = { 0 };

	harness_pin(0);
	harness_want(&request, PROBE);
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
}

static uint64_t lost_total(void)
{
	return harness_counter(&harness, offsetof(struct rt_ring_producer, lost_total));
}

static void without_a_reader_records_and_losses_are_the_attempts(void **state)
{
	uint64_t records = 0, lost = harness.lost;

	(void)state;
	start();
	make_calls(CALLS);
	assert_true(lost_total() > 0);
	harness_drain(&harness, count_records, &records);
	make_calls(10);		/* the losses are located by the next record */
	harness_drain(&harness, count_records, &records);
	assert_int_equal(records + harness.lost - lost, CALLS + 10);
	assert_int_equal(harness.lost, lost_total());
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, lost)),
			 lost_total());
	harness_reset(&harness);
}

static void *call_as_another(void *calls)
{
	make_calls(*(int *)calls);
	return NULL;
}

/* There is no room to introduce a thread: each of its events is lost with that record, and both are counted. */
static void events_of_a_thread_that_found_no_room_are_lost(void **state)
{
	uint64_t records = 0, lost;
	int calls = 100;
	pthread_t thread;

	(void)state;
	start();
	make_calls(CALLS);
	lost = lost_total();
	assert_int_equal(pthread_create(&thread, NULL, call_as_another, &calls), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(lost_total(), lost + 2 * calls);
	harness_drain(&harness, count_records, &records);
	make_calls(1);
	harness_drain(&harness, count_records, &records);
	harness_reset(&harness);
}

static void count_calls(void *context, uint32_t cpu, const struct ring_item *item)
{
	(void)cpu;
	*(uint64_t *)context += item->probe >= RT_PROBE_EVENT_MIN;
}

/* Fills rings to the last byte: what is behind the end is the oldest record, which is still to be read. */
static void no_record_is_written_beyond_its_end(void **state)
{
	static const int number[] = { SYS_execve, SYS_execveat, SYS_openat };
	struct source_request request = { 0 };
	uint64_t records = 0, lost = harness.lost, calls = 0;

	(void)state;
	harness_pin(0);
	harness_want(&request, PROBE);
	for (unsigned i = 0; i < sizeof(number) / sizeof(number[0]); i++)
		harness_want(&request, RT_PROBE_SYSCALL_CALL + number[i]);
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
	for (unsigned i = 0; i < ROUNDS * sizeof(number) / sizeof(number[0]); i++) {
		make_calls(i / 3);
		for (unsigned n = 0; n < RT_RING_BYTES_MIN / 32; n++)
			syscall(number[i % 3], -1, NULL, NULL, NULL, 0);
		calls += i / 3 + RT_RING_BYTES_MIN / 32;
		harness_drain(&harness, count_calls, &records);
	}
	make_calls(1);
	harness_drain(&harness, count_calls, &records);
	assert_int_equal(records + harness.lost - lost, calls + 1);
	assert_true(records > ROUNDS);
	harness_reset(&harness);
}

/* What a stranger writes into the consumer page: refused and counted; and good ones help again. */
static void garbage_in_the_consumer_page_costs_only_its_writer(void **state)
{
	const struct harness_ring *ring = &harness.ring[0];
	uint64_t garbage[] = { 1, ~0ull, 1ull << 63, 0x123456789abcdef0, 0, 0 };
	uint64_t good = ring->consumer->consumer_pos, records = 0, bad, lost, before;

	(void)state;
	start();
	make_calls(CALLS);
	garbage[4] = ring->producer->producer_pos + 8;
	garbage[5] = ring->producer->consumer_pos_seen - 8;
	for (unsigned i = 0; i < sizeof(garbage) / sizeof(garbage[0]); i++) {
		bad = ring->producer->consumer_bad;
		lost = lost_total();
		ring->consumer->consumer_pos = garbage[i];
		ring->consumer->bell_at = garbage[i];
		make_calls(100);
		assert_int_equal(lost_total(), lost + 100);
		assert_true(ring->producer->consumer_bad >= bad + 100);
	}
	ring->consumer->bell_at = RT_BELL_NEVER;
	ring->consumer->consumer_pos = good;
	harness_drain(&harness, count_records, &records);
	before = records;
	make_calls(10);
	harness_drain(&harness, count_records, &records);
	assert_int_equal(records, before + 10);
	harness_reset(&harness);
}

static void the_bell_rings_once_for_each_asking(void **state)
{
	struct harness_ring *ring = &harness.ring[0];
	struct pollfd bell = { .fd = ring->source.bell_fd, .events = POLLIN };
	uint64_t bells = ring->producer->bells;

	(void)state;
	start();
	make_calls(1);
	harness_drain(&harness, NULL, NULL);
	assert_int_equal(poll(&bell, 1, 0), 0);
	assert_true(ring_reader_arm(ring->reader, 2000));
	make_calls(10);
	assert_int_equal(poll(&bell, 1, 0), 0);
	make_calls(100);
	assert_int_equal(poll(&bell, 1, 1000), 1);
	assert_int_equal(ring->producer->bells, bells + 1);
	assert_int_equal(ring->producer->bell_answered, ring->consumer->bell_at);
	harness_reset(&harness);
}

static void user_space_can_not_write_a_ring(void **state)
{
	const struct harness_ring *ring = &harness.ring[0];
	uint32_t key = 0;
	void *map;

	(void)state;
	map = mmap(NULL, ring->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring->source.ring_fd,
		   ring->source.ring_offset);
	assert_ptr_equal(map, MAP_FAILED);
	assert_int_equal(mprotect((void *)ring->producer, RT_PAGE_BYTES, PROT_READ | PROT_WRITE), -1);
	assert_true(bpf_map_update_elem(ring->source.ring_fd, &key, ring->producer, BPF_ANY) < 0);
	assert_int_equal(errno, EPERM);
}

static void an_idle_source_attaches_nothing(void **state)
{
	struct source_stats before, after;

	(void)state;
	harness_reset(&harness);
	assert_int_equal(source_bpf.stats(harness.source, &before), 0);
	make_calls(1000);
	assert_int_equal(source_bpf.stats(harness.source, &after), 0);
	assert_int_equal(after.recursion_lost, before.recursion_lost);
	assert_int_equal(after.program_runs, before.program_runs);
}

static void bad_geometry_is_refused_with_its_reason(void **state)
{
	const uint64_t bytes[] = { 0, 4096, 100000, 1ull << 40 };
	struct source *source;
	struct error error;

	(void)state;
	for (unsigned i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
		const struct source_config config = { .ring_bytes = bytes[i] };

		assert_int_equal(source_bpf.open(&config, &source, &error), -EINVAL);
		assert_string_equal(error.code, "ring-size");
		assert_true(strlen(error.what) && strlen(error.hint));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_reader_records_and_losses_are_the_attempts),
		cmocka_unit_test(events_of_a_thread_that_found_no_room_are_lost),
		cmocka_unit_test(no_record_is_written_beyond_its_end),
		cmocka_unit_test(garbage_in_the_consumer_page_costs_only_its_writer),
		cmocka_unit_test(the_bell_rings_once_for_each_asking),
		cmocka_unit_test(user_space_can_not_write_a_ring),
		cmocka_unit_test(an_idle_source_attaches_nothing),
		cmocka_unit_test(bad_geometry_is_refused_with_its_reason),
	};
	int failed;

	harness_open(&harness, RT_RING_BYTES_MIN);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
