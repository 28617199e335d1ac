#include "daemon/base/frame_ref.h"

#include <stdlib.h>

struct frame_ref *frame_ref_create(enum frame_type type, size_t bytes)
{
	struct frame_ref *frame = malloc(sizeof(*frame) + bytes);

	if (!frame)
		return NULL;
	*frame = (struct frame_ref){.refs = 1, .type = type, .bytes = bytes};
	return frame;
}

struct frame_ref *frame_ref_seal(struct frame_codec *codec, enum frame_type type,
				 const uint8_t *raw, uint32_t raw_bytes)
{
	struct frame_ref *frame, *fitted;

	if (raw_bytes > FRAME_RAW_BYTES_MAX)
		return NULL;
	frame = frame_ref_create(type, frame_bound(raw_bytes));
	if (!frame)
		return NULL;
	frame->raw_bytes = raw_bytes;
	frame->bytes = frame_seal(codec, type, raw, raw_bytes, frame->data);
	/* Frames live in history for long: keep only what compression left of the bound. */
	fitted = realloc(frame, sizeof(*frame) + frame->bytes);
	return fitted ? fitted : frame;
}

struct frame_ref *frame_ref_pack(struct frame_codec *codec, enum frame_type type,
				 const ProtobufCMessage *message)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	struct frame_ref *frame;
	uint8_t *raw;

	if (bytes > FRAME_RAW_BYTES_MAX)
		return NULL;
	raw = malloc(bytes + 1);
	if (!raw)
		return NULL;
	protobuf_c_message_pack(message, raw);
	frame = frame_ref_seal(codec, type, raw, (uint32_t)bytes);
	free(raw);
	return frame;
}

struct frame_ref *frame_ref_get(struct frame_ref *frame)
{
	frame->refs++;
	return frame;
}

void frame_ref_put(struct frame_ref *frame)
{
	if (frame && --frame->refs == 0)
		free(frame);
}

uint64_t frame_ref_losses(const struct frame_ref *frame)
{
	uint64_t count = 0;

	for (uint32_t i = 0; i < frame->losses; i++)
		count += frame->loss[i].count;
	return count;
}
