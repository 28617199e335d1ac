/*
 * ring_note: see ring_note.h.
 *
 * The older note is overwritten. Between the two stores of its `pos` it fits no position; before
 * consumer_pos is stored the other one fits, and after it this one. Two that fit are of one position:
 * between them losses were counted, so the later one has the higher numbers, and either would do,
 * since losses are located again as they were. A process that is killed has done a first part of its
 * stores, so their order is all that counts: each is a release.
 */
#include "daemon/ring/note.h"

static void store(__u64 *word, uint64_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint64_t load(const __u64 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* Of two notes, the one that is not newer. */
static struct rt_ring_note *older(struct rt_ring_note *a, struct rt_ring_note *b)
{
	uint64_t pos_a = load(&a->pos), pos_b = load(&b->pos);

	if (pos_a == RT_NOTE_UNFINISHED || pos_b == RT_NOTE_UNFINISHED)
		return pos_a == RT_NOTE_UNFINISHED ? a : b;
	if (pos_a != pos_b)
		return pos_a < pos_b ? a : b;
	return load(&a->seq) <= load(&b->seq) ? a : b;
}

void ring_note_write(struct rt_ring_consumer *consumer, const struct rt_ring_note *note)
{
	struct rt_ring_note *to = older(&consumer->note[0], &consumer->note[1]);

	store(&to->pos, RT_NOTE_UNFINISHED);
	store(&to->seq, note->seq);
	store(&to->lost_seen, note->lost_seen);
	store(&to->owed, note->owed);
	store(&to->missed, note->missed);
	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		store(&to->charged[i], note->charged[i]);
	store(&to->pos, note->pos);
}

/* What a reader may have put down: its own sums close, and the ring has lost that much. */
static bool is_possible(const struct rt_ring_note *note, uint64_t lost_total)
{
	uint64_t charged = 0;

	for (unsigned i = 0; i < RT_LOST_REASONS; i++)
		charged += note->charged[i];
	return note->lost_seen <= lost_total && note->owed <= note->lost_seen &&
	       charged == note->lost_seen - note->owed && note->seq >= charged &&
	       note->seq <= RING_SEQ_MAX / 2;
}

bool ring_note_read(const struct rt_ring_consumer *consumer, uint64_t pos, uint64_t lost_total,
		    struct rt_ring_note *note)
{
	bool found = false;

	for (unsigned i = 0; i < 2; i++) {
		const struct rt_ring_note *from = &consumer->note[i];
		struct rt_ring_note mine = {.pos = load(&from->pos)};

		if (mine.pos != pos)
			continue;
		mine.seq = load(&from->seq);
		mine.lost_seen = load(&from->lost_seen);
		mine.owed = load(&from->owed);
		mine.missed = load(&from->missed);
		for (unsigned j = 0; j < RT_LOST_REASONS; j++)
			mine.charged[j] = load(&from->charged[j]);
		if (!is_possible(&mine, lost_total) || (found && mine.seq < note->seq))
			continue;
		*note = mine;
		found = true;
	}
	return found;
}
