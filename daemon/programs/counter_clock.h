/*
 * counter_clock: the time stamp counter of an x86 processor as CLOCK_MONOTONIC.
 *
 * In: looks at both clocks at once, a millisecond apart or more. Out: the ns of a count between two looks, on the
 * straight line between them. So the error is that of a look (half of what it takes: some 20 ns, more where the thread
 * loses its CPU in all of them), and what the kernel has bent its clock in between: 500 ppm at most, if somebody
 * adjusts it just then. A count from before the looks that are kept stands on the line of the two oldest.
 *
 * A jump of one of the clocks, as in a suspend, begins anew. One thread.
 */
#ifndef RINGTAIL_DAEMON_PROGRAMS_COUNTER_CLOCK_H
#define RINGTAIL_DAEMON_PROGRAMS_COUNTER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#define COUNTER_CLOCK_LOOKS 64

struct counter_clock {
	struct counter_look {
		uint64_t count, ns;
	} look[COUNTER_CLOCK_LOOKS];
	uint32_t looks;			/* all there were: the latest is at looks - 1, of a circle */
};

/*
 * Whether it is one: it runs at one rate in every state of the processor, the same on all CPUs, which the kernel checks
 * and then uses it as its own clock. Reads a file of sysfs: before files are out of reach.
 */
bool counter_is_clock(void);

void counter_clock_begin(struct counter_clock *clock);

/* CLOCK_MONOTONIC, now: what is counted up to now can be converted. */
uint64_t counter_clock_look(struct counter_clock *clock);

/* ns of CLOCK_MONOTONIC, of any count; 0 if that is before the clock began. */
uint64_t counter_clock_ns(const struct counter_clock *clock, uint64_t count);

#endif
