/*
 * unpack: one protobuf message from bytes of the other side, in memory that is bounded.
 *
 * A message of a few bytes can unpack to many times its size (an empty repeated message takes two);
 * so it is built in an arena of at most UNPACK_*_BYTES_MAX and freed as one.
 */
#ifndef RINGTAIL_CLIENT_LIB_UNPACK_H
#define RINGTAIL_CLIENT_LIB_UNPACK_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

struct arena;

/*
 * The message, cast by the caller to what `descriptor` describes, and in *arena what holds it: it
 * lives until arena_destroy(*arena). NULL if it is no such message or too large.
 */
void *unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *body, size_t bytes,
	     struct arena **arena);
void arena_destroy(struct arena *arena);

/* More memory that lives as long as the message, zeroed; NULL if there is no more. */
void *arena_alloc(struct arena *arena, size_t bytes);

#endif
