/*
 * nearest: the known word that a mistyped one was probably meant to be.
 */
#ifndef RINGTAIL_CLIENT_CLI_NEAREST_H
#define RINGTAIL_CLIENT_CLI_NEAREST_H

#include <stddef.h>

/* One of `names`, or NULL when nothing is near. Words over NEAREST_BYTES_MAX are near nothing. */
#define NEAREST_BYTES_MAX 63
const char *nearest_name(const char *word, const char *const *names, size_t n);

#endif
