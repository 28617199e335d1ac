/*
 * wire: protobuf's wire format, as much of it as a Batch needs: varints, tags, zigzag.
 *
 * Writers trust their room: whoever calls them has reserved WIRE_WRITE_BYTES past the last byte.
 * Readers trust nothing: they stop at `end` and say so. Inline, because they are the hot path.
 */
#ifndef RINGTAIL_PROTO_WIRE_H
#define RINGTAIL_PROTO_WIRE_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WIRE_VARINT_BYTES_MAX	10
#define WIRE_WRITE_BYTES	16	/* from where it stands, a writer may touch so many */

enum wire_type {
	WIRE_VARINT = 0,
	WIRE_FIXED64 = 1,
	WIRE_BYTES = 2,
	WIRE_FIXED32 = 5,
};

static inline uint64_t wire_zigzag(uint64_t difference)
{
	return (difference << 1) ^ (uint64_t)((int64_t)difference >> 63);
}

static inline uint64_t wire_unzigzag(uint64_t value)
{
	return (value >> 1) ^ (0 - (value & 1));
}

/* Varints of 3 to 8 bytes without a loop: spread the 7-bit groups, then set the "more" bits. */
static inline uint8_t *wire_put_spread(uint8_t *out, uint64_t value)
{
	unsigned bytes = (unsigned)(63 - __builtin_clzll(value)) / 7 + 1;
	uint64_t groups = value;

	groups = (groups & 0x000000000fffffffULL) | ((groups & 0x00fffffff0000000ULL) << 4);
	groups = (groups & 0x00003fff00003fffULL) | ((groups & 0x0fffc0000fffc000ULL) << 2);
	groups = (groups & 0x007f007f007f007fULL) | ((groups & 0x3f803f803f803f80ULL) << 1);
	groups |= 0x8080808080808080ULL & ((1ULL << (8 * (bytes - 1))) - 1);
	groups = htole64(groups);
	memcpy(out, &groups, sizeof(groups));
	return out + bytes;
}

static inline uint8_t *wire_put(uint8_t *out, uint64_t value)
{
	if (__builtin_expect(value < 0x80, 1)) {
		*out = (uint8_t)value;
		return out + 1;
	}
	if (value < 0x4000) {
		out[0] = (uint8_t)(value | 0x80);
		out[1] = (uint8_t)(value >> 7);
		return out + 2;
	}
	if (value < 1ULL << 56)
		return wire_put_spread(out, value);
	while (value >= 0x80) {
		*out++ = (uint8_t)(value | 0x80);
		value >>= 7;
	}
	*out = (uint8_t)value;
	return out + 1;
}

static inline uint8_t *wire_put_tag(uint8_t *out, uint32_t field, enum wire_type type)
{
	return wire_put(out, (uint64_t)field << 3 | type);
}

/* A scalar field; proto3 leaves a zero out. */
static inline uint8_t *wire_put_scalar(uint8_t *out, uint32_t field, uint64_t value)
{
	if (!value)
		return out;
	return wire_put(wire_put_tag(out, field, WIRE_VARINT), value);
}

/* A field of bytes; proto3 leaves an empty one out. The room for `bytes` is the caller's care. */
static inline uint8_t *wire_put_bytes(uint8_t *out, uint32_t field, const void *data, size_t bytes)
{
	if (!bytes)
		return out;
	out = wire_put(wire_put_tag(out, field, WIRE_BYTES), bytes);
	memcpy(out, data, bytes);
	return out + bytes;
}

/* A message inside a message, `body` to `end`; unlike bytes, an empty one is there. */
static inline uint8_t *wire_put_message(uint8_t *out, uint32_t field, const uint8_t *body,
					const uint8_t *end)
{
	out = wire_put(wire_put_tag(out, field, WIRE_BYTES), (uint64_t)(end - body));
	memcpy(out, body, (size_t)(end - body));
	return out + (end - body);
}

/* Bytes still to be read. */
struct wire_reader {
	const uint8_t *at, *end;
};

static inline bool wire_get_long(struct wire_reader *reader, uint64_t *value)
{
	uint64_t sum = 0;

	*value = 0;
	for (unsigned shift = 0; shift < 7 * WIRE_VARINT_BYTES_MAX; shift += 7) {
		uint8_t byte;

		if (reader->at == reader->end)
			return false;
		byte = *reader->at++;
		if (shift == 63 && byte > 1)
			return false;
		sum |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*value = sum;
			return true;
		}
	}
	return false;
}

/* False: the bytes end inside it, or it is over 64 bits. */
static inline bool wire_get(struct wire_reader *reader, uint64_t *value)
{
	if (__builtin_expect(reader->at < reader->end && *reader->at < 0x80, 1)) {
		*value = *reader->at++;
		return true;
	}
	return wire_get_long(reader, value);
}

/* One field of a message: a number in `value`, or bytes in `body`, borrowed. */
struct wire_field {
	uint32_t number;
	enum wire_type type;
	uint64_t value;
	struct wire_reader body;
};

/* Reads the next field. False: what stands there is not one. Groups are not fields any more. */
bool wire_get_field(struct wire_reader *reader, struct wire_field *field);

#endif
