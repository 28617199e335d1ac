/*
 * spool_private: the main thread's half of a spool, shared by spool.c, spool_append.c,
 * spool_reader.c.
 */
#ifndef RINGTAIL_DAEMON_SPOOL_PRIVATE_H
#define RINGTAIL_DAEMON_SPOOL_PRIVATE_H

#include <sys/queue.h>

#include "daemon/spool/spool.h"
#include "daemon/spool/store.h"

#define TICK_NS_MIN 10000000ull	/* the spools get a turn no more often */

enum spool_state {
	SPOOL_OPENING,
	SPOOL_OK,
	SPOOL_FULL,
	SPOOL_STOPPED,
	SPOOL_FAILED,		/* until retry_ns */
};

/* A frame on its way; `own`: a Gap or a range for what was counted as lost already. */
struct spool_entry {
	struct frame_ref *frame;
	uint64_t since_ns;
	bool own;
};

/* What of one ring was lost and is still to be told, as a Gap before what comes next. */
struct spool_lost {
	bool any;
	uint64_t first_seq, end_seq, events;
	Ringtail__V1__LossReason reason;
};

struct spool_ring {
	bool known;		/* `next` is: the spool's end, or what was appended last */
	bool came;		/* something was appended since it was opened */
	uint64_t next;
	uint64_t began;		/* this run's first attempt; 0: not told yet */
	uint64_t end;		/* durable up to here */
	uint64_t quiet;		/* and up to here, once a watermark is: */
	uint64_t quiet_attempts;/* so many of them */
	uint64_t said;		/* the end of the newest frame on its way that tells of its range, */
	uint64_t silent;	/* and of the newest range without one: for a watermark to tell */
	struct spool_lost lost;
};

struct spool {
	LIST_ENTRY(spool) link;
	struct spooler *spooler;
	struct spool_config config;
	struct spool_store *store;	/* the disk thread's while a job is under way */
	enum spool_state state;
	bool recovered;		/* the store knows what is there */
	bool opened, closing, seal;	/* `seal`: wanted when all that waits is written */
	bool unwanted;			/* closing: and its files go */
	bool orderly;			/* recovered: an earlier writer of this run ended orderly */
	bool lost;			/* some ring has lost something untold */
	uint64_t recorded_realtime_ns;	/* when this run began to record; 0: it has not */
	bool owes_watermark;		/* one was lost, and is made up for before what comes next */
	uint64_t owed_time_ns;

	/* In order: `handed` of them are the store's; the rest wait for a turn. */
	struct spool_entry *entry;
	size_t first, n, handed, capacity;
	uint64_t queue_bytes, queue_attempts;
	uint64_t durable;		/* the store's count, as far as popped */

	struct disk_job job;
	bool busy;
	unsigned readers;		/* that exist, or whose job is under way */
	struct spool_turn turn;
	struct spool_files files;	/* after the last turn */
	struct spool_extents *extents;	/* NULL: not known */
	struct frame_ref **turn_frame;
	size_t turn_capacity;
	struct spool_marks *begun, *turn_begun;	/* as in struct spool_turn; that one its copy */
	struct spool_marks *release, *releasing;
	uint8_t release_boot_id[16];
	uint64_t release_epoch;
	uint64_t unsynced_ns;		/* since when something waits for a sync; 0: nothing does */
	uint64_t tidied_ns;
	uint64_t retry_ns, backoff_ns;
	uint64_t failed_ns;		/* SPOOL_FAILED: since when */

	uint64_t produced, stored;
	uint64_t lost_count[LOSS_REASONS];
	struct spool_ring ring[];
};

struct spooler {
	struct spooler_config config;
	uint32_t *cpu_of;
	struct frame_codec *codec;
	struct event *tick;
	LIST_HEAD(, spool) spools;
	struct spool_orphans *orphans;
	void (*each_held)(void *holder, spooler_name *name, void *context);	/* NULL: none are */
	void *holder;
	bool ending;
};

/* spool.c */

/*
 * Gives the store what waits, or what is due; nothing, if it is at work or there is nothing to
 * do.
 */
void spool_turn(struct spool *spool);

/* Whatever it still holds is lost. */
void spool_free(struct spool *spool);

/* Frees it, if it is closing and nothing is under way. */
void spool_free_if_done(struct spool *spool);

/* spool_append.c */

/* Everything that is on its way is lost. */
void spool_lose_all(struct spool *spool, Ringtail__V1__LossReason reason);

/* What is behind the n that the store took is lost. */
void spool_lose_rest(struct spool *spool, size_t n, Ringtail__V1__LossReason reason);

/* What is on its way is not wanted any more. */
void spool_discard(struct spool *spool);

/* Attempts that are not stored and not lost. */
uint64_t spool_in_flight(const struct spool *spool);

/*
 * Puts what was lost behind what is on its way: a watermark in place of those that were, and a Gap for
 * each ring. False: without memory for all of it, the rest stays to be told, before anything else.
 */
bool spool_tell_lost(struct spool *spool);

/* The oldest n are durable. True: progress was made. */
bool spool_pop_durable(struct spool *spool, size_t n);

/* The store knows where it ends: what waits is looked at anew. */
void spool_set_ends(struct spool *spool);

#endif
