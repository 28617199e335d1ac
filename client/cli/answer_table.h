/*
 * answer_table: the rows of an answer: a key, and what is counted under it. One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_ANSWER_TABLE_H
#define RINGTAIL_CLIENT_CLI_ANSWER_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "client/cli/answer.h"
#include "query/tally.h"

#define ANSWER_KEY_BYTES_MAX	512u	/* of all its parts; what is longer is cut */
#define ANSWER_PART_END		'\x1f'	/* in no part: hidden characters are shown as '?' */

struct answer_key {
	char text[ANSWER_KEY_BYTES_MAX];	/* the parts, each with ANSWER_PART_END behind it */
	size_t bytes;
	uint32_t numbers;			/* bit by part: it is a number */
};

struct answer_row {
	char *key;			/* struct answer_key's text, */
	uint32_t hash, numbers;
	bool of_time;			/* its values are durations */
	uint64_t events, errors, absent;	/* absent: events without the value, or with one below 0 */
	struct tally tally;
};

/* All zeros at first. */
struct answer_table {
	struct answer_row **slot;
	size_t slots, rows;
	uint64_t lost, gaps_unknown, events;
	uint64_t crowded;		/* events that found no row */
};

/* The key's row; NULL where there are ANSWER_ROWS_MAX others already, or no memory. */
struct answer_row *answer_table_row(struct answer_table *table, const struct answer_key *key);

/* Adds a row of another table to the key's. False: there is no room or no memory, and nothing was added. */
bool answer_table_add(struct answer_table *table, const struct answer_key *key, const struct answer_row *row);

/* The rows in that order, most first, for free(); *all: the sum of all their values. NULL: no memory. */
struct answer_row **answer_table_sort(const struct answer_table *table, const struct answer_question *question,
				      long double *all);

/* All zeros again, but for the room it has. */
void answer_table_clear(struct answer_table *table);
void answer_table_destroy(struct answer_table *table);

#endif
