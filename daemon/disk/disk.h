/*
 * disk: the few things that are done to files, behind one table, so that the same code runs above a
 * disk that fails, tears and forgets (tests/sim, tests/unit/daemon/faulty_disk.h).
 *
 * Paths are relative to the state directory and have no "..". Blocking: the disk thread's alone.
 * Every call returns -errno where it fails; a short write is a write.
 */
#ifndef RINGTAIL_DAEMON_DISK_DISK_H
#define RINGTAIL_DAEMON_DISK_DISK_H

#include <stdint.h>
#include <stddef.h>
#include <sys/types.h>

#include "query/error.h"

struct disk {
	const struct disk_ops *ops;
	int dir_fd, lock_fd;		/* disk_posix's */
};

/* One name in a directory, and how long the file is. */
typedef void disk_entry(void *context, const char *name, uint64_t bytes);

struct disk_ops {
	/* Files are made with mode 0600, directories with 0700. flags: O_RDONLY, or O_WRONLY with
	 * O_CREAT, O_EXCL, O_TRUNC, O_APPEND; without the last, the first write is at the file's
	 * beginning. Returns a handle. */
	int (*open)(struct disk *disk, const char *path, int flags);
	int (*close)(struct disk *disk, int file);
	ssize_t (*read)(struct disk *disk, int file, void *bytes, size_t n, uint64_t offset);
	ssize_t (*write)(struct disk *disk, int file, const void *bytes, size_t n);
	int (*sync)(struct disk *disk, int file);
	int (*truncate)(struct disk *disk, int file, uint64_t bytes);
	int (*rename)(struct disk *disk, const char *from, const char *to);
	int (*remove)(struct disk *disk, const char *path);	/* a file, or an empty directory */
	int (*make_directory)(struct disk *disk, const char *path);	/* 0 if it is there */
	int (*sync_directory)(struct disk *disk, const char *path);
	int (*list)(struct disk *disk, const char *path, disk_entry *entry, void *context);
};

/*
 * The real one, below `path`, which is made if it is missing (0700). *error says what is wrong. It keeps no state:
 * any thread.
 */
int disk_posix_open(const char *path, struct disk *disk, struct error *error);
void disk_posix_close(struct disk *disk);

/* Above any disk: small files that are read as a whole and replaced as a whole. */

/* Writes all of it; adds to *written what came to be written. 0 or -errno. */
int disk_write_all(struct disk *disk, int file, const uint8_t *bytes, size_t n, uint64_t *written);

/*
 * What it holds, at most bytes_max of that, and a NUL behind; free() it. 0, or -errno with *text NULL:
 * -ENOENT where there is none.
 */
int disk_file_read(struct disk *disk, const char *path, size_t bytes_max, char **text,
		   size_t *bytes);

/*
 * All of it on disk under that name, or what was there before: it is written as `path_new` first. After
 * an error, nobody knows which of the two a power cut leaves.
 */
int disk_file_replace(struct disk *disk, const char *path, const char *path_new, const char *text,
		      size_t bytes);

#endif
