#include "daemon/export/tree.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "daemon/base/counters.h"
#include "query/glob.h"
#include "daemon/base/limits.h"

#define BUCKETS 1024u

struct process {
	TAILQ_ENTRY(process) by_pid;
	TAILQ_ENTRY(process) by_age;
	uint32_t pid;
	struct export_span span;
};

TAILQ_HEAD(process_list, process);

struct export_tree {
	const struct export_host *host;
	struct export_run *run;		/* of the newest event; a reference */
	unsigned processes;
	struct process_list bucket[BUCKETS], age;
};

struct export_tree *export_tree_create(const struct export_host *host)
{
	struct export_tree *tree = calloc(1, sizeof(*tree));

	if (!tree)
		return NULL;
	tree->host = host;
	tree->run = export_run_get(host->run);
	TAILQ_INIT(&tree->age);
	for (unsigned i = 0; i < BUCKETS; i++)
		TAILQ_INIT(&tree->bucket[i]);
	return tree;
}

static struct process_list *bucket_of(struct export_tree *tree, uint32_t pid)
{
	return &tree->bucket[pid % BUCKETS];
}

static void forget(struct export_tree *tree, struct process *process)
{
	TAILQ_REMOVE(bucket_of(tree, process->pid), process, by_pid);
	TAILQ_REMOVE(&tree->age, process, by_age);
	tree->processes--;
	free(process);
}

static void forget_all(struct export_tree *tree)
{
	while (!TAILQ_EMPTY(&tree->age))
		forget(tree, TAILQ_FIRST(&tree->age));
}

void export_tree_destroy(struct export_tree *tree)
{
	if (!tree)
		return;
	forget_all(tree);
	export_run_put(tree->run);
	free(tree);
}

/* What became of processes since the run before was not seen: their pids may be anybody's. */
static void enter_run(struct export_tree *tree, struct export_run *run)
{
	forget_all(tree);
	export_run_put(tree->run);
	tree->run = export_run_get(run);
}

static struct process *find(struct export_tree *tree, uint32_t pid)
{
	struct process *process;

	TAILQ_FOREACH(process, bucket_of(tree, pid), by_pid)
		if (process->pid == pid)
			return process;
	return NULL;
}

/* A process that begins with this record; who had its pid before has ended unseen. */
static struct process *begin(struct export_tree *tree, uint32_t pid,
			     const struct export_event *event)
{
	const struct trace_place place = export_event_place(event);
	struct process *process = find(tree, pid);

	if (process)
		forget(tree, process);
	if (tree->processes == EXPORT_PROCESSES_MAX) {
		forget(tree, TAILQ_FIRST(&tree->age));
		counter_add(COUNTER_export_processes_evicted, 1);
	}
	process = calloc(1, sizeof(*process));
	if (!process) {
		counter_add(COUNTER_export_processes_evicted, 1);
		return NULL;
	}
	process->pid = pid;
	process->span.in_tree = process->span.is_process = true;
	process->span.start_ns = event->time_ns;
	export_event_comm(event, process->span.name);
	trace_id_make(&place, process->span.trace_id);
	trace_id_make_span(&place, process->span.span_id);
	TAILQ_INSERT_TAIL(bucket_of(tree, pid), process, by_pid);
	TAILQ_INSERT_TAIL(&tree->age, process, by_age);
	tree->processes++;
	return process;
}

static void take_fork(struct export_tree *tree, const struct export_event *event)
{
	struct process *parent = find(tree, event->thread.pid), *child;
	uint32_t pid = (uint32_t)event->field[1];
	struct export_span of;

	if (!parent || pid == event->thread.pid)
		return;		/* nobody's, or a new thread */
	of = parent->span;	/* beginning the child may push the parent out */
	child = begin(tree, pid, event);
	if (!child)
		return;
	memcpy(child->span.trace_id, of.trace_id, sizeof(of.trace_id));
	memcpy(child->span.parent_id, of.span_id, sizeof(of.span_id));
	child->span.has_parent = true;
}

static bool is_root(const struct export_tree *tree, const char *comm)
{
	for (unsigned i = 0; i < tree->host->tree.count; i++)
		if (glob_match(tree->host->tree.word[i], comm, strlen(comm)))
			return true;
	return false;
}

static void take_exec(struct export_tree *tree, const struct export_event *event)
{
	struct process *process = find(tree, event->thread.pid);
	char comm[17];

	export_event_comm(event, comm);
	if (process)
		memcpy(process->span.name, comm, sizeof(comm));
	else if (is_root(tree, comm))
		begin(tree, event->thread.pid, event);
}

static void take_call(struct export_tree *tree, struct export_event *event)
{
	const struct trace_place place = export_event_place(event);
	struct process *process = find(tree, event->thread.pid);

	trace_id_make_span(&place, event->span.span_id);
	if (!process)
		return;
	event->span.in_tree = event->span.has_parent = true;
	memcpy(event->span.trace_id, process->span.trace_id, sizeof(event->span.trace_id));
	memcpy(event->span.parent_id, process->span.span_id, sizeof(event->span.parent_id));
	if (strcmp(event->probe->function, "exit_group") == 0 && event->fields > 2) {
		process->span.has_exit_code = true;
		process->span.exit_code = (uint8_t)event->field[2];
	}
}

void export_tree_take(struct export_tree *tree, struct export_event *event)
{
	const char *name = event->probe->name;
	struct process *process;

	if (event->run != tree->run)
		enter_run(tree, event->run);
	if (export_event_is_call(event)) {
		take_call(tree, event);
	} else if (strcmp(name, "sched_process_fork") == 0 && event->fields > 1) {
		take_fork(tree, event);
	} else if (strcmp(name, "sched_process_exec") == 0) {
		take_exec(tree, event);
	} else if (strcmp(name, "sched_process_exit") == 0 && event->fields > 1 &&
		   event->field[1]) {
		process = find(tree, event->thread.pid);
		if (process) {
			event->span = process->span;
			forget(tree, process);
		}
	}
}
