// SPDX-License-Identifier: GPL-2.0-only
/*
 * filter: see filter.h. pid and tid are those of the initial namespace, as in the records.
 */
#include "filter.h"

#include <linux/cred.h>
#include <linux/errno.h>
#include <linux/sched.h>
#include <linux/string.h>

int rt_filter_check(const struct rt_filter_clause *clause, u32 clauses)
{
	u32 i;

	if (clauses > RT_FILTER_CLAUSES_MAX)
		return -EINVAL;
	for (i = 0; i < clauses; i++) {
		const struct rt_filter_clause *c = &clause[i];

		if (c->pid_op > RT_FILTER_NE || c->tid_op > RT_FILTER_NE ||
		    c->uid_op > RT_FILTER_NE || c->comm_op > RT_FILTER_NE)
			return -EINVAL;
	}
	return 0;
}

static bool holds(u8 op, bool equal)
{
	return op == RT_FILTER_ANY || (op == RT_FILTER_EQ) == equal;
}

/* As far as the terminator: what lies behind it in a task's name is of an older one. */
static bool comm_is(const char *comm)
{
	return strncmp(current->comm, comm, RT_COMM_BYTES) == 0;
}

static bool clause_passes(const struct rt_filter_clause *clause)
{
	return holds(clause->pid_op, clause->pid == current->tgid) &&
	       holds(clause->tid_op, clause->tid == current->pid) &&
	       holds(clause->uid_op, clause->uid == __kuid_val(current_uid())) &&
	       (clause->comm_op == RT_FILTER_ANY || holds(clause->comm_op, comm_is(clause->comm)));
}

bool rt_filter_pass(const struct rt_filter_clause *clause, u32 clauses)
{
	u32 i;

	for (i = 0; i < clauses; i++)
		if (clause_passes(&clause[i]))
			return true;
	return false;
}
