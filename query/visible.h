/*
 * visible: what of text from elsewhere may reach a terminal or a log, and what must not: all that acts
 * on whoever shows it, and is not shown. One function decides, visible_next(); the others are built
 * on it. Pure; any thread.
 *
 * Hidden are the controls C0 (tab and newline too: text is of one line), DEL and C1, the separators of
 * lines and paragraphs, what turns the direction of text (U+061C, U+200E, U+200F, U+202A to U+202E,
 * U+2066 to U+2069), and bytes that are not UTF-8.
 */
#ifndef RINGTAIL_QUERY_VISIBLE_H
#define RINGTAIL_QUERY_VISIBLE_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum visible {
	VISIBLE_SHOWN,		/* a character as it is */
	VISIBLE_HIDDEN,		/* a character that acts: *code, below U+10000 */
	VISIBLE_NO_TEXT,	/* a byte that is not UTF-8: *code is its number */
};

/* What stands at the start of n > 0 bytes; *bytes is how many it takes. */
enum visible visible_next(const void *at, size_t n, size_t *bytes, uint32_t *code);

/* How many bytes at the start may be shown as they are: all up to the first that is hidden. */
size_t visible_span(const void *text, size_t n);

/* Whether all of it may be shown as it is. */
bool visible_is_all(const char *text);

/* In place: a '?' for each that is hidden. */
void visible_replace(char *text);

/* The same of a copy, with its terminator, cut between two characters at to_bytes > 0. Its length. */
size_t visible_copy(char *to, size_t to_bytes, const void *text, size_t n);

/* The same to a stream. */
void visible_put(FILE *to, const char *text);

/* The same of every string in a message, and in those inside it. */
void visible_replace_message(ProtobufCMessage *message);

#endif
