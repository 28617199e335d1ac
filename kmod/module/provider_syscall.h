/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * provider_syscall: system calls: entry, return, and both in one record.
 */
#ifndef RT_PROVIDER_SYSCALL_H
#define RT_PROVIDER_SYSCALL_H

#include "tracepoint.h"

extern struct rt_hook rt_syscall_hooks[];
extern const u32 rt_syscall_hooks_count;

void rt_syscall_check_types(void);

#endif
