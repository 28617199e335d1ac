#include "daemon/export/arena.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int export_arena_reserve(struct export_arena *arena, size_t bytes)
{
	arena->used = 0;
	if (bytes <= arena->bytes)
		return 0;
	export_arena_fini(arena);
	arena->data = malloc(bytes);
	if (!arena->data)
		return -ENOMEM;
	arena->bytes = bytes;
	return 0;
}

void export_arena_fini(struct export_arena *arena)
{
	free(arena->data);
	*arena = (struct export_arena){0};
}

void *export_arena_take(struct export_arena *arena, size_t bytes)
{
	void *taken = arena->data + arena->used;

	arena->used += EXPORT_ARENA_ROUND(bytes);
	assert(arena->used <= arena->bytes);
	return taken;
}

char *export_arena_text(struct export_arena *arena, const char *text)
{
	size_t bytes = strlen(text) + 1;

	return memcpy(export_arena_take(arena, bytes), text, bytes);
}
