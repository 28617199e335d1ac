// SPDX-License-Identifier: GPL-2.0-only
/*
 * syscall_table: see syscall_table.h. syscall_table.awk writes the rows.
 */
#include "syscall_table.h"

#include <linux/cache.h>
#include <linux/init.h>

struct rt_syscall_shape rt_syscall_shape[RT_SYSCALLS_MAX] __read_mostly;

static const struct rt_syscall table[RT_SYSCALLS_MAX] = {
#include "syscall_table.inc"
};

const struct rt_syscall *rt_syscall_get(u32 nr)
{
	return nr < RT_SYSCALLS_MAX && table[nr].name ? &table[nr] : NULL;
}

/*
 * User space leaves what it likes in the upper half of a register that holds an int; the kernel
 * cuts it off, and so do the records. A short integer is passed as the int it was promoted to.
 */
static void __init shape_of(const struct rt_syscall *call, struct rt_syscall_shape *shape)
{
	u32 i;

	shape->args = call->args;
	for (i = 0; i < call->args; i++) {
		const struct rt_field_info *arg = &call->arg[i];

		if (arg->type == RT_FIELD_STRING)
			shape->strings |= 1u << i;
		if (arg->bits == 64)
			continue;
		if (arg->type == RT_FIELD_SIGNED || arg->type == RT_FIELD_FD)
			shape->sign_extend |= 1u << i;
		else
			shape->zero_extend |= 1u << i;
	}
}

void __init rt_syscall_table_init(void)
{
	u32 nr;

	for (nr = 0; nr < RT_SYSCALLS_MAX; nr++)
		if (table[nr].name)
			shape_of(&table[nr], &rt_syscall_shape[nr]);
}
