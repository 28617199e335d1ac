/* tally: see tally.h. */
#include "query/tally.h"

#include <stdlib.h>
#include <string.h>

struct bucket {
	unsigned row, step;
};

static unsigned bits_of(uint64_t value)
{
	return value ? 64u - (unsigned)__builtin_clzll(value) : 0;
}

/* Row 0 holds the values below TALLY_EXACT, row n those of n + TALLY_STEPS_BITS bits. */
static struct bucket bucket_of(uint64_t value)
{
	unsigned row = value < TALLY_EXACT ? 0 : bits_of(value) - TALLY_STEPS_BITS;

	return (struct bucket){ row, row ? (unsigned)(value >> (row - 1)) - TALLY_STEPS :
					   (unsigned)value };
}

static uint64_t low_of(struct bucket bucket)
{
	return bucket.row ? (uint64_t)(TALLY_STEPS + bucket.step) << (bucket.row - 1) : bucket.step;
}

static uint64_t middle_of(struct bucket bucket)
{
	return low_of(bucket) + (bucket.row ? ((1ull << (bucket.row - 1)) - 1) / 2 : 0);
}

unsigned tally_bucket(uint64_t value)
{
	struct bucket bucket = bucket_of(value);

	return bucket.row * TALLY_STEPS + bucket.step;
}

void tally_add_counted(struct tally *tally, uint64_t count, uint64_t min, uint64_t max, long double sum)
{
	if (!tally->count || min < tally->min)
		tally->min = min;
	if (!tally->count || max > tally->max)
		tally->max = max;
	tally->count += count;
	tally->sum += sum;
}

void tally_add_bucket(struct tally *tally, unsigned bucket, uint64_t count)
{
	uint64_t **row = &tally->row[bucket / TALLY_STEPS];

	if (!*row)
		*row = calloc(TALLY_STEPS, sizeof(uint64_t));
	if (*row)
		(*row)[bucket % TALLY_STEPS] += count;
	else
		tally->unplaced += count;
}

void tally_add(struct tally *tally, uint64_t value)
{
	tally_add_counted(tally, 1, value, value, value);
	tally_add_bucket(tally, tally_bucket(value), 1);
}

void tally_join(struct tally *tally, const struct tally *other)
{
	if (other->count)
		tally_add_counted(tally, other->count, other->min, other->max, other->sum);
	tally->unplaced += other->unplaced;
	for (unsigned row = 0; row < TALLY_ROWS; row++)
		for (unsigned step = 0; other->row[row] && step < TALLY_STEPS; step++)
			if (other->row[row][step])
				tally_add_bucket(tally, row * TALLY_STEPS + step, other->row[row][step]);
}

void tally_clear(struct tally *tally)
{
	for (unsigned row = 0; row < TALLY_ROWS; row++)
		free(tally->row[row]);
	memset(tally, 0, sizeof(*tally));
}

uint64_t tally_quantile(const struct tally *tally, double part)
{
	uint64_t placed = tally->count - tally->unplaced, seen = 0;
	uint64_t rank = (uint64_t)(part * (double)placed);
	uint64_t value = tally->max;

	for (unsigned row = 0; row < TALLY_ROWS; row++)
		for (unsigned step = 0; tally->row[row] && step < TALLY_STEPS; step++) {
			seen += tally->row[row][step];
			if (seen > rank) {
				value = middle_of((struct bucket){ row, step });
				goto found;
			}
		}
found:
	return value < tally->min ? tally->min : value > tally->max ? tally->max : value;
}

uint64_t tally_between(const struct tally *tally, uint64_t low, uint64_t high)
{
	uint64_t n = 0;

	for (unsigned row = 0; row < TALLY_ROWS; row++)
		for (unsigned step = 0; tally->row[row] && step < TALLY_STEPS; step++) {
			uint64_t at = low_of((struct bucket){ row, step });

			if (at >= low && at <= high)
				n += tally->row[row][step];
		}
	return n;
}
