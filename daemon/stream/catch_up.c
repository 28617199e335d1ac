/*
 * catch_up: see catch_up.h. This file: from the log to the spool, and from there to the log again.
 * catch_up_take.c: what comes meanwhile.
 */
#include "daemon/stream/catch_up.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/stream/catch_up_private.h"
#include "daemon/stream/frame_log.h"
#include "daemon/base/limits.h"

/* ---- From the log to the spool --------------------------------------------------------------- */

/* From where the stream is, or from a cursor of this run. */
static bool is_home(const struct stream *stream, const struct spool_place *start)
{
	return !start || (start->cursor &&
			  run_equal(&start->cursor->run, &stream->subscription->spool.run));
}

/* Where the stream is, as a cursor of this run; free() it. NULL: out of memory. */
static struct cursor *make_cursor(const struct catch_up *catch_up)
{
	uint32_t rings = catch_up_rings(catch_up);
	struct cursor *made = cursor_create(rings);

	if (!made)
		return NULL;
	made->run = catch_up->stream->subscription->spool.run;
	for (uint32_t i = 0; i < rings; i++)
		cursor_append(made, catch_up->stream->cpu_of[i], catch_up->ring[i].seq);
	return made;
}

/* A cursor of another run counts if that run comes. */
static int open_reader(struct catch_up *catch_up, const struct spool_place *start)
{
	bool home = is_home(catch_up->stream, start);
	struct cursor *cursor = home ? make_cursor(catch_up) :
				start->cursor ? cursor_copy(start->cursor) : NULL;
	struct spool_place place = {.cursor = cursor, .realtime_ns = home ? 0 : start->realtime_ns};
	int err;

	if (!cursor && (home || start->cursor))
		return -ENOMEM;
	err = spool_reader_create(catch_up->stream->subscription->spool.spool, &place, catch_up_on_frames,
				  catch_up, &catch_up->reader);
	if (!home && !err)
		catch_up->cursor = cursor;
	else
		free(cursor);
	return err;
}

static void set_ring(struct catch_up *catch_up, uint32_t i, const struct spool_place *start)
{
	struct stream *stream = catch_up->stream;
	struct stream_ring *ring = &stream->ring[i];

	uint64_t end = stream->subscription->position[i];
	uint64_t seq = !start ? stream_place(stream, i) :
		       is_home(stream, start) ? cursor_seq(start->cursor, stream->cpu_of[i], end) :
						SINCE_BEGIN;

	if (start && seq == SINCE_BEGIN) {
		*ring = (struct stream_ring){.unknown = true};
		return;
	}
	if (start) {
		seq = seq < end ? seq : end;
		ring->start = ring->seen = ring->told = seq;
	}
	catch_up->ring[i] = (struct catch_up_ring){.seq = seq, .known = !ring->unknown};
}

int catch_up_begin(struct stream *stream, const struct spool_place *start)
{
	uint32_t rings = stream->subscription->rings;
	struct catch_up *catch_up =
		calloc(1, sizeof(*catch_up) + rings * sizeof(catch_up->ring[0]));
	int err;

	if (!catch_up)
		return -ENOMEM;
	catch_up->stream = stream;
	for (uint32_t i = 0; i < rings; i++)
		set_ring(catch_up, i, start);
	err = open_reader(catch_up, start);
	if (err) {
		catch_up_destroy(catch_up);
		return err;
	}
	stream->catch_up = catch_up;
	return 0;
}

void catch_up_destroy(struct catch_up *catch_up)
{
	if (!catch_up)
		return;
	for (unsigned i = 0; i < catch_up->answered; i++)
		frame_ref_put(catch_up->answer[i]);
	spool_reader_destroy(catch_up->reader);
	while (catch_up->first != catch_up->end)
		catch_up_pass(catch_up);
	free(catch_up->queue);
	free(catch_up->cursor);
	free(catch_up);
}

/* ---- From the spool to the log --------------------------------------------------------------- */

/*
 * By ring there is one number, its place: all before it has come, be it off the disk or out of the log.
 * What the disk gave need not come in the log's order: it tells of skips with the watermark, and of what
 * it lost when it can write again. So the log takes over behind the last of its entries that ends at or
 * before its ring's place. What is before that and has not come is taken out of the log first; behind it
 * nothing has come.
 *
 * False: a ring is not known yet, and the disk has not come to what the log has.
 */
static bool find_change_over(const struct catch_up *catch_up, uint64_t *serial)
{
	const struct frame_log *log = catch_up->stream->subscription->log;
	bool found = true;

	for (uint32_t i = 0; i < catch_up_rings(catch_up); i++)
		found &= catch_up->ring[i].known;
	*serial = frame_log_first(log);
	for (uint64_t at = *serial; at < frame_log_end(log); at++) {
		const struct frame_ref *frame = frame_log_get(log, at);
		const struct catch_up_ring *ring = &catch_up->ring[frame->ring];

		if (!frame_ref_is_range(frame) || !ring->known || frame->end_seq > ring->seq)
			continue;
		*serial = at + 1;
		found = true;
	}
	return found;
}

/* The disk has no more and gets no more: what is between it and the log is lost. */
static bool is_stranded(const struct catch_up *catch_up)
{
	struct spool_stat stat;

	if (catch_up->asked || !catch_up->at_end)
		return false;
	spool_stat(catch_up->stream->subscription->spool.spool, &stat);
	return stat.in_flight == 0 && stat.stored == catch_up->stored;
}

/*
 * The log has what comes next of every ring that is known. What it has not is a gap, where it will not
 * come off the disk either, or was dropped for want of memory.
 */
static bool log_reaches(struct catch_up *catch_up, bool stranded)
{
	const struct subscription *subscription = catch_up->stream->subscription;

	for (uint32_t i = 0; i < subscription->rings; i++) {
		const struct catch_up_ring *ring = &catch_up->ring[i];

		if (ring->known && ring->seq < subscription->floor[i] &&
		    !((stranded || ring->starved) &&
		      catch_up_push_gap(catch_up, i, subscription->floor[i])))
			return false;
	}
	return true;
}

/*
 * What has not come, of the log's entries before that one; with the watermarks, that tell of skips.
 * Rings of which nothing came begin behind it, unless the disk will not have them.
 */
static void take_up_to(struct catch_up *catch_up, uint64_t serial, bool stranded)
{
	const struct frame_log *log = catch_up->stream->subscription->log;
	bool any = false;

	for (uint64_t at = frame_log_first(log); at < serial; at++) {
		struct frame_ref *frame = frame_log_get(log, at);
		const struct catch_up_ring *ring = &catch_up->ring[frame->ring];

		if (frame_ref_is_range(frame))
			any |= ring->known ? frame->end_seq > ring->seq : stranded;
		if (any && (ring->known || stranded || !frame_ref_is_range(frame)) &&
		    !catch_up_take(catch_up, frame_ref_get(frame)))
			frame_ref_put(frame);
	}
}

static void ask(struct catch_up *catch_up)
{
	struct spool_stat stat;

	spool_stat(catch_up->stream->subscription->spool.spool, &stat);
	catch_up->stored = stat.stored;
	catch_up->asked = true;
	spool_reader_next(catch_up->reader, CATCH_UP_BYTES);
}

/*
 * Rings of which nothing came begin with what the log has of them; so do those that stand beyond
 * it, as a cursor may: what the client has it gets again, and knows.
 */
static void begin_in_log(struct stream *stream)
{
	const struct subscription *subscription = stream->subscription;
	const struct frame_log *log = subscription->log;

	for (uint64_t serial = stream->next; serial < frame_log_end(log); serial++) {
		const struct frame_ref *frame = frame_log_get(log, serial);
		struct stream_ring *ring = &stream->ring[frame->ring];

		if (frame->type != FRAME_BATCH && frame->type != FRAME_GAP)
			continue;
		if (ring->unknown)
			ring->start = ring->seen = ring->told = frame->first_seq;
		if (ring->seen > frame->first_seq) {
			ring->start -= ring->seen - frame->first_seq;
			ring->seen = ring->told = frame->first_seq;
		}
		ring->unknown = false;
	}
	for (uint32_t i = 0; i < subscription->rings; i++)
		if (stream->ring[i].unknown)
			stream->ring[i] = (struct stream_ring){
				.start = subscription->position[i],
				.seen = subscription->position[i],
				.told = subscription->position[i]};
}

static void change_over(struct stream *stream, uint64_t serial)
{
	catch_up_destroy(stream->catch_up);
	stream->catch_up = NULL;
	stream->next = serial;
	stream->joined = frame_log_end(stream->subscription->log);
	begin_in_log(stream);
}

void catch_up_go_on(struct stream *stream)
{
	struct catch_up *catch_up = stream->catch_up;
	bool stranded = is_stranded(catch_up);
	uint64_t serial;

	catch_up_take_answer(catch_up);
	if (catch_up->answered || catch_up->first != catch_up->end)
		return;				/* for memory, catch_up_poke() tries again */
	/* Even if an answer is on its way: the log has all that it could bring. */
	if (!catch_up->foreign && log_reaches(catch_up, stranded) &&
	    (find_change_over(catch_up, &serial) || stranded)) {
		take_up_to(catch_up, serial, stranded);
		if (catch_up_push_missed(catch_up, 0) && catch_up->first == catch_up->end)
			change_over(stream, serial);
	} else if (catch_up->foreign && stranded) {
		catch_up_come_home(catch_up);
	} else if (!catch_up->asked && !catch_up->at_end) {
		ask(catch_up);
	}
}

void catch_up_poke(struct stream *stream)
{
	const struct subscription_spool *spool = &stream->subscription->spool;
	struct catch_up *catch_up = stream->catch_up;

	if (!catch_up || catch_up->first != catch_up->end)
		return;
	if (catch_up->answered)
		spool->read(spool->context);
	else if (!catch_up->asked && catch_up->at_end)
		ask(catch_up);
}
