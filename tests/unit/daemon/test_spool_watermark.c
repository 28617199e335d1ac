/*
 * Ranges that were skipped have no frame: a watermark tells of them, and may be lost on its way to
 * the disk. Whoever reads the files by their own words, as `tracectl read` does, finds no hole.
 */
#include "tests/unit/daemon/spool_run.h"

#include "tests/lib/strict_segment.h"

static struct faulty_disk faulty;

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct faulty_name *)a)->path, ((const struct faulty_name *)b)->path);
}

/* Every segment, in order. */
static void read_strictly(struct spool_run *run, struct strict *strict)
{
	static struct faulty_name name[FAULTY_FILES_MAX];
	unsigned n = faulty.names.n;

	*strict = (struct strict){.codec = run->codec};
	memcpy(name, faulty.names.name, n * sizeof(name[0]));
	qsort(name, n, sizeof(name[0]), by_path);
	for (unsigned i = 0; i < n; i++)
		if (name[i].file >= 0 && (strstr(name[i].path, ".seg") || strstr(name[i].path, ".open")))
			strict_read(strict, faulty.file[name[i].file].bytes,
				    faulty.file[name[i].file].n);
}

static void append(struct spool_run *run, struct frame_ref *frame)
{
	run_now_ns += 300000000;
	spool_append(run->spool, frame);
	disk_thread_settle(run->thread);
}

/* As the stream makes it: of what was skipped of ring 1 since the one before. */
static struct frame_ref *watermark(struct spool_run *run, uint64_t skipped)
{
	return run_watermark_after(run, (const uint64_t[RUN_RINGS]){0, skipped});
}

/* Ring 0 has events, ring 1 nothing but what others asked for. */
static void steps(struct spool_run *run, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		append(run, run_batch(run, 0, 5, 1));
		append(run, run_quiet_range(run, 1, 3));
		append(run, watermark(run, 3));
	}
}

static void begin(struct spool_run *run, enum spool_durability durability, uint64_t segment_bytes)
{
	faulty_disk_init(&faulty, 1);
	run_init(run, &faulty, durability);
	run->config.segment_bytes = segment_bytes;
	run_open(run);
}

static void end(struct spool_run *run)
{
	struct spool_stat stat;
	struct strict strict;
	uint64_t lost;

	run_check_ledger(run, &stat, &lost);
	assert_int_equal(stat.in_flight, 0);
	read_strictly(run, &strict);
	if (strict.residual || strict.holes)
		print_message("operation %llu, errno %d%s: %llu events, %u watermarks, %u gaps\n",
			      (unsigned long long)faulty.failed_at, faulty.fail_errno,
			      faulty.fail_for_ever ? " until later" : "",
			      (unsigned long long)strict.events, strict.watermarks, strict.gaps);
	assert_int_equal(strict.residual, 0);
	assert_int_equal(strict.holes, 0);
	assert_int_equal(strict.wrong_ends, 0);
	for (unsigned i = 0; i < RUN_RINGS; i++) {
		const struct strict_ring *ring = strict_find(&strict, run_cpu_of[i]);

		assert_non_null(ring);
		assert_int_equal(ring->seq, run->seq[i]);
	}
	run_fini(run);
	faulty_disk_fini(&faulty);
}

static void all_is_well(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run, SPOOL_WRITTEN, 1 << 20);
	steps(&run, 10);
	end(&run);
}

/* From the operation `at` on, once or until some time later. */
static void fail_for_a_time(enum spool_durability durability, uint64_t segment_bytes, uint64_t at,
			    int err, bool until_later)
{
	struct spool_run run;

	begin(&run, durability, segment_bytes);
	faulty.fail_at = faulty.failed_at = faulty.operations + at;
	faulty.fail_errno = err;
	faulty.fail_for_ever = until_later;
	steps(&run, 8);
	faulty.fail_at = UINT64_MAX;
	run_now_ns += 600 * NS_PER_S;
	steps(&run, 4);
	end(&run);
}

static void the_disk_fails_for_a_time(void **state)
{
	static const uint64_t segment_bytes[] = {1500, 1 << 20};
	static const int errors[] = {EIO, ENOSPC, 0};

	(void)state;
	for (uint64_t at = 0; at < 60; at++)
		for (unsigned i = 0; i < 2; i++)
			for (unsigned j = 0; j < 3; j++)
				for (unsigned later = 0; later < 2; later++) {
					fail_for_a_time(SPOOL_WRITTEN, segment_bytes[i], at,
							errors[j], later);
					fail_for_a_time(SPOOL_FSYNC, segment_bytes[i], at,
							errors[j], later);
				}
}

/* It takes nothing new until what is old may go. */
static void the_spool_is_full_for_a_time(void **state)
{
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	faulty_disk_init(&faulty, 1);
	run_init(&run, &faulty, SPOOL_WRITTEN);
	run.config.policy = SPOOL_DROP_NEW;
	run.config.size_bytes = 12000;
	run_open(&run);
	steps(&run, 40);
	spool_stat(run.spool, &stat);
	assert_int_not_equal(stat.lost[LOSS_REASON_SPOOL_FULL], 0);
	run_now_ns += run.config.age_ns;
	for (unsigned i = 0; i < 20; i++) {
		run_now_ns += 300000000;
		append(&run, watermark(&run, 0));
	}
	steps(&run, 4);
	end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_well),
		cmocka_unit_test(the_disk_fails_for_a_time),
		cmocka_unit_test(the_spool_is_full_for_a_time),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
