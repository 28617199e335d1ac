/*
 * failure: fills a ringtail_error, and says it to a person.
 */
#ifndef RINGTAIL_CLIENT_LIB_FAILURE_H
#define RINGTAIL_CLIENT_LIB_FAILURE_H

#include <stdio.h>

#include "client/lib/ringtail.h"

/*
 * Sets *error (unless NULL) and returns -err, so that `return failure_set(...)` ends a function. What is
 * hidden (query/visible.h) in code, what and hint becomes '?': whoever has the error may show it.
 */
__attribute__((format(printf, 4, 5)))
int failure_set(struct ringtail_error *error, int err, const char *code, const char *format, ...);

__attribute__((format(printf, 2, 3)))
void failure_hint(struct ringtail_error *error, const char *format, ...);

/* "tracectl: ..." and a newline; what is hidden in it is shown as '?'. */
__attribute__((format(printf, 2, 3)))
void failure_say(FILE *to, const char *format, ...);

/*
 * "tracectl: what", and the hint below it; where the error has a column of `text` (may be NULL), that
 * text too, with a caret under the place.
 */
void failure_print(FILE *to, const struct ringtail_error *error, const char *text);

#endif
