#include "daemon/stream/stream.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/catch_up.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/gather.h"
#include "daemon/stream/past.h"
#include "daemon/base/clock.h"
#include "daemon/base/counters.h"

/* ---- Beginning ------------------------------------------------------------------------------- */

/*
 * Where to begin for a cursor: at the oldest entry that holds anything not seen. An entry that holds
 * both goes out whole; the client knows what it has.
 */
static void rewind_to(struct stream *stream, const struct cursor *since)
{
	const struct subscription *subscription = stream->subscription;

	stream->next = frame_log_first(subscription->log);
	stream->resumed = true;
	for (uint32_t i = 0; i < subscription->rings; i++) {
		struct stream_ring *ring = &stream->ring[i];
		uint64_t floor = subscription->floor[i];
		uint64_t from = cursor_seq(since, stream->cpu_of[i], floor);

		ring->start = ring->seen = ring->told = floor;
		if (from >= floor)
			continue;
		ring->start = ring->told = from;
		ring->gap = true;
		stream->lost[LOSS_STAGE_HISTORY][stream->missing_reason] += floor - from;
		stream->gaps = true;
		stream->resumed = false;
	}
}

/* Passes over the entries at the front that the client has seen whole. */
static void skip_seen(struct stream *stream, const struct cursor *since)
{
	const struct frame_log *log = stream->subscription->log;

	for (; stream->next < frame_log_end(log); stream->next++) {
		const struct frame_ref *frame = frame_log_get(log, stream->next);
		struct stream_ring *ring = &stream->ring[frame->ring];

		if (!frame_ref_is_range(frame))
			continue;
		if (frame->end_seq > cursor_seq(since, stream->cpu_of[frame->ring], UINT64_MAX))
			break;
		ring->start = ring->seen = ring->told = frame->end_seq;
	}
}

struct stream *stream_create(struct subscription *subscription, struct frame_codec *codec,
			     const uint32_t *cpu_of, uint64_t lag_bytes_max,
			     const struct cursor *since, enum loss_reason missing_reason)
{
	struct stream *stream =
		calloc(1, sizeof(*stream) + subscription->rings * sizeof(stream->ring[0]));

	if (!stream)
		return NULL;
	stream->subscription = subscription;
	stream->codec = codec;
	stream->cpu_of = cpu_of;
	stream->lag_bytes_max = lag_bytes_max;
	stream->missing_reason = missing_reason;
	stream->joined = frame_log_end(subscription->log);
	if (since) {
		rewind_to(stream, since);
		skip_seen(stream, since);
	} else {
		stream->next = stream->joined;
		for (uint32_t i = 0; i < subscription->rings; i++)
			stream->ring[i].start = stream->ring[i].seen = stream->ring[i].told =
				subscription->position[i];
		if (missing_reason != LOSS_REASON_UNKNOWN)
			stream_doubt(stream, missing_reason);
	}
	/* Where all is over, who comes late is at least told so. */
	if (subscription->ended && stream->next == stream->joined)
		stream->next--;
	TAILQ_INSERT_TAIL(&subscription->streams, stream, link);
	return stream;
}

void stream_doubt(struct stream *stream, enum loss_reason reason)
{
	stream->missing_reason = reason;
	stream->resumed = false;
	stream->gaps = true;
	for (uint32_t i = 0; i < stream->subscription->rings; i++)
		stream->ring[i].gap = true;
}

void stream_miss(struct stream *stream, enum loss_reason reason)
{
	stream->missed |= 1u << reason;
	stream->resumed = false;
	stream->gaps = true;
}

void stream_destroy(struct stream *stream)
{
	if (!stream)
		return;
	TAILQ_REMOVE(&stream->subscription->streams, stream, link);
	catch_up_destroy(stream->catch_up);
	gather_destroy(stream->gather);
	past_destroy(stream->past);
	frame_ref_put(stream->begun);
	free(stream);
}

/* ---- The ledger ------------------------------------------------------------------------------ */

static void count_losses(struct stream *stream, const struct frame_ref *frame)
{
	for (uint32_t i = 0; i < frame->losses; i++)
		stream->lost[frame->loss[i].stage][frame->loss[i].reason] += frame->loss[i].count;
}

static void note_time(struct stream *stream, uint64_t time_ns)
{
	if (stream->last_time_ns < time_ns)
		stream->last_time_ns = time_ns;
}

/* Another boot has another clock. */
static void enter_run(struct stream *stream, const struct run *run)
{
	if (memcmp(stream->run.boot_id, run->boot_id, sizeof(run->boot_id)) != 0)
		stream->last_time_ns = 0;
	stream->run = *run;
}

/* The client has it. */
static void account_sent(struct stream *stream, const struct frame_ref *frame)
{
	stream->rate.credit -= (double)frame->events;
	if (frame_ref_is_range(frame) && frame_ref_is_earlier(frame)) {
		stream->foreign += frame_ref_attempts(frame);
		stream->delivered += frame->events;
		stream->filtered += frame->skipped;
		count_losses(stream, frame);
		if (stream->consumer)
			consumer_note_sent(stream->consumer, &stream->run, frame->cpu,
					   frame->end_seq);
	} else if (frame_ref_is_range(frame)) {
		struct stream_ring *ring = &stream->ring[frame->ring];

		stream->delivered += frame->events;
		stream->filtered += frame->skipped;
		count_losses(stream, frame);
		/* A frame sent in parts ends after later ones may have been dropped. */
		if (ring->seen < frame->end_seq)
			ring->seen = frame->end_seq;
		if (frame->bytes && ring->told < frame->end_seq)
			ring->told = frame->end_seq;
	} else if (frame->type == FRAME_WATERMARK) {
		note_time(stream, frame->time_ns);
		for (uint32_t i = 0; i < stream->subscription->rings; i++)
			stream->ring[i].told = stream->ring[i].seen;
	} else if (frame->type == FRAME_SERVER_HELLO) {
		enter_run(stream, &frame->run);
	}
}

/* The client will not get it. */
static void account_dropped(struct stream *stream, const struct frame_ref *frame, enum loss_reason reason)
{
	if (frame_ref_is_range(frame)) {
		struct stream_ring *ring = &stream->ring[frame->ring];
		uint64_t events = frame->events + frame_ref_losses(frame);

		/* What was missing before is a Gap by itself: its reason is another, and its number unknown. */
		if (events && ring->gap && !ring->gap_events) {
			ring->mixed = true;
			ring->gone = ring->seen;
		}
		stream->filtered += frame->skipped;
		stream->lost[LOSS_STAGE_QUEUE][reason] += frame->events;
		stream->drop_reason = reason;
		count_losses(stream, frame);
		ring->seen = frame->end_seq;
		ring->gap_events += events;
		ring->gap |= events != 0;
		/* It was not too slow, but had its share. */
		if (frame->bytes && reason != LOSS_REASON_RATE_LIMIT) {
			stream->frames_dropped++;
			counter_add(COUNTER_frames_dropped, 1);
			counter_add(COUNTER_events_dropped, frame->events);
		}
	} else if (frame->type == FRAME_WATERMARK) {
		note_time(stream, frame->time_ns);
	}
	stream->gaps = true;
}

/* What was gathered was before it, and so it goes first. */
static void drop_gathered(struct stream *stream, enum loss_reason reason)
{
	const struct frame_ref *frame;
	uint64_t time_ns;

	while ((frame = gather_get(stream->gather, 0))) {
		account_dropped(stream, frame, reason);
		gather_pass(stream->gather);
	}
	if (gather_owes_time(stream->gather, &time_ns))
		note_time(stream, time_ns);
	gather_forget(stream->gather);
}

static void drop_next(struct stream *stream, enum loss_reason reason)
{
	const struct frame_ref *frame = frame_log_get(stream->subscription->log, stream->next);
	struct frame_ref part;

	if (stream->gather)
		drop_gathered(stream, reason);
	if (!stream->past || past_leave_out(stream->past, frame, &part))
		account_dropped(stream, stream->past ? &part : frame, reason);
	stream->next++;
}

/* A durable consumer's frames are on disk, and so it need not lose what memory cannot keep. */
static bool falls_back(struct stream *stream)
{
	bool back = (stream->consumer || stream->patient) && !stream->past &&
		    stream->subscription->spool.spool && !stream->gaps &&
		    catch_up_begin(stream, NULL) == 0;

	if (back && stream->gather)
		gather_forget(stream->gather);
	return back;
}

/* What it came back for is no lag: only history bounds that. */
static uint64_t lag_bytes(const struct stream *stream)
{
	uint64_t from = stream->next > stream->joined ? stream->next : stream->joined;

	return frame_log_bytes_from(stream->subscription->log, from);
}

void stream_on_append(struct stream *stream)
{
	const struct frame_log *log = stream->subscription->log;

	if (!stream_in_log(stream) || lag_bytes(stream) <= stream->lag_bytes_max || falls_back(stream))
		return;
	/* Down to half, so that a slow client sees a few long gaps and not many short ones. */
	while (frame_log_end(log) - stream->next > 1 &&
	       lag_bytes(stream) > stream->lag_bytes_max / 2)
		drop_next(stream, LOSS_REASON_QUEUE_FULL);
}

void stream_on_evict(struct stream *stream, uint64_t serial, const struct frame_ref *frame,
		     enum loss_reason reason)
{
	(void)frame;
	if (stream_in_log(stream) && stream->next == serial && !falls_back(stream))
		drop_next(stream, reason);
}

uint64_t stream_place(const struct stream *stream, uint32_t ring)
{
	const struct frame_ref *begun = stream->begun;

	return begun && frame_ref_is_range(begun) && begun->ring == ring ? begun->end_seq :
								 stream->ring[ring].seen;
}

struct cursor *stream_told(const struct stream *stream)
{
	struct cursor *told = cursor_create(stream->subscription->rings);

	for (uint32_t i = 0; told && i < stream->subscription->rings; i++)
		if (!stream->ring[i].unknown)
			cursor_append(told, stream->cpu_of[i], stream->ring[i].told);
	return told;
}

void stream_note_sent(const struct stream *stream, const struct run *run)
{
	for (uint32_t i = 0; stream->consumer && i < stream->subscription->rings; i++)
		if (!stream->ring[i].unknown)
			consumer_note_sent(stream->consumer, run, stream->cpu_of[i],
					   stream->ring[i].seen);
}

/* Out of the spool: what has not been sent of each ring whose start is known. */
static void stat_catch_up(const struct stream *stream, struct stream_stat *stat)
{
	const struct subscription *subscription = stream->subscription;

	for (uint32_t i = 0; i < subscription->rings; i++)
		if (!stream->ring[i].unknown)
			stat->in_flight += subscription->position[i] - stream->ring[i].seen;
	stat->lag_bytes = stream->begun ? stream->begun->bytes : 0;
}

static void stat_log(const struct stream *stream, struct stream_stat *stat)
{
	const struct frame_log *log = stream->subscription->log;

	stat->in_flight = frame_log_attempts_from(log, stream->next);
	stat->lag_bytes = frame_log_bytes_from(log, stream->next);
	if (stream->begun && !frame_ref_is_earlier(stream->begun))
		stat->in_flight += frame_ref_attempts(stream->begun);
	if (stream->begun)
		stat->lag_bytes += stream->begun->bytes;
	if (stream->gather)
		gather_stat(stream->gather, stat);
}

void stream_stat(const struct stream *stream, struct stream_stat *stat)
{
	const struct subscription *subscription = stream->subscription;
	uint64_t lost = 0;

	*stat = (struct stream_stat){.produced = stream->foreign};
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (!stream->ring[i].unknown)
			stat->produced += (stream->past ? past_end(stream->past, i) :
							  subscription->position[i]) -
					  stream->ring[i].start;
	for (unsigned i = 0; i < LOSS_STAGES; i++)
		for (unsigned j = 0; j < LOSS_REASONS; j++)
			lost += stream->lost[i][j];
	if (stream->past)
		past_stat(stream->past, stat);
	else if (stream->catch_up)
		stat_catch_up(stream, stat);
	else
		stat_log(stream, stat);
	stat->residual = (int64_t)(stat->produced - stream->delivered - stream->filtered - lost -
				   stat->in_flight);
}

/* ---- Sending --------------------------------------------------------------------------------- */

static bool tell_gap(struct stream *stream, uint32_t i, stream_tell *tell, void *context)
{
	struct stream_ring *ring = &stream->ring[i];
	bool is_gone = ring->mixed || !ring->gap_events;
	uint64_t end_seq = ring->mixed ? ring->gone : ring->seen;
	struct frame_ref *frame = frame_ref_gap(stream->codec, stream->cpu_of[i], ring->told, end_seq,
						is_gone ? LOSS_STAGE_HISTORY : LOSS_STAGE_QUEUE,
						is_gone ? stream->missing_reason : stream->drop_reason,
						is_gone ? 0 : ring->gap_events);

	if (!frame)
		return false;
	tell(context, frame);
	ring->told = end_seq;
	ring->gap = ring->mixed;
	ring->gap_events = ring->mixed ? ring->gap_events : 0;
	ring->mixed = false;
	return true;
}

/* Told of the first ring alone: of all of them nobody knows how much it was. */
static bool tell_missed(struct stream *stream, stream_tell *tell, void *context)
{
	uint64_t seq = stream->ring[0].told;

	for (enum loss_reason reason = 0; stream->missed; reason++) {
		struct frame_ref *frame;

		if (!(stream->missed & 1u << reason))
			continue;
		frame = frame_ref_gap(stream->codec, stream->cpu_of[0], seq, seq, LOSS_STAGE_HISTORY, reason, 0);
		if (!frame)
			return false;
		tell(context, frame);
		stream->missed &= ~(1u << reason);
	}
	return true;
}

/*
 * Up to where a client may be told that a ring has come. Of what was read of the log up to a seam some may wait still,
 * though the log has given up what is behind it: that is told behind what waits.
 */
static uint64_t place_to_tell(const struct stream *stream, uint32_t i)
{
	const struct stream_ring *ring = &stream->ring[i];
	const struct frame_ref *frame;

	if (stream->past && ring->gap)
		return ring->told;
	for (uint32_t k = 0; stream->past && (frame = past_get(stream->past, k)); k++)
		if (frame_ref_is_range(frame) && frame->ring == i && frame->first_seq < ring->seen)
			return frame->first_seq > ring->told ? frame->first_seq : ring->told;
	return ring->seen;
}

/* After the gaps, where every ring is now: skips among what was dropped need no gap, but a place. */
static bool tell_places(struct stream *stream, stream_tell *tell, void *context)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	struct cursor *told = stream_told(stream);
	struct cursor_message *message = told ? cursor_message_create(told) : NULL;
	struct frame_ref *frame = NULL;

	free(told);
	if (!message)
		return false;
	watermark.time_ns = stream->last_time_ns;
	watermark.position = message->list;
	for (uint32_t i = 0; i < stream->subscription->rings; i++) {
		Ringtail__V1__Position *at = &message->position[watermark.n_position];

		if (stream->ring[i].unknown)
			continue;
		at->seq = place_to_tell(stream, i);
		at->skipped = at->seq - stream->ring[i].told;
		watermark.n_position++;
	}
	frame = frame_ref_pack(stream->codec, FRAME_WATERMARK, &watermark.base);
	free(message);
	if (!frame)
		return false;
	for (uint32_t i = 0; i < stream->subscription->rings; i++)
		stream->ring[i].told = place_to_tell(stream, i);
	tell(context, frame);
	return true;
}

/* Something was skipped that the client does not know of. */
static bool owes_places(const struct stream *stream)
{
	for (uint32_t i = 0; i < stream->subscription->rings; i++)
		if (stream->ring[i].told < place_to_tell(stream, i))
			return true;
	return false;
}

void stream_owe_places(struct stream *stream)
{
	stream->gaps |= owes_places(stream);
}

/* Where memory is short, what is left to tell is told later, before anything else. */
static void tell_gaps(struct stream *stream, stream_tell *tell, void *context)
{
	assert(!stream->begun);
	if (!tell_missed(stream, tell, context))
		return;
	for (uint32_t i = 0; i < stream->subscription->rings; i++)
		while (stream->ring[i].gap)
			if (!tell_gap(stream, i, tell, context))
				return;
	stream->gaps = !tell_places(stream, tell, context);
}

/* ---- The rate -------------------------------------------------------------------------------- */

void stream_set_rate(struct stream *stream, uint64_t events)
{
	stream->rate = (struct stream_rate){.bound = true, .events = events,
					    .credit = (double)events,
					    .since_ns = clock_monotonic(),
					    .dropped = stream->rate.dropped};
}

/* Whether it has had its share. A durable consumer takes what is on the disk as fast as it can. */
static bool is_over_rate(struct stream *stream)
{
	struct stream_rate *rate = &stream->rate;
	double most = (double)rate->events;
	uint64_t now_ns;

	if (!rate->events || stream->consumer || stream->catch_up || stream->past)
		return false;
	now_ns = clock_monotonic();
	rate->credit += (double)(now_ns - rate->since_ns) / NS_PER_S * most;
	rate->since_ns = now_ns;
	if (rate->credit > most)
		rate->credit = most;
	if (rate->credit <= 0)
		rate->over = true;
	else if (rate->credit >= most / 4)
		rate->over = false;
	return rate->over;
}

/* Of what waits, all but a Bye, and what tells of no events. It is told when the time is over. */
static void drop_over_rate(struct stream *stream)
{
	const struct frame_log *log = stream->subscription->log;

	stream->rate.dropped |= stream->gaps;
	stream->gaps = false;
	while (stream->next < frame_log_end(log)) {
		const struct frame_ref *frame = frame_log_get(log, stream->next);

		if (frame->type == FRAME_BYE) {
			stream->gaps = stream->rate.dropped;
			stream->rate.dropped = false;
			return;
		}
		if (frame_ref_is_range(frame))
			counter_add(COUNTER_events_over_rate, frame->events);
		drop_next(stream, LOSS_REASON_RATE_LIMIT);
		stream->rate.dropped = true;
		stream->gaps = false;
	}
}

struct frame_ref *stream_source(const struct stream *stream, unsigned i)
{
	const struct frame_log *log = stream->subscription->log;

	if (stream->catch_up)
		return catch_up_get(stream->catch_up, i);
	return stream->next + i < frame_log_end(log) ? frame_log_get(log, stream->next + i) : NULL;
}

void stream_source_pass(struct stream *stream)
{
	if (stream->catch_up)
		catch_up_pass(stream->catch_up);
	else
		stream->next++;
}

/* The frame that is i-th in turn. */
static struct frame_ref *look(const struct stream *stream, unsigned i)
{
	if (stream->past)
		return past_get(stream->past, i);
	return stream->gather ? gather_get(stream->gather, i) : stream_source(stream, i);
}

static void pass(struct stream *stream)
{
	if (stream->past)
		past_pass(stream->past);
	else if (stream->gather)
		gather_pass(stream->gather);
	else
		stream_source_pass(stream);
}

/* Nothing is left to give: what gives it is asked for more. */
static void go_on(struct stream *stream)
{
	if (stream->past && !look(stream, 0))
		past_go_on(stream);
	if (stream->past || look(stream, 0))
		return;
	if (stream->catch_up && !stream_source(stream, 0))
		catch_up_go_on(stream);
	if (stream->gather)
		gather_go_on(stream->gather);
}

/* What is ready was before what is missing. */
static bool must_tell(const struct stream *stream)
{
	return stream->gaps && !(stream->past && look(stream, 0));
}

/* Where nothing is left to give: what the watermarks said that were gathered. False: nothing, or not now. */
static bool tell_time(struct stream *stream, stream_tell *tell, void *context)
{
	uint64_t time_ns;

	if (stream->past || !stream->gather || stream->begun || !gather_owes_time(stream->gather, &time_ns))
		return false;
	note_time(stream, time_ns);
	if (!tell_places(stream, tell, context))
		return false;
	gather_told(stream->gather);
	return true;
}

/*
 * Where the disk, or another's record, leaves off in the log, that may have a watermark older than one that the
 * client was told: it takes nothing back. Places that it alone would have told are told anew.
 */
static bool is_old(const struct frame_ref *frame, uint64_t *time_ns)
{
	if (frame->type != FRAME_WATERMARK)
		return false;
	if (frame->time_ns < *time_ns)
		return true;
	*time_ns = frame->time_ns;
	return false;
}

/* What was skipped, now; or, for want of memory, before anything else. False: not now. */
static bool tell_skipped(struct stream *stream, stream_tell *tell, void *context)
{
	if (stream->begun)
		return false;
	stream->gaps |= !tell_places(stream, tell, context);
	return !stream->gaps;
}

/* False: it told, or has to, and no frame may come now. */
static bool pass_old(struct stream *stream, stream_tell *tell, void *context)
{
	bool owes = owes_places(stream);

	if (owes && !tell_skipped(stream, tell, context))
		return false;
	pass(stream);
	return !owes;
}

/*
 * At the seam of another's record watermarks are passed over: what was skipped before a frame of its ring is told
 * before that. A gap that is to be told says it itself.
 */
static bool is_behind_skips(const struct stream *stream, const struct frame_ref *frame)
{
	if (!frame->bytes || !frame_ref_is_range(frame) || frame_ref_is_earlier(frame))
		return false;
	return stream->ring[frame->ring].told < place_to_tell(stream, frame->ring);
}

unsigned stream_peek(struct stream *stream, struct frame_ref **frame, unsigned n,
		     stream_tell *tell, void *context)
{
	struct frame_ref *next;
	uint64_t time_ns = stream->last_time_ns;
	unsigned peeked = 0;

	if (is_over_rate(stream)) {
		drop_over_rate(stream);
	} else if (stream->rate.dropped) {
		stream->gaps = true;
		stream->rate.dropped = false;
	}
	while (peeked < n) {
		if (peeked == 0 && !must_tell(stream))
			go_on(stream);
		if (peeked == 0 && must_tell(stream)) {
			if (!stream->begun)
				tell_gaps(stream, tell, context);
			return 0;
		}
		next = look(stream, peeked);
		if (!next && !peeked)
			tell_time(stream, tell, context);
		if (!next)
			break;
		if (is_old(next, &time_ns)) {
			if (peeked)
				break;
			if (!pass_old(stream, tell, context))
				return 0;
			continue;
		}
		if (is_behind_skips(stream, next)) {
			if (!peeked)
				tell_skipped(stream, tell, context);
			break;
		}
		/* A range of skips has no bytes; at the front it is done with at once. */
		if (next->bytes)
			frame[peeked++] = next;
		else if (peeked == 0)
			account_sent(stream, next), pass(stream);
		else
			break;
	}
	return peeked;
}

void stream_sent(struct stream *stream)
{
	account_sent(stream, look(stream, 0));
	pass(stream);
}

void stream_begin(struct stream *stream)
{
	stream->begun = frame_ref_get(look(stream, 0));
	pass(stream);
	/* A watermark tells where the rings are now, not where they will be when it has gone out. */
	if (stream->begun->type == FRAME_WATERMARK)
		account_sent(stream, stream->begun);
}

void stream_ended(struct stream *stream)
{
	if (stream->begun->type != FRAME_WATERMARK)
		account_sent(stream, stream->begun);
	frame_ref_put(stream->begun);
	stream->begun = NULL;
}

bool stream_has_work(const struct stream *stream)
{
	return stream->gaps || stream->begun || look(stream, 0) ||
	       (stream->past && past_has_work(stream->past)) ||
	       (stream->gather && gather_has_work(stream->gather));
}

struct frame_ref *stream_take(struct stream *stream)
{
	struct frame_ref *frame;

	go_on(stream);
	frame = look(stream, 0);
	if (!frame)
		return NULL;
	frame_ref_get(frame);
	account_sent(stream, frame);
	pass(stream);
	return frame;
}
