/*
 * bpf_tracepoint_args: of some tracepoints, where the fields of their records are in what the kernel passes to them.
 *
 * In: the rows of tracepoint_args.def, and the running kernel's types. Out: for one of these tracepoints, the plan of a
 * program that writes the same words and texts as the one that reads perf's record, and attaches to the tracepoint
 * itself. Pure; the loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_TRACEPOINT_ARGS_H
#define RINGTAIL_DAEMON_SOURCE_BPF_TRACEPOINT_ARGS_H

#include <stdint.h>

#include "daemon/source/tracepoint_probe.h"

struct btf;
struct tracepoint_args;

/* `kernel` may be freed then, and may be NULL: then there is none. NULL: out of memory. */
struct tracepoint_args *tracepoint_args_find(const struct btf *kernel);

/* NULL is safe. */
void tracepoint_args_destroy(struct tracepoint_args *args);

/*
 * The plan of the tracepoint, of whose record `record` is the plan, and the number by which the kernel's types know it.
 * 0: it has no row, or one that is not of this kernel; then *plan holds nothing.
 */
uint32_t tracepoint_args_plan(const struct tracepoint_args *args, const char *system, const char *name,
			      const struct tracepoint_format *format, const struct tracepoint_plan *record,
			      struct tracepoint_plan *plan);

#endif
