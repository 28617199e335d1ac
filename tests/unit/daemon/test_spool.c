/*
 * A spool above a disk in memory: what goes in comes back, from where it was asked for; the bounds
 * and what each policy gives up; and the frames of earlier runs.
 */
#include "tests/unit/daemon/spool_in_memory.h"

#define FULL	LOSS_REASON_SPOOL_FULL

static void comes_back_whole(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 40);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(lost, 0);
	assert_int_equal(stat.in_flight, 0);
	assert_true(stat.segments > 3);
	assert_string_equal(stat.state, "ok");
	assert_string_equal(stat.config->name, "run");
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	assert_int_equal(back.lost, 0);
	assert_true(back.bytes_less > 0);
	/* And to another daemon, of the same run of the rings. */
	run_close(&run);
	run_open(&run);
	for (unsigned i = 0; i < RUN_RINGS; i++)
		assert_int_equal(run.end[i], run.seq[i]);
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	end(&run);
}

static void begins_at_a_cursor(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 40);
	for (uint64_t seq = 0; seq < run.seq[0]; seq += 5) {
		read_since(&run, RUN_EPOCH, seq, 30);
		for (uint64_t i = seq; i < run.seq[0]; i++)
			assert_int_equal(back.attempt[0][i], RUN_THERE);
		/* No more before it than the batch it lies in. */
		for (uint64_t i = 0; i + 10 < seq; i++)
			assert_int_equal(back.attempt[0][i], RUN_NOT_READ);
		assert_int_equal(back.at[1], run.seq[1]);
	}
	read_since(&run, RUN_EPOCH, run.seq[0], run.seq[1]);
	assert_int_equal(back.there, 0);
	end(&run);
}

static void begins_at_a_time(void **state)
{
	struct spool_place place = {0};
	uint64_t middle, seq[RUN_RINGS];
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 20);
	middle = clock_read(CLOCK_REALTIME);
	memcpy(seq, run.seq, sizeof(seq));
	run_script(&run, 20);
	place.realtime_ns = middle;
	run_read_from(&run, &back, &place);
	for (unsigned i = 0; i < RUN_RINGS; i++)
		for (uint64_t j = seq[i]; j < run.seq[i]; j++)
			assert_int_equal(back.attempt[i][j], RUN_THERE);
	assert_int_equal(back.attempt[0][0], RUN_NOT_READ);
	end(&run);
}

static void drops_the_oldest(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run);
	run.config.size_bytes = 8000;
	run_open(&run);
	run_script(&run, 100);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(lost, 0);
	assert_true(stat.bytes <= 8000);
	assert_true(stat.deleted > 3);
	/* Who has not read it yet is told how much that was. */
	read_since(&run, RUN_EPOCH, 0, 0);
	assert_true(back.gaps[FULL] > 0);
	assert_int_equal(back.there + back.lost, produced(&run));
	assert_int_equal(back.attempt[0][0], RUN_LOST);
	assert_int_equal(back.attempt[0][run.seq[0] - 1], RUN_THERE);
	end(&run);
}

/* The disk is full before spool-size is: the same, for there is no more to be had. */
static void lives_on_a_full_disk(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run);
	faulty.room = 9000;
	run_open(&run);
	run_script(&run, 100);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(lost, 0);
	assert_string_equal(stat.state, "ok");
	assert_true(stat.deleted > 3);
	assert_true(stat.bytes <= 9000);
	read_since(&run, RUN_EPOCH, 0, 0);
	assert_true(back.gaps[FULL] > 0);
	assert_int_equal(back.there + back.lost, produced(&run));
	assert_int_equal(back.attempt[0][run.seq[0] - 1], RUN_THERE);
	end(&run);
}

/* Nothing may be deleted: what comes is lost until there is room, and it is told in its place. */
static void waits_for_room_on_a_full_disk(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run);
	faulty.room = 9000;
	run.config.policy = SPOOL_DROP_NEW;
	run_open(&run);
	run_script(&run, 100);
	run_check_ledger(&run, &stat, &lost);
	assert_string_equal(stat.state, "failed");
	assert_int_equal(stat.lost[LOSS_REASON_DISK], lost);
	assert_true(lost > 0);
	faulty.room = UINT64_MAX;
	run_now_ns += 120 * NS_PER_S;
	run_script(&run, 10);
	run_check_ledger(&run, &stat, &lost);
	assert_string_equal(stat.state, "ok");
	read_since(&run, RUN_EPOCH, 0, 0);
	assert_int_equal(back.lost, lost);
	assert_int_equal(back.there + back.lost, produced(&run));
	end(&run);
}

static void refuses_the_newest(void **state)
{
	struct spool_stat stat;
	uint64_t lost, upto[RUN_RINGS];
	struct spool_run run;

	(void)state;
	begin(&run);
	run.config.size_bytes = 8000;
	run.config.policy = SPOOL_DROP_NEW;
	run_open(&run);
	run_script(&run, 60);
	run_check_ledger(&run, &stat, &lost);
	assert_string_equal(stat.state, "full");
	assert_true(stat.lost[FULL] > 0);
	assert_int_equal(stat.lost[FULL], lost);
	assert_int_equal(stat.deleted, 0);
	/* Acknowledged, some of it goes, and there is room again. */
	memcpy(upto, run.end, sizeof(upto));
	run_release(&run, RUN_EPOCH, upto);
	disk_thread_settle(run.thread);
	run_script(&run, 10);
	run_check_ledger(&run, &stat, &lost);
	assert_string_equal(stat.state, "ok");
	assert_true(stat.deleted > 0);
	read_since(&run, RUN_EPOCH, upto[0], upto[1]);
	assert_int_equal(back.lost, lost);
	assert_true(back.gaps[FULL] > 0);
	assert_int_equal(back.attempt[0][run.seq[0] - 1], RUN_THERE);
	end(&run);
}

/* As long as what was refused does not fit, whatever else would. */
static void stays_full(void **state)
{
	struct spool_stat stat;
	unsigned would_fit = 0;
	struct spool_run run;

	(void)state;
	for (uint64_t size = 8000; size < 9500; size += 100) {
		begin(&run);
		run.config.size_bytes = size;
		run.config.policy = SPOOL_DROP_NEW;
		run_open(&run);
		run_script(&run, 60);
		spool_stat(run.spool, &stat);
		assert_string_equal(stat.state, "full");
		would_fit += stat.bytes + 10 < size;
		/* A turn without frames. */
		run_now_ns += 60 * NS_PER_S;
		spool_append(run.spool, run_watermark(&run));
		disk_thread_settle(run.thread);
		spool_stat(run.spool, &stat);
		assert_string_equal(stat.state, "full");
		end(&run);
	}
	assert_true(would_fit > 3);
}

static void stops_until_half_is_free(void **state)
{
	uint64_t upto[RUN_RINGS] = {0}, lost;
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	begin(&run);
	run.config.size_bytes = 8000;
	run.config.policy = SPOOL_STOP;
	run_open(&run);
	run_script(&run, 60);
	run_check_ledger(&run, &stat, &lost);
	assert_string_equal(stat.state, "stopped");
	for (unsigned i = 1; i <= 10 && strcmp(stat.state, "stopped") == 0; i++) {
		uint64_t bytes = stat.bytes;

		for (unsigned j = 0; j < RUN_RINGS; j++)
			upto[j] = run.end[j] * i / 10;
		run_release(&run, RUN_EPOCH, upto);
		disk_thread_settle(run.thread);
		spool_stat(run.spool, &stat);
		assert_true(stat.bytes <= bytes);
		assert_int_equal(stat.bytes > 4000, strcmp(stat.state, "stopped") == 0);
	}
	assert_string_equal(stat.state, "ok");
	end(&run);
}

static void deletes_what_is_too_old(void **state)
{
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	begin(&run);
	run.config.age_ns = 5 * NS_PER_S;
	run_open(&run);
	run_script(&run, 60);
	spool_stat(run.spool, &stat);
	assert_true(stat.deleted > 3);
	assert_true(stat.segments < 10);
	assert_true(stat.oldest_realtime_ns + 7 * NS_PER_S > clock_read(CLOCK_REALTIME));
	end(&run);
}

/* Between two runs of the daemon: what this boot wrote is as old as this boot's clock says. */
static void a_wall_clock_set_ahead_deletes_nothing(void **state)
{
	const uint64_t begun_ns = run_realtime_ns;
	struct spool_stat stat;
	uint64_t segments;
	struct spool_run run;

	(void)state;
	begin(&run);
	run.config.age_ns = 3600 * NS_PER_S;
	run_open(&run);
	run_script(&run, 60);
	spool_stat(run.spool, &stat);
	segments = stat.segments;
	assert_true(segments > 3);
	run_close(&run);
	run_realtime_ns += 86400 * NS_PER_S;
	run_open(&run);
	run_script(&run, 20);
	spool_stat(run.spool, &stat);
	assert_int_equal(stat.deleted, 0);
	assert_true(stat.segments >= segments);
	run_realtime_ns = begun_ns;
	end(&run);
}

static void keeps_other_epochs_apart(void **state)
{
	uint64_t older[RUN_RINGS], upto[RUN_RINGS] = {1, 1};
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 20);
	memcpy(older, run.seq, sizeof(older));
	run_close(&run);
	run.config.run.epoch = RUN_EPOCH + 1;
	memset(run.seq, 0, sizeof(run.seq));
	run_open(&run);
	for (unsigned i = 0; i < RUN_RINGS; i++)
		assert_int_equal(run.end[i], 0);
	run_script(&run, 20);
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	/* Hello, catalog, subscribed, the frames of the earlier run, and the Gap behind it. */
	assert_int_equal(back.foreign, 3 + 20 - 2 + 1);
	/* From the middle of the earlier run. */
	read_since(&run, RUN_EPOCH, older[0] / 2, older[1] / 2);
	assert_int_equal(back.there, produced(&run));
	assert_true(back.foreign > 3 && back.foreign < 3 + 20 - 2 + 1);
	/* Who has acknowledged anything of this run needs nothing of that one. */
	run_release(&run, RUN_EPOCH + 1, upto);
	disk_thread_settle(run.thread);
	run_read(&run, &back);
	assert_int_equal(back.foreign, 0);
	assert_int_equal(back.there, produced(&run));
	spool_stat(run.spool, &stat);
	assert_true(stat.deleted > 0);
	end(&run);
}

static void holds_no_more_than_its_bound(void **state)
{
	struct spool_stat stat;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	begin(&run);
	run_open(&run);
	for (unsigned i = 0; i < 80; i++) {
		struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 1 << 20);

		memset(frame->data, 0, frame->bytes);
		frame->first_seq = run.seq[0];
		frame->end_seq = run.seq[0] += 10;
		frame->events = 10;
		spool_append(run.spool, frame);
	}
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(stat.lost[LOSS_REASON_QUEUE_FULL], lost);
	assert_int_equal(stat.produced, 800);
	assert_in_range(lost, 160, 180);
	end(&run);
}

static void a_reader_may_go_at_any_time(void **state)
{
	struct spool_place place = {0};
	struct spool_reader *reader;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	run_script(&run, 10);
	assert_int_equal(spool_reader_create(run.spool, &place, run_on_frames, &back, &reader), 0);
	spool_reader_destroy(reader);
	assert_int_equal(spool_reader_create(run.spool, &place, run_on_frames, &back, &reader), 0);
	spool_reader_next(reader, 1 << 20);
	spool_reader_destroy(reader);
	spool_close(run.spool);
	disk_thread_settle(run.thread);
	end(&run);
}

/* A subscription goes and comes back before the disk is done with it. */
static void opens_again_while_it_closes(void **state)
{
	struct spool *before;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	for (unsigned i = 0; i < 20; i++)
		spool_append(run.spool, run_frame(&run, i));
	before = run.spool;
	spool_close(before);
	run.opened = 0;
	run_open_spool(&run);
	assert_ptr_not_equal(run.spool, before);
	for (unsigned i = 20; i < 40; i++)
		spool_append(run.spool, run_frame(&run, i));
	disk_thread_settle(run.thread);
	assert_int_equal(run.opened, 1);
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	assert_int_equal(back.lost, 0);
	/* And once more, with the daemon's end in the middle of it. */
	spool_append(run.spool, run_frame(&run, 40));
	spool_append(run.spool, run_frame(&run, 41));
	spool_close(run.spool);
	run_open_spool(&run);
	spool_append(run.spool, run_frame(&run, 42));
	run_close(&run);
	assert_null(segment(1, "open"));
	run_open(&run);
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	end(&run);
}

/* It comes back twice meanwhile: the second waits for the first, which waits itself. */
static void opens_again_while_two_of_its_name_close(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run_open(&run);
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned j = 0; j < 20; j++)
			spool_append(run.spool, run_frame(&run, 20 * i + j));
		if (i == 2)
			break;
		spool_close(run.spool);
		run.opened = 0;
		run_open_spool(&run);
	}
	disk_thread_settle(run.thread);
	assert_int_equal(run.opened, 1);
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	assert_int_equal(back.lost, 0);
	end(&run);
}

/* The same with files, a thread, and syncs. */
static void above_a_real_disk(void **state)
{
	char path[] = "/tmp/ringtail-test-spool.XXXXXX", command[64];
	struct spool_stat stat;
	struct error error;
	struct disk disk;
	struct spool_run run;
	uint64_t lost;

	(void)state;
	assert_non_null(mkdtemp(path));
	assert_int_equal(disk_posix_open(path, &disk, &error), 0);
	faulty_disk_init(&faulty, 1);
	run_init(&run, &faulty, SPOOL_FSYNC);
	run.disk = &disk;
	run.threaded = true;
	run_open(&run);
	/* Not one by one: the thread takes what is there while the next come. */
	for (unsigned i = 0; i < 200; i++)
		spool_append(run.spool, run_frame(&run, i));
	disk_thread_settle(run.thread);
	run_check_ledger(&run, &stat, &lost);
	assert_int_equal(lost, 0);
	assert_int_equal(stat.in_flight, 0);
	run_close(&run);
	run_open(&run);
	run_read(&run, &back);
	assert_int_equal(back.there, produced(&run));
	assert_int_equal(back.lost, 0);
	end(&run);
	disk_posix_close(&disk);
	snprintf(command, sizeof(command), "rm -r %s", path);
	assert_int_equal(system(command), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_back_whole),
		cmocka_unit_test(begins_at_a_cursor),
		cmocka_unit_test(begins_at_a_time),
		cmocka_unit_test(drops_the_oldest),
		cmocka_unit_test(lives_on_a_full_disk),
		cmocka_unit_test(waits_for_room_on_a_full_disk),
		cmocka_unit_test(refuses_the_newest),
		cmocka_unit_test(stays_full),
		cmocka_unit_test(stops_until_half_is_free),
		cmocka_unit_test(deletes_what_is_too_old),
		cmocka_unit_test(a_wall_clock_set_ahead_deletes_nothing),
		cmocka_unit_test(keeps_other_epochs_apart),
		cmocka_unit_test(holds_no_more_than_its_bound),
		cmocka_unit_test(a_reader_may_go_at_any_time),
		cmocka_unit_test(opens_again_while_it_closes),
		cmocka_unit_test(opens_again_while_two_of_its_name_close),
		cmocka_unit_test(above_a_real_disk),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
