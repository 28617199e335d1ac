/*
 * clock: the daemon's clocks, in ns. All time enters through here, so that a simulation can put its
 * own in its place when it is linked.
 */
#ifndef RINGTAIL_DAEMON_BASE_CLOCK_H
#define RINGTAIL_DAEMON_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_S 1000000000ull

uint64_t clock_read(clockid_t id);

/* The clock of every event. */
uint64_t clock_monotonic(void);

/* The processor's time stamp counter; 0 where there is none that is known. */
uint64_t clock_counter(void);

#endif
