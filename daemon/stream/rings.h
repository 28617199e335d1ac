/*
 * rings: those of this run: whose CPU each is, and the cursors that are made of places by ring. What
 * frames hold is by ring; what leaves the daemon, and what comes back, by CPU. Main thread.
 */
#ifndef RINGTAIL_DAEMON_STREAM_RINGS_H
#define RINGTAIL_DAEMON_STREAM_RINGS_H

#include <stdint.h>

#include "proto/cursor.h"

struct rings {
	struct run run;
	uint32_t n;
	uint32_t *cpu_of;		/* by ring */
};

/* The ring of a CPU, or -1. */
int rings_find(const struct rings *rings, uint32_t cpu);

/* A position for each ring, in their order; seq NULL: 0. free() it. NULL: out of memory. */
struct cursor *rings_cursor(const struct rings *rings, const uint64_t *seq);

/* The same as a message. */
struct cursor_message *rings_message(const struct rings *rings, const uint64_t *seq);

#endif
