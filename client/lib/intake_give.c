/* intake_give: what has come, as the library's items, one by one. See intake.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/intake_private.h"

/* The wire's attachments in the library's words. They fit, or the item goes without. */
static void give_attachments(struct intake *intake, const struct batch_item *from,
			     struct ringtail_item *item)
{
	if (from->attachments > intake->attachments_max) {
		struct ringtail_attachment *larger =
			reallocarray(intake->attachment, from->attachments, sizeof(*larger));

		if (!larger)
			return;
		intake->attachment = larger;
		intake->attachments_max = from->attachments;
	}
	for (size_t i = 0; i < from->attachments; i++)
		intake->attachment[i] = (struct ringtail_attachment){
			.kind = (enum ringtail_attachment_kind)from->attachment[i].kind,
			.field = from->attachment[i].arg,
			.text = from->attachment[i].text,
			.text_bytes = from->attachment[i].text_bytes,
			.frame = from->attachment[i].frame,
			.frames = from->attachment[i].frames,
		};
	item->attachment = intake->attachment;
	item->attachments = from->attachments;
}

static void give_event(struct intake *intake, const struct merge_item *from,
		       struct ringtail_item *item)
{
	const struct batch_item *batch = from->batch;
	const struct batch_thread *thread = batch->thread;

	intake->totals.events++;
	item->kind = RINGTAIL_EVENT;
	item->cpu = from->cpu;
	item->seq = batch->seq;
	item->time_ns = batch->event.time_ns;
	item->probe = catalog_probe(from->catalog, batch->event.probe);
	item->value = batch->event.field;
	item->thread.tid = thread->tid;
	item->thread.pid = thread->pid;
	item->thread.ppid = thread->ppid;
	item->thread.uid = thread->uid;
	item->thread.kernel = thread->kernel;
	memcpy(item->thread.comm, thread->comm, sizeof(item->thread.comm));
	item->attachment = NULL;
	item->attachments = 0;
	item->source = from->decoder;
	if (batch->attachments)
		give_attachments(intake, batch, item);
}

static void give_loss(struct intake *intake, const struct merge_item *from,
		      struct ringtail_item *item)
{
	const struct batch_loss *loss = &from->batch->loss;

	intake->totals.lost += loss->count;
	*item = (struct ringtail_item){
		.kind = RINGTAIL_LOSS,
		.cpu = from->cpu,
		.seq = loss->first_seq,
		.time_ns = from->time_ns,
		.count = loss->count,
		.stage = loss->stage,
		.reason = loss->reason,
	};
}

static void give_gap(struct intake *intake, const struct merge_item *from,
		     struct ringtail_item *item)
{
	const struct merge_gap *gap = from->gap;
	uint64_t seen = intake->since[from->cpu];
	uint64_t first_seq = gap->first_seq < seen && seen < gap->end_seq ? seen : gap->first_seq;

	*item = (struct ringtail_item){
		.kind = RINGTAIL_GAP,
		.cpu = from->cpu,
		.seq = first_seq,
		.time_ns = from->time_ns,
		.count = gap->end_seq - first_seq,
		.events = gap->events,
		.stage = gap->stage,
		.reason = gap->reason,
	};
	intake->totals.gaps++;
	intake->totals.unknown += !gap->events && !item->count;
	intake->totals.lost += gap->events ? gap->events : item->count;
}

static bool is_too_early(const struct intake *intake, uint64_t time_ns)
{
	uint64_t offset_ns = intake->host.realtime_ns - intake->host.monotonic_ns;

	return intake->since_realtime_ns && time_ns + offset_ns < intake->since_realtime_ns;
}

static bool is_too_late(const struct intake *intake, uint64_t time_ns)
{
	uint64_t offset_ns = intake->host.realtime_ns - intake->host.monotonic_ns;

	return intake->until_realtime_ns && time_ns + offset_ns >= intake->until_realtime_ns;
}

/* Whether it is outside the span of time that was asked for, or not wanted; an event that is counts. */
static bool is_outside(struct intake *intake, enum merge_next next, const struct merge_item *from)
{
	if (next == MERGE_EVENT &&
	    (is_too_early(intake, from->batch->event.time_ns) ||
	     is_too_late(intake, from->batch->event.time_ns) ||
	     !catalog_selects(from->catalog, from->cpu, from->batch))) {
		intake->totals.filtered++;
		return true;
	}
	return (next == MERGE_LOSS || next == MERGE_GAP) && is_too_late(intake, from->time_ns);
}

/* Whether an event, a loss or a gap is from before where the stream goes on. */
static bool is_seen(const struct intake *intake, enum merge_next next, const struct merge_item *from)
{
	if (next == MERGE_EVENT)
		return from->batch->seq < intake->since[from->cpu];
	if (next == MERGE_GAP)
		return from->gap->end_seq > from->gap->first_seq &&
		       from->gap->end_seq <= intake->since[from->cpu];
	return next == MERGE_LOSS && from->batch->loss.first_seq < intake->since[from->cpu];
}

enum ringtail_kind intake_next(struct intake *intake, struct ringtail_item *item,
			       struct ringtail_error *error)
{
	struct merge_item from;
	enum merge_next next;

	do
		next = merge_next(intake->merge, &from);
	while (is_seen(intake, next, &from) || is_outside(intake, next, &from));
	switch (next) {
	case MERGE_EVENT:
		give_event(intake, &from, item);
		return item->kind;
	case MERGE_LOSS:
		give_loss(intake, &from, item);
		return item->kind;
	case MERGE_GAP:
		give_gap(intake, &from, item);
		return item->kind;
	case MERGE_BAD:
		if (from.end_seq > from.first_seq)
			intake->ledger->residual += from.end_seq - from.first_seq;
		failure_set(error, EBADMSG, "bad-message", "batch frame at byte %llu: %s",
			    (unsigned long long)from.offset, from.why);
		return RINGTAIL_ERROR;
	case MERGE_EMPTY:
		if (intake->has_next_host)
			intake_begin_run(intake, &intake->next_host);
		break;
	}
	if (!intake->has_single)
		return RINGTAIL_TIMEOUT;
	intake->has_single = false;
	*item = intake->single;
	return item->kind;
}
