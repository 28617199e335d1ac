/*
 * source_bpf_template: the programs of kmod/bpf/tracepoint.bpf.h and uprobe.bpf.h, of which a copy is loaded for
 * each tracepoint, place in a program, or function of the kernel that is asked for.
 *
 * In: the images of the programs; then what is special about one of them. Out: programs in the kernel. The
 * copy is made of instructions, without an object file: to generate, verify and compile one takes some two
 * milliseconds, where opening and relocating an object for it took forty. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_TEMPLATE_H
#define RINGTAIL_DAEMON_SOURCE_BPF_TEMPLATE_H

#include <linux/bpf.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/source/tracepoint_probe.h"
#include "query/error.h"

struct btf;
struct source_bpf_images;
struct source_bpf_template;

enum source_bpf_template_of {
	TEMPLATE_TRACEPOINT,	/* any_tracepoint: writes the records */
	TEMPLATE_RAW,		/* any_raw_tracepoint: writes them of what the tracepoint is passed; is told its `as` */
	TEMPLATE_REFUSED,	/* any_refused: counts those that the kernel keeps from it */
	TEMPLATE_UPROBE,	/* any_uprobe: writes the records of places in programs, and of functions */
};

/* What else a copy is loaded as. */
struct source_bpf_as {
	enum bpf_prog_type type;
	enum bpf_attach_type attach_type;
	uint32_t btf_id;		/* of the function that it is for; 0: none */
	bool counts_nested;		/* of TEMPLATE_REFUSED: returns that the kernel does not follow, instead */
};

/* Borrows the images; `kernel` has the kernel's types, and may be freed then. */
int source_bpf_template_create(const struct source_bpf_images *images, const struct btf *kernel,
			       enum source_bpf_template_of of, struct source_bpf_template **made,
			       struct error *error);

/* NULL is safe. */
void source_bpf_template_destroy(struct source_bpf_template *bpf_template);

/*
 * Loads the program of the probe RT_PROBE_MADE + index; its descriptor, or -errno with *error. `plan` is not
 * for TEMPLATE_REFUSED; -ENOENT of TEMPLATE_REFUSED: this kernel has no name for what that looks at. `as` is NULL
 * for what the template is.
 */
int source_bpf_template_load(struct source_bpf_template *bpf_template, const char *name,
			     uint32_t index, const struct tracepoint_plan *plan,
			     const struct source_bpf_as *as, struct error *error);

#endif
