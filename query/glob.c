#include "query/glob.h"

#include <string.h>

/*
 * Whether `c` is in the set that begins after `[`; *end is where the pattern goes on. A set without
 * its `]` is no set: NULL in *end.
 */
static bool in_set(const char *set, unsigned char c, const char **end)
{
	bool negated = *set == '!' || *set == '^';
	bool found = false;
	const char *p = set + negated;

	do {
		unsigned char low = *p;

		if (!low) {
			*end = NULL;
			return false;
		}
		if (p[1] == '-' && p[2] && p[2] != ']') {
			found |= low <= c && c <= (unsigned char)p[2];
			p += 3;
		} else {
			found |= low == c;
			p++;
		}
	} while (*p != ']');	/* a ] that comes first is a member */
	*end = p + 1;
	return found != negated;
}

/* Whether `c` matches the one-character pattern at `pattern`, which goes on at *next. */
static bool match_one(const char *pattern, unsigned char c, const char **next)
{
	const char *end;
	bool match;

	*next = pattern + 1;
	switch (*pattern) {
	case '\0':
		return false;
	case '?':
		return true;
	case '[':
		match = in_set(pattern + 1, c, &end);
		if (!end)
			return c == '[';
		*next = end;
		return match;
	case '\\':
		if (pattern[1]) {
			*next = pattern + 2;
			return c == (unsigned char)pattern[1];
		}
		return c == '\\';
	default:
		return c == (unsigned char)*pattern;
	}
}

/* Only the last `*` ever needs another try: what an earlier one took cannot matter any more. */
bool glob_match(const char *pattern, const char *text, size_t bytes)
{
	const char *star = NULL;
	size_t star_at = 0;
	size_t at = 0;

	while (at < bytes || *pattern) {
		const char *next;

		if (*pattern == '*') {
			star = ++pattern;
			star_at = at;
		} else if (at < bytes && match_one(pattern, text[at], &next)) {
			pattern = next;
			at++;
		} else if (star && star_at < bytes) {
			pattern = star;
			at = ++star_at;
		} else {
			return false;
		}
	}
	return true;
}

/* Behind a `*` anything goes: what counts is the pattern before the first. */
bool glob_may_match(const char *pattern, const char *text, size_t bytes)
{
	for (size_t at = 0; at < bytes && *pattern != '*'; at++)
		if (!match_one(pattern, (unsigned char)text[at], &pattern))
			return false;
	return true;
}

/* Before a `*` anything goes: what counts is the pattern behind the last. */
bool glob_may_match_end(const char *pattern, const char *text, size_t bytes)
{
	const char *end = pattern;
	bool open = false;
	size_t n = 0;		/* characters that the end matches */

	while (*pattern) {
		bool star = *pattern == '*';

		match_one(pattern, 0, &pattern);
		n = star ? 0 : n + 1;
		if (star)
			end = pattern;
		open |= star;
	}
	if (!open && n <= bytes)
		return false;
	for (; n > bytes; n--)
		match_one(end, 0, &end);
	return glob_match(end, text + bytes - n, n);
}

bool glob_ends_open(const char *pattern)
{
	bool open = false;

	while (*pattern) {
		open = *pattern == '*';
		match_one(pattern, 0, &pattern);
	}
	return open;
}

bool glob_is_pattern(const char *pattern)
{
	return strpbrk(pattern, "*?[\\") != NULL;
}
