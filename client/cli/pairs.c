#include "client/cli/pairs.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS	(1u << 14)

struct pairs {
	size_t open;
	uint64_t replaced;
	struct pair *bucket[BUCKETS];
};

struct pairs *pairs_create(void)
{
	return calloc(1, sizeof(struct pairs));
}

void pairs_destroy(struct pairs *pairs)
{
	if (pairs)
		pairs_give_up(pairs);
	free(pairs);
}

/* The link to who has these numbers, or to the end of their bucket. */
static struct pair **find(struct pairs *pairs, const uint64_t on[PAIRS_ON_MAX])
{
	uint64_t hash = 0;
	struct pair **link;

	for (unsigned i = 0; i < PAIRS_ON_MAX; i++)
		hash = (hash ^ on[i]) * 0x9e3779b97f4a7c15u;
	link = &pairs->bucket[hash >> 50];
	while (*link && memcmp((*link)->on, on, sizeof((*link)->on)))
		link = &(*link)->next;
	return link;
}

struct pair *pairs_end(struct pairs *pairs, const uint64_t on[PAIRS_ON_MAX])
{
	struct pair **link = find(pairs, on), *pair = *link;

	if (!pair)
		return NULL;
	*link = pair->next;
	pairs->open--;
	return pair;
}

void pairs_drop(struct pairs *pairs, const uint64_t on[PAIRS_ON_MAX])
{
	struct pair *pair = pairs_end(pairs, on);

	pairs->replaced += pair != NULL;
	free(pair);
}

bool pairs_begin(struct pairs *pairs, const uint64_t on[PAIRS_ON_MAX], uint64_t time_ns, const char *key,
		 size_t key_bytes, uint32_t numbers, bool maybe)
{
	struct pair *pair;
	struct pair **link;

	pairs_drop(pairs, on);
	pair = pairs->open < PAIRS_MAX ? malloc(sizeof(*pair) + key_bytes + 1) : NULL;
	if (!pair)
		return false;
	*pair = (struct pair){ .time_ns = time_ns, .numbers = numbers, .maybe = maybe, .key_bytes = key_bytes };
	memcpy(pair->on, on, sizeof(pair->on));
	memcpy(pair->key, key, key_bytes);
	pair->key[key_bytes] = '\0';
	link = find(pairs, on);
	*link = pair;
	pairs->open++;
	return true;
}

uint64_t pairs_replaced(const struct pairs *pairs)
{
	return pairs->replaced;
}

size_t pairs_open(const struct pairs *pairs)
{
	return pairs->open;
}

void pairs_give_up(struct pairs *pairs)
{
	for (size_t i = 0; i < BUCKETS; i++)
		while (pairs->bucket[i]) {
			struct pair *pair = pairs->bucket[i];

			pairs->bucket[i] = pair->next;
			free(pair);
		}
	pairs->open = 0;
}
