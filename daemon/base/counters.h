/*
 * counters: the daemon's counters, one row each in counters.def. Any thread adds; any thread reads.
 */
#ifndef RINGTAIL_DAEMON_BASE_COUNTERS_H
#define RINGTAIL_DAEMON_BASE_COUNTERS_H

#include <stdatomic.h>
#include <stdint.h>

enum counter {
#define COUNTER(name, help) COUNTER_##name,
#include "daemon/base/counters.def"
#undef COUNTER
	COUNTERS,
};

extern _Atomic uint64_t counter_values[COUNTERS];

static inline void counter_add(enum counter counter, uint64_t n)
{
	atomic_fetch_add_explicit(&counter_values[counter], n, memory_order_relaxed);
}

static inline uint64_t counter_read(enum counter counter)
{
	return atomic_load_explicit(&counter_values[counter], memory_order_relaxed);
}

const char *counter_name(enum counter counter);
const char *counter_help(enum counter counter);

#endif
