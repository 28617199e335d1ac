/*
 * tally: how many values there were, their sum, the least and the greatest, and how they are spread.
 *
 * The spread is a log-linear histogram: below TALLY_EXACT each value has a bucket of its own; above, each
 * power of two is cut into TALLY_STEPS equal buckets, so that a quantile is wrong by at most one part in
 * 2 * TALLY_STEPS (1.6 %). Rows are allocated when a value falls into them. One thread.
 * Source of the form: Gil Tene, HdrHistogram.
 */
#ifndef RINGTAIL_QUERY_TALLY_H
#define RINGTAIL_QUERY_TALLY_H

#include <stdbool.h>
#include <stdint.h>

#define TALLY_STEPS_BITS	5u
#define TALLY_STEPS		(1u << TALLY_STEPS_BITS)
#define TALLY_EXACT		TALLY_STEPS
#define TALLY_ROWS		(64u - TALLY_STEPS_BITS + 1u)
#define TALLY_BUCKETS		(TALLY_ROWS * TALLY_STEPS)
#define TALLY_ERROR_PERCENT	1.6	/* of a quantile, at most */

struct tally {
	uint64_t count;
	uint64_t min, max;
	long double sum;
	uint64_t unplaced;		/* counted, but there was no memory for their row */
	uint64_t *row[TALLY_ROWS];	/* of TALLY_STEPS buckets; NULL: empty */
};

/* A tally of zeros is empty. */
void tally_add(struct tally *tally, uint64_t value);
/* The number of a value's bucket, below TALLY_BUCKETS. */
unsigned tally_bucket(uint64_t value);

/* Values that were counted elsewhere: how many, what they are in all, and of each bucket that has any, how many. */
void tally_add_counted(struct tally *tally, uint64_t count, uint64_t min, uint64_t max, long double sum);
void tally_add_bucket(struct tally *tally, unsigned bucket, uint64_t count);

/* All the values of another. */
void tally_join(struct tally *tally, const struct tally *other);

void tally_clear(struct tally *tally);		/* and frees its rows */

/* Below which `part` (0 to 1) of the values are: the middle of that value's bucket. 0 if it is empty. */
uint64_t tally_quantile(const struct tally *tally, double part);

/* Values in [low, high], both among them, whose least is a power of two, or 0. */
uint64_t tally_between(const struct tally *tally, uint64_t low, uint64_t high);

#endif
