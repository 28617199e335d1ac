/*
 * failing_memory: an allocator that fails, for a test that includes the code it is to fail in:
 *
 *	#include "tests/lib/failing_memory.h"
 *	#define malloc failing_malloc
 *	#include "daemon/ring/note.c"
 *	#undef malloc
 *
 * Of a thread's allocations so many succeed, then so many fail, and then all succeed.
 */
#ifndef RINGTAIL_TESTS_LIB_FAILING_MEMORY_H
#define RINGTAIL_TESTS_LIB_FAILING_MEMORY_H

#include <stdbool.h>
#include <stdlib.h>

static _Thread_local unsigned allocations_left, failures_left;

static bool may_allocate(void)
{
	if (allocations_left) {
		allocations_left--;
		return true;
	}
	if (!failures_left)
		return true;
	failures_left--;
	return false;
}

static inline void *failing_calloc(size_t n, size_t bytes)
{
	return may_allocate() ? calloc(n, bytes) : NULL;
}

static inline void *failing_malloc(size_t bytes)
{
	return may_allocate() ? malloc(bytes) : NULL;
}

#endif
