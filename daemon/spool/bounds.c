/*
 * spool_bounds: which segments go, because a bound is reached or nobody needs them. On the disk thread.
 * See spool_store.h.
 */
#include <errno.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/spool/store.h"

int spool_bounds_delete_oldest(struct spool_store *store)
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

bool spool_bounds_has_old(const struct spool_store *store)
{
	return store->segments && store->segment[0] != store->current;
}

bool spool_segment_is_of(const struct spool_segment *segment, const uint8_t boot_id[16],
		       uint64_t epoch)
{
	return segment->readable && segment->epoch == epoch &&
	       memcmp(segment->boot_id, boot_id, sizeof(segment->boot_id)) == 0;
}

static bool wholly_before(const struct spool_segment *segment, const struct spool_marks *upto)
{
	for (uint32_t i = 0; segment->end && i < segment->end->n; i++) {
		const struct spool_mark *end = &segment->end->mark[i];
		struct spool_mark *mark = spool_marks_find((struct spool_marks *)upto, end->cpu);

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
		if (!spool_segment_is_of(segment, turn->release_boot_id, turn->release_epoch))
			continue;
		if (!wholly_before(segment, turn->release))
			return n > released ? n : released;
		released = n + 1;
	}
	/* Of the daemon's own epoch, and in no segment that is sealed: all of those are older. */
	if (turn->release_epoch == store->config.epoch &&
	    memcmp(turn->release_boot_id, store->config.boot_id, 16) == 0)
		return n;
	return released;
}

/* The oldest segments, as many as that; and the directory, if those are all. */
static void remove_oldest(struct spool_store *store, size_t n)
{
	bool all = n == store->segments;
	int err = 0;

	while (!err && n--)
		err = spool_bounds_delete_oldest(store);
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
void spool_bounds_remove_all(struct spool_store *store)
{
	if (store->current)
		spool_segment_close(store);
	remove_oldest(store, store->segments);
}

/* Its last consumer was given up. What was always on is not the consumer's to give up. */
void spool_bounds_remove_unneeded(struct spool_store *store)
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
void spool_bounds_tidy(struct spool_store *store, const struct spool_turn *turn)
{
	size_t n = turn->release ? released(store, turn) : 0;

	while (n-- && spool_bounds_has_old(store))
		if (spool_bounds_delete_oldest(store) != 0)
			return;
	while (spool_bounds_has_old(store) && (int64_t)store->now_ns - store->segment[0]->ended_ns >
					 (int64_t)store->config.age_ns)
		if (spool_bounds_delete_oldest(store) != 0)
			return;
}

static bool fits(const struct spool_store *store, size_t bytes)
{
	return store->bytes + bytes <= store->config.size_bytes &&
	       store->segments < SPOOL_SEGMENTS_MAX;
}

int spool_bounds_make_room(struct spool_store *store, size_t bytes)
{
	int err = 0;

	if (store->config.policy == SPOOL_DROP_OLDEST) {
		while (!err && !fits(store, bytes) && spool_bounds_has_old(store))
			err = spool_bounds_delete_oldest(store);
		return err;
	}
	if (store->stopped && store->bytes <= store->config.size_bytes / 2)
		store->stopped = false;
	if (!store->stopped && fits(store, bytes))
		return 0;
	store->stopped = store->config.policy == SPOOL_STOP;
	return -EDQUOT;
}
