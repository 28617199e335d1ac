#include "daemon/serve/program_uses.h"

#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"
#include "kmod/uapi/ringtail.h"

struct process {
	Ringtail__V1__ProgramProcess message;
	char comm[RT_PROGRAM_COMM_BYTES];
};

struct use {
	Ringtail__V1__ProgramUse message;
	Ringtail__V1__ProgramProcess *list[LIST_PROCESSES_MAX];
};

struct program_uses {
	struct program_uses_config config;
	struct use use[RT_PROBES_PROGRAM_MAX];
	size_t processes, room;
	struct process process[];
};

static void count(void *context, uint16_t id, const struct programs_process *process)
{
	(void)id, (void)process;
	++*(size_t *)context;
}

/* As a name with the hidden part would be shown: not at all. */
static void name(struct program_uses *uses, struct use *use, const struct programs_process *from)
{
	struct process *process = &uses->process[uses->processes++];

	ringtail__v1__program_process__init(&process->message);
	process->message.pid = from->pid;
	process->message.uid = from->uid;
	process->message.enabled = from->enabled;
	if (!uses->config.hides_comm)
		memcpy(process->comm, from->comm, sizeof(process->comm));
	process->message.comm = process->comm;
	use->list[use->message.n_process++] = &process->message;
}

static bool is_named(const struct program_uses_config *config, const struct programs_process *process)
{
	return config->names_processes || (config->owner && process->uid == config->owner);
}

static void add(void *context, uint16_t id, const struct programs_process *process)
{
	struct program_uses *uses = context;
	struct use *use = &uses->use[id - RT_PROBE_PROGRAM];

	use->message.processes++;
	use->message.enabled += process->enabled;
	if (is_named(&uses->config, process) && use->message.n_process < LIST_PROCESSES_MAX &&
	    uses->processes < uses->room)
		name(uses, use, process);
}

struct program_uses *program_uses_create(const struct program_uses_config *config)
{
	struct program_uses *uses;
	size_t room = 0;

	if (config->programs && (config->names_processes || config->owner))
		programs_each(config->programs, count, &room);
	if (room > (size_t)RT_PROBES_PROGRAM_MAX * LIST_PROCESSES_MAX)
		room = (size_t)RT_PROBES_PROGRAM_MAX * LIST_PROCESSES_MAX;
	uses = calloc(1, sizeof(*uses) + room * sizeof(uses->process[0]));
	if (!uses)
		return NULL;
	uses->config = *config;
	uses->room = room;
	for (size_t i = 0; i < RT_PROBES_PROGRAM_MAX; i++) {
		ringtail__v1__program_use__init(&uses->use[i].message);
		uses->use[i].message.process = uses->use[i].list;
	}
	if (config->programs)
		programs_each(config->programs, add, uses);
	return uses;
}

void program_uses_add(const struct program_uses *uses, Ringtail__V1__Probe *probe)
{
	const char *source = uses->config.programs ? programs_source(uses->config.programs, probe->id) : NULL;

	if (!source)
		return;
	probe->source = (char *)source;
	probe->use = (Ringtail__V1__ProgramUse *)&uses->use[probe->id - RT_PROBE_PROGRAM].message;
}

void program_uses_free(struct program_uses *uses)
{
	free(uses);
}
