/*
 * export_arena: memory for the pieces of one message: reserved in one go, so that only that can
 * fail, and given back in one. The export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_ARENA_H
#define RINGTAIL_DAEMON_EXPORT_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct export_arena {
	uint8_t *data;
	size_t used, bytes;
};

/* Empties it and makes room. -ENOMEM: it is empty then. */
int export_arena_reserve(struct export_arena *arena, size_t bytes);
void export_arena_fini(struct export_arena *arena);

/* Aligned for anything, not zeroed. Whoever takes more than is reserved has a bug. */
void *export_arena_take(struct export_arena *arena, size_t bytes);

/* A copy of a text, with its end. */
char *export_arena_text(struct export_arena *arena, const char *text);

/* What export_arena_take() uses up for so many bytes, at most. */
#define EXPORT_ARENA_ROUND(bytes) (((bytes) + 15u) & ~(size_t)15u)

#endif
