/*
 * secret_file: a file that only we may read: keys, tokens. Opened once and judged by what was opened,
 * so that nobody can swap it in between. In: a path; out: a descriptor, or why not. Any thread.
 */
#ifndef RINGTAIL_DAEMON_HOST_SECRET_FILE_H
#define RINGTAIL_DAEMON_HOST_SECRET_FILE_H

#include <sys/types.h>

#include "query/error.h"

/*
 * The file, open to be read. It has to be a regular file of ours or of root's, not to be written by
 * our group, and closed to all others: else -EACCES. `option` names it in *error.
 */
int secret_file_open(const char *path, const char *option, int *fd, struct error *error);

/* The same for whoever is about to become that user: the file may be theirs, too. */
int secret_file_open_for(uid_t user, const char *path, const char *option, int *fd,
			 struct error *error);

#endif
