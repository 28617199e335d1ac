/*
 * segment: what the daemon, which writes a spool, and programs that read one must agree on beyond
 * frames: the names of the files, and how to find a segment's end. docs/spool.md.
 *
 *	0000000000000007.open	being written, or cut short
 *	0000000000000006.seg	sealed: it ends with a SegmentEnd
 *	0000000000000005.bad	set aside because it was damaged
 *
 * in a directory whose name is a number, too: of what the spool holds.
 *
 * Pure functions, any thread.
 */
#ifndef RINGTAIL_PROTO_SEGMENT_H
#define RINGTAIL_PROTO_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"
#include "proto/ringtail.pb-c.h"

#define SEGMENT_NAME_BYTES	24		/* with its zero */
#define SEGMENT_END_BYTES_MAX	(64u << 10)	/* of the frame */

#define SEGMENT_FLAGS		8		/* bit i is the wire's flag i + 1 */

#define SPOOL_NAME_BYTES	17		/* of the directory, with its zero */

enum segment_state {
	SEGMENT_OPEN,
	SEGMENT_SEALED,
	SEGMENT_BAD,
};

void segment_name_format(char name[SEGMENT_NAME_BYTES], uint64_t sequence,
			 enum segment_state state);

/* False: that is no segment's name. */
bool segment_name_parse(const char *name, uint64_t *sequence, enum segment_state *state);

/* Whether a directory is called as a spool is; others are left alone. */
bool spool_name_is_valid(const char *name);

/*
 * Where in the last bytes of a file (all of it, or SEGMENT_END_BYTES_MAX of it) a frame begins that
 * says it is a SegmentEnd and that ends where they end. Its checksum is still to be checked.
 */
bool segment_find_end(const uint8_t *tail, size_t bytes, size_t *at);

/* The same of a frame of another type: what is the last of a dump's file. */
bool segment_find_last(const uint8_t *tail, size_t bytes, enum frame_type type, size_t *at);

/* What a subscription asked for beside its events, as the head of its file lists it: how many. */
unsigned segment_list_flags(uint32_t flags, Ringtail__V1__Flag list[SEGMENT_FLAGS]);

#endif
