/*
 * wall_clock: turns the traced host's CLOCK_MONOTONIC into times of day.
 */
#include "client/cli/wall_clock.h"

#include <time.h>

void wall_clock_init(struct wall_clock *clock, bool utc)
{
	tzset();		/* localtime_r() need not */
	*clock = (struct wall_clock){ .utc = utc, .second = UINT64_MAX };
}

void wall_clock_set(struct wall_clock *clock, uint64_t monotonic_ns, uint64_t realtime_ns)
{
	clock->offset_ns = realtime_ns - monotonic_ns;
	clock->second = UINT64_MAX;
}

void wall_clock_print(struct wall_clock *clock, struct out *out, uint64_t monotonic_ns)
{
	uint64_t wall_ns = monotonic_ns + clock->offset_ns;
	uint64_t second = wall_ns / 1000000000u;

	if (second != clock->second) {
		time_t when = (time_t)second;
		struct tm parts = { 0 };

		if (clock->utc)
			gmtime_r(&when, &parts);
		else
			localtime_r(&when, &parts);
		clock->text_bytes =
			(unsigned)strftime(clock->text, sizeof(clock->text),
					   clock->utc ? "%Y-%m-%dT%H:%M:%S." : "%H:%M:%S.", &parts);
		clock->second = second;
	}
	out_bytes(out, clock->text, clock->text_bytes);
	if (clock->utc) {
		out_digits(out, wall_ns % 1000000000u, 9);
		out_char(out, 'Z');
	} else {
		out_digits(out, wall_ns % 1000000000u / 1000, 6);
	}
}
