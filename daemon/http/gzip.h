/*
 * http_gzip: whether an answer may be compressed: a page of metrics is a fraction of its size then.
 * Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_HTTP_GZIP_H
#define RINGTAIL_DAEMON_HTTP_GZIP_H

#include <stdbool.h>

/* Whether an Accept-Encoding names gzip, and not only to refuse it (q=0). */
bool http_gzip_is_asked_for(const char *accept_encoding);

#endif
