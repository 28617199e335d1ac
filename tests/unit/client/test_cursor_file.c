/*
 * test_cursor_file: the place that a consumer keeps. The machine may lose power at any moment: the new
 * file takes the old one's name only when it is whole on disk.
 */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/cursor_file.h"
#include "client/lib/limits.h"
#include "tests/lib/failing_memory.h"

#define OLD	"00000000-0000-0000-0000-000000000001/5/0:7"
#define NEW	"00000000-0000-0000-0000-000000000001/5/0:9,1:3"

/* ---- The disk: what reached it, in which order ------------------------------------------------- */

static struct {
	int sync_err;			/* what each fsync() says from now on; and others */
	int open_err, close_err, rename_err;
	bool no_stream, unsure;		/* for a descriptor; of whether all was written */
	unsigned syncs, renames;
	ino_t synced;			/* the file that was last on disk, whole, */
	off_t synced_bytes;
	bool renamed_unsynced;
} disk;

int fsync(int fd)
{
	struct stat stat;

	disk.syncs++;
	if (disk.sync_err) {
		errno = disk.sync_err;
		return -1;
	}
	assert_int_equal(fstat(fd, &stat), 0);
	disk.synced = stat.st_ino;
	disk.synced_bytes = stat.st_size;
	return 0;
}

int rename(const char *from, const char *to)
{
	struct stat stat;

	if (disk.rename_err) {
		errno = disk.rename_err;
		return -1;
	}
	disk.renames++;
	assert_int_equal(lstat(from, &stat), 0);
	if (stat.st_ino != disk.synced || stat.st_size != disk.synced_bytes)
		disk.renamed_unsynced = true;
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

FILE *__wrap_fopen(const char *name, const char *mode);
FILE *__real_fopen(const char *name, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);
FILE *__real_fdopen(int fd, const char *mode);
int __wrap_fclose(FILE *file);
int __real_fclose(FILE *file);
int __wrap_ferror(FILE *file);
int __real_ferror(FILE *file);

FILE *__wrap_fopen(const char *name, const char *mode)
{
	errno = disk.open_err;
	return disk.open_err ? NULL : __real_fopen(name, mode);
}

FILE *__wrap_fdopen(int fd, const char *mode)
{
	errno = ENOMEM;
	return disk.no_stream ? NULL : __real_fdopen(fd, mode);
}

int __wrap_fclose(FILE *file)
{
	int err = __real_fclose(file);

	errno = disk.close_err;
	return disk.close_err ? EOF : err;
}

int __wrap_ferror(FILE *file)
{
	return disk.unsure || __real_ferror(file);
}

/* ---- Tests ------------------------------------------------------------------------------------- */

static char directory[32], path[64], path_new[64];

static int setup(void **state)
{
	(void)state;
	memset(&disk, 0, sizeof(disk));
	strcpy(directory, "/tmp/cursor-XXXXXX");
	assert_non_null(mkdtemp(directory));
	snprintf(path, sizeof(path), "%s/place", directory);
	snprintf(path_new, sizeof(path_new), "%s/place.new", directory);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(path);
	unlink(path_new);
	return rmdir(directory);
}

static void save(const char *cursor, uint64_t output_bytes)
{
	struct ringtail_error error;

	if (cursor_file_save(path, cursor, output_bytes, &error))
		fail_msg("%s", error.what);
}

static void expect(const char *cursor, uint64_t output_bytes)
{
	struct ringtail_error error;
	uint64_t bytes;
	char *at;

	if (cursor_file_load(path, &at, &bytes, &error))
		fail_msg("%s", error.what);
	if (cursor)
		assert_string_equal(at, cursor);
	else
		assert_null(at);
	assert_int_equal(bytes, output_bytes);
	free(at);
}

static void comes_back_as_it_was_kept(void **state)
{
	(void)state;
	expect(NULL, CURSOR_FILE_NO_OUTPUT);
	save(OLD, 1234);
	expect(OLD, 1234);
	save(NEW, CURSOR_FILE_NO_OUTPUT);
	expect(NEW, CURSOR_FILE_NO_OUTPUT);
	assert_int_equal(access(path_new, F_OK), -1);
}

static void takes_the_name_when_it_is_whole_on_disk(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= 3; i++) {
		save(i % 2 ? OLD : NEW, i);
		assert_int_equal(disk.syncs, i);
		assert_int_equal(disk.renames, i);
		assert_false(disk.renamed_unsynced);
	}
}

/* Of a save that fails nothing is left. */
static void expect_not_saved(int err)
{
	struct ringtail_error error;

	assert_int_equal(cursor_file_save(path, NEW, 2, &error), -err);
	assert_string_equal(error.code, "cursor-file");
	assert_int_equal(access(path_new, F_OK), -1);
	disk.sync_err = disk.close_err = disk.rename_err = 0;
	disk.no_stream = disk.unsure = false;
	expect(OLD, 1);
	assert_int_equal(disk.renames, 1);
}

static void stays_the_old_one_when_the_disk_fails(void **state)
{
	struct rlimit limit, small;

	(void)state;
	save(OLD, 1);
	disk.sync_err = EIO;
	expect_not_saved(EIO);
	disk.close_err = EDQUOT;
	expect_not_saved(EDQUOT);
	disk.sync_err = EIO;		/* what failed first is what is said */
	disk.close_err = EDQUOT;
	expect_not_saved(EIO);
	disk.rename_err = EXDEV;
	expect_not_saved(EXDEV);
	disk.unsure = true;
	errno = ENOSPC;
	assert_int_not_equal(cursor_file_save(path, NEW, 2, NULL), 0);
	disk.unsure = false;
	expect(OLD, 1);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = limit;
	small.rlim_cur = 10;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	expect_not_saved(EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* The new file cannot be made: there is a directory of its name; or no memory for it. */
static void stays_the_old_one_where_no_new_one_can_be(void **state)
{
	struct ringtail_error error;
	int fd = dup(1);

	(void)state;
	close(fd);
	save(OLD, 1);
	assert_int_equal(mkdir(path_new, 0700), 0);
	assert_true(cursor_file_save(path, NEW, 2, &error) < 0);
	assert_string_equal(error.code, "cursor-file");
	assert_non_null(strstr(error.what, "place.new"));
	assert_int_equal(rmdir(path_new), 0);
	disk.no_stream = true;
	assert_int_equal(cursor_file_save(path, NEW, 2, &error), -ENOMEM);
	disk.no_stream = false;
	expect(OLD, 1);
	assert_int_equal(dup(1), fd);	/* and no descriptor is left open */
	close(fd);
	save(NEW, 2);
	expect(NEW, 2);
}

/* Whoever may write in that directory puts a link where the new file is to be: to a file of ours. */
static void does_not_write_through_a_link(void **state)
{
	char victim[64], text[8] = "";
	struct stat stat;
	int fd;

	(void)state;
	snprintf(victim, sizeof(victim), "%s/victim", directory);
	fd = open(victim, O_RDWR | O_CREAT, 0600);
	assert_int_equal(write(fd, "mine", 4), 4);
	assert_int_equal(symlink(victim, path_new), 0);
	save(NEW, 3);
	expect(NEW, 3);
	assert_int_equal(pread(fd, text, sizeof(text), 0), 4);
	assert_string_equal(text, "mine");
	assert_int_equal(lstat(path, &stat), 0);
	assert_true(S_ISREG(stat.st_mode));
	close(fd);
	unlink(victim);
}

/* Cut at any byte, or of another kind: refused, rather than begun at another place. */
static void cut_anywhere_is_refused(void **state)
{
	struct ringtail_error error;
	uint64_t bytes;
	struct stat stat;
	char *at;

	(void)state;
	save(NEW, 1234);
	assert_int_equal(lstat(path, &stat), 0);
	for (off_t size = stat.st_size - 1; size >= 0; size--) {
		assert_int_equal(truncate(path, size), 0);
		assert_int_equal(cursor_file_load(path, &at, &bytes, &error), -EBADMSG);
		assert_string_equal(error.code, "bad-cursor-file");
		assert_non_null(strstr(error.hint, "remove"));
		assert_null(at);
	}
}

static void unreadable_is_no_new_beginning(void **state)
{
	static const int errs[] = {EACCES, ENOTDIR, EMFILE};
	struct ringtail_error error;
	uint64_t bytes = 5;
	char *at;

	(void)state;
	save(OLD, 1);
	for (size_t i = 0; i < sizeof(errs) / sizeof(*errs); i++) {
		at = (char *)"";
		disk.open_err = errs[i];
		assert_int_equal(cursor_file_load(path, &at, &bytes, &error), -errs[i]);
		assert_string_equal(error.code, "cursor-file");
		assert_null(at);
	}
	disk.open_err = ENOENT;
	assert_int_equal(cursor_file_load(path, &at, &bytes, &error), 0);
	assert_int_equal(bytes, CURSOR_FILE_NO_OUTPUT);
	disk.open_err = 0;
	for (unsigned i = 0; i < 2; i++) {
		at = (char *)"";
		memory_fails_after(i);
		failures_left = 1;
		assert_int_equal(cursor_file_load(path, &at, &bytes, &error), -ENOMEM);
		memory_suffices();
		assert_string_equal(error.code, "no-memory");
		assert_null(at);
	}
}

/* As long as any cursor is, and no longer. */
static void longest_cursor_comes_back(void **state)
{
	char *longest = malloc(CURSOR_TEXT_BYTES_MAX + 1);
	struct ringtail_error error;
	uint64_t bytes;
	char *at;

	(void)state;
	assert_non_null(longest);
	memset(longest, '7', CURSOR_TEXT_BYTES_MAX);
	longest[CURSOR_TEXT_BYTES_MAX] = longest[CURSOR_TEXT_BYTES_MAX - 1] = '\0';
	save(longest, CURSOR_FILE_NO_OUTPUT);
	expect(longest, CURSOR_FILE_NO_OUTPUT);
	longest[CURSOR_TEXT_BYTES_MAX - 1] = '7';
	save(longest, 1);
	assert_int_equal(cursor_file_load(path, &at, &bytes, &error), -EBADMSG);
	free(longest);
}

static void with_more_behind_it_is_refused(void **state)
{
	struct ringtail_error error;
	uint64_t bytes;
	char *at;
	FILE *file;

	(void)state;
	save(NEW, 1234);
	file = fopen(path, "a");
	fwrite("\0more\n", 1, 6, file);
	fclose(file);
	assert_int_equal(cursor_file_load(path, &at, &bytes, &error), -EBADMSG);
	assert_null(at);
}

static void without_its_output_is_refused(void **state)
{
	static const char *const text[] = {
		"ringtail cursor 1\nat " NEW "\n", "ringtail cursor 1\nat " NEW "\noutput x\n",
		"ringtail cursor 1\nat " NEW " output 5\n", "ringtail cursor 2\nat " NEW "\noutput 5\n",
	};
	struct ringtail_error error;
	uint64_t bytes;
	char *at;

	(void)state;
	for (size_t i = 0; i < sizeof(text) / sizeof(*text); i++) {
		FILE *file = fopen(path, "w");

		fputs(text[i], file);
		fclose(file);
		assert_int_equal(cursor_file_load(path, &at, &bytes, &error), -EBADMSG);
		assert_null(at);
	}
}

/* What the place does not know of is cut off; what is missing is not made up. */
static void output_is_cut_and_never_grows(void **state)
{
	struct ringtail_error error;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600), pipes[2];

	(void)state;
	assert_int_equal(write(fd, "0123456789", 10), 10);
	assert_int_equal(cursor_file_output(fd), 10);
	assert_int_equal(cursor_file_cut(fd, CURSOR_FILE_NO_OUTPUT, &error), 0);
	assert_int_equal(cursor_file_cut(fd, 20, &error), 0);
	assert_int_equal(cursor_file_output(fd), 10);
	assert_int_equal(cursor_file_cut(fd, 4, &error), 0);
	assert_int_equal(cursor_file_output(fd), 4);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 4);
	assert_int_equal(cursor_file_cut(fd, 4, &error), 0);
	assert_int_equal(cursor_file_cut(fd, 0, &error), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
	assert_int_equal(write(fd, "0123", 4), 4);
	close(fd);
	fd = open(path, O_RDONLY);
	assert_true(cursor_file_cut(fd, 3, &error) < 0);
	assert_string_equal(error.code, "cursor-file");
	assert_int_equal(cursor_file_output(fd), 4);
	close(fd);
	assert_int_equal(pipe(pipes), 0);
	assert_int_equal(cursor_file_output(pipes[1]), CURSOR_FILE_NO_OUTPUT);
	assert_int_equal(cursor_file_cut(pipes[1], 4, &error), 0);
	close(pipes[0]);
	close(pipes[1]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(comes_back_as_it_was_kept),
		TEST(takes_the_name_when_it_is_whole_on_disk),
		TEST(stays_the_old_one_when_the_disk_fails),
		TEST(stays_the_old_one_where_no_new_one_can_be),
		TEST(does_not_write_through_a_link),
		TEST(unreadable_is_no_new_beginning),
		TEST(longest_cursor_comes_back),
		TEST(cut_anywhere_is_refused),
		TEST(with_more_behind_it_is_refused),
		TEST(without_its_output_is_refused),
		TEST(output_is_cut_and_never_grows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
