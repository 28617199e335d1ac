/*
 * batch_decode: the bytes of one Batch message in, its events out, one at a time.
 *
 * Bytes come from outside: every count is bounded by proto/limits.h before it is used, every index
 * is checked, and columns that do not fit together are an error that says which. One thread.
 */
#ifndef RINGTAIL_PROTO_BATCH_DECODE_H
#define RINGTAIL_PROTO_BATCH_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/batch_counts.h"
#include "proto/batch_encode.h"

struct batch_decoder;

/* What the decoder must know of a probe. */
struct batch_probe {
	uint8_t fields;			/* at most PROBE_FIELDS_MAX */
	bool has_duration;
	bool known;
};

struct batch_attachment {
	uint32_t kind;			/* the proto's AttachmentKind */
	uint32_t arg;
	const uint8_t *text;		/* string */
	size_t text_bytes;
	const uint64_t *frame;		/* stack */
	size_t frames;
};

struct batch_loss {
	uint64_t first_seq;
	uint64_t count;
	uint32_t stage, reason;
};

/* One thing out of a batch, in ring order. */
struct batch_item {
	enum batch_item_kind {
		BATCH_EVENT,
		BATCH_LOSS,		/* lost attempts stand here */
		BATCH_END,
		BATCH_ERROR,		/* batch_decode_error() says which */
	} kind;
	uint64_t seq;			/* event */
	struct batch_event event;	/* .field is borrowed until the next call */
	const struct batch_thread *thread;
	const struct batch_attachment *attachment;
	size_t attachments;
	const struct batch_counts *counts;	/* event: what it stands for; NULL: for itself alone */
	struct batch_loss loss;
};

struct batch_summary {
	uint32_t cpu;
	uint32_t events;
	uint64_t first_seq, end_seq;
	uint64_t lost, skipped;		/* skipped: also those that other events stand for */
	uint64_t counted;		/* events, and what they stand for */
	uint64_t time_ns;
};

/* probe[id] for id < probe_max, borrowed for the decoder's life. NULL when out of memory. */
struct batch_decoder *batch_decoder_create(const struct batch_probe *probe, uint32_t probe_max);
void batch_decoder_destroy(struct batch_decoder *decoder);

/* What it holds: it grows with the batches that it opens, and as it walks through one. */
size_t batch_decoder_bytes(const struct batch_decoder *decoder);

/* Opens a message, borrowed until the next open. 0, or -EBADMSG: batch_decode_error() has the reason. */
int batch_decode_open(struct batch_decoder *decoder, const uint8_t *message, size_t bytes,
		      struct batch_summary *summary);

/* The next item. After BATCH_END or BATCH_ERROR it stays there. */
enum batch_item_kind batch_decode_next(struct batch_decoder *decoder, struct batch_item *item);

/* The thread of the open batch with that tid (the first, if a name changed), or NULL. */
const struct batch_thread *batch_decode_thread(const struct batch_decoder *decoder, uint32_t tid);

/* What the event that came last stands for; NULL: itself alone. */
const struct batch_counts *batch_decode_counts(const struct batch_decoder *decoder);

const char *batch_decode_error(const struct batch_decoder *decoder);

#endif
