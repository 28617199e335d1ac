#include "daemon/spool/read.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/spool/frame.h"
#include "proto/limits.h"

#define ERRORS_MAX 3		/* in a row, before a segment is passed over */

struct spool_read {
	bool placed;			/* the first segment is found */
	struct cursor *since;
	uint64_t since_realtime_ns;

	uint64_t sequence;		/* of the segment being read; the next, if offset is 0 */
	uint64_t offset;		/* of the next frame in it */
	enum {
		RUN_UNKNOWN,		/* the oldest that is there */
		RUN_NAMED,		/* an earlier one, which a cursor or a segment names: `run` */
		RUN_GREETED,		/* the same, and its hello was given */
		RUN_OURS,
	} whose;			/* run `at` is of */
	enum loss_reason run_end;	/* of the Gap that stands behind this epoch; 0: not given */
	struct run run;
	struct cursor *at;		/* everything before has been given */
	struct cursor *before;	/* `at`, when a call began */
	uint64_t time_ns;		/* of the newest watermark given */
	unsigned errors;
	enum loss_reason passed;	/* what was passed over to get here; 0: nothing */

	/* Of one call. */
	struct spool_store *store;
	struct frame_ref **frame;
	unsigned n, max;
	size_t bytes;
	bool no_memory;
};

struct spool_read *spool_read_create(struct cursor *since, uint64_t realtime_ns)
{
	struct spool_read *read = calloc(1, sizeof(*read));
	struct cursor *at = cursor_create(CURSOR_POSITIONS_MAX);
	struct cursor *before = cursor_create(CURSOR_POSITIONS_MAX);

	if (!read || !at || !before) {
		free(read);
		free(at);
		free(before);
		free(since);
		return NULL;
	}
	read->before = before;
	read->since = since;
	read->since_realtime_ns = realtime_ns;
	read->at = at;
	if (since)
		read->run = since->run;
	return read;
}

void spool_read_destroy(struct spool_read *read)
{
	if (!read)
		return;
	free(read->since);
	free(read->at);
	free(read->before);
	free(read);
}

/* ---- Where to begin -------------------------------------------------------------------------- */

static bool usable(const struct spool_segment *segment)
{
	return segment->state != SEGMENT_BAD && segment->readable;
}

/* Whether it holds nothing behind those places. */
static bool wholly_seen(const struct spool_segment *segment, struct cursor *since)
{
	for (uint32_t i = 0; segment->end && i < segment->end->n; i++) {
		struct position *mark = cursor_find(since, segment->end->position[i].cpu);

		if (!mark || mark->seq < segment->end->position[i].seq)
			return false;
	}
	return segment->end && segment->trusted;
}

/* Whether an earlier run of the rings has nothing behind it. */
static bool ends_run(const struct spool_store *store, const struct spool_segment *segment)
{
	size_t i = store->segments;

	if (run_equal(&segment->run, &store->config.run))
		return false;
	while (store->segment[--i] != segment)
		if (usable(store->segment[i]) &&
		    run_equal(&store->segment[i]->run, &segment->run))
			return false;
	return true;
}

/*
 * At a cursor: the first segment of its epoch that is not wholly before it. The last segment of an earlier
 * run is read in any case: behind it stands the Gap for the time until the next run.
 */
static void place_at_cursor(struct spool_read *read, const struct spool_store *store)
{
	bool ours = run_equal(&read->run, &store->config.run), found = false;

	for (size_t i = 0; i < store->segments; i++) {
		const struct spool_segment *segment = store->segment[i];

		if (!usable(segment) || !run_equal(&segment->run, &read->run))
			continue;
		found = true;
		read->sequence = segment->sequence;
		if (!wholly_seen(segment, read->since) || ends_run(store, segment))
			break;
		read->sequence++;
	}
	/* Nothing of the daemon's own epoch is here: all there is is older than that. */
	if (!found && ours) {
		read->sequence = store->next_sequence;
	} else if (!found) {
		read->passed = LOSS_REASON_OTHER_EPOCH;
		return;
	}
	read->whose = ours ? RUN_OURS : RUN_NAMED;
	cursor_assign(read->at, read->since);
}

/* Why what is before the oldest segment that can be read (NULL: there is none) is not there. */
static enum loss_reason missing_at_begin(const struct spool_store *store,
					 const struct spool_segment *oldest)
{
	for (size_t i = 0; i < store->segments && store->segment[i] != oldest; i++)
		if (!store->segment[i]->hollow)
			return LOSS_REASON_CORRUPT;
	return (store->segments ? store->segment[0]->sequence : store->next_sequence) > 1 ?
		       LOSS_REASON_SPOOL_FULL : LOSS_REASON_NOT_RECORDED;
}

/* At a time: the last segment from which on all is there since then. None is: the oldest. */
static void place_at_time(struct spool_read *read, const struct spool_store *store)
{
	uint64_t wanted = read->since_realtime_ns;
	const struct spool_segment *oldest = NULL;
	bool found = false;

	for (size_t i = 0; i < store->segments; i++) {
		const struct spool_segment *segment = store->segment[i];

		if (!usable(segment))
			continue;
		if (!oldest)
			oldest = segment;
		if (segment->whole_realtime_ns > wanted)
			continue;
		read->sequence = segment->sequence;
		found = true;
	}
	/* This run has recorded since then, and nothing of it has come to the disk yet. */
	if (!oldest && !store->segments && store->recorded_realtime_ns &&
	    store->recorded_realtime_ns <= wanted)
		found = true;
	if (!found && wanted)
		read->passed = missing_at_begin(store, oldest);
}

static void place(struct spool_read *read, const struct spool_store *store)
{
	if (read->since)
		place_at_cursor(read, store);
	else
		place_at_time(read, store);
	read->placed = true;
}

/*
 * ---- What is given -----------------------------------------------------------------------------
 *
 * Of the frames that lie there: each attempt once, and each that is missing in a Gap, in its place.
 * Whatever finds no memory for what it gives sets ->no_memory.
 */

static uint32_t ring_of(const struct spool_read *read, uint32_t cpu)
{
	const struct spool_store *store = read->store;

	for (uint32_t i = 0; read->whose == RUN_OURS && i < store->config.rings; i++)
		if (store->config.cpu_of[i] == cpu)
			return i;
	return RING_EARLIER;
}

/* Takes the reference. There is always room: see step() and take_frames(). */
static void give(struct spool_read *read, struct frame_ref *frame)
{
	if (!frame) {
		read->no_memory = true;
		return;
	}
	frame->ring = frame_ref_is_range(frame) ?
			      ring_of(read, frame->cpu) : read->whose == RUN_OURS ? 0 : UINT32_MAX;
	if (read->n == read->max) {
		frame_ref_put(frame);
		read->no_memory = true;
		return;
	}
	read->frame[read->n++] = frame;
	read->bytes += frame->bytes;
}

static void give_gap(struct spool_read *read, uint32_t cpu, uint64_t first_seq, uint64_t end_seq,
		     enum loss_reason reason)
{
	give(read, spool_frame_gap(read->store->codec, cpu, first_seq, end_seq, 0,
				   reason));
	cursor_put(read->at, cpu, end_seq);
}

/*
 * A range that was not asked for: it has no bytes, and only the ledger of our own epoch needs
 * it.
 */
static void give_skipped(struct spool_read *read, uint32_t cpu, uint64_t first_seq,
			 uint64_t end_seq)
{
	struct frame_ref *frame;

	cursor_put(read->at, cpu, end_seq);
	if (read->whose != RUN_OURS)
		return;
	frame = frame_ref_create(FRAME_BATCH, 0);
	if (frame) {
		frame->cpu = cpu;
		frame->first_seq = first_seq;
		frame->end_seq = end_seq;
		frame->skipped = end_seq - first_seq;
	}
	give(read, frame);
}

/* The frame at hand. NULL: out of memory. */
static struct frame_ref *copy_frame(const struct spool_scan *scan)
{
	size_t bytes = FRAME_HEADER_BYTES + (size_t)scan->header.body_bytes;
	struct frame_ref *frame = frame_ref_create(scan->header.type, bytes);

	if (!frame)
		return NULL;
	frame->raw_bytes = scan->header.raw_bytes;
	memcpy(frame->data, scan->frame, bytes);
	return frame;
}

/* A loss of which nobody knows the size, only that it was here. */
static void give_unknown(struct spool_read *read, enum loss_reason reason)
{
	const struct position *mark = read->at->n ? &read->at->position[0] : NULL;
	uint32_t cpu = mark ? mark->cpu : read->store->config.cpu_of[0];
	uint64_t seq = mark ? mark->seq : 0;

	give(read, spool_frame_gap(read->store->codec, cpu, seq, seq, 0, reason));
}

/* What is between here and these places is not on disk any more. */
static void give_missing(struct spool_read *read, const struct cursor *upto, enum loss_reason reason)
{
	for (uint32_t i = 0; upto && i < upto->n; i++) {
		const struct position *to = &upto->position[i];
		const struct position *mark = cursor_find(read->at, to->cpu);

		if (!mark)
			cursor_put(read->at, to->cpu, to->seq);
		else if (mark->seq < to->seq)
			give_gap(read, to->cpu, mark->seq, to->seq, reason);
	}
}

static void give_range(struct spool_read *read, struct frame_ref *frame)
{
	struct position *mark = cursor_find(read->at, frame->cpu);

	if (mark && frame->end_seq <= mark->seq) {
		frame_ref_put(frame);
		return;
	}
	if (mark && frame->first_seq > mark->seq)
		give_skipped(read, frame->cpu, mark->seq, frame->first_seq);
	if (mark && frame->type == FRAME_GAP && frame->first_seq < mark->seq) {
		enum loss_reason reason = frame->loss[0].reason;

		give_gap(read, frame->cpu, mark->seq, frame->end_seq, reason);
		frame_ref_put(frame);
		return;
	}
	cursor_put(read->at, frame->cpu, frame->end_seq);
	give(read, frame);
}

static bool is_told(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	struct position *mark = cursor_find(context, cpu);

	(void)skipped;
	return mark && mark->seq >= seq;
}

static bool give_position(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	struct spool_read *read = context;
	struct position *mark = cursor_find(read->at, cpu);

	(void)skipped;
	if (mark && mark->seq < seq)
		give_skipped(read, cpu, mark->seq, seq);
	else if (!mark)
		cursor_put(read->at, cpu, seq);
	return true;
}

static void give_watermark(struct spool_read *read, const struct spool_scan *scan,
			   struct frame_ref *frame)
{
	const uint8_t *raw = scan->raw;
	size_t bytes = scan->header.raw_bytes;

	if (frame->time_ns <= read->time_ns &&
	    spool_frame_positions(raw, bytes, is_told, read->at)) {
		frame_ref_put(frame);
		return;
	}
	spool_frame_positions(raw, bytes, give_position, read);
	if (read->time_ns < frame->time_ns)
		read->time_ns = frame->time_ns;
	give(read, frame);
}

/* Gives of the frame at hand what was not given yet. False: what it says cannot be. */
static bool take_frame(struct spool_read *read, const struct spool_scan *scan)
{
	struct frame_ref *frame = copy_frame(scan);

	if (!frame) {
		read->no_memory = true;
		return true;
	}
	if (!spool_frame_describe(frame, scan->raw, scan->header.raw_bytes)) {
		frame_ref_put(frame);
		return false;
	}
	if (frame_ref_is_range(frame))
		give_range(read, frame);
	else if (frame->type == FRAME_WATERMARK)
		give_watermark(read, scan, frame);
	else
		frame_ref_put(frame);
	return true;
}

/* The most frames that one frame read may become: a range skipped on each CPU, and itself. */
static unsigned worst_case(const struct spool_read *read)
{
	return read->at->n + 8;
}

/* ---- One segment ----------------------------------------------------------------------------- */

/* Whether something of the segment's run may have been behind `before`, or in it and is lost. */
static bool may_miss(const struct spool_segment *before, const struct spool_segment *segment)
{
	if (before->sequence + 1 != segment->sequence)
		return true;
	return !usable(before) && (!before->readable || run_equal(&before->run, &segment->run));
}

/*
 * Why what was before it is not there: deleted, damaged, never written by a daemon that was killed; or, for
 * a reader of the same run, never recorded.
 */
static enum loss_reason missing_before(const struct spool_store *store,
				       const struct spool_segment *segment, bool same_run)
{
	const struct spool_segment *before = NULL;

	if (same_run && segment->begins_record)
		return LOSS_REASON_NOT_RECORDED;
	for (size_t i = 0; store->segment[i] != segment; i++)
		before = store->segment[i];
	if (!before && segment->sequence > 1)
		return LOSS_REASON_SPOOL_FULL;
	if (before && may_miss(before, segment))
		return LOSS_REASON_CORRUPT;
	return LOSS_REASON_RESTART;
}

/*
 * Between two runs of the rings nothing was recorded, however the first one ended; and what that had read
 * and not stored is nowhere, unless it ended in order. How much that is nobody knows.
 */
static void end_run(struct spool_read *read, enum loss_reason reason)
{
	if (read->run_end)
		return;
	give_unknown(read, reason);
	read->run_end = reason;
}

static enum loss_reason run_end_of(const struct spool_store *store,
				   const struct spool_segment *last)
{
	size_t i = 0;

	if (last->final)
		return LOSS_REASON_NOT_RECORDED;
	while (store->segment[i] != last)
		i++;
	return i + 1 < store->segments && !usable(store->segment[i + 1]) ? LOSS_REASON_CORRUPT :
									   LOSS_REASON_RESTART;
}

static void begin_run(struct spool_read *read, const struct spool_segment *segment)
{
	read->run = segment->run;
	read->whose = run_equal(&read->run, &read->store->config.run) ? RUN_OURS : RUN_NAMED;
	read->run_end = LOSS_REASON_UNKNOWN;
	read->at->n = 0;
	read->time_ns = 0;
}

/* Behind its SegmentHead: what a reader of a new run is to have first. 1, or as spool_scan_next(). */
static int scan_heads(struct spool_read *read, struct spool_scan *scan, struct frame_ref *head[3])
{
	int got = spool_scan_next(scan);

	for (unsigned i = 0; i < 3 && got == 1; i++) {
		got = spool_scan_next(scan);
		head[i] = got == 1 ? copy_frame(scan) : NULL;
		read->no_memory |= got == 1 && !head[i];
	}
	return got;
}

/* Its first frames. 0, or as spool_scan_next(): then nothing has changed. */
static int enter(struct spool_read *read, struct spool_scan *scan, struct spool_segment *segment)
{
	bool same = read->whose != RUN_UNKNOWN && run_equal(&segment->run, &read->run);
	enum loss_reason why = missing_before(read->store, segment, same);
	bool another = read->whose != RUN_UNKNOWN && !same, is_told;
	struct frame_ref *head[3] = {NULL};
	int got = scan_heads(read, scan, head);
	bool greets;

	if (got == 1 && another)
		end_run(read, why);
	is_told = read->run_end == why;
	if (got == 1 && !same)
		begin_run(read, segment);
	/* A cursor may be of another epoch itself: that one says its hello, too. */
	greets = got == 1 && read->whose == RUN_NAMED;
	for (unsigned i = 0; i < 3; i++) {
		if (greets && head[i])
			give(read, head[i]);
		else
			frame_ref_put(head[i]);
	}
	if (got != 1)
		return got ? got : -EBADMSG;
	if (greets)
		read->whose = RUN_GREETED;
	give_missing(read, segment->start, why);
	/* A run's numbers are not known before it: of its lost beginning nobody knows the size. */
	if (another && why == LOSS_REASON_CORRUPT && !is_told)
		give_unknown(read, why);
	return 0;
}

/* 0: to its end, 1: there is more in it, -errno. */
static int take_frames(struct spool_read *read, struct spool_scan *scan, size_t bytes)
{
	int got = 1;

	while (!read->no_memory) {
		if (read->n + worst_case(read) > read->max || read->bytes >= bytes)
			return 1;
		got = spool_scan_next(scan);
		if (got != 1)
			return got;
		if (!take_frame(read, scan))
			return -EBADMSG;
		read->offset = scan->offset;
	}
	return 1;
}

static int take_segment(struct spool_read *read, struct spool_segment *segment, size_t bytes)
{
	struct spool_store *store = read->store;
	char path[SPOOL_PATH_BYTES];
	struct spool_scan scan;
	int file, err = 0, checked = 0;

	spool_store_path(store, segment->sequence, segment->state, path);
	file = store->disk->ops->open(store->disk, path, O_RDONLY);
	if (file < 0)
		return file;
	/* Frames that are whole are given all the same: each has a checksum of its own. */
	if (segment->state == SEGMENT_SEALED)
		err = checked = spool_check(store, segment, file);
	if (err == -EBADMSG)
		err = 0;
	spool_scan_init(&scan, store, file, read->offset, segment->good_bytes);
	if (!err && !read->offset) {
		err = enter(read, &scan, segment);
		if (!err)
			read->offset = scan.offset;
	}
	if (!err)
		err = take_frames(read, &scan, bytes);
	if (!err)
		err = checked;
	store->disk->ops->close(store->disk, file);
	return err;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static struct spool_segment *segment_from(const struct spool_store *store, uint64_t sequence)
{
	for (size_t i = 0; i < store->segments; i++)
		if (store->segment[i]->sequence >= sequence && usable(store->segment[i]))
			return store->segment[i];
	return NULL;
}

/*
 * It cannot be read any further. What it says it holds is a gap: with its numbers, if the reader is
 * told, or has been, which run they are of.
 */
static void give_up(struct spool_read *read, struct spool_segment *segment, int err)
{
	bool same = read->whose != RUN_UNKNOWN && run_equal(&segment->run, &read->run);
	enum loss_reason reason = err == -EBADMSG ? LOSS_REASON_CORRUPT : LOSS_REASON_DISK;

	if (same && segment->trusted && read->whose >= RUN_GREETED)
		give_missing(read, segment->end, reason);
	else if (same ? segment->trusted : read->whose == RUN_UNKNOWN || err != -EBADMSG)
		read->passed = reason;
	if (same && ends_run(read->store, segment))
		end_run(read, segment->trusted ? run_end_of(read->store, segment) : reason);
	if (err == -EBADMSG && segment != read->store->current && !read->no_memory)
		spool_store_set_aside(read->store, segment, "is damaged");
}

/*
 * Behind the last segment that can be read there are others. Of this run, the next that is written says
 * by its numbers what they held; of another one, nobody knows how much.
 */
static bool pass_damaged_end(struct spool_read *read)
{
	const struct spool_store *store = read->store;
	bool passed = false;

	for (size_t i = 0; i < store->segments; i++) {
		const struct spool_segment *segment = store->segment[i];

		if (segment->sequence < read->sequence || usable(segment) || segment->hollow)
			continue;
		read->sequence = segment->sequence + 1;
		read->offset = 0;
		passed |= !segment->readable ||
			  !run_equal(&segment->run, &store->config.run);
	}
	return passed;
}

/* 1: go on; 0: enough for now; -1: that was all. */
static int step(struct spool_read *read, size_t bytes)
{
	struct spool_segment *segment;
	int got;

	if (read->passed)
		give_unknown(read, read->passed);
	read->passed = LOSS_REASON_UNKNOWN;
	segment = segment_from(read->store, read->sequence);
	if (!segment && pass_damaged_end(read)) {
		give_unknown(read, LOSS_REASON_CORRUPT);
		return -1;
	}
	if (!segment)
		return -1;
	/* At a segment's start there may be a gap for each of its CPUs. */
	if (read->n && read->n + 2 * worst_case(read) +
			       (segment->start ? segment->start->n : 0) > read->max)
		return 0;
	if (segment->sequence != read->sequence) {
		read->sequence = segment->sequence;
		read->offset = 0;
	}
	got = take_segment(read, segment, bytes);
	if (got == 1)
		return 0;
	if (got == 0) {
		read->errors = 0;
		if (segment == read->store->current)
			return -1;
		if (ends_run(read->store, segment))
			end_run(read, run_end_of(read->store, segment));
	} else if (got != -EBADMSG && ++read->errors < ERRORS_MAX) {
		return 1;
	} else {
		read->errors = 0;
		give_up(read, segment, got);
		if (segment == read->store->current)
			return -1;
	}
	read->sequence++;
	read->offset = 0;
	/* It is set aside for good: this call must not be one that is taken back. */
	return got == 0;
}

bool spool_read_next(struct spool_read *read, struct spool_store *store, size_t bytes,
		     struct frame_ref **frame, unsigned max, unsigned *n)
{
	struct spool_read before;
	int go = 1;

	read->store = store;
	read->frame = frame;
	read->n = 0;
	read->max = max;
	read->bytes = 0;
	read->no_memory = false;
	if (!read->placed)
		place(read, store);
	before = *read;
	cursor_assign(read->before, read->at);
	while (go == 1 && read->bytes < bytes && !read->no_memory)
		go = step(read, bytes);
	if (read->no_memory) {
		/* Whoever asks again gets all of it. */
		while (read->n)
			frame_ref_put(frame[--read->n]);
		*read = before;
		cursor_assign(read->at, read->before);
		go = 0;
	}
	*n = read->n;
	return go == -1;
}
