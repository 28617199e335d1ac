/*
 * export_pack: a protobuf message, written as it is made: nothing is made of an event but its bytes. What
 * proto3 leaves out is left out; fields stand in the order in which they are put, which is that of their
 * numbers. So the bytes are those that protobuf-c packs.
 *
 *	struct export_pack pack = {0};
 *	struct export_pack_place place = export_pack_open(&pack, 1, 300);
 *	export_pack_text(&pack, 2, "a");
 *	export_pack_close(&pack, place);
 *	return export_pack_finish(&pack, body, items);
 *
 * Without memory, nothing more is written, and export_pack_finish() says so.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_PACK_H
#define RINGTAIL_DAEMON_EXPORT_PACK_H

#include "daemon/export/kind.h"
#include "proto/wire.h"

struct export_pack {
	uint8_t *data;
	size_t used, bytes;
	bool failed;		/* and 0 bytes are used of 0 */
};

#define EXPORT_PACK_HEADS_BYTES 32u	/* tags and lengths before what is put */

uint8_t *export_pack_grow(struct export_pack *pack, size_t bytes);

/* Room for `bytes` at the end, and for tags and lengths before them; NULL: there is no memory. */
static inline uint8_t *export_pack_room(struct export_pack *pack, size_t bytes)
{
	if (__builtin_expect(pack->bytes - pack->used < bytes + EXPORT_PACK_HEADS_BYTES, 0))
		return export_pack_grow(pack, bytes + EXPORT_PACK_HEADS_BYTES);
	return pack->data + pack->used;
}

/* What a field of so many bytes takes, with its length and a tag of one byte. */
static inline size_t export_pack_size(size_t bytes)
{
	return 1 + (size_t)(70 - __builtin_clzll(bytes | 1)) / 7 + bytes;
}

/* What was written there, up to `end`, counts. */
static inline void export_pack_advance(struct export_pack *pack, const uint8_t *end)
{
	pack->used = (size_t)(end - pack->data);
}

/* Fields; one that is 0 or empty is left out. */
void export_pack_scalar(struct export_pack *pack, uint32_t field, uint64_t value);
void export_pack_fixed64(struct export_pack *pack, uint32_t field, uint64_t value);
void export_pack_bytes(struct export_pack *pack, uint32_t field, const void *data, size_t bytes);
void export_pack_text(struct export_pack *pack, uint32_t field, const char *text);

/* A message that is there as one. */
void export_pack_message(struct export_pack *pack, uint32_t field, const ProtobufCMessage *message);

/* Bytes that were written before, at that place, once more. */
void export_pack_again(struct export_pack *pack, size_t from, size_t bytes);

/* A message in the message. If it is not about as long as was expected, it is moved. */
struct export_pack_place {
	size_t start;		/* of its content */
	unsigned width;		/* of its length, as reserved */
};

struct export_pack_place export_pack_open(struct export_pack *pack, uint32_t field, size_t expected);
void export_pack_close(struct export_pack *pack, struct export_pack_place place);

/* Hands the bytes over. -ENOMEM: there is no body. */
int export_pack_finish(struct export_pack *pack, struct export_body *body, uint64_t items);

#endif
