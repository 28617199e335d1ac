/*
 * sim_stored: what the daemon calls stored is on the disk, also after a power cut where it promised
 * that. Told by ring: some frame of that run's segments tells of what is before.
 */
#ifndef RINGTAIL_TESTS_SIM_STORED_H
#define RINGTAIL_TESTS_SIM_STORED_H

#include <stdint.h>

#include "tests/sim/sim_source.h"

struct spooler;

/* Up to where the files of that spool, as they are now, tell of each ring in that run: sim_disk.c. */
void sim_disk_told(const char *spool, uint64_t epoch, uint64_t told[SOURCE_RINGS_MAX]);

/* Before the cut, and after it. NULL: nothing is stored. */
void sim_stored_note(const struct spooler *spooler, const struct source_config_sim *source);
void sim_stored_check(void);

#endif
