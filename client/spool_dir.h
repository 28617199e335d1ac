/*
 * spool_dir: the segments of a spool directory as one stream of frames, in their order.
 *
 * A thread of its own checks each frame and sends it into a socket, from which it is read like any
 * recording. Of a segment that is damaged comes what is before the damage, and stderr says so; one
 * that was being written may end inside a frame.
 */
#ifndef RINGTAIL_CLIENT_SPOOL_DIR_H
#define RINGTAIL_CLIENT_SPOOL_DIR_H

#include <stdbool.h>
#include <stdio.h>

#include "client/ringtail.h"

struct spool_dir;

/* *fd is the caller's. -errno with *error: not a directory, or one without segments. */
int spool_dir_open(const char *path, FILE *messages, struct spool_dir **dir, int *fd,
		   struct ringtail_error *error);

/* After the fd is closed. Whether all was well with what was read. */
bool spool_dir_close(struct spool_dir *dir);

#endif
