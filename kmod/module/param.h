/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * param: the module's parameters, as /sys/module/ringtail/parameters says them now.
 */
#ifndef RT_PARAM_H
#define RT_PARAM_H

#include <linux/types.h>

bool rt_param_allow(void);
u64 rt_param_ring_bytes_max(void);
u32 rt_param_threads(void);

#endif
