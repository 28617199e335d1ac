/*
 * http_gzip: an answer's body compressed, for who says that it may be: a page of metrics is a tenth
 * of its size then. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_GZIP_H
#define RINGTAIL_DAEMON_HTTP_GZIP_H

#include <stdbool.h>
#include <stddef.h>

/* Whether an Accept-Encoding names gzip, and not only to refuse it (q=0). */
bool http_gzip_is_asked_for(const char *accept_encoding);

/* Into an allocated text. -ENOMEM. */
int http_gzip(const char *in, size_t in_bytes, char **out, size_t *out_bytes);

#endif
