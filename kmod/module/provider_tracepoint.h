/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * provider_tracepoint: the other hot tracepoints: interrupts, timers, pages, blocks, network,
 * signals.
 */
#ifndef RT_PROVIDER_TRACEPOINT_H
#define RT_PROVIDER_TRACEPOINT_H

#include "tracepoint.h"

extern struct rt_hook rt_tracepoint_hooks[];
extern const u32 rt_tracepoint_hooks_count;

void rt_tracepoint_check_types(void);

#endif
