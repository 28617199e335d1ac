/*
 * test_spool_window: what a crash costs at worst, as stat says it: the intervals while all is well,
 * the age of what still waits while the disk is slow, and since when nothing was stored while it fails.
 */
#include "daemon/serve/answers.h"
#include "tests/unit/daemon/spool_run.h"

#define BATCH_NS	40000000ull
#define SYNC_NS		NS_PER_S

static struct faulty_disk faulty;

static void begin(struct spool_run *run, enum spool_durability durability)
{
	run_quiet();
	faulty_disk_init(&faulty, 1);
	run_init(run, &faulty, durability);
	run->config.sync_interval_ns = SYNC_NS;
	run_open(run);
}

static void end(struct spool_run *run)
{
	run_fini(run);
	faulty_disk_fini(&faulty);
}

static uint64_t window_ns(const struct spool_run *run, const char *state)
{
	struct daemon_stat *stat = calloc(1, sizeof(*stat));
	uint64_t window;

	assert_non_null(stat);
	assert_int_equal(answers_gather_spools(stat, run->spooler, BATCH_NS), 0);
	assert_int_equal(stat->spools, 1);
	assert_string_equal(stat->spool[0].now.state, state);
	window = stat->loss_window_ns;
	daemon_stat_free(stat);
	return window;
}

static void well(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_FSYNC);
	assert_int_equal(window_ns(&run, "ok"), BATCH_NS + SYNC_NS);
	run_script(&run, 20);
	assert_int_equal(window_ns(&run, "ok"), BATCH_NS + SYNC_NS);
	end(&run);
	begin(&run, SPOOL_WRITTEN);
	run_script(&run, 20);
	assert_int_equal(window_ns(&run, "ok"), BATCH_NS);
	end(&run);
}

/* The disk thread hangs in a call: as here, where it gets no turn. */
static void slow(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_FSYNC);
	spool_append(run.spool, run_frame(&run, 0));
	run_now_ns += SYNC_NS / 2;
	spool_append(run.spool, run_frame(&run, 1));
	assert_int_equal(window_ns(&run, "ok"), BATCH_NS + SYNC_NS);
	run_now_ns += 9 * NS_PER_S;
	assert_int_equal(window_ns(&run, "ok"), BATCH_NS + 9 * NS_PER_S + SYNC_NS / 2);
	run_script(&run, 20);
	assert_int_equal(window_ns(&run, "ok"), BATCH_NS + SYNC_NS);
	end(&run);
}

static void failed(void **state)
{
	uint64_t failed_ns;
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN);
	run_script(&run, 5);
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EIO;
	faulty.fail_for_ever = true;
	run_script(&run, 1);
	failed_ns = run_now_ns;
	assert_int_equal(window_ns(&run, "failed"), BATCH_NS);
	/* It is tried again meanwhile, and fails again: nothing since the first time is stored. */
	run_script(&run, 30);
	assert_int_equal(window_ns(&run, "failed"), BATCH_NS + run_now_ns - failed_ns);
	faulty.fail_at = UINT64_MAX;
	faulty.fail_for_ever = false;
	run_now_ns += 60 * NS_PER_S;
	run_script(&run, 2);
	assert_int_equal(window_ns(&run, "ok"), BATCH_NS);
	end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(well),
		cmocka_unit_test(slow),
		cmocka_unit_test(failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
