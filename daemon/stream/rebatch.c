#include "daemon/stream/rebatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/ring/probe_table.h"
#include "proto/batch_decode.h"
#include "proto/message.h"

/* The probes of one run, and which of them the subscription asks for. */
struct other_run {
	struct probe_table table;
	struct batch_probe batch_probe[RT_PROBE_MAX];
	struct probe_set probes;
	bool programs;			/* and some of them are programs' */
	struct filter *filter;
	bool blind;			/* its catalog or the filter is of no use: no event can be chosen */
	struct batch_decoder *decoder;
};

/* A thread of the batch that is being joined; an open hash table, by tid. */
#define KNOWN_THREADS	(2 * BATCH_THREADS_MAX)
#define KNOWN_LOOKS	8u

struct known_thread {
	uint64_t join;			/* its number; of another one, the place is free */
	struct batch_thread thread;
	uint64_t slot;
};

struct rebatch {
	const struct subscription *wanted;
	struct frame_codec *codec;
	struct batch_encoder *encoder;
	struct other_run *run;
	struct known_thread *known;	/* NULL: nothing was joined yet */
	uint64_t joins;
};

/* One batch while it is copied. */
struct copy {
	struct rebatch *rebatch;
	bool joins;			/* several batches into one, of which all is wanted */
	uint64_t next;			/* attempts before it are in the new batch */
	const struct batch_thread *threads;
	uint64_t slot[BATCH_THREADS_MAX];
	struct frame_ref meta;		/* what the new frame is to say of itself; it has no bytes */
};

/* ---- Runs ------------------------------------------------------------------------------------ */

static void run_destroy(struct other_run *run)
{
	if (!run)
		return;
	batch_decoder_destroy(run->decoder);
	filter_destroy(run->filter);
	free(run);
}

/* What that run did not have, nobody can have asked for. */
static void choose_probes(struct other_run *run, const struct subscription *wanted,
			  const Ringtail__V1__Catalog *catalog)
{
	struct error unknown;

	for (size_t i = 0; i < wanted->globs; i++)
		if (probe_set_add_glob(&run->probes, wanted->glob[i], catalog, &unknown) != 0)
			continue;
	for (size_t i = RT_PROBE_PROGRAM / 8; i < sizeof(run->probes.bits); i++) {
		run->programs |= run->probes.bits[i];
		/* Others' may have the same names. */
		if (wanted->owner)
			run->probes.bits[i] &= wanted->spec.probes.bits[i];
	}
	if (probe_set_test(&wanted->spec.probes, RT_PROBE_PROCESS_MAP) &&
	    run->table.probe[RT_PROBE_PROCESS_MAP].known)
		probe_set_add(&run->probes, RT_PROBE_PROCESS_MAP);
}

static struct other_run *run_create(const struct subscription *wanted,
				    const Ringtail__V1__Catalog *catalog)
{
	struct other_run *run = calloc(1, sizeof(*run));
	struct error error;
	int err;

	if (!run)
		return NULL;
	if (probe_table_init(&run->table, catalog, &error) != 0)
		run->blind = true;
	for (unsigned id = 0; id < RT_PROBE_MAX; id++)
		run->batch_probe[id] = (struct batch_probe){
			.known = run->table.probe[id].known,
			.fields = run->table.probe[id].fields,
			.has_duration = run->table.probe[id].has_duration,
		};
	choose_probes(run, wanted, catalog);
	err = filter_compile(wanted->filter_text, catalog, &run->filter, &error);
	run->blind |= err;
	run->decoder = batch_decoder_create(run->batch_probe, RT_PROBE_MAX);
	if (run->decoder && err != -ENOMEM)
		return run;
	run_destroy(run);
	return NULL;
}

struct rebatch *rebatch_create(const struct subscription *wanted,
			       const Ringtail__V1__Catalog *catalog, struct frame_codec *codec,
			       struct batch_encoder *encoder)
{
	struct rebatch *rebatch = calloc(1, sizeof(*rebatch));

	if (!rebatch)
		return NULL;
	*rebatch = (struct rebatch){.wanted = wanted, .codec = codec, .encoder = encoder,
				    .run = run_create(wanted, catalog)};
	if (rebatch->run)
		return rebatch;
	rebatch_destroy(rebatch);
	return NULL;
}

void rebatch_destroy(struct rebatch *rebatch)
{
	if (!rebatch)
		return;
	run_destroy(rebatch->run);
	free(rebatch->known);
	free(rebatch);
}

bool rebatch_is_blind(const struct rebatch *rebatch)
{
	return rebatch->run->blind;
}

bool rebatch_hides_programs(const struct rebatch *rebatch)
{
	return rebatch->wanted->owner && rebatch->run->programs;
}

/* The bytes of the frame's message, to be freed. NULL: out of memory, or, with *bad, the frame is damaged. */
static uint8_t *open_frame(const struct rebatch *rebatch, const struct frame_ref *frame,
			   const uint8_t **body, uint32_t *bytes, bool *bad)
{
	struct frame_header header;
	uint8_t *raw;

	*bad = frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header) !=
	       FRAME_OK;
	raw = *bad ? NULL : malloc(header.raw_bytes + 1);
	if (!raw)
		return NULL;
	*bytes = header.raw_bytes;
	*bad = frame_open(rebatch->codec, frame->data, &header, raw, body) != FRAME_OK;
	if (!*bad)
		return raw;
	free(raw);
	return NULL;
}

bool rebatch_learn(struct rebatch *rebatch, const struct frame_ref *frame)
{
	Ringtail__V1__Catalog *catalog;
	const uint8_t *body;
	struct other_run *run;
	uint32_t bytes;
	uint8_t *raw;
	bool bad;

	raw = open_frame(rebatch, frame, &body, &bytes, &bad);
	if (!raw)
		return bad;
	catalog = message_unpack(&ringtail__v1__catalog__descriptor, NULL, body, bytes);
	free(raw);
	if (!catalog) {
		rebatch->run->blind = true;
		return true;
	}
	run = run_create(rebatch->wanted, catalog);
	protobuf_c_message_free_unpacked(&catalog->base, NULL);
	if (!run)
		return false;
	run_destroy(rebatch->run);
	rebatch->run = run;
	return true;
}

/* ---- Batches --------------------------------------------------------------------------------- */

static void skip_to(struct copy *copy, uint64_t seq)
{
	if (seq <= copy->next)
		return;
	batch_encode_skip(copy->rebatch->encoder, seq - copy->next);
	copy->meta.skipped += seq - copy->next;
	copy->next = seq;
}

/* Their numbers are those of the run. */
static bool is_hidden(const struct copy *copy, uint16_t probe)
{
	return probe >= RT_PROBE_PROGRAM && copy->rebatch->wanted->owner && frame_ref_is_earlier(&copy->meta);
}

static bool is_wanted(const struct copy *copy, const struct batch_item *item)
{
	const struct other_run *run = copy->rebatch->run;
	struct filter_texts texts = {item->attachment, item->attachments, false};

	if (copy->joins)
		return true;
	return item->seq >= copy->next && item->seq < copy->meta.end_seq && !run->blind &&
	       probe_set_test(&run->probes, item->event.probe) && !is_hidden(copy, item->event.probe) &&
	       (item->event.probe == RT_PROBE_PROCESS_MAP ||
		filter_pass(run->filter, copy->meta.cpu, &item->event, item->thread, &texts));
}

static bool is_same_thread(const struct batch_thread *a, const struct batch_thread *b)
{
	return a->tid == b->tid && a->pid == b->pid && a->ppid == b->ppid && a->uid == b->uid &&
	       a->kernel == b->kernel && a->cgroup_id == b->cgroup_id &&
	       strncmp(a->comm, b->comm, sizeof(a->comm)) == 0;
}

/* A joined batch has a thread once. Texts last as long as the batch they are of: such threads come again. */
static uint64_t *slot_of(struct copy *copy, const struct batch_thread *thread)
{
	struct rebatch *rebatch = copy->rebatch;
	uint64_t *mine = &copy->slot[thread - copy->threads];

	if (*mine || !copy->joins || thread->exe || thread->cgroup)
		return mine;
	for (uint32_t look = 0; look < KNOWN_LOOKS; look++) {
		struct known_thread *known = &rebatch->known[(thread->tid + look) % KNOWN_THREADS];

		if (known->join != rebatch->joins)
			*known = (struct known_thread){.join = rebatch->joins, .thread = *thread};
		if (is_same_thread(&known->thread, thread))
			return &known->slot;
	}
	return mine;
}

static uint32_t copy_thread(struct copy *copy, const struct batch_thread *thread)
{
	uint64_t *slot = slot_of(copy, thread);
	uint32_t index = batch_encode_thread(copy->rebatch->encoder, thread, slot);

	copy->slot[thread - copy->threads] = *slot;
	return index;
}

/* The threads that fields name travel with the batch too. */
static bool copy_field_threads(struct copy *copy, const struct batch_event *event)
{
	const struct other_run *run = copy->rebatch->run;
	const struct probe_info *info = &run->table.probe[event->probe];

	for (unsigned i = 0; i < info->thread_fields; i++) {
		const struct batch_thread *thread = batch_decode_thread(
			run->decoder, (uint32_t)event->field[info->thread_field[i]]);

		if (thread && copy_thread(copy, thread) == UINT32_MAX)
			return false;
	}
	return true;
}

/* False: there is no room for it. */
static bool copy_attachment(struct copy *copy, uint16_t probe,
			    const struct batch_attachment *from)
{
	const struct batcher_spec *spec = &copy->rebatch->wanted->spec;
	struct batch_encoder *encoder = copy->rebatch->encoder;
	bool copied = true;

	switch (from->kind) {
	case RT_ATTACH_STRING:
		if (batcher_wants_text(spec, probe, &copy->rebatch->run->table.probe[probe], from->arg))
			copied = batch_encode_string(encoder, from->arg, from->text,
						     from->text_bytes);
		break;
	case RT_ATTACH_KSTACK:
	case RT_ATTACH_USTACK:
		if (spec->flags & (from->kind == RT_ATTACH_KSTACK ? RT_FLAG_KSTACK :
								    RT_FLAG_USTACK))
			copied = batch_encode_stack(encoder, from->kind == RT_ATTACH_KSTACK,
						    from->frame, from->frames);
		break;
	}
	return copied;
}

/* False: it does not fit, which no part of a batch that did can bring about; several may. */
static bool copy_event(struct copy *copy, const struct batch_item *item)
{
	struct batch_event event = item->event;

	if (!is_wanted(copy, item))
		return true;
	copy->threads = item->thread - item->event.thread;
	skip_to(copy, item->seq);
	event.thread = copy_thread(copy, item->thread);
	if (event.thread == UINT32_MAX || !copy_field_threads(copy, &event) ||
	    !batch_encode_event(copy->rebatch->encoder, &event))
		return false;
	for (size_t i = 0; i < item->attachments; i++) {
		bool copied = copy_attachment(copy, event.probe, &item->attachment[i]);

		if (!copied && copy->joins)
			return false;
		counter_add(COUNTER_attachments_dropped, !copied);
	}
	copy->meta.events++;
	copy->next++;
	return true;
}

static bool note_loss(struct frame_ref *meta, const struct batch_loss *loss, uint64_t count)
{
	uint32_t i = 0;

	if (loss->stage >= LOSS_STAGES || loss->reason >= LOSS_REASONS)
		return false;
	while (i < meta->losses &&
	       (meta->loss[i].stage != loss->stage || meta->loss[i].reason != loss->reason))
		i++;
	if (i == FRAME_LOSSES_MAX)
		return false;
	if (i == meta->losses)
		meta->loss[meta->losses++] = (struct loss_count){(uint8_t)loss->stage,
								 (uint8_t)loss->reason, 0};
	meta->loss[i].count += count;
	return true;
}

static bool copy_loss(struct copy *copy, const struct batch_loss *loss)
{
	uint64_t end_seq = loss->first_seq + loss->count, count;

	if (end_seq > copy->meta.end_seq)
		end_seq = copy->meta.end_seq;
	if (end_seq <= copy->next || loss->first_seq >= end_seq)
		return true;
	skip_to(copy, loss->first_seq);
	count = end_seq - copy->next;
	copy->next = end_seq;
	return note_loss(&copy->meta, loss, count) &&
	       batch_encode_loss(copy->rebatch->encoder, count, loss->stage, loss->reason);
}

static void begin(const struct copy *copy, const struct batch_summary *summary)
{
	struct batch_encoder *encoder = copy->rebatch->encoder;
	const struct batcher_spec *spec = &copy->rebatch->wanted->spec;

	batch_encoder_set_context(encoder, spec->context);
	batch_encode_begin(encoder, summary->cpu, copy->next, summary->time_ns);
	/* Where there is no memory for that, each event has its own. */
	batch_encode_share_stacks(encoder, spec->flags & SPEC_STACK_TABLE);
}

/* Into a new batch, or the one that was begun. False: that is no batch of this run; or it does not fit. */
static bool copy_items(struct copy *copy, bool begun, const uint8_t *body, uint32_t bytes)
{
	struct batch_decoder *decoder = copy->rebatch->run->decoder;
	struct batch_summary summary;
	struct batch_item item;
	bool whole = true;

	if (batch_decode_open(decoder, body, bytes, &summary) != 0)
		return false;
	if (!begun)
		begin(copy, &summary);
	while (whole && batch_decode_next(decoder, &item) != BATCH_END) {
		if (item.kind == BATCH_EVENT)
			whole = copy_event(copy, &item);
		else
			whole = item.kind == BATCH_LOSS && copy_loss(copy, &item.loss);
	}
	if (whole)
		skip_to(copy, copy->meta.end_seq);
	return whole && copy->next == copy->meta.end_seq;
}

/* ---- Frames ---------------------------------------------------------------------------------- */

static struct frame_ref *dress(struct frame_ref *frame, const struct frame_ref *meta)
{
	if (!frame)
		return NULL;
	frame->ring = meta->ring;
	frame->cpu = meta->cpu;
	frame->first_seq = meta->first_seq;
	frame->end_seq = meta->end_seq;
	frame->events = meta->events;
	frame->skipped = meta->skipped;
	frame->losses = meta->losses;
	memcpy(frame->loss, meta->loss, sizeof(frame->loss));
	return frame;
}

/* All that it held, with what it lost before. */
static struct frame_ref *make_gap(struct rebatch *rebatch, const struct frame_ref *part)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	bool is_loss = part->losses == 1 && !part->events;
	struct frame_ref meta = *part;

	gap.cpu = part->cpu;
	gap.first_seq = part->first_seq;
	gap.end_seq = part->end_seq;
	gap.events = part->events + frame_ref_losses(part);
	gap.stage = (Ringtail__V1__LossStage)(is_loss ? part->loss[0].stage : LOSS_STAGE_HISTORY);
	gap.reason = (Ringtail__V1__LossReason)(is_loss ? part->loss[0].reason : LOSS_REASON_CORRUPT);
	meta.events = 0;
	meta.losses = 1;
	meta.loss[0] = (struct loss_count){(uint8_t)gap.stage, (uint8_t)gap.reason, gap.events};
	return dress(frame_ref_pack(rebatch->codec, FRAME_GAP, &gap.base), &meta);
}

static struct frame_ref *copy_batch(struct rebatch *rebatch, const struct frame_ref *part,
				    const struct frame_ref *frame)
{
	struct copy copy = {.rebatch = rebatch, .meta = *part, .next = part->first_seq};
	struct frame_ref *made = NULL;
	const uint8_t *body;
	uint32_t bytes;
	uint8_t *raw;
	size_t size;
	bool bad;

	copy.meta.events = copy.meta.skipped = copy.meta.losses = 0;
	raw = open_frame(rebatch, frame, &body, &bytes, &bad);
	if (!raw && !bad)
		return NULL;
	if (bad || !copy_items(&copy, false, body, bytes)) {
		made = make_gap(rebatch, part);
	} else {
		const uint8_t *packed = batch_encode_finish(rebatch->encoder, &size);

		made = dress(frame_ref_seal(rebatch->codec, FRAME_BATCH, packed, (uint32_t)size),
			     &copy.meta);
	}
	free(raw);
	return made;
}

/* False: it cannot be read, or does not fit. */
static bool copy_joined(struct copy *copy, bool begun, const struct frame_ref *frame)
{
	const uint8_t *body;
	uint32_t bytes;
	uint8_t *raw;
	bool bad, whole;

	raw = open_frame(copy->rebatch, frame, &body, &bytes, &bad);
	if (!raw)
		return false;
	memset(copy->slot, 0, sizeof(copy->slot));
	copy->meta.end_seq = frame->end_seq;
	whole = copy_items(copy, begun, body, bytes);
	free(raw);
	return whole;
}

struct frame_ref *rebatch_join(struct rebatch *rebatch, struct frame_ref *const *frame, unsigned frames)
{
	struct copy copy = {.rebatch = rebatch, .joins = true, .next = frame[0]->first_seq};
	bool begun = false, whole = !rebatch->run->blind;
	const uint8_t *packed;
	size_t size;

	copy.meta = (struct frame_ref){.ring = frame[0]->ring, .cpu = frame[0]->cpu, .first_seq = copy.next};
	if (!rebatch->known)
		rebatch->known = calloc(KNOWN_THREADS, sizeof(*rebatch->known));
	whole &= rebatch->known != NULL;
	rebatch->joins++;
	for (unsigned i = 0; whole && i < frames; i++) {
		if (!frame[i]->bytes)
			continue;
		whole = copy_joined(&copy, begun, frame[i]);
		begun = true;
	}
	if (!whole || !begun)
		return NULL;
	copy.meta.end_seq = frame[frames - 1]->end_seq;
	skip_to(&copy, copy.meta.end_seq);
	packed = batch_encode_finish(rebatch->encoder, &size);
	return dress(frame_ref_seal(rebatch->codec, FRAME_BATCH, packed, (uint32_t)size), &copy.meta);
}

static bool is_whole(const struct frame_ref *frame, uint64_t from, uint64_t end)
{
	return from <= frame->first_seq && end >= frame->end_seq;
}

void rebatch_cut(const struct frame_ref *frame, uint64_t from, uint64_t end, struct frame_ref *part)
{
	uint64_t left, attempts = frame_ref_attempts(frame);

	*part = *frame;
	part->refs = 1;
	if (is_whole(frame, from, end) || !attempts)
		return;
	if (from > frame->first_seq)
		part->first_seq = from < frame->end_seq ? from : frame->end_seq;
	if (end < frame->end_seq)
		part->end_seq = end > part->first_seq ? end : part->first_seq;
	left = frame_ref_attempts(part);
	if (part->events > left)
		part->events = left;
	left -= part->events;
	for (uint32_t i = 0; i < part->losses; i++) {
		if (part->loss[i].count > left)
			part->loss[i].count = left;
		left -= part->loss[i].count;
	}
	part->skipped = left;
}

struct frame_ref *rebatch_frame(struct rebatch *rebatch, struct frame_ref *frame, uint64_t from,
				uint64_t end)
{
	bool whole = is_whole(frame, from, end);
	struct frame_ref part;

	rebatch_cut(frame, from, end, &part);
	if (!frame->bytes && !whole)
		return dress(frame_ref_create(FRAME_BATCH, 0), &part);
	if (!frame->bytes || (frame->type == FRAME_GAP && whole))
		return frame_ref_get(frame);
	return frame->type == FRAME_GAP ? make_gap(rebatch, &part) :
					  copy_batch(rebatch, &part, frame);
}
