/*
 * batch_encode: see batch_encode.h. The budget of the whole collector is spent here first, so:
 *
 * - a column is a buffer of finished protobuf bytes, sized for the worst batch when the encoder is
 *   made; one test per event says whether all of them have room, and none is made per byte;
 * - an event is stored as its difference from the last one of its thread and probe (pair_table.h):
 *   a thread that goes round a loop leaves few bytes, and zstd's time goes by the byte;
 * - the time is two numbers that are small whether or not the call slept: `gap`, from the end of
 *   the thread's last call to the start of this one, and `span`, from there, or from the event
 *   before it if that is later, to its end. Their low 7 bits are noise and their high bits are not,
 *   so these go to columns of their own: mixed, each would spoil the other for zstd.
 *
 * docs/protocol.md describes the columns, docs/performance.md what else was tried.
 */
#include "proto/batch_encode.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "proto/batch_layout.h"
#include "proto/limits.h"
#include "proto/pair_table.h"
#include "proto/wire.h"

#define likely(x)	__builtin_expect(!!(x), 1)
#define unlikely(x)	__builtin_expect(!!(x), 0)

/* The most bytes that each part of a message can take, tags and lengths included. */
#define SCALAR_BYTES	(1 + WIRE_VARINT_BYTES_MAX)
#define U32_BYTES	(1 + 5)
#define COMM_BYTES	sizeof(((struct batch_thread *)NULL)->comm)
#define HEAD_BYTES	(5 * SCALAR_BYTES)
#define THREAD_BYTES	(2 + 6 * U32_BYTES + (2 + COMM_BYTES) + 2 + SCALAR_BYTES)
#define TEXT_HEAD_BYTES	(2 + 5)
#define LOSS_BYTES	(2 + 3 * U32_BYTES + 2 * SCALAR_BYTES)
#define STRING_BYTES	(4 + 3 * U32_BYTES + 3 + STRING_BYTES_MAX)
#define STACK_BYTES	(4 + 4 * U32_BYTES + 8 + STACK_FRAMES_MAX * WIRE_VARINT_BYTES_MAX)
#define COLUMN_HEAD_BYTES 6
#define COUNTS_HEAD_BYTES (2 + 5)

/* What one event may add to the values and the attachments, which share the room that is left. */
#define EVENT_VALUE_BYTES	(PROBE_FIELDS_MAX * WIRE_VARINT_BYTES_MAX)
#define EVENT_ATTACHMENT_BYTES	(EVENT_ATTACHMENTS_MAX * STACK_BYTES)
#define EVENT_SHARED_BYTES	(EVENT_VALUE_BYTES + EVENT_ATTACHMENT_BYTES)

#define TABLES_BYTES	(BATCH_THREADS_MAX * THREAD_BYTES + BATCH_PROBES_MAX * 3 + \
			 BATCH_LOSSES_MAX * LOSS_BYTES)
#define FIXED_BYTES	(HEAD_BYTES + TABLES_BYTES + (BATCH_COLUMNS + 1) * COLUMN_HEAD_BYTES + \
			 BATCH_EVENTS_MAX * BATCH_COLUMN_BYTES)
#define SHARED_BYTES	(FRAME_RAW_BYTES_MAX - FIXED_BYTES)

_Static_assert(FIXED_BYTES + 64 * EVENT_SHARED_BYTES <= FRAME_RAW_BYTES_MAX,
	       "the fixed part leaves room for events with all they may carry");

struct column {
	uint8_t *start, *end;
};

struct loss {
	uint32_t before, stage, reason;
	uint64_t count, skipped;
};

/* The stacks of a batch, to find one that is there: open addressing, half full at most. */
#define SHARED_SLOTS	(2 * BATCH_STACKS_MAX)

struct shared_stack {
	uint64_t stamp;			/* generation << 16 | number, from 1 */
	uint64_t hash;
	uint32_t at, bytes;		/* of its message in `stacks` */
};

_Static_assert(BATCH_STACKS_MAX < 1 << 16, "a number fits in the stamp");
_Static_assert((SHARED_SLOTS & (SHARED_SLOTS - 1)) == 0, "a power of two");

struct batch_encoder {
	/* Read and written for every event. */
	struct column column[BATCH_COLUMNS];
	uint8_t *value_limit;		/* the value column must not be beyond it before an event */
	struct pair_table pairs;
	uint64_t time_ns;		/* of the event before */
	uint64_t thread_end_ns[BATCH_THREADS_MAX];	/* end of each thread's last call */
	uint32_t events;
	uint64_t skip;			/* attempts skipped since the last event or loss */

	/* Read and written a few times per batch. */
	uint32_t cpu;
	uint64_t first_seq, start_ns, lost, skipped;
	struct column threads, attachments, texts, stacks;
	bool context;
	uint32_t text_count;
	uint64_t text[BATCH_TEXTS_MAX];	/* serials */
	uint32_t thread_count, probe_count, loss_count, attachment_count, event_attachments;
	uint32_t stack_count;
	struct shared_stack *shared;	/* [SHARED_SLOTS]; NULL: stacks are not shared */
	uint32_t probe_max;
	uint64_t *probe_stamp;		/* generation << 16 | index, by probe id */
	uint16_t probe[BATCH_PROBES_MAX];
	struct loss loss[BATCH_LOSSES_MAX];
	const uint8_t *counts;		/* borrowed; NULL: none */
	size_t counts_bytes, reserved_bytes;
	uint8_t *memory;		/* what all columns lie in */
	uint8_t *message;		/* FRAME_RAW_BYTES_MAX + WIRE_WRITE_BYTES */
};

/* ---- Life ----------------------------------------------------------------------------------- */

static size_t column_bytes(enum batch_column column)
{
	size_t bytes = column == COLUMN_VALUE ? SHARED_BYTES :
			BATCH_EVENTS_MAX * batch_columns[column].entry_bytes;

	return bytes + WIRE_WRITE_BYTES;
}

/* All columns in one piece, which is never touched beyond what batches use. */
static bool allocate_columns(struct batch_encoder *encoder)
{
	const size_t threads = BATCH_THREADS_MAX * THREAD_BYTES + WIRE_WRITE_BYTES;
	const size_t attachments = SHARED_BYTES + WIRE_WRITE_BYTES;
	size_t bytes = threads + 3 * attachments;
	uint8_t *at;

	for (unsigned i = 0; i < BATCH_COLUMNS; i++)
		bytes += column_bytes(i);
	encoder->memory = at = malloc(bytes);
	if (!at)
		return false;
	for (unsigned i = 0; i < BATCH_COLUMNS; i++) {
		encoder->column[i].start = at;
		at += column_bytes(i);
	}
	encoder->threads.start = at;
	encoder->attachments.start = at + threads;
	encoder->texts.start = at + threads + attachments;
	encoder->stacks.start = at + threads + 2 * attachments;
	return true;
}

struct batch_encoder *batch_encoder_create(uint32_t probe_max)
{
	struct batch_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return NULL;
	encoder->probe_max = probe_max;
	encoder->probe_stamp = calloc(probe_max ? probe_max : 1, sizeof(*encoder->probe_stamp));
	encoder->message = malloc(FRAME_RAW_BYTES_MAX + WIRE_WRITE_BYTES);
	if (!encoder->probe_stamp || !encoder->message || !allocate_columns(encoder) ||
	    pair_table_init(&encoder->pairs)) {
		batch_encoder_destroy(encoder);
		return NULL;
	}
	batch_encode_begin(encoder, 0, 0, 0);
	return encoder;
}

void batch_encoder_destroy(struct batch_encoder *encoder)
{
	if (!encoder)
		return;
	pair_table_fini(&encoder->pairs);
	free(encoder->shared);
	free(encoder->memory);
	free(encoder->message);
	free(encoder->probe_stamp);
	free(encoder);
}

void batch_encoder_set_context(struct batch_encoder *encoder, bool context)
{
	encoder->context = context;
}

static void set_value_limit(struct batch_encoder *encoder)
{
	size_t used = encoder->reserved_bytes +
		      (size_t)(encoder->attachments.end - encoder->attachments.start) +
		      (size_t)(encoder->texts.end - encoder->texts.start) +
		      (size_t)(encoder->stacks.end - encoder->stacks.start);
	uint8_t *start = encoder->column[COLUMN_VALUE].start;

	if (used + EVENT_SHARED_BYTES > SHARED_BYTES ||
	    encoder->attachment_count + EVENT_ATTACHMENTS_MAX > BATCH_ATTACHMENTS_MAX)
		encoder->value_limit = NULL;	/* not one more */
	else
		encoder->value_limit = start + (SHARED_BYTES - EVENT_SHARED_BYTES - used);
}

void batch_encode_reserve(struct batch_encoder *encoder, size_t bytes)
{
	assert(bytes <= SHARED_BYTES / 2);
	encoder->reserved_bytes = bytes ? bytes + COUNTS_HEAD_BYTES : 0;
	set_value_limit(encoder);
}

bool batch_encode_share_stacks(struct batch_encoder *encoder, bool share)
{
	assert(batch_encode_end_seq(encoder) == encoder->first_seq);
	if (share == !!encoder->shared)
		return true;
	free(encoder->shared);
	encoder->shared = share ? calloc(SHARED_SLOTS, sizeof(*encoder->shared)) : NULL;
	return !share || encoder->shared;
}

void batch_encode_begin(struct batch_encoder *encoder, uint32_t cpu, uint64_t first_seq,
			uint64_t time_ns)
{
	pair_table_clear(&encoder->pairs);
	for (unsigned i = 0; i < BATCH_COLUMNS; i++)
		encoder->column[i].end = encoder->column[i].start;
	encoder->threads.end = encoder->threads.start;
	encoder->attachments.end = encoder->attachments.start;
	encoder->texts.end = encoder->texts.start;
	encoder->text_count = 0;
	encoder->stacks.end = encoder->stacks.start;
	encoder->stack_count = 0;
	encoder->cpu = cpu;
	encoder->first_seq = first_seq;
	encoder->start_ns = encoder->time_ns = time_ns;
	encoder->events = 0;
	encoder->skip = encoder->skipped = encoder->lost = 0;
	encoder->thread_count = encoder->probe_count = encoder->loss_count = 0;
	encoder->attachment_count = encoder->event_attachments = 0;
	encoder->counts = NULL;
	set_value_limit(encoder);
}

/* ---- Tables --------------------------------------------------------------------------------- */

/*
 * The text's index in this batch, plus 1; 0: there is none. UINT32_MAX: it has no room. Threads are
 * few in a batch, and texts fewer, so they are looked through.
 */
static uint32_t index_text(struct batch_encoder *encoder, const struct batch_text *text)
{
	size_t bytes;

	if (!text || !text->bytes || !encoder->context)
		return 0;
	for (uint32_t i = encoder->text_count; i; i--)
		if (encoder->text[i - 1] == text->serial)
			return i;
	assert(text->bytes <= TEXT_BYTES_MAX);
	bytes = TEXT_HEAD_BYTES + text->bytes;
	if (encoder->text_count == BATCH_TEXTS_MAX ||
	    encoder->column[COLUMN_VALUE].end + bytes > encoder->value_limit)
		return UINT32_MAX;
	encoder->text[encoder->text_count++] = text->serial;
	encoder->texts.end = wire_put_bytes(encoder->texts.end, BATCH_TEXT, text->data, text->bytes);
	set_value_limit(encoder);
	return encoder->text_count;
}

static uint8_t *put_thread(uint8_t *out, const struct batch_thread *thread, uint32_t exe,
			   uint32_t cgroup, bool context)
{
	uint8_t body[THREAD_BYTES + WIRE_WRITE_BYTES], *end = body;

	end = wire_put_scalar(end, THREAD_TID, thread->tid);
	end = wire_put_scalar(end, THREAD_PID, thread->pid);
	end = wire_put_bytes(end, THREAD_COMM, thread->comm, strnlen(thread->comm, COMM_BYTES));
	end = wire_put_scalar(end, THREAD_UID, thread->uid);
	end = wire_put_scalar(end, THREAD_PPID, thread->ppid);
	end = wire_put_scalar(end, THREAD_KERNEL, thread->kernel);
	end = wire_put_scalar(end, THREAD_EXE, exe);
	end = wire_put_scalar(end, THREAD_CGROUP, cgroup);
	end = wire_put_scalar(end, THREAD_CGROUP_ID, context ? thread->cgroup_id : 0);
	return wire_put_message(out, BATCH_THREAD, body, end);
}

uint32_t batch_encode_thread(struct batch_encoder *encoder, const struct batch_thread *thread,
			     uint64_t *slot)
{
	uint32_t index, exe, cgroup;

	if (likely(*slot >> 16 == encoder->pairs.generation))
		return (uint32_t)*slot & 0xffff;
	if (encoder->thread_count == BATCH_THREADS_MAX)
		return UINT32_MAX;
	exe = index_text(encoder, thread->exe);
	cgroup = index_text(encoder, thread->cgroup);
	if (exe == UINT32_MAX || cgroup == UINT32_MAX)
		return UINT32_MAX;
	index = encoder->thread_count++;
	encoder->threads.end = put_thread(encoder->threads.end, thread, exe, cgroup,
					  encoder->context);
	encoder->thread_end_ns[index] = encoder->start_ns;
	*slot = encoder->pairs.generation << 16 | index;
	return index;
}

/* The first event of a pair in this batch. NULL: its probe is new, and one too many. */
static struct pair *add_pair(struct batch_encoder *encoder, const struct batch_event *event)
{
	uint64_t *stamp;
	struct pair *pair;

	assert(event->probe < encoder->probe_max && event->thread < encoder->thread_count);
	assert(event->fields <= PROBE_FIELDS_MAX && event->fields >= event->has_duration);
	stamp = &encoder->probe_stamp[event->probe];
	if (*stamp >> 16 != encoder->pairs.generation) {
		if (encoder->probe_count == BATCH_PROBES_MAX)
			return NULL;
		*stamp = encoder->pairs.generation << 16 | encoder->probe_count;
		encoder->probe[encoder->probe_count++] = event->probe;
	}
	pair = pair_table_add(&encoder->pairs, event->thread, event->probe);
	pair->probe = *stamp & 0xffff;
	return pair;
}

/* ---- Events --------------------------------------------------------------------------------- */

/* From the first skip of a batch on, every event has an entry, and those before it get theirs. */
static void put_skipped(struct batch_encoder *encoder)
{
	struct column *column = &encoder->column[COLUMN_EVENT_SKIPPED];

	if (column->end == column->start) {
		memset(column->start, 0, encoder->events);
		column->end += encoder->events;
	}
	column->end = wire_put(column->end, encoder->skip);
	encoder->skip = 0;
}

static inline void put_time(struct batch_encoder *encoder, const struct batch_event *event)
{
	const uint64_t end_ns = event->time_ns;
	struct column *column = encoder->column;
	uint64_t from_ns = encoder->time_ns, gap_high = 0, span;

	if (likely(event->has_duration)) {
		uint64_t start_ns = end_ns - event->field[0];
		uint64_t gap = start_ns - encoder->thread_end_ns[event->thread];

		encoder->thread_end_ns[event->thread] = end_ns;
		if (start_ns > from_ns)
			from_ns = start_ns;
		*column[COLUMN_GAP_LOW].end++ = gap & TIME_LOW_MASK;
		gap_high = gap >> TIME_LOW_BITS;
		if (gap_high >= GAP_HIGH_MAX) {
			column[COLUMN_GAP_MORE].end = wire_put(column[COLUMN_GAP_MORE].end,
							       gap_high - GAP_HIGH_MAX);
			gap_high = GAP_HIGH_MAX;
		}
	}
	span = end_ns - from_ns;
	encoder->time_ns = end_ns;
	*column[COLUMN_SPAN_LOW].end++ = span & TIME_LOW_MASK;
	column[COLUMN_TIME_HIGH].end =
		wire_put(column[COLUMN_TIME_HIGH].end,
			 (span >> TIME_LOW_BITS) << GAP_HIGH_BITS | gap_high);
}

static inline void put_fields(struct batch_encoder *encoder, struct pair *pair,
			      const struct batch_event *event)
{
	struct column *column = encoder->column;
	uint8_t *value = column[COLUMN_VALUE].end;
	uint32_t changed = 0, bit = 1;

	for (unsigned i = event->has_duration; i < event->fields; i++, bit <<= 1) {
		uint64_t difference = event->field[i] - pair->last[i];

		if (!difference)
			continue;
		changed |= bit;
		pair->last[i] = event->field[i];
		value = wire_put(value, wire_zigzag(difference));
	}
	column[COLUMN_VALUE].end = value;
	column[COLUMN_CHANGED].end = wire_put(column[COLUMN_CHANGED].end, changed);
}

bool batch_encode_event(struct batch_encoder *encoder, const struct batch_event *event)
{
	struct column *column = encoder->column;
	struct pair *pair;

	if (unlikely(encoder->events == BATCH_EVENTS_MAX ||
		     column[COLUMN_VALUE].end > encoder->value_limit))
		return false;
	pair = pair_table_find(&encoder->pairs, event->thread, event->probe);
	if (unlikely(!pair)) {
		pair = add_pair(encoder, event);
		if (!pair)
			return false;
	}
	if (unlikely(encoder->skip || column[COLUMN_EVENT_SKIPPED].end !=
				      column[COLUMN_EVENT_SKIPPED].start))
		put_skipped(encoder);
	column[COLUMN_EVENT_PROBE].end = wire_put(column[COLUMN_EVENT_PROBE].end, pair->probe);
	column[COLUMN_EVENT_THREAD].end = wire_put(column[COLUMN_EVENT_THREAD].end, event->thread);
	put_time(encoder, event);
	put_fields(encoder, pair, event);
	encoder->events++;
	encoder->event_attachments = 0;
	return true;
}

void batch_encode_skip(struct batch_encoder *encoder, uint64_t count)
{
	encoder->skip += count;
	encoder->skipped += count;
}

bool batch_encode_loss(struct batch_encoder *encoder, uint64_t count, uint32_t stage,
		       uint32_t reason)
{
	struct loss *last = encoder->loss_count ? &encoder->loss[encoder->loss_count - 1] : NULL;

	if (!count)
		return true;
	if (last && last->before == encoder->events && last->stage == stage &&
	    last->reason == reason && !encoder->skip) {
		last->count += count;
	} else {
		if (encoder->loss_count == BATCH_LOSSES_MAX)
			return false;
		encoder->loss[encoder->loss_count++] = (struct loss){
			.before = encoder->events,
			.count = count,
			.stage = stage,
			.reason = reason,
			.skipped = encoder->skip,
		};
		encoder->skip = 0;
	}
	encoder->lost += count;
	return true;
}

/* ---- Attachments ---------------------------------------------------------------------------- */

/* Whether the event just appended may have one more; its room was kept when it was appended. */
static bool attachment_fits(struct batch_encoder *encoder)
{
	if (!encoder->events || encoder->event_attachments == EVENT_ATTACHMENTS_MAX)
		return false;
	encoder->event_attachments++;
	encoder->attachment_count++;
	return true;
}

static void put_attachment(struct batch_encoder *encoder, const uint8_t *body, const uint8_t *end)
{
	encoder->attachments.end = wire_put_message(encoder->attachments.end, BATCH_ATTACHMENT,
						    body, end);
	set_value_limit(encoder);
}

bool batch_encode_string(struct batch_encoder *encoder, uint32_t arg, const void *text,
			 size_t bytes)
{
	uint8_t body[STRING_BYTES + WIRE_WRITE_BYTES], *end = body;

	if (bytes > STRING_BYTES_MAX || !attachment_fits(encoder))
		return false;
	end = wire_put_scalar(end, ATTACHMENT_EVENT, encoder->events - 1);
	end = wire_put_scalar(end, ATTACHMENT_KIND, ATTACHMENT_KIND_STRING);
	end = wire_put_scalar(end, ATTACHMENT_ARG, arg);
	end = wire_put_bytes(end, ATTACHMENT_TEXT, text, bytes);
	put_attachment(encoder, body, end);
	return true;
}

/* FNV-1a over words. Two stacks with one hash are told apart by their bytes. */
static uint64_t hash_frames(const uint64_t *frame, size_t frames)
{
	uint64_t hash = 0xcbf29ce484222325ull;

	for (size_t i = 0; i < frames; i++) {
		hash = (hash ^ frame[i]) * 0x100000001b3ull;
		hash ^= hash >> 32;
	}
	return hash;
}

static uint8_t *put_shared_stack(uint8_t *out, const uint64_t *frame, size_t frames)
{
	uint8_t column[STACK_FRAMES_MAX * WIRE_VARINT_BYTES_MAX + WIRE_WRITE_BYTES], *at = column;
	uint8_t body[STACK_BYTES + WIRE_WRITE_BYTES], *end;
	uint64_t before = 0;

	for (size_t i = 0; i < frames; i++) {
		at = wire_put(at, wire_zigzag(frame[i] - before));
		before = frame[i];
	}
	end = wire_put_bytes(body, STACK_FRAME, column, (size_t)(at - column));
	return wire_put_message(out, BATCH_STACK, body, end);
}

/* The stack's number in this batch, from 1; 0: it has no more room for shared ones. */
static uint32_t share_stack(struct batch_encoder *encoder, const uint64_t *frame, size_t frames)
{
	uint64_t hash = hash_frames(frame, frames), generation = encoder->pairs.generation;
	uint8_t *start = encoder->stacks.end, *end;
	uint32_t i = hash & (SHARED_SLOTS - 1), bytes;

	if (encoder->stack_count == BATCH_STACKS_MAX)
		return 0;
	/* Behind the last one, where it stays if it is new. */
	end = put_shared_stack(start, frame, frames);
	bytes = (uint32_t)(end - start);
	for (;; i = (i + 1) & (SHARED_SLOTS - 1)) {
		struct shared_stack *shared = &encoder->shared[i];

		if (shared->stamp >> 16 != generation) {
			*shared = (struct shared_stack){
				.stamp = generation << 16 | ++encoder->stack_count,
				.hash = hash,
				.at = (uint32_t)(start - encoder->stacks.start),
				.bytes = bytes,
			};
			encoder->stacks.end = end;
			return encoder->stack_count;
		}
		if (shared->hash == hash && shared->bytes == bytes &&
		    memcmp(encoder->stacks.start + shared->at, start, bytes) == 0)
			return shared->stamp & 0xffff;
	}
}

static uint8_t *put_frames(uint8_t *out, const uint64_t *frame, size_t frames)
{
	uint8_t column[STACK_FRAMES_MAX * WIRE_VARINT_BYTES_MAX + WIRE_WRITE_BYTES], *at = column;

	for (size_t i = 0; i < frames; i++)
		at = wire_put(at, frame[i]);
	return wire_put_bytes(out, ATTACHMENT_FRAME, column, (size_t)(at - column));
}

bool batch_encode_stack(struct batch_encoder *encoder, bool kernel, const uint64_t *frame,
			size_t frames)
{
	uint8_t body[STACK_BYTES + WIRE_WRITE_BYTES], *end = body;
	uint32_t shared = 0;

	if (frames > STACK_FRAMES_MAX || !attachment_fits(encoder))
		return false;
	if (encoder->shared && frames)
		shared = share_stack(encoder, frame, frames);
	end = wire_put_scalar(end, ATTACHMENT_EVENT, encoder->events - 1);
	end = wire_put_scalar(end, ATTACHMENT_KIND,
			      kernel ? ATTACHMENT_KIND_KSTACK : ATTACHMENT_KIND_USTACK);
	if (shared)
		end = wire_put_scalar(end, ATTACHMENT_STACK, shared);
	else
		end = put_frames(end, frame, frames);
	put_attachment(encoder, body, end);
	return true;
}

/* ---- The message ---------------------------------------------------------------------------- */

uint32_t batch_encode_events(const struct batch_encoder *encoder)
{
	return encoder->events;
}

uint64_t batch_encode_end_seq(const struct batch_encoder *encoder)
{
	return encoder->first_seq + encoder->events + encoder->lost + encoder->skipped;
}

static uint8_t *put_column(uint8_t *out, const struct column *column)
{
	memcpy(out, column->start, (size_t)(column->end - column->start));
	return out + (column->end - column->start);
}

static uint8_t *put_probes(uint8_t *out, const struct batch_encoder *encoder)
{
	uint8_t body[BATCH_PROBES_MAX * 3 + WIRE_WRITE_BYTES], *end = body;

	for (uint32_t i = 0; i < encoder->probe_count; i++)
		end = wire_put(end, encoder->probe[i]);
	return wire_put_bytes(out, BATCH_PROBE, body, (size_t)(end - body));
}

static uint8_t *put_loss(uint8_t *out, const struct loss *loss)
{
	uint8_t body[LOSS_BYTES + WIRE_WRITE_BYTES], *end = body;

	end = wire_put_scalar(end, LOSS_BEFORE, loss->before);
	end = wire_put_scalar(end, LOSS_COUNT, loss->count);
	end = wire_put_scalar(end, LOSS_STAGE, loss->stage);
	end = wire_put_scalar(end, LOSS_REASON, loss->reason);
	end = wire_put_scalar(end, LOSS_SKIPPED, loss->skipped);
	return wire_put_message(out, BATCH_LOSS_FIELD, body, end);
}

void batch_encode_counts(struct batch_encoder *encoder, const uint8_t *counts, size_t bytes)
{
	assert(bytes + COUNTS_HEAD_BYTES <= encoder->reserved_bytes);
	encoder->counts = counts;
	encoder->counts_bytes = bytes;
}

/* Fields in the order of their numbers, as protobuf-c writes them: the same bytes. */
const uint8_t *batch_encode_finish(struct batch_encoder *encoder, size_t *bytes)
{
	uint8_t *out = encoder->message;

	out = wire_put_scalar(out, BATCH_CPU, encoder->cpu);
	out = wire_put_scalar(out, BATCH_FIRST_SEQ, encoder->first_seq);
	out = wire_put_scalar(out, BATCH_END_SEQ, batch_encode_end_seq(encoder));
	out = wire_put_scalar(out, BATCH_TIME_NS, encoder->start_ns);
	out = wire_put_scalar(out, BATCH_EVENTS, encoder->events);
	out = put_column(out, &encoder->threads);
	out = put_probes(out, encoder);
	for (uint32_t i = 0; i < encoder->loss_count; i++)
		out = put_loss(out, &encoder->loss[i]);
	for (unsigned i = 0; i < BATCH_COLUMNS; i++) {
		const struct column *column = &encoder->column[i];

		out = wire_put_bytes(out, batch_columns[i].field, column->start,
				     (size_t)(column->end - column->start));
	}
	out = put_column(out, &encoder->attachments);
	out = put_column(out, &encoder->texts);
	out = put_column(out, &encoder->stacks);
	if (encoder->counts)
		out = wire_put_message(out, BATCH_COUNTS, encoder->counts,
				       encoder->counts + encoder->counts_bytes);
	*bytes = (size_t)(out - encoder->message);
	assert(*bytes <= FRAME_RAW_BYTES_MAX);
	return encoder->message;
}
