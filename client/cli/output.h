/*
 * output: the file that -w names.
 */
#ifndef RINGTAIL_CLIENT_CLI_OUTPUT_H
#define RINGTAIL_CLIENT_CLI_OUTPUT_H

#include "client/lib/ringtail.h"

/*
 * Opens it for writing, as its owner's alone if it is new, and leaves what is in it. NULL: stdout. A terminal is
 * refused for the reason `not_text`, which begins the sentence, with the hint; NULL: it is not. The
 * descriptor, or -errno.
 */
int output_open(const char *path, const char *not_text, const char *hint, struct ringtail_error *error);

/* Empties it; a pipe or a device needs that not. 0 or an errno. */
int output_empty(int fd);

/*
 * The name of a new, empty file beside `path`, its owner's alone, which takes the place of `path` when it is whole.
 * To be freed; NULL with *error.
 */
char *output_temporary(const char *path, struct ringtail_error *error);

#endif
