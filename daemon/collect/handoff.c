#include "daemon/collect/handoff.h"

#include <stdlib.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"

struct worker_mail *handoff_mail(const struct handoff *handoff, enum worker_mail_kind kind,
				 uint32_t positions)
{
	struct worker_mail *mail =
		calloc(1, sizeof(*mail) + positions * sizeof(mail->position[0]));

	if (!mail)
		return NULL;
	mail->kind = kind;
	mail->worker = handoff->id;
	mail->positions = positions;
	return mail;
}

void handoff_send(struct handoff *handoff, struct worker_mail *mail)
{
	mailbox_send(handoff->mailbox, &mail->mail);
}

/*
 * The main loop is far behind: the batch's bytes are given up, and the range goes on as a gap. Its
 * events are the client's loss, by stage queue.
 */
static struct frame_ref *give_up(struct handoff *handoff, const struct frame_ref *frame)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	struct frame_ref *instead;

	gap.cpu = frame->cpu;
	gap.first_seq = frame->first_seq;
	gap.end_seq = frame->end_seq;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_QUEUE;
	gap.reason = RINGTAIL__V1__LOSS_REASON__REASON_QUEUE_FULL;
	gap.events = frame->events + frame_ref_losses(frame);
	instead = frame_ref_pack(handoff->codec, FRAME_GAP, &gap.base);
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

bool handoff_frame(void *context, uint32_t subscription, struct frame_ref *frame)
{
	struct handoff *handoff = context;
	struct worker_mail *mail = handoff_mail(handoff, WORKER_FRAME, 0);
	bool full = frame->bytes && atomic_load_explicit(&handoff->bytes, memory_order_relaxed) >
					    HANDOFF_BYTES_MAX;
	struct frame_ref *instead = mail && full ? give_up(handoff, frame) : NULL;

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
	atomic_fetch_add_explicit(&handoff->bytes, frame->bytes, memory_order_relaxed);
	handoff_send(handoff, mail);
	return true;
}

void handoff_watermark(struct handoff *handoff, uint64_t time_ns)
{
	struct worker_mail *mail = handoff_mail(handoff, WORKER_WATERMARK, 0);

	if (!mail)
		return;
	mail->time_ns = time_ns;
	handoff_send(handoff, mail);
}
