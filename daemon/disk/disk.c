#include "daemon/disk/disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOCK_NAME	"lock"	/* in the state directory: one daemon keeps it locked */

static int posix_open(struct disk *disk, const char *path, int flags)
{
	int fd = openat(disk->dir_fd, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);

	return fd < 0 ? -errno : fd;
}

static int posix_close(struct disk *disk, int file)
{
	(void)disk;
	return close(file) < 0 ? -errno : 0;
}

static ssize_t posix_read(struct disk *disk, int file, void *bytes, size_t n, uint64_t offset)
{
	ssize_t got;

	(void)disk;
	do
		got = pread(file, bytes, n, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : got;
}

static ssize_t posix_write(struct disk *disk, int file, const void *bytes, size_t n)
{
	ssize_t put;

	(void)disk;
	do
		put = write(file, bytes, n);
	while (put < 0 && errno == EINTR);
	return put < 0 ? -errno : put;
}

/*
 * When ext4 aborts its journal, the transaction that was running ends without being written, and from
 * then until the file system is marked read-only a sync that waits for that transaction finds it ended
 * and says 0 (jbd2_complete_transaction(); docs/reliability.md). But no new transaction begins on an
 * aborted journal: so if this one may, which asks for the space of a byte that is there already, the
 * journal was whole when the sync said so. What else may fail here says nothing about the sync.
 */
static int confirm_sync(int file)
{
	if (fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 1) == 0 || (errno != EROFS && errno != EIO))
		return 0;
	return -errno;
}

static int posix_sync(struct disk *disk, int file)
{
	(void)disk;
	return fdatasync(file) < 0 ? -errno : confirm_sync(file);
}

static int posix_truncate(struct disk *disk, int file, uint64_t bytes)
{
	(void)disk;
	return ftruncate(file, (off_t)bytes) < 0 ? -errno : 0;
}

static int posix_rename(struct disk *disk, const char *from, const char *to)
{
	return renameat(disk->dir_fd, from, disk->dir_fd, to) < 0 ? -errno : 0;
}

static int posix_remove(struct disk *disk, const char *path)
{
	if (unlinkat(disk->dir_fd, path, 0) == 0)
		return 0;
	return errno == EISDIR && unlinkat(disk->dir_fd, path, AT_REMOVEDIR) == 0 ? 0 : -errno;
}

static int posix_make_directory(struct disk *disk, const char *path)
{
	if (mkdirat(disk->dir_fd, path, 0700) == 0)
		return 0;
	return errno == EEXIST ? 0 : -errno;
}

static int open_directory(struct disk *disk, const char *path)
{
	int fd = openat(disk->dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int posix_sync_directory(struct disk *disk, const char *path)
{
	int fd = open_directory(disk, path), err = 0;

	if (fd < 0)
		return fd;
	if (fsync(fd) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int posix_list(struct disk *disk, const char *path, disk_entry *entry, void *context)
{
	int fd = open_directory(disk, path), err;
	struct dirent *name;
	DIR *directory;

	if (fd < 0)
		return fd;
	directory = fdopendir(fd);
	if (!directory) {
		err = -errno;
		close(fd);
		return err;
	}
	errno = 0;
	while ((name = readdir(directory))) {
		struct stat about;

		if (strcmp(name->d_name, ".") != 0 && strcmp(name->d_name, "..") != 0 &&
		    fstatat(fd, name->d_name, &about, AT_SYMLINK_NOFOLLOW) == 0)
			entry(context, name->d_name, (uint64_t)about.st_size);
		errno = 0;
	}
	err = -errno;
	closedir(directory);
	return err;
}

static const struct disk_ops posix_ops = {
	.open = posix_open,
	.close = posix_close,
	.read = posix_read,
	.write = posix_write,
	.sync = posix_sync,
	.truncate = posix_truncate,
	.rename = posix_rename,
	.remove = posix_remove,
	.make_directory = posix_make_directory,
	.sync_directory = posix_sync_directory,
	.list = posix_list,
};

/* Or not there: then it can be made. */
static bool is_writable(int dir_fd, const char *name)
{
	return faccessat(dir_fd, name, W_OK | X_OK, AT_EACCESS) == 0 || errno == ENOENT;
}

static int refuse_unwritable(const char *path, int err, struct error *error)
{
	const struct passwd *user = getpwuid(geteuid());
	char *full = realpath(path, NULL);

	error_set(error, err, "state-dir", "the user %s (uid %u) cannot write to the state directory %s: "
		  "%s", user ? user->pw_name : "of no name", (unsigned)geteuid(), full ? full : path,
		  strerror(err));
	error_hint(error, "give it, and what is in it, to that user; or give another with --state-dir or "
		   "--user");
	free(full);
	return -err;
}

/* The file stays when its daemon ends: one that ran as root leaves a file that other users cannot open. */
static int refuse_lock(int dir_fd, const char *path, int err, struct error *error)
{
	const struct passwd *user = getpwuid(geteuid());
	char *full = realpath(path, NULL), name[64], owner[160] = "";
	struct stat file;

	snprintf(name, sizeof(name), "%s", user ? user->pw_name : "of no name");
	if (fstatat(dir_fd, LOCK_NAME, &file, AT_SYMLINK_NOFOLLOW) == 0) {
		user = getpwuid(file.st_uid);
		snprintf(owner, sizeof(owner), ", which belongs to the user %.60s (uid %u)", user ? user->pw_name : "of no name",
			 (unsigned)file.st_uid);
	}
	error_set(error, err, "state-dir", "the user %s (uid %u) cannot open the lock of the state directory, %s/%s%s: %s", name,
		  (unsigned)geteuid(), full ? full : path, LOCK_NAME, owner, strerror(err));
	error_hint(error, "if no ringtaild runs with it: `chown -R %u %s`; or choose another directory with --state-dir, or "
		   "another user with --user", (unsigned)geteuid(), full ? full : path);
	free(full);
	return -err;
}

/*
 * *lock stays below 0 where a lock cannot be had: the disk is full, or the file system has no locks. The lock is a file
 * of mode 0600, and not the directory itself, because other users may open the directory and could lock it.
 */
static int take_lock(int dir_fd, int *lock)
{
	int err;

	*lock = openat(dir_fd, LOCK_NAME, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (*lock < 0)
		return errno == ENOSPC || errno == EDQUOT ? 0 : -errno;
	if (flock(*lock, LOCK_EX | LOCK_NB) == 0)
		return 0;
	err = errno == EWOULDBLOCK ? -EBUSY : 0;
	close(*lock);
	*lock = -1;
	return err;
}

int disk_posix_open(const char *path, struct disk *disk, struct error *error)
{
	int fd, lock = -1, err;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		goto fail;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		goto fail;
	if (!(is_writable(fd, ".") && is_writable(fd, "spool"))) {
		err = refuse_unwritable(path, errno, error);
		close(fd);
		return err;
	}
	err = take_lock(fd, &lock);
	if (!err) {
		*disk = (struct disk){.ops = &posix_ops, .dir_fd = fd, .lock_fd = lock};
		return 0;
	}
	if (err != -EBUSY)
		err = refuse_lock(fd, path, -err, error);
	close(fd);
	if (err != -EBUSY)
		return err;
	error_set(error, EBUSY, "state-dir-in-use", "another ringtaild uses the state directory %s", path);
	error_hint(error, "stop that one, or choose another with --state-dir");
	return -EBUSY;

fail:
	err = errno;
	error_set(error, err, "state-dir", "cannot open the state directory %s: %s", path,
		  strerror(err));
	error_hint(error, "create it (mode 0700) for the user that ringtaild runs as, or choose "
		   "another with --state-dir");
	return -err;
}

void disk_posix_close(struct disk *disk)
{
	if (disk->ops && disk->dir_fd >= 0)
		close(disk->dir_fd);
	/* The file stays: another daemon may have opened it, and would then lock a file that a third one does not find. */
	if (disk->ops && disk->lock_fd >= 0)
		close(disk->lock_fd);
	*disk = (struct disk){.dir_fd = -1, .lock_fd = -1};
}

/* ---- Whole files --------------------------------------------------------------------------- */

int disk_file_read(struct disk *disk, const char *path, size_t bytes_max, char **text,
		   size_t *bytes)
{
	int file = disk->ops->open(disk, path, O_RDONLY);
	ssize_t got;

	*text = NULL;
	*bytes = 0;
	if (file < 0)
		return file;
	*text = malloc(bytes_max + 1);
	got = *text ? 1 : -ENOMEM;
	while (got > 0 && *bytes < bytes_max) {
		got = disk->ops->read(disk, file, *text + *bytes, bytes_max - *bytes, *bytes);
		*bytes += got > 0 ? (size_t)got : 0;
	}
	disk->ops->close(disk, file);
	if (got < 0) {
		free(*text);
		*text = NULL;
		return (int)got;
	}
	(*text)[*bytes] = '\0';
	return 0;
}

int disk_write_all(struct disk *disk, int file, const uint8_t *bytes, size_t n, uint64_t *written)
{
	while (n) {
		ssize_t put = disk->ops->write(disk, file, bytes, n);

		if (put <= 0)
			return put ? (int)put : -EIO;
		*written += (uint64_t)put;
		bytes += put;
		n -= (size_t)put;
	}
	return 0;
}

int disk_file_replace(struct disk *disk, const char *path, const char *path_new, const char *text,
		      size_t bytes)
{
	int file = disk->ops->open(disk, path_new, O_WRONLY | O_CREAT | O_TRUNC), err, closed;
	uint64_t written = 0;

	if (file < 0)
		return file;
	err = disk_write_all(disk, file, (const uint8_t *)text, bytes, &written);
	if (!err)
		err = disk->ops->sync(disk, file);
	closed = disk->ops->close(disk, file);
	if (!err)
		err = closed;
	if (!err)
		err = disk->ops->rename(disk, path_new, path);
	return err ? err : disk->ops->sync_directory(disk, ".");
}
