/*
 * filter_clause: what of a filter the kernel can check: a list of clauses, any of which must hold.
 *
 * Every event that passes the filter passes a clause; not the other way round, for the daemon
 * filters again. So whatever the kernel does not know counts as true, and where clauses get too
 * many some are given up for a wider one. Private to filter*.c; main thread.
 */
#ifndef RINGTAIL_QUERY_FILTER_CLAUSE_H
#define RINGTAIL_QUERY_FILTER_CLAUSE_H

#include "query/filter_tree.h"

/* More than the kernel takes: what is wide in the middle of a filter may get narrow again. */
#define FILTER_CLAUSES_WORK_MAX 16u

/* No clause: nothing passes. A clause of nothing but RT_FILTER_ANY: everything does. */
struct filter_clauses {
	unsigned count;
	bool wide;			/* more may pass than passes the filter */
	struct rt_filter_clause clause[FILTER_CLAUSES_WORK_MAX];
};

void filter_clauses_make(const struct filter_node *root, struct filter_clauses *clauses);

bool filter_clauses_all(const struct filter_clauses *clauses);

#endif
