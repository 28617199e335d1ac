/*
 * bpf_function_probe: a function of the kernel as a probe, as the kernel's types (BTF) describe it.
 *
 * In: the kernel's types, a function in them, and how it will be attached. Out: the probe with its fields, and where
 * the words of its records come from. Each argument that is passed in a register is one field, or two if it is a
 * structure of two words. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_FUNCTION_PROBE_H
#define RINGTAIL_DAEMON_SOURCE_BPF_FUNCTION_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/source/tracepoint_probe.h"
#include "proto/ringtail.pb-c.h"

struct btf;

enum function_how {
	FUNCTION_FENTRY,	/* a program of the type TRACING, which the kernel passes the arguments */
	FUNCTION_FEXIT,		/* the same, with what the function returns */
	FUNCTION_KPROBE,	/* a program that is passed registers */
	FUNCTION_KRETPROBE,
	FUNCTION_HOWS
};

/* "fentry", ... */
extern const char *const function_provider[FUNCTION_HOWS];

/* The last part of its probes' names: "call" or "return". */
extern const char *const function_moment[FUNCTION_HOWS];

/*
 * The probe, to be freed with free_unpacked(). `function` is the number of a BTF_KIND_FUNC in `btf`; 0: the types are
 * not known, and registers are all that can be shown. -EOPNOTSUPP with *why: it cannot be so attached; -ENOMEM.
 */
int function_probe_create(const struct btf *btf, uint32_t function, const char *name, enum function_how how,
			  Ringtail__V1__Probe **probe, struct tracepoint_plan *plan, const char **why);

#endif
