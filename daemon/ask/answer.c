#include "daemon/ask/answer.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_PER_SHOWN	8u	/* that many are watched for each that is shown */
#define KEEPS_ITS_PLACE	1.5	/* so much busier must be who takes the place of one that is shown */
#define NONE		0u	/* a slot without a row */

struct ask_answer {
	unsigned top, rows, rows_max, shown;
	uint32_t slots;				/* a power of two, at least twice rows_max */
	uint32_t *slot;				/* a row's number + 1 */
	struct ask_row *row;
	struct ask_counts others;
};

struct ask_answer *ask_answer_create(unsigned top)
{
	struct ask_answer *answer = calloc(1, sizeof(*answer));

	if (!answer)
		return NULL;
	answer->top = top;
	answer->rows_max = top * ROWS_PER_SHOWN;
	for (answer->slots = 16; answer->slots < 2 * answer->rows_max;)
		answer->slots *= 2;
	answer->slot = calloc(answer->slots, sizeof(*answer->slot));
	answer->row = calloc(answer->rows_max, sizeof(*answer->row));
	if (answer->slot && answer->row)
		return answer;
	ask_answer_destroy(answer);
	return NULL;
}

void ask_answer_destroy(struct ask_answer *answer)
{
	if (!answer)
		return;
	free(answer->slot);
	free(answer->row);
	free(answer);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static uint64_t hash_of(const struct ask_key *key)
{
	uint64_t hash = 14695981039346656037u;	/* FNV-1a */

	for (size_t i = 0; i < key->bytes; i++)
		hash = (hash ^ (uint8_t)key->text[i]) * 1099511628211u;
	return hash ^ hash >> 32;
}

static void put_in_slot(struct ask_answer *answer, uint32_t number)
{
	uint32_t at = (uint32_t)answer->row[number].hash & (answer->slots - 1);

	while (answer->slot[at] != NONE)
		at = (at + 1) & (answer->slots - 1);
	answer->slot[at] = number + 1;
}

static struct ask_row *add_row(struct ask_answer *answer, const struct ask_key *key, uint64_t hash)
{
	struct ask_row *row = &answer->row[answer->rows];

	if (answer->rows == answer->rows_max)
		return NULL;
	memset(row, 0, sizeof(*row));
	memcpy(row->key.text, key->text, key->bytes);
	row->key.bytes = key->bytes;
	row->hash = hash;
	row->shown = answer->shown < answer->top;
	answer->shown += row->shown;
	put_in_slot(answer, answer->rows++);
	return row;
}

/* NULL: it has no row, and there is no room for one. */
static struct ask_row *find_row(struct ask_answer *answer, const struct ask_key *key)
{
	uint64_t hash = hash_of(key);

	for (uint32_t at = (uint32_t)hash & (answer->slots - 1); answer->slot[at] != NONE;
	     at = (at + 1) & (answer->slots - 1)) {
		struct ask_row *row = &answer->row[answer->slot[at] - 1];

		if (row->hash == hash && row->key.bytes == key->bytes &&
		    memcmp(row->key.text, key->text, key->bytes) == 0)
			return row;
	}
	return add_row(answer, key, hash);
}

/* Where they are counted. */
static struct ask_counts *add_events(struct ask_answer *answer, const struct ask_key *key, uint64_t events)
{
	struct ask_row *row = find_row(answer, key);
	struct ask_counts *counts = row && row->shown ? &row->counts : &answer->others;

	if (row)
		row->weight += (double)events;
	counts->events += events;
	return counts;
}

void ask_answer_add(struct ask_answer *answer, const struct ask_key *key, const uint64_t *value, bool failed)
{
	struct ask_counts *counts = add_events(answer, key, 1);

	counts->errors += failed;
	if (!value)
		return;
	counts->values++;
	counts->sum += (double)*value;
	counts->bucket[meter_bucket_of(*value)]++;
}

void ask_answer_add_all(struct ask_answer *answer, const struct ask_key *key, uint64_t events)
{
	add_events(answer, key, events);
}

/* ---- Turns ----------------------------------------------------------------------------------- */

static void join_others(struct ask_answer *answer, struct ask_row *row)
{
	struct ask_counts *others = &answer->others;

	others->events += row->counts.events;
	others->errors += row->counts.errors;
	others->values += row->counts.values;
	others->sum += row->counts.sum;
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		others->bucket[i] += row->counts.bucket[i];
	row->counts = (struct ask_counts){0};
	row->shown = false;
}

static double rank_of(const struct ask_row *row)
{
	return row->shown ? row->weight * KEEPS_ITS_PLACE : row->weight;
}

static int by_rank(const void *a, const void *b)
{
	const struct ask_row *left = a, *right = b;
	double l = rank_of(left), r = rank_of(right);

	if (l != r)
		return l < r ? 1 : -1;
	if (left->shown != right->shown)
		return left->shown ? -1 : 1;
	return left->hash < right->hash ? 1 : left->hash > right->hash ? -1 : 0;
}

/* Room for keys that are new: of those that are not shown, the idler half is forgotten once it gets tight. */
static unsigned rows_kept(const struct ask_answer *answer)
{
	unsigned half = answer->rows_max / 2;

	return answer->rows <= half ? answer->rows : half > answer->top ? half : answer->top;
}

void ask_answer_turn(struct ask_answer *answer)
{
	qsort(answer->row, answer->rows, sizeof(*answer->row), by_rank);
	answer->shown = 0;
	for (unsigned i = 0; i < answer->rows; i++) {
		struct ask_row *row = &answer->row[i];

		if (row->shown && i >= answer->top)
			join_others(answer, row);
		else if (i < answer->top)
			row->shown = true;
		answer->shown += row->shown;
		row->weight /= 2;
	}
	answer->rows = rows_kept(answer);
	memset(answer->slot, 0, answer->slots * sizeof(*answer->slot));
	for (uint32_t i = 0; i < answer->rows; i++)
		put_in_slot(answer, i);
}

const struct ask_row *ask_answer_next(const struct ask_answer *answer, unsigned *at)
{
	while (*at < answer->rows) {
		const struct ask_row *row = &answer->row[(*at)++];

		if (row->shown)
			return row;
	}
	return NULL;
}

const struct ask_counts *ask_answer_others(const struct ask_answer *answer)
{
	return &answer->others;
}
