/*
 * stream: one client's place in a subscription's log, and its ledger:
 *
 *	produced = delivered + filtered + lost + in flight
 *
 * In: the entries of the log, or of the spool. Out: the next frames to send. Its owner (a session, or a consumer inside
 * the daemon) asks for the next frame, and reports when it was sent. If a client lags more than its bound, it loses the
 * oldest frames that it has not been sent, and gets Gap frames in their place; a durable consumer reads them from the
 * spool instead. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_STREAM_H
#define RINGTAIL_DAEMON_STREAM_STREAM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "daemon/base/frame_ref.h"
#include "daemon/stream/subscription.h"

struct catch_up;
struct consumer;
struct gather;
struct past;
struct subscriber;

/* In place of a number, where a stream is to begin on a ring: with the first that this run recorded. */
#define SINCE_BEGIN	(UINT64_MAX - 1)

struct stream_ring {
	uint64_t start;		/* the ledger begins here */
	uint64_t seen;		/* accounted for up to here */
	uint64_t told;		/* and frames that the client was sent reach up to here */
	uint64_t gap_events;	/* to be reported as a Gap that ends at `seen` */
	bool gap;
	bool mixed;		/* a Gap up to `gone`, of an unknown number of events, is sent first */
	uint64_t gone;
	bool unknown;		/* its start is not known until the spool's first frame */
};

/*
 * The rate of a viewer: so many events in a second, and the unused ones of the second before. When these are used up,
 * events are lost until a quarter of a second's allowance is there again: a few long gaps, not many short ones.
 */
struct stream_rate {
	bool bound;			/* it is a viewer's */
	uint64_t events;		/* in a second; 0: any number */
	double credit;			/* below 0: so many too many were sent */
	uint64_t since_ns;		/* of the credit */
	bool over;
	bool dropped;			/* and the loss has still to be reported */
};

struct stream {
	TAILQ_ENTRY(stream) link;
	struct subscription *subscription;
	struct subscriber *subscriber;	/* that sends its frames; NULL: none */
	struct consumer *consumer;	/* NULL: not durable */
	struct run run;			/* the earlier run whose frames it sends, from the spool */
	struct catch_up *catch_up;	/* it reads the spool, not the log; else NULL */
	struct past *past;		/* what was before its subscription comes first; else NULL */
	bool away;			/* out of another's record still, not out of the log */
	struct gather *gather;		/* it makes large frames of small ones; NULL: they go as they are */
	bool patient;			/* where memory ends, it goes back to the spool */
	struct frame_codec *codec;
	const uint32_t *cpu_of;		/* by ring */
	uint64_t lag_bytes_max;

	struct stream_rate rate;
	uint64_t next;			/* serial of the first entry not begun */
	uint64_t joined;		/* serial of the log's end when it came */
	struct frame_ref *begun;	/* being sent; a reference of our own */
	uint64_t last_time_ns;		/* of the newest watermark passed */
	bool gaps;			/* a gap has to be sent before the next entry */
	uint32_t missed;		/* bits of reasons: for each, a gap of unknown size is sent first */
	bool resumed;
	enum loss_reason missing_reason;
	enum loss_reason drop_reason;	/* of the gap that is to be sent */

	uint64_t foreign;		/* attempts of other runs of the rings, out of the spool */
	uint64_t delivered, filtered;
	uint64_t lost[LOSS_STAGES][LOSS_REASONS];
	uint64_t frames_dropped;
	struct stream_ring ring[];
};

struct stream_stat {
	uint64_t produced, in_flight, lag_bytes;
	int64_t residual;
};

/*
 * At the log's end, or with `since`, of this run, as far back as it goes: what is missing is a gap of
 * stage history and that reason; a CPU that it does not name is at the log's end. Without `since`, a
 * reason other than 0 makes a gap of no size. Joins the subscription. NULL: out of memory.
 */
struct stream *stream_create(struct subscription *subscription, struct frame_codec *codec,
			     const uint32_t *cpu_of, uint64_t lag_bytes_max,
			     const struct cursor *since, enum loss_reason missing_reason);
void stream_destroy(struct stream *stream);

/* The next watermark is left out: the stream itself reports the attempts that were skipped, if there are any. */
void stream_owe_places(struct stream *stream);

/* A part of the requested past is missing: sends one gap of unknown size. */
void stream_miss(struct stream *stream, enum loss_reason reason);

/* What it came back for may be missing, nobody knows how much: a gap of no size, for that reason. */
void stream_doubt(struct stream *stream, enum loss_reason reason);

/*
 * Up to n frames to send next, in order, into frame[]; returns how many. They stay the log's: they
 * must be sent, begun or forgotten before control returns to the loop. Gaps that are due (`gaps`) come
 * as frames into `tell`, at most one for each ring and one more, which the caller sends before: 0
 * then. Not while a frame is begun: a gap after it must not speak of it.
 */
typedef void stream_tell(void *context, struct frame_ref *frame);
unsigned stream_peek(struct stream *stream, struct frame_ref **frame, unsigned n,
		     stream_tell *tell, void *context);

/* The first peeked frame is sent. */
void stream_sent(struct stream *stream);

/* The first peeked frame is sent in part: the stream keeps it in `begun` until stream_ended(). */
void stream_begin(struct stream *stream);
void stream_ended(struct stream *stream);

bool stream_has_work(const struct stream *stream);

/* For a stream that nobody sends: the next frame, also without bytes, as if it were sent; a reference. */
struct frame_ref *stream_take(struct stream *stream);

/* It reads its subscription's log, and needs what is there. */
static inline bool stream_in_log(const struct stream *stream)
{
	return !stream->catch_up && !stream->away;
}

/* Something is still to come that is not at hand yet: off the disk, or out of another's record. */
static inline bool stream_waits(const struct stream *stream)
{
	return stream->catch_up || stream->past;
}

/* The durable consumer was sent what it was sent, whatever becomes of the stream. */
void stream_note_sent(const struct stream *stream, const struct run *run);

/* How far its client knows of each CPU whose start is known, for the caller to free. NULL: out of memory. */
struct cursor *stream_told(const struct stream *stream);

/* By ring: where the client is once it has taken all that it was sent. */
uint64_t stream_place(const struct stream *stream, uint32_t ring);

/* It is a viewer's, and gets so many events in a second at most; 0: any number. */
void stream_set_rate(struct stream *stream, uint64_t events);

/* For the gather: the frame that the log, or the disk, has i-th from here on; and that the first is taken. */
struct frame_ref *stream_source(const struct stream *stream, unsigned i);
void stream_source_pass(struct stream *stream);

/* For the subscription. */
void stream_on_append(struct stream *stream);
void stream_on_evict(struct stream *stream, uint64_t serial, const struct frame_ref *frame,
		     enum loss_reason reason);

void stream_stat(const struct stream *stream, struct stream_stat *stat);

#endif
