/*
 * failing_memory: an allocator that fails, for a test that includes this: it is linked with it in the place
 * of the C library's (the Makefile: what a test defines as __wrap_NAME).
 *
 * Of a thread's allocations so many succeed, then so many fail, and then all succeed.
 */
#ifndef RINGTAIL_TESTS_LIB_FAILING_MEMORY_H
#define RINGTAIL_TESTS_LIB_FAILING_MEMORY_H

#include <limits.h>
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

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *memory, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	return may_allocate() ? __real_malloc(bytes) : NULL;
}

void *__wrap_calloc(size_t n, size_t bytes)
{
	return may_allocate() ? __real_calloc(n, bytes) : NULL;
}

void *__wrap_realloc(void *memory, size_t bytes)
{
	return may_allocate() ? __real_realloc(memory, bytes) : NULL;
}

char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

char *__wrap_strdup(const char *text)
{
	return may_allocate() ? __real_strdup(text) : NULL;
}

/* From now on all fail but the first n; or none does. */
static inline void memory_fails_after(unsigned n)
{
	allocations_left = n;
	failures_left = UINT_MAX;
}

static inline void memory_suffices(void)
{
	allocations_left = failures_left = 0;
}

#endif
