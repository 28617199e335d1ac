/*
 * tracepoint_probe: what tracefs says about the record of one tracepoint, and that record as a probe: its fields
 * as words and attachments.
 *
 * In: the text of its `format` file. Out: the same as a table that points into the text; and of that, the probe.
 * A field that is a number becomes one word. An array of up to TRACEPOINT_INLINE_BYTES_MAX becomes as many
 * words as it takes, while the probe's words last; a longer one, and what the record only locates, becomes
 * an attachment. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_TRACEPOINT_PROBE_H
#define RINGTAIL_DAEMON_SOURCE_TRACEPOINT_PROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "kmod/bpf/request.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define TRACEPOINT_INLINE_BYTES_MAX 32

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

enum tracepoint_word_of {
	WORD_OF_RECORD,			/* at `offset` of the kernel's record, or of the registers */
	WORD_NUMBER,			/* `number` itself */
	WORD_OF_MEMORY,			/* a program's: at `number` + register (+ register << shift) */
	WORD_OF_MEMBER,			/* behind what a tracepoint is passed at `offset`: at `number` of what that */
					/* points to, or what the pointer at `index` there does */
	WORD_OF_ADDRESS,		/* where that is */
	WORD_OF_CALL,			/* of a kernel's function: the argument, or what it returns, at `offset` */
	WORD_OF_CALL_RAW,		/* the same, of a type that the verifier lets nobody load: argument `number`, */
	WORD_OF_RESULT_RAW,		/* what it returns */
};

#define WORD_NO_INDEX	UINT16_MAX

/* Where one word of the payload comes from. */
struct tracepoint_word {
	uint16_t offset;		/* in the kernel's record; of a register among the registers */
	uint8_t bytes;			/* 1 to 8; 0: the word is 0 */
	bool is_signed;			/* 1, 2, 4 or 8 bytes */
	bool is_location;		/* bytes << 16 | place: the word is the bytes */
	uint8_t of;			/* enum tracepoint_word_of */
	uint8_t shift;			/* of WORD_OF_MEMORY: by how many bits the second register is, 0 to 3 */
	uint8_t zero0;
	uint16_t index;			/* the second register's offset, or the pointer's; WORD_NO_INDEX: none */
	uint16_t zero1;
	int32_t number;
};

struct tracepoint_plan {
	unsigned words;
	struct tracepoint_word word[PROBE_FIELDS_MAX];
	unsigned texts;
	uint32_t text[MADE_TEXTS_MAX];	/* made_text_make(); of a kernel's function, of words that are addresses */
	bool of_kernel;			/* the program is one for a function of the kernel */
};

/*
 * The probe, to be freed with free_unpacked(), and how its words come from the record; `plan` may be NULL.
 * With its print format if `print`. -E2BIG: the record has more than a probe may; -ENOMEM.
 */
int tracepoint_probe_create(const struct tracepoint_format *format, const char *system,
			    const char *name, bool print, Ringtail__V1__Probe **probe,
			    struct tracepoint_plan *plan);

#endif
