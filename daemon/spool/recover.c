/*
 * spool_recover: what an earlier daemon left in a spool, after whatever end it had. On the disk
 * thread. See spool_store.h, and docs/spool.md for the rules.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/base/log.h"
#include "daemon/disk/disk.h"
#include "daemon/spool/frame.h"
#include "daemon/spool/store.h"
#include "proto/message.h"

/* ---- What a file holds ----------------------------------------------------------------------- */

/* All frames from where `scan` is: the marks in store->scratch move on. */
struct tally {
	uint64_t frames, events, first_time_ns, last_time_ns;
	bool ended;			/* a SegmentEnd came last */
};

static bool note_position(void *context, uint32_t cpu, uint64_t seq, uint64_t skipped)
{
	struct cursor *marks = context;
	struct position *mark = cursor_find(marks, cpu);

	(void)skipped;
	return (mark && mark->seq >= seq) || cursor_put(marks, cpu, seq);
}

static bool note_frame(struct spool_scan *scan, struct tally *tally)
{
	struct cursor *marks = scan->store->scratch;
	struct frame_ref frame = {.type = scan->header.type};

	if (!spool_frame_describe(&frame, scan->raw, scan->header.raw_bytes))
		return false;
	tally->frames++;
	tally->events += frame.events;
	switch (frame.type) {
	case FRAME_BATCH:
	case FRAME_GAP:
		return note_position(marks, frame.cpu, frame.end_seq, 0);
	case FRAME_WATERMARK:
		tally->last_time_ns = frame.time_ns;
		if (!tally->first_time_ns)
			tally->first_time_ns = frame.time_ns;
		return spool_frame_positions(scan->raw, scan->header.raw_bytes, note_position,
					     marks);
	default:
		return false;
	}
}

/* Up to the last whole frame; good_bytes says where that ends. 0 or -errno, not of damage. */
static int scan_frames(struct spool_scan *scan, struct spool_segment *segment, struct tally *tally)
{
	int got;

	*tally = (struct tally){0};
	cursor_assign(scan->store->scratch, segment->start);
	segment->good_bytes = scan->offset;
	while ((got = spool_scan_next(scan)) == 1) {
		if (scan->header.type == FRAME_SEGMENT_END) {
			tally->ended = scan->offset == segment->bytes;
			return 0;
		}
		if (!note_frame(scan, tally))
			return 0;
		segment->good_bytes = scan->offset;
	}
	return got == -EBADMSG ? 0 : got;
}

static int take_end(struct spool_segment *segment, const struct spool_scan *scan, uint64_t offset)
{
	Ringtail__V1__SegmentEnd *end =
		message_unpack(&ringtail__v1__segment_end__descriptor, NULL, scan->raw,
			       scan->header.raw_bytes);
	int err = -EBADMSG;

	if (end && end->sequence == segment->sequence && end->bytes == offset) {
		free(segment->end);
		segment->end = cursor_of_message(end->end);
		segment->good_bytes = offset;
		segment->final = end->final;
		segment->crc32c = end->crc32c;
		segment->last_time_ns = end->last_time_ns;
		err = segment->end ? 0 : -ENOMEM;
	}
	if (end)
		ringtail__v1__segment_end__free_unpacked(end, NULL);
	return err;
}

/* The SegmentEnd of a sealed file, found from behind. */
static int read_end(struct spool_store *store, struct spool_segment *segment, int file)
{
	uint64_t n = segment->bytes < SEGMENT_END_BYTES_MAX ? segment->bytes :
							       SEGMENT_END_BYTES_MAX;
	uint64_t from = segment->bytes - n;
	struct spool_scan scan;
	size_t have = 0, at;
	int got;

	while (have < n) {
		ssize_t more = store->disk->ops->read(store->disk, file, store->buffer + have,
						      (size_t)n - have, from + have);

		if (more <= 0)
			return more < 0 ? (int)more : -EBADMSG;
		have += (size_t)more;
	}
	if (!segment_find_end(store->buffer, have, &at))
		return -EBADMSG;
	spool_scan_init(&scan, store, file, from + at, segment->bytes);
	got = spool_scan_next(&scan);
	if (got != 1)
		return got < 0 ? got : -EBADMSG;
	return take_end(segment, &scan, from + at);
}

/* ---- Salvage --------------------------------------------------------------------------------- */

static int write_end(struct spool_store *store, struct spool_segment *segment, int file,
		     uint32_t crc, const struct tally *tally)
{
	struct frame_ref *end = spool_segment_pack_end(store, segment, crc, tally->frames,
						       tally->events, tally->first_time_ns,
						       tally->last_time_ns, segment->end);
	uint64_t written = 0;
	int err = end ? disk_write_all(store->disk, file, end->data, end->bytes, &written) :
			-ENOMEM;

	segment->crc32c = crc;
	if (!err)
		segment->bytes = segment->good_bytes + end->bytes;
	frame_ref_put(end);
	return err;
}

/*
 * The same bytes over themselves. Linux tells of a page that did not come to the disk once, and of this
 * file the daemon before may have been told: what is read is then in memory alone, and no sync of ours
 * would write it, or say so.
 */
static int write_again(struct spool_store *store, const struct spool_segment *segment, int from,
		       int to, uint32_t crc)
{
	struct disk *disk = store->disk;
	uint32_t written_crc = 0;
	uint64_t at = 0;

	while (at < segment->good_bytes) {
		ssize_t got = disk->ops->read(disk, from, store->buffer,
					      segment->good_bytes - at < FRAME_BODY_BYTES_MAX ?
						      (size_t)(segment->good_bytes - at) :
						      FRAME_BODY_BYTES_MAX, at);
		int err = got > 0 ? disk_write_all(disk, to, store->buffer, (size_t)got, &at) :
			  got < 0 ? (int)got : -EIO;

		if (err)
			return err;
		written_crc = frame_crc32c(written_crc, store->buffer, (size_t)got);
	}
	return written_crc == crc ? 0 : -EIO;
}

/* Cuts what is torn off, writes the end, syncs; `from` is the same file. */
static int cut_and_end(struct spool_store *store, struct spool_segment *segment, int from,
		       const struct tally *tally, uint32_t crc, const char *path)
{
	struct disk *disk = store->disk;
	int file = disk->ops->open(disk, path, O_WRONLY), err;

	if (file < 0)
		return file;
	err = disk->ops->truncate(disk, file, segment->good_bytes);
	if (!err) {
		segment->bytes = segment->good_bytes;
		err = write_again(store, segment, from, file, crc);
	}
	if (!err)
		err = write_end(store, segment, file, crc, tally);
	if (!err)
		err = disk->ops->sync(disk, file);
	disk->ops->close(disk, file);
	return err;
}

/* A file that was being written becomes a sealed one; if that fails it is read as it is. */
static int seal_salvaged(struct spool_store *store, struct spool_segment *segment, int file,
			 const struct tally *tally, uint32_t crc)
{
	char from[SPOOL_PATH_BYTES], to[SPOOL_PATH_BYTES];
	int err;

	spool_store_path(store, segment->sequence, SEGMENT_OPEN, from);
	spool_store_path(store, segment->sequence, SEGMENT_SEALED, to);
	err = cut_and_end(store, segment, file, tally, crc, from);
	if (!err)
		err = store->disk->ops->rename(store->disk, from, to);
	if (err)
		return err;
	segment->state = SEGMENT_SEALED;
	return store->disk->ops->sync_directory(store->disk, store->directory);
}

static int salvage(struct spool_store *store, struct spool_segment *segment, int file,
		   struct spool_scan *scan)
{
	uint64_t bytes = segment->bytes;
	struct tally tally;
	uint32_t crc;
	int err = scan_frames(scan, segment, &tally);

	if (err)
		return err;
	free(segment->end);
	segment->end = cursor_copy(store->scratch);
	if (!segment->end)
		return -ENOMEM;
	err = spool_checksum(store, file, segment->good_bytes, &crc);
	if (err)
		return err;
	err = seal_salvaged(store, segment, file, &tally, crc);
	store->bytes += segment->bytes - bytes;
	segment->trusted = !err;
	segment->last_time_ns = tally.last_time_ns;
	if (err)
		log_warn("spool-unsealed",
			 "segment %" PRIu64 " of %s cannot be sealed: %s; it is read as it is",
			 segment->sequence, store->directory, strerror(-err));
	else
		log_info("spool-salvaged",
			 "segment %" PRIu64 " of %s was cut short: %" PRIu64 " of %" PRIu64
			 " bytes are whole frames, and stay", segment->sequence, store->directory,
			 segment->good_bytes, bytes);
	return 0;
}

/* ---- Every file ------------------------------------------------------------------------------ */

static int inspect_file(struct spool_store *store, struct spool_segment *segment, int file,
			bool newest)
{
	struct spool_scan scan;
	struct tally tally;
	uint64_t good_bytes;
	int err;

	spool_scan_init(&scan, store, file, 0, segment->bytes);
	err = spool_scan_head(&scan, segment);
	if (err)
		return err;
	segment->readable = true;
	if (segment->state == SEGMENT_OPEN)
		return salvage(store, segment, file, &scan);
	/* The newest is what a power cut may have torn: all of it is looked at. */
	if (newest) {
		err = scan_frames(&scan, segment, &tally);
		if (err)
			return err;
		if (!tally.ended)
			return -EBADMSG;
	}
	good_bytes = segment->good_bytes;
	err = read_end(store, segment, file);
	if (!err && newest && good_bytes != segment->good_bytes)
		err = -EBADMSG;
	if (!err && newest)
		err = spool_check(store, segment, file);
	segment->trusted = !err;
	return err;
}

/* -EBADMSG: damaged; -errno: not to be read, now. */
static int inspect(struct spool_store *store, struct spool_segment *segment, bool newest)
{
	char path[SPOOL_PATH_BYTES];
	int file, err;

	spool_store_path(store, segment->sequence, segment->state, path);
	file = store->disk->ops->open(store->disk, path, O_RDONLY);
	if (file < 0)
		return file;
	err = inspect_file(store, segment, file, newest);
	store->disk->ops->close(store->disk, file);
	return err;
}

/* What a kill leaves between the file's name and its first byte: nobody was told of anything in it. */
static void drop_empty(struct spool_store *store, struct spool_segment *segment)
{
	char path[SPOOL_PATH_BYTES];

	if (segment->state != SEGMENT_OPEN || segment->bytes)
		return;
	spool_store_path(store, segment->sequence, segment->state, path);
	if (store->disk->ops->remove(store->disk, path) != 0)
		return;			/* then it is one without a beginning */
	log_info("spool-empty", "segment %s was begun, and holds nothing: it is removed", path);
	if (segment->sequence + 1 == store->next_sequence)
		store->next_sequence--;
	spool_store_drop(store, segment);
}

static void inspect_all(struct spool_store *store)
{
	for (size_t i = store->segments; i--;)
		drop_empty(store, store->segment[i]);
	for (size_t i = 0; i < store->segments; i++) {
		struct spool_segment *segment = store->segment[i];
		bool newest = i + 1 == store->segments;
		int err;

		if (segment->state == SEGMENT_BAD)
			continue;
		if (!newest && store->segment[i + 1]->sequence == segment->sequence &&
		    store->segment[i + 1]->state != SEGMENT_BAD) {
			spool_store_set_aside(store, segment, "is there twice");
			continue;
		}
		/* It is not the disk's first chance that counts, but its second. */
		err = inspect(store, segment, newest);
		if (err && err != -EBADMSG)
			err = inspect(store, segment, newest);
		if (err == -EBADMSG && segment->state == SEGMENT_OPEN && !segment->readable) {
			/* It never came to say what it holds: nothing was told to be in it. */
			spool_store_set_aside(store, segment, "has no beginning");
			segment->hollow = true;
		} else if (err == -EBADMSG) {
			spool_store_set_aside(store, segment, "is damaged");
		} else if (err) {
			segment->readable = false;
			store->set_aside++;
			counter_add(COUNTER_spool_set_aside, 1);
			log_error("spool-unreadable",
				  "segment %" PRIu64 " of %s cannot be read: %s; it is passed over "
				  "until ringtaild starts again: check the disk",
				  segment->sequence, store->directory, strerror(-err));
		}
	}
}

/* What is missing between segments that follow each other, by their own words. */
static void name_missing(struct spool_store *store)
{
	const struct spool_segment *before = NULL;

	for (size_t i = 0; i < store->segments; i++) {
		const struct spool_segment *segment = store->segment[i];

		if (segment->state == SEGMENT_BAD || !segment->readable)
			continue;
		for (uint32_t j = 0; before && before->run.epoch == segment->run.epoch &&
				     j < segment->start->n; j++) {
			const struct position *start = &segment->start->position[j];
			const struct position *end = cursor_find(before->end, start->cpu);

			if (!end || end->seq >= start->seq)
				continue;
			counter_add(COUNTER_spool_missing, start->seq - end->seq);
			log_error("spool-missing",
				  "%s: attempts %" PRIu64 " to %" PRIu64 " of CPU %" PRIu32
				  " were in a segment that is gone or damaged, before segment %"
				  PRIu64, store->directory, end->seq, start->seq - 1, start->cpu,
				  segment->sequence);
		}
		before = segment;
	}
}

/* ---- The directory --------------------------------------------------------------------------- */

struct listing {
	struct spool_store *store;
	bool no_memory;
};

static void on_entry(void *context, const char *name, uint64_t bytes)
{
	struct listing *listing = context;
	struct spool_store *store = listing->store;
	struct spool_segment *segment;
	enum segment_state state;
	uint64_t sequence;

	if (!segment_name_parse(name, &sequence, &state) || sequence == UINT64_MAX)
		return;
	segment = spool_store_add(store, sequence, state);
	if (!segment) {
		listing->no_memory = true;
		return;
	}
	segment->bytes = bytes;
	store->bytes += bytes;
	if (sequence >= store->next_sequence)
		store->next_sequence = sequence + 1;
}

/* Of one number, what is sealed comes last and counts. */
static int by_sequence(const void *one, const void *two)
{
	const struct spool_segment *a = *(struct spool_segment *const *)one;
	const struct spool_segment *b = *(struct spool_segment *const *)two;

	if (a->sequence != b->sequence)
		return a->sequence < b->sequence ? -1 : 1;
	return (a->state == SEGMENT_SEALED) - (b->state == SEGMENT_SEALED);
}

static void drop_all(struct spool_store *store)
{
	while (store->segments)
		spool_store_drop(store, store->segment[store->segments - 1]);
}

static int list(struct spool_store *store)
{
	struct disk *disk = store->disk;
	struct listing listing = {.store = store};
	int err = disk->ops->make_directory(disk, "spool");

	if (!err)
		err = disk->ops->make_directory(disk, store->directory);
	if (!err)
		err = disk->ops->sync_directory(disk, "spool");
	if (!err)
		err = disk->ops->sync_directory(disk, ".");
	if (!err)
		err = disk->ops->list(disk, store->directory, on_entry, &listing);
	if (!err && listing.no_memory)
		err = -ENOMEM;
	if (err)
		drop_all(store);
	else if (store->segments)
		qsort(store->segment, store->segments, sizeof(store->segment[0]), by_sequence);
	return err;
}

/* By the wall clock, and that asked just once: it may have been set meanwhile. */
static int64_t ended_in_another_boot(const struct spool_store *store, size_t i)
{
	uint64_t ended = i + 1 < store->segments && store->segment[i + 1]->readable ?
				 store->segment[i + 1]->begun_realtime_ns :
				 store->segment[i]->begun_realtime_ns;
	uint64_t age = ended && ended < store->realtime_ns ? store->realtime_ns - ended : 0;

	return (int64_t)store->now_ns - (int64_t)age;
}

/* Ages count on a clock that does not jump, and that its boot's segments tell the time of. */
static void set_ages(struct spool_store *store)
{
	for (size_t i = 0; i < store->segments; i++) {
		struct spool_segment *segment = store->segment[i];
		bool this_boot = segment->readable && segment->last_time_ns &&
				 segment->last_time_ns <= store->now_ns &&
				 memcmp(segment->run.boot_id, store->config.run.boot_id,
					sizeof(segment->run.boot_id)) == 0;

		segment->ended_ns = this_boot ? (int64_t)segment->last_time_ns :
						ended_in_another_boot(store, i);
	}
}

static bool is_ours(const struct spool_store *store, const struct spool_segment *segment)
{
	return segment->state != SEGMENT_BAD && spool_segment_is_of(segment, &store->config.run);
}

int spool_store_recover(struct spool_store *store)
{
	int err = list(store);

	if (err) {
		if (!store->failing)
			log_error("spool-disk", "cannot open the spool %s: %s; check the disk and "
				  "state-dir", store->directory, strerror(-err));
		store->failing = true;
		counter_add(COUNTER_spool_disk_errors, 1);
		return err;
	}
	inspect_all(store);
	set_ages(store);
	name_missing(store);
	store->orderly = true;
	for (size_t i = 0; i < store->segments; i++) {
		const struct spool_segment *segment = store->segment[i];

		/* What was never sealed holds until the machine stops: no more than that. */
		if (is_ours(store, segment))
			store->orderly = segment->final;
		if (is_ours(store, segment) &&
		    (segment->trusted || store->config.durability == SPOOL_WRITTEN))
			cursor_assign(store->told, segment->end);
	}
	cursor_assign(store->told_durable, store->told);
	store->recovered = true;
	store->failing = false;
	return 0;
}
