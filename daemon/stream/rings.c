#include "daemon/stream/rings.h"

#include <stdlib.h>

int rings_find(const struct rings *rings, uint32_t cpu)
{
	if (cpu < rings->n && rings->cpu_of[cpu] == cpu)
		return (int)cpu;
	for (uint32_t i = 0; i < rings->n; i++)
		if (rings->cpu_of[i] == cpu)
			return (int)i;
	return -1;
}

struct cursor *rings_cursor(const struct rings *rings, const uint64_t *seq)
{
	struct cursor *cursor = cursor_create(rings->n);

	if (!cursor)
		return NULL;
	cursor->run = rings->run;
	for (uint32_t i = 0; i < rings->n; i++)
		cursor_append(cursor, rings->cpu_of[i], seq ? seq[i] : 0);
	return cursor;
}

struct cursor_message *rings_message(const struct rings *rings, const uint64_t *seq)
{
	struct cursor *cursor = rings_cursor(rings, seq);
	struct cursor_message *message = cursor ? cursor_message_create(cursor) : NULL;

	free(cursor);
	return message;
}
