/* spool_read_private: a reader's place, for spool_read.c and spool_read_give.c alone. */
#ifndef RINGTAIL_DAEMON_SPOOL_READ_PRIVATE_H
#define RINGTAIL_DAEMON_SPOOL_READ_PRIVATE_H

#include "daemon/spool/read.h"

struct spool_read {
	bool placed;			/* the first segment is found */
	struct spool_marks *since;
	uint64_t since_realtime_ns;

	uint64_t sequence;		/* of the segment being read; the next, if offset is 0 */
	uint64_t offset;		/* of the next frame in it */
	bool has_epoch, ours, greeted;
	Ringtail__V1__LossReason run_end;	/* of the Gap that stands behind this epoch; 0: not given */
	uint8_t boot_id[16];
	uint64_t epoch;
	struct spool_marks *at;		/* everything before has been given */
	struct spool_marks *before;	/* `at`, when a call began */
	uint64_t time_ns;		/* of the newest watermark given */
	unsigned errors;
	Ringtail__V1__LossReason passed;	/* what was passed over to get here; 0: nothing */

	/* Of one call. */
	struct spool_store *store;
	struct frame_ref **frame;
	unsigned n, max;
	size_t bytes;
	bool no_memory;
};

/* spool_read_give.c. Whatever finds no memory for what it gives sets ->no_memory. */

/* Takes the reference. There is always room: see step() and take_frames(). */
void spool_read_give(struct spool_read *read, struct frame_ref *frame);

/* The frame at hand. NULL: out of memory. */
struct frame_ref *spool_read_copy_frame(const struct spool_scan *scan);

/* A loss of which nobody knows the size, only that it was here. */
void spool_read_give_unknown(struct spool_read *read, Ringtail__V1__LossReason reason);

/* What is between here and these places is not on disk any more. */
void spool_read_give_missing(struct spool_read *read, const struct spool_marks *upto,
			     Ringtail__V1__LossReason reason);

/* Gives of the frame at hand what was not given yet. False: what it says cannot be. */
bool spool_read_take_frame(struct spool_read *read, const struct spool_scan *scan);

/* The most frames that one frame read may become: a range skipped on each CPU, and itself. */
unsigned spool_read_worst_case(const struct spool_read *read);

#endif
