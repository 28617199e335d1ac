/*
 * spool_append: what is on its way to the disk, what became of it, and what was lost on the way.
 * Main thread. The ledger: produced = stored + lost + what is in the queue, in attempts.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/base/limits.h"
#include "daemon/spool/frame.h"
#include "daemon/spool/private.h"

static bool is_range(const struct frame_ref *frame)
{
	return frame->type == FRAME_BATCH || frame->type == FRAME_GAP;
}

static uint64_t attempts_of(const struct frame_ref *frame)
{
	return is_range(frame) ? frame_ref_attempts(frame) : 0;
}

/* What it costs in memory. */
static uint64_t cost_of(const struct frame_ref *frame)
{
	return frame->bytes + sizeof(*frame) + sizeof(struct spool_entry);
}

/* ---- Losing ---------------------------------------------------------------------------------- */

static void lose_range(struct spool *spool, struct spool_ring *ring, uint64_t first_seq,
		       uint64_t end_seq, uint64_t events, Ringtail__V1__LossReason reason)
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

static void count_lost(struct spool *spool, uint64_t attempts, Ringtail__V1__LossReason reason)
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
static void lose(struct spool *spool, struct spool_entry entry, Ringtail__V1__LossReason reason)
{
	struct frame_ref *frame = entry.frame;

	if (is_range(frame)) {
		struct spool_ring *ring = &spool->ring[frame->ring];

		if (!frame->bytes)
			note_range(ring, frame);
		lose_range(spool, ring, frame->first_seq, frame->end_seq,
			   frame->events + frame_ref_losses(frame),
			   entry.own && frame->losses ?
				   (Ringtail__V1__LossReason)frame->loss[0].reason : reason);
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
	if (is_range(entry.frame))
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
static void lose_quiet(struct spool *spool, struct spool_ring *ring,
		       Ringtail__V1__LossReason reason)
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

		if (is_range(frame) && frame->bytes)
			spool->ring[frame->ring].said = frame->end_seq;
	}
}

void spool_lose_all(struct spool *spool, Ringtail__V1__LossReason reason)
{
	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		lose_quiet(spool, &spool->ring[i], reason);
	while (spool->n)
		lose(spool, pop(spool), reason);
	note_said(spool);
}

void spool_discard(struct spool *spool)
{
	while (spool->n)
		frame_ref_put(pop(spool).frame);
}

uint64_t spool_in_flight(const struct spool *spool)
{
	uint64_t attempts = spool->queue_attempts;

	for (uint32_t i = 0; i < spool->spooler->config.rings; i++)
		attempts += spool->ring[i].quiet_attempts;
	return attempts;
}

void spool_lose_rest(struct spool *spool, size_t n, Ringtail__V1__LossReason reason)
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

/* The watermark stands behind all that it tells of, and before the next frame of the same ring. */
bool spool_tell_lost(struct spool *spool)
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

	if (is_range(frame) && frame->bytes) {
		any = raise(&spool->ring[frame->ring].end, frame->end_seq);
		spool->stored += attempts;
	} else if (is_range(frame)) {
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

bool spool_pop_durable(struct spool *spool, size_t n)
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

static bool losing(const struct spool *spool)
{
	return spool->state == SPOOL_FULL || spool->state == SPOOL_STOPPED ||
	       (spool->state == SPOOL_FAILED &&
		(!spool->recovered || clock_monotonic() < spool->retry_ns));
}

static Ringtail__V1__LossReason reason_of(const struct spool *spool)
{
	return spool->state == SPOOL_FAILED ? RINGTAIL__V1__LOSS_REASON__REASON_DISK :
					      RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL;
}

/* Between the spool's end and the first that came after it was opened. */
static void name_hole(struct spool *spool, struct spool_ring *ring, uint64_t first_seq)
{
	Ringtail__V1__LossReason reason = spool_missing_reason(spool);
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

void spool_begin_ring(struct spool *spool, uint32_t ring, uint64_t seq)
{
	spool->ring[ring].began = seq;
	spool_marks_put(spool->begun, spool->spooler->cpu_of[ring], seq);
	if (!spool->recovered)
		return;			/* spool_set_ends() will know where the spool ends */
	name_hole_before_run(spool, &spool->ring[ring]);
	if (spool->state == SPOOL_OK)
		spool_tell_lost(spool);
	spool_turn(spool);
}

Ringtail__V1__LossReason spool_gap_reason(const struct spool *spool, uint32_t ring, uint64_t end)
{
	return end <= spool->ring[ring].began ? spool_missing_reason(spool) :
						RINGTAIL__V1__LOSS_REASON__REASON_SPOOL_FULL;
}

/* False: the spool has it already. */
static bool note_appended(struct spool *spool, const struct frame_ref *frame)
{
	struct spool_ring *ring;

	if (!is_range(frame))
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

/* Takes the reference. */
static void append(struct spool *spool, struct frame_ref *frame)
{
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
	if (spool->queue_bytes + cost_of(frame) > SPOOL_HELD_BYTES_MAX) {
		lose(spool, entry, RINGTAIL__V1__LOSS_REASON__REASON_QUEUE_FULL);
		return;
	}
	/* Before the spool's end is known, only a watermark has its place. */
	if (spool->state == SPOOL_OPENING)
		told = !spool->owes_watermark || push_owed_watermark(spool);
	else
		told = spool_tell_lost(spool);
	if (!told || push(spool, entry) != 0)
		lose(spool, entry, RINGTAIL__V1__LOSS_REASON__REASON_MEMORY);
}

void spool_append(struct spool *spool, struct frame_ref *frame)
{
	if (frame->type != FRAME_WATERMARK && !is_range(frame)) {
		frame_ref_put(frame);
		return;
	}
	append(spool, frame);
	spool_turn(spool);
}

void spool_set_ends(struct spool *spool)
{
	const struct spool_marks *told = spool->store->told;
	bool owes = spool->owes_watermark;
	size_t n = spool->n;

	for (uint32_t i = 0; i < spool->spooler->config.rings; i++) {
		struct spool_ring *ring = &spool->ring[i];
		const struct spool_mark *mark =
			spool_marks_find((struct spool_marks *)told, spool->spooler->cpu_of[i]);

		ring->came = false;
		ring->silent = ring->lost.any ? ring->lost.end_seq : 0;
		ring->known = mark;
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
	spool_tell_lost(spool);
	/* What came before that was known comes once more. */
	while (n--) {
		struct spool_entry entry = pop(spool);

		spool->produced -= attempts_of(entry.frame);
		append(spool, entry.frame);
	}
	spool->owes_watermark |= owes;
}
