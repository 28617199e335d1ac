/* First `from` is read to its end; then the log, where that record leaves off in it. */
#include "daemon/stream/past.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "daemon/stream/catch_up.h"
#include "daemon/stream/rebatch.h"
#include "daemon/stream/subscriber.h"
#include "kmod/uapi/ringtail.h"

struct past_turns {
	struct event *timer;
	struct batch_encoder *encoder;		/* of whoever's turn it is */
	TAILQ_HEAD(, past) waiting;
};

struct past_ring {
	uint64_t place;			/* what is before it was made ready, or given up */
	uint64_t own;			/* and so far the log was looked through */
	uint64_t end;			/* of what a partial record is good for: there the log began */
	uint64_t passed_over;		/* attempts that it has beyond */
};

struct past {
	TAILQ_ENTRY(past) link;
	struct past_turns *turns;
	struct stream *stream;
	struct stream *from;		/* NULL: it has been read to its end */
	bool partial;			/* `from` has not all that is wanted */
	bool earlier;			/* what it told last is of an earlier run */
	struct rebatch *rebatch;
	struct frame_ref *taken;	/* and not yet made ready, for there was no memory */
	struct frame_ref *ready[PAST_FRAMES_MAX];
	uint32_t first, end;
	int64_t budget;			/* bytes that may be decoded before the next turn */
	bool waiting;			/* for that */
	bool starved;
	uint64_t filtered;		/* of `from`: what is in frames that were taken, or was told */
	uint64_t lost[LOSS_STAGES][LOSS_REASONS];
	struct past_ring ring[];
};

/* ---- Turns ----------------------------------------------------------------------------------- */

static void set_timer(struct past_turns *turns)
{
	static const struct timeval turn = {.tv_usec = PAST_TURN_NS / 1000};

	if (!TAILQ_EMPTY(&turns->waiting) && !event_pending(turns->timer, EV_TIMEOUT, NULL))
		event_add(turns->timer, &turn);
}

static void on_turn(evutil_socket_t fd, short what, void *context)
{
	struct past_turns *turns = context;
	struct past *past = TAILQ_FIRST(&turns->waiting);

	(void)fd, (void)what;
	if (!past)
		return;
	TAILQ_REMOVE(&turns->waiting, past, link);
	past->waiting = false;
	past->budget = PAST_TURN_BYTES;
	set_timer(turns);
	subscriber_wake(past->stream->subscriber);
}

struct past_turns *past_turns_create(struct event_base *base)
{
	struct past_turns *turns = calloc(1, sizeof(*turns));

	if (!turns)
		return NULL;
	TAILQ_INIT(&turns->waiting);
	turns->timer = event_new(base, -1, 0, on_turn, turns);
	turns->encoder = batch_encoder_create(RT_PROBE_MAX);
	if (turns->timer && turns->encoder)
		return turns;
	past_turns_destroy(turns);
	return NULL;
}

void past_turns_destroy(struct past_turns *turns)
{
	if (!turns)
		return;
	if (turns->timer)
		event_free(turns->timer);
	batch_encoder_destroy(turns->encoder);
	free(turns);
}

/* Whether it is its turn; if it is not, it waits for that. */
static bool has_turn(struct past *past)
{
	if (past->budget > 0)
		return true;
	if (!past->waiting) {
		past->waiting = true;
		TAILQ_INSERT_TAIL(&past->turns->waiting, past, link);
		set_timer(past->turns);
	}
	return false;
}

/* ---- What is ready --------------------------------------------------------------------------- */

static bool has_room(const struct past *past)
{
	return past->end - past->first < PAST_FRAMES_MAX;
}

static void push(struct past *past, struct frame_ref *frame)
{
	past->ready[past->end++ % PAST_FRAMES_MAX] = frame;
}

struct frame_ref *past_get(const struct past *past, uint32_t i)
{
	return i < past->end - past->first ? past->ready[(past->first + i) % PAST_FRAMES_MAX] : NULL;
}

void past_pass(struct past *past)
{
	frame_ref_put(past->ready[past->first++ % PAST_FRAMES_MAX]);
}

static uint32_t rings_of(const struct past *past)
{
	return past->stream->subscription->rings;
}

/* ---- Beginning and end ----------------------------------------------------------------------- */

/* A ring whose start the spool's first frame of it tells. */
static void begin_ring(struct past *past, uint32_t i)
{
	const struct stream_ring *from = &past->from->ring[i];
	struct stream_ring *ring = &past->stream->ring[i];

	if (!ring->unknown || from->unknown)
		return;
	*ring = (struct stream_ring){.start = from->start, .seen = from->start,
				     .told = from->start};
	past->ring[i].place = from->start;
}

static void begin_rings(struct past *past)
{
	for (uint32_t i = 0; i < rings_of(past); i++)
		begin_ring(past, i);
}

int past_begin(struct past_turns *turns, struct stream *stream, struct stream *from, bool whole,
	       const Ringtail__V1__Catalog *catalog)
{
	uint32_t rings = stream->subscription->rings;
	struct past *past = calloc(1, sizeof(*past) + rings * sizeof(past->ring[0]));

	if (!past)
		return -ENOMEM;
	past->rebatch = rebatch_create(stream->subscription, catalog, stream->codec,
				       turns->encoder);
	if (!past->rebatch) {
		free(past);
		return -ENOMEM;
	}
	past->turns = turns;
	past->stream = stream;
	past->from = from;
	past->partial = !whole;
	from->patient = true;
	stream->past = past;
	stream->away = true;
	stream->resumed = from->resumed;
	for (uint32_t i = 0; i < rings; i++) {
		stream->ring[i] = (struct stream_ring){.unknown = true};
		past->ring[i].end = whole ? UINT64_MAX : stream->subscription->floor[i];
	}
	begin_rings(past);
	return 0;
}

void past_destroy(struct past *past)
{
	if (!past)
		return;
	if (past->waiting)
		TAILQ_REMOVE(&past->turns->waiting, past, link);
	while (past->first != past->end)
		past_pass(past);
	frame_ref_put(past->taken);
	stream_destroy(past->from);
	rebatch_destroy(past->rebatch);
	free(past);
}

/* ---- Out of the other's record ----------------------------------------------------------------- */

/* What of it was given up since, without a frame that was taken. */
static void take_losses(struct past *past)
{
	struct stream *stream = past->stream, *from = past->from;

	stream->filtered += from->filtered - past->filtered;
	past->filtered = from->filtered;
	for (unsigned i = 0; i < LOSS_STAGES; i++)
		for (unsigned j = 0; j < LOSS_REASONS; j++) {
			stream->lost[i][j] += from->lost[i][j] - past->lost[i][j];
			past->lost[i][j] = from->lost[i][j];
		}
	stream->frames_dropped += from->frames_dropped;
	from->frames_dropped = 0;
}

/* What it gave up is beyond what was passed over, which is then in that gap, too. */
static void take_passed_over(struct past *past, uint32_t i)
{
	struct stream *stream = past->stream, *from = past->from;
	struct past_ring *ring = &past->ring[i];

	if (from->ring[i].unknown || from->ring[i].seen <= ring->place || from->ring[i].seen <= ring->end)
		return;
	stream->lost[LOSS_STAGE_HISTORY][LOSS_REASON_HISTORY_GONE] += ring->passed_over;
	stream->ring[i].gap = true;
	ring->passed_over = 0;
}

/* What it had to tell, the stream tells: all that was taken before is sent. */
static void take_gaps(struct past *past)
{
	struct stream *stream = past->stream, *from = past->from;

	begin_rings(past);
	take_losses(past);
	for (uint32_t i = 0; i < rings_of(past); i++) {
		struct stream_ring *ring = &stream->ring[i], *other = &from->ring[i];

		take_passed_over(past, i);
		ring->gap |= other->gap;
		ring->gap_events += other->gap_events;
		ring->mixed |= other->mixed;
		ring->gone = other->gone;
		other->mixed = false;
		other->gap = false;
		other->gap_events = 0;
		other->told = other->seen;
		if (!other->unknown)
			ring->seen = past->ring[i].place = other->seen;
	}
	stream->missed |= from->missed;
	stream->missing_reason = from->missing_reason;
	stream->drop_reason = from->drop_reason;
	if (stream->last_time_ns < from->last_time_ns)
		stream->last_time_ns = from->last_time_ns;
	stream->gaps = true;
	from->missed = 0;
	from->gaps = false;
}

static bool take(struct past *past)
{
	struct frame_ref *frame = past->taken ? past->taken : stream_take(past->from);

	if (!frame || past->taken)
		return frame;
	past->taken = frame;
	begin_rings(past);
	if (frame->type == FRAME_SERVER_HELLO)
		past->earlier = frame != past->from->subscription->spool.hello;
	if (!frame_ref_is_range(frame))
		return true;
	past->filtered += frame->skipped;
	for (uint32_t i = 0; i < frame->losses; i++)
		past->lost[frame->loss[i].stage][frame->loss[i].reason] += frame->loss[i].count;
	return true;
}

/*
 * A record that has not all that is wanted is good up to where the subscription's own begins. What it would
 * say of later attempts, that they were not wanted, is true of itself alone.
 */
static uint64_t end_of_record(const struct past *past, const struct frame_ref *frame)
{
	return !frame_ref_is_earlier(frame) && frame_ref_attempts(frame) ?
		       past->ring[frame->ring].end : UINT64_MAX;
}

static void pass_over(struct past *past, const struct frame_ref *frame)
{
	struct past_ring *ring = &past->ring[frame->ring];

	ring->passed_over += frame->end_seq -
			     (frame->first_seq > ring->end ? frame->first_seq : ring->end);
	if (ring->place < ring->end)
		ring->place = ring->end;
}

/* It names places beyond what is told of a partial record: they are told anew behind the seam. */
static bool is_beyond(const struct past *past)
{
	for (uint32_t i = 0; i < rings_of(past); i++)
		if (!past->from->ring[i].unknown && past->from->ring[i].seen > past->ring[i].end)
			return true;
	return false;
}

static bool make_range(struct past *past, struct frame_ref *frame)
{
	uint64_t end = end_of_record(past, frame);
	struct frame_ref *made;

	if (frame->first_seq >= end) {
		pass_over(past, frame);
		return true;
	}
	made = rebatch_frame(past->rebatch, frame, 0, end);
	if (!made)
		return false;
	if (frame->end_seq > end)
		pass_over(past, frame);
	past->budget -= (int64_t)(frame->raw_bytes > frame->bytes ? frame->raw_bytes :
								    frame->bytes);
	if (!frame_ref_is_earlier(frame) && past->ring[frame->ring].place < made->end_seq)
		past->ring[frame->ring].place = made->end_seq;
	push(past, made);
	return true;
}

/* What was not understood of an earlier run is not told of as if it had been looked at. */
static bool make_catalog(struct past *past, struct frame_ref *frame)
{
	if (!rebatch_learn(past->rebatch, frame))
		return false;
	if (rebatch_is_blind(past->rebatch) || (past->earlier && rebatch_hides_programs(past->rebatch)))
		stream_miss(past->stream, LOSS_REASON_NOT_RECORDED);
	push(past, frame_ref_get(frame));
	return true;
}

/* False: there is no memory for it yet. */
static bool make_ready(struct past *past)
{
	struct frame_ref *frame = past->taken;

	if (frame_ref_is_range(frame) && !make_range(past, frame))
		return false;
	if (frame->type == FRAME_CATALOG && !make_catalog(past, frame))
		return false;
	/* A Bye ends the other's log: ours has its own. */
	if (!frame_ref_is_range(frame) && frame->type != FRAME_CATALOG && frame->type != FRAME_BYE &&
	    !(frame->type == FRAME_WATERMARK && is_beyond(past)))
		push(past, frame_ref_get(frame));
	frame_ref_put(frame);
	past->taken = NULL;
	return true;
}

/* Our log has what comes next of every ring of this run, or had it and is the only one that did. */
static bool log_reaches(const struct past *past)
{
	const struct subscription *subscription = past->stream->subscription;
	const struct catch_up *catch_up = past->from->catch_up;

	/* Of what the disk gave, the way home from an earlier run goes before anything in the log. */
	if (catch_up && (!past->partial || past->earlier || catch_up_get(catch_up, 0)))
		return false;
	if (past->from->gaps)
		return false;
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (past->stream->ring[i].unknown ||
		    (subscription->floor[i] > past->ring[i].place &&
		     past->ring[i].end > past->ring[i].place))
			return false;
	return true;
}

/* What the log has given up meanwhile, which a partial record does not make good. */
static void miss_before_log(struct past *past, uint32_t i)
{
	struct stream *stream = past->stream;
	uint64_t floor = stream->subscription->floor[i];

	if (past->ring[i].place >= floor)
		return;
	stream->missing_reason = LOSS_REASON_HISTORY_GONE;
	stream->lost[LOSS_STAGE_HISTORY][stream->missing_reason] += floor - past->ring[i].place;
	stream->ring[i].seen = past->ring[i].place = floor;
	stream->ring[i].gap = stream->gaps = true;
}

static void go_home(struct past *past)
{
	struct stream *stream = past->stream;
	const struct subscription *subscription = stream->subscription;

	stream_destroy(past->from);
	past->from = NULL;
	stream->away = false;
	stream->next = frame_log_first(subscription->log);
	stream->joined = frame_log_end(subscription->log);
	for (uint32_t i = 0; i < subscription->rings; i++) {
		miss_before_log(past, i);
		past->ring[i].own = subscription->floor[i];
	}
}

static void read_other(struct past *past)
{
	bool any = true;

	while (any && has_room(past) && has_turn(past)) {
		if (past->from->gaps && !past->taken)
			break;
		any = !(past->partial && !past->taken && log_reaches(past)) && take(past);
		if (any && !make_ready(past)) {
			past->starved = true;
			return;
		}
	}
	if (past->first != past->end)
		return;
	begin_rings(past);
	if (past->from->gaps && !past->taken)
		take_gaps(past);
	else if (!any && log_reaches(past))
		go_home(past);
}

/* ---- Out of the log, at the seam --------------------------------------------------------------- */

/* Behind what came from the other's record, of every ring. */
static bool is_over_seam(const struct past *past)
{
	for (uint32_t i = 0; i < rings_of(past); i++)
		if (past->ring[i].own < past->ring[i].place)
			return false;
	return true;
}

/* What of it has not come. Skips that a watermark tells of may have: places are told anew behind the seam. */
static bool read_frame(struct past *past, struct frame_ref *frame)
{
	struct past_ring *ring = &past->ring[frame->ring];
	struct frame_ref *made;

	if (!frame_ref_is_range(frame))
		return true;
	if (frame->end_seq > ring->place) {
		made = frame->first_seq < ring->place ?
			       rebatch_frame(past->rebatch, frame, ring->place, UINT64_MAX) :
			       frame_ref_get(frame);
		if (!made)
			return false;
		push(past, made);
		ring->place = frame->end_seq;
	}
	ring->own = frame->end_seq;
	return true;
}

/* False: it is at the log's end, or at a Bye. */
static bool read_next(struct past *past)
{
	struct stream *stream = past->stream;
	const struct frame_log *log = stream->subscription->log;
	struct frame_ref *frame;

	if (stream->next >= frame_log_end(log))
		return false;
	frame = frame_log_get(log, stream->next);
	if (frame->type == FRAME_BYE)
		return false;
	past->starved = !read_frame(past, frame);
	stream->next += !past->starved;
	return !past->starved;
}

static bool is_ending(const struct past *past)
{
	const struct stream *stream = past->stream;

	return stream->subscription->ended &&
	       stream->next + 1 >= frame_log_end(stream->subscription->log);
}

static void finish(struct past *past)
{
	struct stream *stream = past->stream;

	stream->past = NULL;
	stream->gaps = true;
	if (stream->rate.bound)
		stream_set_rate(stream, stream->rate.events);
	past_destroy(past);
}

static void read_own(struct past *past)
{
	while (has_room(past) && !is_over_seam(past) && read_next(past))
		continue;
	if (past->first == past->end && (is_over_seam(past) || is_ending(past)))
		finish(past);
}

void past_go_on(struct stream *stream)
{
	struct past *past = stream->past;

	past->starved = false;
	if (past->from)
		read_other(past);
	if (!past->from && past->first == past->end && !stream->gaps)
		read_own(past);
}

bool past_has_work(const struct past *past)
{
	const struct stream *stream = past->stream;

	if (past->starved || past->waiting)
		return false;
	if (past->from)
		return past->taken || stream_has_work(past->from);
	return is_over_seam(past) || stream->next < frame_log_end(stream->subscription->log);
}

/* ---- The ledger ------------------------------------------------------------------------------ */

bool past_leave_out(struct past *past, const struct frame_ref *frame, struct frame_ref *part)
{
	struct past_ring *ring = &past->ring[frame->ring];
	bool any = !frame_ref_is_range(frame) || frame->end_seq > ring->place;

	rebatch_cut(frame, frame_ref_is_range(frame) ? ring->place : 0, UINT64_MAX, part);
	if (!frame_ref_is_range(frame))
		return true;
	if (any)
		ring->place = frame->end_seq;
	ring->own = frame->end_seq;
	return any;
}

uint64_t past_end(const struct past *past, uint32_t ring)
{
	uint64_t own = past->stream->subscription->position[ring];

	return own > past->ring[ring].place ? own : past->ring[ring].place;
}

static void stat_frame(const struct frame_ref *frame, struct stream_stat *stat)
{
	if (!frame)
		return;
	if (frame_ref_is_range(frame) && !frame_ref_is_earlier(frame))
		stat->in_flight += frame_ref_attempts(frame);
	stat->lag_bytes += frame->bytes;
}

void past_stat(const struct past *past, struct stream_stat *stat)
{
	const struct stream *stream = past->stream;

	for (uint32_t i = past->first; i != past->end; i++)
		stat_frame(past->ready[i % PAST_FRAMES_MAX], stat);
	stat_frame(stream->begun, stat);
	for (uint32_t i = 0; i < rings_of(past); i++)
		if (!stream->ring[i].unknown)
			stat->in_flight += past_end(past, i) - past->ring[i].place;
	if (past->taken && frame_ref_is_range(past->taken) && !frame_ref_is_earlier(past->taken))
		stat->lag_bytes += past->taken->bytes;
}
