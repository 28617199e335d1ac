/*
 * spool_in_memory: a run of spool_run.h above a disk in memory, read from a cursor or whole; and a
 * segment's file, by its number.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_SPOOL_IN_MEMORY_H
#define RINGTAIL_TESTS_UNIT_DAEMON_SPOOL_IN_MEMORY_H

#include "tests/unit/daemon/spool_run.h"

#include <stdio.h>

static struct faulty_disk faulty;
static struct run_back back;

static inline void begin(struct spool_run *run)
{
	faulty_disk_init(&faulty, 1);
	run_init(run, &faulty, SPOOL_WRITTEN);
}

static inline void end(struct spool_run *run)
{
	run_fini(run);
	faulty_disk_fini(&faulty);
}

static inline uint64_t produced(const struct spool_run *run)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < RUN_RINGS; i++)
		sum += run->seq[i];
	return sum;
}

static inline void read_since(struct spool_run *run, uint64_t epoch, uint64_t first, uint64_t second)
{
	struct cursor *cursor = run_cursor(epoch, (uint64_t[RUN_RINGS]){first, second});

	run_read_from(run, &back, &(struct spool_place){.cursor = cursor});
	free(cursor);
}

/* The file of a segment, by its number. */
static inline struct faulty_name *segment(unsigned sequence, const char *suffix)
{
	char path[FAULTY_PATH_BYTES];

	snprintf(path, sizeof(path), "spool/run/%016x.%s", sequence, suffix);
	return faulty_find(&faulty.names, path);
}

#endif
