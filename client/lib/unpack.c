#include "client/lib/unpack.h"

#include <stdlib.h>
#include <string.h>

#include "client/lib/limits.h"
#include "proto/message.h"
#include "proto/ringtail.pb-c.h"

#define BLOCK_BYTES (16u << 10)

struct block {
	struct block *next;
	size_t used, size;
	_Alignas(max_align_t) uint8_t data[];
};

struct arena {
	struct block *block;	/* the newest first */
	size_t bytes, bytes_max;
};

static size_t bytes_max_of(const ProtobufCMessageDescriptor *descriptor)
{
	return descriptor == &ringtail__v1__catalog__descriptor ? UNPACK_CATALOG_BYTES_MAX :
	       descriptor == &ringtail__v1__stat__descriptor ||
	       descriptor == &ringtail__v1__hosts__descriptor ? UNPACK_STAT_BYTES_MAX : UNPACK_BYTES_MAX;
}

static void *take(void *context, size_t bytes)
{
	struct arena *arena = context;
	struct block *block = arena->block;
	void *taken;

	if (bytes > arena->bytes_max)
		return NULL;
	bytes = (bytes + sizeof(max_align_t) - 1) & ~(sizeof(max_align_t) - 1);
	if (!block || block->size - block->used < bytes) {
		size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;

		if (arena->bytes + size > arena->bytes_max)
			return NULL;
		block = malloc(sizeof(*block) + size);
		if (!block)
			return NULL;
		*block = (struct block){ .next = arena->block, .size = size };
		arena->block = block;
		arena->bytes += size;
	}
	taken = block->data + block->used;
	block->used += bytes;
	return taken;
}

static void keep(void *context, void *pointer)
{
	(void)context;
	(void)pointer;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
	void *taken = take(arena, bytes);

	if (taken)
		memset(taken, 0, bytes);
	return taken;
}

void *unpack(const ProtobufCMessageDescriptor *descriptor, const uint8_t *body, size_t bytes,
	     struct arena **arena)
{
	struct arena *made = calloc(1, sizeof(*made));
	ProtobufCAllocator allocator = { .alloc = take, .free = keep, .allocator_data = made };
	void *message;

	if (!made)
		return NULL;
	made->bytes_max = bytes_max_of(descriptor);
	message = message_unpack(descriptor, &allocator, body, bytes);
	if (!message) {
		arena_destroy(made);
		made = NULL;
	}
	*arena = made;
	return message;
}

void arena_destroy(struct arena *arena)
{
	struct block *block, *next;

	if (!arena)
		return;
	for (block = arena->block; block; block = next) {
		next = block->next;
		free(block);
	}
	free(arena);
}
