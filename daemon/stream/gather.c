#include "daemon/stream/gather.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/stream/rebatch.h"

struct gather {
	struct stream *stream;
	struct rebatch *rebatch;
	struct batch_encoder *encoder;
	const uint64_t *interval_ns;

	uint64_t gathered_ns;		/* when it did so last; 0: never */
	bool rests;			/* it has had its turn */
	uint64_t looked;		/* the log was looked through up to this serial, */
	bool news;			/* and there is something in it that is not just skipped */

	struct frame_ref **ready;	/* first .. end - 1 */
	uint32_t first, end, capacity;
	uint64_t time_ns;		/* to be told behind them; 0: none */
	uint32_t at[];			/* by ring: where its frames go in `ready` */
};

int gather_begin(struct stream *stream, const Ringtail__V1__Catalog *catalog, const uint64_t *interval_ns)
{
	struct gather *gather = calloc(1, sizeof(*gather) + (stream->subscription->rings + 1) * sizeof(gather->at[0]));

	if (!gather)
		return -ENOMEM;
	gather->stream = stream;
	gather->interval_ns = interval_ns;
	gather->capacity = GATHER_FRAMES_MAX;
	gather->ready = calloc(gather->capacity, sizeof(struct frame_ref *));
	gather->encoder = batch_encoder_create(RT_PROBE_MAX);
	if (gather->encoder)
		gather->rebatch = rebatch_create(stream->subscription, catalog, stream->codec, gather->encoder);
	if (!gather->ready || !gather->rebatch) {
		gather_destroy(gather);
		return -ENOMEM;
	}
	stream->gather = gather;
	return 0;
}

void gather_destroy(struct gather *gather)
{
	if (!gather)
		return;
	gather_forget(gather);
	rebatch_destroy(gather->rebatch);
	batch_encoder_destroy(gather->encoder);
	free(gather->ready);
	free(gather);
}

/* ---- What is ready --------------------------------------------------------------------------- */

struct frame_ref *gather_get(const struct gather *gather, uint32_t i)
{
	return i < gather->end - gather->first ? gather->ready[gather->first + i] : NULL;
}

void gather_pass(struct gather *gather)
{
	frame_ref_put(gather->ready[gather->first++]);
}

bool gather_owes_time(const struct gather *gather, uint64_t *time_ns)
{
	*time_ns = gather->time_ns;
	return gather->time_ns && gather->first == gather->end;
}

void gather_told(struct gather *gather)
{
	gather->time_ns = 0;
}

void gather_forget(struct gather *gather)
{
	while (gather->first != gather->end)
		gather_pass(gather);
	gather->time_ns = 0;
}

void gather_stat(const struct gather *gather, struct stream_stat *stat)
{
	for (uint32_t i = gather->first; i != gather->end; i++) {
		stat->lag_bytes += gather->ready[i]->bytes;
		if (frame_ref_is_range(gather->ready[i]) && !frame_ref_is_earlier(gather->ready[i]))
			stat->in_flight += frame_ref_attempts(gather->ready[i]);
	}
}

/* ---- When ------------------------------------------------------------------------------------ */

/* What nobody waits for: time goes on, and attempts are skipped. */
static bool is_quiet(const struct frame_ref *frame)
{
	return frame->type == FRAME_WATERMARK || !frame->bytes;
}

static void look_for_news(struct gather *gather)
{
	const struct stream *stream = gather->stream;
	const struct frame_log *log = stream->subscription->log;

	if (gather->looked <= stream->next) {
		gather->looked = stream->next;
		gather->news = false;
	}
	for (; gather->looked < frame_log_end(log); gather->looked++)
		gather->news |= !is_quiet(frame_log_get(log, gather->looked));
}

/* What waits in the log must not be given up there: a half of what the stream may lag is enough. */
static bool is_full(const struct stream *stream)
{
	uint64_t bytes = frame_log_bytes_from(stream->subscription->log, stream->next);

	return bytes >= stream->lag_bytes_max / 2;
}

/* Off the disk it comes as fast as it can. */
static bool is_time(struct gather *gather)
{
	const struct stream *stream = gather->stream;
	uint64_t wait_ns = *gather->interval_ns;

	if (!stream_source(stream, 0))
		return false;
	if (stream->catch_up || stream->subscription->ended || is_full(stream))
		return true;
	look_for_news(gather);
	if (!gather->news && wait_ns && wait_ns < RELAY_QUIET_NS)
		wait_ns = RELAY_QUIET_NS;
	return !gather->gathered_ns || clock_monotonic() - gather->gathered_ns >= wait_ns;
}

bool gather_has_work(struct gather *gather)
{
	return gather->time_ns || is_time(gather);
}

/* ---- Joining --------------------------------------------------------------------------------- */

/* A batch of many events gains nothing: decoding and encoding it again costs more than a frame does. */
static bool is_small(const struct frame_ref *frame)
{
	return frame->type == FRAME_BATCH && frame->events < GATHER_EVENTS;
}

/* Up to where the frames that begin with that one may become one. */
static uint32_t end_of_group(const struct gather *gather, uint32_t first, uint32_t end)
{
	struct frame_ref *const *ready = gather->ready;
	uint64_t events = 0, raw_bytes = 0;
	uint32_t i = first;

	for (; i < end && ready[i]->ring == ready[first]->ring && is_small(ready[i]); i++) {
		events += ready[i]->events;
		raw_bytes += ready[i]->raw_bytes;
		if (i > first && (events > BATCH_EVENTS_MAX || raw_bytes > GATHER_RAW_BYTES ||
				  ready[i]->first_seq != ready[i - 1]->end_seq))
			break;
	}
	return i > first ? i : first + 1;
}

static bool is_worth_it(struct frame_ref *const *frame, uint32_t n)
{
	uint32_t sent = 0;

	for (uint32_t i = 0; i < n; i++)
		sent += frame[i]->bytes != 0;
	return n > 1 && sent;
}

/* Many in the order of their rings, in `ready`, become fewer. */
static void join_ready(struct gather *gather)
{
	uint32_t n = gather->end;

	gather->end = 0;
	for (uint32_t i = 0, end; i < n; i = end) {
		struct frame_ref *made = NULL;

		end = end_of_group(gather, i, n);
		if (is_worth_it(gather->ready + i, end - i))
			made = rebatch_join(gather->rebatch, gather->ready + i, end - i);
		gather->rests |= made != NULL;
		for (uint32_t k = i; k < end; k++) {
			if (made)
				frame_ref_put(gather->ready[k]);
			else
				gather->ready[gather->end++] = gather->ready[k];
		}
		if (made)
			gather->ready[gather->end++] = made;
	}
}

/* ---- Gathering ------------------------------------------------------------------------------- */

/*
 * What is of another run, an end, and a Gap of no size stay where they are among the others. Such a Gap stands between
 * two runs, before the frames of every ring.
 */
static bool can_move(const struct frame_ref *frame)
{
	if (frame->type == FRAME_GAP && frame->first_seq == frame->end_seq)
		return false;
	return (frame_ref_is_range(frame) || frame->type == FRAME_WATERMARK) && !frame_ref_is_earlier(frame);
}

/* So many of those that are next, in one turn. */
static uint32_t count_next(const struct stream *stream)
{
	const struct frame_ref *frame;
	uint64_t bytes = 0;
	uint32_t n = 0;

	while (n < GATHER_FRAMES_MAX && bytes < GATHER_BYTES && (frame = stream_source(stream, n)) && can_move(frame)) {
		bytes += frame->bytes;
		n++;
	}
	return n;
}

static void take_alone(struct gather *gather)
{
	gather->ready[gather->end++] = frame_ref_get(stream_source(gather->stream, 0));
	stream_source_pass(gather->stream);
}

static void put_at(struct gather *gather, uint32_t n)
{
	uint32_t rings = gather->stream->subscription->rings, at = 0;

	memset(gather->at, 0, (rings + 1) * sizeof(gather->at[0]));
	for (uint32_t i = 0; i < n; i++) {
		const struct frame_ref *frame = stream_source(gather->stream, i);

		gather->at[frame->ring] += frame_ref_is_range(frame);
	}
	for (uint32_t i = 0; i < rings; i++) {
		uint32_t of_ring = gather->at[i];

		gather->at[i] = at;
		at += of_ring;
	}
}

static void take_by_ring(struct gather *gather, uint32_t n)
{
	put_at(gather, n);
	while (n--) {
		struct frame_ref *frame = stream_source(gather->stream, 0);

		if (frame_ref_is_range(frame)) {
			gather->ready[gather->at[frame->ring]++] = frame_ref_get(frame);
			gather->end++;
		} else if (gather->time_ns < frame->time_ns) {
			gather->time_ns = frame->time_ns;
		}
		stream_source_pass(gather->stream);
	}
}

void gather_go_on(struct gather *gather)
{
	struct stream *stream = gather->stream;
	uint32_t n;

	/* A turn has ended when what it gave was told of, and nothing was asked for more. */
	if (gather->rests) {
		gather->rests = gather->time_ns;
		return;
	}
	if (!is_time(gather))
		return;
	n = count_next(stream);
	/* What was told before it comes first. */
	if (!n && gather->time_ns)
		return;
	gather->first = gather->end = 0;
	if (n)
		take_by_ring(gather, n);
	else
		take_alone(gather);
	join_ready(gather);
	/* What is too much for one turn does not wait for the next time. */
	if (!stream_source(stream, 0))
		gather->gathered_ns = clock_monotonic();
}
