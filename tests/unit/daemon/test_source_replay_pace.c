/*
 * When the replay source writes: as fast as it is read, or at the recorded pace; and it ends at
 * once, whatever it waits for.
 */
#include "tests/unit/daemon/small_replay.h"

/* Far more than the ring holds, through a reader that is often away. */
static void fast_loses_nothing(void **state)
{
	enum { BATCHES = 20, EVENTS = 2000 };
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	for (unsigned i = 0; i < BATCHES; i++) {
		begin_batch(&file, i % CPUS, i * EVENTS);
		for (unsigned j = 0; j < EVENTS; j++)
			put_event(&file, CALL, 0, i * EVENTS + j);
		end_batch(&file);
	}
	start(&e, file.path, true);
	want(&e, CALL);
	configure(&e);
	for (unsigned i = 0; i < 10; i++) {
		usleep(2000);
		drain(&e);
	}
	drain_to_the_end(&e);
	assert_int_equal(e.records, BATCHES * EVENTS + CPUS);
	assert_int_equal(e.lost, 0);
	end(&e);
	remove_file(&file);
}

/*
 * Replays a file of so many events; whether each was there by its time, in no watermark's past, and as long after the
 * one before it as it was recorded.
 */
static bool is_in_time(const char *path, unsigned events)
{
	struct engine e;
	uint64_t before, until, looked, read = 0;
	unsigned late = 0, broken = 0, slipped = 0;

	start(&e, path, false);
	want(&e, CALL);
	before = looked = clock_monotonic();
	configure(&e);
	for (until = before + PATIENCE_NS; read < events && looked < until;) {
		uint64_t now = clock_monotonic();

		drain(&e);
		for (; read < count_of(&e, CALL); read++) {
			uint64_t time_ns = nth_of(&e, CALL, read)->time_ns;

			broken += time_ns < looked;	/* what a watermark promises */
			late += clock_monotonic() > time_ns + 20000000;
			slipped += time_ns - nth_of(&e, CALL, 0)->time_ns != read * 4 * STEP_NS;
		}
		looked = now;
	}
	assert_int_equal(read, events);
	assert_true(clock_monotonic() - before >= (events - 1) * 4 * STEP_NS);
	drain_to_the_end(&e);
	end(&e);
	return late == 0 && broken == 0 && slipped == 0;
}

/*
 * An event is there by its time, and not long before it. A machine that is not ours alone puts the
 * player, or who looks, off for longer than that, but not each time.
 */
static void keeps_the_recorded_pace(void **state)
{
	enum { EVENTS = 20, TRIES_MAX = 100 };
	struct file file;
	unsigned tries;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	for (unsigned i = 0; i < EVENTS; i++)
		put_event(&file, CALL, 0, i * 4);
	end_batch(&file);
	for (tries = 0; tries < TRIES_MAX && !is_in_time(file.path, EVENTS); tries++)
		;
	assert_true(tries < TRIES_MAX);
	remove_file(&file);
}

/* For its reader, with the next event an hour away, and with the ring full. */
static void closes_while_it_waits(void **state)
{
	struct file file;
	struct engine e;
	uint64_t before;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	for (unsigned i = 0; i < 2000; i++)
		put_event(&file, CALL, 0, i);
	put_event(&file, CALL, 0, 3600000);
	end_batch(&file);
	for (unsigned i = 0; i < 3; i++) {
		start(&e, file.path, i == 2);
		want(&e, CALL);
		if (i == 0)
			ask(&e);
		else
			configure(&e);
		usleep(30000);
		before = clock_monotonic();
		end(&e);
		assert_true(clock_monotonic() - before < PATIENCE_NS);
	}
	source_replay.close(NULL);
	remove_file(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fast_loses_nothing),
		cmocka_unit_test(keeps_the_recorded_pace),
		cmocka_unit_test(closes_while_it_waits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
