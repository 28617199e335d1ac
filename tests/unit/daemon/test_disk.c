/*
 * The real disk, in a directory of its own: each operation, and how it fails. The disk thread: jobs
 * in order, and all of them done before it ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon/disk/disk.h"
#include "daemon/disk/thread.h"

/* What the file system answers to the question whether its sync can be believed; 0: its own answer. */
static int confirm_errno;
static unsigned confirms;

int __real_fallocate(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes);

int __wrap_fallocate(int fd, int mode, off_t offset, off_t bytes)
{
	confirms++;
	if (!confirm_errno)
		return __real_fallocate(fd, mode, offset, bytes);
	errno = confirm_errno;
	return -1;
}

/* What the next call of these says instead of what it does; 0: it does. */
static int read_errno, write_errno, fsync_errno, entry_errno;

ssize_t __real_pread(int fd, void *bytes, size_t n, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t offset);
ssize_t __real_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_write(int fd, const void *bytes, size_t n);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
struct dirent *__real_readdir(DIR *directory);
struct dirent *__wrap_readdir(DIR *directory);

static bool fails(int *next)
{
	if (!*next)
		return false;
	errno = *next;
	*next = 0;
	return true;
}

ssize_t __wrap_pread(int fd, void *bytes, size_t n, off_t offset)
{
	return fails(&read_errno) ? -1 : __real_pread(fd, bytes, n, offset);
}

ssize_t __wrap_write(int fd, const void *bytes, size_t n)
{
	return fails(&write_errno) ? -1 : __real_write(fd, bytes, n);
}

int __wrap_fsync(int fd)
{
	return fails(&fsync_errno) ? -1 : __real_fsync(fd);
}

struct dirent *__wrap_readdir(DIR *directory)
{
	return fails(&entry_errno) ? NULL : __real_readdir(directory);
}

struct fixture {
	char path[64];
	struct disk disk;
};

static void set_up(struct fixture *f)
{
	struct error error;

	strcpy(f->path, "/tmp/ringtail-test-disk.XXXXXX");
	assert_non_null(mkdtemp(f->path));
	assert_int_equal(disk_posix_open(f->path, &f->disk, &error), 0);
}

static void tear_down(struct fixture *f)
{
	assert_int_equal(f->disk.ops->remove(&f->disk, "lock"), 0);
	disk_posix_close(&f->disk);
	assert_int_equal(rmdir(f->path), 0);
}

struct listed {
	unsigned n;
	char name[64];
	uint64_t bytes;
};

static void on_entry(void *context, const char *name, uint64_t bytes)
{
	struct listed *listed = context;

	listed->n++;
	snprintf(listed->name, sizeof(listed->name), "%s", name);
	listed->bytes = bytes;
}

static void test_files(void **state)
{
	const struct disk_ops *ops;
	struct listed listed = {0};
	struct fixture f;
	struct stat about;
	char bytes[16];
	int file;

	(void)state;
	set_up(&f);
	ops = f.disk.ops;
	assert_int_equal(ops->make_directory(&f.disk, "d"), 0);
	assert_int_equal(ops->make_directory(&f.disk, "d"), 0);
	assert_int_equal(fstatat(f.disk.dir_fd, "d", &about, 0), 0);
	assert_int_equal(about.st_mode & 0777, 0700);
	file = ops->open(&f.disk, "d/one", O_WRONLY | O_CREAT | O_EXCL | O_APPEND);
	assert_true(file >= 0);
	assert_int_equal(fstat(file, &about), 0);
	assert_int_equal(about.st_mode & 0777, 0600);
	assert_int_equal(ops->open(&f.disk, "d/one", O_WRONLY | O_CREAT | O_EXCL), -EEXIST);
	assert_int_equal(ops->write(&f.disk, file, "0123456789", 10), 10);
	assert_int_equal(ops->truncate(&f.disk, file, 6), 0);
	assert_int_equal(ops->write(&f.disk, file, "ab", 2), 2);
	assert_int_equal(ops->sync(&f.disk, file), 0);
	assert_int_equal(ops->close(&f.disk, file), 0);
	assert_int_equal(ops->rename(&f.disk, "d/one", "d/two"), 0);
	assert_int_equal(ops->sync_directory(&f.disk, "d"), 0);
	assert_int_equal(ops->list(&f.disk, "d", on_entry, &listed), 0);
	assert_int_equal(listed.n, 1);
	assert_string_equal(listed.name, "two");
	assert_int_equal(listed.bytes, 8);
	file = ops->open(&f.disk, "d/two", O_RDONLY);
	assert_int_equal(ops->read(&f.disk, file, bytes, sizeof(bytes), 4), 4);
	assert_memory_equal(bytes, "45ab", 4);
	assert_int_equal(ops->read(&f.disk, file, bytes, sizeof(bytes), 100), 0);
	assert_int_equal(ops->write(&f.disk, file, "x", 1), -EBADF);
	assert_int_equal(ops->close(&f.disk, file), 0);
	assert_int_equal(ops->remove(&f.disk, "d/two"), 0);
	assert_int_equal(unlinkat(f.disk.dir_fd, "d", AT_REMOVEDIR), 0);
	tear_down(&f);
}

static void test_failures(void **state)
{
	const struct disk_ops *ops;
	struct listed listed = {0};
	struct fixture f;
	struct disk none;
	struct error error;

	(void)state;
	set_up(&f);
	ops = f.disk.ops;
	assert_int_equal(ops->open(&f.disk, "missing", O_RDONLY), -ENOENT);
	assert_int_equal(ops->close(&f.disk, 999), -EBADF);
	assert_int_equal(ops->read(&f.disk, 999, &error, 1, 0), -EBADF);
	assert_int_equal(ops->sync(&f.disk, 999), -EBADF);
	assert_int_equal(ops->truncate(&f.disk, 999, 0), -EBADF);
	assert_int_equal(ops->rename(&f.disk, "missing", "other"), -ENOENT);
	assert_int_equal(ops->remove(&f.disk, "missing"), -ENOENT);
	assert_int_equal(ops->make_directory(&f.disk, "missing/d"), -ENOENT);
	assert_int_equal(ops->sync_directory(&f.disk, "missing"), -ENOENT);
	assert_int_equal(ops->list(&f.disk, "missing", on_entry, &listed), -ENOENT);
	assert_int_equal(disk_posix_open("/proc/missing/state", &none, &error), -ENOENT);
	assert_string_equal(error.code, "state-dir");
	assert_true(error.hint[0] != '\0');
	/* Nobody else's file is followed into. */
	assert_int_equal(symlinkat("/etc/passwd", f.disk.dir_fd, "link"), 0);
	assert_int_equal(ops->open(&f.disk, "link", O_WRONLY | O_APPEND), -ELOOP);
	assert_int_equal(ops->remove(&f.disk, "link"), 0);
	tear_down(&f);
}

static void test_interrupted_and_failing_calls(void **state)
{
	const struct disk_ops *ops;
	struct listed listed = {0};
	struct fixture f;
	char bytes[4];
	int file;

	(void)state;
	set_up(&f);
	ops = f.disk.ops;
	file = ops->open(&f.disk, "file", O_RDWR | O_CREAT);
	write_errno = EINTR;
	assert_int_equal(ops->write(&f.disk, file, "0123", 4), 4);
	read_errno = EINTR;
	assert_int_equal(ops->read(&f.disk, file, bytes, 4, 0), 4);
	read_errno = EIO;
	assert_int_equal(ops->read(&f.disk, file, bytes, 4, 0), -EIO);
	write_errno = EIO;
	assert_int_equal(ops->write(&f.disk, file, "0123", 4), -EIO);
	fsync_errno = EIO;
	assert_int_equal(ops->sync_directory(&f.disk, "."), -EIO);
	/* What cannot be listed whole is not taken for a directory with less in it. */
	entry_errno = EIO;
	assert_int_equal(ops->list(&f.disk, ".", on_entry, &listed), -EIO);
	ops->close(&f.disk, file);
	assert_int_equal(ops->remove(&f.disk, "file"), 0);
	tear_down(&f);
}

/* An empty one goes, as a file does; one that has something in it stays. */
static void test_remove_a_directory(void **state)
{
	const struct disk_ops *ops;
	struct fixture f;

	(void)state;
	set_up(&f);
	ops = f.disk.ops;
	assert_int_equal(ops->make_directory(&f.disk, "d"), 0);
	assert_int_equal(ops->close(&f.disk, ops->open(&f.disk, "d/file", O_WRONLY | O_CREAT)), 0);
	assert_int_equal(ops->remove(&f.disk, "d"), -ENOTEMPTY);
	assert_int_equal(ops->remove(&f.disk, "d/file"), 0);
	assert_int_equal(ops->remove(&f.disk, "d"), 0);
	assert_int_equal(ops->remove(&f.disk, "d"), -ENOENT);
	tear_down(&f);
}

/* The directory, and the spools' in it: root may write both. */
static void test_directory_of_another_daemon(void **state)
{
	struct fixture f;
	struct disk other;
	struct error error;
	int fd;

	(void)state;
	set_up(&f);
	/* Whoever can only look at the directory can lock that. */
	fd = open(f.path, O_RDONLY | O_DIRECTORY);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(disk_posix_open(f.path, &other, &error), -EBUSY);
	assert_string_equal(error.code, "state-dir-in-use");
	assert_true(*error.hint);
	disk_posix_close(&f.disk);
	assert_int_equal(disk_posix_open(f.path, &f.disk, &error), 0);
	close(fd);
	tear_down(&f);
}

static void test_directories_of_somebody_else(void **state)
{
	char text[256];
	struct fixture f;
	struct disk none;
	struct error error;

	(void)state;
	if (geteuid() != 0)
		skip();
	set_up(&f);
	assert_int_equal(f.disk.ops->make_directory(&f.disk, "spool"), 0);
	assert_int_equal(chown(f.path, 65534, 0), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(disk_posix_open(f.path, &none, &error), -EACCES);
	assert_string_equal(error.code, "state-dir");
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(fchownat(f.disk.dir_fd, "spool", 65534, 0, 0), 0);
	assert_int_equal(seteuid(65534), 0);
	/* What root had locked before stays root's: the message has the file, its owner, and what mends it. */
	assert_int_equal(disk_posix_open(f.path, &none, &error), -EACCES);
	assert_string_equal(error.code, "state-dir");
	snprintf(text, sizeof(text), "%s/lock, which belongs to the user root (uid 0): Permission denied", f.path);
	assert_non_null(strstr(error.what, text));
	assert_non_null(strstr(error.what, "(uid 65534) cannot open"));
	snprintf(text, sizeof(text), "`chown -R 65534 %s`", f.path);
	assert_non_null(strstr(error.hint, text));
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(fchownat(f.disk.dir_fd, "lock", 65534, 0, 0), 0);
	assert_int_equal(flock(f.disk.lock_fd, LOCK_UN), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(disk_posix_open(f.path, &none, &error), 0);
	disk_posix_close(&none);
	assert_int_equal(none.dir_fd, -1);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(chown(f.path, 0, 0), 0);
	assert_int_equal(seteuid(65534), 0);
	assert_int_equal(disk_posix_open(f.path, &none, &error), -EACCES);
	assert_int_equal(seteuid(0), 0);
	assert_int_equal(f.disk.ops->remove(&f.disk, "spool"), 0);
	tear_down(&f);
}

/* ext4 says 0 of a sync whose transaction it has just thrown away, and that it is dead when asked again. */
static void test_sync_of_an_aborted_journal(void **state)
{
	static const struct {
		int confirm, sync;
	} cases[] = {{EROFS, -EROFS}, {EIO, -EIO}, {EOPNOTSUPP, 0}, {ENOSPC, 0}, {0, 0}};
	struct fixture f;
	struct stat about;
	int file;

	(void)state;
	set_up(&f);
	file = f.disk.ops->open(&f.disk, "file", O_WRONLY | O_CREAT | O_APPEND);
	assert_int_equal(f.disk.ops->write(&f.disk, file, "0123", 4), 4);
	confirms = 0;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		confirm_errno = cases[i].confirm;
		assert_int_equal(f.disk.ops->sync(&f.disk, file), cases[i].sync);
		assert_int_equal(confirms, i + 1);
	}
	/* What failed by itself is not asked about; and the question changes nothing. */
	assert_int_equal(f.disk.ops->sync(&f.disk, 999), -EBADF);
	assert_int_equal(confirms, sizeof(cases) / sizeof(cases[0]));
	assert_int_equal(fstat(file, &about), 0);
	assert_int_equal(about.st_size, 4);
	f.disk.ops->close(&f.disk, file);
	assert_int_equal(f.disk.ops->remove(&f.disk, "file"), 0);
	tear_down(&f);
}

/* ---- The thread ------------------------------------------------------------------------------ */

#define JOBS 100

struct numbered {
	struct disk_job job;
	unsigned number;
	bool ran, again;
};

static unsigned next_run, next_done;
static struct disk_thread *serving;

static void on_run(struct disk_job *job, struct disk *disk)
{
	struct numbered *mine = (struct numbered *)job;

	assert_non_null(disk->ops);
	assert_int_equal(mine->number, next_run++);
	mine->ran = true;
}

static void on_done(struct disk_job *job)
{
	struct numbered *mine = (struct numbered *)job;

	assert_true(mine->ran);
	assert_int_equal(mine->number, next_done++);
	if (!mine->again)
		return;
	mine->again = false;
	mine->number += JOBS;
	disk_thread_submit(serving, job);
}

static void run_jobs(bool threaded, bool settle)
{
	static struct numbered job[JOBS];
	struct event_base *base = event_base_new();
	struct fixture f;
	struct error error;

	set_up(&f);
	next_run = next_done = 0;
	assert_int_equal(disk_thread_create(base, &f.disk, threaded, &serving, &error), 0);
	assert_ptr_equal(disk_thread_disk(serving)->ops, f.disk.ops);
	for (unsigned i = 0; i < JOBS; i++) {
		job[i] = (struct numbered){.number = i, .again = true};
		job[i].job.run = on_run;
		job[i].job.done = on_done;
		disk_thread_submit(serving, &job[i].job);
	}
	assert_int_equal(next_done, 0);
	if (settle) {
		disk_thread_settle(serving);
		assert_int_equal(next_done, 2 * JOBS);
	} else {
		while (next_done < 2 * JOBS)
			event_base_loop(base, EVLOOP_ONCE);
	}
	disk_thread_destroy(serving);
	assert_int_equal(next_done, 2 * JOBS);
	event_base_free(base);
	tear_down(&f);
}

static void test_jobs(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 4; i++)
		run_jobs(i & 1, i & 2);
	disk_thread_destroy(NULL);
}

static bool job_blocks;

static void on_look_at_signals(struct disk_job *job, struct disk *disk)
{
	sigset_t blocked;

	(void)job, (void)disk;
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	job_blocks = sigismember(&blocked, SIGTERM) && sigismember(&blocked, SIGHUP);
}

static void on_looked(struct disk_job *job)
{
	(void)job;
}

static void test_signals_are_the_main_threads(void **state)
{
	struct disk_job job = {.run = on_look_at_signals, .done = on_looked};
	struct event_base *base = event_base_new();
	sigset_t blocked;
	struct fixture f;
	struct error error;

	(void)state;
	set_up(&f);
	assert_int_equal(disk_thread_create(base, &f.disk, true, &serving, &error), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &blocked);
	assert_false(sigismember(&blocked, SIGTERM) || sigismember(&blocked, SIGHUP));
	disk_thread_submit(serving, &job);
	disk_thread_settle(serving);
	assert_true(job_blocks);
	disk_thread_destroy(serving);
	event_base_free(base);
	tear_down(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_failures),
		cmocka_unit_test(test_interrupted_and_failing_calls),
		cmocka_unit_test(test_remove_a_directory),
		cmocka_unit_test(test_directory_of_another_daemon),
		cmocka_unit_test(test_directories_of_somebody_else),
		cmocka_unit_test(test_sync_of_an_aborted_journal),
		cmocka_unit_test(test_jobs),
		cmocka_unit_test(test_signals_are_the_main_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
