/*
 * Which segments of a spool go: once they are acknowledged, once nobody needs them, once they are too old; and
 * how much is behind a place that is acknowledged.
 *
 * A layout has a letter for each segment: c holds what is for consumers alone, a what is always on, x is of
 * an earlier run of the rings and for consumers, y of that and always on, u cannot be read (and was for
 * consumers). What is left is told by their places in it.
 */
#include "tests/unit/daemon/spool_in_memory.h"

#define SEGMENTS_MAX	12u

static uint64_t ends[SEGMENTS_MAX][RUN_RINGS];	/* where each segment ends */

/* What one daemon records and seals. */
static void fill_segment(struct spool_run *run, unsigned i, bool always_on)
{
	run_open(run);
	spool_set_always_on(run->spool, always_on);
	for (unsigned ring = 0; ring < RUN_RINGS; ring++) {
		run_now_ns += 300000000;
		spool_append(run->spool, run_batch(run, ring, 5 + i % 3, i % 2));
		disk_thread_settle(run->thread);
	}
	memcpy(ends[i], run->seq, sizeof(ends[i]));
	run_close(run);
}

static void make(struct spool_run *run, const char *layout)
{
	size_t earlier = strcspn(layout, "ca");

	begin(run);
	run->config.segment_bytes = 1 << 20;
	for (unsigned i = 0; layout[i]; i++) {
		if (i == earlier) {
			run->config.run.epoch++;
			memset(run->seq, 0, sizeof(run->seq));
		}
		fill_segment(run, i, strchr("ay", layout[i]));
	}
	if (!layout[earlier]) {
		run->config.run.epoch++;
		memset(run->seq, 0, sizeof(run->seq));
	}
	for (unsigned i = 0; layout[i]; i++)
		if (layout[i] == 'u')
			faulty.file[segment(i + 1, "seg")->file].bytes[30] ^= 0x10;
	run_open(run);
}

/* Those that are there, in order. */
static const char *left(const struct spool_run *run, const char *layout)
{
	static char text[SEGMENTS_MAX + 1];
	struct spool_stat stat;
	uint64_t bytes = 0, n = 0;

	for (unsigned i = 0; layout[i]; i++) {
		const struct faulty_name *name = segment(i + 1, layout[i] == 'u' ? "bad" : "seg");

		if (!name)
			continue;
		text[n++] = layout[i];
		bytes += faulty.file[name->file].n;
	}
	text[n] = '\0';
	if (run->spool) {
		spool_stat(run->spool, &stat);
		assert_int_equal(stat.segments, n);
		assert_int_equal(stat.bytes, bytes);
	}
	return text;
}

static void expect_left(const struct spool_run *run, const char *layout, const char *when, unsigned gone)
{
	const char *is = left(run, layout);

	if (strcmp(is, layout + gone) != 0)
		fail_msg("of %s, %s: `%s` is left, and not `%s`", layout, when, is, layout + gone);
}

/* With an always-on one, what is directly before it and cannot be read stays, for it may have been, too. */
static unsigned before_always_on(const char *layout, unsigned n, const char *passed_over)
{
	bool stays = layout[n];

	while (stays && n && strchr(passed_over, layout[n - 1]))
		n--;
	return n;
}

/* How many of the oldest go once the first `seen` are acknowledged. The last one stays, if it is of this run. */
static unsigned released(const char *layout, unsigned seen)
{
	unsigned n = 0;

	while (layout[n] && !strchr("ay", layout[n]) && (layout[n] != 'c' || n < seen))
		n++;
	if (layout[n] == 'c')
		return n;
	return n && !layout[n] && layout[n - 1] == 'c' ? n - 1 : before_always_on(layout, n, "xu");
}

static unsigned unneeded(const char *layout)
{
	return before_always_on(layout, (unsigned)strcspn(layout, "ay"), "u");
}

/* Of one ring an event less, or nothing: then it is needed still. */
static void release_almost(struct spool_run *run, const char *layout, unsigned i, unsigned gone)
{
	for (unsigned ring = 0; ring < RUN_RINGS; ring++) {
		struct cursor *place = run_cursor(run->config.run.epoch, ends[i]);

		place->position[ring].seq--;
		spool_release(run->spool, place);
		disk_thread_settle(run->thread);
		expect_left(run, layout, "as one event is not acknowledged", gone);
		place->position[ring] = place->position[RUN_RINGS - 1];
		place->position[ring].seq = ends[i][RUN_RINGS - 1];
		place->n = RUN_RINGS - 1;
		spool_release(run->spool, place);
		disk_thread_settle(run->thread);
		expect_left(run, layout, "as one ring is not acknowledged", gone);
		free(place);
	}
}

static void check_released(const char *layout)
{
	struct spool_stat stat;
	struct spool_run run;
	unsigned gone = 0;

	make(&run, layout);
	expect_left(&run, layout, "at first", 0);
	run_release(&run, RUN_EPOCH - 1, ends[0]);
	disk_thread_settle(run.thread);
	expect_left(&run, layout, "of a run that is not there", 0);
	for (unsigned i = 0; layout[i]; i++) {
		if (layout[i] != 'c')
			continue;
		if (released(layout, i) > gone)
			gone = released(layout, i);
		release_almost(&run, layout, i, gone);
		if (released(layout, i + 1) > gone)
			gone = released(layout, i + 1);
		run_release(&run, run.config.run.epoch, ends[i]);
		disk_thread_settle(run.thread);
		expect_left(&run, layout, "acknowledged", gone);
		spool_stat(run.spool, &stat);
		assert_int_equal(stat.deleted, gone);
	}
	end(&run);
}

static void check_removed(const char *layout)
{
	struct spool_run run;

	make(&run, layout);
	spool_remove(run.spool);
	run.spool = NULL;
	disk_thread_settle(run.thread);
	expect_left(&run, layout, "given up", unneeded(layout));
	/* And a daemon that finds it goes on with that. */
	run_open_spool(&run);
	disk_thread_settle(run.thread);
	assert_string_equal(left(&run, layout), layout + unneeded(layout));
	end(&run);
}

/* ---- Its directory ---------------------------------------------------------------------------- */

static struct disk_ops noting;
static char noted[256];
static int directory_error;

static void note(const char *what, const char *path)
{
	snprintf(noted + strlen(noted), sizeof(noted) - strlen(noted), " %s %s", what, path);
}

static int note_remove(struct disk *disk, const char *path)
{
	note("remove", path);
	return strcmp(path, "spool/run") ? faulty_remove(disk, path) : directory_error;
}

static int note_sync_directory(struct disk *disk, const char *path)
{
	note("sync", path);
	return faulty_sync_directory(disk, path);
}

static void note_log(enum log_level level, const char *code, const char *text)
{
	(void)level, (void)text;
	if (strcmp(code, "spool-remove") == 0)
		note("warn", "");
}

/* Given up, with that error of the directory, or of the file: what is done to the disk, in order. */
static void check_directory(const char *layout, int error, bool file_fails, const char *expected)
{
	static const struct log_sink sink = {.write = note_log, .now_ns = clock_monotonic};
	struct spool_run run;

	make(&run, layout);
	run_close(&run);
	noting = *faulty.disk.ops;
	noting.remove = note_remove;
	noting.sync_directory = note_sync_directory;
	faulty.disk.ops = &noting;
	directory_error = error;
	run_open(&run);
	log_set_sink(&sink);
	noted[0] = '\0';
	faulty.fail_errno = EIO;
	if (file_fails)
		faulty.fail_at = faulty.operations;
	spool_remove(run.spool);
	run.spool = NULL;
	disk_thread_settle(run.thread);
	assert_string_equal(noted, expected);
	run_quiet();
	end(&run);
}

#define FIRST	"spool/run/0000000000000001.seg"
#define SECOND	"spool/run/0000000000000002.seg"

/* And that it is gone is made durable; what could not be deleted is told. */
static void the_directory_goes_with_the_last(void **state)
{
	(void)state;
	check_directory("cc", 0, false, " remove " FIRST " remove " SECOND " remove spool/run sync spool");
	check_directory("c", -ENOENT, false, " remove " FIRST " remove spool/run sync spool");
	check_directory("c", -ENOTEMPTY, false, " remove " FIRST " remove spool/run warn ");
	check_directory("ca", 0, false, " remove " FIRST);
	check_directory("a", 0, false, "");
	check_directory("cc", 0, true, " remove " FIRST " warn ");
}

/* Its last turn makes room for what waited, and whoever was to be told of that may be no more. */
static void nobody_is_told_once_it_is_closed(void **state)
{
	struct spool_run run;
	unsigned gone;

	(void)state;
	begin(&run);
	run.config.size_bytes = 6000;
	run_open(&run);
	while (!run.gone) {
		spool_append(run.spool, run_batch(&run, 0, 20, 0));
		disk_thread_settle(run.thread);
	}
	for (unsigned i = 0; i < 40; i++)
		spool_append(run.spool, run_batch(&run, 0, 20, 0));
	gone = run.gone;
	spool_close(run.spool);
	run.spool = NULL;
	assert_non_null(segment(gone + 1, "seg"));
	disk_thread_settle(run.thread);
	assert_null(segment(gone + 1, "seg"));
	assert_int_equal(run.gone, gone);
	end(&run);
}

/* ---- Every layout ----------------------------------------------------------------------------- */

#define LETTERS	5u

/* Those of earlier runs come first; false: this number is none. */
static bool layout_of(unsigned number, char *layout)
{
	unsigned n = 0;

	for (; number; number /= LETTERS + 1) {
		unsigned digit = number % (LETTERS + 1);

		if (!digit)
			return false;
		layout[n++] = "xyuca"[digit - 1];
	}
	layout[n] = '\0';
	return n && !strpbrk(layout + strcspn(layout, "ca"), "xy");
}

static void each_layout(unsigned letters, void (*check)(const char *layout))
{
	unsigned numbers = 1, checked = 0;

	for (unsigned i = 0; i < letters; i++)
		numbers *= LETTERS + 1;
	for (unsigned i = 1; i < numbers; i++) {
		char layout[SEGMENTS_MAX + 1];

		if (!layout_of(i, layout))
			continue;
		check(layout);
		checked++;
	}
	assert_true(checked > letters * letters);
}

static void what_is_acknowledged(void **state)
{
	(void)state;
	each_layout(4, check_released);
	check_released("xxuccuacc");
}

static void what_nobody_needs(void **state)
{
	(void)state;
	each_layout(4, check_removed);
}

/* ---- What is behind a place ------------------------------------------------------------------- */

static uint64_t behind(const struct spool_run *run, uint64_t epoch, const uint64_t *seq)
{
	struct cursor *cursor = run_cursor(epoch, seq);
	uint64_t bytes = spool_behind(run->spool, cursor);

	free(cursor);
	return bytes;
}

/* Of the segments from the i-th on. */
static uint64_t bytes_from(const char *layout, unsigned i, const char *kinds)
{
	uint64_t bytes = 0;

	for (; layout[i]; i++)
		if (strchr(kinds, layout[i]))
			bytes += faulty.file[segment(i + 1, "seg")->file].n;
	return bytes;
}

static void check_behind(const char *layout)
{
	const uint64_t none[RUN_RINGS] = {0};
	struct spool_stat before, stat;
	struct spool_run run;
	uint64_t open, ours;

	make(&run, layout);
	for (unsigned i = 0; layout[i]; i++) {
		const uint64_t *start = i > strcspn(layout, "ca") ? ends[i - 1] : none;
		uint64_t half[RUN_RINGS];

		if (!strchr("ca", layout[i]))
			continue;
		for (unsigned j = 0; j < RUN_RINGS; j++)
			half[j] = (start[j] + ends[i][j]) / 2;
		ours = bytes_from(layout, i, "ca");
		assert_int_equal(behind(&run, run.config.run.epoch, start), ours);
		assert_in_range(behind(&run, run.config.run.epoch, half), bytes_from(layout, i + 1, "ca") + 1, ours - 1);
	}
	assert_int_equal(behind(&run, run.config.run.epoch, run.seq), 0);
	ours = bytes_from(layout, 0, "ca");
	/* Of a run that is not there, or from the beginning of the one before, all that came later. */
	assert_int_equal(behind(&run, RUN_EPOCH - 1, none), ours + bytes_from(layout, 0, "xy"));
	assert_int_equal(behind(&run, RUN_EPOCH, none),
			 strpbrk(layout, "xy") || ours ? ours + bytes_from(layout, 0, "xy") : 0);
	assert_int_equal(behind(&run, run.config.run.epoch + 1, none), 0);
	if (strchr(layout + strcspn(layout, "ca"), 'u')) {
		end(&run);
		return;		/* what is written next begins with a gap */
	}
	/* And of the one that is being written, what is durable of it. */
	spool_stat(run.spool, &before);
	open = run.seq[0];
	run_now_ns += 300000000;
	spool_append(run.spool, run_batch(&run, 0, 4, 0));
	disk_thread_settle(run.thread);
	spool_stat(run.spool, &stat);
	assert_true(stat.segments == before.segments + 1);
	assert_int_equal(behind(&run, run.config.run.epoch, (uint64_t[]){open, run.seq[1]}), stat.bytes - before.bytes);
	assert_int_equal(behind(&run, run.config.run.epoch, run.seq), 0);
	end(&run);
}

static void what_is_behind_a_place(void **state)
{
	(void)state;
	each_layout(3, check_behind);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_acknowledged),
		cmocka_unit_test(what_nobody_needs),
		cmocka_unit_test(the_directory_goes_with_the_last),
		cmocka_unit_test(what_is_behind_a_place),
		cmocka_unit_test(nobody_is_told_once_it_is_closed),
	};

	run_quiet();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
