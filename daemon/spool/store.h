/*
 * spool_store: one spool's files. All of it runs on the disk thread, and may wait.
 *
 * In: frames, which the main thread holds until they are reported as durable. Out: segments. What is
 * written and not yet durable stays in `held`, so that it can be written again into another file:
 * a file that failed once, to write or to sync, is never trusted again.
 *
 * This header is of the room's inside: store.c (turns, and what goes), segment.c (one file), recover.c
 * (what an earlier daemon left), read.c (reading back) and orphans.c (those that are not open).
 */
#ifndef RINGTAIL_DAEMON_SPOOL_STORE_H
#define RINGTAIL_DAEMON_SPOOL_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/base/frame_ref.h"
#include "daemon/disk/disk.h"
#include "daemon/spool/spool.h"
#include "proto/cursor.h"
#include "proto/segment.h"

#define SPOOL_PATH_BYTES 320

struct spool_segment {
	uint64_t sequence;
	enum segment_state state;
	uint64_t bytes;			/* of the file */
	uint64_t good_bytes;		/* whole frames, without the SegmentEnd */
	uint64_t begun_realtime_ns;
	uint64_t whole_realtime_ns;	/* all from then on is in it or in later ones; of a run's first,
					   that is when recording began */
	uint64_t last_time_ns;		/* of what is in it, by its boot's clock; 0: not known */
	int64_t ended_ns;		/* monotonic; before this boot: negative */
	bool readable;			/* its head is good: what follows is known */
	bool hollow;			/* set aside, or deleted: no frame of it was ever reported as durable */
	bool trusted;			/* sealed, or never failed: what is in it is durable */
	bool final;			/* after it nothing was taken and not stored */
	bool for_consumers;		/* nothing in it was always on */
	bool is_first;			/* this daemon began none of its run before */
	bool begins_record;		/* what of its run is missing before it was not recorded */
	bool checked;			/* sealed, and its bytes have the checksum that its end says: */
	uint32_t crc32c;
	struct run run;
	struct cursor *start, *end;
};

struct spool_store_config {
	const char *name;
	struct frame_ref *hello, *catalog;	/* borrowed */
	const char *const *probe;		/* borrowed */
	size_t probes;
	const char *filter;
	uint32_t flags;
	enum spool_durability durability;
	enum spool_policy policy;
	uint64_t size_bytes, age_ns, segment_bytes;
	struct run run;
	uint32_t rings;
	const uint32_t *cpu_of;			/* by ring; borrowed */
	bool goes_on;				/* as in struct spool_config */
	bool tells_gone;			/* see struct spool_turn */
};

struct spool_store {
	struct spool_store_config config;
	struct disk *disk;
	char directory[SPOOL_PATH_BYTES];
	struct frame_codec *codec;
	uint8_t *raw;			/* one message */
	uint8_t *buffer;		/* what scan has read ahead */
	struct cursor *scratch;

	bool recovered;
	struct spool_segment **segment;	/* by sequence, oldest first */
	size_t segments, capacity;
	uint64_t bytes;			/* of all of them */
	uint64_t next_sequence;
	bool always_on;			/* what is written now: see spool_set_always_on() */
	bool failing;			/* that it fails was said already */
	bool stopped;			/* SPOOL_STOP, until half of it is free */
	size_t refused_bytes;		/* of a frame for which there was no room, nor is now; or 0 */
	bool orderly;			/* an earlier writer of this run ended orderly, or there was none */
	bool final;			/* of this turn: what is sealed is the last */

	/* The segment that is being written: the last one; NULL: the next frame begins one. */
	struct spool_segment *current;
	int file;
	uint32_t crc;
	uint64_t frames, events, first_time_ns, last_time_ns;
	bool any_durable;		/* a frame in it was reported as durable */
	uint64_t begun_ns;

	struct frame_ref **held;	/* borrowed, in order, not yet durable */
	size_t held_n, held_capacity, held_written;
	uint64_t durable;		/* entries that ever became so */
	struct cursor *told, *quiet;	/* places in the files; those behind skipped attempts, not yet in one */
	struct cursor *told_durable, *quiet_durable;

	uint64_t now_ns, realtime_ns;	/* of this turn */
	uint64_t recorded_realtime_ns;	/* when this run began to record; 0: it has not */
	bool begun_run;			/* a segment of this run was begun */
	uint64_t deleted, set_aside;
	struct spool_extents *gone;	/* since the last report; NULL: nothing */
	struct spool_shape {		/* of the list of segments, when it was reported last */
		size_t segments;
		uint64_t next_sequence, deleted, set_aside;
		bool open;
	} shape;
};

enum spool_turn_status {
	SPOOL_TURN_OK,
	SPOOL_TURN_FULL,		/* what was not taken is lost */
	SPOOL_TURN_FAILED,		/* all that was held is lost */
};

struct spool_files {
	uint64_t segments, bytes, oldest_realtime_ns, deleted, set_aside;
};

struct spool_turn {
	struct frame_ref *const *frame;	/* to be written, after those before */
	size_t frames;
	bool sync;			/* make all of it durable now */
	bool always_on;			/* what of it is written into new segments */
	bool seal;			/* and begin another segment with the next frame; */
	bool final;			/* or none ever, for this was all */
	bool remove;			/* instead of all that: every file, and the directory */
	uint64_t now_ns, realtime_ns;
	uint64_t recorded_realtime_ns;	/* see spool_set_recorded(); 0: not yet */
	const struct cursor *begun;	/* where rings begin of which nothing is there */
	const struct cursor *release;	/* NULL: nothing */

	/* What came of it. */
	bool recovered;			/* that was all this turn did: store->told is known now */
	bool orderly;			/* then: see struct spool_store */
	enum spool_turn_status status;
	int err;			/* if failed */
	size_t taken;			/* frames that are held or durable now */
	uint64_t durable;		/* of the store */
	bool unsynced;			/* something waits for a sync */
	bool full, stopped;
	struct spool_files files;
	struct spool_extents *extents;	/* the callee's; NULL: they have not changed */
	struct spool_extents *gone;	/* the callee's: segments that are no more; NULL: none */
};

/* 0, -ENOMEM. */
int spool_store_create(const struct spool_store_config *config, struct disk *disk,
		       struct spool_store **store);
void spool_store_destroy(struct spool_store *store);

void spool_store_turn(struct spool_store *store, struct spool_turn *turn);

struct spool_files spool_store_files(const struct spool_store *store);

/* From now on segments may go, and nothing is read or written: what that takes is freed. */
void spool_store_rest(struct spool_store *store);

/* ---- Shared inside --------------------------------------------------------------------------- */

/* store.c */
void spool_store_path(const struct spool_store *store, uint64_t sequence, enum segment_state state,
		      char path[SPOOL_PATH_BYTES]);
struct spool_segment *spool_store_add(struct spool_store *store, uint64_t sequence,
				      enum segment_state state);
void spool_store_drop(struct spool_store *store, struct spool_segment *segment);

/* Renames it to .bad, says so, counts. */
void spool_store_set_aside(struct spool_store *store, struct spool_segment *segment,
			   const char *why);

int spool_store_delete_oldest(struct spool_store *store);
void spool_store_remove_all(struct spool_store *store);
void spool_store_remove_unneeded(struct spool_store *store);
void spool_store_tidy(struct spool_store *store, const struct spool_turn *turn);

/* 0: there is room for so much; -EDQUOT: full; -errno: nothing can be deleted. */
int spool_store_make_room(struct spool_store *store, size_t bytes);
bool spool_segment_is_of(const struct spool_segment *segment, const struct run *run);

/* segment.c: the current one. 0 or -errno; after an error it is to be abandoned. */
int spool_segment_begin(struct spool_store *store);
int spool_segment_write(struct spool_store *store, const struct frame_ref *frame);
int spool_segment_end(struct spool_store *store);	/* the SegmentEnd alone */
int spool_segment_rename(struct spool_store *store);	/* to .seg, for good */
void spool_segment_close(struct spool_store *store);

/* Bytes of a file as frames. */
struct spool_scan {
	struct spool_store *store;
	int file;
	uint64_t offset, limit;		/* of the next frame; of what may be read */
	size_t have, at;		/* in store->buffer */
	struct frame_header header;
	const uint8_t *frame;		/* borrowed until the next call: header and body, */
	const uint8_t *raw;		/* and the message, of header.raw_bytes */
};

void spool_scan_init(struct spool_scan *scan, struct spool_store *store, int file, uint64_t offset,
		     uint64_t limit);

/* 1: a frame; 0: at the limit; -EBADMSG: there is no whole frame at `offset`; -errno. */
int spool_scan_next(struct spool_scan *scan);

/* Reads HEAD, HELLO, CATALOG, SUBSCRIBED; *segment says what they do. -EBADMSG, -errno. */
int spool_scan_head(struct spool_scan *scan, struct spool_segment *segment);

/* The checksum of a file's first bytes. 0 or -errno. */
int spool_checksum(struct spool_store *store, int file, uint64_t bytes, uint32_t *crc);

/* Whether a sealed segment's bytes are those it says it has. 0, -EBADMSG, -errno. */
int spool_check(struct spool_store *store, struct spool_segment *segment, int file);

/* Fills a SegmentEnd for `end` marks: packed as a frame. NULL: out of memory. */
struct frame_ref *spool_segment_pack_end(struct spool_store *store,
					 const struct spool_segment *segment, uint32_t crc,
					 uint64_t frames, uint64_t events, uint64_t first_time_ns,
					 uint64_t last_time_ns, const struct cursor *end);

/* recover.c. 0 or -errno: then nothing is known, and it is to be tried again. */
int spool_store_recover(struct spool_store *store);

/*
 * What each segment of a spool holds, for the main thread: made by the disk thread when the list of
 * segments has changed, and handed over.
 */
struct spool_extent {
	struct run run;
	uint64_t bytes;
	struct cursor *start;
	struct cursor *end;	/* NULL: it is being written, and its bytes are not counted here */
};

struct spool_extents {
	size_t n;
	uint64_t bytes;			/* of all of them */
	struct spool_extent extent[];
};

/* NULL: out of memory. */
struct spool_extents *spool_extents_create(const struct spool_store *store);
void spool_extents_destroy(struct spool_extents *extents);

/* What changed since the last report, for the main thread: NULL, nothing; or there is no memory, and the next tells. */
void spool_store_report(struct spool_store *store, struct spool_extents **extents, struct spool_extents **gone);

/* The attempts of a segment: all, and those that are not before a place. */
struct spool_share {
	uint64_t all, behind;
};

/*
 * begun: where the rings of this run begin, for a CPU that came when the segment was being written; now: how far the
 * segment goes that is being written. Nothing of an earlier run than the place's is behind it, and all of a later one.
 */
struct spool_share spool_extent_share(const struct spool_extent *extent, const struct cursor *begun,
				      const struct cursor *now, const struct cursor *place);

/* About how many bytes are behind that place; total: of the whole spool, now. The rest as before. */
uint64_t spool_extents_behind(const struct spool_extents *extents, uint64_t total, const struct cursor *begun,
			      const struct cursor *now, const struct cursor *place);

#endif
