/*
 * tracepoint_probe: a tracepoint's record as a probe: its fields as words and attachments.
 *
 * A field that is a number becomes one word. An array of up to TRACEPOINT_INLINE_BYTES_MAX becomes as many
 * words as it takes, while the probe's words last; a longer one, and what the record only locates, becomes
 * an attachment. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_TRACEPOINT_PROBE_H
#define RINGTAIL_DAEMON_SOURCE_TRACEPOINT_PROBE_H

#include <stdint.h>

#include "daemon/source/tracepoint_format.h"
#include "kmod/bpf/request.h"
#include "proto/ringtail.pb-c.h"

#define TRACEPOINT_INLINE_BYTES_MAX 32

/* Where one word of the payload comes from. */
struct tracepoint_word {
	uint16_t offset;		/* in the kernel's record */
	uint8_t bytes;			/* 1 to 8 */
	bool is_signed;			/* 1, 2, 4 or 8 bytes */
	bool is_location;		/* bytes << 16 | place: the word is the bytes */
};

struct tracepoint_plan {
	unsigned words;
	struct tracepoint_word word[PROBE_FIELDS_MAX];
	unsigned texts;
	uint32_t text[MADE_TEXTS_MAX];	/* made_text_make() */
};

/*
 * The probe, to be freed with free_unpacked(), and how its words come from the record; `plan` may be NULL.
 * With its print format if `print`. -E2BIG: the record has more than a probe may; -ENOMEM.
 */
int tracepoint_probe_create(const struct tracepoint_format *format, const char *system,
			    const char *name, bool print, Ringtail__V1__Probe **probe,
			    struct tracepoint_plan *plan);

#endif
