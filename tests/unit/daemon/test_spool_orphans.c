/*
 * Spools that nobody asks for: they get old, share one bound, and go; what somebody asks for, holds, or
 * has put there himself stays.
 */
#include "tests/unit/daemon/spool_run.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "proto/segment.h"

#define FIRST	"00000000000000a1"
#define SECOND	"00000000000000b2"
#define THIRD	"00000000000000c3"

static struct faulty_disk faulty;
static struct run_back back;

static void begin(struct spool_run *run)
{
	faulty_disk_init(&faulty, 1);
	run_init(run, &faulty, SPOOL_WRITTEN);
}

static void end(struct spool_run *run)
{
	run_fini(run);
	faulty_disk_fini(&faulty);
}

/* Something is written there, and then nobody asks for it any more. */
static void leave(struct spool_run *run, const char *name, unsigned frames)
{
	run_open_named(run, name);
	disk_thread_settle(run->thread);
	memset(run->seq, 0, sizeof(run->seq));
	run_script(run, frames);
	spool_close(run->spool);
	disk_thread_settle(run->thread);
}

static void turn(struct spool_run *run)
{
	run_now_ns += SPOOL_TIDY_NS;
	spooler_turn(run->spooler);
	disk_thread_settle(run->thread);
}

struct rows {
	unsigned n, unused, held, probes;
	uint64_t bytes, segments, deleted;
	const struct spool_config *config[64];
	char names[4096], first[SPOOL_NAME_BYTES];
};

static void on_row(void *context, const struct spool_stat *stat)
{
	struct rows *rows = context;

	assert_true(rows->n < 64);
	rows->config[rows->n++] = stat->config;
	rows->unused += strcmp(stat->state, "unused") == 0;
	rows->held += strcmp(stat->state, "held") == 0;
	rows->bytes += stat->bytes;
	rows->segments += stat->segments;
	rows->deleted += stat->deleted;
	strcat(rows->names, stat->config->name);
	assert_int_equal(stat->produced + stat->stored + stat->in_flight, 0);
	if (!stat->config->probes)
		return;
	rows->probes++;
	assert_string_equal(stat->config->probe[0], "syscall:read:call");
	assert_string_equal(stat->config->filter, "pid == 1");
	assert_int_equal(stat->oldest_realtime_ns > 0, stat->segments > 0);
}

static struct rows look(const struct spool_run *run)
{
	struct rows rows = {0};

	spooler_each_orphan(run->spooler, on_row, &rows);
	assert_int_equal(rows.n, spooler_orphans(run->spooler));
	/* Whoever keeps what it was given finds it as it was: a stat is made a message later. */
	for (unsigned i = 0; i < rows.n; i++) {
		assert_int_equal(strlen(rows.config[i]->name), SPOOL_NAME_BYTES - 1);
		assert_non_null(strstr(rows.names, rows.config[i]->name));
		for (unsigned j = 0; j < i; j++)
			assert_ptr_not_equal(rows.config[i], rows.config[j]);
	}
	assert_int_equal(rows.unused + rows.held, rows.n);
	return rows;
}

static uint64_t bytes_of(const char *name)
{
	uint64_t bytes = 0;
	char path[64];

	snprintf(path, sizeof(path), "spool/%s", name);
	for (unsigned i = 0; i < faulty.names.n; i++)
		if (faulty_is_in(faulty.names.name[i].path, path))
			bytes += faulty.file[faulty.names.name[i].file].n;
	return bytes;
}

static void gets_old(void **state)
{
	struct rows rows, before;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_start(&run);
	leave(&run, FIRST, 40);
	turn(&run);
	before = look(&run);
	assert_int_equal(before.unused, 1);
	assert_int_equal(before.probes, 1);
	assert_int_equal(before.bytes, bytes_of(FIRST));
	assert_true(before.segments > 3);
	/* Segment by segment: they ended 12 s apart. */
	run_now_ns += run.config.age_ns - 25 * NS_PER_S;
	turn(&run);
	rows = look(&run);
	assert_true(rows.segments < before.segments && rows.segments > 0);
	assert_int_equal(rows.deleted + rows.segments, before.segments);
	assert_int_equal(rows.bytes, bytes_of(FIRST));
	run_now_ns += 15 * NS_PER_S;
	turn(&run);
	assert_int_equal(look(&run).n, 0);
	assert_int_equal(bytes_of(FIRST), 0);
	end(&run);
}

/* What this boot wrote is as old as this boot's clock says; what another wrote, as the wall clock. */
static void by_its_boots_clock(void **state)
{
	const uint64_t begun_ns = run_realtime_ns;
	struct rows before;
	struct spool_run run;

	(void)state;
	begin(&run);
	run_start(&run);
	leave(&run, FIRST, 40);
	turn(&run);
	before = look(&run);
	run_close(&run);
	run_realtime_ns += 86400 * NS_PER_S;
	run_start(&run);
	turn(&run);
	turn(&run);
	assert_int_equal(look(&run).segments, before.segments);
	run_close(&run);
	run.config.run.boot_id[0] ^= 1;
	run_start(&run);
	turn(&run);
	assert_int_equal(look(&run).n, 0);
	assert_int_equal(bytes_of(FIRST), 0);
	run_realtime_ns = begun_ns;
	end(&run);
}

/* A killed daemon's: its open segment is looked through, and gets old as the others do. */
static void left_open(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run_start(&run);
	run_open_named(&run, FIRST);
	disk_thread_settle(run.thread);
	run_script(&run, 4);
	faulty.cut_at = faulty.operations;
	run_close(&run);
	faulty_disk_cut(&faulty, FAULTY_KILL);
	run_start(&run);
	turn(&run);
	assert_int_equal(look(&run).unused, 1);
	assert_int_equal(look(&run).bytes, bytes_of(FIRST));
	run_now_ns += run.config.age_ns;
	turn(&run);
	assert_int_equal(bytes_of(FIRST), 0);
	end(&run);
}

static void asked_for_again(void **state)
{
	struct spool_stat stat;
	struct spool_run run;

	(void)state;
	for (unsigned when = 0; when < 3; when++) {
		begin(&run);
		run_start(&run);
		leave(&run, FIRST, 20);
		run_now_ns += run.config.age_ns - 60 * NS_PER_S;
		if (when)
			turn(&run);
		/* A turn is on its way, or has been. */
		run_now_ns += SPOOL_TIDY_NS;
		if (when == 2)
			spooler_turn(run.spooler);
		run_open_named(&run, FIRST);
		disk_thread_settle(run.thread);
		turn(&run);
		assert_int_equal(look(&run).n, 0);
		run_script(&run, 20);
		spool_stat(run.spool, &stat);
		assert_int_equal(stat.bytes, bytes_of(FIRST));
		run_read(&run, &back);
		assert_int_equal(back.at[0], run.seq[0]);
		assert_int_equal(back.lost, 0);
		spool_close(run.spool);
		end(&run);
	}
}

static void share_one_bound(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run.config.size_bytes = 16000;
	run_start(&run);
	leave(&run, FIRST, 25);
	leave(&run, SECOND, 25);
	assert_true(bytes_of(FIRST) + bytes_of(SECOND) < 16000);
	turn(&run);
	turn(&run);
	assert_int_equal(look(&run).bytes, bytes_of(FIRST) + bytes_of(SECOND));
	assert_int_equal(look(&run).deleted, 0);
	/* The oldest of all of them goes first, whatever the policy. */
	leave(&run, THIRD, 25);
	turn(&run);
	assert_int_equal(look(&run).n, 3);
	assert_true(look(&run).bytes <= 16000 && look(&run).bytes > 16000 - 3000);
	assert_true(bytes_of(FIRST) < bytes_of(SECOND));
	assert_int_equal(look(&run).bytes, bytes_of(FIRST) + bytes_of(SECOND) + bytes_of(THIRD));
	assert_true(look(&run).deleted > 0);
	end(&run);
}

static void not_too_many(void **state)
{
	char name[SPOOL_NAME_BYTES];
	struct spool_run run;

	(void)state;
	begin(&run);
	run_start(&run);
	for (unsigned i = 0; i < SPOOL_ORPHANS_MAX + 3; i++) {
		snprintf(name, sizeof(name), "%016x", i);
		leave(&run, name, 5);
	}
	for (unsigned i = 0; i < 4; i++)
		turn(&run);
	assert_int_equal(look(&run).n, SPOOL_ORPHANS_MAX);
	for (unsigned i = 0; i < SPOOL_ORPHANS_MAX + 3; i++) {
		snprintf(name, sizeof(name), "%016x", i);
		assert_int_equal(bytes_of(name) > 0, i >= 3);
	}
	end(&run);
}

static void hold_first(void *holder, spooler_name *name, void *context)
{
	if (*(bool *)holder)
		name(context, FIRST);
}

/* Somebody wants it who cannot open it now: it has its own bounds, and goes when he says so. */
static void held(void **state)
{
	bool holds = true;
	struct spool_run run;
	uint64_t bytes;

	(void)state;
	begin(&run);
	run.config.size_bytes = 9000;
	run_start(&run);
	spooler_set_holder(run.spooler, hold_first, &holds);
	leave(&run, FIRST, 25);
	leave(&run, SECOND, 25);
	bytes = bytes_of(FIRST);
	turn(&run);
	turn(&run);
	assert_int_equal(look(&run).held, 1);
	assert_int_equal(look(&run).unused, 1);
	assert_int_equal(bytes_of(FIRST), bytes);
	assert_true(bytes + bytes_of(SECOND) > 9000);
	/* To go, and held: it stays. */
	spooler_remove(run.spooler, FIRST);
	disk_thread_settle(run.thread);
	assert_int_equal(bytes_of(FIRST), bytes);
	holds = false;
	spooler_remove(run.spooler, FIRST);
	disk_thread_settle(run.thread);
	assert_int_equal(bytes_of(FIRST), 0);
	assert_true(bytes_of(SECOND) > 0);
	assert_string_equal(look(&run).names, SECOND);
	end(&run);
}

/* Held ones get old, too, but are still told of; with drop-oldest, spool-size bounds each. */
static void held_is_bounded(void **state)
{
	static const enum spool_policy policies[] = {SPOOL_DROP_OLDEST, SPOOL_DROP_NEW};
	bool holds = true;
	struct spool_run run;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin(&run);
		run.config.policy = policies[i];
		run_start(&run);
		leave(&run, FIRST, 25);
		run_close(&run);
		run.config.size_bytes = 4000;
		run_start(&run);
		spooler_set_holder(run.spooler, hold_first, &holds);
		turn(&run);
		assert_int_equal(bytes_of(FIRST) <= 4000, policies[i] == SPOOL_DROP_OLDEST);
		run_now_ns += run.config.age_ns;
		turn(&run);
		assert_int_equal(bytes_of(FIRST), 0);
		assert_int_equal(look(&run).held, 1);
		end(&run);
	}
}

static void removed_at_once(void **state)
{
	struct spool_run run;

	(void)state;
	begin(&run);
	run_start(&run);
	leave(&run, FIRST, 10);
	leave(&run, SECOND, 10);
	leave(&run, THIRD, 10);
	/* Not looked at yet, in one go; and two while a turn is under way. */
	spooler_remove(run.spooler, FIRST);
	spooler_remove(run.spooler, SECOND);
	spooler_remove(run.spooler, "0000000000000000");
	disk_thread_settle(run.thread);
	assert_int_equal(bytes_of(FIRST) + bytes_of(SECOND), 0);
	assert_true(bytes_of(THIRD) > 0);
	/* It is wanted again before its turn comes. */
	run_now_ns += SPOOL_TIDY_NS;
	spooler_turn(run.spooler);
	spooler_remove(run.spooler, THIRD);
	run_open_named(&run, THIRD);
	disk_thread_settle(run.thread);
	turn(&run);
	assert_true(bytes_of(THIRD) > 0);
	end(&run);
}

/* Whichever operation fails, once or for a while: the others are tended, and all is done in the end. */
static void disk_fails(void **state)
{
	static const int errnos[] = {EIO, ENOSPC, EROFS};
	struct spool_run run;

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		uint64_t first;

		begin(&run);
		run_start(&run);
		leave(&run, FIRST, 10);
		leave(&run, SECOND, 10);
		run_open_named(&run, THIRD);
		disk_thread_settle(run.thread);
		run_script(&run, 10);
		first = faulty.operations;
		faulty.fail_at = first + i % 150;
		faulty.fail_errno = errnos[i % 3];
		faulty.fail_for_ever = i >= 150;
		turn(&run);
		run_now_ns += run.config.age_ns / 2;
		turn(&run);
		look(&run);
		assert_true(bytes_of(THIRD) > 0);
		faulty.fail_at = UINT64_MAX;
		turn(&run);
		run_now_ns += run.config.age_ns;
		turn(&run);
		turn(&run);
		assert_int_equal(bytes_of(FIRST) + bytes_of(SECOND), 0);
		assert_int_equal(look(&run).n, 0);
		end(&run);
	}
}

static bool is_there(const struct disk *disk, const char *path)
{
	struct stat about;

	return fstatat(disk->dir_fd, path, &about, 0) == 0;
}

/* Directories: empty ones go; what is not a spool's stays, and so does one with another's file in it. */
static void above_a_real_disk(void **state)
{
	char path[] = "/tmp/ringtail-test-orphans.XXXXXX", command[64];
	struct error error;
	struct disk disk;
	struct spool_run run;
	int fd;

	(void)state;
	assert_non_null(mkdtemp(path));
	assert_int_equal(disk_posix_open(path, &disk, &error), 0);
	faulty_disk_init(&faulty, 1);
	run_init(&run, &faulty, SPOOL_FSYNC);
	run.disk = &disk;
	run.threaded = true;
	run_start(&run);
	leave(&run, FIRST, 10);
	assert_int_equal(mkdirat(disk.dir_fd, "spool/" SECOND, 0700), 0);
	assert_int_equal(mkdirat(disk.dir_fd, "spool/" THIRD, 0700), 0);
	fd = openat(disk.dir_fd, "spool/" THIRD "/notes", O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(mkdirat(disk.dir_fd, "spool/lost+found", 0700), 0);
	assert_int_equal(mkdirat(disk.dir_fd, "spool/00000000000000A1", 0700), 0);
	turn(&run);
	turn(&run);
	assert_true(is_there(&disk, "spool/" FIRST));
	assert_false(is_there(&disk, "spool/" SECOND));
	assert_true(is_there(&disk, "spool/" THIRD "/notes"));
	run_now_ns += run.config.age_ns;
	turn(&run);
	assert_false(is_there(&disk, "spool/" FIRST));
	assert_true(is_there(&disk, "spool/lost+found"));
	assert_true(is_there(&disk, "spool/00000000000000A1"));
	assert_string_equal(look(&run).names, THIRD);
	/* Where there is no spool directory there is nothing to do. */
	run_close(&run);
	snprintf(command, sizeof(command), "rm -r %s/spool", path);
	assert_int_equal(system(command), 0);
	run_start(&run);
	turn(&run);
	assert_int_equal(look(&run).n, 0);
	end(&run);
	assert_int_equal(disk.ops->remove(&disk, "lock"), 0);
	disk_posix_close(&disk);
	assert_int_equal(rmdir(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gets_old),
		cmocka_unit_test(by_its_boots_clock),
		cmocka_unit_test(left_open),
		cmocka_unit_test(asked_for_again),
		cmocka_unit_test(share_one_bound),
		cmocka_unit_test(not_too_many),
		cmocka_unit_test(held),
		cmocka_unit_test(held_is_bounded),
		cmocka_unit_test(removed_at_once),
		cmocka_unit_test(disk_fails),
		cmocka_unit_test(above_a_real_disk),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
