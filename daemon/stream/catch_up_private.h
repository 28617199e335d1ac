/* catch_up_private: a catch-up's inside, for catch_up*.c alone. */
#ifndef RINGTAIL_DAEMON_STREAM_CATCH_UP_PRIVATE_H
#define RINGTAIL_DAEMON_STREAM_CATCH_UP_PRIVATE_H

#include "daemon/stream/catch_up.h"
#include "daemon/spool/spool.h"

/* How far the frames that came have got on one ring; of a run at a time. */
struct catch_up_ring {
	uint64_t seq;
	bool known;
	bool starved;			/* what follows was dropped for want of memory */
};

struct catch_up {
	struct stream *stream;
	struct spool_reader *reader;
	struct frame_ref **queue;	/* first .. end - 1, modulo capacity */
	uint32_t first, end, capacity;	/* a power of two */

	bool asked;			/* an answer is on its way */
	struct frame_ref *const *answer;	/* the last one, the reader's: what is still to be taken, */
	unsigned answered;		/* for there was no memory; our references */
	bool at_end;			/* the last answer had all that there was on disk, */
	uint64_t stored;		/* and so much that was when it was asked for */
	bool foreign;			/* what comes is of another run, */
	bool nameless;			/* whose hello nobody can read */
	/* Why what is between here and the next frame is missing, of no known size; 0: nothing is. */
	Ringtail__V1__LossReason missed;

	struct cursor *cursor;		/* of another run: its numbers count if that comes; or NULL */
	struct catch_up_ring ring[];
};

static inline uint32_t catch_up_rings(const struct catch_up *catch_up)
{
	return catch_up->stream->subscription->rings;
}

/* The ring of that CPU, or -1. */
int catch_up_ring(const struct catch_up *catch_up, uint32_t cpu);

/* A Gap from where that ring is up to `end`. False: there is no memory for it. */
bool catch_up_push_gap(struct catch_up *catch_up, uint32_t ring, uint64_t end);

/* If something is missed: a Gap of no size, where that ring is. False: there is no memory for it. */
bool catch_up_push_missed(struct catch_up *catch_up, uint32_t ring);

/*
 * A frame off the disk or out of the log: what of it has not come. The reference goes over; or, false:
 * there is no memory for what no stream can be without, nothing has changed, and it is to be tried again.
 */
bool catch_up_take(struct catch_up *catch_up, struct frame_ref *frame);

/* This run begins, after others: from its start, wherever that is. False: as above. */
bool catch_up_come_home(struct catch_up *catch_up);

/* What is left of the answer, as far as memory goes. */
void catch_up_take_answer(struct catch_up *catch_up);

/* The spool's answer. */
void catch_up_on_frames(void *context, struct frame_ref *const *frame, unsigned n, bool end);

#endif
