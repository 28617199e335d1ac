/*
 * made_tracepoint: tracepoint:SYSTEM:NAME, any tracepoint of the running kernel. A program for each is made
 * from its format (bpf_template), and attached by its number. The loader's thread; one of its own reads the formats
 * and describes what is listed, while the loader loads programs.
 */
#include "daemon/source/bpf_made.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/log.h"
#include "daemon/source/bpf_check.h"
#include "daemon/source/bpf_kernel_types.h"
#include "daemon/source/bpf_preempted.h"
#include "daemon/source/bpf_template.h"
#include "daemon/source/bpf_tracepoint_args.h"
#include "daemon/source/probe_pack.h"
#include "daemon/source/tracepoint_probe.h"
#include "daemon/source/tracepoints.h"
#include "query/glob.h"
#include "query/kernel_names.h"
#include "proto/limits.h"
#include "query/nearest.h"

/* What attaching takes, and what is not in the catalog. */
struct tracepoint_own {
	uint32_t id;			/* the kernel's */
	struct tracepoint_plan plan;
	uint32_t raw_type;		/* in the kernel's types; 0: its fields are known of perf's record only */
	struct tracepoint_plan raw;
};

#define LEFT_OUT_BYTES	640		/* of names and reasons, in one message */

struct left_out {
	unsigned count, unnamed;
	size_t bytes;
	char text[LEFT_OUT_BYTES];
};

/* The reading thread's until it ends, the loader's then. */
struct all {
	struct tracepoints *tracepoints;
	struct bpf_enumerators *enumerators;
	Ringtail__V1__Probe **described;	/* until they are listed */
	unsigned count;			/* of them */
	struct left_out left_out;	/* of the list */
	bool told_unwatched;
	struct tracepoint_args *args;
};

static void forget_described(struct all *all)
{
	for (unsigned i = 0; i < all->count; i++)
		ringtail__v1__probe__free_unpacked(all->described[i], NULL);
	free(all->described);
	all->described = NULL;
	all->count = 0;
}

static void close_all(void *state)
{
	struct all *all = state;

	if (!all)
		return;
	forget_described(all);
	tracepoint_args_destroy(all->args);
	bpf_enumerators_destroy(all->enumerators);
	tracepoints_destroy(all->tracepoints);
	free(all);
}

/* The i-th one's format, which points into `text`. */
static int read_format(const struct tracepoints *tracepoints, unsigned i, char *text,
		       struct tracepoint_format *format)
{
	int bytes = tracepoints_format(tracepoints, i, text);

	return bytes < 0 ? bytes : tracepoint_format_parse(text, (size_t)bytes, format);
}

static const char *why_not(int err)
{
	return err == -E2BIG ? "it has too many fields" :
	       err == -EFBIG ? "its format in tracefs is too long" : "its format in tracefs is not understood";
}

/* ---- Reading ---------------------------------------------------------------------------------- */

static void leave_out(struct left_out *left_out, const struct tracepoints *tracepoints, unsigned i, int err)
{
	size_t room = sizeof(left_out->text) - left_out->bytes;
	int bytes = snprintf(left_out->text + left_out->bytes, room, "%s%s:%s (%s)", left_out->count ? ", " : "",
			     tracepoints_system(tracepoints, i), tracepoints_name(tracepoints, i), why_not(err));

	left_out->count++;
	if (!left_out->unnamed && bytes > 0 && (size_t)bytes < room) {
		left_out->bytes += (size_t)bytes;
		return;
	}
	left_out->text[left_out->bytes] = '\0';
	left_out->unnamed++;
}

/* The formats of single system calls have no names of numbers: they are not written by hand. */
static bool is_by_hand(const struct tracepoints *tracepoints, unsigned i)
{
	return strcmp(tracepoints_system(tracepoints, i), "syscalls") != 0;
}

/* Names that may have numbers. */
static int want_numbers(struct all *all, unsigned i, const char *text, size_t bytes)
{
	static const char mark[] = "print fmt: ";
	const char *print = NULL;

	if (is_by_hand(all->tracepoints, i))
		print = memmem(text, bytes, mark, sizeof(mark) - 1);
	return print ? bpf_enumerators_want(all->enumerators, print, (size_t)(text + bytes - print)) : 0;
}

/* Of a print format, leaves the tables: the rest is of no use before the probe is made. */
static int keep_tables(Ringtail__V1__Probe *probe)
{
	char *tables = kernel_names_tables(probe);

	if (!tables)
		return -ENOMEM;
	if (strlen(tables) > PRINT_BYTES_MAX)
		*tables = '\0';
	if (probe->print != protobuf_c_empty_string)
		free(probe->print);
	probe->print = tables;
	return 0;
}

static int describe(struct all *all, unsigned i, char *text, Ringtail__V1__Probe **probe)
{
	const struct tracepoints *tracepoints = all->tracepoints;
	int bytes = tracepoints_format(tracepoints, i, text);
	struct tracepoint_format format;
	int err = bytes < 0 ? bytes : want_numbers(all, i, text, (size_t)bytes);

	if (!err)
		err = tracepoint_format_parse(text, (size_t)bytes, &format);
	if (!err)
		err = tracepoint_probe_create(&format, tracepoints_system(tracepoints, i),
					      tracepoints_name(tracepoints, i), is_by_hand(tracepoints, i), probe,
					      NULL);
	if (err)
		return err;
	err = keep_tables(*probe);
	if (err)
		ringtail__v1__probe__free_unpacked(*probe, NULL);
	return err;
}

static int describe_all(struct all *all)
{
	unsigned count = tracepoints_count(all->tracepoints);
	char *text = malloc(TRACEPOINT_FORMAT_BYTES_MAX);
	int err;

	all->described = calloc(count + 1, sizeof(Ringtail__V1__Probe *));
	err = text && all->described ? 0 : -ENOMEM;
	for (unsigned i = 0; !err && i < count; i++) {
		err = describe(all, i, text, &all->described[all->count]);
		if (!err) {
			all->count++;
		} else if (err != -ENOMEM) {
			leave_out(&all->left_out, all->tracepoints, i, err);
			err = 0;
		}
	}
	free(text);
	return err;
}

struct tracepoints_reading {
	pthread_t thread;
	bool has_thread;
	int err;
	struct all *all;		/* NULL: taken, or there is no memory */
};

static void *read_all(void *context)
{
	struct tracepoints_reading *reading = context;
	struct all *all = reading->all = calloc(1, sizeof(*all));

	reading->err = all ? tracepoints_read(&all->tracepoints) : -ENOMEM;
	if (!reading->err) {
		all->enumerators = bpf_enumerators_create();
		reading->err = all->enumerators ? describe_all(all) : -ENOMEM;
	}
	return NULL;
}

struct tracepoints_reading *source_bpf_tracepoints_begin(void)
{
	struct tracepoints_reading *reading = calloc(1, sizeof(*reading));

	if (!reading)
		return NULL;
	reading->has_thread = pthread_create(&reading->thread, NULL, read_all, reading) == 0;
	if (!reading->has_thread)
		read_all(reading);
	return reading;
}

static void join(struct tracepoints_reading *reading)
{
	if (reading->has_thread)
		pthread_join(reading->thread, NULL);
	reading->has_thread = false;
}

void source_bpf_tracepoints_end(struct tracepoints_reading *reading)
{
	if (!reading)
		return;
	join(reading);
	close_all(reading->all);
	free(reading);
}

static int open_all(const struct source_bpf_kit *kit, void **state)
{
	struct tracepoints_reading *reading = kit->reading;

	join(reading);
	if (reading->err)
		return reading->err;
	reading->all->args = tracepoint_args_find(kit->kernel);
	if (!reading->all->args)
		return -ENOMEM;
	bpf_enumerators_learn_kernel(reading->all->enumerators, kit->kernel);
	*state = reading->all;
	reading->all = NULL;
	return 0;
}

/* ---- Listing ---------------------------------------------------------------------------------- */

static void tell_left_out(const struct left_out *left_out)
{
	char more[32] = "";

	if (!left_out->count)
		return;
	if (left_out->unnamed)
		snprintf(more, sizeof(more), ", and %u more", left_out->unnamed);
	log_warn("tracepoints-left-out", "this kernel has %u tracepoint%s that ringtail cannot record and `tracectl list`"
		 " does not show: %s%s", left_out->count, left_out->count == 1 ? "" : "s", left_out->text, more);
}

static void tell_beyond(unsigned beyond)
{
	if (beyond)
		log_warn("tracepoints-left-out", "this kernel has %u tracepoints more than the %d that ringtail keeps;"
			 " they cannot be recorded", beyond, TRACEPOINTS_MAX);
}

/* The print format with numbers, if there is one, and if it is no longer than it may be. */
static int put_numbers(const struct all *all, Ringtail__V1__Probe *probe)
{
	char *print = bpf_enumerators_put(all->enumerators, probe->print);

	if (!print)
		return -ENOMEM;
	if (!*print || strlen(print) > PRINT_BYTES_MAX) {
		free(print);
		return 0;
	}
	free(probe->print);
	probe->print = print;
	return 0;
}

/* With the numbers of the names that the kernel's types have. */
static int list_all(struct all *all, struct probe_pack *pack)
{
	int err = 0;

	for (unsigned i = 0; !err && i < all->count; i++) {
		err = put_numbers(all, all->described[i]);
		if (!err)
			err = probe_pack_add(pack, all->described[i]);
	}
	forget_described(all);
	return err;
}

static int list(void *state, struct probe_pack *pack)
{
	struct all *all = state;
	int err = list_all(all, pack);

	if (!err) {
		tell_left_out(&all->left_out);
		tell_beyond(tracepoints_beyond(all->tracepoints));
	}
	return err;
}

/* ---- Making ----------------------------------------------------------------------------------- */

/* *cannot: it is a tracepoint that cannot be recorded; nothing else is wrong. */
static int make_one(const struct all *all, unsigned i, char *text, struct made_sink *sink, bool *cannot,
		    struct error *error)
{
	const struct tracepoints *tracepoints = all->tracepoints;
	const char *system = tracepoints_system(tracepoints, i);
	const char *name = tracepoints_name(tracepoints, i);
	struct tracepoint_own *own = malloc(sizeof(*own));
	struct tracepoint_format format;
	Ringtail__V1__Probe *probe;
	int err = own ? read_format(tracepoints, i, text, &format) : -ENOMEM;

	if (!err)
		err = tracepoint_probe_create(&format, system, name, true, &probe, &own->plan);
	if (!err) {
		err = put_numbers(all, probe);
		if (err)
			ringtail__v1__probe__free_unpacked(probe, NULL);
	}
	if (!err) {
		own->id = format.id;
		own->raw_type = tracepoint_args_plan(all->args, system, name, &format, &own->plan, &own->raw);
		return sink->add(sink, probe, own);
	}
	free(own);
	*cannot = err != -ENOMEM;
	return err == -ENOMEM ?
		error_set(error, ENOMEM, "out-of-memory", "no memory for tracepoint:%s:%s", system, name) :
		error_set(error, EINVAL, "probe-not-made", "tracepoint:%s:%s cannot be recorded: %s",
			  system, name, why_not(err));
}

static int refuse(const struct tracepoints *tracepoints, const struct made_spec *spec,
		  struct error *error)
{
	char name[2 * (NAME_BYTES_MAX + 1)], near[NEAREST_TEXT_BYTES];
	struct nearest nearest;

	error_set(error, ENOENT, "unknown-probe", "no probe matches `%.256s`", spec->text);
	if (!tracepoints_count(tracepoints)) {
		error_hint(error, "ringtaild could not read tracefs at its start: start it as root, or by"
				  " its unit; `tracectl doctor` says more");
		return -ENOENT;
	}
	nearest_init(&nearest, spec->text);
	for (unsigned i = 0; i < tracepoints_count(tracepoints); i++) {
		snprintf(name, sizeof(name), "tracepoint:%s:%s", tracepoints_system(tracepoints, i),
			 tracepoints_name(tracepoints, i));
		nearest_offer(&nearest, name);
		nearest_offer_as(&nearest, tracepoints_name(tracepoints, i), name);
	}
	if (nearest_text(&nearest, near))
		error_hint(error, "did you mean %s?", near);
	else
		error_hint(error, "`tracectl list 'tracepoint:*'` shows them; those of a module that was"
				  " loaded later are there after a restart of ringtaild");
	return -ENOENT;
}

static bool matches(const char *glob, const char *text)
{
	return glob_match(glob, text, strlen(text));
}

/* A pattern means what is listed: one of many that cannot be recorded, which the log has named, refuses none of them. */
static int make(void *state, const struct made_spec *spec, struct made_sink *sink,
		struct error *error)
{
	const struct all *all = state;
	const struct tracepoints *tracepoints = all->tracepoints;
	char *text = malloc(TRACEPOINT_FORMAT_BYTES_MAX);
	bool found = false, made = false;
	int err = text ? 0 : -ENOMEM;

	for (unsigned i = 0; i < tracepoints_count(tracepoints) && !err; i++) {
		const char *system = tracepoints_system(tracepoints, i);
		const char *name = tracepoints_name(tracepoints, i);
		bool cannot = false;

		if (!matches(spec->function, system) || !matches(spec->name, name))
			continue;
		found = true;
		if (!sink->has(sink, system, name))
			err = make_one(all, i, text, sink, &cannot, error);
		if (cannot)
			err = 0;
		else
			made = true;
	}
	if (!text)
		error_set(error, ENOMEM, "out-of-memory", "no memory for `%.256s`", spec->text);
	free(text);
	if (err || made)
		return err;
	return found ? -EINVAL : refuse(tracepoints, spec, error);
}

/* ---- Attaching -------------------------------------------------------------------------------- */

static int fail(struct made_program *to, int err, const char *name, struct error *error)
{
	source_bpf_made_close(to);
	error_set(error, err, "probe-not-attached", "cannot attach to %s: %s", name, strerror(err));
	error_hint(error, err == ENOENT || err == EINVAL ?
			  "it is gone, perhaps with the module that had it: restart ringtaild to see what"
			  " there is now" :
			  err == EMFILE ? "raise the daemon's limit of open files: LimitNOFILE= of its"
					  " unit, or ulimit -n" :
			  err == EACCES ?
			  "where kernel.perf_event_paranoid is above 2, Debian's kernels forbid it: sysctl -w"
			  " kernel.perf_event_paranoid=2" :
			  "a security module or lockdown may forbid it; see `tracectl doctor`");
	return -err;
}

/* From 6.7 on the kernel counts what its guard refuses, and perf, which drops events before it, does not. */
static void leave_unwatched(struct all *all, struct made_program *to, const char *name)
{
	if (to->watch >= 0)
		close(to->watch);
	to->watch = to->watch_link = -1;
	if (source_bpf_check_kernel(6, 7)) {
		if (!all->told_unwatched)
			log_info("nested-uncounted", "this kernel hides which CPU runs a BPF program. Of %s, and of most"
				 " other tracepoints, nobody counts the events that a program of ringtaild causes itself,"
				 " as ipi:ipi_send_cpu when it wakes the daemon; these may be missing", name);
		all->told_unwatched = true;
		return;
	}
	log_warn("refusals-uncounted", "this kernel neither counts nor shows the events of %s at which"
		 " another BPF program runs already on the CPU: those are missing without a word", name);
}

/*
 * Attached before the other, so that it misses nothing that the other is refused. The tracepoints of single
 * system calls are not the kernel's own, and fire in no interrupt: they have none.
 */
static int watch(struct all *all, const struct source_bpf_kit *kit, const Ringtail__V1__Probe *message,
		 const struct tracepoint_own *own, const char *name, struct made_program *to,
		 struct error *error)
{
	if (strcmp(message->function, "syscalls") == 0)
		return 0;
	to->watch = source_bpf_template_load(kit->refused, name, message->id - RT_PROBE_MADE,
					     &own->plan, NULL, error);
	if (to->watch < 0 && to->watch != -ENOENT)
		return to->watch;
	if (to->watch >= 0)
		to->watch_link = bpf_raw_tracepoint_open(message->name, to->watch);
	if (to->watch_link >= 0)
		return 0;
	if (to->watch >= 0 && to->watch_link != -ENOENT)
		return error_set(error, -to->watch_link, "probe-not-attached",
				 "cannot attach to %s: %s", name, strerror(-to->watch_link));
	leave_unwatched(all, to, name);
	return 0;
}

/*
 * False: it cannot be had here, as where the verifier does not know what is passed. Since Linux 7.0 a thread may be
 * preempted in the middle of it (bpf_preempted.h), and perf's record is worth its price.
 */
static bool attach_raw(const struct source_bpf_kit *kit, const Ringtail__V1__Probe *message,
		       const struct tracepoint_own *own, const char *name, struct made_program *to)
{
	const struct source_bpf_as as = {
		.type = BPF_PROG_TYPE_TRACING, .attach_type = BPF_TRACE_RAW_TP, .btf_id = own->raw_type,
	};
	struct error error;

	if (!own->raw_type || source_bpf_check_kernel(7, 0))
		return false;
	to->program = source_bpf_template_load(kit->raw, name, message->id - RT_PROBE_MADE, &own->raw, &as, &error);
	if (to->program >= 0)
		to->link = bpf_raw_tracepoint_open(NULL, to->program);
	if (to->link >= 0)
		return true;
	source_bpf_made_close(to);
	return false;
}

static int attach(void *state, const struct source_bpf_kit *kit, const Ringtail__V1__Probe *message,
		  const void *from, struct made_program *to, struct error *error)
{
	const struct tracepoint_own *own = from;
	char name[2 * (NAME_BYTES_MAX + 1)];
	int err;

	snprintf(name, sizeof(name), "tracepoint:%s:%s", message->function, message->name);
	*to = MADE_NO_PROGRAM;
	if (attach_raw(kit, message, own, name, to))
		return 0;
	to->program = source_bpf_template_load(kit->bpf_template, name,
					       message->id - RT_PROBE_MADE, &own->plan, NULL, error);
	err = to->program < 0 ? to->program : watch(state, kit, message, own, name, to, error);
	if (err) {
		source_bpf_made_close(to);
		return err;
	}
	to->link = source_bpf_perf_attach(own->id, to->program);
	if (to->link < 0)
		return fail(to, errno, name, error);
	return 0;
}

const struct made_kind made_tracepoint = {
	.provider = "tracepoint",
	.open = open_all,
	.close = close_all,
	.list = list,
	.make = make,
	.attach = attach,
};
