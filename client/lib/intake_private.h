/* intake_private: an intake's inside, for intake*.c alone. */
#ifndef RINGTAIL_CLIENT_LIB_INTAKE_PRIVATE_H
#define RINGTAIL_CLIENT_LIB_INTAKE_PRIVATE_H

#include "client/lib/intake.h"
#include "client/lib/ledger.h"
#include "client/lib/merge.h"
#include "proto/limits.h"

struct intake {
	bool count_only;
	bool segmented;				/* it is a spool's: segments follow each other */
	bool segment_final;			/* it has ended: nothing of its run is missing after it */
	bool run_ended;				/* so had the one before */
	bool segments_gone;			/* some were deleted before they could be read */
	bool reached[INTAKE_ENDED + 1];
	bool is_whole;				/* the last frame was an end */
	struct frame_codec *codec;
	struct catalog *catalog;
	uint8_t *catalog_body;			/* what it was made of: mostly the next one is the same */
	size_t catalog_bytes;
	struct batch_decoder *scout;		/* opens batches as they come, for cpu and span */
	struct ledger *ledger;
	struct merge *merge;
	struct cursor *since_cursor;		/* what is before was given out long ago; */
	uint64_t since[CURSOR_POSITIONS_MAX];	/* by cpu, if it is of this run */
	uint64_t since_realtime_ns, until_realtime_ns;	/* 0: no bound */
	struct selection *selection;		/* NULL: every event; borrowed */
	bool check_begin;			/* nothing has come that tells when this file begins, */
	uint64_t whole_realtime_ns;		/* but its segment's head, or Subscribed; 0: neither */
	bool begins_first;			/* it is the first that its spool has written */
	struct ringtail_item single;		/* count_only: a batch; else a watermark */
	bool has_single;
	struct ringtail_attachment *attachment;
	size_t attachments_max;
	struct ringtail_host host;
	struct ringtail_host next_host;		/* its run begins when that before has been given out */
	bool has_next_host;
	struct merge_entry *held_gap;		/* of no size; NULL: none. Its place is known a frame later */
	uint32_t held_cpu;
	struct ringtail_totals totals;
	char bye[NAME_BYTES_MAX];
	bool bye_is_final;
	uint8_t raw[FRAME_RAW_BYTES_MAX];	/* of the frame at hand, unless it is a batch */
};

/* Another run of the rings counts anew. */
void intake_begin_run(struct intake *intake, const struct ringtail_host *host);

#endif
