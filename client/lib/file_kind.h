/*
 * file_kind: what a file that is not ours looks like, from its first bytes.
 */
#ifndef RINGTAIL_CLIENT_LIB_FILE_KIND_H
#define RINGTAIL_CLIENT_LIB_FILE_KIND_H

#include <stddef.h>
#include <stdint.h>

/* "gzip data", "text", ... for a message: `it looks like %s`. Never NULL. */
const char *file_kind_name(const uint8_t *bytes, size_t n);

#endif
