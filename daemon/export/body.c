#include "daemon/export/body.h"

#include <assert.h>
#include <errno.h>
#include <snappy-c.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/gzip.h"

/* ---- Its pieces ------------------------------------------------------------------------------ */

int export_arena_reserve(struct export_arena *arena, size_t bytes)
{
	arena->used = 0;
	if (bytes <= arena->bytes)
		return 0;
	export_arena_fini(arena);
	arena->data = malloc(bytes);
	if (!arena->data)
		return -ENOMEM;
	arena->bytes = bytes;
	return 0;
}

void export_arena_fini(struct export_arena *arena)
{
	free(arena->data);
	*arena = (struct export_arena){0};
}

void *export_arena_take(struct export_arena *arena, size_t bytes)
{
	void *taken = arena->data + arena->used;

	arena->used += EXPORT_ARENA_ROUND(bytes);
	assert(arena->used <= arena->bytes);
	return taken;
}

char *export_arena_text(struct export_arena *arena, const char *text)
{
	size_t bytes = strlen(text) + 1;

	return memcpy(export_arena_take(arena, bytes), text, bytes);
}

int export_body_pack(struct export_body *body, const ProtobufCMessage *message, uint64_t items)
{
	body->items = items;
	body->bytes = protobuf_c_message_get_packed_size(message);
	body->data = malloc(body->bytes + 1);
	if (!body->data)
		return -ENOMEM;
	protobuf_c_message_pack(message, body->data);
	return 0;
}

/* ---- Compressed ------------------------------------------------------------------------------ */

const char *export_encoding_name(enum export_encoding encoding)
{
	return encoding == EXPORT_GZIP ? "gzip" : "snappy";
}

static int compress_snappy(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	*out_bytes = snappy_max_compressed_length(in_bytes);
	*out = malloc(*out_bytes);
	if (!*out)
		return -ENOMEM;
	if (snappy_compress((const char *)in, in_bytes, (char *)*out, out_bytes) == SNAPPY_OK)
		return 0;
	free(*out);
	return -EIO;
}

int export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
		    uint8_t **out, size_t *out_bytes)
{
	return encoding == EXPORT_GZIP ? gzip_compress(in, in_bytes, out, out_bytes) :
					 compress_snappy(in, in_bytes, out, out_bytes);
}

static int undo_snappy(const uint8_t *in, size_t in_bytes, uint8_t **out, size_t *out_bytes)
{
	if (snappy_uncompressed_length((const char *)in, in_bytes, out_bytes) != SNAPPY_OK)
		return -EIO;
	*out = malloc(*out_bytes + 1);
	if (!*out)
		return -ENOMEM;
	if (snappy_uncompress((const char *)in, in_bytes, (char *)*out, out_bytes) == SNAPPY_OK)
		return 0;
	free(*out);
	return -EIO;
}

int export_compress_undo(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
			 uint8_t **out, size_t *out_bytes)
{
	return encoding == EXPORT_GZIP ? gzip_undo(in, in_bytes, out, out_bytes) :
					 undo_snappy(in, in_bytes, out, out_bytes);
}
