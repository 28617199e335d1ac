/*
 * failure: fills a ringtail_error, and prints it for a person. struct error is that of query/, which daemon and
 * client share; struct ringtail_error is the library's own, whose layout its callers are compiled with.
 */
#ifndef RINGTAIL_CLIENT_LIB_FAILURE_H
#define RINGTAIL_CLIENT_LIB_FAILURE_H

#include <stdio.h>

#include "client/lib/ringtail.h"
#include "query/error.h"

/*
 * Sets *error (unless NULL) and returns -err, so that `return failure_set(...)` ends a function. What is
 * hidden (query/visible.h) in code, what and hint becomes '?': whoever has the error may show it.
 */
__attribute__((format(printf, 4, 5)))
int failure_set(struct ringtail_error *error, int err, const char *code, const char *format, ...);

/* The same of what query/ refuses. Returns err, which is negative. */
int failure_of(struct ringtail_error *error, int err, const struct error *from);

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
