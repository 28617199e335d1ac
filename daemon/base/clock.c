#include "daemon/base/clock.h"

uint64_t clock_read(clockid_t id)
{
	struct timespec now;

	clock_gettime(id, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t clock_monotonic(void)
{
	return clock_read(CLOCK_MONOTONIC);
}
