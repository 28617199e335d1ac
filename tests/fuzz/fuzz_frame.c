/*
 * fuzz_frame: bytes from outside as frames. Nothing is read or written past what the header allows,
 * and what opens, opens to the same after it is sealed again.
 *
 * An input that starts with an odd byte gets a right checksum, or the fuzzer would never pass it.
 */
#include <endian.h>
#include <isa-l/crc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/limits.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void repair_checksum(uint8_t *frame, const struct frame_header *header)
{
	uint32_t crc = crc32_iscsi(frame, 12, ~0u);

	crc = ~crc32_iscsi(frame + FRAME_HEADER_BYTES, (int)header->body_bytes, crc);
	crc = htole32(crc);
	memcpy(frame + 12, &crc, sizeof(crc));
}

static void seal_and_open(struct frame_codec *codec, const uint8_t *body, uint32_t bytes)
{
	uint8_t *frame = malloc(frame_bound(bytes)), *raw = malloc(bytes + 1);
	struct frame_header header;
	const uint8_t *again;
	size_t n;

	if (!frame || !raw)
		abort();
	n = frame_seal(codec, FRAME_BATCH, body, bytes, frame);
	if (frame_parse_header(frame, n, bytes, &header) || header.raw_bytes != bytes ||
	    n != FRAME_HEADER_BYTES + header.body_bytes ||
	    frame_open(codec, frame, &header, raw, &again) || memcmp(again, body, bytes))
		abort();
	free(raw);
	free(frame);
}

static void open_one(struct frame_codec *codec, uint8_t *frame, size_t size, bool repair)
{
	struct frame_header header;
	const uint8_t *body;
	uint8_t *raw;

	if (frame_parse_header(frame, size, FRAME_RAW_BYTES_MAX, &header) ||
	    header.body_bytes > size - FRAME_HEADER_BYTES)
		return;
	if (header.raw_bytes > FRAME_RAW_BYTES_MAX || header.body_bytes > FRAME_BODY_BYTES_MAX)
		abort();
	if (repair) {
		repair_checksum(frame, &header);
		if (frame_parse_header(frame, size, FRAME_RAW_BYTES_MAX, &header))
			abort();
	}
	raw = malloc(header.raw_bytes + 1);
	if (!raw)
		abort();
	if (!frame_open(codec, frame, &header, raw, &body))
		seal_and_open(codec, body, header.raw_bytes);
	free(raw);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct frame_codec *codec;
	uint8_t *frame;

	if (!codec)
		codec = frame_codec_create(1);
	if (!codec || !size)
		return 0;
	frame = malloc(size);		/* exactly as large, for the sanitizer to guard */
	if (!frame)
		abort();
	memcpy(frame, data + 1, size - 1);
	open_one(codec, frame, size - 1, *data & 1);
	free(frame);
	return 0;
}
