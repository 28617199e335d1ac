/*
 * cursor_file: how far a client has passed on what it got, so that after any end of it, a crash
 * too, the next one goes on exactly there.
 *
 *	ringtail cursor 1
 *	at BOOTID/EPOCH/CPU:SEQ,...
 *	output 4711
 *
 * `output` is how long the regular file was to which it wrote then: what is behind that was written
 * before the cursor could be saved, comes again, and is cut off.
 */
#ifndef RINGTAIL_CLIENT_CLI_CURSOR_FILE_H
#define RINGTAIL_CLIENT_CLI_CURSOR_FILE_H

#include <stdint.h>

#include "client/lib/ringtail.h"

#define CURSOR_FILE_NO_OUTPUT UINT64_MAX

/* *cursor is malloc'ed, NULL if there is no such file yet. -errno with *error. */
int cursor_file_load(const char *path, char **cursor, uint64_t *output_bytes,
		     struct ringtail_error *error);

/* All of it, or what was there before. -errno with *error. */
int cursor_file_save(const char *path, const char *cursor, uint64_t output_bytes,
		     struct ringtail_error *error);

/* The length of a regular file, CURSOR_FILE_NO_OUTPUT for anything else. */
uint64_t cursor_file_output(int fd);

/* Cuts off what was written after the cursor was saved. */
int cursor_file_cut(int fd, uint64_t output_bytes, struct ringtail_error *error);

#endif
