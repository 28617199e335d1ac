/*
 * The main thread's half of a spool: what is on its way to the disk and what became of it, turns on the
 * disk thread, and readers. The ledger: produced = stored + lost + what is in the queue, in attempts.
 */
#include "daemon/spool/spool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/spool/frame.h"
#include "daemon/spool/orphans.h"
#include "daemon/spool/read.h"
#include "daemon/spool/store.h"

#define TICK_NS_MIN 10000000ull	/* the spools get a turn no more often */

/* From its owner's view; only forward. */
enum spool_life {
	SPOOL_IN_USE,
	SPOOL_CLOSING,		/* what waits is still to be written, and then the segment to be ended */
	SPOOL_REMOVING,		/* its files are still to go */
	SPOOL_CLOSED,		/* that is done, or given up: it goes when nothing is under way */
};

/* From the disk's view. From SPOOL_OK on it is known what is there. */
enum spool_state {
	SPOOL_OPENING,		/* what an earlier daemon left is looked at */
	SPOOL_UNREAD,		/* that failed; at retry_ns it is tried again */
	SPOOL_OK,
	SPOOL_FULL,
	SPOOL_STOPPED,
	SPOOL_FAILED,		/* it cannot be written; at retry_ns it is tried again */
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
	enum loss_reason reason;
};

struct spool_ring {
	bool known;		/* `next` is: the spool's end, or what was appended last */
	bool came;		/* something was appended since it was opened */
	uint64_t next;
	uint64_t began;		/* this run's first attempt; 0: not told yet */
	bool found;		/* the disk had something of it when it was opened, were it only where it begins */
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
	enum spool_life life;
	enum spool_state state;
	bool orderly;			/* once it is known: an earlier writer of this run ended orderly */
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
	bool owes_opened;		/* it is open, and there was no memory for `extents`: opened() is called again */
	struct frame_ref **turn_frame;
	size_t turn_capacity;
	struct cursor *begun, *turn_begun;	/* as in struct spool_turn; that one its copy */
	struct cursor *now;		/* of a question: the end of each ring, in their order */
	uint64_t *told_end;		/* by ring, for opened() and progress() */
	struct cursor *release, *releasing;
	uint64_t unsynced_ns;		/* since when something waits for a sync; 0: nothing does */
	uint64_t tidied_ns;
	uint64_t retry_ns, backoff_ns;
	uint64_t failed_ns;		/* SPOOL_UNREAD, SPOOL_FAILED: since when */

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
};

static uint64_t attempts_of(const struct frame_ref *frame)
{
	return frame_ref_is_range(frame) ? frame_ref_attempts(frame) : 0;
}

/* What it costs in memory. */
static uint64_t cost_of(const struct frame_ref *frame)
{
	return frame->bytes + sizeof(*frame) + sizeof(struct spool_entry);
}

/* ---- Losing ---------------------------------------------------------------------------------- */

static void lose_range(struct spool *spool, struct spool_ring *ring, uint64_t first_seq,
		       uint64_t end_seq, uint64_t events, enum loss_reason reason)
{
	struct spool_lost *lost = &ring->lost;

	if (!lost->any)
		*lost = (struct spool_lost){.any = true, .first_seq = first_seq,
					    .end_seq = end_seq};
	if (lost->first_seq > first_seq)
		lost->first_seq = first_seq;
	if (lost->end_seq < end_seq)
		lost->end_seq = end_seq;
	lost->events += events;
	lost->reason = reason;
	spool->lost = true;
}

static void count_lost(struct spool *spool, uint64_t attempts, enum loss_reason reason)
{
	spool->lost_count[reason] += attempts;
}

/* How far the ring is told of: by frames that do so themselves, and by a watermark that is to come. */
static void note_range(struct spool_ring *ring, const struct frame_ref *frame)
{
	if (frame->bytes)
		ring->said = frame->end_seq;
	else if (ring->silent < frame->end_seq)
		ring->silent = frame->end_seq;
}

/* Takes the reference. What is our own was counted before, but is to be told once more. */
static void lose(struct spool *spool, struct spool_entry entry, enum loss_reason reason)
{
	struct frame_ref *frame = entry.frame;

	if (frame_ref_is_range(frame)) {
		struct spool_ring *ring = &spool->ring[frame->ring];

		if (!frame->bytes)
			note_range(ring, frame);
		lose_range(spool, ring, frame->first_seq, frame->end_seq,
			   frame->events + frame_ref_losses(frame),
			   entry.own && frame->losses ? frame->loss[0].reason : reason);
		if (!entry.own)
			count_lost(spool, attempts_of(frame), reason);
	} else {
		spool->owes_watermark = true;
		if (spool->owed_time_ns < frame->time_ns)
			spool->owed_time_ns = frame->time_ns;
	}
	frame_ref_put(frame);
}

/* ---- The queue ------------------------------------------------------------------------------- */

static struct spool_entry *at(struct spool *spool, size_t i)
{
	return &spool->entry[(spool->first + i) & (spool->capacity - 1)];
}

static int grow(struct spool *spool)
{
	size_t capacity = spool->capacity ? 2 * spool->capacity : 64;
	struct spool_entry *entry = malloc(capacity * sizeof(*entry));

	if (!entry)
		return -ENOMEM;
	for (size_t i = 0; i < spool->n; i++)
		entry[i] = *at(spool, i);
	free(spool->entry);
	spool->entry = entry;
	spool->capacity = capacity;
	spool->first = 0;
	return 0;
}

/* Takes the reference, or -ENOMEM. */
static int push(struct spool *spool, struct spool_entry entry)
{
	if (spool->n == spool->capacity && grow(spool) != 0)
		return -ENOMEM;
	entry.since_ns = clock_monotonic();
	if (frame_ref_is_range(entry.frame))
		note_range(&spool->ring[entry.frame->ring], entry.frame);
	*at(spool, spool->n++) = entry;
	spool->queue_bytes += cost_of(entry.frame);
	if (!entry.own)
		spool->queue_attempts += attempts_of(entry.frame);
	return 0;
}

static void uncount(struct spool *spool, const struct spool_entry *entry)
{
	spool->queue_bytes -= cost_of(entry->frame);
	if (!entry->own)
		spool->queue_attempts -= attempts_of(entry->frame);
}

static struct spool_entry pop(struct spool *spool)
{
	struct spool_entry entry = *at(spool, 0);

	spool->first = (spool->first + 1) & (spool->capacity - 1);
	spool->n--;
	if (spool->handed)
		spool->handed--;
	uncount(spool, &entry);
	return entry;
}

/* Of ranges without a frame, the watermark that should have told of them. */
static void lose_quiet(struct spool *spool, struct spool_ring *ring, enum loss_reason reason)
{
	if (!ring->quiet_attempts)
		return;
	lose_range(spool, ring, ring->quiet - ring->quiet_attempts, ring->quiet, 0, reason);
	count_lost(spool, ring->quiet_attempts, reason);
	ring->quiet_attempts = 0;
}

/* What says of itself is what is durable, and what is still on its way. */
static void note_said(struct spool *spool)
{
	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		spool->ring[i].said = spool->ring[i].end;
	for (size_t i = 0; i < spool->n; i++) {
		const struct frame_ref *frame = at(spool, i)->frame;

		if (frame_ref_is_range(frame) && frame->bytes)
			spool->ring[frame->ring].said = frame->end_seq;
	}
}

/* Everything that is on its way is lost. */
static void lose_all(struct spool *spool, enum loss_reason reason)
{
	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		lose_quiet(spool, &spool->ring[i], reason);
	while (spool->n)
		lose(spool, pop(spool), reason);
	note_said(spool);
}

/* What is on its way is not wanted any more. */
static void discard(struct spool *spool)
{
	while (spool->n)
		frame_ref_put(pop(spool).frame);
}

/* Attempts that are not stored and not lost. */
static uint64_t in_flight(const struct spool *spool)
{
	uint64_t attempts = spool->queue_attempts;

	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		attempts += spool->ring[i].quiet_attempts;
	return attempts;
}

/* What is behind the n that the store took is lost. */
static void lose_rest(struct spool *spool, size_t n, enum loss_reason reason)
{
	for (size_t i = n; i < spool->n; i++) {
		uncount(spool, at(spool, i));
		lose(spool, *at(spool, i), reason);
	}
	spool->n = n;
	note_said(spool);
}

/* Where the ring's ranges without a frame end, before what was lost of it; 0: it has none. */
static uint64_t silent_end(const struct spool_ring *ring)
{
	uint64_t end = ring->silent;

	if (ring->lost.any && ring->lost.events && ring->lost.first_seq < end)
		end = ring->lost.first_seq;
	return end > ring->said ? end : 0;
}

/* A watermark in place of those that were lost. False: out of memory. */
static bool push_owed_watermark(struct spool *spool)
{
	uint32_t rings = spool->spooler->config.rings, n = 0;
	Ringtail__V1__Position *position = calloc(rings, sizeof(*position));
	Ringtail__V1__Position **list = calloc(rings, sizeof(*list));
	struct frame_ref *frame = NULL;
	bool pushed = false;

	for (uint32_t i = 0; position && list && i < rings; i++) {
		uint64_t end = silent_end(&spool->ring[i]);

		if (!end)
			continue;
		ringtail__v1__position__init(&position[n]);
		position[n].cpu = spool->spooler->cpu_of[i];
		position[n].seq = end;
		position[n].skipped = end - spool->ring[i].said;
		list[n] = &position[n];
		n++;
	}
	if (position && list)
		frame = spool_frame_watermark(spool->spooler->codec, spool->owed_time_ns, list, n);
	if (frame)
		pushed = push(spool, (struct spool_entry){.frame = frame, .own = true}) == 0;
	if (!pushed)
		frame_ref_put(frame);
	spool->owes_watermark = !pushed;
	free(list);
	free(position);
	return pushed;
}

/* A range that held nothing but what was skipped needs no Gap: the next watermark tells of it. */
static struct frame_ref *lost_frame(struct spool *spool, uint32_t i, const struct spool_lost *lost)
{
	uint32_t cpu = spool->spooler->cpu_of[i];
	struct frame_ref *frame;

	if (lost->events)
		return spool_frame_gap(spool->spooler->codec, cpu, lost->first_seq, lost->end_seq,
				       lost->events, lost->reason);
	frame = frame_ref_create(FRAME_BATCH, 0);
	if (frame) {
		frame->cpu = cpu;
		frame->first_seq = lost->first_seq;
		frame->end_seq = lost->end_seq;
		frame->skipped = lost->end_seq - lost->first_seq;
	}
	return frame;
}

/* Of each ring that lost events, or of each that did not. False: for some there is no memory. */
static bool push_lost(struct spool *spool, bool events)
{
	bool all = true;

	for (uint32_t i = 0; i < spool->spooler->config.rings; i++) {
		struct spool_lost *lost = &spool->ring[i].lost;
		struct frame_ref *frame;

		if (!lost->any || (lost->events != 0) != events)
			continue;
		frame = lost_frame(spool, i, lost);
		if (frame)
			frame->ring = i;
		if (frame && push(spool, (struct spool_entry){.frame = frame, .own = true}) == 0) {
			lost->any = false;
			continue;
		}
		frame_ref_put(frame);
		all = false;
	}
	return all;
}

/*
 * Puts what was lost behind what is on its way: a watermark in place of those that were, and a Gap for
 * each ring. The watermark stands behind all that it tells of, and before the next frame of the same ring.
 * False: without memory for all of it, the rest stays to be told, before anything else.
 */
static bool tell_lost(struct spool *spool)
{
	if (spool->lost && !push_lost(spool, false))
		return false;
	if (spool->owes_watermark && !push_owed_watermark(spool))
		return false;
	if (spool->lost)
		spool->lost = !push_lost(spool, true);
	return !spool->lost;
}

/* ---- Durable --------------------------------------------------------------------------------- */

static bool raise(uint64_t *end, uint64_t to)
{
	if (*end >= to)
		return false;
	*end = to;
	return true;
}

/* What a frame that is durable now says of its ring; a watermark, of ranges without a frame. */
static bool note_durable(struct spool *spool, const struct spool_entry *entry)
{
	const struct frame_ref *frame = entry->frame;
	uint64_t attempts = entry->own ? 0 : attempts_of(frame);
	bool any = false;

	if (frame_ref_is_range(frame) && frame->bytes) {
		any = raise(&spool->ring[frame->ring].end, frame->end_seq);
		spool->stored += attempts;
	} else if (frame_ref_is_range(frame)) {
		raise(&spool->ring[frame->ring].quiet, frame->end_seq);
		spool->ring[frame->ring].quiet_attempts += attempts;
	} else if (frame->type == FRAME_WATERMARK) {
		for (uint32_t i = 0; i < spool->spooler->config.rings; i++) {
			struct spool_ring *ring = &spool->ring[i];

			any |= raise(&ring->end, ring->quiet);
			spool->stored += ring->quiet_attempts;
			ring->quiet_attempts = 0;
		}
	}
	return any;
}

/* The oldest n are durable. True: progress was made. */
static bool pop_durable(struct spool *spool, size_t n)
{
	bool any = false;

	while (n--) {
		struct spool_entry entry = pop(spool);

		any |= note_durable(spool, &entry);
		frame_ref_put(entry.frame);
	}
	return any;
}

/* ---- Appending ------------------------------------------------------------------------------- */

static bool has_failed(const struct spool *spool)
{
	return spool->state == SPOOL_UNREAD || spool->state == SPOOL_FAILED;
}

static bool losing(const struct spool *spool)
{
	return spool->state == SPOOL_FULL || spool->state == SPOOL_STOPPED ||
	       spool->state == SPOOL_UNREAD ||
	       (spool->state == SPOOL_FAILED && clock_monotonic() < spool->retry_ns);
}

static enum loss_reason reason_of(const struct spool *spool)
{
	return has_failed(spool) ? LOSS_REASON_DISK : LOSS_REASON_SPOOL_FULL;
}

/* Between the spool's end and the first that came after it was opened. */
static void name_hole(struct spool *spool, struct spool_ring *ring, uint64_t first_seq)
{
	enum loss_reason reason = spool_missing_reason(spool);
	uint64_t missing = first_seq - ring->next;

	spool->produced += missing;
	lose_range(spool, ring, ring->next, first_seq, missing, reason);
	count_lost(spool, missing, reason);
}

/* This run begins beyond what an earlier one stored. */
static void name_hole_before_run(struct spool *spool, struct spool_ring *ring)
{
	if (!ring->known || ring->came || ring->began <= ring->next)
		return;
	name_hole(spool, ring, ring->began);
	ring->next = ring->began;
	ring->came = true;
}

/* False: the spool has it already. */
static bool note_appended(struct spool *spool, const struct frame_ref *frame)
{
	struct spool_ring *ring;

	if (!frame_ref_is_range(frame))
		return true;
	ring = &spool->ring[frame->ring];
	if (ring->known && frame->end_seq <= ring->next)
		return false;
	if (ring->known && !ring->came && frame->first_seq > ring->next)
		name_hole(spool, ring, frame->first_seq);
	spool->produced += frame_ref_attempts(frame);
	ring->next = frame->end_seq;
	ring->known = ring->came = true;
	return true;
}

/*
 * Takes the reference. What is lost while the spool is opened is told before all that waits, for only then the
 * spool's end is known. So all that waits is lost with it: else it would count as what the spool has already.
 */
static void append(struct spool *spool, struct frame_ref *frame)
{
	enum loss_reason reason = LOSS_REASON_QUEUE_FULL;
	struct spool_entry entry = {.frame = frame};
	bool told;

	if (!note_appended(spool, frame)) {
		frame_ref_put(frame);
		return;
	}
	if (losing(spool)) {
		lose(spool, entry, reason_of(spool));
		return;
	}
	if (spool->queue_bytes + cost_of(frame) <= SPOOL_HELD_BYTES_MAX) {
		/* Before the spool's end is known, only a watermark has its place. */
		if (spool->state == SPOOL_OPENING)
			told = !spool->owes_watermark || push_owed_watermark(spool);
		else
			told = tell_lost(spool);
		if (told && push(spool, entry) == 0)
			return;
		reason = LOSS_REASON_MEMORY;
	}
	if (spool->state == SPOOL_OPENING)
		lose_all(spool, reason);
	lose(spool, entry, reason);
}

/* The store knows where it ends: what waits is looked at anew. */
static void set_ends(struct spool *spool)
{
	const struct cursor *told = spool->store->told;
	bool owes = spool->owes_watermark;
	size_t n = spool->n;

	for (uint32_t i = 0; i < spool->spooler->config.rings; i++) {
		struct spool_ring *ring = &spool->ring[i];
		const struct position *mark =
			cursor_find(told, spool->spooler->cpu_of[i]);

		ring->came = false;
		ring->silent = ring->lost.any ? ring->lost.end_seq : 0;
		ring->known = ring->found = mark;
		ring->next = ring->end = ring->said = mark ? mark->seq : 0;
		if (mark && ring->lost.any && ring->lost.first_seq > mark->seq)
			name_hole(spool, ring, ring->lost.first_seq);
		if (ring->lost.any) {
			ring->next = ring->lost.end_seq;
			ring->known = ring->came = true;
		}
		name_hole_before_run(spool, ring);
	}
	/* What is owed belongs behind all that came. */
	spool->owes_watermark = false;
	tell_lost(spool);
	/* What came before that was known comes once more. */
	while (n--) {
		struct spool_entry entry = pop(spool);

		spool->produced -= attempts_of(entry.frame);
		append(spool, entry.frame);
	}
	spool->owes_watermark |= owes;
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static struct spool *of_job(struct disk_job *job)
{
	return (struct spool *)((char *)job - offsetof(struct spool, job));
}

static void on_run(struct disk_job *job, struct disk *disk)
{
	struct spool *spool = of_job(job);

	(void)disk;
	spool_store_turn(spool->store, &spool->turn);
}

/* The next frames, as many as one turn may have. */
static void gather(struct spool *spool)
{
	struct spool_turn *turn = &spool->turn;
	size_t bytes = 0, waiting = spool->n - spool->handed;

	if (waiting > spool->turn_capacity) {
		struct frame_ref **larger =
			realloc(spool->turn_frame, 2 * waiting * sizeof(*larger));

		if (larger) {
			spool->turn_frame = larger;
			spool->turn_capacity = 2 * waiting;
		}
	}
	turn->frame = spool->turn_frame;
	while (turn->frames < waiting && turn->frames < spool->turn_capacity &&
	       bytes < SPOOL_TURN_BYTES) {
		struct frame_ref *frame = at(spool, spool->handed + turn->frames)->frame;

		spool->turn_frame[turn->frames++] = frame;
		bytes += frame->bytes;
	}
}

static bool sync_due(const struct spool *spool, uint64_t now_ns)
{
	const struct spooler_config *config = &spool->spooler->config;

	if (config->durability != SPOOL_FSYNC)
		return false;
	/* More often than the tick comes: with every turn. */
	if (config->sync_interval_ns < 2 * TICK_NS_MIN || spool->life >= SPOOL_CLOSING)
		return true;
	/* Half of it, for the tick comes twice in it. */
	return spool->unsynced_ns && now_ns - spool->unsynced_ns >= config->sync_interval_ns / 2;
}

/* Whether its end is still to be written, or its files are to go. */
static bool is_ending(const struct spool *spool)
{
	return spool->life == SPOOL_CLOSING || spool->life == SPOOL_REMOVING;
}

/* Whether there is anything to do that needs the disk. */
static bool turn_due(const struct spool *spool, uint64_t now_ns)
{
	if (is_ending(spool) || spool->state == SPOOL_OPENING)
		return true;
	if (has_failed(spool))
		return now_ns >= spool->retry_ns;
	return spool->n > spool->handed || spool->release ||
	       (spool->unsynced_ns && sync_due(spool, now_ns)) ||
	       now_ns - spool->tidied_ns > SPOOL_TIDY_NS;
}

static void submit(struct spool *spool, uint64_t now_ns)
{
	struct spool_turn *turn = &spool->turn;

	*turn = (struct spool_turn){
		.now_ns = now_ns,
		.realtime_ns = clock_read(CLOCK_REALTIME),
		.recorded_realtime_ns = spool->recorded_realtime_ns,
		.sync = sync_due(spool, now_ns),
		.always_on = spool->config.always_on,
		.begun = spool->turn_begun,
		.release = spool->release,
	};
	cursor_assign(spool->turn_begun, spool->begun);
	spool->releasing = spool->release;
	spool->release = NULL;
	spool->tidied_ns = now_ns;
	if (spool->state != SPOOL_OPENING && spool->life != SPOOL_REMOVING)
		gather(spool);
	/* The turn that recovers does nothing else. */
	turn->remove = spool->life == SPOOL_REMOVING && spool->state >= SPOOL_OK;
	turn->seal = turn->remove || (spool->life == SPOOL_CLOSING && spool->state >= SPOOL_OK &&
				      turn->frames == spool->n - spool->handed);
	turn->final = turn->seal && !spool->lost;
	if (turn->seal)
		spool->life = SPOOL_CLOSED;
	if (turn->frames && !spool->unsynced_ns)
		spool->unsynced_ns = now_ns;
	spool->busy = true;
	disk_thread_submit(spool->spooler->config.thread, &spool->job);
}

static bool is_idle(const struct spool *spool)
{
	return !spool->busy && !spool->n && !is_ending(spool) && !spool->release;
}

/* An older one of the same name is not done yet: two must not have the same files. */
static bool must_wait(const struct spool *spool)
{
	const struct spool *older = spool;

	while ((older = LIST_NEXT(older, link)))
		if (strcmp(older->config.name, spool->config.name) == 0 && !is_idle(older))
			return true;
	return false;
}

/* Gives the store what waits, or what is due; nothing, if it is at work or there is nothing to do. */
static void take_turn(struct spool *spool)
{
	uint64_t now_ns = clock_monotonic();

	if (spool->busy || (spool->state == SPOOL_OPENING && must_wait(spool)))
		return;
	/* What was lost while the disk failed is told by the try that comes now. */
	if (spool->state == SPOOL_FAILED && turn_due(spool, now_ns))
		tell_lost(spool);
	if (turn_due(spool, now_ns))
		submit(spool, now_ns);
}

static void config_free(struct spool_config *config)
{
	free((char *)config->name);
	free((char *)config->filter);
	for (size_t i = 0; config->probe && i < config->probes; i++)
		free((char *)config->probe[i]);
	free((void *)config->probe);
	frame_ref_put(config->hello);
	frame_ref_put(config->catalog);
}

/* Whatever it still holds is lost. */
static void destroy(struct spool *spool)
{
	LIST_REMOVE(spool, link);
	lose_all(spool, LOSS_REASON_DISK);
	spool_store_destroy(spool->store);
	config_free(&spool->config);
	free(spool->entry);
	free(spool->turn_frame);
	free(spool->begun);
	free(spool->turn_begun);
	free(spool->now);
	free(spool->told_end);
	spool_extents_destroy(spool->extents);
	free(spool->release);
	free(spool);
}

/* Frees it, if it is closed and nothing is under way. */
static void free_if_done(struct spool *spool)
{
	struct spooler *spooler = spool->spooler;

	if (spool->life != SPOOL_CLOSED || !is_idle(spool) || spool->readers)
		return;
	destroy(spool);
	LIST_FOREACH(spool, &spooler->spools, link)
		if (spool->state == SPOOL_OPENING)
			take_turn(spool);
}

static void report_progress(struct spool *spool,
			    void (*tell)(void *context, const uint64_t *end))
{
	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		spool->told_end[i] = spool->ring[i].end;
	if (tell)
		tell(spool->config.context, spool->told_end);
}

static void after_failure(struct spool *spool)
{
	const struct spool_turn *turn = &spool->turn;
	uint64_t backoff_ns = spool->backoff_ns ? 2 * spool->backoff_ns : SPOOL_RETRY_NS_MIN;

	if (backoff_ns > SPOOL_RETRY_NS_MAX)
		backoff_ns = SPOOL_RETRY_NS_MAX;
	spool->backoff_ns = backoff_ns;
	spool->retry_ns = clock_monotonic() + backoff_ns;
	if (!has_failed(spool))
		spool->failed_ns = clock_monotonic();
	spool->state = spool->state < SPOOL_OK ? SPOOL_UNREAD : SPOOL_FAILED;
	if (is_ending(spool))
		spool->life = SPOOL_CLOSED;
	lose_all(spool, turn->err == -ENOMEM ? LOSS_REASON_MEMORY : LOSS_REASON_DISK);
}

static void set_state(struct spool *spool)
{
	const struct spool_turn *turn = &spool->turn;

	if (spool->state == SPOOL_FAILED)
		log_info("spool-again", "the spool %s is written again", spool->config.name);
	spool->backoff_ns = 0;
	if (!turn->full && turn->status != SPOOL_TURN_FULL) {
		if (spool->state == SPOOL_FULL || spool->state == SPOOL_STOPPED)
			log_info("spool-room", "the spool %s is below its limits again: it stores new events",
				 spool->config.name);
		spool->state = SPOOL_OK;
		return;
	}
	if (spool->state != SPOOL_FULL && spool->state != SPOOL_STOPPED)
		log_warn("spool-full", "the spool %s is full: new events are lost until segments "
			 "are older than spool-age, consumers acknowledge events that are kept for them "
			 "alone, or spool-size is raised", spool->config.name);
	spool->state = turn->stopped ? SPOOL_STOPPED : SPOOL_FULL;
}

static void take_result(struct spool *spool)
{
	const struct spool_turn *turn = &spool->turn;

	if (turn->status == SPOOL_TURN_FAILED) {
		after_failure(spool);
		return;
	}
	if (turn->recovered) {
		spool->state = SPOOL_OK;
		spool->orderly = turn->orderly;
		set_ends(spool);
	} else if (turn->status == SPOOL_TURN_FULL) {
		lose_rest(spool, spool->handed, LOSS_REASON_SPOOL_FULL);
	}
	set_state(spool);
	if (spool->state == SPOOL_OK)
		tell_lost(spool);
}

/* Owns both from now on. tells: the owner still counts what is gone. */
static void take_extents(struct spool *spool, struct spool_extents *extents, struct spool_extents *gone, bool tells)
{
	if (extents) {
		spool_extents_destroy(spool->extents);
		spool->extents = extents;
	}
	for (size_t i = 0; gone && i < gone->n; i++)
		if (spool->config.gone && tells)
			spool->config.gone(spool->config.context, &gone->extent[i]);
	spool_extents_destroy(gone);
	if (extents && spool->owes_opened) {
		spool->owes_opened = false;
		report_progress(spool, spool->config.opened);
	}
}

static void on_done(struct disk_job *job)
{
	struct spool *spool = of_job(job);
	const struct spool_turn *turn = &spool->turn;
	bool progress;

	spool->busy = false;
	take_extents(spool, turn->extents, turn->gone, !turn->remove);
	free(spool->releasing);
	spool->releasing = NULL;
	if (turn->remove) {
		discard(spool);
		free_if_done(spool);
		return;
	}
	if (turn->status != SPOOL_TURN_FAILED)
		spool->handed += turn->taken;
	progress = pop_durable(spool, (size_t)(turn->durable - spool->durable));
	spool->durable = turn->durable;
	spool->files = turn->files;
	if (!turn->unsynced)
		spool->unsynced_ns = 0;
	take_result(spool);
	if (turn->recovered) {
		spool->owes_opened = !spool->extents && turn->files.segments;
		report_progress(spool, spool->config.opened);
	}
	if (progress || turn->recovered)
		report_progress(spool, spool->config.progress);
	take_turn(spool);
	free_if_done(spool);
}

/* ---- One spool ------------------------------------------------------------------------------- */

static int config_copy(struct spool_config *to, const struct spool_config *from)
{
	const char **probe;

	*to = *from;
	to->name = strdup(from->name);
	to->filter = strdup(from->filter ? from->filter : "");
	to->probe = probe = calloc(from->probes + 1, sizeof(*probe));
	if (!to->name || !to->filter || !probe)
		return -ENOMEM;
	for (size_t i = 0; i < from->probes; i++) {
		probe[i] = strdup(from->probe[i]);
		if (!probe[i])
			return -ENOMEM;
	}
	return 0;
}

static int create_store(struct spool *spool)
{
	const struct spooler_config *common = &spool->spooler->config;
	struct spool_store_config config = {
		.name = spool->config.name,
		.hello = spool->config.hello,
		.catalog = spool->config.catalog,
		.probe = spool->config.probe,
		.probes = spool->config.probes,
		.filter = spool->config.filter,
		.flags = spool->config.flags,
		.goes_on = spool->config.goes_on,
		.tells_gone = spool->config.gone,
		.durability = common->durability,
		.policy = common->policy,
		.size_bytes = common->size_bytes,
		.age_ns = common->age_ns,
		.segment_bytes = common->segment_bytes,
		.run = common->run,
		.rings = common->rings,
		.cpu_of = spool->spooler->cpu_of,
	};

	/* So that giving up a segment never gives up most of what there is. */
	if (config.segment_bytes > config.size_bytes / 4)
		config.segment_bytes = config.size_bytes / 4;
	return spool_store_create(&config, disk_thread_disk(common->thread), &spool->store);
}

int spool_open(struct spooler *spooler, const struct spool_config *config, struct spool **out,
	       struct error *error)
{
	struct spool *spool =
		calloc(1, sizeof(*spool) + spooler->config.rings * sizeof(spool->ring[0]));

	if (!spool) {
		frame_ref_put(config->hello);
		frame_ref_put(config->catalog);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	spool->spooler = spooler;
	spool->job.run = on_run;
	spool->job.done = on_done;
	LIST_INSERT_HEAD(&spooler->spools, spool, link);
	spool->begun = cursor_create(spooler->config.rings);
	spool->turn_begun = cursor_create(spooler->config.rings);
	spool->now = cursor_create(spooler->config.rings);
	spool->told_end = calloc(spooler->config.rings + 1, sizeof(*spool->told_end));
	if (config_copy(&spool->config, config) != 0 || !spool->begun || !spool->turn_begun || !spool->now ||
	    !spool->told_end || create_store(spool) != 0) {
		destroy(spool);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	spool->begun->run = spool->now->run = spooler->config.run;
	for (uint32_t i = 0; i < spooler->config.rings; i++)
		cursor_append(spool->now, spooler->cpu_of[i], 0);
	take_turn(spool);
	*out = spool;
	return 0;
}

static void end(struct spool *spool, enum spool_life life)
{
	if (spool->life < life)
		spool->life = life;
	spool->config.opened = NULL;
	spool->config.progress = NULL;
	spool->config.gone = NULL;
	take_turn(spool);
	free_if_done(spool);
}

void spool_close(struct spool *spool)
{
	if (spool)
		end(spool, SPOOL_CLOSING);
}

void spool_remove(struct spool *spool)
{
	if (spool)
		end(spool, SPOOL_REMOVING);
}

enum loss_reason spool_missing_reason(const struct spool *spool)
{
	return spool->orderly && !spool->config.goes_on ? LOSS_REASON_NOT_RECORDED : LOSS_REASON_RESTART;
}

void spool_begin_ring(struct spool *spool, uint32_t ring, uint64_t seq)
{
	spool->ring[ring].began = seq;
	cursor_put(spool->begun, spool->spooler->cpu_of[ring], seq);
	if (spool->state < SPOOL_OK)
		return;			/* set_ends() will know where the spool ends */
	name_hole_before_run(spool, &spool->ring[ring]);
	if (spool->state == SPOOL_OK)
		tell_lost(spool);
	take_turn(spool);
}

enum loss_reason spool_gap_reason(const struct spool *spool, uint32_t ring, uint64_t end)
{
	return end <= spool->ring[ring].began ? spool_missing_reason(spool) : LOSS_REASON_SPOOL_FULL;
}

void spool_append(struct spool *spool, struct frame_ref *frame)
{
	if (frame->type != FRAME_WATERMARK && !frame_ref_is_range(frame)) {
		frame_ref_put(frame);
		return;
	}
	append(spool, frame);
	take_turn(spool);
}

void spool_set_always_on(struct spool *spool, bool always_on)
{
	spool->config.always_on = always_on;
}

void spool_set_recorded(struct spool *spool, uint64_t realtime_ns)
{
	if (!spool->recorded_realtime_ns)
		spool->recorded_realtime_ns = realtime_ns;
}

void spool_release(struct spool *spool, const struct cursor *upto)
{
	struct cursor *copy = cursor_copy(upto);

	/* Without memory now, the next release says the same and more. */
	if (!copy)
		return;
	free(spool->release);
	spool->release = copy;
	take_turn(spool);
}

uint64_t spool_durable(const struct spool *spool, uint32_t ring)
{
	return spool->ring[ring].end;
}

uint64_t spool_first(const struct spool *spool, uint32_t ring)
{
	return spool->ring[ring].found ? 0 : spool->ring[ring].began;
}

uint64_t spool_extent_behind(const struct spool *spool, const struct spool_extent *extent, const struct cursor *place)
{
	return spool_extent_share(extent, spool->begun, spool->now, place).behind;
}

/* It takes no memory: without some, what an acknowledgement changes could not be counted. */
uint64_t spool_attempts_behind(const struct spool *spool, const uint64_t *end, const struct cursor *place)
{
	uint64_t attempts = 0;

	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		spool->now->position[i].seq = end[i];
	for (size_t i = 0; spool->extents && i < spool->extents->n; i++)
		attempts += spool_extent_behind(spool, &spool->extents->extent[i], place);
	return attempts;
}

uint64_t spool_behind(const struct spool *spool, const struct cursor *place)
{
	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		spool->now->position[i].seq = spool->ring[i].end;
	return spool->extents ? spool_extents_behind(spool->extents, spool->files.bytes, spool->begun, spool->now,
						     place) : 0;
}

/* For how long something has been waiting to be durable; of a failed one, since nothing has been. */
static uint64_t unstored_ns(const struct spool *spool)
{
	uint64_t now_ns = clock_monotonic();

	if (has_failed(spool))
		return now_ns - spool->failed_ns;
	return spool->n ? now_ns - spool->entry[spool->first].since_ns : 0;
}

void spool_stat(const struct spool *spool, struct spool_stat *stat)
{
	static const char *const state[] = {
		[SPOOL_OPENING] = "ok", [SPOOL_UNREAD] = "failed", [SPOOL_OK] = "ok",
		[SPOOL_FULL] = "full", [SPOOL_STOPPED] = "stopped", [SPOOL_FAILED] = "failed",
	};

	*stat = (struct spool_stat){
		.segments = spool->files.segments,
		.bytes = spool->files.bytes,
		.oldest_realtime_ns = spool->files.oldest_realtime_ns,
		.deleted = spool->files.deleted,
		.set_aside = spool->files.set_aside,
		.produced = spool->produced,
		.stored = spool->stored,
		.in_flight = in_flight(spool),
		.state = state[spool->state],
		.config = &spool->config,
		.size_bytes = spool->spooler->config.size_bytes,
		.unstored_ns = unstored_ns(spool),
	};
	memcpy(stat->lost, spool->lost_count, sizeof(stat->lost));
}

/* ---- Readers --------------------------------------------------------------------------------- */

struct spool_reader {
	struct disk_job job;
	struct spool *spool;
	struct spool_read *read;	/* the disk thread's while its job is under way */
	spool_frames *frames;
	void *context;
	enum {
		READER_IDLE,
		READER_ASKED,		/* its job is under way */
		READER_UNWANTED,	/* so it is, and nobody waits for it: it goes behind it */
	} state;

	size_t bytes;			/* the question */
	unsigned n;			/* the answer */
	bool end;
	struct spool_extents *extents, *gone;	/* if it set a segment aside: as in struct spool_turn */
	struct frame_ref *frame[SPOOL_READ_FRAMES_MAX];
};

static void reader_free(struct spool_reader *reader)
{
	struct spool *spool = reader->spool;

	spool_read_destroy(reader->read);
	free(reader);
	spool->readers--;
	free_if_done(spool);
}

static void on_read(struct disk_job *job, struct disk *disk)
{
	struct spool_reader *reader = (struct spool_reader *)job;

	(void)disk;
	reader->end = spool_read_next(reader->read, reader->spool->store, reader->bytes,
				      reader->frame, SPOOL_READ_FRAMES_MAX, &reader->n);
	spool_store_report(reader->spool->store, &reader->extents, &reader->gone);
}

static void on_read_done(struct disk_job *job)
{
	struct spool_reader *reader = (struct spool_reader *)job;

	/* First: a segment that was set aside counts as lost before a consumer can acknowledge the Gap in its place. */
	take_extents(reader->spool, reader->extents, reader->gone, true);
	reader->extents = reader->gone = NULL;
	if (reader->state == READER_ASKED) {
		reader->state = READER_IDLE;
		reader->frames(reader->context, reader->frame, reader->n, reader->end);
		return;
	}
	for (unsigned i = 0; i < reader->n; i++)
		frame_ref_put(reader->frame[i]);
	reader_free(reader);
}

int spool_reader_create(struct spool *spool, const struct spool_place *where, spool_frames *frames,
			void *context, struct spool_reader **out)
{
	struct spool_reader *reader = calloc(1, sizeof(*reader));
	struct cursor *since = where->cursor ? cursor_copy(where->cursor) : NULL;

	if (!reader || (where->cursor && !since)) {
		free(since);
		free(reader);
		return -ENOMEM;
	}
	reader->read = spool_read_create(since, where->realtime_ns);
	if (!reader->read) {
		free(reader);
		return -ENOMEM;
	}
	reader->job.run = on_read;
	reader->job.done = on_read_done;
	reader->spool = spool;
	reader->frames = frames;
	reader->context = context;
	spool->readers++;
	*out = reader;
	return 0;
}

void spool_reader_next(struct spool_reader *reader, size_t bytes)
{
	reader->state = READER_ASKED;
	reader->bytes = bytes < SPOOL_READ_BYTES_MAX ? bytes : SPOOL_READ_BYTES_MAX;
	disk_thread_submit(reader->spool->spooler->config.thread, &reader->job);
}

void spool_reader_destroy(struct spool_reader *reader)
{
	if (!reader)
		return;
	/* The callee may end it from within frames(): then it is idle. */
	if (reader->state == READER_ASKED)
		reader->state = READER_UNWANTED;
	else
		reader_free(reader);
}

/* ---- All of them ----------------------------------------------------------------------------- */

void spooler_turn(struct spooler *spooler)
{
	struct spool *spool, *next;

	for (spool = LIST_FIRST(&spooler->spools); spool; spool = next) {
		next = LIST_NEXT(spool, link);
		take_turn(spool);
	}
	spool_orphans_turn(spooler->orphans);
}

static void on_tick(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	spooler_turn(context);
}

/* For the orphans. Those that are asked for come first: one that was to go may be wanted again. */
static void each_name(void *context, spooler_name *asked_for, spooler_name *held, void *names)
{
	const struct spooler *spooler = context;
	const struct spool *spool;

	LIST_FOREACH(spool, &spooler->spools, link)
		asked_for(names, spool->config.name);
	if (spooler->each_held)
		spooler->each_held(spooler->holder, held, names);
}

static int start_tick(struct spooler *spooler)
{
	uint64_t tick_ns = spooler->config.sync_interval_ns / 2;
	struct timeval interval;

	if (tick_ns < TICK_NS_MIN || spooler->config.durability != SPOOL_FSYNC)
		tick_ns = NS_PER_S;
	if (tick_ns > NS_PER_S)
		tick_ns = NS_PER_S;
	interval = (struct timeval){.tv_sec = (time_t)(tick_ns / NS_PER_S),
				    .tv_usec = (suseconds_t)(tick_ns % NS_PER_S / 1000)};
	spooler->tick = event_new(spooler->config.base, -1, EV_PERSIST, on_tick, spooler);
	return spooler->tick && event_add(spooler->tick, &interval) == 0 ? 0 : -ENOMEM;
}

int spooler_create(const struct spooler_config *config, struct spooler **out, struct error *error)
{
	struct spooler *spooler = calloc(1, sizeof(*spooler));

	if (!spooler)
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	LIST_INIT(&spooler->spools);
	spooler->config = *config;
	spooler->codec = frame_codec_create(1);
	spooler->cpu_of = calloc(config->rings + 1, sizeof(*spooler->cpu_of));
	spooler->orphans = spool_orphans_create(&spooler->config, each_name, spooler);
	if (!spooler->codec || !spooler->cpu_of || !spooler->orphans || start_tick(spooler) != 0) {
		spooler_destroy(spooler);
		return error_set(error, ENOMEM, "out-of-memory", "out of memory");
	}
	memcpy(spooler->cpu_of, config->cpu_of, config->rings * sizeof(*spooler->cpu_of));
	*out = spooler;
	return 0;
}

void spooler_destroy(struct spooler *spooler)
{
	struct spool *spool, *next;

	if (!spooler)
		return;
	spool_orphans_stop(spooler->orphans);
	for (spool = LIST_FIRST(&spooler->spools); spool; spool = next) {
		next = LIST_NEXT(spool, link);
		spool_close(spool);
	}
	disk_thread_settle(spooler->config.thread);
	while ((spool = LIST_FIRST(&spooler->spools)))
		destroy(spool);
	spool_orphans_destroy(spooler->orphans);
	if (spooler->tick)
		event_free(spooler->tick);
	frame_codec_destroy(spooler->codec);
	free(spooler->cpu_of);
	free(spooler);
}

void spooler_set_holder(struct spooler *spooler,
			void (*each_held)(void *holder, spooler_name *name, void *context),
			void *holder)
{
	spooler->each_held = each_held;
	spooler->holder = holder;
}

bool spooler_has(const struct spooler *spooler, const char *name)
{
	const struct spool *spool;

	LIST_FOREACH(spool, &spooler->spools, link)
		if (spool->life < SPOOL_CLOSING && strcmp(spool->config.name, name) == 0)
			return true;
	return false;
}

void spooler_remove(struct spooler *spooler, const char *name)
{
	spool_orphans_remove(spooler->orphans, name);
}

void spooler_each_orphan(const struct spooler *spooler,
			 void (*each)(void *context, const struct spool_stat *stat), void *context)
{
	spool_orphans_each(spooler->orphans, each, context);
}

unsigned spooler_orphans(const struct spooler *spooler)
{
	return spool_orphans_count(spooler->orphans);
}

void spooler_each(const struct spooler *spooler,
		  void (*each)(void *context, const struct spool *spool), void *context)
{
	const struct spool *spool;

	LIST_FOREACH(spool, &spooler->spools, link)
		if (spool->life < SPOOL_CLOSING)
			each(context, spool);
}

unsigned spooler_count(const struct spooler *spooler)
{
	const struct spool *spool;
	unsigned n = 0;

	LIST_FOREACH(spool, &spooler->spools, link)
		n += spool->life < SPOOL_CLOSING;
	return n;
}

enum spool_durability spooler_durability(const struct spooler *spooler)
{
	return spooler->config.durability;
}

uint64_t spooler_sync_interval_ns(const struct spooler *spooler)
{
	return spooler->config.durability == SPOOL_FSYNC ? spooler->config.sync_interval_ns : 0;
}
