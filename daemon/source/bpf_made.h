/*
 * source_bpf_made: probes that are made when somebody asks for them by name.
 *
 * In: a spec, as `tracepoint:block:*`. Out: probes with numbers from RT_PROBE_MADE on, which are attached as
 * long as a request wants them. A probe keeps its number as long as the rings last, over runs of the daemon.
 * What can be made is a matter of its kind: a row in bpf_made.c and a file for each. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_MADE_H
#define RINGTAIL_DAEMON_SOURCE_BPF_MADE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/source/source.h"
#include "kmod/bpf/request.h"

struct finder;
struct source_bpf_images;
struct tracepoints_reading;
struct btf;
struct source_bpf_made;
struct source_bpf_timer;
struct source_bpf_template;

/* What the kinds share. */
struct source_bpf_kit {
	const Ringtail__V1__Catalog *fixed;	/* probes that are always there: they are not made again */
	struct source_bpf_template *bpf_template;
	struct source_bpf_template *raw;	/* the same, where the kernel's types say how */
	struct source_bpf_template *refused;	/* counts what the kernel refuses to run the former for */
	struct source_bpf_template *uprobe;
	struct finder *finder;		/* NULL: none */

	/* At the opening only. */
	const struct btf *kernel;
	struct tracepoints_reading *reading;	/* the tracepoints are on their way */
};

/* ---- A kind of probes ------------------------------------------------------------------------- */

/* A spec in its parts; a part that was left out is "*". */
struct made_spec {
	const char *text;		/* whole */
	const char *function, *name;	/* globs; of a kind that takes no globs, as they were written */
};

/* The program of a probe, and what keeps it attached. -1: none. */
struct made_program {
	int program, link;
	int watch, watch_link;		/* a second one, if the kind has such */
	unsigned more_count;		/* of a probe that lies in several places */
	struct made_more {
		int program, link;	/* -1: it has that of another place */
	} *more;
};

#define MADE_NO_PROGRAM ((struct made_program){-1, -1, -1, -1, 0, NULL})

/* Detaches, and frees what there is. */
void source_bpf_made_close(struct made_program *program);

/* Calls back for each probe that a spec names; takes the message and `own` over, also if it fails. */
struct made_sink {
	int (*add)(struct made_sink *sink, Ringtail__V1__Probe *message, void *own);
	bool (*has)(struct made_sink *sink, const char *function, const char *name);

	/* One that was made: its `own`, and what it is attached with, which may grow; NULL: there is none. */
	const Ringtail__V1__Probe *(*find)(struct made_sink *sink, const char *function, const char *name,
					   void **own, struct made_program **attached);
};

struct made_kind {
	const char *provider;		/* the first part of its probes, never a glob */

	/* At the opening, while files can be opened. *state is the kind's own; NULL: it needs none. */
	int (*open)(const struct source_bpf_kit *kit, void **state);
	void (*close)(void *state);

	/* Packs every probe that there is, without a number. Once. NULL: nobody can list them. */
	int (*list)(void *state, struct probe_pack *pack);

	/*
	 * sink->add() for each probe that the spec names and sink->has() has not. -ENOENT with *error: there
	 * is none; or whatever else is the reason why not.
	 */
	int (*make)(void *state, const struct made_spec *spec, struct made_sink *sink,
		    struct error *error);

	/*
	 * Loads and attaches; it records nothing before a request wants it. On failure *to holds nothing.
	 * NULL: its probes are clocks, `own` is a source_bpf_timer, and source_bpf_timers attaches them.
	 */
	int (*attach)(void *state, const struct source_bpf_kit *kit,
		      const Ringtail__V1__Probe *message, const void *own, struct made_program *to,
		      struct error *error);

	void (*free)(void *own);	/* NULL: free(3) */
};

extern const struct made_kind made_tracepoint, made_uprobe, made_uretprobe, made_usdt;
extern const struct made_kind made_fentry, made_fexit, made_kprobe, made_kretprobe;
extern const struct made_kind made_profile, made_interval, made_software, made_hardware;

/*
 * Begins to read and to describe the tracepoints, on a thread of its own: it takes longer than anything else that needs
 * no types of the kernel. The kind's open() waits for it. NULL: no memory.
 */
struct tracepoints_reading *source_bpf_tracepoints_begin(void);

/* Waits for the thread's end; frees what nobody took. NULL is safe. */
void source_bpf_tracepoints_end(struct tracepoints_reading *reading);

/* ---- All of them ------------------------------------------------------------------------------ */

/* What making them takes. All but `kernel` and `reading` are borrowed for as long as they last. */
struct source_bpf_making {
	const struct source_bpf_images *images;
	const struct btf *kernel;	/* the kernel's types */
	const unsigned long long *seen;	/* made_refused of the programs' variables */
	const Ringtail__V1__Catalog *fixed;
	struct finder *finder;
	struct tracepoints_reading *reading;
};

int source_bpf_made_create(const struct source_bpf_making *making, struct source_bpf_made **made,
			   struct error *error);

/* NULL is safe. */
void source_bpf_made_destroy(struct source_bpf_made *made);

/* As source_ops. */
int source_bpf_made_list(struct source_bpf_made *made, struct probe_pack *pack);
int source_bpf_made_make(struct source_bpf_made *made, const char *spec, source_offer *offer,
			 void *context, struct error *error);
const char *source_bpf_made_providers(void);

/* Whether the request wants any of such probes. */
bool source_bpf_made_wanted(const struct source_request *request);

/*
 * What the request wants of them: attaches what is not attached yet; it records nothing before the wishes are
 * published. On failure nothing is attached that was not.
 */
int source_bpf_made_attach(struct source_bpf_made *made, const struct source_request *request,
			   struct error *error);

/* Fills in the wishes, once all is attached. */
void source_bpf_made_wish(struct source_bpf_made *made, const struct source_request *request,
			  uint8_t wishes[RT_PROBES_MADE_MAX]);

/*
 * What no request wants stays attached at first, and costs little: to detach a tracepoint takes the kernel
 * some 50 ms. Detaches one of them; false: there is none.
 */
bool source_bpf_made_detach_one(struct source_bpf_made *made);

/* How many there are. */
unsigned source_bpf_made_count(const struct source_bpf_made *made);

/* The clocks among those that the request wants; timer[] has room for `most`. How many they are in all. */
unsigned source_bpf_made_timers(const struct source_bpf_made *made, const struct source_request *request,
				struct source_bpf_timer *timer, unsigned most);

/* Whether the request in force wants one, which is RT_PROBE_MADE + i. */
bool source_bpf_made_is_wanted(const struct source_bpf_made *made, unsigned i);

/* Adds what the kernel counts of the programs of one, which is RT_PROBE_MADE + i, and of those that it had. */
int source_bpf_made_stats(const struct source_bpf_made *made, unsigned i, struct source_stats *stats);

#endif
