#include "daemon/spool/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "proto/limits.h"

#define BUFFER_BYTES	(FRAME_HEADER_BYTES + FRAME_BODY_BYTES_MAX)
#define TRIES		2	/* a file, and when that fails, a fresh one */

/* ---- Life ------------------------------------------------------------------------------------ */

int spool_store_create(const struct spool_store_config *config, struct disk *disk,
		       struct spool_store **out)
{
	struct spool_store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->config = *config;
	store->disk = disk;
	store->file = -1;
	store->next_sequence = 1;
	snprintf(store->directory, sizeof(store->directory), "spool/%.*s", (int)NAME_BYTES_MAX,
		 config->name);
	store->codec = frame_codec_create(1);
	store->raw = malloc(FRAME_RAW_BYTES_MAX);
	store->buffer = malloc(BUFFER_BYTES);
	store->scratch = cursor_create(CURSOR_POSITIONS_MAX);
	store->told = cursor_create(config->rings);
	store->quiet = cursor_create(config->rings);
	store->told_durable = cursor_create(config->rings);
	store->quiet_durable = cursor_create(config->rings);
	if (!store->codec || !store->raw || !store->buffer || !store->scratch || !store->told ||
	    !store->quiet || !store->told_durable || !store->quiet_durable) {
		spool_store_destroy(store);
		return -ENOMEM;
	}
	*out = store;
	return 0;
}

static void segment_free(struct spool_segment *segment)
{
	free(segment->start);
	free(segment->end);
	free(segment);
}

void spool_store_rest(struct spool_store *store)
{
	frame_codec_destroy(store->codec);
	free(store->raw);
	free(store->buffer);
	free(store->scratch);
	store->codec = NULL;
	store->raw = store->buffer = NULL;
	store->scratch = NULL;
}

void spool_store_destroy(struct spool_store *store)
{
	if (!store)
		return;
	if (store->current)
		spool_segment_close(store);
	for (size_t i = 0; i < store->segments; i++)
		segment_free(store->segment[i]);
	spool_store_rest(store);
	free(store->segment);
	free(store->told);
	free(store->quiet);
	free(store->told_durable);
	free(store->quiet_durable);
	free(store->held);
	spool_extents_destroy(store->gone);
	free(store);
}

/* ---- The list -------------------------------------------------------------------------------- */

void spool_store_path(const struct spool_store *store, uint64_t sequence, enum segment_state state,
		      char path[SPOOL_PATH_BYTES])
{
	char name[SEGMENT_NAME_BYTES];

	segment_name_format(name, sequence, state);
	snprintf(path, SPOOL_PATH_BYTES, "%.*s/%s", SPOOL_PATH_BYTES - SEGMENT_NAME_BYTES - 1,
		 store->directory, name);
}

struct spool_segment *spool_store_add(struct spool_store *store, uint64_t sequence,
				      enum segment_state state)
{
	struct spool_segment *segment;

	if (store->segments == store->capacity) {
		size_t capacity = store->capacity ? 2 * store->capacity : 16;
		struct spool_segment **list =
			realloc(store->segment, capacity * sizeof(*list));

		if (!list)
			return NULL;
		store->segment = list;
		store->capacity = capacity;
	}
	segment = calloc(1, sizeof(*segment));
	if (!segment)
		return NULL;
	segment->sequence = sequence;
	segment->state = state;
	store->segment[store->segments++] = segment;
	return segment;
}

static size_t index_of(const struct spool_store *store, const struct spool_segment *segment)
{
	size_t i = 0;

	while (store->segment[i] != segment)
		i++;
	return i;
}

/* The next one behind it that is of the same run; NULL: there is none. */
static const struct spool_segment *next_of_run(const struct spool_store *store, size_t i)
{
	const struct run *run = &store->segment[i]->run;

	while (++i < store->segments)
		if (store->segment[i]->start && store->segment[i]->state != SEGMENT_BAD &&
		    spool_segment_is_of(store->segment[i], run))
			return store->segment[i];
	return NULL;
}

/*
 * A segment whose end was written and not synced holds attempts that the next segment holds again: they count there.
 * Without a next segment, the next one will begin behind what is durable.
 */
static void leave_to_next(const struct spool_store *store, size_t i, struct cursor *end)
{
	const struct spool_segment *next = next_of_run(store, i);
	const struct cursor *again = next ? next->start : store->told_durable;

	if (!next && !spool_segment_is_of(store->segment[i], &store->config.run))
		return;
	for (uint32_t j = 0; j < end->n; j++) {
		uint64_t seq = cursor_seq(again, end->position[j].cpu, UINT64_MAX);

		if (end->position[j].seq > seq)
			end->position[j].seq = seq;
	}
}

static bool fill(const struct spool_store *store, struct spool_extent *extent, size_t i, bool open)
{
	const struct spool_segment *segment = store->segment[i];

	*extent = (struct spool_extent){.run = segment->run, .bytes = open ? 0 : segment->bytes};
	extent->start = cursor_copy(segment->start);
	extent->end = open ? NULL : cursor_copy(segment->end);
	if (extent->end)
		leave_to_next(store, i, extent->end);
	return extent->start && (open || extent->end);
}

static void drop_last(struct spool_extents *extents)
{
	struct spool_extent *last = &extents->extent[--extents->n];

	free(last->start);
	free(last->end);
}

/* Where there is no memory for it, it is not counted as lost: then its consumer's ledger does not close. */
static void note_gone(struct spool_store *store, size_t i)
{
	const struct spool_segment *segment = store->segment[i];
	size_t n = store->gone ? store->gone->n : 0;
	struct spool_extents *larger;

	if (!store->config.tells_gone || segment->state == SEGMENT_BAD || segment->hollow || !segment->readable ||
	    !segment->start || !segment->end)
		return;
	larger = realloc(store->gone, sizeof(*larger) + (n + 1) * sizeof(larger->extent[0]));
	if (!larger)
		return;
	if (!n)
		*larger = (struct spool_extents){0};
	store->gone = larger;
	if (!fill(store, &larger->extent[larger->n++], i, false))
		drop_last(larger);
}

void spool_store_drop(struct spool_store *store, struct spool_segment *segment)
{
	size_t i = index_of(store, segment);

	note_gone(store, i);
	memmove(&store->segment[i], &store->segment[i + 1],
		(--store->segments - i) * sizeof(store->segment[0]));
	store->bytes -= segment->bytes;
	segment_free(segment);
}

void spool_store_set_aside(struct spool_store *store, struct spool_segment *segment,
			   const char *why)
{
	char from[SPOOL_PATH_BYTES], to[SPOOL_PATH_BYTES];

	note_gone(store, index_of(store, segment));
	spool_store_path(store, segment->sequence, segment->state, from);
	spool_store_path(store, segment->sequence, SEGMENT_BAD, to);
	/* If it keeps its name, it is passed over until the next start. */
	if (segment->state == SEGMENT_BAD || store->disk->ops->rename(store->disk, from, to) == 0)
		segment->state = SEGMENT_BAD;
	else
		segment->readable = false;
	store->set_aside++;
	counter_add(COUNTER_spool_set_aside, 1);
	log_error("spool-damaged",
		  "segment %s %s; it is set aside as .bad, and what it held is a gap for whoever "
		  "reads the spool: check the disk", from, why);
}

/* ---- Bounds: which segments go, because one is reached or nobody needs them ------------------- */

int spool_store_delete_oldest(struct spool_store *store)
{
	struct spool_segment *oldest = store->segment[0];
	char path[SPOOL_PATH_BYTES];
	int err;

	spool_store_path(store, oldest->sequence, oldest->state, path);
	err = store->disk->ops->remove(store->disk, path);
	if (err && err != -ENOENT)
		return err;
	store->deleted++;
	counter_add(COUNTER_spool_deleted, 1);
	spool_store_drop(store, oldest);
	return 0;
}

static bool has_old(const struct spool_store *store)
{
	return store->segments && store->segment[0] != store->current;
}

bool spool_segment_is_of(const struct spool_segment *segment, const struct run *run)
{
	return segment->readable && run_equal(&segment->run, run);
}

static bool wholly_before(const struct spool_segment *segment, const struct cursor *upto)
{
	for (uint32_t i = 0; segment->end && i < segment->end->n; i++) {
		const struct position *end = &segment->end->position[i];
		struct position *mark = cursor_find(upto, end->cpu);

		if (!mark || mark->seq < end->seq)
			return false;
	}
	return segment->end;
}

/* One that nobody can read goes with its neighbours. */
static bool was_always_on(const struct spool_segment *segment)
{
	return segment->readable && !segment->for_consumers;
}

/*
 * How many of the oldest are wholly before that place; what is of an earlier epoch is. Never one that was
 * always on: acknowledgements free what exists for consumers alone.
 */
static size_t released(const struct spool_store *store, const struct spool_turn *turn)
{
	size_t n = 0, released = 0;

	for (; n < store->segments && store->segment[n] != store->current; n++) {
		const struct spool_segment *segment = store->segment[n];

		if (was_always_on(segment))
			return released;
		if (!spool_segment_is_of(segment, &turn->release->run))
			continue;
		if (!wholly_before(segment, turn->release))
			return n > released ? n : released;
		released = n + 1;
	}
	/* Of the daemon's own epoch, and in no segment that is sealed: all of those are older. */
	if (run_equal(&turn->release->run, &store->config.run))
		return n;
	return released;
}

/* The oldest segments, as many as that; and the directory, if those are all. */
static void remove_oldest(struct spool_store *store, size_t n)
{
	bool all = n == store->segments;
	int err = 0;

	while (!err && n--)
		err = spool_store_delete_oldest(store);
	if (!err && !all)
		return;
	if (!err)
		err = store->disk->ops->remove(store->disk, store->directory);
	if (!err || err == -ENOENT)
		err = store->disk->ops->sync_directory(store->disk, "spool");
	if (err)
		log_warn("spool-remove", "cannot delete the spool %s, which nobody needs: %s",
			 store->directory, strerror(-err));
}

/* There are too many spools, and of those that nobody asks for it is the oldest. */
void spool_store_remove_all(struct spool_store *store)
{
	if (store->current)
		spool_segment_close(store);
	remove_oldest(store, store->segments);
}

/* Its last consumer was given up. What was always on is not the consumer's to give up. */
void spool_store_remove_unneeded(struct spool_store *store)
{
	size_t n = 0;

	if (store->current)
		spool_segment_close(store);
	while (n < store->segments && !was_always_on(store->segment[n]))
		n++;
	while (n && n < store->segments && !store->segment[n - 1]->readable)
		n--;
	remove_oldest(store, n);
}

/* Too old, or not needed any more. That a file cannot be deleted shows when room is needed. */
void spool_store_tidy(struct spool_store *store, const struct spool_turn *turn)
{
	size_t n = turn->release ? released(store, turn) : 0;

	/* The last one says how far this run's numbers came. It goes when the next one is there. */
	if (n && n == store->segments && spool_segment_is_of(store->segment[n - 1], &store->config.run))
		n--;
	while (n-- && has_old(store))
		if (spool_store_delete_oldest(store) != 0)
			return;
	while (has_old(store) && (int64_t)store->now_ns - store->segment[0]->ended_ns >
	       (int64_t)store->config.age_ns)
		if (spool_store_delete_oldest(store) != 0)
			return;
}

static bool fits(const struct spool_store *store, size_t bytes)
{
	return store->bytes + bytes <= store->config.size_bytes &&
	       store->segments < SPOOL_SEGMENTS_MAX;
}

int spool_store_make_room(struct spool_store *store, size_t bytes)
{
	int err = 0;

	if (store->config.policy == SPOOL_DROP_OLDEST) {
		while (!err && !fits(store, bytes) && has_old(store))
			err = spool_store_delete_oldest(store);
		return err;
	}
	if (store->stopped && store->bytes <= store->config.size_bytes / 2)
		store->stopped = false;
	if (!store->stopped && fits(store, bytes))
		return 0;
	store->stopped = store->config.policy == SPOOL_STOP;
	return -EDQUOT;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* What is written of `held` is as durable as was asked for. */
static void mark_durable(struct spool_store *store)
{
	size_t n = store->held_written;

	if (!n)
		return;
	store->durable += n;
	store->held_n -= n;
	store->held_written = 0;
	memmove(store->held, store->held + n, store->held_n * sizeof(store->held[0]));
	cursor_assign(store->told_durable, store->told);
	cursor_assign(store->quiet_durable, store->quiet);
	store->any_durable = true;
}

/*
 * The current file failed: it is left as it is, and what it should have held is to be written
 * anew.
 */
static void abandon(struct spool_store *store, int err)
{
	struct spool_segment *segment = store->current;
	char path[SPOOL_PATH_BYTES];

	counter_add(COUNTER_spool_disk_errors, 1);
	if (!store->failing)
		log_error("spool-disk",
			  "cannot write the spool %s: %s; check the disk, or set durability to "
			  "memory", store->directory, strerror(-err));
	store->failing = true;
	store->held_written = 0;
	cursor_assign(store->told, store->told_durable);
	cursor_assign(store->quiet, store->quiet_durable);
	if (!segment)
		return;
	segment->trusted = false;
	spool_segment_close(store);
	spool_store_path(store, segment->sequence, segment->state, path);
	if (!store->any_durable && segment->state == SEGMENT_OPEN &&
	    store->disk->ops->remove(store->disk, path) == 0) {
		store->begun_run &= !segment->is_first;	/* its run begins with the next one */
		segment->hollow = true;
		spool_store_drop(store, segment);
		return;
	}
	if (!segment->end)
		segment->end = cursor_copy(store->told_durable);
}

/* 0, or -errno: abandon it. */
static int sync_current(struct spool_store *store)
{
	int err = store->current ? store->disk->ops->sync(store->disk, store->file) : 0;

	if (!err)
		mark_durable(store);
	return err;
}

static int seal(struct spool_store *store)
{
	int err = spool_segment_end(store);

	if (!err)
		err = sync_current(store);
	if (!err)
		err = spool_segment_rename(store);
	if (!err)
		spool_segment_close(store);
	return err;
}

static bool note_told(void *context, uint32_t cpu, uint64_t seq)
{
	return cursor_put(context, cpu, seq);
}

/* What the file says from now on: of ranges without a frame, once a watermark tells them. */
static void note(struct spool_store *store, const struct frame_ref *frame)
{
	if (frame->type == FRAME_WATERMARK) {
		for (uint32_t i = 0; i < store->quiet->n; i++)
			note_told(store->told, store->quiet->position[i].cpu,
				  store->quiet->position[i].seq);
		store->quiet->n = 0;
	} else if (frame_ref_is_range(frame)) {
		note_told(frame->bytes ? store->told : store->quiet, frame->cpu, frame->end_seq);
	}
}

static int write_held(struct spool_store *store)
{
	while (store->held_written < store->held_n) {
		const struct frame_ref *frame = store->held[store->held_written];
		int err = 0;

		if (frame->bytes) {
			if (!store->current)
				err = spool_segment_begin(store);
			if (!err)
				err = spool_segment_write(store, frame);
			if (err)
				return err;
		}
		note(store, frame);
		store->held_written++;
		if (store->current && store->current->bytes >= store->config.segment_bytes) {
			err = seal(store);
			if (err)
				return err;
		}
	}
	return 0;
}

/* The last segment, if there is none to say that this was all. */
static int begin_final(struct spool_store *store)
{
	const struct spool_segment *last =
		store->segments ? store->segment[store->segments - 1] : NULL;

	if (store->current || !store->final ||
	    (last && last->final && spool_segment_is_of(last, &store->config.run)))
		return 0;
	return spool_segment_begin(store);
}

/*
 * Writes what is held, into another file if the first fails; all of it is durable then, if
 * asked.
 */
static int flush(struct spool_store *store, bool sync, bool seal_it)
{
	int err = 0;

	for (unsigned i = 0; i < TRIES; i++) {
		err = write_held(store);
		if (!err && sync)
			err = sync_current(store);
		if (!err && seal_it)
			err = begin_final(store);
		if (!err && seal_it && store->current)
			err = seal(store);
		if (!err)
			break;
		abandon(store, err);
		/* A disk that is smaller than spool-size is a bound like it. */
		if (err == -ENOSPC && store->config.policy == SPOOL_DROP_OLDEST && has_old(store))
			spool_store_delete_oldest(store);
	}
	if (err)
		return err;
	/* WRITTEN: it is, as of now; and ranges of no bytes need no disk. */
	if (store->config.durability == SPOOL_WRITTEN || !store->current)
		mark_durable(store);
	if (store->failing && store->held_n == 0)
		store->failing = false;
	return 0;
}

static int hold(struct spool_store *store, struct frame_ref *frame)
{
	if (store->held_n == store->held_capacity) {
		size_t capacity = store->held_capacity ? 2 * store->held_capacity : 64;
		struct frame_ref **held = realloc(store->held, capacity * sizeof(*held));

		if (!held)
			return -ENOMEM;
		store->held = held;
		store->held_capacity = capacity;
	}
	store->held[store->held_n++] = frame;
	return 0;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static bool seal_due(const struct spool_store *store)
{
	uint64_t age_ns = SPOOL_SEGMENT_AGE_NS;

	if (store->config.age_ns / 4 < age_ns)
		age_ns = store->config.age_ns / 4;
	return store->current && store->now_ns - store->begun_ns > age_ns;
}

static int take_frames(struct spool_store *store, struct spool_turn *turn)
{
	size_t bytes = 0;

	for (; turn->taken < turn->frames; turn->taken++) {
		struct frame_ref *frame = turn->frame[turn->taken];
		int err = spool_store_make_room(store, bytes + frame->bytes);

		if (err == -EDQUOT) {
			store->refused_bytes = frame->bytes;
			turn->status = SPOOL_TURN_FULL;
			return 0;
		}
		if (!err)
			err = hold(store, frame);
		if (err)
			return err;
		bytes += frame->bytes;
	}
	return 0;
}

static void fail(struct spool_store *store, struct spool_turn *turn, int err)
{
	turn->status = SPOOL_TURN_FAILED;
	turn->err = err;
	store->held_n = store->held_written = 0;
	cursor_assign(store->told, store->told_durable);
	cursor_assign(store->quiet, store->quiet_durable);
}

void spool_store_report(struct spool_store *store, struct spool_extents **extents, struct spool_extents **gone)
{
	struct spool_shape *was = &store->shape;
	struct spool_shape now = {store->segments, store->next_sequence, store->deleted,
				  store->set_aside, store->current};

	*extents = *gone = NULL;
	if (now.segments == was->segments && now.next_sequence == was->next_sequence &&
	    now.deleted == was->deleted && now.set_aside == was->set_aside &&
	    now.open == was->open)
		return;
	*extents = spool_extents_create(store);
	/* What is gone is told with the list that does not have it any more: each attempt is in one of the two. */
	if (!*extents)
		return;
	*was = now;
	*gone = store->gone;
	store->gone = NULL;
}

struct spool_files spool_store_files(const struct spool_store *store)
{
	return (struct spool_files){
		.segments = store->segments,
		.bytes = store->bytes,
		.oldest_realtime_ns = store->segments ? store->segment[0]->begun_realtime_ns : 0,
		.deleted = store->deleted,
		.set_aside = store->set_aside,
	};
}

/* That something smaller would fit is no room: the next batch is as large as the last. */
static bool is_full(struct spool_store *store)
{
	size_t wanted = store->refused_bytes ? store->refused_bytes : 1;

	if (store->config.policy == SPOOL_DROP_OLDEST)
		return false;
	if (spool_store_make_room(store, wanted) != 0)
		return true;
	store->refused_bytes = 0;
	return false;
}

static void report(struct spool_store *store, struct spool_turn *turn)
{
	spool_store_report(store, &turn->extents, &turn->gone);
	turn->durable = store->durable;
	turn->unsynced = store->held_n != 0;
	turn->full = is_full(store);
	turn->stopped = store->stopped;
	turn->files = spool_store_files(store);
}

/* So that a reader who comes from further back misses what is between, and does not skip it. */
static void note_begun(struct spool_store *store, const struct cursor *begun)
{
	for (uint32_t i = 0; begun && i < begun->n; i++) {
		const struct position *mark = &begun->position[i];

		if (cursor_find(store->told, mark->cpu))
			continue;
		note_told(store->told, mark->cpu, mark->seq);
		note_told(store->told_durable, mark->cpu, mark->seq);
	}
}

/*
 * A segment says in its head whose it is. So one that is for consumers alone ends before what is always on
 * begins; and one that stays when its consumers are given up ends as it should.
 */
static bool seal_first(const struct spool_store *store, const struct spool_turn *turn)
{
	return store->current && !turn->recovered &&
	       (store->current->for_consumers ? turn->always_on : turn->remove);
}

void spool_store_turn(struct spool_store *store, struct spool_turn *turn)
{
	int err = 0;

	turn->status = SPOOL_TURN_OK;
	store->now_ns = turn->now_ns;
	store->realtime_ns = turn->realtime_ns;
	store->recorded_realtime_ns = turn->recorded_realtime_ns;
	/* What comes first must be seen against what is there: so that is a turn of its own. */
	turn->recovered = !store->recovered;
	for (unsigned i = 0; turn->recovered && i < TRIES; i++) {
		err = spool_store_recover(store);
		if (!err)
			break;
	}
	turn->orderly = store->orderly;
	if (!err && seal_first(store, turn))
		err = flush(store, turn->sync, true);
	store->always_on = turn->always_on;
	if (!err && turn->remove && !turn->recovered) {
		spool_store_remove_unneeded(store);
		report(store, turn);
		return;
	}
	if (!err)
		spool_store_tidy(store, turn);
	if (!err && !turn->recovered) {
		note_begun(store, turn->begun);
		err = take_frames(store, turn);
	}
	store->final = turn->final && turn->status == SPOOL_TURN_OK;
	if (!err && !turn->recovered)
		err = flush(store, turn->sync, turn->seal || seal_due(store));
	if (err)
		fail(store, turn, err);
	report(store, turn);
}

/* ---- Extents --------------------------------------------------------------------------------- */

struct spool_extents *spool_extents_create(const struct spool_store *store)
{
	struct spool_extents *extents =
		calloc(1, sizeof(*extents) + store->segments * sizeof(extents->extent[0]));

	for (size_t i = 0; extents && i < store->segments; i++) {
		const struct spool_segment *segment = store->segment[i];
		bool open = segment == store->current;

		if (segment->state == SEGMENT_BAD || !segment->readable || !segment->start ||
		    (!open && !segment->end)) {
			extents->bytes += segment->bytes;	/* nobody will be given it */
			continue;
		}
		if (!fill(store, &extents->extent[extents->n++], i, open)) {
			spool_extents_destroy(extents);
			return NULL;
		}
		extents->bytes += open ? 0 : segment->bytes;
	}
	return extents;
}

void spool_extents_destroy(struct spool_extents *extents)
{
	if (!extents)
		return;
	for (size_t i = 0; i < extents->n; i++) {
		free(extents->extent[i].start);
		free(extents->extent[i].end);
	}
	free(extents);
}

static uint64_t start_of(const struct spool_extent *extent, const struct cursor *begun, uint32_t cpu)
{
	const struct position *start = cursor_find(extent->start, cpu);

	if (start)
		return start->seq;
	return run_equal(&extent->run, &begun->run) ? cursor_seq(begun, cpu, 0) : 0;
}

struct spool_share spool_extent_share(const struct spool_extent *extent, const struct cursor *begun,
				      const struct cursor *now, const struct cursor *place)
{
	bool same = run_equal(&extent->run, &place->run);
	bool earlier = !same && extent->run.epoch < place->run.epoch;
	const struct cursor *end = extent->end ? extent->end : now;
	struct spool_share share = {0};

	for (uint32_t i = 0; i < end->n; i++) {
		uint32_t cpu = end->position[i].cpu;
		uint64_t to = end->position[i].seq, from = start_of(extent, begun, cpu);
		uint64_t at = same ? cursor_seq(place, cpu, 0) : 0;

		if (to <= from)
			continue;
		share.all += to - from;
		if (!earlier && at < to)
			share.behind += to - (at > from ? at : from);
	}
	return share;
}

uint64_t spool_extents_behind(const struct spool_extents *extents, uint64_t total, const struct cursor *begun,
			      const struct cursor *now, const struct cursor *place)
{
	uint64_t open_bytes = total > extents->bytes ? total - extents->bytes : 0, behind = 0;

	for (size_t i = 0; i < extents->n; i++) {
		const struct spool_extent *extent = &extents->extent[i];
		struct spool_share share = spool_extent_share(extent, begun, now, place);
		double bytes = (double)(extent->end ? extent->bytes : open_bytes);

		if (share.all)
			behind += (uint64_t)((double)share.behind / (double)share.all * bytes);
	}
	return behind;
}
