/*
 * export_tree: process trees as traces: a command that was asked for is the root, what it forks are
 * its children, and each process is one span from its fork (the root: from its exec) to its end.
 *
 * Ids are made of the record that began a span, so they need no agreement. The table is bounded: a
 * process too many pushes out the oldest, whose span is not sent; counted. The export thread.
 */
#ifndef RINGTAIL_DAEMON_EXPORT_TREE_H
#define RINGTAIL_DAEMON_EXPORT_TREE_H

#include <stdbool.h>

#include "daemon/export/event.h"
#include "daemon/export/run.h"

struct export_tree;

/* NULL: out of memory. */
struct export_tree *export_tree_create(const struct export_host *host);
void export_tree_destroy(struct export_tree *tree);

/*
 * Events in the order of time, one run of the rings after another. Fills event->span: of a call, the
 * tree that it is in, if any; of a process' end, its span (is_process).
 */
void export_tree_take(struct export_tree *tree, struct export_event *event);

#endif
