/*
 * pair_table: what the fields of a (thread, probe) pair were last time, for one batch.
 *
 * Encoder and decoder each keep one, and do the same to it in the same order: an event is stored as
 * its difference from the last event of the same thread and probe. A generation number empties the
 * table at once when a batch begins. One thread.
 */
#ifndef RINGTAIL_PROTO_PAIR_TABLE_H
#define RINGTAIL_PROTO_PAIR_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/limits.h"

#define PAIRS_MAX		BATCH_EVENTS_MAX	/* an event makes one at most */
#define PAIR_SLOT_BITS		14			/* at most half of the slots are taken */
#define PAIR_SLOTS		(1u << PAIR_SLOT_BITS)
#define PAIR_KEY_BITS		26			/* thread index: 10, probe: 16 */

struct pair {
	uint64_t last[PROBE_FIELDS_MAX];
	uint16_t probe;			/* its index in the batch; the owner's business */
};

struct pair_slot {
	uint64_t stamp;			/* generation << PAIR_KEY_BITS | key; of another: free */
	uint32_t pair;
};

struct pair_table {
	uint64_t generation;
	uint32_t pairs, pairs_room;
	unsigned slot_bits;		/* an encoder's: PAIR_SLOT_BITS */
	struct pair_slot *slot;
	struct pair *pair;
};

/* With room for PAIRS_MAX. 0 or -ENOMEM. */
int pair_table_init(struct pair_table *table);

/* With none yet: pair_table_reserve() makes it, which a decoder of strangers' bytes does as it must. */
void pair_table_init_empty(struct pair_table *table);

/* Room for that many, at most PAIRS_MAX; forgets all pairs. 0, or -ENOMEM: it is as it was. */
int pair_table_reserve(struct pair_table *table, uint32_t pairs);

/* What it holds. */
size_t pair_table_bytes(const struct pair_table *table);
void pair_table_fini(struct pair_table *table);

/* Forgets all pairs. */
void pair_table_clear(struct pair_table *table);

/*
 * The slot of a pair: either its own or the free one where it belongs. The product's high bits are
 * the hash (multiplicative hashing, Knuth 6.4; the constant is 2^64 divided by the golden ratio).
 * The walk ends because half of the slots are free.
 */
static inline struct pair_slot *pair_table_slot(struct pair_table *table, unsigned bits,
						uint32_t thread, uint32_t probe, uint64_t *stamp)
{
	uint64_t key = (uint64_t)thread << 16 | probe;
	uint32_t at = (uint32_t)(key * 0x9e3779b97f4a7c15ULL >> (64 - bits));

	*stamp = table->generation << PAIR_KEY_BITS | key;
	while (table->slot[at].stamp != *stamp &&
	       table->slot[at].stamp >> PAIR_KEY_BITS == table->generation)
		at = (at + 1) & ((1u << bits) - 1);
	return &table->slot[at];
}

/* The pair, or NULL if this batch has not seen it. thread < BATCH_THREADS_MAX, probe < 65536. */
static inline struct pair *pair_table_find_in(struct pair_table *table, unsigned bits,
					      uint32_t thread, uint32_t probe)
{
	uint64_t stamp;
	struct pair_slot *slot = pair_table_slot(table, bits, thread, probe, &stamp);

	return slot->stamp == stamp ? &table->pair[slot->pair] : NULL;
}

/* The same of a table with all its room: the compiler knows how many slots it has. */
static inline struct pair *pair_table_find(struct pair_table *table, uint32_t thread,
					   uint32_t probe)
{
	return pair_table_find_in(table, PAIR_SLOT_BITS, thread, probe);
}

/*
 * Adds a pair that is not there, all its fields 0; others may have moved then. At most as many between
 * two clears as there is room for. NULL: no memory.
 */
struct pair *pair_table_add(struct pair_table *table, uint32_t thread, uint32_t probe);

#endif
