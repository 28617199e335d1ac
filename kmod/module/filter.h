/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * filter: clauses of kmod/uapi/ringtail.h, checked when set, and asked of the current thread.
 */
#ifndef RT_FILTER_H
#define RT_FILTER_H

#include <linux/types.h>

#include "kmod/uapi/ringtail.h"

/* 0, or -EINVAL where a clause says something that has no meaning. */
int rt_filter_check(const struct rt_filter_clause *clause, u32 clauses);

/* Whether any clause passes for the current thread. Any context, preemption off. */
bool rt_filter_pass(const struct rt_filter_clause *clause, u32 clauses);

#endif
