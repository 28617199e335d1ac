/*
 * pair_table: the part that is not hot: life, and adding a pair.
 */
#include "proto/pair_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(BATCH_THREADS_MAX <= 1u << (PAIR_KEY_BITS - 16), "a thread index fits the key");
_Static_assert(PAIRS_MAX * 2 <= PAIR_SLOTS, "half of the slots stay free");

int pair_table_init(struct pair_table *table)
{
	/* Never touched, never in memory: what a batch does not use costs nothing. */
	*table = (struct pair_table){
		.generation = 1,
		.pairs_room = PAIRS_MAX,
		.slot_bits = PAIR_SLOT_BITS,
		.slot = calloc(PAIR_SLOTS, sizeof(*table->slot)),
		.pair = calloc(PAIRS_MAX, sizeof(*table->pair)),
	};
	if (table->slot && table->pair)
		return 0;
	pair_table_fini(table);
	return -ENOMEM;
}

void pair_table_init_empty(struct pair_table *table)
{
	*table = (struct pair_table){ .generation = 1 };
}

int pair_table_reserve(struct pair_table *table, uint32_t pairs)
{
	unsigned bits = 6;
	struct pair_slot *slot;

	assert(pairs <= PAIRS_MAX);
	while (1u << bits < 2 * pairs)
		bits++;
	if (bits > table->slot_bits) {
		slot = calloc(1u << bits, sizeof(*slot));
		if (!slot)
			return -ENOMEM;
		free(table->slot);
		table->slot = slot;
		table->slot_bits = bits;
	}
	pair_table_clear(table);
	return 0;
}

size_t pair_table_bytes(const struct pair_table *table)
{
	return sizeof(*table->slot) * (table->slot ? (size_t)1 << table->slot_bits : 0) +
	       sizeof(*table->pair) * table->pairs_room;
}

/* A decoder's: pairs come as they are met, and most batches have few. */
static bool make_room(struct pair_table *table)
{
	uint32_t room = table->pairs_room ? 2 * table->pairs_room : 64;
	struct pair *larger;

	if (table->pairs < table->pairs_room)
		return true;
	larger = realloc(table->pair, room * sizeof(*larger));
	if (!larger)
		return false;
	table->pair = larger;
	table->pairs_room = room;
	return true;
}

void pair_table_fini(struct pair_table *table)
{
	free(table->pair);
	free(table->slot);
	*table = (struct pair_table){ 0 };
}

void pair_table_clear(struct pair_table *table)
{
	/* 38 bits of batches: centuries at a thousand a second per ring. */
	table->generation++;
	table->pairs = 0;
}

struct pair *pair_table_add(struct pair_table *table, uint32_t thread, uint32_t probe)
{
	uint64_t stamp;
	struct pair_slot *slot = pair_table_slot(table, table->slot_bits, thread, probe, &stamp);
	struct pair *pair;

	assert(slot->stamp != stamp && table->pairs < PAIRS_MAX);
	if (!make_room(table))
		return NULL;
	slot->stamp = stamp;
	slot->pair = table->pairs;
	pair = &table->pair[table->pairs++];
	memset(pair->last, 0, sizeof(pair->last));
	return pair;
}
