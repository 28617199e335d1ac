/*
 * worker: a drain worker: one thread and event loop that owns a set of rings and turns their bytes
 * into finished frames for the main loop. No lock and no allocation for each record.
 *
 * In: rings, and orders from the main thread. Out: struct worker_mail in the main thread's mailbox,
 * in order: for each ring, frames are contiguous, and a watermark comes after every frame that it covers.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_WORKER_H
#define RINGTAIL_DAEMON_COLLECT_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/collect/batcher.h"
#include "query/error.h"
#include "daemon/base/frame_ref.h"
#include "daemon/base/mailbox.h"
#include "daemon/programs/inlet.h"
#include "daemon/ring/probe_table.h"
#include "daemon/ring/reader.h"
#include "daemon/source/source.h"

struct redaction;
struct worker;

/* What fills one of the worker's rings, on its thread, before the worker reads it. */
struct worker_feed {
	void (*pull)(void *context, uint64_t until_ns, struct inlet_pulled *pulled);	/* NULL: nothing */
	void *context;
};

struct worker_config {
	uint32_t id;
	uint64_t batch_interval_ns;	/* how long an event may wait for its batch */
	const struct probe_table *probes;
	struct meter *meter;		/* of this worker; borrowed; NULL: none */
	struct mailbox *out;
	struct worker_feed feed;
};

struct worker_position {
	uint32_t ring;			/* index among all rings */
	uint64_t seq;
};

struct worker_mail {
	struct mail mail;
	enum worker_mail_kind {
		WORKER_FRAME,		/* frame; its bytes are 0 for a range of nothing but skips */
		WORKER_WATERMARK,	/* time_ns: every frame up to there was sent before */
		WORKER_STARTED,		/* subscription, positions: it begins there */
		WORKER_REMOVED,		/* subscription: nothing more comes of it */
		WORKER_EMPTIED,		/* everything the rings held is out */
		WORKER_CORRUPT,		/* ring: it breaks its rules and is read no more */
	} kind;
	uint32_t worker;
	uint32_t subscription;		/* index */
	uint32_t ring;			/* WORKER_CORRUPT */
	uint64_t time_ns;
	struct frame_ref *frame;
	uint32_t positions;
	struct worker_position position[];
};

/*
 * The handoff from a worker to the main thread. In: finished frames, answers, watermarks. Out: mails, in
 * order, with no more than HANDOFF_BYTES_MAX of frames on the way. The worker's thread, but for `bytes`.
 *
 * A frame needs memory for its mail, and where there is none it is not taken: its batcher owes it.
 */
struct handoff {
	uint32_t id;			/* the worker's */
	struct mailbox *mailbox;
	struct frame_codec *codec;
	_Atomic uint64_t bytes;		/* sent and not yet taken by the main thread */
};

/* A batcher_sink, `context` being a struct handoff. */
bool handoff_frame(void *context, uint32_t subscription, struct frame_ref *frame);

/* Where there is no memory for one, the next says the same and more. */
void handoff_watermark(struct handoff *handoff, uint64_t time_ns);

/* What a ring's ledger says; see struct RingStat in the proto. */
struct worker_ring_stat {
	struct ring_usage usage;
	uint64_t events, meta, bad;
	uint64_t named[RT_LOST_REASONS];	/* lost, of a probe that the producer knew */
	uint64_t stuck_ns;		/* drain_watch(); 0: it goes on */
};

int worker_create(const struct worker_config *config, struct worker **worker, struct error *error);

/* Before worker_start: a ring, under its index among all rings. */
int worker_add_ring(struct worker *worker, uint32_t ring, const struct ring_handle *source,
		    struct error *error);

/*
 * What an earlier run has left in the rings (ring_reader_epoch()): reading goes on at attempt `seq`.
 * Before worker_start; -ENOENT if the ring is not this worker's.
 */
struct worker_baseline {
	uint64_t epoch, seq;
};

int worker_baseline(const struct worker *worker, uint32_t ring, struct worker_baseline *baseline);

/* Before worker_start: within what all its rings count. */
void worker_set_epoch(struct worker *worker, uint64_t epoch);

/*
 * Before worker_start: the ring's threads are those of the journal, into which what is learnt of them
 * goes from now on. NULL: none, and nowhere.
 */
void worker_keep_threads(struct worker *worker, uint32_t ring, struct thread_ring *journal);

/*
 * Before worker_start: a subscription that the kernel is recording for already. It begins with each
 * ring's next attempt, at once; no mail says so. The spec is borrowed until WORKER_REMOVED. -ENOMEM.
 */
int worker_adopt_subscription(struct worker *worker, uint32_t subscription,
			      const struct batcher_spec *spec);

int worker_start(struct worker *worker, struct error *error);

/*
 * Drains, flushes, and reports how far every ring has come; returns how many records there were. The
 * thread does that at each tick; without worker_start, whoever is in its place.
 */
uint64_t worker_pass(struct worker *worker);

/* Ends the thread and frees all. NULL is safe. */
void worker_destroy(struct worker *worker);

/* Orders; each is answered by a mail. The spec is borrowed until WORKER_REMOVED. -ENOMEM. */
int worker_add_subscription(struct worker *worker, uint32_t subscription,
			    const struct batcher_spec *spec);
int worker_remove_subscription(struct worker *worker, uint32_t subscription);
/* All that the rings hold is sent; then they are empty, where the producers have stopped. */
int worker_empty(struct worker *worker);

/*
 * As worker_empty, where the producers go on and a later run of the daemon reads what they write: what
 * the rings hold now is sent, and from then on they are left alone. Answered by WORKER_EMPTIED.
 */
int worker_leave(struct worker *worker);

/* For a new configuration. */
void worker_set_batch_interval(struct worker *worker, uint64_t interval_ns);

/*
 * What the rings' records must not show, from the next record on that is read; NULL: they show all. What
 * was there before is used no more when this returns. Before worker_start too.
 */
void worker_set_redaction(struct worker *worker, const struct redaction *redaction);

/* Its passes, one a second at least until it leaves its rings: who counts on, lives. Any thread. */
uint64_t worker_beats(const struct worker *worker);

/*
 * A copy of a ring's ledger as of the end of the worker's last pass; from any thread. -ENOENT if the
 * ring is not this worker's.
 */
int worker_ring_stat(struct worker *worker, uint32_t ring, struct worker_ring_stat *stat);

/* The main thread took a mail, whose frame (if any) has that many bytes: frees it, not the frame. */
void worker_mail_free(struct worker *worker, struct worker_mail *mail, uint64_t frame_bytes);

#endif
