/*
 * wall_clock: turns the traced host's CLOCK_MONOTONIC into times of day.
 *
 * The date's text is made once a second of events, not once an event.
 */
#ifndef RINGTAIL_CLIENT_CLI_WALL_CLOCK_H
#define RINGTAIL_CLIENT_CLI_WALL_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "client/cli/out.h"

struct wall_clock {
	uint64_t offset_ns;	/* wall - monotonic, modulo 2^64 */
	uint64_t second;	/* that `text` is of */
	bool utc;
	unsigned text_bytes;
	char text[32];
};

/* utc: "2026-01-31T12:00:00.123456789Z", else local "12:00:00.123456". */
void wall_clock_init(struct wall_clock *clock, bool utc);

/* Both clocks at one moment. */
void wall_clock_set(struct wall_clock *clock, uint64_t monotonic_ns, uint64_t realtime_ns);

void wall_clock_print(struct wall_clock *clock, struct out *out, uint64_t monotonic_ns);

#endif
