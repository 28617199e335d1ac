/*
 * export_body: the body of a request, from the pieces of its message to compressed bytes: gzip for OTLP,
 * snappy's block format for Loki and remote write. The export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_BODY_H
#define RINGTAIL_DAEMON_EXPORT_BODY_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

/* Memory for the pieces of one message: reserved in one go, so that only that can fail. */
struct export_arena {
	uint8_t *data;
	size_t used, bytes;
};

/* Empties it and makes room. -ENOMEM: it is empty then. */
int export_arena_reserve(struct export_arena *arena, size_t bytes);
void export_arena_fini(struct export_arena *arena);

/* Aligned for anything, not zeroed. Whoever takes more than is reserved has a bug. */
void *export_arena_take(struct export_arena *arena, size_t bytes);

/* A copy of a text, with its end. */
char *export_arena_text(struct export_arena *arena, const char *text);

/* What export_arena_take() uses up for so many bytes, at most. */
#define EXPORT_ARENA_ROUND(bytes) (((bytes) + 15u) & ~(size_t)15u)

/* Before it is compressed; the data is allocated, the caller's. */
struct export_body {
	uint8_t *data;
	size_t bytes;
	uint64_t items;		/* what the back end will count: log records, spans, points */
};

/* -ENOMEM. */
int export_body_pack(struct export_body *body, const ProtobufCMessage *message, uint64_t items);

enum export_encoding {
	EXPORT_GZIP,
	EXPORT_SNAPPY,
};

/* "gzip", as the header Content-Encoding says it. */
const char *export_encoding_name(enum export_encoding encoding);

/* *out is allocated, the caller's. -ENOMEM. */
int export_compress(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
		    uint8_t **out, size_t *out_bytes);

/* What export_compress() made, undone. -ENOMEM, -EIO. */
int export_compress_undo(enum export_encoding encoding, const uint8_t *in, size_t in_bytes,
			 uint8_t **out, size_t *out_bytes);

#endif
