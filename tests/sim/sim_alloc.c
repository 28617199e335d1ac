/*
 * sim_alloc: memory that runs out: of the daemon's allocations, the n-th fails, and so many after
 * it. What the made-up world itself allocates never fails.
 */
#include <errno.h>
#include <execinfo.h>
#include <protobuf-c/protobuf-c.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
char *__real_strdup(const char *text);

/* Allocations of the world's, of which there must be enough. */
void *sim_realloc(void *old, size_t bytes)
{
	void *memory = __real_realloc(old, bytes);

	if (!memory)
		sim_fail("the simulation is out of memory");
	return memory;
}

void *sim_calloc(size_t bytes)
{
	return memset(sim_realloc(NULL, bytes), 0, bytes);
}

#define PLACE_FRAMES	8u	/* of a stack of callers */
#define PLACES_MAX	(1u << 14)

/* How often this stack of callers has been there, with this time. */
static uint32_t count_place(void)
{
	static struct {
		uint64_t hash;
		uint32_t count;
	} places[PLACES_MAX];
	void *frame[PLACE_FRAMES];
	uint64_t hash = 14695981039346656037ull;
	int n = backtrace(frame, PLACE_FRAMES);

	for (int i = 0; i < n; i++)
		hash = (hash ^ (uintptr_t)frame[i]) * 1099511628211ull;
	for (uint64_t i = 0; i < PLACES_MAX; i++) {
		uint64_t at = (hash + i) % PLACES_MAX;

		if (places[at].count && places[at].hash != hash)
			continue;
		places[at].hash = hash;
		return ++places[at].count;
	}
	sim_fail("allocations are made in more than %u places", PLACES_MAX);
}

static void tell(struct sim_allocations *told, uint64_t count)
{
	if (count >= SIM_ALLOCATIONS_MAX)
		sim_fail("more than %u allocations", SIM_ALLOCATIONS_MAX);
	told->count = count;
	told->there[count] = count_place();
}

static bool fails(void)
{
	struct sim_shortage *shortage = &sim.shortage;

	if (!shortage->armed || !sim_task_is_running())
		return false;
	shortage->count++;
	if (shortage->told)
		tell(shortage->told, shortage->count);
	if (!shortage->at || shortage->count < shortage->at ||
	    shortage->count >= shortage->at + shortage->length)
		return false;
	shortage->struck = true;
	sim_log("allocation %llu fails", (unsigned long long)shortage->count);
	errno = ENOMEM;
	return true;
}

/* ---- In the place of libc's ------------------------------------------------------------------ */

void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes)
{
	return fails() ? NULL : __real_calloc(n, bytes);
}

void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes)
{
	return fails() ? NULL : __real_realloc(old, bytes);
}

char *__wrap_strdup(const char *text);
char *__wrap_strdup(const char *text)
{
	return fails() ? NULL : __real_strdup(text);
}

int __wrap_asprintf(char **text, const char *format, ...);
int __wrap_asprintf(char **text, const char *format, ...)
{
	va_list arguments;
	int n;

	if (fails())
		return -1;
	va_start(arguments, format);
	n = vasprintf(text, format, arguments);
	va_end(arguments);
	return n;
}

/* protobuf-c's own are inside its library. What it makes is freed with free(). */
static void *allocate(void *context, size_t bytes)
{
	(void)context;
	return fails() ? NULL : __real_malloc(bytes);
}

static void release(void *context, void *memory)
{
	(void)context;
	free(memory);
}

ProtobufCMessage *__real_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
						   ProtobufCAllocator *allocator, size_t bytes,
						   const uint8_t *data);
ProtobufCMessage *__wrap_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
						   ProtobufCAllocator *allocator, size_t bytes,
						   const uint8_t *data);
ProtobufCMessage *__wrap_protobuf_c_message_unpack(const ProtobufCMessageDescriptor *descriptor,
						   ProtobufCAllocator *allocator, size_t bytes,
						   const uint8_t *data)
{
	ProtobufCAllocator mine = {.alloc = allocate, .free = release};

	return __real_protobuf_c_message_unpack(descriptor, allocator ? allocator : &mine, bytes,
						data);
}
