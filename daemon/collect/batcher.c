#include "daemon/collect/batcher.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "proto/batch_encode.h"
#include "query/file_text.h"
#include "query/socket_text.h"
#include "query/structure_text.h"

/* Attempts for whose frame there was no memory: they go on as a gap once there is. */
struct owed {
	uint64_t first_seq, end_seq;	/* the same: none */
	uint64_t lost, skipped;
};

struct batcher {
	struct batcher_config config;

	struct batch_encoder *encoder;
	struct counting *counting;	/* NULL: each event is encoded by itself */
	uint64_t *slot;			/* the encoder's word for each thread index, */
	uint64_t nobody;		/* and for the thread of events that were counted */
	uint32_t slots;
	uint32_t last_thread;		/* of the last event, by index and in the batch: events come */
	uint32_t last_thread_in_batch;	/* in runs. THREAD_NONE: none in this batch */
	bool asks_strings;		/* the filter, for the texts of fields */
	bool by_thread;			/* the filter asks only who did it: what it said of the */
	uint32_t judged_thread;		/* last thread it was asked of holds for the whole run. */
	bool judged_passes;		/* THREAD_NONE: of nobody */

	uint64_t first_seq, last_time_ns;
	uint64_t skipped;
	struct loss_count loss[FRAME_LOSSES_MAX];
	uint32_t losses;
	struct owed owed;
};

/* False: out of memory. */
static bool begin_counting(struct batcher *batcher)
{
	if (!batcher->config.spec->question)
		return true;
	batch_encode_reserve(batcher->encoder, COUNTS_BYTES_MAX);
	batcher->counting = counting_create(batcher->config.spec, batcher->config.threads);
	return batcher->counting;
}

struct batcher *batcher_create(const struct batcher_config *config)
{
	struct batcher *batcher = calloc(1, sizeof(*batcher));

	if (!batcher)
		return NULL;
	batcher->config = *config;
	batcher->by_thread = config->spec->filter && filter_by_thread(config->spec->filter);
	batcher->asks_strings = filter_asks_strings(config->spec->filter);
	batcher->judged_thread = THREAD_NONE;
	batcher->encoder = batch_encoder_create(RT_PROBE_MAX);
	if (!batcher->encoder ||
	    !batch_encode_share_stacks(batcher->encoder, config->spec->flags & SPEC_STACK_TABLE) ||
	    !begin_counting(batcher)) {
		batcher_destroy(batcher);
		return NULL;
	}
	batch_encoder_set_context(batcher->encoder, config->spec->context);
	return batcher;
}

void batcher_destroy(struct batcher *batcher)
{
	if (!batcher)
		return;
	batch_encoder_destroy(batcher->encoder);
	counting_destroy(batcher->counting);
	free(batcher->slot);
	free(batcher);
}

const struct batcher_spec *batcher_spec_of(const struct batcher *batcher)
{
	return batcher->config.spec;
}

void batcher_start(struct batcher *batcher, uint64_t seq, uint64_t time_ns)
{
	batcher->first_seq = seq;
	batcher->last_time_ns = time_ns;
	batcher->skipped = 0;
	batcher->losses = 0;
	batcher->last_thread = THREAD_NONE;
	if (batcher->counting)
		counting_clear(batcher->counting);
	batch_encode_begin(batcher->encoder, batcher->config.cpu, seq, time_ns);
}

/* The encoder's slot of a thread index; NULL when out of memory. */
static uint64_t *slot_of(struct batcher *batcher, uint32_t thread)
{
	if (thread >= batcher->slots) {
		uint32_t slots = batcher->slots ? batcher->slots : 256;
		uint64_t *slot;

		while (slots <= thread)
			slots *= 2;
		slot = realloc(batcher->slot, slots * sizeof(*slot));
		if (!slot)
			return NULL;
		memset(slot + batcher->slots, 0, (slots - batcher->slots) * sizeof(*slot));
		batcher->slot = slot;
		batcher->slots = slots;
	}
	return &batcher->slot[thread];
}

/* A tid nobody introduced goes into the batch bare, and is counted. */
static uint32_t encode_unknown(struct batcher *batcher, uint32_t tid)
{
	struct batch_thread bare = {.tid = tid, .pid = 0};
	uint64_t slot = 0;

	counter_add(COUNTER_threads_unknown, 1);
	return batch_encode_thread(batcher->encoder, &bare, &slot);
}

static uint32_t encode_thread(struct batcher *batcher, uint32_t thread, uint32_t tid)
{
	uint64_t *slot;

	if (thread == THREAD_NONE)
		return encode_unknown(batcher, tid);
	slot = slot_of(batcher, thread);
	if (!slot)
		return encode_unknown(batcher, tid);
	return batch_encode_thread(batcher->encoder,
				   thread_table_get(batcher->config.threads, thread), slot);
}

/* The threads that fields name travel with the batch too. */
static bool encode_field_threads(struct batcher *batcher, const struct ring_item *item,
				 const struct probe_info *info)
{
	for (unsigned i = 0; i < info->thread_fields; i++) {
		uint32_t tid = (uint32_t)item->payload[info->thread_field[i]];
		uint32_t thread = thread_table_find(batcher->config.threads, tid);

		if (thread != THREAD_NONE && encode_thread(batcher, thread, tid) == UINT32_MAX)
			return false;
	}
	return true;
}

static struct batch_event event_of(const struct ring_item *item, const struct probe_info *info)
{
	return (struct batch_event){
		.probe = item->probe,
		.fields = info->fields,
		.has_duration = info->has_duration,
		.time_ns = item->time_ns,
		.field = item->payload,
	};
}

static bool encode(struct batcher *batcher, const struct ring_item *item,
		   const struct probe_info *info, uint32_t thread)
{
	struct batch_event event = event_of(item, info);

	if (thread != batcher->last_thread || thread == THREAD_NONE) {
		event.thread = encode_thread(batcher, thread, item->tid);
		if (event.thread == UINT32_MAX)
			return false;
		batcher->last_thread = thread;
		batcher->last_thread_in_batch = event.thread;
	}
	event.thread = batcher->last_thread_in_batch;
	return (!info->thread_fields || encode_field_threads(batcher, item, info)) &&
	       batch_encode_event(batcher->encoder, &event);
}

/* Arguments are counted from 0; a call has its duration and result before them. */
uint32_t batcher_field_of_arg(const struct probe_info *info, uint32_t arg)
{
	if (arg == RT_ATTACH_RESULT)
		return 1;
	return info->has_duration ? arg + 2 : arg;
}

static bool has(uint32_t fields, uint32_t field)
{
	return field < 32 && fields >> field & 1;
}

/*
 * An exec or a map without its texts is not worth much: they always come along. So do those that are in the record
 * of a made probe itself; what an argument of the kernel's functions points to is asked for.
 */
bool batcher_wants_text(const struct batcher_spec *spec, uint16_t probe, const struct probe_info *info,
			uint32_t field)
{
	uint32_t flag = probe_text_flag(info, field);
	bool of_file = flag == RT_FLAG_STRINGS && !has(info->structure_fields, field) && probe < RT_PROBE_MADE;

	return spec->flags & flag || (of_file && spec->file_strings) ||
	       probe == RT_PROBE_SCHED_EXEC || probe == RT_PROBE_PROCESS_MAP ||
	       (probe >= RT_PROBE_MADE && !has(info->string_fields, field));
}

static bool encode_address(struct batcher *batcher, const struct probe_info *info,
			   const struct rt_attachment *attachment)
{
	char text[SOCKET_TEXT_BYTES];
	size_t bytes = socket_text_of(text, attachment->data, attachment->bytes);

	return batch_encode_string(batcher->encoder, batcher_field_of_arg(info, attachment->arg), text,
				   bytes);
}

/* What is longer than a string may be is cut as one. */
static bool encode_file(struct batcher *batcher, const struct probe_info *info,
			const struct rt_attachment *attachment)
{
	char text[FILE_TEXT_BYTES];
	size_t bytes = file_text_of(text, attachment->data, attachment->bytes);

	return !bytes || batch_encode_string(batcher->encoder, batcher_field_of_arg(info, attachment->arg), text,
					     bytes < STRING_BYTES_MAX ? bytes : STRING_BYTES_MAX);
}

static bool encode_structure(struct batcher *batcher, const struct probe_info *info,
			     const struct rt_attachment *attachment)
{
	struct structure_text text;

	structure_text_of(&text, attachment->data, attachment->bytes);
	return !text.bytes || batch_encode_string(batcher->encoder, batcher_field_of_arg(info, attachment->arg),
						  text.at, text.bytes);
}

/* What is no directory's, such as a text that was hidden, goes as it is. */
static bool encode_data(struct batcher *batcher, const struct ring_item *item, const struct probe_info *info,
			const struct rt_attachment *attachment)
{
	uint32_t field = batcher_field_of_arg(info, attachment->arg);
	struct structure_text text = {0};

	if (has(info->dirent_fields, field) && info->has_duration)
		structure_dirents_of(&text, attachment->data, attachment->bytes, item->payload[1],
				     has(info->old_dirent_fields, field));
	if (text.bytes)
		return batch_encode_string(batcher->encoder, field, text.at, text.bytes);
	return batch_encode_string(batcher->encoder, field, attachment->data, attachment->bytes);
}

static bool encode_attachment(struct batcher *batcher, const struct ring_item *item,
			      const struct probe_info *info,
			      const struct rt_attachment *attachment)
{
	uint64_t frame[RT_STACK_FRAMES_MAX];
	size_t frames = attachment->bytes / sizeof(frame[0]);

	if (attachment->kind != RT_ATTACH_KSTACK && attachment->kind != RT_ATTACH_USTACK &&
	    !batcher_wants_text(batcher->config.spec, item->probe, info, batcher_field_of_arg(info, attachment->arg)))
		return true;
	switch (attachment->kind) {
	case RT_ATTACH_DATA:
		return encode_data(batcher, item, info, attachment);
	case RT_ATTACH_STRING:
		return batch_encode_string(batcher->encoder, batcher_field_of_arg(info, attachment->arg),
					   attachment->data, attachment->bytes);
	case RT_ATTACH_SOCKADDR:
		return encode_address(batcher, info, attachment);
	case RT_ATTACH_FILE:
		return encode_file(batcher, info, attachment);
	case RT_ATTACH_STRUCTURE:
		return encode_structure(batcher, info, attachment);
	case RT_ATTACH_KSTACK:
	case RT_ATTACH_USTACK:
		if (!(batcher->config.spec->flags & (attachment->kind == RT_ATTACH_KSTACK
						      ? RT_FLAG_KSTACK
						      : RT_FLAG_USTACK)))
			return true;
		if (frames > RT_STACK_FRAMES_MAX)
			frames = RT_STACK_FRAMES_MAX;
		memcpy(frame, attachment->data, frames * sizeof(frame[0]));
		/* A stack is copied at full depth; what the walk did not fill is zero. */
		while (frames && frame[frames - 1] == 0)
			frames--;
		return batch_encode_stack(batcher->encoder,
					  attachment->kind == RT_ATTACH_KSTACK, frame, frames);
	default:
		return false;
	}
}

static void encode_attachments(struct batcher *batcher, const struct ring_item *item,
			       const struct probe_info *info)
{
	const uint8_t *at = (const uint8_t *)(item->payload + info->fields);
	size_t left = (item->words - info->fields) * sizeof(uint64_t);

	while (left >= sizeof(struct rt_attachment)) {
		const struct rt_attachment *attachment = (const void *)at;
		size_t bytes = sizeof(*attachment) + ((attachment->bytes + 7ull) & ~7ull);

		if (bytes > left || !encode_attachment(batcher, item, info, attachment)) {
			counter_add(COUNTER_attachments_dropped, 1);
			return;
		}
		at += bytes;
		left -= bytes;
	}
}

/* The texts of an event's fields, as they would go into the batch; `address` is the one address' text. */
static size_t gather_texts(const struct ring_item *item, const struct probe_info *info,
			   struct batch_attachment texts[EVENT_ATTACHMENTS_MAX],
			   char address[SOCKET_TEXT_BYTES])
{
	const uint8_t *at = (const uint8_t *)(item->payload + info->fields);
	size_t left = (item->words - info->fields) * sizeof(uint64_t), n = 0;

	while (left >= sizeof(struct rt_attachment) && n < EVENT_ATTACHMENTS_MAX) {
		const struct rt_attachment *attachment = (const void *)at;
		size_t bytes = sizeof(*attachment) + ((attachment->bytes + 7ull) & ~7ull);

		if (bytes > left)
			break;
		texts[n] = (struct batch_attachment){
			.kind = RT_ATTACH_STRING, .arg = batcher_field_of_arg(info, attachment->arg),
			.text = attachment->data, .text_bytes = attachment->bytes,
		};
		if (attachment->kind == RT_ATTACH_SOCKADDR) {
			texts[n].text = (const uint8_t *)address;
			texts[n].text_bytes = socket_text_of(address, attachment->data,
								  attachment->bytes);
		}
		n += attachment->kind == RT_ATTACH_SOCKADDR || attachment->kind == RT_ATTACH_STRING;
		at += bytes;
		left -= bytes;
	}
	return n;
}

/* Of a filter that asks for texts. What is not attached stays undecided. */
static bool passes_with_texts(const struct batcher *batcher, const struct ring_item *item,
			      const struct probe_info *info, const struct batch_event *event,
			      const struct batch_thread *who)
{
	struct batch_attachment text[EVENT_ATTACHMENTS_MAX];
	char address[SOCKET_TEXT_BYTES];
	struct filter_texts texts = {.attachment = text};
	bool verdict;

	if (item->words > info->fields)
		texts.attachments = gather_texts(item, info, text, address);
	verdict = filter_pass(batcher->config.spec->filter, batcher->config.cpu, event, who, &texts);
	counter_add(COUNTER_filter_undecided, verdict && texts.undecided);
	return verdict;
}

static bool passes(struct batcher *batcher, const struct ring_item *item,
		   const struct probe_info *info, uint32_t thread)
{
	const struct batch_thread bare = {.tid = item->tid}, *who = &bare;
	struct batch_event event;
	bool verdict;

	/* Without its maps, a stack that did pass says nothing. */
	if (item->probe == RT_PROBE_PROCESS_MAP)
		return true;
	if (thread != THREAD_NONE && thread == batcher->judged_thread)
		return batcher->judged_passes;
	if (thread != THREAD_NONE)
		who = thread_table_get(batcher->config.threads, thread);
	event = event_of(item, info);
	if (batcher->asks_strings)
		return passes_with_texts(batcher, item, info, &event, who);
	verdict = filter_pass(batcher->config.spec->filter, batcher->config.cpu, &event, who, NULL);
	if (batcher->by_thread) {
		batcher->judged_thread = thread;
		batcher->judged_passes = verdict;
	}
	return verdict;
}

/* Into its callers: each event comes through here. */
static inline __attribute__((always_inline))
void encode_whole(struct batcher *batcher, const struct ring_item *item, const struct probe_info *info, uint32_t thread)
{
	if (!encode(batcher, item, info, thread)) {
		batcher_flush(batcher);
		/* An empty batch has room for any one event: its record was at most 2040 bytes. */
		if (!encode(batcher, item, info, thread))
			assert(!"an event does not fit into an empty batch");
	}
	if (item->words > info->fields)
		encode_attachments(batcher, item, info);
}

/* Where an event stands for it, its number is skipped like those that nobody asked for. */
__attribute__((noinline))
static void count(struct batcher *batcher, const struct ring_item *item, const struct probe_info *info, uint32_t thread)
{
	const struct question *question = batcher->config.spec->question;
	const struct batch_thread bare = {.tid = item->tid}, *who = &bare;
	uint64_t slice_ns = question_slice(question, item->time_ns);

	if (!counting_has_room(batcher->counting) ||
	    (counting_rows(batcher->counting) && counting_slice(batcher->counting) != slice_ns))
		batcher_flush(batcher);
	if (thread != THREAD_NONE)
		who = thread_table_get(batcher->config.threads, thread);
	if (counting_add(batcher->counting, item, info, who)) {
		batch_encode_skip(batcher->encoder, 1);
		return;
	}
	encode_whole(batcher, counting_bare(batcher->counting, item, info), info, thread);
	counting_add_row(batcher->counting, item, slice_ns);
}

void batcher_event(struct batcher *batcher, const struct ring_item *item,
		   const struct probe_info *info, uint32_t thread)
{
	if (!probe_set_test(&batcher->config.spec->probes, item->probe)) {
		batcher_skip(batcher);
		return;
	}
	if (batcher->config.spec->filter && !probe_set_test(&batcher->config.spec->late, item->probe) &&
	    !passes(batcher, item, info, thread)) {
		batcher_skip(batcher);
		return;
	}
	if (batcher->counting)
		count(batcher, item, info, thread);
	else
		encode_whole(batcher, item, info, thread);
	batcher->last_time_ns = item->time_ns;
}

void batcher_skip(struct batcher *batcher)
{
	batcher_skip_all(batcher, 1);
}

void batcher_skip_all(struct batcher *batcher, uint64_t attempts)
{
	batch_encode_skip(batcher->encoder, attempts);
	batcher->skipped += attempts;
}

/* Who did it, a filter must ask before. */
const struct probe_set *batcher_plain_probes(const struct batcher_spec *spec)
{
	if (!spec->question || (spec->filter && !spec->filter_of_kernel))
		return NULL;
	return question_plain_probes(spec->question);
}

#define THREAD_NOBODY	(THREAD_NONE - 1)

/*
 * The row of events that were counted: of nobody, with 0 in each field. By way of encode(), so that this stays the only
 * place that encodes an event, and is compiled into it.
 */
static bool encode_plain(struct batcher *batcher, const struct ring_item *item, const struct probe_info *info)
{
	const struct batch_thread nobody = {0};
	uint32_t thread = batch_encode_thread(batcher->encoder, &nobody, &batcher->nobody);

	if (thread == UINT32_MAX)
		return false;
	batcher->last_thread = THREAD_NOBODY;
	batcher->last_thread_in_batch = thread;
	return encode(batcher, item, info, THREAD_NOBODY);
}

static void count_plain(struct batcher *batcher, const struct ring_item *item, const struct probe_info *info,
			const struct ring_counted *counted)
{
	uint64_t events = counted->good + counted->bad;
	uint64_t slice_ns = question_slice(batcher->config.spec->question, item->time_ns);

	if (!counting_has_room(batcher->counting))
		batcher_flush(batcher);
	if (counting_add_plain(batcher->counting, item, counted->good, counted->bad)) {
		batch_encode_skip(batcher->encoder, events);
		return;
	}
	if (!encode_plain(batcher, item, info)) {
		batcher_flush(batcher);
		if (!encode_plain(batcher, item, info))
			assert(!"an event does not fit into an empty batch");
	}
	batch_encode_skip(batcher->encoder, events - 1);
	counting_add_plain_row(batcher->counting, slice_ns, counted->good, counted->bad);
}

void batcher_counted(struct batcher *batcher, const struct ring_counted *counted, const struct probe_info *info,
		     uint64_t time_ns)
{
	static const uint64_t zero[RT_RECORD_WORDS_MAX];
	const struct probe_set *plain = batcher_plain_probes(batcher->config.spec);
	struct ring_item item = {
		.time_ns = time_ns, .probe = counted->probe, .words = info->fields, .payload = zero,
	};

	if (!plain || !probe_set_test(plain, counted->probe)) {
		batcher_skip_all(batcher, counted->good + counted->bad);
		return;
	}
	count_plain(batcher, &item, info, counted);
	batcher->last_time_ns = time_ns;
}

static void note_loss(struct batcher *batcher, uint64_t count, uint32_t stage, uint32_t reason)
{
	for (uint32_t i = 0; i < batcher->losses; i++) {
		if (batcher->loss[i].stage == stage && batcher->loss[i].reason == reason) {
			batcher->loss[i].count += count;
			return;
		}
	}
	batcher->loss[batcher->losses++] =
		(struct loss_count){.stage = stage, .reason = reason, .count = count};
}

void batcher_loss(struct batcher *batcher, uint64_t count, uint32_t stage, uint32_t reason)
{
	if (batcher->losses == FRAME_LOSSES_MAX ||
	    !batch_encode_loss(batcher->encoder, count, stage, reason)) {
		batcher_flush(batcher);
		batch_encode_loss(batcher->encoder, count, stage, reason);
	}
	note_loss(batcher, count, stage, reason);
}

static bool wants_any(const struct batcher *batcher, uint32_t first, uint32_t last)
{
	for (uint32_t probe = first; probe <= last; probe++)
		if (probe_set_test(&batcher->config.spec->probes, probe))
			return true;
	return false;
}

void batcher_loss_of(struct batcher *batcher, const struct rt_loss *of, uint32_t stage, uint32_t reason)
{
	if (wants_any(batcher, of->first, of->last))
		batcher_loss(batcher, 1, stage, reason);
	else
		batcher_skip(batcher);
}

void batcher_forget_thread(struct batcher *batcher, uint32_t thread)
{
	if (thread < batcher->slots)
		batcher->slot[thread] = 0;
	if (thread == batcher->last_thread)
		batcher->last_thread = THREAD_NONE;
	if (thread == batcher->judged_thread)
		batcher->judged_thread = THREAD_NONE;
}

static struct frame_ref *seal(struct batcher *batcher)
{
	struct frame_ref *frame;
	const uint8_t *raw;
	size_t bytes;

	if (batcher->counting) {
		raw = counting_pack(batcher->counting, &bytes);
		batch_encode_counts(batcher->encoder, raw, bytes);
	}
	raw = batch_encode_finish(batcher->encoder, &bytes);
	frame = frame_ref_seal(batcher->config.codec, FRAME_BATCH, raw, (uint32_t)bytes);
	if (!frame)
		return NULL;
	counter_add(COUNTER_batches, 1);
	counter_add(COUNTER_batch_raw_bytes, bytes);
	counter_add(COUNTER_batch_wire_bytes, frame->bytes);
	return frame;
}

/* Gives up what is in hand: only the ledger goes on. */
static void owe(struct batcher *batcher, uint64_t end_seq, uint64_t events)
{
	struct owed *owed = &batcher->owed;

	if (owed->first_seq == owed->end_seq)
		*owed = (struct owed){.first_seq = batcher->first_seq};
	owed->end_seq = end_seq;
	owed->lost += events;
	owed->skipped += batcher->skipped;
	for (uint32_t i = 0; i < batcher->losses; i++)
		owed->lost += batcher->loss[i].count;
	counter_add(COUNTER_batches_out_of_memory, 1);
	batcher_start(batcher, end_seq, batcher->last_time_ns);
}

static struct frame_ref *pack_owed(const struct batcher *batcher)
{
	const struct owed *owed = &batcher->owed;

	return frame_ref_gap(batcher->config.codec, batcher->config.cpu, owed->first_seq, owed->end_seq,
			     LOSS_STAGE_QUEUE, LOSS_REASON_MEMORY, owed->lost);
}

static bool send(struct batcher *batcher, struct frame_ref *frame, uint64_t first_seq,
		 uint64_t end_seq)
{
	frame->ring = batcher->config.ring;
	frame->cpu = batcher->config.cpu;
	frame->first_seq = first_seq;
	frame->end_seq = end_seq;
	if (batcher->config.sink(batcher->config.context, batcher->config.subscription, frame))
		return true;
	frame_ref_put(frame);
	return false;
}

/* False: there is still no memory to say it. */
static bool send_owed(struct batcher *batcher)
{
	struct owed owed = batcher->owed;
	struct frame_ref *frame;

	if (owed.first_seq == owed.end_seq)
		return true;
	frame = pack_owed(batcher);
	if (!frame)
		return false;
	frame->skipped = owed.skipped;
	if (!send(batcher, frame, owed.first_seq, owed.end_seq))
		return false;
	batcher->owed = (struct owed){0};
	return true;
}

void batcher_flush(struct batcher *batcher)
{
	uint64_t end_seq = batch_encode_end_seq(batcher->encoder);
	uint64_t events = batcher->counting ? counting_events(batcher->counting) :
					      batch_encode_events(batcher->encoder);
	uint64_t first_seq = batcher->first_seq;
	struct frame_ref *frame = NULL;
	bool empty = !events && !batcher->losses, may_send = send_owed(batcher);

	if (end_seq == first_seq)
		return;
	if (may_send)
		frame = empty ? frame_ref_create(FRAME_BATCH, 0) : seal(batcher);
	if (!frame) {
		if (!empty)
			owe(batcher, end_seq, events);
		send_owed(batcher);
		return;
	}
	frame->events = events;
	frame->skipped = batcher->skipped;
	memcpy(frame->loss, batcher->loss, sizeof(frame->loss));
	frame->losses = batcher->losses;
	if (!send(batcher, frame, first_seq, end_seq)) {
		/* Skips alone just stay in hand. */
		if (!empty)
			owe(batcher, end_seq, events);
		return;
	}
	counter_add(COUNTER_events_encoded, events);
	batcher_start(batcher, end_seq, batcher->last_time_ns);
}

void batcher_tick(struct batcher *batcher, uint64_t until_ns)
{
	const struct counting *counting = batcher->counting;

	if (!counting || !counting_rows(counting) || !counting_slice(counting) ||
	    question_slice(batcher->config.spec->question, until_ns) > counting_slice(counting))
		batcher_flush(batcher);
}
