/*
 * frame: the unit on the wire and on disk: a 16-byte little-endian header, then a body.
 *
 *	 0       2        3       4           8           12          16
 *	+-------+--------+-------+-----------+-----------+-----------+------
 *	| magic | version| type  | body_bytes| raw_bytes | crc32c    | body
 *	+-------+--------+-------+-----------+-----------+-----------+------
 *
 * The body is a protobuf message of raw_bytes, zstd-compressed when raw_bytes != body_bytes. The
 * checksum covers the first 12 header bytes and the body. Pure functions, any thread.
 */
#ifndef RINGTAIL_PROTO_FRAME_H
#define RINGTAIL_PROTO_FRAME_H

#include <stddef.h>
#include <stdint.h>

#define FRAME_HEADER_BYTES	16
#define FRAME_MAGIC		0x7452	/* "Rt" */
#define FRAME_VERSION		1

enum frame_type {
#define FRAME(name, value, message, sender) FRAME_##name = value,
#include "proto/frame_types.def"
#undef FRAME
};

struct frame_header {
	enum frame_type type;
	uint32_t body_bytes;
	uint32_t raw_bytes;
	uint32_t crc32c;
};

/* Why bytes are not a frame. */
enum frame_status {
	FRAME_OK = 0,
	FRAME_SHORT,		/* fewer bytes than the header says: get more */
	FRAME_BAD_MAGIC,
	FRAME_BAD_VERSION,
	FRAME_BAD_TYPE,
	FRAME_TOO_LARGE,	/* over the caller's bound or FRAME_*_BYTES_MAX */
	FRAME_BAD_CHECKSUM,
	FRAME_BAD_ZSTD,		/* not zstd, or not exactly raw_bytes of it */
	FRAME_BAD_MESSAGE,	/* not the protobuf message that the type says */
};

/* "bad-checksum": stable, for logs and errors. */
const char *frame_status_name(enum frame_status status);

/* The same as a sentence for people. */
const char *frame_status_text(enum frame_status status);

/* "batch", or "?" for a type that is not one. */
const char *frame_type_name(unsigned type);

/*
 * Reads the header at the start of `bytes`; FRAME_SHORT under FRAME_HEADER_BYTES. Nothing it lets
 * through is over raw_max, so that the caller may allocate raw_bytes and body_bytes.
 */
enum frame_status frame_parse_header(const uint8_t *bytes, size_t n, uint32_t raw_max,
				     struct frame_header *header);

/*
 * Checks and unpacks the body of a whole frame (header included, FRAME_HEADER_BYTES + body_bytes of
 * it at `frame`) into `raw`, which holds header->raw_bytes. `raw` may be skipped where the body is
 * not compressed: *body then points into the frame. *body is borrowed from either.
 */
struct frame_codec;
enum frame_status frame_open(struct frame_codec *codec, const uint8_t *frame,
			     const struct frame_header *header, uint8_t *raw, const uint8_t **body);

/*
 * Makes a frame of `raw`: compresses it (unless that would not make it smaller, or it is under
 * FRAME_COMPRESS_BYTES_MIN) and writes header and body to `out`, which holds frame_bound(raw_bytes).
 * Returns the frame's bytes, or 0 if raw_bytes is over FRAME_RAW_BYTES_MAX.
 */
#define FRAME_COMPRESS_BYTES_MIN 128
size_t frame_bound(uint32_t raw_bytes);
size_t frame_seal(struct frame_codec *codec, enum frame_type type, const uint8_t *raw,
		  uint32_t raw_bytes, uint8_t *out);

/*
 * As frame_seal(), into memory of the codec, which the next call overwrites: a frame has a fraction of its bound, so
 * that memory is warm, and whoever keeps frames takes as much memory as they have. NULL: out of memory, or too large.
 */
const uint8_t *frame_make(struct frame_codec *codec, enum frame_type type, const uint8_t *raw, uint32_t raw_bytes,
			  size_t *bytes);

/* CRC-32C of some bytes; `crc` is 0, or what it was up to them. */
uint32_t frame_crc32c(uint32_t crc, const void *bytes, size_t n);

/*
 * The zstd contexts, for one thread at a time; NULL when out of memory. Level 1 is the wire's.
 */
struct frame_codec *frame_codec_create(int level);
void frame_codec_destroy(struct frame_codec *codec);

#endif
