#include "daemon/export/run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#include "daemon/base/clock.h"
#include "proto/limits.h"
#include "query/visible.h"

static void describe_probe(struct export_run *run, const Ringtail__V1__Probe *probe)
{
	if (probe->id >= RT_PROBE_MAX || probe->n_field > PROBE_FIELDS_MAX)
		return;		/* none of its events comes */
	run->probe[probe->id] = probe;
	run->shape[probe->id] = (struct batch_probe){
		.fields = (uint8_t)probe->n_field,
		.has_duration = probe->n_field && probe->field[0]->type ==
				RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION,
		.known = true,
	};
}

static void describe_probes(struct export_run *run, const Ringtail__V1__Catalog *catalog)
{
	for (size_t i = 0; i < catalog->n_probe; i++)
		describe_probe(run, catalog->probe[i]);
	run->described = true;
}

void export_run_take_late(struct export_run *run, const Ringtail__V1__Probe *probe)
{
	describe_probe(run, probe);
}

static struct export_run *create(const uint8_t id[16], uint64_t epoch, const char *name,
				 const char *kernel, const char *machine)
{
	struct export_run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->references = 1;
	memcpy(run->boot_id, id, sizeof(run->boot_id));
	run->epoch = epoch;
	snprintf(run->name, sizeof(run->name), "%s", name);
	snprintf(run->kernel, sizeof(run->kernel), "%s", kernel);
	snprintf(run->machine, sizeof(run->machine), "%s", machine);
	boot_id_print(id, run->boot_text);
	return run;
}

/* This run. NULL: out of memory. */
static struct export_run *create_here(const Ringtail__V1__Catalog *catalog,
				      const uint8_t boot_id[16], uint64_t epoch)
{
	struct export_run *run;
	struct utsname system;

	uname(&system);
	run = create(boot_id, epoch, system.nodename, system.release, system.machine);
	if (!run)
		return NULL;
	run->this_boot = true;
	snprintf(run->host_id, sizeof(run->host_id), "%s", machine_id());
	describe_probes(run, catalog);
	return run;
}

struct export_run *export_run_of_hello(struct export_run *here,
				       const Ringtail__V1__ServerHello *hello)
{
	struct export_run *run;
	bool this_boot;

	if (hello->boot_id.len != sizeof(here->boot_id))
		return NULL;
	this_boot = memcmp(hello->boot_id.data, here->boot_id, sizeof(here->boot_id)) == 0;
	if (this_boot && hello->epoch == here->epoch)
		return export_run_get(here);
	run = create(hello->boot_id.data, hello->epoch, hello->hostname, hello->kernel,
		     hello->machine);
	if (!run)
		return NULL;
	run->this_boot = this_boot;
	/* A hello does not say which machine: the same name on the same disk is the same. */
	if (strcmp(run->name, here->name) == 0)
		memcpy(run->host_id, here->host_id, sizeof(run->host_id));
	run->to_realtime_ns = hello->realtime_ns - hello->monotonic_ns;
	return run;
}

void export_run_take_catalog(struct export_run *run, Ringtail__V1__Catalog *catalog)
{
	if (run->described) {
		ringtail__v1__catalog__free_unpacked(catalog, NULL);
		return;
	}
	run->catalog = catalog;
	describe_probes(run, catalog);
}

struct export_run *export_run_get(struct export_run *run)
{
	run->references++;
	return run;
}

void export_run_put(struct export_run *run)
{
	if (!run || --run->references)
		return;
	ringtail__v1__catalog__free_unpacked(run->catalog, NULL);
	export_contexts_fini(&run->contexts);
	free(run);
}

uint64_t export_run_to_realtime(const struct export_run *run)
{
	return run->this_boot ? clock_read(CLOCK_REALTIME) - clock_monotonic() :
				run->to_realtime_ns;
}

/* ---- What is exported of it ------------------------------------------------------------------- */

struct export_host *export_host_create(const Ringtail__V1__Catalog *catalog,
				       const uint8_t boot_id[16], uint64_t epoch,
				       const struct config *config)
{
	struct export_host *host = calloc(1, sizeof(*host));

	if (!host)
		return NULL;
	host->run = create_here(catalog, boot_id, epoch);
	if (!host->run) {
		free(host);
		return NULL;
	}
	host->slow_ns = config->slow_call_ns;
	host->everything = config->export_probe.count > 0;
	/* A reload replaces the configuration, not these. */
	for (unsigned i = 0; i < config->export_trace.count; i++) {
		host->tree.word[i] = strdup(config->export_trace.word[i]);
		if (!host->tree.word[i]) {
			export_host_destroy(host);
			return NULL;
		}
		host->tree.count++;
	}
	return host;
}

void export_host_destroy(struct export_host *host)
{
	if (!host)
		return;
	for (unsigned i = 0; i < host->tree.count; i++)
		free(host->tree.word[i]);
	export_run_put(host->run);
	free(host);
}

/* ---- The threads of a run: program and cgroup ------------------------------------------------ */

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
		return;			/* a recording of before has the base name alone, where the path was too long */
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
