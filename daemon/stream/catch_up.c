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

/* By ring, as a cursor; free() it. NULL: out of memory. */
struct ring_cursor {
	Ringtail__V1__Cursor cursor;
	Ringtail__V1__Position **list;
	Ringtail__V1__Position position[];
};

static struct ring_cursor *make_cursor(const struct catch_up *catch_up)
{
	const struct subscription_spool *home = &catch_up->stream->subscription->spool;
	uint32_t rings = catch_up_rings(catch_up);
	struct ring_cursor *made =
		calloc(1, sizeof(*made) + rings * (sizeof(made->position[0]) +
						   sizeof(*made->list)));

	if (!made)
		return NULL;
	made->list = (Ringtail__V1__Position **)&made->position[rings];
	ringtail__v1__cursor__init(&made->cursor);
	made->cursor.boot_id.data = (uint8_t *)home->boot_id;
	made->cursor.boot_id.len = sizeof(home->boot_id);
	made->cursor.epoch = home->epoch;
	made->cursor.position = made->list;
	made->cursor.n_position = rings;
	for (uint32_t i = 0; i < rings; i++) {
		ringtail__v1__position__init(&made->position[i]);
		made->position[i].cpu = catch_up->stream->cpu_of[i];
		made->position[i].seq = catch_up->place[i].seq;
		made->list[i] = &made->position[i];
	}
	return made;
}

static int keep_cursor(struct catch_up *catch_up, const Ringtail__V1__Cursor *cursor)
{
	if (cursor->boot_id.len != sizeof(catch_up->boot_id))
		return 0;
	catch_up->cursor = calloc(catch_up_rings(catch_up), sizeof(*catch_up->cursor));
	if (!catch_up->cursor)
		return -ENOMEM;
	memcpy(catch_up->boot_id, cursor->boot_id.data, sizeof(catch_up->boot_id));
	catch_up->epoch = cursor->epoch;
	for (size_t i = 0; i < cursor->n_position; i++) {
		int ring = catch_up_ring(catch_up, cursor->position[i]->cpu);

		if (ring >= 0)
			catch_up->cursor[ring] = (struct place){.seq = cursor->position[i]->seq,
							  .known = true};
	}
	return 0;
}

static int open_reader(struct catch_up *catch_up, const struct catch_up_start *start)
{
	struct spool_place place = {0};
	struct ring_cursor *here = NULL;
	int err;

	if (!start || start->since) {
		here = make_cursor(catch_up);
		if (!here)
			return -ENOMEM;
		place.cursor = &here->cursor;
	} else {
		place.cursor = start->cursor;
		place.realtime_ns = start->realtime_ns;
		err = start->cursor ? keep_cursor(catch_up, start->cursor) : 0;
		if (err)
			return err;
	}
	err = spool_reader_create(catch_up->stream->subscription->spool.spool, &place, catch_up_on_frames,
				  catch_up, &catch_up->reader);
	free(here);
	return err;
}

static void set_ring(struct catch_up *catch_up, uint32_t i, const struct catch_up_start *start)
{
	struct stream *stream = catch_up->stream;
	struct stream_ring *ring = &stream->ring[i];

	if (!start) {
		catch_up->place[i] = (struct place){.seq = stream_place(stream, i),
						    .known = !ring->unknown};
	} else if (start->since && start->since[i] != SINCE_BEGIN) {
		uint64_t seq = start->since[i];

		if (seq > stream->subscription->position[i])
			seq = stream->subscription->position[i];
		ring->start = ring->seen = ring->told = seq;
		catch_up->place[i] = (struct place){.seq = seq, .known = true};
	} else {
		*ring = (struct stream_ring){.unknown = true};
	}
}

int catch_up_begin(struct stream *stream, const struct catch_up_start *start)
{
	uint32_t rings = stream->subscription->rings;
	struct catch_up *catch_up =
		calloc(1, sizeof(*catch_up) + rings * sizeof(catch_up->place[0]));
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
		found &= catch_up->place[i].known;
	*serial = frame_log_first(log);
	for (uint64_t at = *serial; at < frame_log_end(log); at++) {
		const struct frame_ref *frame = frame_log_get(log, at);
		const struct place *place = &catch_up->place[frame->ring];

		if (!catch_up_is_range(frame) || !place->known || frame->end_seq > place->seq)
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
		const struct place *place = &catch_up->place[i];

		if (place->known && place->seq < subscription->floor[i] &&
		    !((stranded || place->starved) &&
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
		const struct place *place = &catch_up->place[frame->ring];

		if (catch_up_is_range(frame))
			any |= place->known ? frame->end_seq > place->seq : stranded;
		if (any && (place->known || stranded || !catch_up_is_range(frame)) &&
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
