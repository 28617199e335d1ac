/*
 * frame_ref: a finished frame and what the ledger must know of it. Immutable once made; shared by
 * reference between a subscription's history and its clients' queues, so that fan-out never copies.
 *
 * A worker makes it and hands it over; from then on it is the main thread's, and so is the count.
 */
#ifndef RINGTAIL_DAEMON_BASE_FRAME_REF_H
#define RINGTAIL_DAEMON_BASE_FRAME_REF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/cursor.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/losses.h"
#include "proto/ringtail.pb-c.h"

/* Losses by where and why (enum loss_stage, enum loss_reason), as one small array. */
struct loss_count {
	uint8_t stage, reason;
	uint64_t count;
};

#define FRAME_LOSSES_MAX 8		/* stage and reason pairs one batch can have */

struct frame_ref {
	uint32_t refs;
	enum frame_type type;

	/* A batch: the attempts it speaks of; end_seq - first_seq = events + skipped + losses. */
	uint32_t ring, cpu;		/* index among all rings; what the wire says */
	uint64_t first_seq, end_seq;
	uint64_t events, skipped;
	struct loss_count loss[FRAME_LOSSES_MAX];
	uint32_t losses;

	uint64_t time_ns;		/* a watermark's */
	uint64_t made_ns;		/* of one in a log: no event before it there is younger */
	struct run run;			/* a ServerHello's, where a run of the rings begins */
	uint32_t raw_bytes;
	size_t bytes;			/* 0: the ledger's business only */
	uint8_t data[];
};

/* The attempts it speaks of; its events and in-batch losses. */
static inline uint64_t frame_ref_attempts(const struct frame_ref *frame)
{
	return frame->end_seq - frame->first_seq;
}

/* In place of a ring: of an earlier run of the rings, out of the spool, where only the CPU says anything. */
#define RING_EARLIER UINT32_MAX

static inline bool frame_ref_is_earlier(const struct frame_ref *frame)
{
	return frame->ring == RING_EARLIER;
}

/* Whether it speaks of attempts: of one ring, from first_seq to end_seq. */
static inline bool frame_ref_is_range(const struct frame_ref *frame)
{
	return frame->type == FRAME_BATCH || frame->type == FRAME_GAP;
}

uint64_t frame_ref_losses(const struct frame_ref *frame);

/* A frame with room for `bytes`, holding one reference; NULL when out of memory. */
struct frame_ref *frame_ref_create(enum frame_type type, size_t bytes);

/* Seals any message of the proto: `raw` is its packed bytes. */
struct frame_ref *frame_ref_seal(struct frame_codec *codec, enum frame_type type,
				 const uint8_t *raw, uint32_t raw_bytes);

/* Packs and seals; NULL when out of memory or over FRAME_RAW_BYTES_MAX. */
struct frame_ref *frame_ref_pack(struct frame_codec *codec, enum frame_type type,
				 const ProtobufCMessage *message);

/*
 * A Gap of these attempts, with what the ledger must know of it; the ring is the caller's to know. `events`: so many
 * of them are lost; where it is not known how many, 0 or more than there are, all of them. NULL: out of memory.
 */
struct frame_ref *frame_ref_gap(struct frame_codec *codec, uint32_t cpu, uint64_t first_seq,
				uint64_t end_seq, enum loss_stage stage,
				enum loss_reason reason, uint64_t events);

struct frame_ref *frame_ref_get(struct frame_ref *frame);
void frame_ref_put(struct frame_ref *frame);

#endif
