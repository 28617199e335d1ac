/*
 * batch_open: takes one Batch message apart into tables and columns, each checked by itself.
 *
 * In: bytes from outside. Out: struct open_batch, whose columns and texts are borrowed from those
 * bytes. Whether the columns fit together is batch_decode's business, as it goes. One thread.
 */
#ifndef RINGTAIL_PROTO_BATCH_OPEN_H
#define RINGTAIL_PROTO_BATCH_OPEN_H

#include <stddef.h>
#include <stdint.h>

#include "proto/batch_counts.h"
#include "proto/batch_encode.h"
#include "proto/batch_layout.h"
#include "proto/limits.h"
#include "proto/wire.h"

#define BATCH_ERROR_BYTES 256

struct open_loss {
	uint32_t before, stage, reason;
	uint64_t count, skipped;
};

struct open_attachment {
	uint32_t event, kind, arg;
	uint32_t stack;			/* which of the shared ones, from 1; 0: `data` has it */
	struct wire_reader data;	/* string: its bytes; stack: varints */
};

struct open_batch {
	uint32_t cpu, events;
	uint64_t first_seq, end_seq, time_ns;
	uint32_t threads, probes, losses, attachments, texts, stacks;
	struct batch_thread thread[BATCH_THREADS_MAX];
	struct {
		uint32_t exe, cgroup;			/* indexes, plus 1; held to the texts at the end */
	} thread_text[BATCH_THREADS_MAX];
	struct batch_text text[BATCH_TEXTS_MAX];	/* borrowed */
	uint64_t serial;				/* of the last text of all batches */
	uint16_t probe[BATCH_PROBES_MAX];
	struct open_loss loss[BATCH_LOSSES_MAX];
	struct open_attachment *attachment;		/* owned; grows up to BATCH_ATTACHMENTS_MAX */
	uint32_t attachments_room;
	struct wire_reader *stack;	/* owned; [BATCH_STACKS_MAX] once there is one: differences */
	struct wire_reader column[BATCH_COLUMNS];	/* absent: empty */
	struct counts_reader counts;
	char error[BATCH_ERROR_BYTES];
};

/*
 * Fills *batch. probe_max bounds the probe ids. 0, or -EBADMSG with batch->error; the tables are
 * then not to be used.
 */
int batch_open(struct open_batch *batch, const uint8_t *message, size_t bytes, uint32_t probe_max);

/* Frees what it has grown. One of zeros is fine. */
void batch_open_fini(struct open_batch *batch);

/* Writes batch->error and returns -EBADMSG. */
__attribute__((format(printf, 2, 3)))
int batch_open_error(struct open_batch *batch, const char *format, ...);

#endif
