/*
 * made_fentry, made_fexit, made_kprobe, made_kretprobe: functions of the kernel: fentry:FUNCTION, fexit:FUNCTION,
 * kprobe:SYMBOL, kretprobe:SYMBOL. The kernel's types say what arguments they have. A program for each is made by
 * bpf_template, and attached to the function.
 */
#include "daemon/source/bpf_made.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/source/bpf_template.h"
#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_function_probe.h"
#include "daemon/source/bpf_kernel_types.h"
#include "daemon/source/bpf_places.h"
#include "daemon/source/tracepoints.h"
#include "query/glob.h"
#include "query/nearest.h"

#define TRIED_FUNCTION	"vfs_read"	/* whether programs of the type TRACING are allowed, is tried on it */
#define KERNEL_NOTSUPP	524		/* ENOTSUPP of the kernel, which no header of ours has */

struct function_state {
	const struct source_bpf_kit *kit;
	struct kernel_types types;
	int traceable;			/* ftrace's list of functions, -1: none */
	struct probe_unit unit;		/* of kprobes */
	bool is_tried;
	int tried_err;			/* what came of it: 0, or errno */
};

/* What attaching takes. */
struct function_own {
	enum function_how how;
	uint32_t btf_id;		/* 0: the kernel has no types of it */
	struct tracepoint_plan plan;
};

static int open_all(const struct source_bpf_kit *kit, void **out)
{
	struct function_state *state = calloc(1, sizeof(*state));
	int tracefs;

	if (!state)
		return -ENOMEM;
	state->kit = kit;
	kernel_types_open(&state->types);
	tracefs = tracepoints_open_tracefs();
	state->traceable = tracefs < 0 ? -1 : openat(tracefs, "available_filter_functions", O_RDONLY | O_CLOEXEC);
	if (tracefs >= 0)
		close(tracefs);
	probe_unit_read("kprobe", &state->unit);
	*out = state;
	return 0;
}

static void close_all(void *from)
{
	struct function_state *state = from;

	kernel_types_close(&state->types);
	if (state->traceable >= 0)
		close(state->traceable);
	free(state);
}

static bool is_tracing(enum function_how how)
{
	return how == FUNCTION_FENTRY || how == FUNCTION_FEXIT;
}

static bool is_return(enum function_how how)
{
	return how == FUNCTION_FEXIT || how == FUNCTION_KRETPROBE;
}

/* ---- Whether it can be had here --------------------------------------------------------------- */

/* A policy may forbid such programs, whatever rights we have: one is loaded, and dropped. */
static int try_tracing(struct function_state *state, const struct btf *btf)
{
	const struct bpf_insn nothing[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K},
		{.code = BPF_JMP | BPF_EXIT},
	};
	int id = btf__find_by_name_kind(btf, TRIED_FUNCTION, BTF_KIND_FUNC), program;
	LIBBPF_OPTS(bpf_prog_load_opts, options, .expected_attach_type = BPF_TRACE_FENTRY,
		    .attach_btf_id = id > 0 ? (uint32_t)id : 0);

	if (state->is_tried || id <= 0)
		return state->tried_err;
	program = bpf_prog_load(BPF_PROG_TYPE_TRACING, "any_function", "Dual BSD/GPL", nothing, 2, &options);
	state->tried_err = program < 0 ? errno : 0;
	state->is_tried = true;
	if (program >= 0)
		close(program);
	return state->tried_err;
}

static int refuse_tracing(enum function_how how, const char *why, struct error *error)
{
	error_set(error, EOPNOTSUPP, "fentry-not-here", "no %s probes can be had here: %s", function_provider[how],
		  why);
	error_hint(error, "ask for a tracepoint nearby (`tracectl list 'tracepoint:*'`) or for the system call; kprobe:"
			  " may work; `tracectl doctor` says what this kernel has");
	return -EOPNOTSUPP;
}

static int refuse_kprobes(enum function_how how, struct error *error)
{
	error_set(error, EOPNOTSUPP, "kprobe-not-here", "no %s probes can be had here: this kernel was built without"
		  " CONFIG_KPROBE_EVENTS", function_provider[how]);
	error_hint(error, "ask for a tracepoint nearby (`tracectl list 'tracepoint:*'`) or for the system call; fentry:"
			  " may work; `tracectl doctor` says what this kernel has");
	return -EOPNOTSUPP;
}

static int check(struct function_state *state, enum function_how how, const struct btf *btf, struct error *error)
{
	char why[128];
	int err;

	if (!is_tracing(how))
		return state->unit.type ? 0 : refuse_kprobes(how, error);
	if (!btf)
		return refuse_tracing(how, "the kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)", error);
	err = try_tracing(state, btf);
	if (!err)
		return 0;
	snprintf(why, sizeof(why), "the kernel refuses BPF programs of the type TRACING: %s%s", strerror(err),
		 err == EPERM ? "; a policy of this machine forbids them" : "");
	return refuse_tracing(how, why, error);
}

/* ---- Names ------------------------------------------------------------------------------------ */

struct named {
	char *name;
	uint32_t btf_id;
};

/* Those that a spec names. */
struct names {
	const char *glob;
	unsigned found, kept;			/* in all; here */
	struct named one[FUNCTIONS_AT_ONCE_MAX];
	struct nearest nearest;
};

static void offer_name(struct names *names, const char *name)
{
	if (!glob_match(names->glob, name, strlen(name))) {
		nearest_offer(&names->nearest, name);
		return;
	}
	names->found++;
	if (names->kept < FUNCTIONS_AT_ONCE_MAX)
		names->one[names->kept].name = strdup(name);
	if (names->kept < FUNCTIONS_AT_ONCE_MAX && names->one[names->kept].name)
		names->one[names->kept++].btf_id = 0;
}

/* "vfs_read", or of a module "ext4_sync_fs [ext4]". Only the kernel's own have types that we read. */
static void offer_line(struct names *names, char *line, enum function_how how)
{
	size_t bytes = strcspn(line, " \t\n");
	bool of_module = strchr(line + bytes, '[') != NULL;

	line[bytes] = '\0';
	if (*line && strlen(line) <= NAME_BYTES_MAX && !(of_module && is_tracing(how)))
		offer_name(names, line);
}

static void offer_typed(const struct btf *btf, struct names *names)
{
	for (uint32_t id = 1; btf && id < btf__type_cnt(btf); id++)
		if (btf_is_func(btf__type_by_id(btf, id)))
			offer_name(names, btf__name_by_offset(btf, btf__type_by_id(btf, id)->name_off));
}

/* Ftrace's list: what can be attached to, also what has no types. */
static int offer_traceable(int traceable, enum function_how how, struct names *names)
{
	static char buffer[1 << 16], line[4096];
	int copy = dup(traceable);
	FILE *file = copy < 0 ? NULL : fdopen(copy, "r");

	if (!file) {
		if (copy >= 0)
			close(copy);
		return -ENOMEM;
	}
	/* With a buffer of its own, it need not look what file this is. */
	setvbuf(file, buffer, _IOFBF, sizeof(buffer));
	lseek(copy, 0, SEEK_SET);
	while (fgets(line, sizeof(line), file))
		offer_line(names, line, how);
	fclose(file);
	return 0;
}

/* One function is looked up among those that have types first: the kernel takes long to write its list. */
static int find_names(const struct function_state *state, const struct btf *btf, enum function_how how,
		      struct names *names)
{
	if (btf && !strpbrk(names->glob, "*?[") && btf__find_by_name_kind(btf, names->glob, BTF_KIND_FUNC) > 0) {
		offer_name(names, names->glob);
		return 0;
	}
	if (state->traceable >= 0)
		return offer_traceable(state->traceable, how, names);
	offer_typed(btf, names);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct named *one = a, *other = b;

	return strcmp(one->name, other->name);
}

static void find_types(const struct btf *btf, struct names *names)
{
	qsort(names->one, names->kept, sizeof(names->one[0]), compare);
	for (uint32_t id = 1; btf && id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);
		struct named key = {0}, *named;

		if (!btf_is_func(type))
			continue;
		key.name = (char *)btf__name_by_offset(btf, type->name_off);
		named = bsearch(&key, names->one, names->kept, sizeof(key), compare);
		if (named && !named->btf_id)
			named->btf_id = id;
	}
}

static int refuse_unknown(const struct names *names, const struct made_spec *spec, struct error *error)
{
	char near[NEAREST_TEXT_BYTES];

	error_set(error, ENOENT, "unknown-probe", "no function of the kernel that can be probed matches `%.256s`",
		  spec->text);
	if (nearest_text(&names->nearest, near))
		error_hint(error, "did you mean %s?", near);
	else
		error_hint(error, "a function that the compiler put into its callers cannot be probed: `tracectl list"
				  " 'fentry:vfs_*'` shows some that can");
	return -ENOENT;
}

static int refuse_many(const struct names *names, const struct made_spec *spec, struct error *error)
{
	error_set(error, E2BIG, "too-many-probes", "`%.256s` means %u functions, and at most %d can be made by one"
		  " pattern", spec->text, names->found, FUNCTIONS_AT_ONCE_MAX);
	error_hint(error, "use a pattern that means fewer, as in fentry:vfs_*");
	return -E2BIG;
}

/* ---- Making ----------------------------------------------------------------------------------- */

/* 0 too if a pattern leaves it out, because it cannot be attached. */
static int make_one(const struct btf *btf, enum function_how how, const struct named *named, bool is_pattern,
		    struct made_sink *sink, struct error *error)
{
	struct function_own *own = calloc(1, sizeof(*own));
	const char *why = "the kernel does not describe its types";
	Ringtail__V1__Probe *probe;
	int err = own ? 0 : -ENOMEM;

	if (!err && is_tracing(how) && !named->btf_id)
		err = -EOPNOTSUPP;
	if (!err)
		err = function_probe_create(btf, named->btf_id, named->name, how, &probe, &own->plan, &why);
	if (!err) {
		own->how = how;
		own->btf_id = named->btf_id;
		return sink->add(sink, probe, own);
	}
	free(own);
	if (err == -ENOMEM)
		return error_set(error, ENOMEM, "out-of-memory", "no memory for %s:%s", function_provider[how],
				 named->name);
	if (is_pattern)
		return 0;
	error_set(error, -err, "probe-not-made", "%s:%s cannot be recorded: %s", function_provider[how], named->name,
		  why);
	error_hint(error, is_tracing(how) ? "kprobe: may work, which shows registers" : "probe one of its callers");
	return err;
}

static int make_all(const struct btf *btf, enum function_how how, const struct made_spec *spec,
		    const struct names *names, struct made_sink *sink, struct error *error)
{
	bool is_pattern = strpbrk(spec->function, "*?[");
	int err = 0;

	if (names->found > FUNCTIONS_AT_ONCE_MAX)
		return refuse_many(names, spec, error);
	if (!names->kept)
		return refuse_unknown(names, spec, error);
	for (unsigned i = 0; i < names->kept && !err; i++)
		if (!sink->has(sink, names->one[i].name, function_moment[how]))
			err = make_one(btf, how, &names->one[i], is_pattern, sink, error);
	return err;
}

static int make(struct function_state *state, enum function_how how, const struct made_spec *spec,
		struct made_sink *sink, struct error *error)
{
	struct btf *btf = kernel_types_read(&state->types);
	struct names *names = calloc(1, sizeof(*names));
	int err = check(state, how, btf, error);

	if (!err && !names)
		err = error_set(error, ENOMEM, "out-of-memory", "no memory for `%.256s`", spec->text);
	if (!err) {
		names->glob = spec->function;
		nearest_init(&names->nearest, spec->function);
		if (glob_match(spec->name, function_moment[how], strlen(function_moment[how])) &&
		    find_names(state, btf, how, names) != 0)
			err = error_set(error, ENOMEM, "out-of-memory", "no memory for `%.256s`", spec->text);
	}
	if (!err) {
		find_types(btf, names);
		err = make_all(btf, how, spec, names, sink, error);
	}
	for (unsigned i = 0; names && i < names->kept; i++)
		free(names->one[i].name);
	free(names);
	btf__free(btf);
	return err;
}

static int make_fentry(void *state, const struct made_spec *spec, struct made_sink *sink, struct error *error)
{
	return make(state, FUNCTION_FENTRY, spec, sink, error);
}

static int make_fexit(void *state, const struct made_spec *spec, struct made_sink *sink, struct error *error)
{
	return make(state, FUNCTION_FEXIT, spec, sink, error);
}

static int make_kprobe(void *state, const struct made_spec *spec, struct made_sink *sink, struct error *error)
{
	return make(state, FUNCTION_KPROBE, spec, sink, error);
}

static int make_kretprobe(void *state, const struct made_spec *spec, struct made_sink *sink, struct error *error)
{
	return make(state, FUNCTION_KRETPROBE, spec, sink, error);
}

/* ---- Attaching -------------------------------------------------------------------------------- */

static int fail(struct made_program *to, int err, const char *name, struct error *error)
{
	source_bpf_made_close(to);
	error_set(error, err, "probe-not-attached", "cannot attach to %s: %s", name,
		  err == KERNEL_NOTSUPP ? "this kernel cannot, on this processor" : strerror(err));
	error_hint(error, err == EMFILE ? "raise the daemon's limit of open files: LimitNOFILE= of its unit, or"
					  " ulimit -n" :
			  err == EADDRNOTAVAIL ? "the kernel has several functions of that name" :
			  err == EACCES ? "where kernel.perf_event_paranoid is above 2, Debian's kernels forbid it:"
					  " sysctl -w kernel.perf_event_paranoid=2" :
			  err == EPERM ? "a security module or lockdown may forbid it; see `tracectl doctor`" :
					 "the kernel lets nobody probe this function: probe one of its callers");
	return -err;
}

/* From 6.7 on the kernel counts what it refuses and what it misses of a kprobe. */
static void tell_uncounted(const char *name)
{
	if (source_bpf_check_kernel(6, 7))
		return;
	log_warn("refusals-uncounted", "this kernel does not say which events of %s it missed: those within another"
		 " probe, and returns when more threads are in the function than it follows. fentry: and fexit: miss"
		 " none of these", name);
}

/*
 * Programs on kprobes share one guard on each CPU with those on tracepoints. A second program, of the type TRACING,
 * has one of its own, and counts in their place those events at which the guard is taken.
 */
static int watch(const struct function_state *state, const struct function_own *own, uint32_t index,
		 const char *name, struct made_program *to, struct error *error)
{
	struct source_bpf_as as = {
		.type = BPF_PROG_TYPE_TRACING, .btf_id = own->btf_id,
		.attach_type = is_return(own->how) ? BPF_TRACE_FEXIT : BPF_TRACE_FENTRY,
	};

	tell_uncounted(name);
	if (!own->btf_id || state->tried_err)
		return 0;
	to->watch = source_bpf_template_load(state->kit->refused, name, index, &own->plan, &as, error);
	if (to->watch >= 0)
		to->watch_link = bpf_raw_tracepoint_open(NULL, to->watch);
	if (to->watch_link >= 0)
		return 0;
	/* Then there is none. */
	if (to->watch >= 0)
		close(to->watch);
	to->watch = to->watch_link = -1;
	*error = (struct error){0};
	return 0;
}

static int link_kprobe(const struct function_state *state, const struct function_own *own, const char *function,
		       int program)
{
	struct probe_place place = {.of = function, .is_return = is_return(own->how)};

	return probe_unit_link(probe_unit_open(&state->unit, &place), program);
}

static int attach(void *from, const struct source_bpf_kit *kit, const Ringtail__V1__Probe *message,
		  const void *from_own, struct made_program *to, struct error *error)
{
	const struct function_state *state = from;
	const struct function_own *own = from_own;
	uint32_t index = message->id - RT_PROBE_MADE;
	struct source_bpf_as as = {.type = BPF_PROG_TYPE_KPROBE};
	char name[2 * (NAME_BYTES_MAX + 1)];
	int err = 0;

	snprintf(name, sizeof(name), "%s:%s", message->provider, message->function);
	*to = MADE_NO_PROGRAM;
	if (is_tracing(own->how))
		as = (struct source_bpf_as){
			.type = BPF_PROG_TYPE_TRACING, .btf_id = own->btf_id,
			.attach_type = is_return(own->how) ? BPF_TRACE_FEXIT : BPF_TRACE_FENTRY,
		};
	else
		err = watch(state, own, index, name, to, error);
	if (!err)
		to->program = source_bpf_template_load(kit->uprobe, name, index, &own->plan, &as, error);
	if (err || to->program < 0) {
		err = err ? err : to->program;
		source_bpf_made_close(to);
		return err;
	}
	to->link = is_tracing(own->how) ? bpf_raw_tracepoint_open(NULL, to->program) :
					  link_kprobe(state, own, message->function, to->program);
	return to->link < 0 ? fail(to, -to->link, name, error) : 0;
}

const struct made_kind made_fentry = {
	.provider = "fentry", .open = open_all, .close = close_all, .make = make_fentry, .attach = attach,
};

const struct made_kind made_fexit = {
	.provider = "fexit", .open = open_all, .close = close_all, .make = make_fexit, .attach = attach,
};

const struct made_kind made_kprobe = {
	.provider = "kprobe", .open = open_all, .close = close_all, .make = make_kprobe, .attach = attach,
};

const struct made_kind made_kretprobe = {
	.provider = "kretprobe", .open = open_all, .close = close_all, .make = make_kretprobe, .attach = attach,
};
