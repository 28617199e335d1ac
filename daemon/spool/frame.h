/*
 * spool_frame: what a frame that was read back says of attempts. In: the bytes of its message, from
 * a file that may be anything. Out: the ledger's part of a frame_ref. Pure, any thread.
 */
#ifndef RINGTAIL_DAEMON_SPOOL_FRAME_H
#define RINGTAIL_DAEMON_SPOOL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/frame_ref.h"

/*
 * By frame->type: a Batch or a Gap's cpu, first_seq, end_seq, events, skipped, loss; a Watermark's
 * time_ns. False: that is no such message, or its numbers do not add up.
 */
bool spool_frame_describe(struct frame_ref *frame, const uint8_t *raw, size_t bytes);

/* Each position of a Watermark, until `each` says false. False: so it did, or it is none. */
typedef bool spool_frame_position(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped);
bool spool_frame_positions(const uint8_t *raw, size_t bytes, spool_frame_position *each,
			   void *context);

/* A Gap of stage spool, described; ring and cpu are the caller's to know. NULL: out of memory. */
struct frame_ref *spool_frame_gap(struct frame_codec *codec, uint32_t cpu, uint64_t first_seq,
				  uint64_t end_seq, uint64_t events,
				  enum loss_reason reason);

/* A Watermark; NULL: out of memory. */
struct frame_ref *spool_frame_watermark(struct frame_codec *codec, uint64_t time_ns,
					Ringtail__V1__Position **position, size_t n);

#endif
