#include "client/cli/answer_table.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/limits.h"

#define SLOTS_MIN	1024u

static uint32_t hash_of(const struct answer_key *key)
{
	uint32_t hash = 2166136261u;	/* FNV-1a */

	for (size_t i = 0; i < key->bytes; i++)
		hash = (hash ^ (uint8_t)key->text[i]) * 16777619u;
	return hash;
}

static void grow(struct answer_table *table)
{
	size_t slots = table->slots ? table->slots * 2 : SLOTS_MIN;
	struct answer_row **larger = calloc(slots, sizeof(*larger));

	if (!larger)
		return;
	for (size_t i = 0; i < table->slots; i++) {
		size_t at;

		if (!table->slot[i])
			continue;
		at = table->slot[i]->hash & (slots - 1);
		while (larger[at])
			at = (at + 1) & (slots - 1);
		larger[at] = table->slot[i];
	}
	free(table->slot);
	table->slot = larger;
	table->slots = slots;
}

static struct answer_row *create_row(const struct answer_key *key, uint32_t hash)
{
	struct answer_row *row = calloc(1, sizeof(*row));

	if (row && !(row->key = strdup(key->text))) {
		free(row);
		row = NULL;
	}
	if (!row)
		return NULL;
	row->hash = hash;
	row->numbers = key->numbers;
	return row;
}

struct answer_row *answer_table_row(struct answer_table *table, const struct answer_key *key)
{
	uint32_t hash = hash_of(key);
	struct answer_row *row;
	size_t at;

	if (table->rows * 2 >= table->slots)
		grow(table);
	if (table->rows * 2 >= table->slots)
		return NULL;
	for (at = hash & (table->slots - 1); (row = table->slot[at]); at = (at + 1) & (table->slots - 1))
		if (row->hash == hash && !strcmp(row->key, key->text))
			return row;
	row = table->rows < ANSWER_ROWS_MAX ? create_row(key, hash) : NULL;
	if (!row)
		return NULL;
	table->slot[at] = row;
	table->rows++;
	return row;
}

bool answer_table_add(struct answer_table *table, const struct answer_key *key, const struct answer_row *row)
{
	struct answer_row *sum = answer_table_row(table, key);

	if (!sum)
		return false;
	sum->of_time |= row->of_time;
	sum->events += row->events;
	sum->errors += row->errors;
	sum->absent += row->absent;
	tally_join(&sum->tally, &row->tally);
	return true;
}

void answer_table_clear(struct answer_table *table)
{
	for (size_t i = 0; i < table->slots; i++) {
		if (!table->slot[i])
			continue;
		tally_clear(&table->slot[i]->tally);
		free(table->slot[i]->key);
		free(table->slot[i]);
		table->slot[i] = NULL;
	}
	*table = (struct answer_table){ .slot = table->slot, .slots = table->slots };
}

void answer_table_destroy(struct answer_table *table)
{
	answer_table_clear(table);
	free(table->slot);
	*table = (struct answer_table){ 0 };
}

/* ---- Order ----------------------------------------------------------------------------------- */

static int by_most(const void *a, const void *b)
{
	const struct answer_row *left = *(struct answer_row *const *)a, *right = *(struct answer_row *const *)b;

	if (left->events != right->events)
		return left->events < right->events ? 1 : -1;
	return strcmp(left->key, right->key);
}

static int by_sum(const void *a, const void *b)
{
	const struct answer_row *left = *(struct answer_row *const *)a, *right = *(struct answer_row *const *)b;

	if (left->tally.sum != right->tally.sum)
		return left->tally.sum < right->tally.sum ? 1 : -1;
	return by_most(a, b);
}

static int by_errors(const void *a, const void *b)
{
	const struct answer_row *left = *(struct answer_row *const *)a, *right = *(struct answer_row *const *)b;

	if (left->errors != right->errors)
		return left->errors < right->errors ? 1 : -1;
	return by_most(a, b);
}

static int by_name(const void *a, const void *b)
{
	return strcmp((*(struct answer_row *const *)a)->key, (*(struct answer_row *const *)b)->key);
}

static int (*order_of(const struct answer_question *question))(const void *a, const void *b)
{
	switch (question->sort) {
	case ANSWER_SORT_EVENTS:
		return by_most;
	case ANSWER_SORT_TIME:
		return by_sum;
	case ANSWER_SORT_ERRORS:
		return by_errors;
	case ANSWER_SORT_NAME:
		return by_name;
	case ANSWER_SORT_SHAPE:
		break;
	}
	return question->shape != ANSWER_HIST && question->of ? by_sum : by_most;
}

struct answer_row **answer_table_sort(const struct answer_table *table, const struct answer_question *question,
				      long double *all)
{
	struct answer_row **row = calloc(table->rows + 1, sizeof(*row));
	size_t rows = 0;

	*all = 0;
	for (size_t i = 0; row && i < table->slots; i++)
		if (table->slot[i]) {
			*all += table->slot[i]->tally.sum;
			row[rows++] = table->slot[i];
		}
	if (row)
		qsort(row, rows, sizeof(*row), order_of(question));
	return row;
}
