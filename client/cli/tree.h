/*
 * tree: which events are of a process and of all that it forks, from a stream in order of time.
 *
 *	fork of a process in the tree -> its child is in the tree, before the child's first event
 *	the last thread of a process exits -> its number may be another's from then on
 *
 * So the stream must hold sched_process_fork, _exec and _exit of all processes: tree_probes(). One thread.
 */
#ifndef RINGTAIL_CLIENT_CLI_TREE_H
#define RINGTAIL_CLIENT_CLI_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/lib/ringtail.h"

#define TREE_PIDS	(1u << 22)	/* PID_MAX_LIMIT of the kernel */
#define TREE_PROBES	3u

struct tree;

/* NULL when out of memory. */
struct tree *tree_create(void);
void tree_destroy(struct tree *tree);

/* False: there is no such number. */
bool tree_add(struct tree *tree, uint64_t pid);

/* All of this process' descendants that /proc knows, of the host that is traced. */
void tree_add_descendants(struct tree *tree);

/* A child of a process in the tree is in it, though its fork was not seen: where /proc is another's. */
void tree_believe_parents(struct tree *tree);

/* Its events count from its exec on. */
void tree_await_exec(struct tree *tree, pid_t pid);

/* Learns from an event, and says whether it is of the tree. */
bool tree_takes(struct tree *tree, const struct ringtail_item *event);

/* The names of the probes that are needed. */
extern const char *const tree_probes[TREE_PROBES];

#endif
