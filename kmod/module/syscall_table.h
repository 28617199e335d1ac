/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * syscall_table: names and arguments of the system calls, made from the kernel's headers.
 */
#ifndef RT_SYSCALL_TABLE_H
#define RT_SYSCALL_TABLE_H

#include <linux/types.h>

#include "kmod/uapi/ringtail_ioctl.h"

struct rt_syscall {
	const char *name;	/* NULL: there is no such call */
	u32 args;
	struct rt_field_info arg[RT_SYSCALL_ARGS_MAX];
};

/* What the probes need of a call, small enough to stay in the cache. Bit i: argument i. */
struct rt_syscall_shape {
	u8 args;
	u8 sign_extend;		/* an int */
	u8 zero_extend;		/* an unsigned int, or shorter: cut by mask */
	u8 strings;
};

extern struct rt_syscall_shape rt_syscall_shape[RT_SYSCALLS_MAX];

/* NULL for a number that no call has. */
const struct rt_syscall *rt_syscall_get(u32 nr);

void rt_syscall_table_init(void);

#endif
