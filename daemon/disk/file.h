/*
 * disk_file: small files that are read as a whole and replaced as a whole, above any disk. Blocking: for
 * the disk thread, or before there is one.
 */
#ifndef RINGTAIL_DAEMON_DISK_FILE_H
#define RINGTAIL_DAEMON_DISK_FILE_H

#include "daemon/disk/disk.h"

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
