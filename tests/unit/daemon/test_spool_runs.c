/*
 * A spool of several runs of the rings: between two of them nothing was recorded. Whoever reads from
 * one into the next gets a Gap of no size there, once, with the reason; whoever begins behind it gets none.
 */
#include "tests/unit/daemon/spool_in_memory.h"

#define RESTART		LOSS_REASON_RESTART
#define NOT_RECORDED	LOSS_REASON_NOT_RECORDED
#define OTHER_EPOCH	LOSS_REASON_OTHER_EPOCH
#define SPOOL_FULL	LOSS_REASON_SPOOL_FULL

/* Gaps of no size, of that reason, and of any. */
static void check_told(enum loss_reason reason, uint64_t of_it, uint64_t of_all)
{
	uint64_t all = 0;

	for (unsigned i = 0; i < LOSS_REASONS; i++)
		all += back.unknown[i];
	assert_int_equal(back.unknown[reason], of_it);
	assert_int_equal(all, of_all);
}

/* Nothing it still had to write or to seal comes to the disk. */
static void kill_run(struct spool_run *run)
{
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EIO;
	faulty.fail_for_ever = true;
	run_close(run);
	faulty.fail_at = UINT64_MAX;
}

static void next_run(struct spool_run *run, bool orderly)
{
	if (orderly)
		run_close(run);
	else
		kill_run(run);
	run->config.run.epoch++;
	memset(run->seq, 0, sizeof(run->seq));
	run_open(run);
}

static void is_told_between_two_runs(void **state)
{
	for (unsigned variant = 0; variant < 8; variant++) {
		bool orderly = variant & 1, writes = variant & 2, whole = variant & 4;
		enum loss_reason reason = orderly ? NOT_RECORDED : RESTART;
		uint64_t old[RUN_RINGS];
		struct spool_run run;

		(void)state;
		begin(&run);
		run_open(&run);
		run_script(&run, 40);
		memcpy(old, run.seq, sizeof(old));
		next_run(&run, orderly);
		if (writes)
			run_script(&run, 20);
		/* From its middle; and by whoever had all of it. */
		read_since(&run, RUN_EPOCH, whole ? old[0] : 3, whole ? old[1] : 3);
		check_told(reason, 1, 1);
		assert_int_equal(back.there, writes ? produced(&run) : 0);
		run_read(&run, &back);
		check_told(reason, 1, 1);
		read_since(&run, RUN_EPOCH + 1, 0, 0);
		check_told(reason, 0, 0);
		end(&run);
	}
}

static void is_told_of_each_restart(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 10);
	next_run(&run, true);
	run_script(&run, 10);
	next_run(&run, false);
	/* This one ends before anything is written. */
	next_run(&run, false);
	run_script(&run, 10);
	read_since(&run, RUN_EPOCH, 0, 0);
	check_told(NOT_RECORDED, 1, 2);
	check_told(RESTART, 1, 2);
	read_since(&run, RUN_EPOCH + 1, 0, 0);
	check_told(RESTART, 1, 1);
	end(&run);
}

/* What is there of the run it comes from has gone: that is one Gap, too. */
static void is_told_when_the_run_before_is_deleted(void **state)
{
	uint64_t upto[RUN_RINGS] = {1, 1};
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 10);
	next_run(&run, true);
	run_script(&run, 10);
	run_release(&run, RUN_EPOCH + 1, upto);
	disk_thread_settle(run.thread);
	read_since(&run, RUN_EPOCH, 3, 3);
	check_told(OTHER_EPOCH, 1, 1);
	assert_int_equal(back.there, produced(&run));
	end(&run);
}

/* The rest of that run goes while somebody reads it. */
static void is_told_when_a_run_is_deleted_under_its_reader(void **state)
{
	uint64_t upto[RUN_RINGS] = {1, 1};
	struct spool_place oldest = {0};
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 60);
	next_run(&run, true);
	run_script(&run, 10);
	memset(&back, 0, sizeof(back));
	assert_int_equal(spool_reader_create(run.spool, &oldest, run_on_frames, &back,
					     &back.reader), 0);
	spool_reader_next(back.reader, 700);
	disk_thread_settle(run.thread);
	assert_true(back.foreign > 0 && !back.end);
	run_release(&run, RUN_EPOCH + 1, upto);
	disk_thread_settle(run.thread);
	for (unsigned i = 0; i < 1000 && !back.end; i++) {
		spool_reader_next(back.reader, 700);
		disk_thread_settle(run.thread);
	}
	check_told(SPOOL_FULL, 1, 1);
	assert_int_equal(back.there, produced(&run));
	spool_reader_destroy(back.reader);
	end(&run);
}

/* The rings go on: nothing was missed, and nothing is told. */
static void is_not_told_where_the_rings_go_on(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run.goes_on = true;
	run_open(&run);
	run_script(&run, 10);
	run_close(&run);
	run_open(&run);
	run_script(&run, 10);
	run_read(&run, &back);
	check_told(RESTART, 0, 0);
	assert_int_equal(back.there, produced(&run));
	end(&run);
}

/*
 * The spool begins at 100, and a client comes from 60, in the same run of the rings. Nobody asked for what is
 * between, unless the daemon before recorded it, and died. The first segment says so, to later daemons, too.
 */
static void is_told_what_was_before_the_first_spool(void **state)
{
	(void)state;
	for (unsigned variant = 0; variant < 8; variant++) {
		bool goes_on = variant & 1, later = variant & 2, second = variant & 4;
		enum loss_reason reason = goes_on ? RESTART : NOT_RECORDED;
		struct spool_run run;

		begin(&run);
		run_open(&run);
		if (second)
			next_run(&run, true);
		run_close(&run);
		run.seq[0] = run.seq[1] = 100;
		run.goes_on = goes_on;
		run_open(&run);
		for (unsigned i = 0; i < RUN_RINGS; i++)
			spool_begin_ring(run.spool, i, run.seq[i]);
		run_script(&run, 10);
		if (later) {
			run_close(&run);
			run.goes_on = true;
			run_open(&run);
		}
		read_since(&run, run.config.run.epoch, 60, 60);
		assert_int_equal(back.gaps[reason], RUN_RINGS);
		assert_int_equal(back.lost, 40 * RUN_RINGS);
		check_told(RESTART, 0, 0);
		end(&run);
	}
}

/*
 * A step of the run's first turn fails, and what it wrote is written anew: the segment that stays says as well where
 * the run begins on either ring.
 */
static void is_told_where_a_run_begins_whose_first_write_failed(void **state)
{
	(void)state;
	for (unsigned step = 0; step < 8; step++) {
		struct spool_run run;

		begin(&run);
		run_open(&run);
		run_close(&run);
		run.seq[0] = run.seq[1] = 100;
		run_open(&run);
		for (unsigned i = 0; i < RUN_RINGS; i++)
			spool_begin_ring(run.spool, i, run.seq[i]);
		faulty.fail_at = faulty.operations + step;
		faulty.fail_errno = EIO;
		run_script(&run, 10);
		read_since(&run, run.config.run.epoch, 60, 60);
		assert_int_equal(back.gaps[NOT_RECORDED], RUN_RINGS);
		assert_int_equal(back.lost, 40 * RUN_RINGS);
		assert_int_equal(back.there, produced(&run) - 100 * RUN_RINGS);
		end(&run);
	}
}

/* A daemon was killed that had stored of the first ring alone: what the other one had, it may have read. */
static void is_told_what_a_killed_daemon_may_have_read(void **state)
{
	(void)state;
	for (unsigned orderly = 0; orderly < 2; orderly++) {
		struct spool_run run;

		begin(&run);
		run_open(&run);
		spool_append(run.spool, run_batch(&run, 0, 5, 0));
		disk_thread_settle(run.thread);
		if (orderly)
			run_close(&run);
		else
			kill_run(&run);
		run.seq[1] = 100;
		run_open(&run);
		for (unsigned i = 0; i < RUN_RINGS; i++)
			spool_begin_ring(run.spool, i, run.seq[i]);
		run_script(&run, 4);
		read_since(&run, RUN_EPOCH, 0, 60);
		assert_int_equal(back.gaps[orderly ? NOT_RECORDED : RESTART], 1);
		assert_int_equal(back.gaps[orderly ? RESTART : NOT_RECORDED], 0);
		assert_int_equal(back.lost, 40);
		end(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_told_between_two_runs),
		cmocka_unit_test(is_told_of_each_restart),
		cmocka_unit_test(is_told_when_the_run_before_is_deleted),
		cmocka_unit_test(is_told_when_a_run_is_deleted_under_its_reader),
		cmocka_unit_test(is_not_told_where_the_rings_go_on),
		cmocka_unit_test(is_told_what_was_before_the_first_spool),
		cmocka_unit_test(is_told_where_a_run_begins_whose_first_write_failed),
		cmocka_unit_test(is_told_what_a_killed_daemon_may_have_read),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
