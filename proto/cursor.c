#include "proto/cursor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/limits.h"

void boot_id_print(const uint8_t id[16], char text[BOOT_ID_TEXT_BYTES])
{
	for (unsigned i = 0; i < 16; i++)
		text += sprintf(text, "%s%02x", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", id[i]);
}

bool run_equal(const struct run *a, const struct run *b)
{
	return a->epoch == b->epoch && memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

struct run run_of_message(ProtobufCBinaryData boot_id, uint64_t epoch)
{
	struct run run = {.epoch = epoch};

	if (boot_id.len == sizeof(run.boot_id))
		memcpy(run.boot_id, boot_id.data, sizeof(run.boot_id));
	return run;
}

bool run_is_named(const struct run *run)
{
	static const uint8_t none[sizeof(run->boot_id)];

	return memcmp(run->boot_id, none, sizeof(none)) != 0;
}

struct cursor *cursor_create(uint32_t capacity)
{
	struct cursor *cursor = malloc(sizeof(*cursor) + capacity * sizeof(cursor->position[0]));

	if (cursor)
		*cursor = (struct cursor){.capacity = capacity};
	return cursor;
}

void cursor_assign(struct cursor *to, const struct cursor *from)
{
	to->run = from->run;
	to->n = from->n < to->capacity ? from->n : to->capacity;
	memcpy(to->position, from->position, to->n * sizeof(to->position[0]));
}

struct cursor *cursor_copy(const struct cursor *cursor)
{
	struct cursor *copy = cursor_create(cursor->n);

	if (copy)
		cursor_assign(copy, cursor);
	return copy;
}

/* CPUs mostly stand at their own number. */
struct position *cursor_find(const struct cursor *cursor, uint32_t cpu)
{
	if (cpu < cursor->n && cursor->position[cpu].cpu == cpu)
		return (struct position *)&cursor->position[cpu];
	for (uint32_t i = 0; i < cursor->n; i++)
		if (cursor->position[i].cpu == cpu)
			return (struct position *)&cursor->position[i];
	return NULL;
}

uint64_t cursor_seq(const struct cursor *cursor, uint32_t cpu, uint64_t unknown)
{
	const struct position *position = cursor_find(cursor, cpu);

	return position ? position->seq : unknown;
}

void cursor_append(struct cursor *cursor, uint32_t cpu, uint64_t seq)
{
	cursor->position[cursor->n++] = (struct position){cpu, seq};
}

bool cursor_put(struct cursor *cursor, uint32_t cpu, uint64_t seq)
{
	struct position *position = cursor_find(cursor, cpu);

	if (!position && cursor->n == cursor->capacity)
		return false;
	if (position)
		position->seq = seq;
	else
		cursor_append(cursor, cpu, seq);
	return true;
}

int cursor_add(struct cursor **cursor, uint32_t cpu, uint64_t seq)
{
	struct cursor *larger;
	uint32_t capacity;

	if (cursor_put(*cursor, cpu, seq))
		return 0;
	capacity = (*cursor)->capacity ? 2 * (*cursor)->capacity : 1;
	larger = realloc(*cursor, sizeof(*larger) + capacity * sizeof(larger->position[0]));
	if (!larger)
		return -ENOMEM;
	larger->capacity = capacity;
	*cursor = larger;
	return cursor_put(larger, cpu, seq) ? 0 : -ENOMEM;
}

void cursor_fill(struct cursor *cursor, const Ringtail__V1__Cursor *message)
{
	cursor->run = run_of_message(message->boot_id, message->epoch);
	for (size_t i = 0; i < message->n_position && cursor->n < cursor->capacity; i++)
		cursor_append(cursor, message->position[i]->cpu, message->position[i]->seq);
}

struct cursor *cursor_of_message(const Ringtail__V1__Cursor *message)
{
	size_t n = message ? message->n_position : 0;
	struct cursor *cursor;

	cursor = cursor_create((uint32_t)(n < CURSOR_POSITIONS_MAX ? n : CURSOR_POSITIONS_MAX));
	if (cursor && message)
		cursor_fill(cursor, message);
	return cursor;
}

struct cursor_message *cursor_message_create(const struct cursor *cursor)
{
	struct cursor_message *made =
		malloc(sizeof(*made) + cursor->n * (sizeof(made->position[0]) + sizeof(*made->list)));

	if (!made)
		return NULL;
	ringtail__v1__cursor__init(&made->cursor);
	made->run = cursor->run;
	made->list = (Ringtail__V1__Position **)&made->position[cursor->n];
	made->cursor.boot_id.data = made->run.boot_id;
	made->cursor.boot_id.len = sizeof(made->run.boot_id);
	made->cursor.epoch = made->run.epoch;
	made->cursor.position = made->list;
	made->cursor.n_position = cursor->n;
	for (uint32_t i = 0; i < cursor->n; i++) {
		ringtail__v1__position__init(&made->position[i]);
		made->position[i].cpu = cursor->position[i].cpu;
		made->position[i].seq = cursor->position[i].seq;
		made->list[i] = &made->position[i];
	}
	return made;
}
