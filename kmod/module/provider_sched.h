/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * provider_sched: the scheduler's events, which also tell who lives and who is gone.
 */
#ifndef RT_PROVIDER_SCHED_H
#define RT_PROVIDER_SCHED_H

#include "tracepoint.h"

extern struct rt_hook rt_sched_hooks[];
extern const u32 rt_sched_hooks_count;

void rt_sched_check_types(void);

#endif
