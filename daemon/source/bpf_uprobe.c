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
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/source/bpf_template.h"
#include "daemon/source/finder.h"
#include "daemon/source/bpf_places.h"
#include "daemon/source/registers.h"
#include "query/glob.h"

#define PLACE_FILES_MAX	8	/* of one path, as it is replaced */
#define PATTERN_NAMES_MAX 64	/* that one pattern may mean */

enum place_kind {
	PLACE_ENTRY,
	PLACE_RETURN,
	PLACE_MARK,
};

/* A file, and where the probe lies in it. */
struct place_file {
	int fd;
	uint64_t device, inode;
	uint32_t sites;
	struct file_site site[];
};

/*
 * What attaching takes. Of a path that was asked for again after its file had been replaced, there are several
 * files: programs go on in the old ones. The catalog speaks of the first.
 */
struct place_own {
	enum place_kind kind;
	unsigned files;
	struct place_file *file[PLACE_FILES_MAX];
};

struct place_state {
	const struct source_bpf_kit *kit;
	struct probe_unit unit;		/* where the kernel has uprobes at all */
	bool has_multi;
	bool is_told;			/* that some returns are missing without a word */
};

static int open_all(const struct source_bpf_kit *kit, void **state)
{
	struct place_state *places = calloc(1, sizeof(*places));

	if (!places)
		return -ENOMEM;
	places->kit = kit;
	probe_unit_read("uprobe", &places->unit);
	places->has_multi = uprobe_multi_is_here();
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

/* ---- Files ------------------------------------------------------------------------------------ */

static void free_file(struct place_file *file)
{
	if (file)
		close(file->fd);
	free(file);
}

static void free_own(void *from)
{
	struct place_own *own = from;

	for (unsigned i = 0; own && i < own->files; i++)
		free_file(own->file[i]);
	free(own);
}

/* `fd` is taken over. */
static struct place_file *make_file(int fd, const struct finder_answer *answer)
{
	size_t bytes = answer->sites.count * sizeof(answer->sites.site[0]);
	struct place_file *file = malloc(sizeof(*file) + bytes);

	if (!file) {
		close(fd);
		return NULL;
	}
	*file = (struct place_file){
		.fd = fd, .device = answer->device, .inode = answer->inode, .sites = answer->sites.count,
	};
	memcpy(file->site, answer->sites.site, bytes);
	return file;
}

/* What is missing here that such probes take. */
static int refuse_here(const struct place_state *places, struct error *error)
{
	error_set(error, EOPNOTSUPP, "uprobe-not-here", "%s", !places->kit->finder ?
		  "the process that opens files for probes could not be started" :
		  "this kernel has no uprobes: it was built without CONFIG_UPROBE_EVENTS");
	error_hint(error, "%s", !places->kit->finder ? "see the log of ringtaild, and restart it" :
		   "use a kernel that has them");
	return -EOPNOTSUPP;
}

static int check(const struct place_state *places, enum place_kind kind, const struct made_spec *spec,
		 struct error *error)
{
	if (!places->kit->finder || !places->unit.type)
		return refuse_here(places, error);
	if (!strpbrk(spec->function, "*?["))
		return 0;
	error_set(error, EINVAL, "probe-is-pattern", "the path of %s:%.256s is a pattern", provider_of[kind],
		  spec->function);
	error_hint(error, "name one file; the part behind it may be a pattern, as in 'uprobe:/usr/bin/app:parse_*'");
	return -EINVAL;
}

/* ---- Attaching -------------------------------------------------------------------------------- */

static void plan_register(struct tracepoint_plan *plan, uint16_t offset)
{
	plan->word[plan->words++] = (struct tracepoint_word){
		.offset = offset, .bytes = 8, .index = WORD_NO_INDEX,
	};
}

/* As many words as the first site, of which the catalog speaks, has arguments. */
static void plan_site(const struct place_own *own, const struct file_site *site,
		      struct tracepoint_plan *plan)
{

	*plan = (struct tracepoint_plan){0};
	plan_register(plan, register_ip);
	if (own->kind == PLACE_RETURN)
		plan_register(plan, register_result);
	for (unsigned arg = 0; own->kind == PLACE_ENTRY && arg < REGISTER_ARGS; arg++)
		plan_register(plan, register_arg[arg]);
	for (unsigned arg = 0; own->kind == PLACE_MARK && arg < own->file[0]->site[0].args; arg++)
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
			  err == EACCES ? "before Linux 6.6 this takes CAP_SYS_ADMIN, which only the finder process"
					  " keeps: start ringtaild as root, or see PROBES OF PROGRAMS in ringtaild(8)" :
					  "a security module or lockdown may forbid it; see `tracectl doctor`");
	return -err;
}

/* A file on its way: a program for each set of sites whose arguments lie in the same registers. */
struct attaching {
	const struct place_state *places;
	const struct place_own *own;
	const struct place_file *file;
	uint32_t index;
	const char *name;
	char path[64];			/* the kernel wants a path: that of our own descriptor */
	bool done[FILE_SITES_MAX];
	struct made_program *to;
};

/* The program that was added last gets a link more; -errno is none. */
static int add_link(struct made_program *to, int link)
{
	if (link < 0)
		return link;
	if (to->more_count && to->more[to->more_count - 1].link < 0)
		to->more[to->more_count - 1].link = link;
	else
		to->more[to->more_count++] = (struct made_more){-1, link};
	return 0;
}

/* The sites that a program is for, all at once. */
static int link_together(const struct attaching *attaching, const bool in_group[FILE_SITES_MAX], bool is_return,
			 int program)
{
	const struct place_file *file = attaching->file;
	uint64_t offset[FILE_SITES_MAX], semaphore[FILE_SITES_MAX];
	struct uprobe_multi multi = {
		.program = (uint32_t)program, .attach_type = ATTACH_UPROBE_MULTI,
		.path = (uintptr_t)attaching->path, .offsets = (uintptr_t)offset,
		.how = is_return ? UPROBE_MULTI_RETURN : 0,
	};

	for (unsigned i = 0; i < file->sites; i++) {
		if (!in_group[i])
			continue;
		offset[multi.count] = file->site[i].offset;
		semaphore[multi.count++] = file->site[i].semaphore;
		if (file->site[i].semaphore)
			multi.semaphores = (uintptr_t)semaphore;
	}
	return add_link(attaching->to, uprobe_multi_link(&multi));
}

/* Kernels that leave it to CAP_SYS_ADMIN let the finder do it. */
static int open_event(const struct attaching *attaching, const struct probe_place *place)
{
	const struct place_state *places = attaching->places;
	int event = probe_unit_open(&places->unit, place);

	return event == -EACCES ? finder_attach(places->kit->finder, &places->unit, place, attaching->file->fd) : event;
}

/* Before 6.6 a link is of one site. */
static int link_sites(const struct attaching *attaching, const bool in_group[FILE_SITES_MAX], bool is_return,
		      int program)
{
	const struct place_file *file = attaching->file;
	int err = 0;

	if (attaching->places->has_multi)
		return link_together(attaching, in_group, is_return, program);
	for (unsigned i = 0; i < file->sites && !err; i++) {
		struct probe_place place = {
			.of = attaching->path, .offset = file->site[i].offset,
			.semaphore = (uint32_t)file->site[i].semaphore, .is_return = is_return,
		};

		if (in_group[i])
			err = add_link(attaching->to, probe_unit_link(open_event(attaching, &place), program));
	}
	return err;
}

static bool same_args(const struct file_site *a, const struct file_site *b)
{
	return a->args == b->args && memcmp(a->arg, b->arg, sizeof(a->arg)) == 0;
}

static struct source_bpf_as attached_as(const struct place_state *places)
{
	return (struct source_bpf_as){
		.type = BPF_PROG_TYPE_KPROBE, .attach_type = places->has_multi ? ATTACH_UPROBE_MULTI : 0,
	};
}

static void add_program(struct made_program *to, int program)
{
	to->more[to->more_count++] = (struct made_more){program, -1};
}

static int attach_group(struct attaching *attaching, unsigned first, struct error *error)
{
	const struct place_file *file = attaching->file;
	struct source_bpf_as as = attached_as(attaching->places);
	bool in_group[FILE_SITES_MAX] = {false};
	struct tracepoint_plan plan;
	int program, err;

	plan_site(attaching->own, &file->site[first], &plan);
	program = source_bpf_template_load(attaching->places->kit->uprobe, attaching->name, attaching->index, &plan,
					   &as, error);
	if (program < 0)
		return program;
	add_program(attaching->to, program);
	for (unsigned i = first; i < file->sites; i++) {
		in_group[i] = !attaching->done[i] && same_args(&file->site[first], &file->site[i]);
		attaching->done[i] |= in_group[i];
	}
	err = link_sites(attaching, in_group, attaching->own->kind == PLACE_RETURN, program);
	return err ? fail(-err, attaching->name, error) : 0;
}

static int leave_unwatched(struct place_state *places, const char *name)
{
	if (!places->is_told)
		log_warn("returns-uncounted", "this kernel does not say how deep a thread is in functions whose"
			 " returns are probed: of more than 64 inside each other, as %s may have, returns are missing"
			 " without a word", name);
	places->is_told = true;
	return 0;
}

/*
 * The kernel follows so many returns of a thread inside each other, and leaves out those of further calls. A
 * second program, where the function begins, sees the kernel's own count just before the kernel looks at it, and
 * counts those in the place of the events.
 */
static int watch_entry(struct attaching *attaching, struct place_state *places, struct error *error)
{
	bool all[FILE_SITES_MAX];
	struct source_bpf_as as = attached_as(places);
	struct tracepoint_plan plan = {0};
	int err, program;

	as.counts_nested = true;
	program = source_bpf_template_load(places->kit->refused, attaching->name, attaching->index, &plan, &as, error);
	if (program < 0)
		return program == -ENOENT ? leave_unwatched(places, attaching->name) : program;
	add_program(attaching->to, program);
	memset(all, true, sizeof(all));
	err = link_sites(attaching, all, false, program);
	return err ? fail(-err, attaching->name, error) : 0;
}

/* Adds what attaches one more file of the probe. */
static int attach_file(struct place_state *places, const Ringtail__V1__Probe *message, const struct place_own *own,
		       const struct place_file *file, struct made_program *to, struct error *error)
{
	char name[2 * (NAME_BYTES_MAX + 1)];
	struct attaching attaching = {
		.places = places, .own = own, .file = file, .index = message->id - RT_PROBE_MADE, .name = name, .to = to,
	};
	/* Of each site a program and a link, which share an entry; and of the watch. */
	struct made_more *more = reallocarray(to->more, to->more_count + 2 * file->sites, sizeof(*more));
	int err = 0;

	snprintf(name, sizeof(name), "%s:%s:%s", message->provider, message->function, message->name);
	snprintf(attaching.path, sizeof(attaching.path), "/proc/self/fd/%d", file->fd);
	if (!more)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %s", name);
	to->more = more;
	for (unsigned i = 0; i < file->sites && !err; i++)
		if (!attaching.done[i])
			err = attach_group(&attaching, i, error);
	if (!err && own->kind == PLACE_RETURN)
		err = watch_entry(&attaching, places, error);
	return err;
}

/* What was attached first stands for all. */
static void name_first(struct made_program *to)
{
	to->program = to->more[0].program;
	to->link = to->more[0].link;
	to->more[0] = (struct made_more){-1, -1};
}

static int attach(void *state, const struct source_bpf_kit *kit, const Ringtail__V1__Probe *message,
		  const void *from, struct made_program *to, struct error *error)
{
	const struct place_own *own = from;
	int err = 0;

	(void)kit;
	*to = MADE_NO_PROGRAM;
	for (unsigned i = 0; i < own->files && !err; i++)
		err = attach_file(state, message, own, own->file[i], to, error);
	if (err)
		source_bpf_made_close(to);
	else
		name_first(to);
	return err;
}

/* ---- Making ----------------------------------------------------------------------------------- */

static int ask(struct finder *finder, enum place_kind kind, const char *path, const char *name, bool lists,
	       struct finder_answer *answer, int *fd, struct error *error)
{
	struct finder_question question = {
		.kind = kind == PLACE_MARK ? FILE_MARK : FILE_FUNCTION, .lists = lists,
	};

	snprintf(question.path, sizeof(question.path), "%s", path);
	snprintf(question.name, sizeof(question.name), "%s", name);
	return finder_ask(finder, &question, answer, fd, error);
}

static bool has_file(const struct place_own *own, const struct place_file *file)
{
	for (unsigned i = 0; i < own->files; i++)
		if (own->file[i]->device == file->device && own->file[i]->inode == file->inode)
			return true;
	return false;
}

/* The path was made a probe of before: if it leads to another file now, that is one more place. Takes `file`. */
static int add_file(struct place_state *places, const Ringtail__V1__Probe *message,
		    struct place_own *own, struct place_file *file, struct made_program *attached,
		    struct error *error)
{
	int err = 0;

	if (has_file(own, file)) {
		free_file(file);
		return 0;
	}
	if (own->files == PLACE_FILES_MAX) {
		error_set(error, ENOSPC, "too-many-files", "%.256s was replaced %d times since it was first asked for",
			  message->function, PLACE_FILES_MAX);
		error_hint(error, "restart ringtaild: that makes the probe anew, of the file that is there now");
		free_file(file);
		return -EMFILE;
	}
	if (attached->link >= 0)
		err = attach_file(places, message, own, file, attached, error);
	if (err)
		free_file(file);
	else
		own->file[own->files++] = file;
	return err;
}

static int add_probe(enum place_kind kind, const char *path, const char *name, struct place_file *file,
		     struct made_sink *sink, struct error *error)
{
	struct place_own *own = calloc(1, sizeof(*own));
	Ringtail__V1__Probe *probe;

	if (own && make_message(kind, path, name, file->site, &probe) == 0) {
		*own = (struct place_own){.kind = kind, .files = 1, .file = {file}};
		return sink->add(sink, probe, own);
	}
	free(own);
	free_file(file);
	return error_set(error, ENOMEM, "out-of-memory", "no memory for %s:%.200s:%.200s", provider_of[kind], path,
			 name);
}

static int make_one(struct place_state *places, enum place_kind kind, const char *path, const char *name,
		    struct made_sink *sink, struct error *error)
{
	static struct finder_answer answer;	/* the loader has one thread */
	struct made_program *attached;
	const Ringtail__V1__Probe *made;
	struct place_file *file;
	void *own;
	int fd, err = ask(places->kit->finder, kind, path, name, false, &answer, &fd, error);

	if (err)
		return err;
	file = make_file(fd, &answer);
	if (!file)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %.256s", path);
	made = sink->find(sink, path, name, &own, &attached);
	return made ? add_file(places, made, own, file, attached, error) :
		      add_probe(kind, path, name, file, sink, error);
}

static int refuse_pattern(const struct made_spec *spec, const struct finder_answer *answer,
			  struct error *error)
{
	if (answer->names) {
		error_set(error, E2BIG, "too-many-probes", "`%.256s` means %s%u probes, and at most %d can be made"
			  " by one pattern", spec->text, answer->names == FIND_NAMES_MAX ? "at least " : "",
			  answer->names, PATTERN_NAMES_MAX);
		error_hint(error, "use a pattern that means fewer, as in ...:parse_*");
		return -E2BIG;
	}
	error_set(error, ENOENT, "unknown-probe", "the file has nothing that matches `%.256s`", spec->text);
	error_hint(error, "a function that the compiler put into its callers, or that was stripped, has no name; and"
		   " many files have no USDT probes");
	return -ENOENT;
}

/* The names lie one after the other, each with its end. */
static int make_all(struct place_state *places, enum place_kind kind, const char *path, const char *name,
		    const char *end, struct made_sink *sink, struct error *error)
{
	int err = 0;

	for (; name < end && !err; name += strlen(name) + 1)
		err = make_one(places, kind, path, name, sink, error);
	return err;
}

static int make_pattern(struct place_state *places, enum place_kind kind, const struct made_spec *spec,
			struct made_sink *sink, struct error *error)
{
	static struct finder_answer answer;
	static char names[PATTERN_NAMES_MAX * (NAME_BYTES_MAX + 1) + 1];
	ssize_t got;
	int fd, err = ask(places->kit->finder, kind, spec->function, spec->name, true, &answer, &fd, error);

	if (err)
		return err;
	got = pread(fd, names, sizeof(names) - 1, 0);
	close(fd);
	if (!answer.names || answer.names > PATTERN_NAMES_MAX || got < 0)
		return refuse_pattern(spec, &answer, error);
	names[got] = '\0';
	return make_all(places, kind, spec->function, names, names + got, sink, error);
}

static int make(struct place_state *places, enum place_kind kind, const struct made_spec *spec,
		struct made_sink *sink, struct error *error)
{
	int err = check(places, kind, spec, error);

	if (err)
		return err;
	return strpbrk(spec->name, "*?[") ? make_pattern(places, kind, spec, sink, error) :
					    make_one(places, kind, spec->function, spec->name, sink, error);
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
