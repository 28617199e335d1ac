// SPDX-License-Identifier: GPL-2.0-only
/*
 * param: the module's parameters. Whoever asks gets a value within its bounds, whatever was written.
 */
#include "param.h"

#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/module.h>

#include "kmod/uapi/ringtail.h"

#define THREADS_MIN	64u
#define THREADS_MAX	(1u << 22)

static bool allow = true;
module_param(allow, bool, 0644);
MODULE_PARM_DESC(allow, "whether /dev/ringtail may be opened at all (default Y)");

static unsigned long ring_bytes_max = 16ul << 20;
module_param(ring_bytes_max, ulong, 0644);
MODULE_PARM_DESC(ring_bytes_max, "the largest ring of one CPU and one consumer (default 16 MiB)");

static unsigned int threads = 16384;
module_param(threads, uint, 0644);
MODULE_PARM_DESC(threads, "how many threads a consumer can time calls of, 64 bytes each (16384)");

bool rt_param_allow(void)
{
	return READ_ONCE(allow);
}

u64 rt_param_ring_bytes_max(void)
{
	u64 bytes = READ_ONCE(ring_bytes_max);

	return rounddown_pow_of_two(clamp_t(u64, bytes, RT_RING_BYTES_MIN, RT_RING_BYTES_MAX));
}

u32 rt_param_threads(void)
{
	return clamp(READ_ONCE(threads), THREADS_MIN, THREADS_MAX);
}
