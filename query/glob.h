/*
 * glob: whether a name matches a pattern with `*`, `?`, `[a-z]`, `[!a-z]` and `\` before any of
 * these.
 *
 * One meaning for probes and filters. Unlike fnmatch(3) it takes text that is not terminated, knows
 * no locale, and takes at most pattern x text steps, for patterns come from clients. Pure; any
 * thread.
 */
#ifndef RINGTAIL_QUERY_GLOB_H
#define RINGTAIL_QUERY_GLOB_H

#include <stdbool.h>
#include <stddef.h>

bool glob_match(const char *pattern, const char *text, size_t bytes);

/* Whether it matches the text with something, or nothing, behind it. A true may be too kind to a set that
 * no character is in. */
bool glob_may_match(const char *pattern, const char *text, size_t bytes);

/* Whether it may match a longer text of which this is the end: what is before may be anything. */
bool glob_may_match_end(const char *pattern, const char *text, size_t bytes);

/* Whether the pattern ends with a `*`: then what is behind a text that matches is all the same. */
bool glob_ends_open(const char *pattern);

/* Whether the pattern has any of the special characters; else it matches only itself. */
bool glob_is_pattern(const char *pattern);

#endif
