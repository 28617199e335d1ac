/*
 * tracepoint_format: what tracefs says about the record of one tracepoint, its `format` file.
 *
 * In: the file's text. Out: the same as a table that points into the text. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_TRACEPOINT_FORMAT_H
#define RINGTAIL_DAEMON_SOURCE_TRACEPOINT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "proto/limits.h"

/* Part of a text; not terminated. */
struct tracepoint_span {
	const char *at;
	size_t bytes;
};

enum tracepoint_field_kind {
	TRACEPOINT_SCALAR,
	TRACEPOINT_ARRAY,
	TRACEPOINT_LOCATED,	/* __data_loc: bytes << 16 | place, from the record's start */
	TRACEPOINT_RELATIVE,	/* __rel_loc: the same, from behind this word */
};

struct tracepoint_field {
	struct tracepoint_span name, c_type;	/* of an array, with its brackets */
	enum tracepoint_field_kind kind;
	uint16_t offset, bytes;		/* in the record; it ends at most at TRACEPOINT_RECORD_BYTES_MAX */
	uint8_t element_bytes;		/* of what is no scalar: 1, 2, 4 or 8 */
	bool is_signed;
	bool is_text;			/* an array of char */
};

struct tracepoint_format {
	uint32_t id;
	unsigned fields;
	struct tracepoint_field field[TRACEPOINT_FIELDS_MAX];	/* without those that all have */
	struct tracepoint_span print;	/* behind "print fmt: " */
};

/* -EINVAL: it is no such text, or one that says what cannot be. */
int tracepoint_format_parse(const char *text, size_t bytes, struct tracepoint_format *format);

#endif
