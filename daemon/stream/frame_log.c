/* A circular array with running totals, so that sums are differences. */
#include "daemon/stream/frame_log.h"

#include <stdbool.h>
#include <stdlib.h>

#include "daemon/base/counters.h"

#define ENTRIES_FIRST 64u

struct entry {
	struct frame_ref *frame;
	uint64_t bytes_before, attempts_before;	/* of all entries ever before this one */
};

struct frame_log {
	struct entry *entry;		/* by serial, modulo capacity */
	uint64_t capacity;		/* a power of two */
	uint64_t first, end;
	uint64_t bytes, attempts;	/* of all entries ever */
	uint64_t bytes_max;
	frame_log_evict *evict;
	void *context;
};

struct frame_log *frame_log_create(uint64_t bytes_max, frame_log_evict *evict, void *context)
{
	struct frame_log *log = calloc(1, sizeof(*log));

	if (!log)
		return NULL;
	log->capacity = ENTRIES_FIRST;
	log->entry = malloc(log->capacity * sizeof(*log->entry));
	if (!log->entry) {
		free(log);
		return NULL;
	}
	log->bytes_max = bytes_max;
	log->evict = evict;
	log->context = context;
	return log;
}

static struct entry *at(const struct frame_log *log, uint64_t serial)
{
	return &log->entry[serial & (log->capacity - 1)];
}

void frame_log_destroy(struct frame_log *log)
{
	if (!log)
		return;
	for (uint64_t serial = log->first; serial < log->end; serial++)
		frame_ref_put(at(log, serial)->frame);
	free(log->entry);
	free(log);
}

/* What an entry costs in memory, so that many small frames do not escape the bound. */
static uint64_t cost_of(const struct frame_ref *frame)
{
	return frame->bytes + sizeof(*frame) + sizeof(struct entry);
}

static bool grow(struct frame_log *log)
{
	struct entry *entry = malloc(2 * log->capacity * sizeof(*entry));

	if (!entry)
		return false;
	for (uint64_t serial = log->first; serial < log->end; serial++)
		entry[serial & (2 * log->capacity - 1)] = *at(log, serial);
	free(log->entry);
	log->entry = entry;
	log->capacity *= 2;
	return true;
}

void frame_log_evict_oldest(struct frame_log *log, enum loss_reason reason)
{
	struct frame_ref *oldest;

	if (log->end - log->first <= 1)
		return;
	oldest = at(log, log->first)->frame;
	log->evict(log->context, log->first, oldest, reason);
	log->first++;
	counter_add(COUNTER_history_evicted, 1);
	frame_ref_put(oldest);
}

void frame_log_append(struct frame_log *log, struct frame_ref *frame)
{
	if (log->end - log->first == log->capacity && !grow(log))
		frame_log_evict_oldest(log, LOSS_REASON_MEMORY);
	*at(log, log->end++) = (struct entry){.frame = frame, .bytes_before = log->bytes,
					      .attempts_before = log->attempts};
	log->bytes += cost_of(frame);
	log->attempts += frame_ref_attempts(frame);
	while (log->end - log->first > 1 &&
	       log->bytes - at(log, log->first)->bytes_before > log->bytes_max)
		frame_log_evict_oldest(log, LOSS_REASON_QUEUE_FULL);
}

void frame_log_set_bytes_max(struct frame_log *log, uint64_t bytes_max)
{
	log->bytes_max = bytes_max;
}

uint64_t frame_log_first(const struct frame_log *log)
{
	return log->first;
}

uint64_t frame_log_end(const struct frame_log *log)
{
	return log->end;
}

struct frame_ref *frame_log_get(const struct frame_log *log, uint64_t serial)
{
	return at(log, serial)->frame;
}

uint64_t frame_log_bytes_from(const struct frame_log *log, uint64_t serial)
{
	return serial == log->end ? 0 : log->bytes - at(log, serial)->bytes_before;
}

uint64_t frame_log_attempts_from(const struct frame_log *log, uint64_t serial)
{
	return serial == log->end ? 0 : log->attempts - at(log, serial)->attempts_before;
}
