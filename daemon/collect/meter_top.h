/*
 * meter_top: which processes were the busiest, in a table of fixed size: space-saving (Metwally,
 * Agrawal, El Abbadi 2005). A process that finds the table full takes the place of the least busy,
 * and inherits its weight as what its own may be too high by; so whoever has more than 1 part in
 * METER_PROCESSES_MAX of all weight is in the table. One thread at a time.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_METER_TOP_H
#define RINGTAIL_DAEMON_COLLECT_METER_TOP_H

#include <stdint.h>

#include "daemon/base/limits.h"
#include "kmod/uapi/ringtail.h"

struct top_entry {
	uint32_t pid;
	char comm[RT_COMM_BYTES];	/* of the thread that was seen last; not terminated if full */
	uint64_t calls, errors, cpu_ns;
	uint64_t weight;		/* by which the least busy is found */
};

#define TOP_SLOTS (4u * METER_PROCESSES_MAX)

struct meter_top {
	uint32_t entries;
	struct top_entry entry[METER_PROCESSES_MAX];
	uint16_t slot[TOP_SLOTS];	/* entry + 1, by hash of pid; 0: empty */
};

/* All zeros is an empty table, too. */
void meter_top_clear(struct meter_top *top);

/* Adds to entry.pid's; `weight` is not looked at. */
void meter_top_add(struct meter_top *top, const struct top_entry *entry);

#endif
