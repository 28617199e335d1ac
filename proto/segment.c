#include "proto/segment.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "proto/frame.h"

#define DIGITS 16

static const char *const suffixes[] = {
	[SEGMENT_OPEN] = ".open",
	[SEGMENT_SEALED] = ".seg",
	[SEGMENT_BAD] = ".bad",
};

void segment_name_format(char name[SEGMENT_NAME_BYTES], uint64_t sequence,
			 enum segment_state state)
{
	snprintf(name, SEGMENT_NAME_BYTES, "%016" PRIx64 "%s", sequence, suffixes[state]);
}

bool segment_name_parse(const char *name, uint64_t *sequence, enum segment_state *state)
{
	uint64_t value = 0;

	for (unsigned i = 0; i < DIGITS; i++) {
		static const char hex[] = "0123456789abcdef";
		const char *digit = name[i] ? strchr(hex, name[i]) : NULL;

		if (!digit)
			return false;
		value = value << 4 | (uint64_t)(digit - hex);
	}
	for (unsigned i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		if (strcmp(name + DIGITS, suffixes[i]) == 0) {
			*sequence = value;
			*state = (enum segment_state)i;
			return true;
		}
	}
	return false;
}

bool segment_find_last(const uint8_t *tail, size_t bytes, enum frame_type type, size_t *at)
{
	struct frame_header header;

	if (bytes < FRAME_HEADER_BYTES)
		return false;
	for (size_t i = bytes - FRAME_HEADER_BYTES + 1; i-- > 0;) {
		if (frame_parse_header(tail + i, bytes - i, SEGMENT_END_BYTES_MAX, &header) ==
			    FRAME_OK &&
		    header.type == type &&
		    FRAME_HEADER_BYTES + (size_t)header.body_bytes == bytes - i) {
			*at = i;
			return true;
		}
	}
	return false;
}

bool segment_find_end(const uint8_t *tail, size_t bytes, size_t *at)
{
	return segment_find_last(tail, bytes, FRAME_SEGMENT_END, at);
}

bool spool_name_is_valid(const char *name)
{
	return strlen(name) == SPOOL_NAME_BYTES - 1 &&
	       strspn(name, "0123456789abcdef") == SPOOL_NAME_BYTES - 1;
}

unsigned segment_list_flags(uint32_t flags, Ringtail__V1__Flag list[SEGMENT_FLAGS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < SEGMENT_FLAGS; i++)
		if (flags & 1u << i)
			list[n++] = (Ringtail__V1__Flag)(i + 1);
	return n;
}
