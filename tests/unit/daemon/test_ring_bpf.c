/*
 * The BPF programs' half of the ring (kmod/bpf/ring.bpf.h), compiled for user space over a ring of the
 * smallest size, and read by the reader that the daemon has. The clock is what a program asks between its
 * look at the ring and its swap: there, others interrupt it, as often as a test wants. On a machine that
 * happens once in days, and eight times in a row perhaps never.
 */
#include "tests/unit/daemon/small_ring.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

/* ---- What the programs have from the kernel ----------------------------------------------------- */

#define RINGTAIL_BPF_KERNEL_H		/* instead of kernel.bpf.h */
#define SEC(name)
#define __uint(name, value)	int (*name)[value]
#define __type(name, value)	__typeof__(value) *name
#define __array(name, value)	__typeof__(value) *name[]
#define likely(x)		(x)
#define unlikely(x)		(x)
#define read_once(x)		(*(volatile __typeof__(x) *)&(x))
#define write_once(x, v)	(*(volatile __typeof__(x) *)&(x) = (v))
#define barrier()		__asm__ volatile("" ::: "memory")
#define barrier_var(var)	__asm__ volatile("" : "+r"(var))
#define ordered()		__atomic_thread_fence(__ATOMIC_SEQ_CST)
#define inlined			static inline
#define outlined		static
#define verified_once		static

enum { BPF_MAP_TYPE_ARRAY = 1, BPF_MAP_TYPE_RINGBUF, BPF_MAP_TYPE_ARRAY_OF_MAPS };
enum { BPF_F_MMAPABLE = 1, BPF_RB_FORCE_WAKEUP = 2 };

static uint32_t bpf_get_smp_processor_id(void);
static void *bpf_map_lookup_elem(const void *map, const void *key);
static uint64_t bpf_ktime_get_ns(void);
static long bpf_ringbuf_output(void *bell, const void *data, uint64_t bytes, uint64_t flags);

#include "kmod/bpf/ring.bpf.h"

static struct {
	struct fixture ring;
	uint64_t time_ns;
	unsigned interruptions;		/* still to come, one each time that the clock is asked */
	bool bell_is_busy;
	unsigned rung;
	uint64_t attempts;
	uint64_t records, lost[RT_LOST_REASONS];	/* as they were read */
} cpu;

static uint32_t bpf_get_smp_processor_id(void)
{
	return cpu.ring.producer->cpu;
}

static void *bpf_map_lookup_elem(const void *map, const void *key)
{
	assert_int_equal(*(const uint32_t *)key, cpu.ring.producer->cpu);
	return map == &rings ? (void *)cpu.ring.producer :
	       map == &consumers ? (void *)cpu.ring.consumer : (void *)&cpu;
}

static long bpf_ringbuf_output(void *bell, const void *data, uint64_t bytes, uint64_t flags)
{
	(void)data, (void)bytes;
	assert_ptr_equal(bell, &cpu);
	assert_int_equal(flags, BPF_RB_FORCE_WAKEUP);
	cpu.rung += !cpu.bell_is_busy;
	return cpu.bell_is_busy ? -EBUSY : 0;
}

/* ---- Programs ----------------------------------------------------------------------------------- */

static bool begin_of(struct reservation *place, uint32_t words)
{
	struct ring ring;

	assert_true(ring_of_this_cpu(&ring));
	cpu.attempts++;
	return ring_reserve(&ring, RT_RECORD_HEADER_BYTES + words * 8, 77, place);
}

/* The payload is the record's own position: what is read is what was written there. */
static void finish(const struct reservation *place)
{
	uint64_t words = (place->end - place->pos - RT_RECORD_HEADER_BYTES) / 8;
	uint64_t *payload = (void *)place->record->payload;
	struct ring ring;

	assert_true(ring_of_this_cpu(&ring));
	assert_int_equal(place->record->time_ns, place->time_ns);
	for (uint64_t i = 0; i < words; i++)
		payload[i] = place->pos + i;
	ring_commit(&ring, place, place->end - place->pos, PROBE);
}

static bool attempt_of(uint32_t words)
{
	struct reservation place;
	bool good = begin_of(&place, words);

	if (good)
		finish(&place);
	return good;
}

static bool attempt(void)
{
	return attempt_of(PAYLOAD_WORDS);
}

/* Those that interrupt are not interrupted themselves. */
static uint64_t bpf_ktime_get_ns(void)
{
	unsigned left = cpu.interruptions;

	if (left) {
		cpu.interruptions = 0;
		attempt();
		cpu.interruptions = left - 1;
	}
	return ++cpu.time_ns;
}

/* ---- The reader ---------------------------------------------------------------------------------- */

static void check_payload(const struct ring_item *item)
{
	for (unsigned i = 1; i < item->words; i++)
		assert_int_equal(item->payload[i], item->payload[0] + i);
}

/* Everything, in the order of its numbers and times. */
static void drain(void)
{
	struct ring_item item;
	uint64_t time_ns = 0;
	enum ring_read read;

	while ((read = ring_reader_next(cpu.ring.reader, &item)) != RING_EMPTY) {
		uint64_t seq = cpu.records;

		for (unsigned i = 0; i < RT_LOST_REASONS; i++)
			seq += cpu.lost[i];
		assert_int_equal(item.seq, seq);
		if (read == RING_LOST) {
			cpu.lost[item.reason] += item.count;
			continue;
		}
		assert_int_equal(read, RING_RECORD);
		assert_int_equal(item.probe, PROBE);
		assert_true(item.time_ns > time_ns);
		check_payload(&item);
		time_ns = item.time_ns;
		cpu.records++;
	}
	ring_reader_release(cpu.ring.reader);
}

/* Each attempt is a record or a loss, here and there, and the reader has met every one. */
static void check_closed(void)
{
	const struct rt_ring_producer *producer = cpu.ring.producer;
	uint64_t lost = 0, read = cpu.records;
	struct ring_usage usage;

	for (unsigned i = 0; i < RT_LOST_REASONS; i++) {
		lost += producer->lost[i];
		read += cpu.lost[i];
		assert_int_equal(cpu.lost[i], producer->lost[i]);
	}
	assert_int_equal(producer->lost_total, lost);
	assert_int_equal(read, cpu.attempts);
	ring_reader_usage(cpu.ring.reader, &usage);
	assert_int_equal(usage.produced, cpu.attempts);
	assert_int_equal(usage.in_flight, 0);
}

static int setup(void **state)
{
	(void)state;
	memset(&cpu, 0, sizeof(cpu));
	open_ring(&cpu.ring, RT_POLICY_DROP);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close_ring(&cpu.ring);
	return 0;
}

/* ---- Tests ---------------------------------------------------------------------------------------- */

static void records_come_as_they_were_written(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 3000; i++) {
		assert_true(attempt_of(1 + i % 20));
		if (i % 30 == 0)
			drain();
	}
	drain();
	assert_int_equal(cpu.records, 3000);
	check_closed();
}

static void interrupted_at_every_try_it_is_lost_and_told(void **state)
{
	(void)state;
	assert_true(attempt());
	cpu.interruptions = RT_RESERVE_TRIES + 1;	/* the plain one, and all of the slow ones */
	assert_false(attempt());
	assert_int_equal(cpu.interruptions, 0);
	assert_int_equal(cpu.ring.producer->lost[RT_LOST_NEST], 1);
	assert_int_equal(cpu.ring.producer->lost_total, 1);
	drain();
	assert_int_equal(cpu.records, 1 + RT_RESERVE_TRIES + 1);
	assert_int_equal(cpu.lost[RT_LOST_NEST], 1);
	assert_true(attempt());
	drain();
	check_closed();
}

static void interrupted_less_often_it_is_recorded(void **state)
{
	(void)state;
	for (unsigned times = 1; times <= RT_RESERVE_TRIES; times++) {
		assert_true(attempt());
		cpu.interruptions = times;
		assert_true(attempt());
		assert_int_equal(cpu.interruptions, 0);
		drain();
	}
	assert_int_equal(cpu.ring.producer->lost_total, 0);
	check_closed();
}

static void without_room_it_is_lost_and_told(void **state)
{
	unsigned fitted = 0;

	(void)state;
	while (attempt())
		fitted++;
	assert_true(fitted > RING_BYTES / RECORD_BYTES * 9 / 10 && fitted < RING_BYTES / RECORD_BYTES);
	for (unsigned i = 0; i < 99; i++)
		assert_false(attempt());
	assert_int_equal(cpu.ring.producer->lost[RT_LOST_FULL], 100);
	drain();
	assert_int_equal(cpu.records, fitted);
	for (unsigned i = 0; i < fitted; i++)		/* there is room again */
		assert_true(attempt());
	drain();
	assert_int_equal(cpu.lost[RT_LOST_FULL], 100);
	check_closed();
}

/* To its last byte: behind that stands the oldest record, which is still to be read. */
static void a_full_ring_is_full_to_its_last_byte(void **state)
{
	(void)state;
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < round; i++)
			attempt_of(1 + i % 9);
		drain();
		while (attempt_of(1 + round % 7))
			;
		while (attempt_of(1))
			;
		assert_true(cpu.ring.producer->producer_pos - cpu.ring.consumer->consumer_pos <=
			    RING_BYTES);
		drain();
	}
	assert_true(attempt());
	drain();
	check_closed();
}

/* It stands before what interrupted it, and is read first. */
static void what_interrupts_an_unfinished_record_comes_after_it(void **state)
{
	struct reservation place;
	struct ring_item item;

	(void)state;
	assert_true(attempt());
	drain();
	assert_true(begin_of(&place, PAYLOAD_WORDS));
	assert_true(attempt());
	assert_int_equal(ring_reader_next(cpu.ring.reader, &item), RING_EMPTY);
	finish(&place);
	drain();
	assert_int_equal(cpu.records, 3);
	check_closed();
}

static void a_loss_stands_before_the_record_after_it(void **state)
{
	struct ring_item item;

	(void)state;
	assert_true(attempt());
	ring_lose(RT_LOST_NEST);
	ring_lose(RT_LOST_NEST);
	cpu.attempts += 2;
	assert_true(attempt());
	assert_true(attempt());
	assert_int_equal(ring_reader_next(cpu.ring.reader, &item), RING_RECORD);
	assert_int_equal(ring_reader_next(cpu.ring.reader, &item), RING_LOST);
	assert_int_equal(item.seq, 1);
	assert_int_equal(item.count, 2);
	cpu.records = 1;
	cpu.lost[RT_LOST_NEST] = 2;
	drain();
	check_closed();
}

/* One that names its probes has a place of its own, and no counter; without room for that it is one of the ring's. */
static void a_loss_of_known_probes_is_a_record(void **state)
{
	const struct rt_loss *loss;
	struct ring_item item;

	(void)state;
	assert_true(attempt());
	assert_true(ring_lose_of(PROBE, PROBE + 3, RT_LOST_REFUSED));
	assert_int_equal(cpu.ring.producer->lost_total, 0);
	assert_int_equal(ring_reader_next(cpu.ring.reader, &item), RING_RECORD);
	assert_int_equal(ring_reader_next(cpu.ring.reader, &item), RING_RECORD);
	assert_int_equal(item.seq, 1);
	assert_int_equal(item.probe, RT_PROBE_LOSS);
	assert_int_equal(item.words, RT_LOSS_WORDS);
	loss = (const void *)item.payload;
	assert_int_equal(loss->first, PROBE);
	assert_int_equal(loss->last, PROBE + 3);
	assert_int_equal(loss->reason, RT_LOST_REFUSED);
	cpu.records = cpu.attempts = 2;
	drain();
	check_closed();
	while (attempt_of(RT_LOSS_WORDS))
		;
	assert_false(ring_lose_of(PROBE, PROBE, RT_LOST_REFUSED));
	cpu.attempts++;
	assert_int_equal(cpu.ring.producer->lost[RT_LOST_FULL], 2);
	assert_int_equal(cpu.ring.producer->lost[RT_LOST_REFUSED], 0);
	drain();
	check_closed();
}

/* Whichever way the record came by its place, and wherever in a sub-buffer that is. */
static void each_loss_stands_before_the_record_after_it(void **state)
{
	struct ring_item item;

	(void)state;
	assert_true(attempt());
	drain();
	for (unsigned i = 0; i < 5000; i++) {
		ring_lose(RT_LOST_NEST);
		cpu.attempts++;
		assert_true(attempt_of(1 + i % 9));
		assert_int_equal(ring_reader_next(cpu.ring.reader, &item), RING_LOST);
		assert_int_equal(item.seq, 2 * i + 1);
		assert_int_equal(item.count, 1);
		assert_int_equal(ring_reader_next(cpu.ring.reader, &item), RING_RECORD);
		check_payload(&item);
		cpu.lost[RT_LOST_NEST]++;
		cpu.records++;
		if (i % 7 == 0)
			ring_reader_release(cpu.ring.reader);
	}
	drain();
	check_closed();
}

/* A position that can not be: it is counted, costs who wrote it events, and overwrites nothing. */
static void a_position_that_can_not_be_is_not_believed(void **state)
{
	struct rt_ring_producer *producer = cpu.ring.producer;
	uint64_t good, bad = 0;

	(void)state;
	while (attempt())
		;
	good = cpu.ring.consumer->consumer_pos;
	for (uint64_t *pos = (uint64_t[]){ 4, good - 8, producer->producer_pos + 8, 1ull << 63, 0 };
	     *pos; pos++) {
		cpu.ring.consumer->consumer_pos = *pos;
		assert_false(attempt());
		assert_int_equal(producer->consumer_bad, ++bad);
		assert_int_equal(producer->consumer_pos_seen, good);
	}
	cpu.ring.consumer->consumer_pos = good;
	drain();
	assert_true(attempt());
	drain();
	check_closed();
}

static void the_bell_rings_once_and_again_if_it_was_busy(void **state)
{
	struct rt_ring_producer *producer = cpu.ring.producer;

	(void)state;
	assert_true(attempt());
	drain();
	assert_int_equal(cpu.rung, 0);
	assert_true(ring_reader_arm(cpu.ring.reader, RECORD_BYTES + 8));
	assert_true(attempt());
	assert_int_equal(cpu.rung, 0);
	cpu.bell_is_busy = true;
	assert_true(attempt());
	assert_int_equal(producer->bells, 0);
	cpu.bell_is_busy = false;
	assert_true(attempt());
	assert_true(attempt());
	assert_int_equal(cpu.rung, 1);
	assert_int_equal(producer->bells, 1);
	assert_int_equal(producer->bell_answered, cpu.ring.consumer->bell_at);
	drain();
	check_closed();
}

/* Of any size, interrupted as often as it may be, and read when it suits. */
static void random_interruptions_leave_the_ledger_closed(void **state)
{
	(void)state;
	srandom(1);
	for (unsigned i = 0; i < 200000; i++) {
		if (random() % 4 == 0)
			cpu.interruptions = (unsigned)random() % (RT_RESERVE_TRIES + 3);
		attempt_of(1 + (uint32_t)random() % 40);
		cpu.interruptions = 0;
		if (random() % 40 == 0)
			drain();
	}
	drain();
	assert_true(attempt());
	drain();
	assert_true(cpu.lost[RT_LOST_NEST] > 100 && cpu.lost[RT_LOST_FULL] > 100);
	check_closed();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(records_come_as_they_were_written),
		TEST(interrupted_at_every_try_it_is_lost_and_told),
		TEST(interrupted_less_often_it_is_recorded),
		TEST(without_room_it_is_lost_and_told),
		TEST(a_full_ring_is_full_to_its_last_byte),
		TEST(what_interrupts_an_unfinished_record_comes_after_it),
		TEST(a_loss_stands_before_the_record_after_it),
		TEST(a_loss_of_known_probes_is_a_record),
		TEST(each_loss_stands_before_the_record_after_it),
		TEST(a_position_that_can_not_be_is_not_believed),
		TEST(the_bell_rings_once_and_again_if_it_was_busy),
		TEST(random_interruptions_leave_the_ledger_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
