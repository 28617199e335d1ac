#include "daemon/source/bpf_made.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_template.h"
#include "daemon/source/bpf_timers.h"
#include "proto/limits.h"

_Static_assert(PROBES_MADE_MAX == RT_PROBE_PROGRAM - RT_PROBE_MADE, "the limit says what the numbers allow");

/* A kind of probe is a row here. The providers' names go to the engine: see loader_message.h. */
static const struct made_kind *const kinds[] = {
	&made_tracepoint, &made_uprobe, &made_uretprobe, &made_usdt,
	&made_fentry, &made_fexit, &made_kprobe, &made_kretprobe,
	&made_profile, &made_interval, &made_software, &made_hardware,
};
static const char providers[] = "tracepoint uprobe uretprobe usdt fentry fexit kprobe kretprobe profile"
				" interval software hardware";

#define KINDS	(sizeof(kinds) / sizeof(kinds[0]))

struct made_probe {
	Ringtail__V1__Probe *message;
	unsigned kind;
	void *own;			/* the kind's */
	struct made_program attached;
	uint64_t seen_before;		/* seen[] when it was attached */
	uint64_t runs_before, refused_before;	/* of programs that it has no more */
	bool wanted;
};

struct source_bpf_made {
	struct source_bpf_kit kit;
	const unsigned long long *seen;	/* by probe, how often its watch saw the guard taken */
	void *state[KINDS];
	unsigned opened;		/* the first so many kinds */
	unsigned probes;
	unsigned idle;			/* attached, and not wanted */
	struct made_probe probe[PROBES_MADE_MAX];
};

static void close_one(int fd)
{
	if (fd >= 0)
		close(fd);
}

void source_bpf_made_close(struct made_program *program)
{
	for (unsigned i = 0; i < program->more_count; i++) {
		close_one(program->more[i].link);
		close_one(program->more[i].program);
	}
	free(program->more);
	close_one(program->watch_link);
	close_one(program->link);
	close_one(program->watch);
	close_one(program->program);
	*program = MADE_NO_PROGRAM;
}

static int make_templates(const struct source_bpf_making *making, struct source_bpf_kit *kit, struct error *error)
{
	int err = source_bpf_template_create(making->images, making->kernel, TEMPLATE_TRACEPOINT, &kit->bpf_template,
					     error);

	if (!err)
		err = source_bpf_template_create(making->images, making->kernel, TEMPLATE_RAW, &kit->raw, error);
	if (!err)
		err = source_bpf_template_create(making->images, making->kernel, TEMPLATE_REFUSED, &kit->refused, error);
	if (!err)
		err = source_bpf_template_create(making->images, making->kernel, TEMPLATE_UPROBE, &kit->uprobe, error);
	return err;
}

int source_bpf_made_create(const struct source_bpf_making *making, struct source_bpf_made **out,
			   struct error *error)
{
	struct source_bpf_made *made = calloc(1, sizeof(*made));
	int err;

	if (!made)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for probes");
	made->seen = making->seen;
	made->kit.fixed = making->fixed;
	made->kit.finder = making->finder;
	made->kit.kernel = making->kernel;
	made->kit.reading = making->reading;
	err = make_templates(making, &made->kit, error);
	for (; !err && made->opened < KINDS; made->opened++) {
		const struct made_kind *kind = kinds[made->opened];

		err = kind->open ? kind->open(&made->kit, &made->state[made->opened]) : 0;
		if (err)
			error_set(error, -err, "out-of-memory", "cannot prepare %s probes: %s",
				  kind->provider, strerror(-err));
		if (err)
			break;
	}
	made->kit.kernel = NULL;
	made->kit.reading = NULL;
	if (err)
		source_bpf_made_destroy(made);
	else
		*out = made;
	return err;
}

static void free_own(unsigned kind, void *own)
{
	if (kinds[kind]->free)
		kinds[kind]->free(own);
	else
		free(own);
}

void source_bpf_made_destroy(struct source_bpf_made *made)
{
	if (!made)
		return;
	for (unsigned i = 0; i < made->probes; i++) {
		source_bpf_made_close(&made->probe[i].attached);
		free_own(made->probe[i].kind, made->probe[i].own);
		ringtail__v1__probe__free_unpacked(made->probe[i].message, NULL);
	}
	while (made->opened--)
		if (kinds[made->opened]->close)
			kinds[made->opened]->close(made->state[made->opened]);
	source_bpf_template_destroy(made->kit.bpf_template);
	source_bpf_template_destroy(made->kit.raw);
	source_bpf_template_destroy(made->kit.refused);
	source_bpf_template_destroy(made->kit.uprobe);
	free(made);
}

const char *source_bpf_made_providers(void)
{
	return providers;
}

int source_bpf_made_list(struct source_bpf_made *made, struct probe_pack *pack)
{
	int err = 0;

	for (unsigned i = 0; i < KINDS && !err; i++)
		if (kinds[i]->list)
			err = kinds[i]->list(made->state[i], pack);
	return err;
}

/* ---- Making ----------------------------------------------------------------------------------- */

/* One spec on its way. */
struct making {
	struct made_sink sink;
	struct source_bpf_made *made;
	unsigned kind;
};

static struct making *making_of(struct made_sink *sink)
{
	return (struct making *)sink;
}

static int add(struct made_sink *sink, Ringtail__V1__Probe *message, void *own)
{
	struct making *making = making_of(sink);
	struct source_bpf_made *made = making->made;

	if (made->probes == PROBES_MADE_MAX) {
		ringtail__v1__probe__free_unpacked(message, NULL);
		free_own(making->kind, own);
		return -ENOSPC;
	}
	message->id = RT_PROBE_MADE + made->probes;
	made->probe[made->probes++] = (struct made_probe){
		.message = message, .kind = making->kind, .own = own,
		.attached = MADE_NO_PROGRAM,
	};
	return 0;
}

static bool is_named(const Ringtail__V1__Probe *probe, const char *provider, const char *function,
		     const char *name)
{
	return strcmp(probe->name, name) == 0 && strcmp(probe->function, function) == 0 &&
	       strcmp(probe->provider, provider) == 0;
}

static const Ringtail__V1__Probe *find(struct made_sink *sink, const char *function, const char *name,
					void **own, struct made_program **attached)
{
	const struct making *making = making_of(sink);
	struct source_bpf_made *made = making->made;

	for (unsigned i = 0; i < made->probes; i++) {
		struct made_probe *probe = &made->probe[i];

		if (!is_named(probe->message, kinds[making->kind]->provider, function, name))
			continue;
		*own = probe->own;
		*attached = &probe->attached;
		return probe->message;
	}
	return NULL;
}

static bool has(struct made_sink *sink, const char *function, const char *name)
{
	const struct making *making = making_of(sink);
	const struct source_bpf_made *made = making->made;
	const char *provider = kinds[making->kind]->provider;

	for (size_t i = 0; i < made->kit.fixed->n_probe; i++)
		if (is_named(made->kit.fixed->probe[i], provider, function, name))
			return true;
	for (unsigned i = 0; i < made->probes; i++)
		if (is_named(made->probe[i].message, provider, function, name))
			return true;
	return false;
}

/* "tracepoint:block:*" cut at its colons; the last part may have some of its own. */
static int split(char *text, struct made_spec *spec, char **provider)
{
	char *function = strchr(text, ':'), *name = function ? strchr(function + 1, ':') : NULL;

	*provider = text;
	if (function)
		*function++ = '\0';
	if (name)
		*name++ = '\0';
	spec->function = function && *function ? function : "*";
	spec->name = name && *name ? name : "*";
	return 0;
}

static int refuse_full(struct error *error)
{
	error_set(error, ENOSPC, "too-many-probes", "%d probes were made since the rings were, and more "
		  "cannot be", PROBES_MADE_MAX);
	error_hint(error, "stop ringtaild and start it: that makes new rings");
	return -ENOSPC;
}

int source_bpf_made_make(struct source_bpf_made *made, const char *text, source_offer *offer,
			 void *context, struct error *error)
{
	struct making making = {.sink = {.add = add, .has = has, .find = find}, .made = made, .kind = KINDS};
	char part[NAME_BYTES_MAX + 1], *provider;
	struct made_spec spec = {.text = text};
	unsigned before = made->probes;
	int err;

	snprintf(part, sizeof(part), "%s", text);
	split(part, &spec, &provider);
	for (unsigned i = 0; i < KINDS; i++)
		if (strcmp(kinds[i]->provider, provider) == 0)
			making.kind = i;
	if (making.kind == KINDS)
		return error_set(error, ENOENT, "unknown-probe", "no probes are called `%s`", provider);
	err = kinds[making.kind]->make(made->state[making.kind], &spec, &making.sink, error);
	if (err == -ENOSPC)
		err = refuse_full(error);
	/* Those that were made before it failed have their numbers, and the engine must know them. */
	for (unsigned i = before; i < made->probes; i++)
		if (offer(context, made->probe[i].message) != 0)
			return error_set(error, ENOMEM, "out-of-memory", "no memory for `%s`", text);
	return err;
}

/* ---- Requests --------------------------------------------------------------------------------- */

static bool has_bit(const uint8_t *bits, unsigned i)
{
	unsigned id = RT_PROBE_MADE + i;

	return bits[id / 8] & 1u << id % 8;
}

static bool is_attached(const struct made_probe *probe)
{
	return probe->attached.link >= 0;
}

static int add_counts(int fd, struct source_stats *stats)
{
	struct bpf_prog_info info = {};
	uint32_t bytes = sizeof(info);

	if (fd < 0)
		return 0;
	if (bpf_obj_get_info_by_fd(fd, &info, &bytes))
		return -errno;
	stats->recursion_lost += info.recursion_misses;
	stats->program_runs += info.run_cnt;
	return 0;
}

/* As struct bpf_link_info, from 6.7 on; the headers may be older. */
struct kprobe_link_info {
	uint32_t of_all[4];
	uint32_t kind, zero0;		/* KPROBE_LINK, KRETPROBE_LINK */
	uint64_t name;
	uint32_t name_bytes, offset;
	uint64_t address, missed;
};

#define KPROBE_LINK	3
#define KRETPROBE_LINK	4

/* What the kernel missed of a kprobe, before any program was asked: within another, or with all its places taken. */
static void add_missed(int link, struct source_stats *stats)
{
	struct kprobe_link_info info = {};
	uint32_t bytes = sizeof(info);

	if (link < 0 || bpf_obj_get_info_by_fd(link, &info, &bytes) || info.of_all[0] != BPF_LINK_TYPE_PERF_EVENT)
		return;
	if (info.kind == KPROBE_LINK || info.kind == KRETPROBE_LINK)
		stats->recursion_lost += info.missed;
}

static uint64_t refused_seen(const struct source_bpf_made *made, const struct made_probe *probe)
{
	return __atomic_load_n(&made->seen[probe - made->probe], __ATOMIC_ACQUIRE);
}

/*
 * The kernel forgets with a program what it counted of it. Where there is a watch, what that saw is in the rings'
 * ledgers; it may itself have been refused. From 6.7 on the kernel also counts what it refused of the watched program:
 * what is more than the watch saw, nobody saw. The watch counts first, and is asked last.
 */
static int add_program(const struct source_bpf_made *made, const struct made_probe *probe, struct source_stats *stats)
{
	const struct made_program *program = &probe->attached;
	bool is_watched = program->watch_link >= 0, is_counted = is_watched && source_bpf_check_kernel(6, 7);
	struct source_stats own = {0};
	uint64_t seen;
	int err = add_counts(is_watched && !is_counted ? program->watch : program->program, &own);

	if (is_counted) {
		seen = refused_seen(made, probe) - probe->seen_before;
		own.recursion_lost -= seen < own.recursion_lost ? seen : own.recursion_lost;
	}
	stats->recursion_lost += own.recursion_lost;
	stats->program_runs += own.program_runs;
	add_missed(program->link, stats);
	for (unsigned i = 0; i < program->more_count && !err; i++)
		err = add_counts(program->more[i].program, stats);
	return err;
}

static void detach(struct source_bpf_made *made, struct made_probe *probe)
{
	struct source_stats own = {0};

	add_program(made, probe, &own);
	probe->runs_before += own.program_runs;
	probe->refused_before += own.recursion_lost;
	source_bpf_made_close(&probe->attached);
}

static int check_count(const struct source_bpf_made *made, const struct source_request *request,
		       struct error *error)
{
	unsigned wanted = 0;

	for (unsigned i = 0; i < made->probes; i++)
		wanted += has_bit(request->probes, i);
	if (wanted <= PROBES_AT_ONCE_MAX)
		return 0;
	error_set(error, E2BIG, "too-many-probes", "all clients together ask for %u probes that are made "
		  "for them, and at most %d can be recorded at once", wanted, PROBES_AT_ONCE_MAX);
	error_hint(error, "ask for fewer: one system's, as in tracepoint:block:*, or name them");
	return -E2BIG;
}

static int attach_one(struct source_bpf_made *made, struct made_probe *probe, struct error *error)
{
	/* Before it may run: what is refused from then on, the kernel counts of it as well. */
	probe->seen_before = refused_seen(made, probe);
	return kinds[probe->kind]->attach(made->state[probe->kind], &made->kit, probe->message, probe->own,
					  &probe->attached, error);
}

int source_bpf_made_attach(struct source_bpf_made *made, const struct source_request *request,
			   struct error *error)
{
	uint8_t fresh[PROBES_MADE_MAX / 8] = {0};
	int err = check_count(made, request, error);

	for (unsigned i = 0; i < made->probes && !err; i++) {
		if (!has_bit(request->probes, i) || is_attached(&made->probe[i]) ||
		    !kinds[made->probe[i].kind]->attach)
			continue;
		err = attach_one(made, &made->probe[i], error);
		if (!err)
			fresh[i / 8] |= 1u << i % 8;
	}
	for (unsigned i = 0; i < made->probes && err; i++)
		if (fresh[i / 8] & 1u << i % 8)
			detach(made, &made->probe[i]);
	return err;
}

unsigned source_bpf_made_count(const struct source_bpf_made *made)
{
	return made->probes;
}

unsigned source_bpf_made_timers(const struct source_bpf_made *made, const struct source_request *request,
				struct source_bpf_timer *timer, unsigned most)
{
	unsigned timers = 0;

	for (unsigned i = 0; i < made->probes; i++) {
		if (kinds[made->probe[i].kind]->attach || !has_bit(request->probes, i))
			continue;
		if (timers < most) {
			timer[timers] = *(const struct source_bpf_timer *)made->probe[i].own;
			timer[timers].probe = (uint16_t)(RT_PROBE_MADE + i);
		}
		timers++;
	}
	return timers;
}

bool source_bpf_made_wanted(const struct source_request *request)
{
	for (unsigned id = RT_PROBE_MADE; id < RT_PROBE_MAX; id += 8)
		if (request->probes[id / 8])
			return true;
	return false;
}

void source_bpf_made_wish(struct source_bpf_made *made, const struct source_request *request,
			  uint8_t wishes[RT_PROBES_MADE_MAX])
{
	made->idle = 0;
	for (unsigned i = 0; i < made->probes; i++) {
		struct made_probe *probe = &made->probe[i];

		wishes[i] = 0;
		probe->wanted = has_bit(request->probes, i);
		if (probe->wanted)
			wishes[i] = MADE_WANTED;
		if (probe->wanted && request->clauses && has_bit(request->unfiltered, i))
			wishes[i] |= MADE_UNFILTERED;
		if (probe->wanted && has_bit(request->counted, i))
			wishes[i] |= MADE_COUNTED;
		made->idle += is_attached(probe) && !probe->wanted;
	}
}

bool source_bpf_made_detach_one(struct source_bpf_made *made)
{
	for (unsigned i = 0; i < made->probes && made->idle; i++) {
		struct made_probe *probe = &made->probe[i];

		if (probe->wanted || !is_attached(probe))
			continue;
		detach(made, probe);
		made->idle--;
		return true;
	}
	return false;
}

bool source_bpf_made_is_wanted(const struct source_bpf_made *made, unsigned i)
{
	return made->probe[i].wanted;
}

int source_bpf_made_stats(const struct source_bpf_made *made, unsigned i, struct source_stats *stats)
{
	const struct made_probe *probe = &made->probe[i];

	stats->program_runs += probe->runs_before;
	stats->recursion_lost += probe->refused_before;
	return add_program(made, probe, stats);
}
