/*
 * json_text: a text as JSON has it, which does nothing to whoever shows it: what is not printable is \uXXXX.
 * Any thread.
 */
#ifndef RINGTAIL_DAEMON_BASE_JSON_TEXT_H
#define RINGTAIL_DAEMON_BASE_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* With its quotes. At most `max` bytes come of it, and then "...". */
void json_put_text(FILE *out, const char *text, size_t max);

#endif
