#include "client/cli/tree.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GENERATIONS_MAX	64u	/* looks into /proc: one finds a generation at least */

enum { FORK, EXEC, EXIT };

const char *const tree_probes[TREE_PROBES] = {
	[FORK] = "tracepoint:sched:sched_process_fork",
	[EXEC] = "tracepoint:sched:sched_process_exec",
	[EXIT] = "tracepoint:sched:sched_process_exit",
};

struct tree {
	bool believes_parents;
	uint64_t awaited;		/* a process that has not executed its program yet; 0: none */
	uint8_t member[TREE_PIDS / 8];
};

struct tree *tree_create(void)
{
	return calloc(1, sizeof(struct tree));
}

void tree_destroy(struct tree *tree)
{
	free(tree);
}

bool tree_add(struct tree *tree, uint64_t pid)
{
	if (!pid || pid >= TREE_PIDS)
		return false;
	tree->member[pid / 8] |= (uint8_t)(1u << pid % 8);
	return true;
}

static bool has(const struct tree *tree, uint64_t pid)
{
	return pid < TREE_PIDS && tree->member[pid / 8] >> pid % 8 & 1;
}

void tree_believe_parents(struct tree *tree)
{
	tree->believes_parents = true;
}

void tree_await_exec(struct tree *tree, pid_t pid)
{
	tree->awaited = (uint64_t)pid;
}

/* ---- What is there already ------------------------------------------------------------------- */

/* The parent of a process: the second field behind its name, which may hold anything. 0: not known. */
static unsigned long parent_of(const char *pid)
{
	char path[64], text[512], *end;
	unsigned long parent = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%.20s/stat", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	end = strrchr(text, ')');
	return end && sscanf(end + 1, " %*c %lu", &parent) == 1 ? parent : 0;
}

/* Whether any was added. */
static bool add_generation(struct tree *tree)
{
	DIR *proc = opendir("/proc");
	struct dirent *entry;
	bool added = false;

	while (proc && (entry = readdir(proc))) {
		uint64_t pid = isdigit((unsigned char)entry->d_name[0]) ?
				       strtoull(entry->d_name, NULL, 10) : 0;

		if (pid && !has(tree, pid) && has(tree, parent_of(entry->d_name)))
			added |= tree_add(tree, pid);
	}
	if (proc)
		closedir(proc);
	return added;
}

void tree_add_descendants(struct tree *tree)
{
	for (unsigned i = 0; i < GENERATIONS_MAX && add_generation(tree); i++)
		;
}

/* ---- What happens ---------------------------------------------------------------------------- */

static bool is_of(const struct ringtail_item *event, unsigned probe)
{
	return event->probe->kind == RINGTAIL_TRACEPOINT && !strcmp(event->probe->spec, tree_probes[probe]);
}

static uint64_t value_of(const struct ringtail_item *event, const char *name)
{
	for (unsigned i = 0; i < event->probe->fields; i++)
		if (!strcmp(event->probe->field[i].name, name))
			return ringtail_value(&event->probe->field[i], event->value[i]);
	return 0;
}

bool tree_takes(struct tree *tree, const struct ringtail_item *event)
{
	/* Who was not introduced has its tid alone, which is the pid of most. */
	uint64_t pid = event->thread.pid ? event->thread.pid : event->thread.tid;

	if (tree->awaited && pid == tree->awaited) {
		if (!is_of(event, EXEC))
			return false;
		tree->awaited = 0;
	}
	if (tree->believes_parents && !has(tree, pid) && has(tree, event->thread.ppid))
		tree_add(tree, pid);
	if (!has(tree, pid))
		return false;
	if (is_of(event, FORK))
		tree_add(tree, value_of(event, "child_pid"));
	else if (is_of(event, EXIT) && value_of(event, "group_dead"))
		tree->member[pid / 8] &= (uint8_t)~(1u << pid % 8);
	return true;
}
