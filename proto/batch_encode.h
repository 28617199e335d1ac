/*
 * batch_encode: events of one CPU in, the wire bytes of one Batch message out.
 *
 * The batch's hot path: each column is a buffer of protobuf varints that only grows; nothing is
 * allocated per event. One encoder is used by one thread. Tests hold its bytes to protobuf-c's and
 * to `protoc --decode`.
 */
#ifndef RINGTAIL_PROTO_BATCH_ENCODE_H
#define RINGTAIL_PROTO_BATCH_ENCODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct batch_encoder;

/* What threads share, a path: those with one serial are the same. */
struct batch_text {
	uint64_t serial;		/* never used again in the encoder's life; not 0 */
	const char *data;		/* not terminated */
	uint32_t bytes;			/* at most TEXT_BYTES_MAX */
};

/* Who an event's thread is. `comm` need not be terminated if it fills all 16 bytes. */
struct batch_thread {
	uint32_t tid, pid, ppid, uid;
	bool kernel;
	char comm[16];
	uint64_t cgroup_id;
	const struct batch_text *exe, *cgroup;	/* borrowed; NULL: not known */
};

struct batch_event {
	uint16_t probe;			/* catalog id */
	uint8_t fields;			/* how many words `field` has: fixed for each probe id */
	bool has_duration;		/* field[0] is a duration in ns, and time_ns when it ended */
	uint32_t thread;		/* from batch_encode_thread(), in this batch */
	uint64_t time_ns;
	const uint64_t *field;
};

/* NULL when out of memory. probe_max: one more than the highest probe id. */
struct batch_encoder *batch_encoder_create(uint32_t probe_max);
void batch_encoder_destroy(struct batch_encoder *encoder);

/* Whether threads come with their exe and cgroup; they do not, at first. Before a batch begins. */
void batch_encoder_set_context(struct batch_encoder *encoder, bool context);

/* From the next batch on, a stack is written once and its events name it. False: no memory. */
bool batch_encode_share_stacks(struct batch_encoder *encoder, bool share);

/* From the next batch on, each leaves so many bytes for batch_encode_counts(). */
void batch_encode_reserve(struct batch_encoder *encoder, size_t bytes);

/* Starts a batch that speaks of attempts from first_seq on. */
void batch_encode_begin(struct batch_encoder *encoder, uint32_t cpu, uint64_t first_seq,
			uint64_t time_ns);

/*
 * The index of a thread in this batch, adding it if `*slot` is not one of this batch's. `slot` is a
 * word the caller keeps beside each thread it knows (one for each encoder), 0 at first; the encoder
 * stores what it needs there. UINT32_MAX: the batch has no room for another thread; finish it.
 */
uint32_t batch_encode_thread(struct batch_encoder *encoder, const struct batch_thread *thread,
			     uint64_t *slot);

/* Appends an event. False if the batch is full: finish it and begin the next. */
bool batch_encode_event(struct batch_encoder *encoder, const struct batch_event *event);

/* Attempts before the next event that were recorded but are not this subscription's. */
void batch_encode_skip(struct batch_encoder *encoder, uint64_t count);

/* Attempts lost before the next event; stage and reason are the proto's enums. */
bool batch_encode_loss(struct batch_encoder *encoder, uint64_t count, uint32_t stage,
		       uint32_t reason);

/* Attachments of the event just appended. False: no room, the attachment is not in the batch. */
bool batch_encode_string(struct batch_encoder *encoder, uint32_t arg, const void *text,
			 size_t bytes);
bool batch_encode_stack(struct batch_encoder *encoder, bool kernel, const uint64_t *frame,
			size_t frames);

/* Events since begin, and up to where attempts were accounted for: events, losses and skips. */
uint32_t batch_encode_events(const struct batch_encoder *encoder);
uint64_t batch_encode_end_seq(const struct batch_encoder *encoder);

/* Message Counts of the batch (proto/batch_counts.h), borrowed until it ends. */
void batch_encode_counts(struct batch_encoder *encoder, const uint8_t *counts, size_t bytes);

/*
 * Ends the batch: its message's bytes, borrowed until the next begin. end_seq is first_seq + events
 * + losses + skips.
 */
const uint8_t *batch_encode_finish(struct batch_encoder *encoder, size_t *bytes);

#endif
