/*
 * out: a buffered writer for lines, made for hundreds of thousands of them a second.
 *
 * Nothing is formatted by printf here. A failed write is remembered and swallows what comes after:
 * callers write on and look at out_error() now and then. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_OUT_H
#define RINGTAIL_CLIENT_CLI_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "client/lib/limits.h"

struct out {
	int fd;
	int error;		/* errno of the write that failed; 0: none did */
	uint64_t column;	/* where the line began, in bytes ever written: out_pad() */
	uint64_t flushed;
	void (*before_write)(void *context);	/* NULL: nothing is to be done then */
	void *context;
	size_t used;
	char buffer[WRITE_BUFFER_BYTES];
};

/* `fd` is borrowed. */
void out_init(struct out *out, int fd);

/* Calls `before` each time before something is written; for who shares a terminal with it. */
void out_set_before_write(struct out *out, void (*before)(void *context), void *context);

/* Writes what is held. 0 or -errno. */
int out_flush(struct out *out);

static inline int out_error(const struct out *out)
{
	return out->error;
}

/* Room for n bytes (at most WRITE_BUFFER_BYTES) in one piece: write there, then out_advance(). */
static inline char *out_room(struct out *out, size_t n)
{
	if (sizeof(out->buffer) - out->used < n)
		out_flush(out);
	return out->buffer + out->used;
}

static inline void out_advance(struct out *out, size_t n)
{
	out->used += n;
}

static inline void out_char(struct out *out, char c)
{
	*out_room(out, 1) = c;
	out_advance(out, 1);
}

/* Any length. */
void out_bytes_long(struct out *out, const char *bytes, size_t n);

static inline void out_bytes(struct out *out, const char *bytes, size_t n)
{
	if (n > 512) {
		out_bytes_long(out, bytes, n);
		return;
	}
	memcpy(out_room(out, n), bytes, n);
	out_advance(out, n);
}

static inline void out_text(struct out *out, const char *text)
{
	out_bytes(out, text, strlen(text));
}

/* A string literal: its length is known. */
#define out_literal(out, literal) out_bytes(out, literal, sizeof(literal) - 1)

void out_u64(struct out *out, uint64_t value);
void out_i64(struct out *out, int64_t value);

/* Exactly `digits` decimal digits of a value that has no more. */
void out_digits(struct out *out, uint64_t value, unsigned digits);

/* "0x1f"; "0644". */
void out_hex(struct out *out, uint64_t value);
void out_octal(struct out *out, uint64_t value);

/* The column counts from here; later, blanks up to `width` columns from here. */
void out_mark(struct out *out);
void out_pad(struct out *out, unsigned width);

/* A thread's name: at most 16 bytes, perhaps terminated; what is hidden is shown as '?'. */
size_t out_comm_bytes(const char comm[16]);
void out_comm(struct out *out, const char comm[16]);

/* Text from elsewhere, of any length; what is hidden (query/visible.h) is shown as '?'. */
void out_visible(struct out *out, const char *text);

/* How many bytes from there on stand for themselves in quotes; others may, which are no ASCII. */
size_t out_plain_span(const char *at, size_t n);

/* ---- JSON ------------------------------------------------------------------------------------ */

/*
 * Bytes of any kind as a JSON string, with its quotes.
 *
 * Text that is visible passes through; what JSON wants escaped is, and so is what is hidden
 * (query/visible.h); a byte that is not part of UTF-8 becomes the character of its number, \u0080 to
 * \u00ff.
 */
void json_quote(struct out *out, const char *bytes, size_t n);

static inline void json_quote_text(struct out *out, const char *text)
{
	json_quote(out, text, strlen(text));
}

/* JSON that another library made: what is hidden can only be in its strings, and is escaped there. */
void json_put(struct out *out, const char *text);

/* ---- Times of day ---------------------------------------------------------------------------- */

/* The traced host's CLOCK_MONOTONIC as a time of day: the text is made once a second of events. */
struct wall_clock {
	uint64_t offset_ns;	/* wall - monotonic, modulo 2^64 */
	uint64_t second;	/* that `text` is of */
	bool utc;
	unsigned text_bytes;
	char text[32];
};

/* utc: "2026-01-31T12:00:00.123456789Z", else local "12:00:00.123456". */
void wall_clock_init(struct wall_clock *clock, bool utc);

/* Both clocks at one moment; for each event, if need be: a moment that changes nothing costs nothing. */
void wall_clock_set(struct wall_clock *clock, uint64_t monotonic_ns, uint64_t realtime_ns);

void wall_clock_print(struct wall_clock *clock, struct out *out, uint64_t monotonic_ns);

#endif
