#include "daemon/collect/worker_out.h"

#include <stdlib.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"

struct worker_mail *worker_out_mail(const struct worker_out *out, enum worker_mail_kind kind,
				    uint32_t positions)
{
	struct worker_mail *mail =
		calloc(1, sizeof(*mail) + positions * sizeof(mail->position[0]));

	if (!mail)
		return NULL;
	mail->kind = kind;
	mail->worker = out->id;
	mail->positions = positions;
	return mail;
}

void worker_out_send(struct worker_out *out, struct worker_mail *mail)
{
	mailbox_send(out->mailbox, &mail->mail);
}

/*
 * The main loop is far behind: the batch's bytes are given up, and the range goes on as a gap. Its
 * events are the client's loss, by stage queue.
 */
static struct frame_ref *give_up(struct worker_out *out, const struct frame_ref *frame)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	struct frame_ref *instead;

	gap.cpu = frame->cpu;
	gap.first_seq = frame->first_seq;
	gap.end_seq = frame->end_seq;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE;
	gap.reason = RINGTAIL__V1__LOSS_REASON__REASON_QUEUE_FULL;
	gap.events = frame->events + frame_ref_losses(frame);
	instead = frame_ref_pack(out->codec, FRAME_GAP, &gap.base);
	if (!instead)
		return NULL;
	instead->ring = frame->ring;
	instead->cpu = frame->cpu;
	instead->first_seq = frame->first_seq;
	instead->end_seq = frame->end_seq;
	instead->skipped = frame->skipped;
	instead->losses = 1;
	instead->loss[0] = (struct loss_count){.stage = gap.stage, .reason = gap.reason,
					       .count = gap.events};
	return instead;
}

bool worker_out_frame(void *context, uint32_t subscription, struct frame_ref *frame)
{
	struct worker_out *out = context;
	struct worker_mail *mail = worker_out_mail(out, WORKER_FRAME, 0);
	bool full = frame->bytes && atomic_load_explicit(&out->bytes, memory_order_relaxed) >
					    HANDOFF_BYTES_MAX;
	struct frame_ref *instead = mail && full ? give_up(out, frame) : NULL;

	if (!mail || (full && !instead)) {
		free(mail);
		return false;
	}
	if (instead) {
		frame_ref_put(frame);
		counter_add(COUNTER_handoff_dropped, 1);
		frame = instead;
	}
	mail->subscription = subscription;
	mail->frame = frame;
	atomic_fetch_add_explicit(&out->bytes, frame->bytes, memory_order_relaxed);
	worker_out_send(out, mail);
	return true;
}

void worker_out_watermark(struct worker_out *out, uint64_t time_ns)
{
	struct worker_mail *mail = worker_out_mail(out, WORKER_WATERMARK, 0);

	if (!mail)
		return;
	mail->time_ns = time_ns;
	worker_out_send(out, mail);
}
