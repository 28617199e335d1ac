#include "daemon/spool/frame.h"

#include "proto/batch_layout.h"
#include "proto/wire.h"

/* Field numbers of Watermark, Position and Gap. */
enum {
	WATERMARK_TIME_NS = 1,
	WATERMARK_POSITION = 2,
	POSITION_CPU = 1,
	POSITION_SEQ = 2,
	POSITION_SKIPPED = 3,
	GAP_CPU = 1,
	GAP_FIRST_SEQ = 2,
	GAP_END_SEQ = 3,
	GAP_STAGE = 4,
	GAP_REASON = 5,
	GAP_EVENTS = 6,
	GAP_FIELDS,
};

static bool add_loss(struct frame_ref *frame, uint64_t stage, uint64_t reason, uint64_t count)
{
	if (stage >= LOSS_STAGES || reason >= LOSS_REASONS)
		return false;
	for (uint32_t i = 0; i < frame->losses; i++) {
		struct loss_count *loss = &frame->loss[i];

		if (loss->stage == stage && loss->reason == reason) {
			loss->count += count;
			return true;
		}
	}
	if (frame->losses == FRAME_LOSSES_MAX)
		return false;
	frame->loss[frame->losses++] = (struct loss_count){
		.stage = (uint8_t)stage, .reason = (uint8_t)reason, .count = count};
	return true;
}

static bool read_loss(struct frame_ref *frame, struct wire_reader body)
{
	uint64_t value[LOSS_SKIPPED + 1] = {0};
	uint64_t attempts = frame->end_seq - frame->first_seq;

	while (body.at < body.end) {
		struct wire_field field = {0};

		if (!wire_get_field(&body, &field))
			return false;
		if (field.number <= LOSS_SKIPPED && field.type == WIRE_VARINT)
			value[field.number] = field.value;
	}
	return value[LOSS_COUNT] <= attempts - frame_ref_losses(frame) &&
	       add_loss(frame, value[LOSS_STAGE], value[LOSS_REASON], value[LOSS_COUNT]);
}

static bool describe_batch(struct frame_ref *frame, struct wire_reader reader)
{
	uint64_t attempts, taken;

	while (reader.at < reader.end) {
		struct wire_field field = {0};

		if (!wire_get_field(&reader, &field))
			return false;
		if (field.number == BATCH_LOSS_FIELD && !read_loss(frame, field.body))
			return false;
		if (field.type != WIRE_VARINT)
			continue;
		if (field.number == BATCH_CPU)
			frame->cpu = (uint32_t)field.value;
		else if (field.number == BATCH_FIRST_SEQ)
			frame->first_seq = field.value;
		else if (field.number == BATCH_END_SEQ)
			frame->end_seq = field.value;
		else if (field.number == BATCH_EVENTS)
			frame->events = field.value;
	}
	attempts = frame->end_seq - frame->first_seq;
	taken = frame->events + frame_ref_losses(frame);
	/* None is made of no attempt at all. */
	if (frame->end_seq <= frame->first_seq || frame->events > attempts || taken > attempts)
		return false;
	frame->skipped = attempts - taken;
	return true;
}

static bool describe_gap(struct frame_ref *frame, struct wire_reader reader)
{
	uint64_t value[GAP_FIELDS] = {0}, attempts;

	while (reader.at < reader.end) {
		struct wire_field field = {0};

		if (!wire_get_field(&reader, &field))
			return false;
		if (field.number < GAP_FIELDS && field.type == WIRE_VARINT)
			value[field.number] = field.value;
	}
	frame->cpu = (uint32_t)value[GAP_CPU];
	frame->first_seq = value[GAP_FIRST_SEQ];
	frame->end_seq = value[GAP_END_SEQ];
	if (frame->end_seq < frame->first_seq)
		return false;
	/* Not known how many: then all of them. */
	attempts = frame->end_seq - frame->first_seq;
	if (!value[GAP_EVENTS] || value[GAP_EVENTS] > attempts)
		value[GAP_EVENTS] = attempts;
	frame->skipped = attempts - value[GAP_EVENTS];
	return !attempts ||
	       add_loss(frame, value[GAP_STAGE], value[GAP_REASON], value[GAP_EVENTS]);
}

static bool describe_watermark(struct frame_ref *frame, struct wire_reader reader)
{
	while (reader.at < reader.end) {
		struct wire_field field = {0};

		if (!wire_get_field(&reader, &field))
			return false;
		if (field.number == WATERMARK_TIME_NS && field.type == WIRE_VARINT)
			frame->time_ns = field.value;
	}
	return true;
}

bool spool_frame_describe(struct frame_ref *frame, const uint8_t *raw, size_t bytes)
{
	struct wire_reader reader = {raw, raw + bytes};

	switch (frame->type) {
	case FRAME_BATCH:
		return describe_batch(frame, reader);
	case FRAME_GAP:
		return describe_gap(frame, reader);
	case FRAME_WATERMARK:
		return describe_watermark(frame, reader);
	default:
		return true;
	}
}

static bool read_position(struct wire_reader body, spool_frame_position *each, void *context)
{
	uint64_t value[POSITION_SKIPPED + 1] = {0};

	while (body.at < body.end) {
		struct wire_field field = {0};

		if (!wire_get_field(&body, &field))
			return false;
		if (field.number <= POSITION_SKIPPED && field.type == WIRE_VARINT)
			value[field.number] = field.value;
	}
	return each(context, (uint32_t)value[POSITION_CPU], value[POSITION_SEQ],
		    value[POSITION_SKIPPED]);
}

bool spool_frame_positions(const uint8_t *raw, size_t bytes, spool_frame_position *each,
			   void *context)
{
	struct wire_reader reader = {raw, raw + bytes};

	while (reader.at < reader.end) {
		struct wire_field field = {0};

		if (!wire_get_field(&reader, &field))
			return false;
		if (field.number == WATERMARK_POSITION && field.type == WIRE_BYTES &&
		    !read_position(field.body, each, context))
			return false;
	}
	return true;
}

struct frame_ref *spool_frame_gap(struct frame_codec *codec, uint32_t cpu, uint64_t first_seq,
				  uint64_t end_seq, uint64_t events,
				  enum loss_reason reason)
{
	return frame_ref_gap(codec, cpu, first_seq, end_seq, LOSS_STAGE_SPOOL, reason, events);
}

struct frame_ref *spool_frame_watermark(struct frame_codec *codec, uint64_t time_ns,
					Ringtail__V1__Position **position, size_t n)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	struct frame_ref *frame;

	watermark.time_ns = time_ns;
	watermark.position = position;
	watermark.n_position = n;
	frame = frame_ref_pack(codec, FRAME_WATERMARK, &watermark.base);
	if (frame)
		frame->time_ns = time_ns;
	return frame;
}
