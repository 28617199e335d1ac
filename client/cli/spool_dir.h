/*
 * spool_dir: the segments of a spool directory as one stream of frames, in their order.
 *
 * A thread of its own checks each frame, and what each sealed segment's end says of it, and sends the
 * frames into a socket, from which they are read like any recording. Of a segment that is damaged comes
 * what is before the damage, and stderr says so; one that was being written may end inside a frame.
 *
 * The daemon may be writing it. What it deletes before it was read is told to the intake, which knows
 * how much that was, by the head of a segment of no run, which no daemon writes.
 */
#ifndef RINGTAIL_CLIENT_CLI_SPOOL_DIR_H
#define RINGTAIL_CLIENT_CLI_SPOOL_DIR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "client/lib/ringtail.h"

struct spool_dir;

/*
 * *fd is the caller's. -errno with *error: not a directory, or one without segments; -ENODATA: no
 * segment has come to hold anything yet, as when the daemon has just been started.
 */
int spool_dir_open(const char *path, FILE *messages, struct spool_dir **dir, int *fd,
		   struct ringtail_error *error);

/* Of all segments that it had when it was opened. */
uint64_t spool_dir_bytes(const struct spool_dir *dir);

/* After the fd is closed. Whether all was well with what was read. */
bool spool_dir_close(struct spool_dir *dir);

#endif
