/*
 * pairs: pairs a begin event with its end event, by numbers that are equal in both.
 *
 * A second begin with the same numbers replaces the first, which is counted. After a loss all open pairs are dropped,
 * because their ends may be among the lost events. Bounded by PAIRS_MAX. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_PAIRS_H
#define RINGTAIL_CLIENT_CLI_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAIRS_ON_MAX	4u
#define PAIRS_MAX	(1u << 16)

struct pairs;

struct pair {
	struct pair *next;
	uint64_t on[PAIRS_ON_MAX];
	uint64_t time_ns;
	uint32_t numbers;		/* the caller's, as the key is */
	bool maybe;			/* the caller's too: the end is to tell whether it counts */
	size_t key_bytes;
	char key[];
};

struct pairs *pairs_create(void);
void pairs_destroy(struct pairs *pairs);

/* False: there is no room. */
bool pairs_begin(struct pairs *pairs, const uint64_t on[PAIRS_ON_MAX], uint64_t time_ns, const char *key,
		 size_t key_bytes, uint32_t numbers, bool maybe);

/* What began with these numbers, to be freed by the caller; NULL: nothing. */
struct pair *pairs_end(struct pairs *pairs, const uint64_t on[PAIRS_ON_MAX]);

/* What began with these numbers has no end: they began again, in a pair that nobody wants. */
void pairs_drop(struct pairs *pairs, const uint64_t on[PAIRS_ON_MAX]);

/* How many were replaced or dropped: they began, and never ended. */
uint64_t pairs_replaced(const struct pairs *pairs);

/* How many have not ended; gives all of them up. */
size_t pairs_open(const struct pairs *pairs);
void pairs_give_up(struct pairs *pairs);

#endif
