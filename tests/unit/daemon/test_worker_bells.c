/*
 * When a worker is woken between its ticks: at half of any of its rings, by each once; that the rings it has left
 * wake it no more; and that bells which never end do not keep the ticks away.
 */
#include "tests/unit/daemon/small_worker.h"

#include <sys/syscall.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"

#define RING_BYTES (256 << 10)
#define NEVER (2 * WAIT_NS)

static uint64_t load(const __u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

static struct rt_ring_producer *producer_of(const struct fixture *f, unsigned ring)
{
	size_t bytes;

	return ring_writer_map(f->writer[ring], &bytes);
}

static uint64_t read_to(const struct fixture *f, unsigned ring)
{
	return load(&ring_writer_consumer(f->writer[ring])->consumer_pos);
}

static bool is_armed(const struct fixture *f, unsigned ring)
{
	return load(&ring_writer_consumer(f->writer[ring])->bell_at) ==
	       read_to(f, ring) + producer_of(f, ring)->size_bytes / 2;
}

static bool is_empty(const struct fixture *f, unsigned ring)
{
	return read_to(f, ring) == load(&producer_of(f, ring)->producer_pos);
}

static void fill_half(struct fixture *f, unsigned ring)
{
	struct rt_ring_producer *producer = producer_of(f, ring);
	uint64_t until = load(&producer->producer_pos) + producer->size_bytes / 2 + 64;

	while (load(&producer->producer_pos) < until)
		write_call(f, ring, SMALL_READ);
}

/* While it is set, ring 0 of that one has filled again by half whenever a bell is asked for. */
static _Atomic(struct fixture *) filled_again;

bool __real_ring_reader_arm(struct ring_reader *reader, uint64_t bytes);
bool __wrap_ring_reader_arm(struct ring_reader *reader, uint64_t bytes);
bool __wrap_ring_reader_arm(struct ring_reader *reader, uint64_t bytes)
{
	const uint64_t payload[] = {100, 1, 2, 3, 4};
	const struct ring_writer_record record = {.probe = SMALL_READ, .tid = 7, .time_ns = clock_monotonic(),
						  .payload = payload, .words = 5};
	struct fixture *f = atomic_load(&filled_again);

	while (f && load(&producer_of(f, 0)->producer_pos) - read_to(f, 0) < RING_BYTES / 2)
		ring_writer_write(f->writer[0], &record);
	return __real_ring_reader_arm(reader, bytes);
}

static void any_ring_at_half_has_all_read_and_rings_again(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t bells, ticks = counter_read(COUNTER_ticks);

	(void)state;
	open_worker(f, 1, NEVER, RING_BYTES);
	add(f, 0);
	AWAIT(f, is_armed(f, 0) && is_armed(f, 1));
	bells = counter_read(COUNTER_bells);
	for (unsigned ring = 0; ring < RINGS; ring++) {
		uint64_t at = read_to(f, ring);

		write_call(f, !ring, SMALL_READ);
		fill_half(f, ring);
		/* Of the one that rang all but what was not finished when it did: the tick sees to that. */
		AWAIT(f, is_empty(f, !ring) && read_to(f, ring) > at);
		AWAIT(f, is_armed(f, 0) && is_armed(f, 1));
	}
	drain(f);
	assert_int_equal(counter_read(COUNTER_bells), bells + RINGS);
	assert_int_equal(counter_read(COUNTER_ticks), ticks);
	assert_int_equal(f->losses, 0);
	close_worker(f);
	free(f);
}

static void ring_half_full_before_the_start_is_read_at_once(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct worker_config config = {.batch_interval_ns = NEVER};
	struct error error;

	(void)state;
	open_worker(f, 1, NEVER, RING_BYTES);
	worker_destroy(f->worker[0]);
	config.probes = &f->probes;
	config.out = &f->mailbox;
	assert_int_equal(worker_create(&config, &f->worker[0], &error), 0);
	for (unsigned i = 0; i < RINGS; i++) {
		struct ring_handle ring;

		ring_writer_describe(f->writer[i], &ring);
		assert_int_equal(worker_add_ring(f->worker[0], i, &ring, &error), 0);
	}
	/* Nobody has asked for a bell: what is written rings none. */
	__atomic_store_n(&ring_writer_consumer(f->writer[1])->bell_at, RT_BELL_NEVER, __ATOMIC_SEQ_CST);
	fill_half(f, 1);
	assert_int_equal(worker_start(f->worker[0], &error), 0);
	AWAIT(f, is_empty(f, 1));
	AWAIT(f, is_armed(f, 0) && is_armed(f, 1));
	close_worker(f);
	free(f);
}

static void rings_that_were_left_wake_nobody(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t at[RINGS];

	(void)state;
	open_worker(f, 1, NEVER, RING_BYTES);
	AWAIT(f, is_armed(f, 0) && is_armed(f, 1));
	assert_int_equal(worker_leave(f->worker[0]), 0);
	AWAIT(f, f->drained == 1);
	for (unsigned i = 0; i < RINGS; i++) {
		at[i] = read_to(f, i);
		fill_half(f, i);
	}
	/* To leave them again is to have left them; and two answers later a bell would have been heard. */
	assert_int_equal(worker_leave(f->worker[0]), 0);
	AWAIT(f, f->drained == 2);
	assert_int_equal(worker_empty(f->worker[0]), 0);
	AWAIT(f, f->drained == 3);
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(read_to(f, i), at[i]);
	close_worker(f);
	free(f);
}

/* Its next record would not ring: until it is finished, the ticks go on. */
static void an_unfinished_record_in_one_ring_is_no_idleness(void **state)
{
	const uint64_t payload[] = {100, 1};
	struct ring_writer_record record = {.probe = SMALL_GETPPID, .payload = payload, .words = 2};
	struct fixture *f = malloc(sizeof(*f));
	struct ring_writer_slot slot;
	unsigned before;

	(void)state;
	open_worker(f, 1, 1 * MS, RING_BYTES);
	record.time_ns = clock_monotonic();
	assert_int_equal(ring_writer_reserve(f->writer[0], 2, record.time_ns, &slot), 0);
	AWAIT(f, f->watermarks >= 1);
	before = f->watermarks;
	AWAIT(f, f->watermarks >= before + 3);
	AWAIT(f, is_armed(f, 0) && is_armed(f, 1));
	ring_writer_commit(f->writer[0], &slot, &record);
	AWAIT(f, is_empty(f, 0));
	close_worker(f);
	free(f);
}

/* One more of ring 0; whether the worker has found some lately. */
static bool counts_and_is_awake(struct fixture *f, uint64_t *counted)
{
	ring_writer_count(f->writer[0], RT_PROBE_SYSCALL_CALL + SYS_getppid, 1, 0);
	++*counted;
	return is_armed(f, 0) && is_armed(f, 1);
}

/* What is counted rings no bell: it is looked after once a second, at each tick where there was some lately, and to the end. */
static void counts_keep_it_awake(void **state)
{
	const struct question_request request = {.of = ""};
	struct fixture *f = malloc(sizeof(*f));
	uint64_t counted = 0;
	struct question *question;
	struct error error;
	bool awake = false;

	(void)state;
	open_worker(f, 1, 5 * MS, RING_BYTES);
	assert_int_equal(question_create(&request, &f->spec[1].probes, small_catalog_get(), &question, &error), 0);
	f->spec[1].question = question;
	add(f, 0);
	add(f, 1);
	AWAIT(f, !is_armed(f, 0));		/* it is idle: the next record rings */
	AWAIT(f, awake || (awake = counts_and_is_awake(f, &counted)));
	AWAIT(f, f->events[1] == counted);
	AWAIT(f, !is_armed(f, 0));		/* nothing was found for a while */
	ring_writer_count(f->writer[1], RT_PROBE_SYSCALL_CALL + SYS_getppid, 7, 1);
	drain(f);
	remove_one(f, 1);
	assert_int_equal(f->events[1], counted + 8);
	assert_int_equal(f->events[0], 0);
	close_worker(f);
	question_destroy(question);
	free(f);
}

/* Each answer to a bell finds another half of a ring. */
static void bells_without_end_leave_the_ticks_their_turn(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t ticks, bells;

	(void)state;
	open_worker(f, 1, 1 * MS, RING_BYTES);
	AWAIT(f, f->watermarks >= 1);
	ticks = counter_read(COUNTER_ticks);
	bells = counter_read(COUNTER_bells);
	atomic_store(&filled_again, f);
	fill_half(f, 1);
	AWAIT(f, counter_read(COUNTER_ticks) >= ticks + 10);
	assert_true(counter_read(COUNTER_bells) > bells);
	atomic_store(&filled_again, NULL);
	AWAIT(f, is_empty(f, 0) && is_empty(f, 1));
	close_worker(f);
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_ring_at_half_has_all_read_and_rings_again),
		cmocka_unit_test(ring_half_full_before_the_start_is_read_at_once),
		cmocka_unit_test(rings_that_were_left_wake_nobody),
		cmocka_unit_test(an_unfinished_record_in_one_ring_is_no_idleness),
		cmocka_unit_test(counts_keep_it_awake),
		cmocka_unit_test(bells_without_end_leave_the_ticks_their_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
