/*
 * batch_decode: see batch_decode.h. batch_open has taken the message apart; here its columns are
 * walked side by side and undone, the way docs/protocol.md tells it.
 *
 * Nothing is counted ahead: a column that is too short is found where it ends, and one that is too
 * long is found at the end. What comes before an error is still what was sent.
 */
#include "proto/batch_decode.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/batch_open.h"
#include "proto/pair_table.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

struct batch_decoder {
	struct open_batch batch;
	const struct batch_probe *probe;	/* borrowed, by id */
	uint32_t probe_max;

	/* Where the walk is. */
	struct pair_table pairs;
	uint64_t time_ns, seq;
	uint64_t thread_end_ns[BATCH_THREADS_MAX];
	uint32_t event, loss, attachment;
	enum batch_item_kind last;		/* BATCH_END and BATCH_ERROR are for good */

	/* What an item borrows. */
	struct batch_attachment shown[EVENT_ATTACHMENTS_MAX];
	uint64_t frame[EVENT_ATTACHMENTS_MAX][STACK_FRAMES_MAX];
	struct batch_counts counts;
};

struct batch_decoder *batch_decoder_create(const struct batch_probe *probe, uint32_t probe_max)
{
	struct batch_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return NULL;
	pair_table_init_empty(&decoder->pairs);
	decoder->probe = probe;
	decoder->probe_max = probe_max;
	decoder->last = BATCH_END;
	return decoder;
}

void batch_decoder_destroy(struct batch_decoder *decoder)
{
	if (!decoder)
		return;
	pair_table_fini(&decoder->pairs);
	batch_open_fini(&decoder->batch);
	free(decoder);
}

size_t batch_decoder_bytes(const struct batch_decoder *decoder)
{
	return sizeof(*decoder) + pair_table_bytes(&decoder->pairs) +
	       decoder->batch.attachments_room * sizeof(*decoder->batch.attachment) +
	       (decoder->batch.counts.bucket ? COUNT_BUCKET_NUMBERS * sizeof(struct count_bucket) : 0) +
	       (decoder->batch.stack ? BATCH_STACKS_MAX * sizeof(*decoder->batch.stack) : 0);
}

const char *batch_decode_error(const struct batch_decoder *decoder)
{
	return decoder->batch.error;
}

/* ---- Open ----------------------------------------------------------------------------------- */

static int check_probes(struct batch_decoder *decoder)
{
	struct open_batch *batch = &decoder->batch;

	for (uint32_t i = 0; i < batch->probes; i++) {
		const struct batch_probe *probe = &decoder->probe[batch->probe[i]];

		if (!probe->known)
			return batch_open_error(batch, "probe %u is not in the catalog",
						batch->probe[i]);
		if (probe->fields > PROBE_FIELDS_MAX || probe->fields < probe->has_duration)
			return batch_open_error(batch, "probe %u has %u fields in the catalog",
						batch->probe[i], probe->fields);
	}
	return 0;
}

/* Takes `count` of what is left of the batch's numbers. */
static bool take_seq(uint64_t *left, uint64_t count)
{
	if (count > *left)
		return false;
	*left -= count;
	return true;
}

static int summarize(struct batch_decoder *decoder, struct batch_summary *summary)
{
	struct open_batch *batch = &decoder->batch;
	uint64_t left = batch->end_seq - batch->first_seq, lost = 0;
	uint64_t counted;
	bool fits = batch->end_seq >= batch->first_seq && take_seq(&left, batch->events);

	for (uint32_t i = 0; fits && i < batch->losses; i++) {
		fits = take_seq(&left, batch->loss[i].count);
		lost += batch->loss[i].count;
	}
	if (!fits)
		return batch_open_error(batch, "more events and losses than numbers from %" PRIu64
					" to %" PRIu64, batch->first_seq, batch->end_seq);
	if (!counts_reader_sum(&batch->counts, batch->events, left, &counted))
		return batch_open_error(batch, "its events stand for more than it skips, or for nothing");
	*summary = (struct batch_summary){
		.cpu = batch->cpu,
		.events = batch->events,
		.first_seq = batch->first_seq,
		.end_seq = batch->end_seq,
		.lost = lost,
		.skipped = left,
		.counted = counted,
		.time_ns = batch->time_ns,
	};
	return 0;
}

int batch_decode_open(struct batch_decoder *decoder, const uint8_t *message, size_t bytes,
		      struct batch_summary *summary)
{
	struct open_batch *batch = &decoder->batch;
	int err;

	decoder->last = BATCH_ERROR;
	err = batch_open(batch, message, bytes, decoder->probe_max);
	if (!err)
		err = check_probes(decoder);
	if (!err)
		err = summarize(decoder, summary);
	if (!err && pair_table_reserve(&decoder->pairs, batch->events))
		err = batch_open_error(batch, "no memory for %" PRIu32 " events", batch->events);
	if (err) {
		batch->threads = 0;
		return err;
	}
	decoder->time_ns = batch->time_ns;
	decoder->seq = batch->first_seq;
	decoder->event = decoder->loss = decoder->attachment = 0;
	for (uint32_t i = 0; i < batch->threads; i++)
		decoder->thread_end_ns[i] = batch->time_ns;
	decoder->last = BATCH_EVENT;
	return 0;
}

const struct batch_counts *batch_decode_counts(const struct batch_decoder *decoder)
{
	return decoder->batch.counts.present ? &decoder->counts : NULL;
}

const struct batch_thread *batch_decode_thread(const struct batch_decoder *decoder, uint32_t tid)
{
	for (uint32_t i = 0; i < decoder->batch.threads; i++)
		if (decoder->batch.thread[i].tid == tid)
			return &decoder->batch.thread[i];
	return NULL;
}

/* ---- One item ------------------------------------------------------------------------------- */

static bool column_bad(struct batch_decoder *decoder, enum batch_column column, const char *how)
{
	batch_open_error(&decoder->batch, "column %s %s at event %" PRIu32 " of %" PRIu32,
			 batch_columns[column].name, how, decoder->event, decoder->batch.events);
	return false;
}

/* The next entry of a column. */
static inline bool get(struct batch_decoder *decoder, enum batch_column column, uint64_t *value)
{
	if (unlikely(!wire_get(&decoder->batch.column[column], value)))
		return column_bad(decoder, column, "ends early or is malformed");
	return true;
}

static inline bool get_below(struct batch_decoder *decoder, enum batch_column column,
			     uint64_t limit, uint64_t *value)
{
	if (!get(decoder, column, value))
		return false;
	if (unlikely(*value >= limit))
		return column_bad(decoder, column, "is out of range");
	return true;
}

/* Attempts that were skipped; the number of what comes next must still be one of the batch's. */
static bool pass(struct batch_decoder *decoder, uint64_t skipped, uint64_t count)
{
	uint64_t left = decoder->batch.end_seq - decoder->seq;

	if (unlikely(!take_seq(&left, skipped) || !take_seq(&left, count))) {
		batch_open_error(&decoder->batch, "numbers run past %" PRIu64 " at event %" PRIu32
				 " of %" PRIu32, decoder->batch.end_seq, decoder->event,
				 decoder->batch.events);
		return false;
	}
	decoder->seq += skipped;
	return true;
}

static bool get_seq(struct batch_decoder *decoder, struct batch_item *item)
{
	uint64_t skipped = 0;

	if (decoder->batch.column[COLUMN_EVENT_SKIPPED].at &&
	    !get(decoder, COLUMN_EVENT_SKIPPED, &skipped))
		return false;
	if (!pass(decoder, skipped, 1))
		return false;
	item->seq = decoder->seq++;
	return true;
}

/* All arithmetic is modulo 2^64, here and in the encoder, so that any time and duration fit. */
static inline bool get_time(struct batch_decoder *decoder, struct batch_event *event,
			    struct pair *pair)
{
	uint64_t high, low, more = 0, gap, from_ns = decoder->time_ns;

	if (!get_below(decoder, COLUMN_TIME_HIGH, 1ULL << TIME_HIGH_BITS, &high))
		return false;
	if (likely(event->has_duration)) {
		gap = high & GAP_HIGH_MAX;
		if (!get_below(decoder, COLUMN_GAP_LOW, 1u << TIME_LOW_BITS, &low))
			return false;
		if (gap == GAP_HIGH_MAX &&
		    !get_below(decoder, COLUMN_GAP_MORE, 1ULL << (64 - TIME_LOW_BITS), &more))
			return false;
		gap = (gap + more) << TIME_LOW_BITS | low;
		gap += decoder->thread_end_ns[event->thread];
		pair->last[0] = gap;		/* when it began */
		if (gap > from_ns)
			from_ns = gap;
	}
	if (!get_below(decoder, COLUMN_SPAN_LOW, 1u << TIME_LOW_BITS, &low))
		return false;
	event->time_ns = from_ns + ((high >> GAP_HIGH_BITS) << TIME_LOW_BITS | low);
	decoder->time_ns = event->time_ns;
	if (likely(event->has_duration)) {
		decoder->thread_end_ns[event->thread] = event->time_ns;
		pair->last[0] = event->time_ns - pair->last[0];
	}
	return true;
}

static inline bool get_fields(struct batch_decoder *decoder, const struct batch_event *event,
			      struct pair *pair)
{
	uint64_t changed, difference;

	if (!get_below(decoder, COLUMN_CHANGED, 1ULL << (event->fields - event->has_duration),
		       &changed))
		return false;
	for (; changed; changed &= changed - 1) {
		if (!get(decoder, COLUMN_VALUE, &difference))
			return false;
		pair->last[event->has_duration + __builtin_ctzll(changed)] +=
			wire_unzigzag(difference);
	}
	return true;
}

static bool get_frames(struct batch_decoder *decoder, struct wire_reader data, uint64_t *frame,
		       size_t *frames)
{
	for (*frames = 0; data.at < data.end; ++*frames) {
		if (*frames == STACK_FRAMES_MAX || !wire_get(&data, &frame[*frames])) {
			batch_open_error(&decoder->batch, "malformed stack at event %" PRIu32,
					 decoder->event);
			return false;
		}
	}
	return true;
}

/* Those of a stack that events share: differences. */
static bool get_shared_frames(struct batch_decoder *decoder, struct wire_reader data,
			      uint64_t *frame, size_t *frames)
{
	uint64_t before = 0;

	if (!get_frames(decoder, data, frame, frames))
		return false;
	for (size_t i = 0; i < *frames; i++)
		frame[i] = before += wire_unzigzag(frame[i]);
	return true;
}

static bool get_attachments(struct batch_decoder *decoder, struct batch_item *item)
{
	const struct open_batch *batch = &decoder->batch;

	item->attachment = decoder->shown;
	item->attachments = 0;
	while (decoder->attachment < batch->attachments &&
	       batch->attachment[decoder->attachment].event == decoder->event) {
		const struct open_attachment *open = &batch->attachment[decoder->attachment++];
		size_t i = item->attachments++;

		if (i == EVENT_ATTACHMENTS_MAX) {
			batch_open_error(&decoder->batch, "over %u attachments of event %" PRIu32,
					 EVENT_ATTACHMENTS_MAX, decoder->event);
			return false;
		}
		decoder->shown[i] = (struct batch_attachment){
			.kind = open->kind, .arg = open->arg,
		};
		if (open->kind == ATTACHMENT_KIND_STRING) {
			decoder->shown[i].text = open->data.at;
			decoder->shown[i].text_bytes = (size_t)(open->data.end - open->data.at);
			continue;
		}
		decoder->shown[i].frame = decoder->frame[i];
		if (open->stack) {
			if (!get_shared_frames(decoder, batch->stack[open->stack - 1],
					       decoder->frame[i], &decoder->shown[i].frames))
				return false;
			continue;
		}
		if (!get_frames(decoder, open->data, decoder->frame[i], &decoder->shown[i].frames))
			return false;
	}
	return true;
}

static bool get_counts(struct batch_decoder *decoder, struct batch_item *item)
{
	item->counts = NULL;
	if (likely(!decoder->batch.counts.present))
		return true;
	item->counts = &decoder->counts;
	if (counts_reader_next(&decoder->batch.counts, &decoder->counts))
		return true;
	batch_open_error(&decoder->batch, "counts are out of range at event %" PRIu32, decoder->event);
	return false;
}

static bool get_event(struct batch_decoder *decoder, struct batch_item *item)
{
	const struct open_batch *batch = &decoder->batch;
	struct batch_event *event = &item->event;
	const struct batch_probe *probe;
	uint64_t index, thread;
	struct pair *pair;

	if (!get_below(decoder, COLUMN_EVENT_PROBE, batch->probes, &index) ||
	    !get_below(decoder, COLUMN_EVENT_THREAD, batch->threads, &thread))
		return false;
	pair = pair_table_find_in(&decoder->pairs, decoder->pairs.slot_bits, (uint32_t)thread,
				  (uint32_t)index);
	if (unlikely(!pair))
		pair = pair_table_add(&decoder->pairs, (uint32_t)thread, (uint32_t)index);
	if (unlikely(!pair)) {
		batch_open_error(&decoder->batch, "no memory at event %" PRIu32, decoder->event);
		return false;
	}
	probe = &decoder->probe[batch->probe[index]];
	event->probe = batch->probe[index];
	event->fields = probe->fields;
	event->has_duration = probe->has_duration;
	event->thread = (uint32_t)thread;
	event->field = pair->last;
	item->thread = &batch->thread[thread];
	if (!get_seq(decoder, item) || !get_time(decoder, event, pair) ||
	    !get_fields(decoder, event, pair) || !get_attachments(decoder, item) || !get_counts(decoder, item))
		return false;
	decoder->event++;
	return true;
}

static bool get_loss(struct batch_decoder *decoder, struct batch_item *item)
{
	const struct open_loss *loss = &decoder->batch.loss[decoder->loss];

	if (!pass(decoder, loss->skipped, loss->count))
		return false;
	item->loss = (struct batch_loss){
		.first_seq = decoder->seq,
		.count = loss->count,
		.stage = loss->stage,
		.reason = loss->reason,
	};
	decoder->seq += loss->count;
	decoder->loss++;
	return true;
}

/* Behind the last event every column must be at its end. */
static bool all_read(struct batch_decoder *decoder)
{
	for (unsigned i = 0; i < BATCH_COLUMNS; i++)
		if (decoder->batch.column[i].at != decoder->batch.column[i].end)
			return column_bad(decoder, i, "goes on");
	if (!counts_reader_ended(&decoder->batch.counts)) {
		batch_open_error(&decoder->batch, "counts go on behind the last event");
		return false;
	}
	return true;
}

enum batch_item_kind batch_decode_next(struct batch_decoder *decoder, struct batch_item *item)
{
	const struct open_batch *batch = &decoder->batch;
	bool good;

	if (decoder->last == BATCH_END || decoder->last == BATCH_ERROR)
		return item->kind = decoder->last;
	if (decoder->loss < batch->losses &&
	    batch->loss[decoder->loss].before == decoder->event) {
		item->kind = BATCH_LOSS;
		good = get_loss(decoder, item);
	} else if (likely(decoder->event < batch->events)) {
		item->kind = BATCH_EVENT;
		good = get_event(decoder, item);
	} else {
		item->kind = BATCH_END;
		good = all_read(decoder);
	}
	if (unlikely(!good))
		item->kind = BATCH_ERROR;
	return decoder->last = item->kind;
}
