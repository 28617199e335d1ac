/*
 * spool_read_give: what a spool's reader is given of the frames that lie there: each attempt once,
 * and each that is missing in a Gap, in its place. In: the frame a scan has found. Out: frame_refs in
 * read->frame. On the disk thread, as all of spool_read.h.
 */
#include <string.h>

#include "daemon/spool/frame.h"
#include "daemon/spool/read_private.h"

static uint32_t ring_of(const struct spool_read *read, uint32_t cpu)
{
	const struct spool_store *store = read->store;

	for (uint32_t i = 0; read->ours && i < store->config.rings; i++)
		if (store->config.cpu_of[i] == cpu)
			return i;
	return UINT32_MAX;
}

void spool_read_give(struct spool_read *read, struct frame_ref *frame)
{
	if (!frame) {
		read->no_memory = true;
		return;
	}
	frame->ring = frame->type == FRAME_BATCH || frame->type == FRAME_GAP ?
			      ring_of(read, frame->cpu) : read->ours ? 0 : UINT32_MAX;
	if (read->n == read->max) {
		frame_ref_put(frame);
		read->no_memory = true;
		return;
	}
	read->frame[read->n++] = frame;
	read->bytes += frame->bytes;
}

static void give_gap(struct spool_read *read, uint32_t cpu, uint64_t first_seq, uint64_t end_seq,
		     Ringtail__V1__LossReason reason)
{
	spool_read_give(read, spool_frame_gap(read->store->codec, cpu, first_seq, end_seq, 0,
					      reason));
	spool_marks_put(read->at, cpu, end_seq);
}

/*
 * A range that was not asked for: it has no bytes, and only the ledger of our own epoch needs
 * it.
 */
static void give_skipped(struct spool_read *read, uint32_t cpu, uint64_t first_seq,
			 uint64_t end_seq)
{
	struct frame_ref *frame;

	spool_marks_put(read->at, cpu, end_seq);
	if (!read->ours)
		return;
	frame = frame_ref_create(FRAME_BATCH, 0);
	if (frame) {
		frame->cpu = cpu;
		frame->first_seq = first_seq;
		frame->end_seq = end_seq;
		frame->skipped = end_seq - first_seq;
	}
	spool_read_give(read, frame);
}

struct frame_ref *spool_read_copy_frame(const struct spool_scan *scan)
{
	size_t bytes = FRAME_HEADER_BYTES + (size_t)scan->header.body_bytes;
	struct frame_ref *frame = frame_ref_create(scan->header.type, bytes);

	if (!frame)
		return NULL;
	frame->raw_bytes = scan->header.raw_bytes;
	memcpy(frame->data, scan->frame, bytes);
	return frame;
}

void spool_read_give_unknown(struct spool_read *read, Ringtail__V1__LossReason reason)
{
	const struct spool_mark *mark = read->at->n ? &read->at->mark[0] : NULL;
	uint32_t cpu = mark ? mark->cpu : read->store->config.cpu_of[0];
	uint64_t seq = mark ? mark->seq : 0;

	spool_read_give(read, spool_frame_gap(read->store->codec, cpu, seq, seq, 0, reason));
}

void spool_read_give_missing(struct spool_read *read, const struct spool_marks *upto,
			     Ringtail__V1__LossReason reason)
{
	for (uint32_t i = 0; upto && i < upto->n; i++) {
		const struct spool_mark *to = &upto->mark[i];
		const struct spool_mark *mark = spool_marks_find(read->at, to->cpu);

		if (!mark)
			spool_marks_put(read->at, to->cpu, to->seq);
		else if (mark->seq < to->seq)
			give_gap(read, to->cpu, mark->seq, to->seq, reason);
	}
}

static void give_range(struct spool_read *read, struct frame_ref *frame)
{
	struct spool_mark *mark = spool_marks_find(read->at, frame->cpu);

	if (mark && frame->end_seq <= mark->seq) {
		frame_ref_put(frame);
		return;
	}
	if (mark && frame->first_seq > mark->seq)
		give_skipped(read, frame->cpu, mark->seq, frame->first_seq);
	if (mark && frame->type == FRAME_GAP && frame->first_seq < mark->seq) {
		Ringtail__V1__LossReason reason = (Ringtail__V1__LossReason)frame->loss[0].reason;

		give_gap(read, frame->cpu, mark->seq, frame->end_seq, reason);
		frame_ref_put(frame);
		return;
	}
	spool_marks_put(read->at, frame->cpu, frame->end_seq);
	spool_read_give(read, frame);
}

static bool is_told(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	struct spool_mark *mark = spool_marks_find(context, cpu);

	(void)skipped;
	return mark && mark->seq >= seq;
}

static bool give_position(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	struct spool_read *read = context;
	struct spool_mark *mark = spool_marks_find(read->at, cpu);

	(void)skipped;
	if (mark && mark->seq < seq)
		give_skipped(read, cpu, mark->seq, seq);
	else if (!mark)
		spool_marks_put(read->at, cpu, seq);
	return true;
}

static void give_watermark(struct spool_read *read, const struct spool_scan *scan,
			   struct frame_ref *frame)
{
	const uint8_t *raw = scan->raw;
	size_t bytes = scan->header.raw_bytes;

	if (frame->time_ns <= read->time_ns &&
	    spool_frame_positions(raw, bytes, is_told, read->at)) {
		frame_ref_put(frame);
		return;
	}
	spool_frame_positions(raw, bytes, give_position, read);
	if (read->time_ns < frame->time_ns)
		read->time_ns = frame->time_ns;
	spool_read_give(read, frame);
}

bool spool_read_take_frame(struct spool_read *read, const struct spool_scan *scan)
{
	struct frame_ref *frame = spool_read_copy_frame(scan);

	if (!frame) {
		read->no_memory = true;
		return true;
	}
	if (!spool_frame_describe(frame, scan->raw, scan->header.raw_bytes)) {
		frame_ref_put(frame);
		return false;
	}
	if (frame->type == FRAME_BATCH || frame->type == FRAME_GAP)
		give_range(read, frame);
	else if (frame->type == FRAME_WATERMARK)
		give_watermark(read, scan, frame);
	else
		frame_ref_put(frame);
	return true;
}

unsigned spool_read_worst_case(const struct spool_read *read)
{
	return read->at->n + 8;
}
