#include "daemon/ring/text_table.h"

#include <stdlib.h>
#include <string.h>

#include "query/container.h"

#define BUCKETS (2 * RT_TEXTS_MAX)

struct text {
	struct batch_text text;		/* first, so that one is the other */
	uint32_t refs;
	char data[];
};

struct entry {
	uint64_t id;
	struct text *text;		/* NULL: the place is free */
};

struct text_table {
	uint64_t serial, learned;
	struct entry entry[RT_TEXTS_MAX];	/* by `learned`, in turn */
	uint16_t bucket[BUCKETS];	/* open addressing by id: place + 1; 0: empty */
};

struct text_table *text_table_create(void)
{
	return calloc(1, sizeof(struct text_table));
}

void text_table_destroy(struct text_table *table)
{
	if (!table)
		return;
	for (unsigned i = 0; i < RT_TEXTS_MAX; i++)
		if (table->entry[i].text)
			text_put(&table->entry[i].text->text);
	free(table);
}

const struct batch_text *text_get(const struct batch_text *text)
{
	if (text)
		((struct text *)text)->refs++;
	return text;
}

void text_put(const struct batch_text *text)
{
	if (text && !--((struct text *)text)->refs)
		free((struct text *)text);
}

/* The producers' ids are mixed numbers; a recording's are made as well as they are. */
static uint32_t home_of(uint64_t id)
{
	return (id * 0x9e3779b97f4a7c15ull) >> 32 & (BUCKETS - 1);
}

/* The bucket of an id, or the empty one where it belongs. At most half are taken. */
static uint32_t find_bucket(const struct text_table *table, uint64_t id)
{
	uint32_t at = home_of(id);

	while (table->bucket[at] && table->entry[table->bucket[at] - 1].id != id)
		at = (at + 1) & (BUCKETS - 1);
	return at;
}

static void remove_bucket(struct text_table *table, uint32_t at)
{
	uint32_t hole = at;

	for (;;) {
		uint32_t home;

		at = (at + 1) & (BUCKETS - 1);
		if (!table->bucket[at])
			break;
		home = home_of(table->entry[table->bucket[at] - 1].id);
		/* An entry may fill the hole if the hole lies between its home and where it is. */
		if (((at - home) & (BUCKETS - 1)) >= ((at - hole) & (BUCKETS - 1))) {
			table->bucket[hole] = table->bucket[at];
			hole = at;
		}
	}
	table->bucket[hole] = 0;
}

/* The text that the entry held is the caller's then. */
static struct text *remove_entry(struct text_table *table, struct entry *entry)
{
	struct text *text = entry->text;

	remove_bucket(table, find_bucket(table, entry->id));
	entry->text = NULL;
	return text;
}

/* Of several paths, each ended by a newline, the one to keep. */
static void choose_path(const char **data, uint32_t *bytes)
{
	const char *end = *data + *bytes, *at = *data, *chosen = NULL;
	uint32_t chosen_bytes = 0;

	while (at < end) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		uint32_t length = (uint32_t)((stop ? stop : end) - at);

		if (!chosen || container_is_in(at, length)) {
			chosen = at;
			chosen_bytes = length;
			if (container_is_in(at, length))
				break;
		}
		at += length + 1;
	}
	*data = chosen;
	*bytes = chosen_bytes;
}

static struct text *make_text(struct text_table *table, const char *data, uint32_t bytes)
{
	struct text *text = malloc(sizeof(*text) +
				   (bytes < TEXT_ROOM_BYTES ? TEXT_ROOM_BYTES : bytes));

	if (!text)
		return NULL;
	memcpy(text->data, data, bytes);
	text->refs = 1;
	text->text = (struct batch_text){
		.serial = ++table->serial, .data = text->data, .bytes = bytes,
	};
	return text;
}

uint32_t text_table_learn(struct text_table *table, uint64_t id, const void *data, uint32_t bytes)
{
	uint32_t place = table->learned % RT_TEXTS_MAX, at = find_bucket(table, id);
	struct entry *entry = &table->entry[place];
	struct text *text = NULL;
	const char *path = data;

	if (!(id & RT_TEXT_EXE))
		choose_path(&path, &bytes);
	if (!bytes)
		return UINT32_MAX;
	/* Told again, it stays the same one, so that who names it already need not be told anew. */
	if (table->bucket[at])
		text = remove_entry(table, &table->entry[table->bucket[at] - 1]);
	if (text && (text->text.bytes != bytes || memcmp(text->data, path, bytes))) {
		text_put(&text->text);
		text = NULL;
	}
	if (!text)
		text = make_text(table, path, bytes);
	if (!text)
		return UINT32_MAX;
	if (entry->text)
		text_put(&remove_entry(table, entry)->text);
	*entry = (struct entry){.id = id, .text = text};
	table->bucket[find_bucket(table, id)] = (uint16_t)(place + 1);
	table->learned++;
	return place;
}

const struct batch_text *text_table_find(const struct text_table *table, uint64_t id)
{
	uint32_t at = find_bucket(table, id);

	return table->bucket[at] ? &table->entry[table->bucket[at] - 1].text->text : NULL;
}

const struct batch_text *text_table_at(const struct text_table *table, uint32_t place, uint64_t *id)
{
	const struct entry *entry = &table->entry[place];

	*id = entry->id;
	return entry->text ? &entry->text->text : NULL;
}

void text_table_replace(struct text_table *table, const struct batch_text *text, const char *with)
{
	struct text *mine = (struct text *)text;
	size_t bytes = strnlen(with, TEXT_ROOM_BYTES);

	memcpy(mine->data, with, bytes);
	mine->text.bytes = (uint32_t)bytes;
	mine->text.serial = ++table->serial;
}
