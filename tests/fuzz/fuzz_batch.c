/*
 * fuzz_batch: bytes from outside as a batch. The decoder stays inside them; and what decodes, must
 * decode to the same events, losses, numbers and counts after it is encoded again.
 */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/limits.h"

#define PROBE_IDS	512
#define ITEMS_MAX	(BATCH_EVENTS_MAX + BATCH_LOSSES_MAX + 1)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct batch_probe probes[PROBE_IDS];
static struct batch_decoder *first, *second;
static struct batch_encoder *encoder;
static struct counts_writer *writer;
static uint32_t rows, buckets;		/* that have been written; beyond the writer's room: none is */

static void must(bool holds)
{
	if (!holds)
		abort();
}

static void prepare(void)
{
	for (unsigned id = 0; id < PROBE_IDS; id++) {
		probes[id].fields = id % (PROBE_FIELDS_MAX + 1);
		probes[id].has_duration = id % 3 && probes[id].fields;
		probes[id].known = id % 7 != 6;
	}
	first = batch_decoder_create(probes, PROBE_IDS);
	second = batch_decoder_create(probes, PROBE_IDS);
	encoder = batch_encoder_create(PROBE_IDS);
	writer = counts_writer_create();
	must(first && second && encoder && writer);
	batch_encode_reserve(encoder, COUNTS_BYTES_MAX);
}

/* Reads every byte that an item borrows, so that the sanitizer sees them. */
static bool put_attachments(const struct batch_item *item)
{
	for (size_t i = 0; i < item->attachments; i++) {
		const struct batch_attachment *attachment = &item->attachment[i];
		bool fits = attachment->kind == 1 ?
			batch_encode_string(encoder, attachment->arg, attachment->text,
					    attachment->text_bytes) :
			batch_encode_stack(encoder, attachment->kind == 2, attachment->frame,
					   attachment->frames);

		must(fits);
	}
	return true;
}

static bool counts_fit(void)
{
	return rows <= COUNT_ROWS_MAX && buckets <= COUNT_BUCKETS_MAX;
}

static bool put_event(const struct batch_item *item, uint64_t *slot)
{
	struct batch_event event = item->event;

	if (item->counts) {
		rows++;
		buckets += item->counts->buckets;
		if (!counts_fit())
			return false;
		counts_writer_add(writer, item->counts);
	}

	event.thread = batch_encode_thread(encoder, item->thread, &slot[item->event.thread]);
	must(event.thread != UINT32_MAX);
	return batch_encode_event(encoder, &event) && put_attachments(item);
}

/* Encodes what `first` holds. False: it is not a batch, or more than the encoder takes in one. */
static bool encode_again(const struct batch_summary *summary)
{
	static uint64_t slot[BATCH_THREADS_MAX];
	uint64_t seq = summary->first_seq;
	struct batch_item item;

	memset(slot, 0, sizeof(slot));
	counts_writer_begin(writer);
	rows = buckets = 0;
	batch_encode_begin(encoder, summary->cpu, summary->first_seq, summary->time_ns);
	must(batch_encode_share_stacks(encoder, summary->end_seq & 1));
	for (unsigned i = 0; i < ITEMS_MAX; i++) {
		enum batch_item_kind kind = batch_decode_next(first, &item);
		uint64_t at = kind == BATCH_LOSS ? item.loss.first_seq : item.seq;

		if (kind == BATCH_ERROR) {
			must(*batch_decode_error(first));
			return false;
		}
		if (kind == BATCH_END) {
			batch_encode_skip(encoder, summary->end_seq - seq);
			return true;
		}
		must(at >= seq && at < summary->end_seq);
		batch_encode_skip(encoder, at - seq);
		if (kind == BATCH_LOSS && !batch_encode_loss(encoder, item.loss.count,
							     item.loss.stage, item.loss.reason))
			return false;
		if (kind == BATCH_EVENT && !put_event(&item, slot))
			return false;
		seq = at + (kind == BATCH_LOSS ? item.loss.count : 1);
	}
	abort();
}

static void compare_counts(const struct batch_counts *a, const struct batch_counts *b)
{
	must(!a == !b);
	if (!a)
		return;
	must(a->events == b->events && a->errors == b->errors && a->values == b->values);
	must(a->least == b->least && a->greatest == b->greatest && a->sum == b->sum);
	must(a->sum_high == b->sum_high && a->buckets == b->buckets);
	must(!a->buckets || !memcmp(a->bucket, b->bucket, a->buckets * sizeof(*a->bucket)));
}

static void compare_events(const struct batch_item *a, const struct batch_item *b)
{
	must(a->seq == b->seq && a->event.probe == b->event.probe);
	must(a->event.time_ns == b->event.time_ns && a->event.fields == b->event.fields);
	must(!memcmp(a->event.field, b->event.field, a->event.fields * sizeof(*a->event.field)));
	must(a->thread->tid == b->thread->tid && a->thread->pid == b->thread->pid);
	must(a->thread->ppid == b->thread->ppid && a->thread->uid == b->thread->uid);
	must(a->thread->kernel == b->thread->kernel);
	must(!strncmp(a->thread->comm, b->thread->comm, sizeof(a->thread->comm)));
	compare_counts(a->counts, b->counts);
	must(a->attachments == b->attachments);
	for (size_t i = 0; i < a->attachments; i++) {
		const struct batch_attachment *x = &a->attachment[i], *y = &b->attachment[i];

		must(x->kind == y->kind && x->frames == y->frames);
		must(x->text_bytes == y->text_bytes);
		must(!x->text_bytes || !memcmp(x->text, y->text, x->text_bytes));
		must(!x->frames || !memcmp(x->frame, y->frame, x->frames * sizeof(*x->frame)));
	}
}

/* The next item that is no loss; losses are summed, for the encoder joins those that touch. */
static enum batch_item_kind next_event(struct batch_decoder *decoder, struct batch_item *item,
				       uint64_t *lost)
{
	while (batch_decode_next(decoder, item) == BATCH_LOSS)
		*lost += item->loss.count;
	return item->kind;
}

static void compare(const struct batch_summary *a, const uint8_t *data, size_t size)
{
	struct batch_summary b, again;
	struct batch_item x, y;
	uint64_t x_lost = 0, y_lost = 0;
	const uint8_t *message;
	size_t bytes;

	if (rows) {
		message = counts_writer_finish(writer, &bytes);
		must(bytes <= COUNTS_BYTES_MAX);
		batch_encode_counts(encoder, message, bytes);
	}
	message = batch_encode_finish(encoder, &bytes);
	must(bytes <= FRAME_RAW_BYTES_MAX);
	must(!batch_decode_open(second, message, bytes, &b));
	must(a->cpu == b.cpu && a->events == b.events && a->first_seq == b.first_seq);
	must(a->end_seq == b.end_seq && a->lost == b.lost && a->skipped == b.skipped);
	must(a->time_ns == b.time_ns && a->counted == b.counted);
	must(!batch_decode_open(first, data, size, &again));
	do {
		must(next_event(first, &x, &x_lost) == next_event(second, &y, &y_lost));
		must(x_lost == y_lost);
		if (x.kind == BATCH_EVENT)
			compare_events(&x, &y);
	} while (x.kind == BATCH_EVENT);
	must(x.kind == BATCH_END);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct batch_summary summary;

	if (!first)
		prepare();
	if (batch_decode_open(first, data, size, &summary)) {
		must(*batch_decode_error(first));
		return 0;
	}
	if (encode_again(&summary))
		compare(&summary, data, size);
	return 0;
}
