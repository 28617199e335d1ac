#include "daemon/base/allowance.h"

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"

static double saved_max(const struct allowance *allowance)
{
	return (double)allowance->bytes_per_s * ALLOWANCE_SAVED_NS / NS_PER_S;
}

void allowance_set(struct allowance *allowance, uint64_t bytes_per_s)
{
	allowance->bytes_per_s = bytes_per_s;
	if (allowance->saved > saved_max(allowance))
		allowance->saved = saved_max(allowance);
}

size_t allowance_look(struct allowance *allowance, uint64_t now_ns)
{
	double most = saved_max(allowance);

	if (!allowance->bytes_per_s)
		return SIZE_MAX;
	if (!allowance->since_ns)
		allowance->saved = most;
	else if (now_ns > allowance->since_ns)
		allowance->saved += (double)(now_ns - allowance->since_ns) * (double)allowance->bytes_per_s / NS_PER_S;
	allowance->since_ns = now_ns;
	if (allowance->saved > most)
		allowance->saved = most;
	allowance->used_up = allowance->saved < (allowance->used_up ? most / 2 : 1);
	return allowance->used_up ? 0 : (size_t)allowance->saved;
}

void allowance_spend(struct allowance *allowance, size_t bytes)
{
	allowance->saved -= (double)bytes;
	if (allowance->saved < 0)
		allowance->saved = 0;
}

uint64_t allowance_wait_ns(const struct allowance *allowance)
{
	double missing = saved_max(allowance) / 2 - allowance->saved;

	if (!allowance->bytes_per_s || missing <= 0)
		return 1;
	return (uint64_t)(missing * NS_PER_S / (double)allowance->bytes_per_s) + 1;
}
