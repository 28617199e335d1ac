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
	int dir_fd;			/* disk_posix's */
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

/* The real one, below `path`, which is made if it is missing (0700). *error says what is wrong. */
int disk_posix_open(const char *path, struct disk *disk, struct error *error);
void disk_posix_close(struct disk *disk);

#endif
