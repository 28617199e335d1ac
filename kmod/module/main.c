// SPDX-License-Identifier: GPL-2.0-only
/*
 * main: the module's coming and going.
 */
#include <linux/init.h>
#include <linux/module.h>

#include "attach.h"
#include "compat.h"
#include "consumer.h"
#include "device.h"
#include "provider_module.h"
#include "provider_profile.h"
#include "selftest.h"
#include "syscall_table.h"
#include "tracepoint.h"

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
