#include "daemon/export/context.h"

#include <stdlib.h>
#include <string.h>

#include "query/visible.h"

static uint32_t bytes_of(const struct batch_text *text)
{
	return text ? text->bytes : 0;
}

static bool is_same(const struct export_context *context, const struct batch_thread *thread)
{
	return context->exe_bytes == bytes_of(thread->exe) &&
	       context->cgroup_bytes == bytes_of(thread->cgroup) &&
	       (!thread->exe || !memcmp(context->text, thread->exe->data, context->exe_bytes)) &&
	       (!thread->cgroup || !memcmp(context->text + context->exe_bytes, thread->cgroup->data,
					   context->cgroup_bytes));
}

/* A readable copy behind what is there. Returns where the next goes. */
static char *copy(char *to, const char *text, size_t bytes, const char **copied)
{
	*copied = to;
	return to + visible_copy(to, bytes + 1, text, bytes) + 1;
}

static void set_exe(struct export_context *context)
{
	const char *slash = context->exe ? strrchr(context->exe, '/') : NULL;

	if (!slash)
		return;			/* a base name is all there was room for */
	if (context->exe[0] == '/')
		context->exe_path = context->exe;
	context->exe = slash + 1;
}

static struct export_context *make(const struct batch_thread *thread)
{
	uint32_t exe = bytes_of(thread->exe), cgroup = bytes_of(thread->cgroup);
	/* Twice: as they came, and readable; the unit's name is a part of the cgroup's. */
	struct export_context *made = calloc(1, sizeof(*made) + 2 * exe + 3 * (size_t)cgroup + 3);
	struct container container;
	char *at;

	if (!made)
		return NULL;
	made->references = 1;
	made->exe_bytes = exe;
	made->cgroup_bytes = cgroup;
	at = made->text + exe + cgroup;
	if (exe) {
		memcpy(made->text, thread->exe->data, exe);
		at = copy(at, thread->exe->data, exe, &made->exe);
		set_exe(made);
	}
	if (!cgroup)
		return made;
	memcpy(made->text + exe, thread->cgroup->data, cgroup);
	at = copy(at, thread->cgroup->data, cgroup, &made->cgroup);
	container_parse(thread->cgroup->data, cgroup, &container);
	made->runtime = container.runtime;
	if (container.id)
		memcpy(made->container, container.id, CONTAINER_ID_BYTES);
	strcpy(made->pod, container.pod);
	if (container.unit)
		copy(at, container.unit, container.unit_bytes, &made->unit);
	return made;
}

/* Mostly its last bytes tell one from another; who meets another's place takes it. */
static unsigned place_of(const struct batch_thread *thread)
{
	uint32_t hash = bytes_of(thread->exe) * 31 + bytes_of(thread->cgroup);

	for (uint32_t i = 1; thread->exe && i <= 8 && i <= thread->exe->bytes; i++)
		hash = hash * 31 + (uint8_t)thread->exe->data[thread->exe->bytes - i];
	for (uint32_t i = 1; thread->cgroup && i <= 16 && i <= thread->cgroup->bytes; i++)
		hash = hash * 31 + (uint8_t)thread->cgroup->data[thread->cgroup->bytes - i];
	return hash & (EXPORT_CONTEXTS_KEPT - 1);
}

struct export_context *export_context_of(struct export_contexts *contexts,
					 const struct batch_thread *thread)
{
	struct export_context **kept;

	if (!thread->exe && !thread->cgroup)
		return NULL;
	kept = &contexts->kept[place_of(thread)];
	if (!*kept || !is_same(*kept, thread)) {
		export_context_put(*kept);
		*kept = make(thread);
	}
	if (*kept)
		(*kept)->references++;
	return *kept;
}

void export_context_put(struct export_context *context)
{
	if (context && !--context->references)
		free(context);
}

void export_contexts_fini(struct export_contexts *contexts)
{
	for (unsigned i = 0; i < EXPORT_CONTEXTS_KEPT; i++)
		export_context_put(contexts->kept[i]);
}
