/*
 * made_uprobe, made_uretprobe, made_usdt: places in the code of programs and libraries, by the file's path:
 * uprobe:PATH:SYMBOL, uretprobe:PATH:SYMBOL, usdt:PATH:PROVIDER:NAME. The finder opens the file and says where;
 * a program for each is made by bpf_template, and attached to the file itself, wherever it is mapped.
 */
#include "daemon/source/bpf_made.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/source/bpf_template.h"
#include "daemon/source/finder.h"
#include "daemon/source/registers.h"
#include "query/glob.h"

#define UPROBE_EVENTS	"/sys/bus/event_source/devices/uprobe"	/* where the kernel has uprobes at all */

enum place_kind {
	PLACE_ENTRY,
	PLACE_RETURN,
	PLACE_MARK,
};

/* What attaching takes. */
struct place_own {
	int file;
	enum place_kind kind;
	uint32_t sites;
	struct file_site site[];
};

struct place_state {
	struct finder *finder;
	bool has_uprobes, has_multi;
};

/* From 6.6 on; the headers that we are built with may be older. */
#define ATTACH_UPROBE_MULTI	48
#define UPROBE_MULTI_RETURN	1u

struct uprobe_multi {
	uint32_t program, target, attach_type, flags;
	uint64_t path, offsets, semaphores, cookies;
	uint32_t count, how, pid;
};

static int link_multi(struct uprobe_multi *multi)
{
	int fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, multi, sizeof(*multi));

	return fd < 0 ? -errno : fd;
}

/* A kernel that knows of it looks at the path before it misses the program's type. */
static bool has_multi(void)
{
	uint64_t offset = 0;
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = ATTACH_UPROBE_MULTI);
	int program = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "any_uprobe", "Dual BSD/GPL", nothing, 2, &options);
	struct uprobe_multi multi = {
		.program = (uint32_t)program, .attach_type = ATTACH_UPROBE_MULTI,
		.path = (uintptr_t)"/", .offsets = (uintptr_t)&offset, .count = 1,
	};
	int link = program < 0 ? program : link_multi(&multi);

	if (link >= 0)
		close(link);
	if (program >= 0)
		close(program);
	return link == -EBADF;		/* "/" is no file */
}

static int open_all(const struct source_bpf_kit *kit, void **state)
{
	struct place_state *places = calloc(1, sizeof(*places));

	if (!places)
		return -ENOMEM;
	places->finder = kit->finder;
	places->has_uprobes = access(UPROBE_EVENTS, F_OK) == 0;
	places->has_multi = has_multi();
	*state = places;
	return 0;
}

/* ---- The catalog ------------------------------------------------------------------------------ */

static int add_field(Ringtail__V1__Probe *probe, const char *name, const char *c_type,
		     Ringtail__V1__FieldType type, unsigned bits)
{
	Ringtail__V1__Field *field = malloc(sizeof(*field));

	if (!field)
		return -ENOMEM;
	ringtail__v1__field__init(field);
	probe->field[probe->n_field++] = field;
	field->name = strdup(name);
	field->c_type = strdup(c_type);
	field->type = type;
	field->bits = bits;
	return field->name && field->c_type ? 0 : -ENOMEM;
}

static int add_mark_field(Ringtail__V1__Probe *probe, unsigned i, const struct tracepoint_word *word)
{
	char name[16], c_type[32];

	snprintf(name, sizeof(name), "arg%u", i);
	if (word->bytes)
		snprintf(c_type, sizeof(c_type), "%sint%u_t", word->is_signed ? "" : "u", 8u * word->bytes);
	else
		snprintf(c_type, sizeof(c_type), "not recorded");
	return add_field(probe, name, c_type, word->is_signed ? RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED :
			 RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 8u * word->bytes);
}

/* As plan_site(): a word each. */
static int add_fields(Ringtail__V1__Probe *probe, enum place_kind kind, const struct file_site *site)
{
	static const Ringtail__V1__FieldType hex = RINGTAIL__V1__FIELD_TYPE__FIELD_HEX;
	char name[16];
	int err = add_field(probe, kind == PLACE_RETURN ? "caller" : "ip", "void *", hex, 64);

	if (kind == PLACE_RETURN && !err)
		err = add_field(probe, "retval", "long", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 64);
	for (unsigned i = 0; kind == PLACE_ENTRY && i < REGISTER_ARGS && !err; i++) {
		snprintf(name, sizeof(name), "arg%u", i);
		err = add_field(probe, name, "unsigned long", hex, 64);
	}
	for (unsigned i = 0; kind == PLACE_MARK && i < site->args && !err; i++)
		err = add_mark_field(probe, i, &site->arg[i]);
	return err;
}

static const char *const provider_of[] = {"uprobe", "uretprobe", "usdt"};

static int make_message(enum place_kind kind, const char *path, const char *name,
			const struct file_site *site, Ringtail__V1__Probe **made)
{
	Ringtail__V1__Probe *probe = malloc(sizeof(*probe));
	int err = -ENOMEM;

	if (!probe)
		return err;
	ringtail__v1__probe__init(probe);
	probe->field = calloc(PROBE_FIELDS_MAX, sizeof(struct Ringtail__V1__Field *));
	probe->provider = strdup(provider_of[kind]);
	probe->function = strdup(path);
	probe->name = strdup(name);
	probe->print = strdup("");
	if (probe->field && probe->provider && probe->function && probe->name && probe->print)
		err = add_fields(probe, kind, site);
	if (err)
		ringtail__v1__probe__free_unpacked(probe, NULL);
	else
		*made = probe;
	return err;
}

/* ---- Making ----------------------------------------------------------------------------------- */

static void free_own(void *from)
{
	struct place_own *own = from;

	if (own)
		close(own->file);
	free(own);
}

/* `file` is taken over. */
static struct place_own *make_own(enum place_kind kind, int file, const struct file_sites *sites)
{
	size_t bytes = sites->count * sizeof(sites->site[0]);
	struct place_own *own = malloc(sizeof(*own) + bytes);

	if (!own) {
		close(file);
		return NULL;
	}
	own->file = file;
	own->kind = kind;
	own->sites = sites->count;
	memcpy(own->site, sites->site, bytes);
	return own;
}

/* What is missing here that such probes take. */
static int refuse_here(const struct place_state *places, struct error *error)
{
	error_set(error, EOPNOTSUPP, "uprobe-not-here", "%s", !places->finder ?
		  "the process that opens files for probes could not be started" : !places->has_uprobes ?
		  "this kernel has no uprobes: it was built without CONFIG_UPROBE_EVENTS" :
		  "this kernel does not let a BPF program be attached to files' code without all of root's rights");
	error_hint(error, "%s", !places->finder ? "see the log of ringtaild, and restart it" : !places->has_uprobes ?
		   "use a kernel that has them" : "use Linux 6.6 or newer (BPF links of the kind uprobe_multi), with"
		   " CONFIG_BPF_EVENTS");
	return -EOPNOTSUPP;
}

static int check(const struct place_state *places, enum place_kind kind, const struct made_spec *spec,
		 struct error *error)
{
	if (!places->finder || !places->has_multi)
		return refuse_here(places, error);
	if (strpbrk(spec->function, "*?[") || strpbrk(spec->name, "*?[")) {
		error_set(error, EINVAL, "probe-is-pattern", "`%.256s` is a pattern: %s probes are recorded by their"
			  " whole names", spec->text, provider_of[kind]);
		error_hint(error, "`tracectl list` with a pattern behind the path shows the names; give one -p for each");
		return -EINVAL;
	}
	return 0;
}

static int ask(const struct place_state *places, enum place_kind kind, const struct made_spec *spec,
	       struct finder_answer *answer, int *file, struct error *error)
{
	struct finder_question question = {.kind = kind == PLACE_MARK ? FILE_MARK : FILE_FUNCTION};

	snprintf(question.path, sizeof(question.path), "%s", spec->function);
	snprintf(question.name, sizeof(question.name), "%s", spec->name);
	return finder_ask(places->finder, &question, answer, file, error);
}

static int make(void *state, enum place_kind kind, const struct made_spec *spec, struct made_sink *sink,
		struct error *error)
{
	static struct finder_answer answer;	/* the loader has one thread */
	Ringtail__V1__Probe *probe;
	struct place_own *own;
	int err = check(state, kind, spec, error), file;

	if (err || sink->has(sink, spec->function, spec->name))
		return err;
	err = ask(state, kind, spec, &answer, &file, error);
	if (err)
		return err;
	own = make_own(kind, file, &answer.sites);
	err = own ? make_message(kind, spec->function, spec->name, own->site, &probe) : -ENOMEM;
	if (!err)
		return sink->add(sink, probe, own);
	free_own(own);
	return error_set(error, ENOMEM, "out-of-memory", "no memory for `%.256s`", spec->text);
}

static int make_uprobe(void *state, const struct made_spec *spec, struct made_sink *sink,
		       struct error *error)
{
	return make(state, PLACE_ENTRY, spec, sink, error);
}

static int make_uretprobe(void *state, const struct made_spec *spec, struct made_sink *sink,
			  struct error *error)
{
	return make(state, PLACE_RETURN, spec, sink, error);
}

static int make_usdt(void *state, const struct made_spec *spec, struct made_sink *sink,
		     struct error *error)
{
	return make(state, PLACE_MARK, spec, sink, error);
}

/* ---- Attaching -------------------------------------------------------------------------------- */

static void plan_register(struct tracepoint_plan *plan, uint16_t offset)
{
	plan->word[plan->words++] = (struct tracepoint_word){
		.offset = offset, .bytes = 8, .index = WORD_NO_INDEX,
	};
}

/* As many words as the first site, of which the catalog speaks, has arguments. */
static void plan_site(const struct place_own *own, unsigned i, struct tracepoint_plan *plan)
{
	const struct file_site *site = &own->site[i];

	*plan = (struct tracepoint_plan){0};
	plan_register(plan, register_ip);
	if (own->kind == PLACE_RETURN)
		plan_register(plan, register_result);
	for (unsigned arg = 0; own->kind == PLACE_ENTRY && arg < REGISTER_ARGS; arg++)
		plan_register(plan, register_arg[arg]);
	for (unsigned arg = 0; own->kind == PLACE_MARK && arg < own->site[0].args; arg++)
		plan->word[plan->words++] = arg < site->args ? site->arg[arg] :
					    (struct tracepoint_word){.index = WORD_NO_INDEX};
}

static int fail(int err, const char *name, struct error *error)
{
	error_set(error, err, "probe-not-attached", "cannot attach to %s: %s", name, strerror(err));
	error_hint(error, err == EMFILE ? "raise the daemon's limit of open files: LimitNOFILE= of its unit, or"
					  " ulimit -n" :
			  err == EINVAL || err == EOPNOTSUPP ?
			  "the kernel refuses this place: its instruction cannot be probed, or the file lies on a"
			  " file system that cannot map code" :
			  err == ENOENT ? "the loader needs /proc in its file tree: see ringtaild.service" :
			  err == EACCES ? "where kernel.perf_event_paranoid is above 2, Debian's kernels forbid it:"
					  " sysctl -w kernel.perf_event_paranoid=2" :
					  "a security module or lockdown may forbid it; see `tracectl doctor`");
	return -err;
}

/* The sites that the program of the first of them is for, all at once. Returns the link, or -errno. */
static int link_sites(const struct place_own *own, const bool in_group[FILE_SITES_MAX], int program)
{
	uint64_t offset[FILE_SITES_MAX], semaphore[FILE_SITES_MAX];
	struct uprobe_multi multi = {
		.program = (uint32_t)program, .attach_type = ATTACH_UPROBE_MULTI,
		.offsets = (uintptr_t)offset,
		.how = own->kind == PLACE_RETURN ? UPROBE_MULTI_RETURN : 0,
	};
	char path[64];

	/* The kernel wants a path: that of our own descriptor. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", own->file);
	multi.path = (uintptr_t)path;
	for (unsigned i = 0; i < own->sites; i++) {
		if (!in_group[i])
			continue;
		offset[multi.count] = own->site[i].offset;
		semaphore[multi.count++] = own->site[i].semaphore;
		if (own->site[i].semaphore)
			multi.semaphores = (uintptr_t)semaphore;
	}
	return link_multi(&multi);
}

static bool same_args(const struct file_site *a, const struct file_site *b)
{
	return a->args == b->args && memcmp(a->arg, b->arg, sizeof(a->arg)) == 0;
}

/* A program for each set of sites whose arguments lie in the same registers. */
struct attaching {
	const struct source_bpf_kit *kit;
	const struct place_own *own;
	uint32_t index;
	char name[2 * (NAME_BYTES_MAX + 1)];
	bool done[FILE_SITES_MAX];
};

static int attach_group(struct attaching *attaching, unsigned first, struct made_more *to,
			struct error *error)
{
	const struct place_own *own = attaching->own;
	bool in_group[FILE_SITES_MAX] = {false};
	struct tracepoint_plan plan;

	plan_site(own, first, &plan);
	to->link = -1;
	to->program = source_bpf_template_load(attaching->kit->uprobe, attaching->name, attaching->index,
					       &plan, error);
	if (to->program < 0) {
		int err = to->program;

		to->program = -1;
		return err;
	}
	for (unsigned i = first; i < own->sites; i++) {
		in_group[i] = !attaching->done[i] && same_args(&own->site[first], &own->site[i]);
		attaching->done[i] |= in_group[i];
	}
	to->link = link_sites(own, in_group, to->program);
	if (to->link >= 0)
		return 0;
	fail(-to->link, attaching->name, error);
	to->link = -1;
	return -EINVAL;
}

static int attach_all(struct attaching *attaching, struct made_program *to, struct error *error)
{
	struct made_more first;
	int err = attach_group(attaching, 0, &first, error);

	to->program = first.program;
	to->link = first.link;
	for (unsigned i = 1; i < attaching->own->sites && !err; i++)
		if (!attaching->done[i])
			err = attach_group(attaching, i, &to->more[to->more_count++], error);
	return err;
}

static int attach(void *state, const struct source_bpf_kit *kit, const Ringtail__V1__Probe *message,
		  const void *from, struct made_program *to, struct error *error)
{
	struct attaching attaching = {
		.kit = kit, .own = from, .index = message->id - RT_PROBE_MADE,
	};
	int err;

	(void)state;
	snprintf(attaching.name, sizeof(attaching.name), "%s:%s:%s", message->provider, message->function,
		 message->name);
	*to = MADE_NO_PROGRAM;
	to->more = calloc(attaching.own->sites, sizeof(*to->more));
	if (!to->more)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %s", attaching.name);
	err = attach_all(&attaching, to, error);
	if (err)
		source_bpf_made_close(to);
	return err;
}

const struct made_kind made_uprobe = {
	.provider = "uprobe",
	.open = open_all,
	.close = free,
	.make = make_uprobe,
	.attach = attach,
	.free = free_own,
};

const struct made_kind made_uretprobe = {
	.provider = "uretprobe",
	.open = open_all,
	.close = free,
	.make = make_uretprobe,
	.attach = attach,
	.free = free_own,
};

const struct made_kind made_usdt = {
	.provider = "usdt",
	.open = open_all,
	.close = free,
	.make = make_usdt,
	.attach = attach,
	.free = free_own,
};
