#include "daemon/base/frame_ref.h"

#include <stdlib.h>
#include <string.h>

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
	struct frame_ref *frame;
	size_t bytes;
	const uint8_t *sealed = frame_make(codec, type, raw, raw_bytes, &bytes);

	frame = sealed ? frame_ref_create(type, bytes) : NULL;
	if (!frame)
		return NULL;
	frame->raw_bytes = raw_bytes;
	memcpy(frame->data, sealed, bytes);
	return frame;
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

struct frame_ref *frame_ref_gap(struct frame_codec *codec, uint32_t cpu, uint64_t first_seq,
				uint64_t end_seq, enum loss_stage stage,
				enum loss_reason reason, uint64_t events)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	struct frame_ref *frame;

	gap.cpu = cpu;
	gap.first_seq = first_seq;
	gap.end_seq = end_seq;
	gap.stage = (Ringtail__V1__LossStage)stage;
	gap.reason = (Ringtail__V1__LossReason)reason;
	gap.events = events;
	frame = frame_ref_pack(codec, FRAME_GAP, &gap.base);
	if (!frame)
		return NULL;
	frame->cpu = cpu;
	frame->first_seq = first_seq;
	frame->end_seq = end_seq;
	if (!events || events > end_seq - first_seq)
		events = end_seq - first_seq;
	frame->skipped = end_seq - first_seq - events;
	frame->losses = events != 0;
	frame->loss[0] = (struct loss_count){.stage = (uint8_t)stage, .reason = (uint8_t)reason,
					     .count = events};
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
