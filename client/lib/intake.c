#include "client/lib/intake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/lib/failure.h"
#include "client/lib/host.h"
#include "client/lib/ledger.h"
#include "client/lib/limits.h"
#include "client/lib/merge.h"
#include "client/lib/unpack.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/visible.h"

struct intake {
	bool count_only;
	bool segmented;				/* it is a spool's: segments follow each other */
	bool segment_final;			/* it has ended: nothing of its run is missing after it */
	bool run_ended;				/* so had the one before */
	bool segments_gone;			/* some were deleted before they could be read */
	bool reached[INTAKE_ENDED + 1];
	bool is_whole;				/* the last frame was an end */
	struct forward_span span;		/* of the last frame */
	struct intake_desk *desk;
	bool owns_desk;
	struct catalog *catalog;
	uint8_t *catalog_body;			/* what it was made of: mostly the next one is the same */
	size_t catalog_bytes;
	struct batch_decoder *scout;		/* opens batches as they come, for cpu and span */
	struct ledger *ledger;
	struct merge *merge;
	struct cursor *since_cursor;		/* what is before was given out long ago; */
	uint64_t since[CURSOR_POSITIONS_MAX];	/* by cpu, if it is of this run */
	uint64_t had[CURSOR_POSITIONS_MAX];	/* by cpu: where the run's segments before this one end; else 0 */
	uint64_t since_realtime_ns, until_realtime_ns;	/* 0: no bound */
	struct selection *selection;		/* NULL: every event; borrowed */
	bool check_begin;			/* nothing has come that tells when this file begins, */
	uint64_t whole_realtime_ns;		/* but its segment's head, or Subscribed; 0: neither */
	bool begins_first;			/* it is the first that its spool has written */
	struct ringtail_item single;		/* count_only: a batch; else a watermark */
	bool has_single;
	struct ringtail_attachment *attachment;
	size_t attachments_max;
	struct ringtail_host host;
	struct ringtail_host next_host;		/* its run begins when that before has been given out */
	bool has_next_host;
	struct merge_entry *held_gap;		/* of no size; NULL: none. Its place is known a frame later */
	uint32_t held_cpu;
	struct ringtail_totals totals;
	char bye[NAME_BYTES_MAX];
	bool bye_is_final;
};

struct intake_desk *intake_desk_create(void)
{
	struct intake_desk *desk = calloc(1, sizeof(*desk));

	if (!desk)
		return NULL;
	desk->codec = frame_codec_create(1);
	if (desk->codec)
		return desk;
	free(desk);
	return NULL;
}

void intake_desk_destroy(struct intake_desk *desk)
{
	if (!desk)
		return;
	frame_codec_destroy(desk->codec);
	free(desk);
}

static struct intake *create(struct intake_desk *desk)
{
	struct intake *intake = calloc(1, sizeof(*intake));

	if (!intake)
		return NULL;
	intake->desk = desk;
	intake->ledger = calloc(1, sizeof(*intake->ledger));
	intake->since_cursor = cursor_create(CURSOR_POSITIONS_MAX);
	intake->merge = merge_create(MERGE_BYTES_MAX);
	if (!intake->ledger || !intake->since_cursor || !intake->merge) {
		intake_destroy(intake);
		return NULL;
	}
	return intake;
}

struct intake *intake_create(bool count_only)
{
	struct intake_desk *desk = intake_desk_create();
	struct intake *intake = desk ? create(desk) : NULL;

	if (!intake) {
		intake_desk_destroy(desk);
		return NULL;
	}
	intake->owns_desk = true;
	intake->count_only = count_only;
	return intake;
}

struct intake *intake_create_at(struct intake_desk *desk)
{
	struct intake *intake = create(desk);

	if (intake)
		merge_keep_no_decoders(intake->merge);
	return intake;
}

void intake_destroy(struct intake *intake)
{
	if (!intake)
		return;
	merge_destroy(intake->merge);
	merge_entry_destroy(intake->held_gap);
	batch_decoder_destroy(intake->scout);
	catalog_unref(intake->catalog);
	free(intake->catalog_body);
	if (intake->owns_desk)
		intake_desk_destroy(intake->desk);
	free(intake->ledger);
	free(intake->since_cursor);
	free(intake->attachment);
	free(intake);
}

void intake_set_count_only(struct intake *intake, bool count_only)
{
	intake->count_only = count_only;
}

static bool same_run(const struct ringtail_host *host, const uint8_t *boot_id, uint64_t epoch)
{
	return host->epoch == epoch && memcmp(host->boot_id, boot_id, sizeof(host->boot_id)) == 0;
}

static void apply_since(struct intake *intake)
{
	const struct cursor *since = intake->since_cursor;

	memset(intake->since, 0, sizeof(intake->since));
	if (!same_run(&intake->host, since->run.boot_id, since->run.epoch))
		return;
	for (uint32_t i = 0; i < since->n; i++) {
		const struct position *position = &since->position[i];

		/* A CPU of which nothing comes stands there all the same. */
		if (ledger_start(intake->ledger, position->cpu, position->seq) == 0)
			intake->since[position->cpu] = position->seq;
	}
}

void intake_set_since(struct intake *intake, const struct cursor *since)
{
	if (since)
		cursor_assign(intake->since_cursor, since);
	else
		*intake->since_cursor = (struct cursor){.capacity = CURSOR_POSITIONS_MAX};
	apply_since(intake);
}

/* By the clock of this run's events. */
static void apply_since_time(struct intake *intake)
{
	uint64_t offset_ns = intake->host.realtime_ns - intake->host.monotonic_ns;

	merge_set_since(intake->merge, intake->since_realtime_ns > offset_ns ?
					       intake->since_realtime_ns - offset_ns : 0);
}

void intake_set_since_time(struct intake *intake, uint64_t realtime_ns)
{
	intake->since_realtime_ns = realtime_ns;
	apply_since_time(intake);
}

void intake_set_until_time(struct intake *intake, uint64_t realtime_ns)
{
	intake->until_realtime_ns = realtime_ns;
}

void intake_set_selection(struct intake *intake, struct selection *selection)
{
	intake->selection = selection;
}

void intake_check_begin(struct intake *intake)
{
	intake->check_begin = true;
}

static int bad_frame(struct ringtail_error *error, const struct frame *frame, const char *why)
{
	return failure_set(error, EBADMSG, "bad-message", "%s frame at byte %llu: %s",
			   frame_type_name(frame->header.type), (unsigned long long)frame->offset,
			   why);
}

static int no_memory(struct ringtail_error *error)
{
	return failure_set(error, ENOMEM, "no-memory", "out of memory for frames that wait");
}

/* ---- The frames, each by its type ----------------------------------------------------------- */

/* Another run of the rings counts anew. */
static void begin_run(struct intake *intake, const struct ringtail_host *host)
{
	intake->host = *host;
	intake->has_next_host = false;
	memset(intake->had, 0, sizeof(intake->had));
	ledger_restart(intake->ledger);
	merge_restart(intake->merge);
	apply_since(intake);
	apply_since_time(intake);
}

static int take_error(struct intake *intake, const void *message, const struct frame *frame,
		      struct ringtail_error *error)
{
	const Ringtail__V1__Error *refused = message;

	(void)intake;
	(void)frame;
	/*
	 * A daemon that was killed may not know yet that this client has what it acknowledges. Nothing was
	 * changed, and the stream goes on: the next acknowledgement says more.
	 */
	if (!refused->fatal && strcmp(refused->code, "ack-beyond") == 0)
		return 0;
	return host_error(message, error);
}

/* What the daemon knows that this client has, at its first connection and at each one after it. */
static void take_since(struct intake *intake, const Ringtail__V1__Cursor *told)
{
	struct cursor *since = intake->since_cursor;

	if (told->boot_id.len == sizeof(since->run.boot_id)) {
		since->n = 0;
		cursor_fill(since, told);
	}
	apply_since(intake);
}

/* What a spool gave up for lost while its disk failed may have come to the disk all the same. */
static uint64_t come_of_gap(const struct intake *intake, const Ringtail__V1__Gap *gap)
{
	const struct ledger_cpu *at = gap->cpu < intake->ledger->cpus ?
				      &intake->ledger->cpu[gap->cpu] : NULL;

	if (!intake->segmented || gap->stage != RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL || !at ||
	    !at->known || at->seq <= gap->first_seq)
		return 0;
	return (at->seq < gap->end_seq ? at->seq : gap->end_seq) - gap->first_seq;
}

/* What a segment before this one has told. */
static uint64_t told_of_gap(const struct intake *intake, const Ringtail__V1__Gap *gap)
{
	uint64_t had = gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_OTHER_EPOCH ? 0 : intake->had[gap->cpu];

	return had <= gap->first_seq ? 0 : (had < gap->end_seq ? had : gap->end_seq) - gap->first_seq;
}

/*
 * A segment goes on where those before it end. A relay that failed between storing and acknowledging gets the
 * same frames again, and begins a segment with them.
 */
static void note_had(struct intake *intake)
{
	for (uint32_t cpu = 0; intake->segmented && cpu < intake->ledger->cpus; cpu++)
		if (intake->ledger->cpu[cpu].known)
			intake->had[cpu] = intake->ledger->cpu[cpu].seq;
}

static int push_gap(struct intake *intake, uint32_t cpu, struct merge_entry *entry,
		    struct ringtail_error *error)
{
	if (merge_push(intake->merge, cpu, entry)) {
		merge_entry_destroy(entry);
		return no_memory(error);
	}
	return 0;
}

/* What came after it tells where it stands: between two runs, or where it came. */
static int release_gap(struct intake *intake, struct ringtail_error *error)
{
	struct merge_entry *entry = intake->held_gap;

	intake->held_gap = NULL;
	return entry ? push_gap(intake, intake->held_cpu, entry, error) : 0;
}

static int take_gap(struct intake *intake, const void *message, const struct frame *frame,
		    struct ringtail_error *error)
{
	Ringtail__V1__Gap rest = *(const Ringtail__V1__Gap *)message, *gap = &rest;
	struct merge_entry *entry;
	uint64_t come, told;

	if (gap->cpu >= CURSOR_POSITIONS_MAX || gap->end_seq < gap->first_seq)
		return bad_frame(error, frame, "its CPU or its span is out of range");
	intake->span = (struct forward_span){ true, gap->cpu, gap->first_seq, gap->end_seq };
	come = come_of_gap(intake, gap);
	told = told_of_gap(intake, gap);
	if (told > come)
		come = told;
	if (come && come == gap->end_seq - gap->first_seq)
		return 0;
	gap->first_seq += come;
	if (gap->events > gap->end_seq - gap->first_seq)
		gap->events = gap->end_seq - gap->first_seq;
	/* Numbers of another run of the rings do not meet those of this one. */
	if (gap->end_seq > gap->first_seq &&
	    gap->reason != RINGTAIL__V1__LOSS_REASON__REASON_OTHER_EPOCH)
		ledger_span(intake->ledger, gap->cpu, gap->first_seq, gap->end_seq);
	/* Whoever wrote this file names what is missing before it: that is said once. */
	if (gap->reason == RINGTAIL__V1__LOSS_REASON__REASON_HISTORY_GONE && gap->end_seq == gap->first_seq)
		intake->check_begin = false;
	entry = merge_entry_create(NULL, 0);
	if (!entry)
		return no_memory(error);
	entry->gap = (struct merge_gap){
		.first_seq = gap->first_seq,
		.end_seq = gap->end_seq,
		.events = gap->events,
		.stage = gap->stage,
		.reason = gap->reason,
	};
	if (gap->end_seq > gap->first_seq)
		return push_gap(intake, gap->cpu, entry, error);
	/* Of no size: perhaps what is missing between this run of the rings and the next one. */
	if (release_gap(intake, error)) {
		merge_entry_destroy(entry);
		return -ENOMEM;
	}
	intake->held_gap = entry;
	intake->held_cpu = gap->cpu;
	return 0;
}

/* Between a segment of a spool and the one before: what is missing was in one that is gone or damaged. */
static int take_hole(struct intake *intake, const Ringtail__V1__Position *start,
		     const struct frame *frame, struct ringtail_error *error)
{
	const struct ledger_cpu *at = start->cpu < intake->ledger->cpus ?
				      &intake->ledger->cpu[start->cpu] : NULL;
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;

	if (!intake->segmented || !at || !at->known || at->seq >= start->seq)
		return 0;
	gap.cpu = start->cpu;
	gap.first_seq = at->seq;
	gap.end_seq = start->seq;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL;
	gap.reason = intake->segments_gone ? RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL :
					     RINGTAIL__V1__LOSS_REASON__REASON_CORRUPT;
	return take_gap(intake, &gap, frame, error);
}

/*
 * A spool goes on with another run of the rings. Between the two nothing was recorded; and of one that did
 * not end in order, something may not have been stored. Nobody knows how much: a gap of no size.
 */
static int take_run_end(struct intake *intake, const struct frame *frame,
			struct ringtail_error *error)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	uint32_t cpu = 0;

	while (cpu < intake->ledger->cpus && !intake->ledger->cpu[cpu].known)
		cpu++;
	if (cpu == intake->ledger->cpus)
		return 0;			/* there was none before */
	gap.cpu = cpu;
	gap.first_seq = gap.end_seq = intake->ledger->cpu[cpu].seq;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL;
	gap.reason = intake->segments_gone ? RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL :
		     intake->run_ended	   ? RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED :
					     RINGTAIL__V1__LOSS_REASON__REASON_RESTART;
	return take_gap(intake, &gap, frame, error);
}

static int take_server_hello(struct intake *intake, const void *message,
			     const struct frame *frame, struct ringtail_error *error)
{
	struct ringtail_host host = { 0 };
	int err = host_from_hello(message, &host, error);

	if (err)
		return err;
	intake->reached[INTAKE_GREETED] = true;
	if (intake->segmented && !same_run(&intake->host, host.boot_id, host.epoch)) {
		err = take_run_end(intake, frame, error);
		if (err)
			return err;
	}
	err = release_gap(intake, error);
	if (err)
		return err;
	if (same_run(&intake->host, host.boot_id, host.epoch)) {
		intake->host = host;
		apply_since_time(intake);
	} else if (merge_bytes(intake->merge)) {
		merge_end_run(intake->merge);
		intake->next_host = host;
		intake->has_next_host = true;
	} else {
		begin_run(intake, &host);
	}
	return 0;
}

static int take_subscribed(struct intake *intake, const void *message, const struct frame *frame,
			   struct ringtail_error *error)
{
	const Ringtail__V1__Subscribed *subscribed = message;

	if ((subscribed->start && subscribed->start->n_position > CURSOR_POSITIONS_MAX) ||
	    (subscribed->since && subscribed->since->n_position > CURSOR_POSITIONS_MAX))
		return bad_frame(error, frame, "too many positions");
	note_had(intake);
	for (size_t i = 0; subscribed->start && i < subscribed->start->n_position; i++) {
		const Ringtail__V1__Position *start = subscribed->start->position[i];

		int err = take_hole(intake, start, frame, error);

		if (err)
			return err;
		if (ledger_start(intake->ledger, start->cpu, start->seq))
			return bad_frame(error, frame, "a CPU's number is out of range");
	}
	if (!intake->whole_realtime_ns)
		intake->whole_realtime_ns = subscribed->from_realtime_ns;
	if (subscribed->since)
		take_since(intake, subscribed->since);
	intake->segments_gone = false;
	intake->reached[INTAKE_SUBSCRIBED] = true;
	return 0;
}

static int take_segment_head(struct intake *intake, const void *message, const struct frame *frame,
			     struct ringtail_error *error)
{
	const Ringtail__V1__SegmentHead *head = message;

	(void)frame;
	(void)error;
	if (!intake->segmented) {
		intake->whole_realtime_ns = head->whole_realtime_ns ? head->whole_realtime_ns :
								      head->realtime_ns;
		intake->begins_first = head->sequence <= 1;
	}
	intake->segmented = true;
	intake->run_ended = intake->segment_final;
	intake->segment_final = false;
	/* One of no run stands where segments were deleted before they could be read: spool_dir. */
	if (!head->boot_id.len)
		intake->segments_gone = true;
	return 0;
}

static int take_segment_end(struct intake *intake, const void *message, const struct frame *frame,
			    struct ringtail_error *error)
{
	const Ringtail__V1__SegmentEnd *end = message;

	(void)frame;
	(void)error;
	intake->segment_final = end->final;
	return 0;
}

/*
 * The first of a file that tells of a time. What happened before it, or before the file was begun, was not
 * recorded, or is not there any more: a gap of no size, if that was asked for.
 */
static int take_begin(struct intake *intake, uint32_t cpu, uint64_t seq, uint64_t time_ns,
		      const struct frame *frame, struct ringtail_error *error)
{
	const struct ringtail_host *host = &intake->host;
	uint64_t first = time_ns + host->realtime_ns - host->monotonic_ns;
	uint64_t begin = intake->whole_realtime_ns ? intake->whole_realtime_ns :
			 first < host->realtime_ns ? first : host->realtime_ns;
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	int err;

	/* A ring's very first batch counts its times from 0, and tells nothing. */
	if (!intake->check_begin || (!time_ns && !intake->whole_realtime_ns))
		return 0;
	intake->check_begin = false;
	if (begin <= intake->since_realtime_ns)
		return 0;
	gap.cpu = cpu;
	gap.first_seq = gap.end_seq = seq;
	gap.stage = intake->segmented ? RINGTAIL__V1__LOSS_STAGE__LOSS_SPOOL :
					RINGTAIL__V1__LOSS_STAGE__LOSS_HISTORY;
	gap.reason = intake->segmented && !intake->begins_first ?
			     RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL :
			     RINGTAIL__V1__LOSS_REASON__REASON_NOT_RECORDED;
	err = take_gap(intake, &gap, frame, error);
	/* It stands before what told the time, whatever comes next. */
	return err ? err : release_gap(intake, error);
}

static int take_watermark(struct intake *intake, const void *message, const struct frame *frame,
			  struct ringtail_error *error)
{
	const Ringtail__V1__Watermark *watermark = message;

	if (watermark->n_position > CURSOR_POSITIONS_MAX)
		return bad_frame(error, frame, "too many positions");
	for (size_t i = 0; i < watermark->n_position; i++)
		if (ledger_watermark(intake->ledger, watermark->position[i]->cpu,
				     watermark->position[i]->seq,
				     watermark->position[i]->skipped))
			return bad_frame(error, frame, "a CPU's number is out of range");
	merge_watermark(intake->merge, watermark->time_ns);
	intake->single = (struct ringtail_item){
		.kind = RINGTAIL_WATERMARK,
		.time_ns = watermark->time_ns,
		.realtime_ns = watermark->time_ns + intake->host.realtime_ns -
			       intake->host.monotonic_ns,
	};
	intake->has_single = true;
	return take_begin(intake, 0, 0, watermark->time_ns, frame, error);
}

static int take_bye(struct intake *intake, const void *message, const struct frame *frame,
		    struct ringtail_error *error)
{
	const Ringtail__V1__Bye *bye = message;

	(void)frame;
	(void)error;
	visible_copy(intake->bye, sizeof(intake->bye), bye->reason, strlen(bye->reason));
	intake->bye_is_final = bye->final;
	intake->reached[INTAKE_ENDED] = true;
	merge_flush(intake->merge);
	return 0;
}

/* Of all that there are only the newest stays: batches of others go out before anything else comes. */
static int take_catalog(struct intake *intake, const uint8_t *body, size_t bytes,
			struct ringtail_error *error)
{
	struct catalog *catalog;
	uint8_t *copy;
	int err;

	if (intake->catalog && bytes == intake->catalog_bytes &&
	    memcmp(body, intake->catalog_body, bytes) == 0)
		return 0;
	err = catalog_create(body, bytes, intake->host.machine, &catalog, error);
	if (err)
		return err;
	if (catalog_select(catalog, intake->selection)) {
		catalog_unref(catalog);
		return no_memory(error);
	}
	batch_decoder_destroy(intake->scout);
	intake->scout = catalog_decoder_create(catalog);
	copy = malloc(bytes + 1);
	if (copy)
		memcpy(copy, body, bytes);
	free(intake->catalog_body);
	intake->catalog_body = copy;
	intake->catalog_bytes = bytes;
	catalog_unref(intake->catalog);
	intake->catalog = catalog;
	merge_set_catalog(intake->merge, catalog);
	return intake->scout && copy ? 0 : no_memory(error);
}

/* Where what is new of a batch begins: an earlier segment had what is before that. */
static uint64_t new_from(const struct intake *intake, const struct batch_summary *batch)
{
	uint64_t had = batch->cpu < CURSOR_POSITIONS_MAX ? intake->had[batch->cpu] : 0;

	if (had <= batch->first_seq)
		return batch->first_seq;
	return had < batch->end_seq ? had : batch->end_seq;
}

/* The same of a batch that is only counted: the scout has just opened it. */
static __attribute__((noinline)) void count_new(struct intake *intake, struct batch_summary *batch, uint64_t new_seq)
{
	struct batch_item item;
	enum batch_item_kind kind;

	while ((kind = batch_decode_next(intake->scout, &item)) == BATCH_EVENT || kind == BATCH_LOSS) {
		uint64_t first_seq = kind == BATCH_LOSS ? item.loss.first_seq : item.seq;

		if (first_seq >= new_seq)
			return;
		if (kind == BATCH_EVENT) {
			batch->counted -= item.counts ? item.counts->events : 1;
			intake->totals.duplicate++;
		} else {
			batch->lost -= first_seq + item.loss.count < new_seq ? item.loss.count : new_seq - first_seq;
		}
	}
}

static int count_batch(struct intake *intake, struct batch_summary *batch, uint64_t new_seq)
{
	if (new_seq > batch->first_seq)
		count_new(intake, batch, new_seq);
	intake->totals.events += batch->counted;
	intake->totals.lost += batch->lost;
	intake->single = (struct ringtail_item){
		.kind = RINGTAIL_BATCH,
		.cpu = batch->cpu,
		.seq = new_seq,
		.time_ns = batch->time_ns,
		.count = batch->counted,
	};
	intake->has_single = true;
	return 0;
}

/* A batch is un-zstd'ed straight into the entry in which it may wait. */
static int take_batch(struct intake *intake, const struct frame *frame,
		      struct ringtail_error *error)
{
	struct merge_entry *entry = NULL;
	uint8_t *message = intake->desk->raw;
	struct batch_summary summary;
	enum frame_status status;
	const uint8_t *body;
	uint64_t new_seq;
	int err;

	if (!intake->catalog)
		return bad_frame(error, frame, "it came before any catalog");
	if (!intake->count_only) {
		entry = merge_entry_create(intake->catalog, frame->header.raw_bytes);
		if (!entry)
			return no_memory(error);
		entry->offset = frame->offset;
		message = entry->message;
	}
	status = frame_open(intake->desk->codec, frame->bytes, &frame->header, message, &body);
	if (status != FRAME_OK) {
		merge_entry_destroy(entry);
		return bad_frame(error, frame, frame_status_text(status));
	}
	if (entry && body != entry->message) {
		memcpy(entry->message, body, frame->header.raw_bytes);
		body = entry->message;
	}
	if (batch_decode_open(intake->scout, body, frame->header.raw_bytes, &summary)) {
		merge_entry_destroy(entry);
		return bad_frame(error, frame, batch_decode_error(intake->scout));
	}
	intake->span = (struct forward_span){ true, summary.cpu, summary.first_seq, summary.end_seq };
	new_seq = new_from(intake, &summary);
	if (ledger_span(intake->ledger, summary.cpu, new_seq, summary.end_seq)) {
		merge_entry_destroy(entry);
		return bad_frame(error, frame, "its CPU or its span is out of range");
	}
	if (entry)
		entry->gap = (struct merge_gap){ .first_seq = new_seq, .end_seq = summary.end_seq };
	err = take_begin(intake, summary.cpu, new_seq, summary.time_ns, frame, error);
	if (err) {
		merge_entry_destroy(entry);
		return err;
	}
	if (!entry)
		return count_batch(intake, &summary, new_seq);
	if (merge_push(intake->merge, summary.cpu, entry)) {
		merge_entry_destroy(entry);
		return no_memory(error);
	}
	return 0;
}

/* ---- Which is which ------------------------------------------------------------------------- */

static const struct {
	enum frame_type type;
	const ProtobufCMessageDescriptor *message;
	int (*take)(struct intake *intake, const void *message, const struct frame *frame,
		    struct ringtail_error *error);
} unpacked[] = {
	{ FRAME_SERVER_HELLO, &ringtail__v1__server_hello__descriptor, take_server_hello },
	{ FRAME_ERROR, &ringtail__v1__error__descriptor, take_error },
	{ FRAME_SUBSCRIBED, &ringtail__v1__subscribed__descriptor, take_subscribed },
	{ FRAME_WATERMARK, &ringtail__v1__watermark__descriptor, take_watermark },
	{ FRAME_GAP, &ringtail__v1__gap__descriptor, take_gap },
	{ FRAME_BYE, &ringtail__v1__bye__descriptor, take_bye },
	{ FRAME_SEGMENT_HEAD, &ringtail__v1__segment_head__descriptor, take_segment_head },
	{ FRAME_SEGMENT_END, &ringtail__v1__segment_end__descriptor, take_segment_end },
};

static int take_unpacked(struct intake *intake, const struct frame *frame, const uint8_t *body,
			 struct ringtail_error *error)
{
	for (size_t i = 0; i < sizeof(unpacked) / sizeof(*unpacked); i++) {
		struct arena *arena;
		void *message;
		int err;

		if (unpacked[i].type != frame->header.type)
			continue;
		message = unpack(unpacked[i].message, body, frame->header.raw_bytes, &arena);
		if (!message)
			return bad_frame(error, frame, frame_status_text(FRAME_BAD_MESSAGE));
		err = unpacked[i].take(intake, message, frame, error);
		arena_destroy(arena);
		return err;
	}
	return bad_frame(error, frame, "it has no business in a stream");
}

int intake_frame(struct intake *intake, const struct frame *frame, struct ringtail_error *error)
{
	enum frame_status status;
	const uint8_t *body;

	intake->is_whole = frame->header.type == FRAME_BYE || frame->header.type == FRAME_SEGMENT_END;
	intake->span.known = false;
	intake->totals.frames++;
	intake->totals.wire_bytes += frame->size;
	intake->totals.raw_bytes += frame->header.raw_bytes;
	/* A segment of a spool has a head of its own before everything. */
	if (!intake->reached[INTAKE_GREETED] && frame->header.type != FRAME_SERVER_HELLO &&
	    frame->header.type != FRAME_ERROR && frame->header.type != FRAME_SEGMENT_HEAD)
		return bad_frame(error, frame, "the hello must come first");
	if (frame->header.type != FRAME_SERVER_HELLO && frame->header.type != FRAME_SEGMENT_HEAD &&
	    frame->header.type != FRAME_SEGMENT_END && release_gap(intake, error))
		return -ENOMEM;
	if (frame->header.type == FRAME_BATCH)
		return take_batch(intake, frame, error);
	status = frame_open(intake->desk->codec, frame->bytes, &frame->header, intake->desk->raw, &body);
	if (status != FRAME_OK)
		return bad_frame(error, frame, frame_status_text(status));
	if (frame->header.type == FRAME_CATALOG)
		return take_catalog(intake, body, frame->header.raw_bytes, error);
	return take_unpacked(intake, frame, body, error);
}

const struct forward_span *intake_span(const struct intake *intake)
{
	return &intake->span;
}

/* ---- Items: what has come, one by one --------------------------------------------------------- */

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

	intake->totals.events += batch->counts ? batch->counts->events : 1;
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
	item->thread.cgroup_id = thread->cgroup_id;
	item->thread.exe = thread->exe ? thread->exe->data : NULL;
	item->thread.exe_bytes = thread->exe ? thread->exe->bytes : 0;
	item->thread.cgroup = thread->cgroup ? thread->cgroup->data : NULL;
	item->thread.cgroup_bytes = thread->cgroup ? thread->cgroup->bytes : 0;
	item->attachment = NULL;
	item->attachments = 0;
	item->source = from->decoder;
	if (batch->attachments)
		give_attachments(intake, batch, item);
}

/* What of a batch is before that is not given out: of its entry, the span is what is new. */
static uint64_t seen_upto(const struct intake *intake, const struct merge_item *from)
{
	uint64_t since = intake->since[from->cpu];

	return from->gap->first_seq > since ? from->gap->first_seq : since;
}

static void give_loss(struct intake *intake, const struct merge_item *from,
		      struct ringtail_item *item)
{
	const struct batch_loss *loss = &from->batch->loss;
	uint64_t seen = seen_upto(intake, from);
	uint64_t before = loss->first_seq < seen ? seen - loss->first_seq : 0;

	intake->totals.lost += loss->count - before;
	*item = (struct ringtail_item){
		.kind = RINGTAIL_LOSS,
		.cpu = from->cpu,
		.seq = loss->first_seq + before,
		.time_ns = from->time_ns,
		.count = loss->count - before,
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
	uint64_t count = gap->end_seq - first_seq;

	*item = (struct ringtail_item){
		.kind = RINGTAIL_GAP,
		.cpu = from->cpu,
		.seq = first_seq,
		.time_ns = from->time_ns,
		.count = count,
		.events = gap->events < count ? gap->events : count,
		.stage = gap->stage,
		.reason = gap->reason,
	};
	intake->totals.gaps++;
	intake->totals.unknown += !gap->events && !item->count;
	intake->totals.lost += gap->events ? item->events : count;
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
	bool undecided = false;

	if (next == MERGE_EVENT &&
	    (is_too_early(intake, from->batch->event.time_ns) ||
	     is_too_late(intake, from->batch->event.time_ns) ||
	     !catalog_selects(from->catalog, from->cpu, from->batch, &undecided))) {
		intake->totals.filtered++;
		return true;
	}
	intake->totals.undecided += undecided;
	return (next == MERGE_LOSS || next == MERGE_GAP) &&
	       (from->is_early || is_too_late(intake, from->time_ns));
}

/* Whether an event, or all of a loss or a gap, is from before where the stream goes on. */
static bool is_seen(const struct intake *intake, enum merge_next next, const struct merge_item *from)
{
	if (next == MERGE_EVENT)
		return from->batch->seq < intake->since[from->cpu];
	if (next == MERGE_GAP)
		return from->gap->end_seq > from->gap->first_seq &&
		       from->gap->end_seq <= intake->since[from->cpu];
	return next == MERGE_LOSS && from->batch->loss.first_seq < seen_upto(intake, from) &&
	       from->batch->loss.first_seq + from->batch->loss.count <= seen_upto(intake, from);
}

/* An event of a batch that an earlier segment had in part. */
static bool is_repeated(struct intake *intake, enum merge_next next, const struct merge_item *from)
{
	if (next != MERGE_EVENT || from->batch->seq >= from->gap->first_seq)
		return false;
	intake->totals.duplicate++;
	return true;
}

enum ringtail_kind intake_next(struct intake *intake, struct ringtail_item *item,
			       struct ringtail_error *error)
{
	struct merge_item from;
	enum merge_next next;

	do
		next = merge_next(intake->merge, &from);
	while (is_repeated(intake, next, &from) || is_seen(intake, next, &from) || is_outside(intake, next, &from));
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
			begin_run(intake, &intake->next_host);
		break;
	}
	if (!intake->has_single)
		return RINGTAIL_TIMEOUT;
	intake->has_single = false;
	*item = intake->single;
	return item->kind;
}

/* ---- What it knows --------------------------------------------------------------------------- */

void intake_flush(struct intake *intake)
{
	if (release_gap(intake, NULL)) {	/* it cannot be shown, but it is not forgotten */
		intake->totals.gaps++;
		intake->totals.unknown++;
	}
	merge_flush(intake->merge);
}

bool intake_reached(const struct intake *intake, enum intake_phase phase)
{
	return intake->reached[phase];
}

bool intake_is_whole(const struct intake *intake)
{
	return intake->is_whole;
}

void intake_set_cut_short(struct intake *intake)
{
	intake->totals.cut_short = 1;
}

void intake_restart(struct intake *intake)
{
	memset(intake->reached, 0, sizeof(intake->reached));
}

const char *intake_bye(const struct intake *intake)
{
	return intake->bye;
}

bool intake_bye_is_final(const struct intake *intake)
{
	return intake->bye_is_final;
}

const struct ringtail_host *intake_host(const struct intake *intake)
{
	return &intake->host;
}

const struct ringtail_totals *intake_totals(struct intake *intake)
{
	/* These two are kept where they arise. */
	intake->totals.late = merge_late(intake->merge);
	intake->totals.residual = intake->ledger->residual;
	return &intake->totals;
}

void intake_cursor_come(const struct intake *intake, struct cursor *cursor)
{
	memcpy(cursor->run.boot_id, intake->host.boot_id, sizeof(cursor->run.boot_id));
	cursor->run.epoch = intake->host.epoch;
	ledger_cursor(intake->ledger, cursor);
}

void intake_cursor_given(const struct intake *intake, struct cursor *cursor)
{
	intake_cursor_come(intake, cursor);
	for (uint32_t i = 0; i < cursor->n; i++) {
		uint64_t seq;

		if (merge_waiting(intake->merge, cursor->position[i].cpu, &seq))
			cursor->position[i].seq = seq;
		if (cursor->position[i].seq < intake->since[cursor->position[i].cpu])
			cursor->position[i].seq = intake->since[cursor->position[i].cpu];
	}
}
