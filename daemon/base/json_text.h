/*
 * json_text: a text as JSON has it, which does nothing to whoever shows it (what is not printable is \uXXXX), and a
 * time. In: bytes that anybody may have chosen. Out: ASCII and printable UTF-8, to a stream. Any thread.
 */
#ifndef RINGTAIL_DAEMON_BASE_JSON_TEXT_H
#define RINGTAIL_DAEMON_BASE_JSON_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* With its quotes. At most `max` bytes come of it, and then "...". */
void json_put_text(FILE *out, const char *text, size_t max);

/* "2023-11-14T22:13:20.123456Z", with its quotes. */
void json_put_time(FILE *out, uint64_t realtime_ns);

#endif
