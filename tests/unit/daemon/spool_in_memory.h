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

static inline void begin(struct run *run)
{
	faulty_disk_init(&faulty, 1);
	run_init(run, &faulty, SPOOL_WRITTEN);
}

static inline void end(struct run *run)
{
	run_fini(run);
	faulty_disk_fini(&faulty);
}

static inline uint64_t produced(const struct run *run)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < RUN_RINGS; i++)
		sum += run->seq[i];
	return sum;
}

static inline void read_since(struct run *run, uint64_t epoch, uint64_t first, uint64_t second)
{
	Ringtail__V1__Cursor cursor = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Position position[RUN_RINGS], *list[RUN_RINGS];
	struct spool_place place = {.cursor = &cursor};
	uint64_t seq[RUN_RINGS] = {first, second};

	for (unsigned i = 0; i < RUN_RINGS; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = run_cpu_of[i];
		position[i].seq = seq[i];
		list[i] = &position[i];
	}
	cursor.boot_id.data = (uint8_t *)run_boot_id;
	cursor.boot_id.len = sizeof(run_boot_id);
	cursor.epoch = epoch;
	cursor.position = list;
	cursor.n_position = RUN_RINGS;
	run_read_from(run, &back, &place);
}

/* The file of a segment, by its number. */
static inline struct faulty_name *segment(unsigned sequence, const char *suffix)
{
	char path[FAULTY_PATH_BYTES];

	snprintf(path, sizeof(path), "spool/run/%016x.%s", sequence, suffix);
	return faulty_find(&faulty.names, path);
}

#endif
