#include "daemon/base/clock.h"

/* In order with what is around it, which the instruction alone is not. */
uint64_t clock_counter(void)
{
#ifdef __x86_64__
	__builtin_ia32_lfence();
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}
