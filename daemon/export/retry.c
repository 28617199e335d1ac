#include "daemon/export/retry.h"

#include "daemon/base/limits.h"
#include "daemon/base/random.h"

uint64_t export_retry_ns(unsigned tries, uint64_t asked_ns)
{
	uint64_t wait = EXPORT_RETRY_NS_MIN, chance;

	while (--tries && wait < EXPORT_RETRY_NS_MAX)
		wait *= 2;
	if (wait > EXPORT_RETRY_NS_MAX)
		wait = EXPORT_RETRY_NS_MAX;
	if (random_bytes(&chance, sizeof(chance)) == 0)
		wait = wait / 2 + chance % (wait / 2);
	if (asked_ns > EXPORT_RETRY_AFTER_NS_MAX)
		asked_ns = EXPORT_RETRY_AFTER_NS_MAX;
	return asked_ns > wait ? asked_ns : wait;
}
