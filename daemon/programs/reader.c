#include "daemon/programs/reader.h"

#include <string.h>

/* What is left of a ring's end may be this much at most: the program fills it with one record. */
#define FILLER_WORDS_MAX (RT_PROGRAM_WORDS_MAX - 1)

void program_reader_init(struct program_reader *reader, struct rt_program_ring *ring, uint64_t size)
{
	*reader = (struct program_reader){.ring = ring, .size = size};
}

static const uint64_t *word_at(const struct program_reader *reader, uint64_t pos)
{
	return (const uint64_t *)((const char *)reader->ring + RT_PROGRAM_PAGE + (pos & (reader->size - 1)));
}

static uint64_t load(const uint64_t *word)
{
	return __atomic_load_n(word, __ATOMIC_RELAXED);
}

/* The acquire meets the store that publishes a record: rt_probe_publish() and rt_probe_store(). */
bool program_reader_look(struct program_reader *reader)
{
	uint64_t end = __atomic_load_n(&reader->ring->producer_pos, __ATOMIC_ACQUIRE);

	if (reader->corrupt || reader->frozen)
		return reader->corrupt || reader->pos != reader->end;
	if (end % 8 || end < reader->end || end - reader->pos > reader->size)
		reader->corrupt = true;
	else
		reader->end = end;
	return reader->corrupt || reader->pos != end || load(&reader->ring->lost) != reader->lost_seen;
}

void program_reader_freeze(struct program_reader *reader)
{
	program_reader_look(reader);
	reader->frozen = true;
}

/* Whether a record, or filler, of so many words may lie at pos. */
static bool fits(const struct program_reader *reader, uint64_t words, uint64_t words_min, uint64_t words_max)
{
	uint64_t left = reader->size - (reader->pos & (reader->size - 1));

	return words >= words_min && words <= words_max && words * 8 <= left && words * 8 <= reader->end - reader->pos;
}

static void skip_filler(struct program_reader *reader, uint64_t words)
{
	uint64_t left = reader->size - (reader->pos & (reader->size - 1));

	if (words * 8 == left && fits(reader, words, 1, FILLER_WORDS_MAX))
		reader->pos += left;
	else
		reader->corrupt = true;
}

static uint64_t words_of(uint64_t head)
{
	return (head & ~RT_PROGRAM_COUNTER) >> 16;
}

bool program_reader_peek(struct program_reader *reader, uint64_t *time)
{
	/* After filler comes no other, as that ends the ring. */
	for (unsigned i = 0; !reader->peeked && i < 2; i++) {
		uint64_t head;

		if (reader->corrupt || reader->pos == reader->end)
			return false;
		head = load(word_at(reader, reader->pos));
		if ((head & 0xffff) == RT_PROGRAM_PAD) {
			skip_filler(reader, head >> 16);
			continue;
		}
		if (!fits(reader, words_of(head), RT_PROGRAM_HEAD_WORDS, RT_PROGRAM_WORDS_MAX)) {
			reader->corrupt = true;
			return false;
		}
		reader->head[0] = head;
		reader->head[1] = load(word_at(reader, reader->pos + 8));
		reader->head[2] = load(word_at(reader, reader->pos + 16));
		reader->peeked = true;
	}
	*time = reader->head[1];
	return reader->peeked;
}

bool program_reader_counts(const struct program_reader *reader)
{
	return reader->head[0] & RT_PROGRAM_COUNTER;
}

/* A record says the low half of what was lost before it. What is less than before was read by an older thread. */
static uint64_t lost_before(struct program_reader *reader, uint32_t low)
{
	uint32_t more = low - (uint32_t)reader->lost_seen;

	if (more > INT32_MAX)
		return 0;
	reader->lost_seen += more;
	return more;
}

void program_reader_take(struct program_reader *reader, struct program_item *item)
{
	const uint64_t *from = word_at(reader, reader->pos + RT_PROGRAM_HEAD_WORDS * 8);
	uint64_t words = words_of(reader->head[0]);

	item->probe = reader->head[0] & 0xffff;
	item->tid = (uint32_t)reader->head[2];
	item->lost = lost_before(reader, reader->head[2] >> 32);
	item->words = (uint32_t)words - RT_PROGRAM_HEAD_WORDS;
	for (uint32_t i = 0; i < item->words; i++)
		item->payload[i] = load(&from[i]);
	reader->pos += words * 8;
	reader->peeked = false;
}

uint64_t program_reader_lost(struct program_reader *reader)
{
	uint64_t lost = __atomic_load_n(&reader->ring->lost, __ATOMIC_ACQUIRE), more;

	/* A record that was published meanwhile says itself what was lost before it. */
	program_reader_look(reader);
	more = lost - reader->lost_seen;
	if (reader->corrupt || reader->pos != reader->end || more > INT64_MAX)
		return 0;
	reader->lost_seen = lost;
	return more;
}

/* A number that goes down is nonsense, and the next one is counted from there. */
uint64_t program_reader_filtered(struct program_reader *reader)
{
	uint64_t filtered = load(&reader->ring->filtered), more = filtered - reader->filtered_seen;

	reader->filtered_seen = filtered;
	return more > INT64_MAX ? 0 : more;
}

void program_reader_release(struct program_reader *reader)
{
	if (reader->released != reader->pos)
		__atomic_store_n(&reader->ring->consumer_pos, reader->pos, __ATOMIC_RELEASE);
	reader->released = reader->pos;
}

bool program_reader_is_behind(const struct program_reader *reader)
{
	return !reader->corrupt && __atomic_load_n(&reader->ring->producer_pos, __ATOMIC_ACQUIRE) != reader->pos;
}
