/*
 * gzip: a text compressed, quickly rather than well. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_BASE_GZIP_H
#define RINGTAIL_DAEMON_BASE_GZIP_H

#include <stddef.h>
#include <stdint.h>

/* Into allocated bytes, the caller's. -ENOMEM, -EIO. */
int gzip_compress(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes);

/* What gzip_compress() made, undone: its end is believed when it says how much that is. */
int gzip_undo(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes);

#endif
