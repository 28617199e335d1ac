/*
 * spool: frames of durable subscriptions on disk, as segments (docs/spool.md).
 *
 *	state-dir/spool/NAME/0000000000000001.seg ... 0000000000000007.open
 *
 * In: the finished frames of one subscription. Out: up to which place they are durable; and the frames again, for a
 * reader. One disk thread serves all spools. The main thread makes these calls, and its loop gets the answers. A frame
 * stays in memory until it is as durable as the option `durability` wants.
 */
#ifndef RINGTAIL_DAEMON_SPOOL_SPOOL_H
#define RINGTAIL_DAEMON_SPOOL_SPOOL_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/disk/thread.h"
#include "query/error.h"
#include "daemon/base/frame_ref.h"
#include "proto/cursor.h"

struct spooler;		/* all of them, above one disk thread */
struct spool;		/* one subscription's segments */
struct spool_reader;	/* somebody's place in them */

enum spool_durability {
	SPOOL_MEMORY,	/* no spool */
	SPOOL_WRITTEN,	/* survives the daemon */
	SPOOL_FSYNC,	/* survives the machine */
};

enum spool_policy {
	SPOOL_DROP_OLDEST,	/* segments go, acknowledged or not */
	SPOOL_DROP_NEW,		/* new frames are lost while it is full */
	SPOOL_STOP,		/* the same, until somebody has acknowledged half of it */
};

struct spooler_config {
	struct event_base *base;
	struct disk_thread *thread;	/* of the state directory; borrowed */
	enum spool_durability durability;
	enum spool_policy policy;
	uint64_t size_bytes;		/* of each spool, and of all together that nobody asks for */
	uint64_t age_ns;
	uint64_t segment_bytes;
	uint64_t sync_interval_ns;	/* SPOOL_FSYNC: how long a frame waits at most */
	struct run run;			/* this one */
	uint32_t rings;
	const uint32_t *cpu_of;		/* by ring; borrowed */
};

int spooler_create(const struct spooler_config *config, struct spooler **spooler,
		   struct error *error);

/* With each tick of its own; a turn for each spool, where it is due. */
void spooler_turn(struct spooler *spooler);

/* Seals and syncs what is open; waits for the disk. Nobody is called any more. NULL is safe. */
void spooler_destroy(struct spooler *spooler);

/* What one segment holds. */
struct spool_extent;

struct spool_config {
	const char *name;		/* of its directory; copied */
	/* What a segment begins with after its SegmentHead. Taken over. */
	struct frame_ref *hello, *catalog;
	const char *const *probe;	/* for people; copied */
	size_t probes;
	const char *filter;
	uint32_t flags;
	bool goes_on;		/* with what the run before recorded: what is missing, it lost */
	bool always_on;		/* as spool_set_always_on() */

	/*
	 * It is open, recovered: end[ring] is one past this epoch's last attempt on disk, or 0. If the disk cannot be
	 * read, it is called with zeros, and again once that is known; nothing was stored until then. If there is no memory
	 * to count what the disk has, it is called again, with the ends of the last progress(), once that is counted.
	 */
	void (*opened)(void *context, const uint64_t *end);
	/* Every attempt before end[ring] is durable. */
	void (*progress)(void *context, const uint64_t *end);
	/*
	 * A segment is deleted, or set aside: what it held is no more. It may be called before opened(), for what became too
	 * old, or was damaged, while the spool was not open. NULL: nobody counts that.
	 */
	void (*gone)(void *context, const struct spool_extent *extent);
	void *context;
};

/* Opens or makes it; opened() follows. */
int spool_open(struct spooler *spooler, const struct spool_config *config, struct spool **spool,
	       struct error *error);

/* After what was given in is durable, or given up. The files stay. */
void spool_close(struct spool *spool);

/* The same, but what is there for consumers alone goes, and the directory, if it is empty then. */
void spool_remove(struct spool *spool);

/*
 * The reason of the Gap between the frames that an earlier daemon stored of these rings and the frames of this one:
 * nothing was recorded meanwhile, or the daemon died. Call it after the spool is open.
 */
enum loss_reason spool_missing_reason(const struct spool *spool);

/*
 * Declares where this run begins on a ring; call it before the first frame. If the disk ends earlier, a Gap is stored,
 * so that the next watermark cannot count those attempts as skipped. If the disk has nothing, a reader that resumes
 * from an earlier place gets a Gap.
 */
void spool_begin_ring(struct spool *spool, uint32_t ring, uint64_t seq);

/* From that time on, this run records what the spool is of; the first word counts. */
void spool_set_recorded(struct spool *spool, uint64_t realtime_ns);

/* Why what is missing before `end` is: it was of an earlier run, or the spool was full. */
enum loss_reason spool_gap_reason(const struct spool *spool, uint32_t ring, uint64_t end);

/*
 * The next frame: of the same kinds and in the same order as in the subscription's log; ranges
 * without bytes may be passed, too, and are durable together with the next watermark. The spool owns the
 * reference. Where the first of a ring does not begin where the spool ends, a Gap for
 * what is missing (spool_missing_reason()) is put before it; what the spool has already is passed
 * over.
 */
void spool_append(struct spool *spool, struct frame_ref *frame);

/*
 * What is recorded from now on is always on, or is kept for durable consumers alone. A segment with
 * anything in it that was always on is deleted for spool-size and spool-age only: spool_release() and
 * spool_remove() leave it, and what is newer.
 */
void spool_set_always_on(struct spool *spool, bool always_on);

/* Nobody needs what is before these places any more; segments wholly before them go. */
void spool_release(struct spool *spool, const struct cursor *upto);

struct spool_stat {
	uint64_t segments, bytes, oldest_realtime_ns;
	uint64_t produced, stored, in_flight;	/* attempts */
	uint64_t lost[LOSS_REASONS];		/* stage spool */
	uint64_t deleted, set_aside;
	const char *state;			/* "ok", "full", "stopped", "failed"; "unused", "held" */
	const struct spool_config *config;	/* name, probe, filter */
	uint64_t size_bytes;			/* its bound */
	uint64_t unstored_ns;			/* what is older is durable, or lost */
};

void spool_stat(const struct spool *spool, struct spool_stat *stat);

/* Every attempt of the ring before is durable. */
uint64_t spool_durable(const struct spool *spool, uint32_t ring);

/*
 * How many attempts on disk are not before that place: of one segment; and of all, of this run up to end[ring], as it
 * was reported. What is missing between segments does not count.
 */
uint64_t spool_extent_behind(const struct spool *spool, const struct spool_extent *extent, const struct cursor *place);
uint64_t spool_attempts_behind(const struct spool *spool, const uint64_t *end, const struct cursor *place);

/* What is stored of the ring begins here, or where the disk ended when it was opened. */
uint64_t spool_first(const struct spool *spool, uint32_t ring);

/* About how many bytes on disk are behind that place. */
uint64_t spool_behind(const struct spool *spool, const struct cursor *place);

/* ---- Those that are not open ----------------------------------------------------------------- */

/*
 * A spool in the directory that is not open is unused: its segments are deleted when they are too old, or when all
 * unused ones exceed spool-size. Spools whose names the holder passes are kept for consumers that cannot be
 * opened now; they have bounds of their own, as if they were open. each_held: NULL, none are.
 */
typedef void spooler_name(void *context, const char *name);
void spooler_set_holder(struct spooler *spooler,
			void (*each_held)(void *holder, spooler_name *name, void *context),
			void *holder);

/* Whether one of that name is open. */
bool spooler_has(const struct spooler *spooler, const char *name);

/* The same of one that is not open. */
void spooler_remove(struct spooler *spooler, const char *name);

/* `each` for every one; its ledger is empty. What it points to stays until the loop's next turn. */
void spooler_each_orphan(const struct spooler *spooler,
			 void (*each)(void *context, const struct spool_stat *stat), void *context);
unsigned spooler_orphans(const struct spooler *spooler);

/* ---- All of them ----------------------------------------------------------------------------- */

/* All that are open, in no order: `each` for every one. */
void spooler_each(const struct spooler *spooler,
		  void (*each)(void *context, const struct spool *spool), void *context);
unsigned spooler_count(const struct spooler *spooler);
enum spool_durability spooler_durability(const struct spooler *spooler);

/* How long an event waits for the disk at most, if that is well; 0 unless SPOOL_FSYNC. */
uint64_t spooler_sync_interval_ns(const struct spooler *spooler);

/* ---- Reading --------------------------------------------------------------------------------- */

/*
 * Where to begin: a cursor, or a time: with the segment that was being written then, which begins
 * somewhat before it. A cursor of an epoch that the spool knows nothing of begins with the oldest.
 */
struct spool_place {
	const struct cursor *cursor;	/* NULL: realtime_ns; 0: the oldest there is */
	uint64_t realtime_ns;
};

/*
 * Some frames in order, each with a reference that the callee takes over; the array stays until the
 * reader is asked again or destroyed. `end`: that was all there is on disk now. n may be 0. Ring by ring
 * there is no hole: what was skipped is a Batch without bytes, what is missing is a Gap of stage spool
 * (spool full: deleted; corrupt; disk). A batch may begin before the cursor. A frame of another epoch
 * than the daemon's has RING_EARLIER, and before the first of each such epoch come its ServerHello,
 * Catalog and Subscribed.
 */
typedef void spool_frames(void *context, struct frame_ref *const *frame, unsigned n, bool end);

int spool_reader_create(struct spool *spool, const struct spool_place *place, spool_frames *frames,
			void *context, struct spool_reader **reader);

/* Asks for up to about that many bytes more; frames() follows, later. One question at a time. */
void spool_reader_next(struct spool_reader *reader, size_t bytes);
void spool_reader_destroy(struct spool_reader *reader);

#endif
