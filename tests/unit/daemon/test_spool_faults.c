/*
 * Every operation on the disk of a scripted run fails once, and for ever, in every way; and before
 * every one of them the power is cut, in every way, or the daemon is killed.
 */
#include "tests/unit/daemon/spool_run.h"

#define FRAMES 26

/* How many orders of what was not synced are tried, and how far apart a fault's cuts are. To ASan one is as good as
 * another: it sees the same code. */
#ifdef __SANITIZE_ADDRESS__
#define ORDERS 1
#define CUTS_APART 12
#else
#define ORDERS 4
#define CUTS_APART 3
#endif

static struct faulty_disk faulty;
static struct run_back back;

/* How many operations the run takes when nothing goes wrong. */
static uint64_t count_operations(enum spool_durability durability)
{
	struct spool_run run;
	uint64_t n;

	faulty_disk_init(&faulty, 1);
	run_init(&run, &faulty, durability);
	run_open(&run);
	run_script(&run, FRAMES);
	run_fini(&run);
	n = faulty.operations;
	faulty_disk_fini(&faulty);
	return n;
}

/* Whatever failed: what is not read back was counted, and nothing is there twice. */
static void check_after_fault(struct spool_run *run, uint64_t lost)
{
	uint64_t produced = 0;

	run_read(run, &back);
	for (unsigned i = 0; i < RUN_RINGS; i++)
		produced += run->seq[i];
	assert_true(back.there <= produced);
	if (produced - back.there > lost)
		print_message("operation %llu, errno %d%s: %llu produced, %llu read, %llu lost\n",
			      (unsigned long long)faulty.failed_at, faulty.fail_errno,
			      faulty.fail_for_ever ? " for ever" : "",
			      (unsigned long long)produced, (unsigned long long)back.there,
			      (unsigned long long)lost);
	assert_true(produced - back.there <= lost);
	/* What is told in the spool is no more than what was lost. */
	assert_true(back.lost <= lost);
}

static void run_with_fault(enum spool_durability durability, uint64_t at, int err, bool for_ever)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	faulty_disk_init(&faulty, 1);
	run_init(&run, &faulty, durability);
	run.config.policy = SPOOL_DROP_NEW;	/* on a full disk, the other gives up the oldest */
	faulty.fail_at = at;
	faulty.fail_errno = err;
	faulty.fail_for_ever = for_ever;
	run_open(&run);
	run_script(&run, FRAMES);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.in_flight, 0);
	if (!for_ever || !err)
		assert_int_equal(lost, 0);
	run_close(&run);
	/* Another daemon comes, and the disk is good again. */
	faulty.failed_at = at;
	faulty.fail_at = UINT64_MAX;
	run_open(&run);
	check_after_fault(&run, lost);
	run_fini(&run);
	faulty_disk_fini(&faulty);
}

static void test_faults(enum spool_durability durability)
{
	static const int errors[] = {ENOSPC, EIO, EROFS, 0};
	uint64_t operations = count_operations(durability);

	assert_true(operations > 60);
	for (uint64_t at = 0; at < operations; at++)
		for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
			for (unsigned for_ever = 0; for_ever < 2; for_ever++)
				run_with_fault(durability, at, errors[i], for_ever);
}

static void every_fault_fsync(void **state)
{
	(void)state;
	test_faults(SPOOL_FSYNC);
}

static void every_fault_written(void **state)
{
	(void)state;
	test_faults(SPOOL_WRITTEN);
}

/* fail_at: what fails before that, once; UINT64_MAX: nothing. */
static void run_with_cut(enum spool_durability durability, uint64_t at, enum faulty_cut how,
			 uint64_t seed, uint64_t fail_at)
{
	uint64_t durable[RUN_RINGS], was[RUN_RINGS];
	struct spool_run run;

	faulty_disk_init(&faulty, seed);
	run_init(&run, &faulty, durability);
	faulty.cut_at = at;
	faulty.fail_at = fail_at;
	faulty.fail_errno = EIO;
	run_open(&run);
	run_script(&run, FRAMES);
	memcpy(durable, run.end, sizeof(durable));
	memcpy(was, run.seq, sizeof(was));
	run_close(&run);
	faulty_disk_cut(&faulty, how);

	run_open(&run);
	run_read(&run, &back);
	for (unsigned i = 0; i < RUN_RINGS; i++) {
		assert_true(run.end[i] >= durable[i]);
		for (uint64_t seq = 0; seq < durable[i]; seq++)
			assert_int_equal(back.attempt[i][seq], RUN_THERE);
		assert_true(back.at[i] >= durable[i]);
	}
	/* It goes on where the rings are: what was between is named, and that is all. */
	for (unsigned i = 0; i < RUN_RINGS; i++)
		run.seq[i] = was[i];
	run_script(&run, FRAMES / 2);
	run_read(&run, &back);
	for (unsigned i = 0; i < RUN_RINGS; i++) {
		for (uint64_t seq = 0; seq < durable[i]; seq++)
			assert_int_equal(back.attempt[i][seq], RUN_THERE);
		for (uint64_t seq = was[i]; seq < run.end[i]; seq++)
			assert_int_equal(back.attempt[i][seq], RUN_THERE);
	}
	run_fini(&run);
	faulty_disk_fini(&faulty);
}

static void every_power_cut(void **state)
{
	uint64_t operations = count_operations(SPOOL_FSYNC);

	(void)state;
	for (uint64_t at = 0; at < operations; at++) {
		run_with_cut(SPOOL_FSYNC, at, FAULTY_DROP, 1, UINT64_MAX);
		for (uint64_t seed = 1; seed <= ORDERS; seed++) {
			run_with_cut(SPOOL_FSYNC, at, FAULTY_REORDER, seed, UINT64_MAX);
			run_with_cut(SPOOL_FSYNC, at, FAULTY_TEAR, seed, UINT64_MAX);
		}
	}
}

static void every_kill(void **state)
{
	uint64_t operations = count_operations(SPOOL_WRITTEN);

	(void)state;
	for (uint64_t at = 0; at < operations; at++)
		run_with_cut(SPOOL_WRITTEN, at, FAULTY_KILL, 1, UINT64_MAX);
	operations = count_operations(SPOOL_FSYNC);
	for (uint64_t at = 0; at < operations; at++)
		run_with_cut(SPOOL_FSYNC, at, FAULTY_KILL, 1, UINT64_MAX);
}

/* What could not be synced was written again: of the two, the one that was synced counts. */
static void every_fault_and_then_a_cut(void **state)
{
	uint64_t operations = count_operations(SPOOL_FSYNC);

	(void)state;
	for (uint64_t at = 0; at < operations; at++) {
		for (uint64_t after = 1; after < 40; after += CUTS_APART) {
			run_with_cut(SPOOL_FSYNC, at + after, FAULTY_DROP, 1, at);
			run_with_cut(SPOOL_FSYNC, at + after, FAULTY_REORDER, at + after, at);
			run_with_cut(SPOOL_FSYNC, at + after, FAULTY_KILL, 1, at);
		}
	}
}

/*
 * The disk refuses everything from there on, the daemon ends, and the next one, whose disk is good again,
 * finds what that one wrote and never could sync: what it says is durable is there after a power cut.
 */
static void run_with_heir(uint64_t at, enum faulty_cut how, uint64_t seed)
{
	uint64_t durable[RUN_RINGS];
	struct spool_run run;

	faulty_disk_init(&faulty, seed);
	run_init(&run, &faulty, SPOOL_FSYNC);
	faulty.fail_at = at;
	faulty.fail_errno = EIO;
	faulty.fail_for_ever = true;
	run_open(&run);
	run_script(&run, FRAMES);
	run_close(&run);
	faulty_disk_cut(&faulty, FAULTY_KILL);
	faulty.fail_for_ever = false;
	run_open(&run);
	memcpy(durable, run.end, sizeof(durable));
	faulty.cut_at = faulty.operations;
	run_close(&run);
	faulty_disk_cut(&faulty, how);
	run_open(&run);
	run_read(&run, &back);
	for (unsigned i = 0; i < RUN_RINGS; i++)
		for (uint64_t seq = 0; seq < durable[i]; seq++)
			assert_int_equal(back.attempt[i][seq], RUN_THERE);
	run_fini(&run);
	faulty_disk_fini(&faulty);
}

static void every_fault_and_an_heir(void **state)
{
	uint64_t operations = count_operations(SPOOL_FSYNC);

	(void)state;
	for (uint64_t at = 0; at < operations; at++) {
		run_with_heir(at, FAULTY_DROP, 1);
		for (uint64_t seed = 1; seed <= ORDERS; seed++)
			run_with_heir(at, FAULTY_REORDER, seed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_fsync),
		cmocka_unit_test(every_fault_written),
		cmocka_unit_test(every_power_cut),
		cmocka_unit_test(every_kill),
		cmocka_unit_test(every_fault_and_then_a_cut),
		cmocka_unit_test(every_fault_and_an_heir),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
