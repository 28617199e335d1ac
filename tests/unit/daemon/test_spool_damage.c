/*
 * A spool whose segments are damaged, torn, gone or never finished: what that costs is named in its
 * place, and the rest comes back.
 */
#include "tests/unit/daemon/spool_in_memory.h"

#include "proto/segment.h"

#define NOT_RECORDED LOSS_REASON_NOT_RECORDED
#define CORRUPT	LOSS_REASON_CORRUPT
#define RESTART	LOSS_REASON_RESTART
#define NOT_RECORDED LOSS_REASON_NOT_RECORDED

static void names_what_damage_costs(void **state)
{
	struct spool_run run;

	(void)state;
	for (size_t at = 0; at < 1400; at += 7) {
		struct faulty_name *name;
		struct spool_stat stat;

		begin(&run);
		run_open(&run);
		run_script(&run, 40);
		run_close(&run);
		name = segment(3, "seg");
		assert_non_null(name);
		assert_true(faulty.file[name->file].n > 1400);
		faulty.file[name->file].bytes[at] ^= 0x10;
		run_open(&run);
		read_since(&run, RUN_EPOCH, 0, 0);
		assert_int_equal(back.there + back.lost, produced(&run));
		assert_true(back.lost > 0);
		assert_true(back.gaps[CORRUPT] > 0);
		spool_stat(run.spool, &stat);
		assert_non_null(segment(3, "bad"));
		assert_null(segment(3, "seg"));
		/* The rest is all there. */
		assert_true(back.there * 2 > produced(&run));
		end(&run);
	}
}

/* Another end for that file, which says that its bytes have another checksum. */
static void replace_end(struct spool_run *run, struct faulty_file *file)
{
	uint8_t raw[4096];
	Ringtail__V1__SegmentEnd *end;
	struct frame_header header;
	struct frame_ref *frame;
	const uint8_t *body;
	size_t at;

	assert_true(segment_find_end(file->bytes, file->n, &at));
	assert_int_equal(frame_parse_header(file->bytes + at, file->n - at, sizeof(raw), &header),
			 FRAME_OK);
	assert_int_equal(frame_open(run->codec, file->bytes + at, &header, raw, &body), FRAME_OK);
	end = ringtail__v1__segment_end__unpack(NULL, header.raw_bytes, body);
	assert_int_equal(end->bytes, at);
	assert_int_equal(end->crc32c, frame_crc32c(0, file->bytes, at));
	end->crc32c ^= 1;
	frame = run_pack(run, FRAME_SEGMENT_END, &end->base);
	ringtail__v1__segment_end__free_unpacked(end, NULL);
	assert_true(at + frame->bytes <= file->capacity);
	memcpy(file->bytes + at, frame->data, frame->bytes);
	file->n = at + frame->bytes;
	frame_ref_put(frame);
}

/* Every frame is good, but the end's checksum is of other bytes: what is there comes anyway. */
static void does_not_trust_another_end(void **state)
{
	struct spool_stat stat;
	unsigned newest = 0;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 40);
	run_close(&run);
	replace_end(&run, &faulty.file[segment(3, "seg")->file]);
	run_open(&run);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.set_aside, 0);
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	assert_int_equal(back.lost, 0);
	assert_non_null(segment(3, "bad"));
	assert_null(segment(3, "seg"));
	run_script(&run, 5);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.set_aside, 1);
	run_close(&run);
	/* The newest is looked at when it is opened, and what it holds is not given. */
	for (unsigned i = 1; i < 64; i++)
		if (segment(i, "seg"))
			newest = i;
	replace_end(&run, &faulty.file[segment(newest, "seg")->file]);
	run_open(&run);
	assert_non_null(segment(newest, "bad"));
	run_script(&run, 5);
	read_since(&run, RUN_EPOCH, 0, 0);
	assert_int_equal(back.there + back.lost, produced(&run));
	assert_true(back.lost > 0);
	end(&run);
}

/*
 * What a killed daemon left is cut and gets an end: so many bytes there are then, and none when it
 * goes.
 */
static void counts_what_it_mends(void **state)
{
	uint64_t upto[RUN_RINGS] = {UINT64_MAX, UINT64_MAX};
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	for (unsigned torn = 0; torn < 2; torn++) {
		begin(&run);
		run_open(&run);
		run_script(&run, 4);
		faulty.cut_at = faulty.operations;
		run_close(&run);
		faulty_disk_cut(&faulty, FAULTY_KILL);
		assert_non_null(segment(1, "open"));
		faulty.file[segment(1, "open")->file].n -= torn;
		run_open(&run);
		spool_stat(run.spool, &stat);
		assert_non_null(segment(1, "seg"));
		assert_int_equal(stat.bytes, faulty.file[segment(1, "seg")->file].n);
		run_release(&run, RUN_EPOCH, upto);
		disk_thread_settle(run.thread);
		spool_stat(run.spool, &stat);
		/* It says how far the numbers came, until there is another. */
		assert_int_equal(stat.segments, 1);
		assert_int_equal(stat.bytes, faulty.file[segment(1, "seg")->file].n);
		end(&run);
	}
}

static void names_what_is_gone(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 40);
	run_close(&run);
	faulty_unlink(&faulty.names, "spool/run/0000000000000003.seg");
	run_open(&run);
	run_read(&run, &back);
	assert_true(back.lost > 0);
	assert_true(back.gaps[CORRUPT] > 0);
	assert_int_equal(back.there + back.lost, produced(&run));
	end(&run);
}

/*
 * What a killed daemon had read and not stored is a hole, even if after it only watermarks come,
 * which would pass it off as skipped; and whether the run begins before the spool is open or after.
 */
static void names_the_hole_before_this_run(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	for (unsigned late = 0; late < 2; late++) {
		begin(&run);
		run_open(&run);
		run_script(&run, 40);
		run_close(&run);
		run.seq[0] += 10;
		run.goes_on = late;
		run_start(&run);
		run_open_spool(&run);
		if (late)
			disk_thread_settle(run.thread);
		for (unsigned i = 0; i < RUN_RINGS; i++)
			spool_begin_ring(run.spool, i, run.seq[i]);
		run_now_ns += 300000000;
		spool_append(run.spool, run_watermark(&run));
		disk_thread_settle(run.thread);
		assert_int_equal(run.end[0], run.seq[0]);
		run_check_ledger(&run, &stat, &lost);
		assert_int_equal(lost, 10);
		assert_int_equal(stat.lost[late ? RESTART : NOT_RECORDED], 10);
		run_read(&run, &back);
		assert_int_equal(back.lost, 10);
		assert_int_equal(back.gaps[late ? RESTART : NOT_RECORDED], 1);
		assert_int_equal(back.there + back.lost, produced(&run));
		end(&run);
	}
}

/* The newest is looked through at once: it is what a power cut may have torn. */
static void sets_a_torn_one_aside(void **state)
{
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 12);
	run_close(&run);
	for (unsigned i = 9; i > 0; i--) {
		struct faulty_name *name = segment(i, "seg");

		if (!name)
			continue;
		faulty.file[name->file].n -= 5;
		break;
	}
	run_open(&run);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.set_aside, 1);
	assert_true(run.end[0] < run.seq[0] || run.end[1] < run.seq[1]);
	run_script(&run, 10);
	run_read(&run, &back);
	assert_int_equal(back.there + back.lost, produced(&run));
	assert_true(back.lost > 0);
	end(&run);
}

/* Killed before it wrote anything: nobody is told of damage, and the number is free again. */
static void takes_an_empty_one_away(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	int file;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 40);
	run_close(&run);
	file = faulty_open(&faulty.disk, "spool/run/00000000000000ff.open", O_CREAT);
	assert_true(file >= 0);
	faulty_close(&faulty.disk, file);
	run_open(&run);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.set_aside, 0);
	assert_null(segment(0xff, "open"));
	assert_null(segment(0xff, "bad"));
	run_script(&run, 5);
	assert_true(segment(0xff, "open") || segment(0xff, "seg"));
	end(&run);
}

/*
 * What was before the first of all segments was not recorded, or the run before has lost it; what was before
 * another was deleted.
 */
static void says_why_the_oldest_begins_late(void **state)
{
	struct spool_run run;

	(void)state;
	for (unsigned goes_on = 0; goes_on < 2; goes_on++) {
		begin(&run);
		run.seq[0] = 30;
		run.goes_on = goes_on;
		run_open(&run);
		for (unsigned i = 0; i < RUN_RINGS; i++)
			spool_begin_ring(run.spool, i, run.seq[i]);
		run_script(&run, 40);
		read_since(&run, RUN_EPOCH, 0, 0);
		assert_int_equal(back.gaps[goes_on ? RESTART : NOT_RECORDED], 1);
		assert_int_equal(back.gaps[goes_on ? NOT_RECORDED : RESTART], 0);
		assert_int_equal(back.lost, 30);
		faulty_unlink(&faulty.names, "spool/run/0000000000000001.seg");
		run_close(&run);
		run_open(&run);
		read_since(&run, RUN_EPOCH, 0, 0);
		assert_true(back.gaps[LOSS_REASON_SPOOL_FULL] > 0);
		assert_int_equal(back.gaps[RESTART] + back.gaps[NOT_RECORDED], 0);
		end(&run);
	}
}

/*
 * A kill left a beginning of the first file, in which nothing was told to be: who asks for what was before the next
 * one is told that this was not recorded; of a file that held something, that it is damaged.
 */
static void says_what_is_missing_before_one_that_never_began(void **state)
{
	struct spool_place long_ago = {.realtime_ns = 1};
	struct spool_run run;
	int file;

	(void)state;
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		enum loss_reason reason = damaged ? LOSS_REASON_CORRUPT : NOT_RECORDED;

		begin(&run);
		file = faulty_open(&faulty.disk, damaged ? "spool/run/0000000000000001.seg" :
							   "spool/run/0000000000000001.open",
				   O_WRONLY | O_CREAT);
		assert_int_equal(faulty_write(&faulty.disk, file, "half", 4), 4);
		faulty_close(&faulty.disk, file);
		run_open(&run);
		run_script(&run, 20);
		run_read_from(&run, &back, &long_ago);
		assert_int_equal(back.unknown[reason], 1);
		for (unsigned i = 0; i < LOSS_REASONS; i++)
			assert_true(back.unknown[i] == 0 || i == reason);
		assert_int_equal(back.there, produced(&run));
		end(&run);
	}
}

/* Of a run that nobody could say hello of, numbers would be taken for another's. */
static void no_numbers_of_an_unknown_run(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 40);
	run_close(&run);
	run.config.run.epoch++;
	run_open(&run);
	faulty.fail_at = faulty.operations;
	faulty.fail_errno = EIO;
	faulty.fail_for_ever = true;
	read_since(&run, RUN_EPOCH, 3, 0);
	assert_true(back.foreign > 0);
	assert_int_equal(back.foreign_attempts, 0);
	/* With the hello of that run before them they are welcome. */
	faulty.fail_at = UINT64_MAX;
	read_since(&run, RUN_EPOCH, 3, 0);
	assert_true(back.foreign_attempts > 0);
	end(&run);
}

/* Who comes from an earlier run knows no numbers of this one: that its beginning is gone is said so. */
static void names_a_lost_beginning_of_a_run(void **state)
{
	struct spool_run run;

	(void)state;
	for (unsigned damaged = 0; damaged < 2; damaged++) {
		struct faulty_name *name;
		unsigned sequence = 1;

		begin(&run);
		run_open(&run);
		run_script(&run, 10);
		run_close(&run);
		while (segment(sequence, "seg"))
			sequence++;
		run.config.run.epoch++;
		memset(run.seq, 0, sizeof(run.seq));
		run_open(&run);
		run_script(&run, 40);
		run_close(&run);
		name = segment(sequence, "seg");
		assert_non_null(name);
		if (damaged)
			faulty.file[name->file].bytes[30] ^= 0x10;	/* in its head */
		run_open(&run);
		read_since(&run, RUN_EPOCH, 3, 0);
		if (damaged) {
			assert_true(back.there < produced(&run));
			assert_int_equal(back.unknown[CORRUPT], 1);
		} else {
			assert_int_equal(back.there, produced(&run));
			assert_int_equal(back.unknown[CORRUPT], 0);
		}
		assert_int_equal(back.unknown[NOT_RECORDED], 1);
		end(&run);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_what_damage_costs),
		cmocka_unit_test(does_not_trust_another_end),
		cmocka_unit_test(counts_what_it_mends),
		cmocka_unit_test(names_what_is_gone),
		cmocka_unit_test(names_the_hole_before_this_run),
		cmocka_unit_test(sets_a_torn_one_aside),
		cmocka_unit_test(names_a_lost_beginning_of_a_run),
		cmocka_unit_test(takes_an_empty_one_away),
		cmocka_unit_test(no_numbers_of_an_unknown_run),
		cmocka_unit_test(says_why_the_oldest_begins_late),
		cmocka_unit_test(says_what_is_missing_before_one_that_never_began),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
