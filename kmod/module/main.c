// SPDX-License-Identifier: GPL-2.0-only
/*
 * main: the module's coming and going, and its parameters.
 */
#include <linux/init.h>
#include <linux/module.h>

#include "attach.h"
#include "compat.h"
#include "consumer.h"
#include "device.h"
#include "param.h"
#include "provider_module.h"
#include "provider_profile.h"
#include "selftest.h"
#include "syscall_table.h"
#include "tracepoint.h"

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

static int __init ringtail_init(void)
{
	int err = rt_tracepoint_init();

	if (err)
		return err;
	rt_syscall_table_init();
	err = rt_attach_init();
	if (err)
		return err;
	err = rt_profile_init();
	if (err)
		goto fini_attach;
	err = rt_selftest();
	if (err)
		goto fini_profile;
	err = rt_module_init();
	if (err)
		goto fini_profile;
	err = rt_device_init();
	if (err)
		goto fini_module;
	return 0;

fini_module:
	rt_module_fini();
fini_profile:
	rt_profile_fini();
fini_attach:
	rt_attach_fini();
	return err;
}

static void __exit ringtail_exit(void)
{
	rt_device_fini();
	rt_module_fini();
	rt_profile_fini();
	rt_attach_fini();
}

module_init(ringtail_init);
module_exit(ringtail_exit);

MODULE_DESCRIPTION("ringtail: kernel events in per-CPU rings, each loss counted");
MODULE_AUTHOR("The ringtail authors");
MODULE_VERSION("0.1.0");
MODULE_LICENSE("GPL");
MODULE_ALIAS("devname:ringtail");
