/*
 * source_bpf_refused: what the kernel refused to run our programs for, as losses in the stream.
 *
 * The kernel runs no program inside itself, and counts what it refuses of each program, but not on which CPU nor when.
 * What is new since the last look is lost now, on the first ring. What a program of ours could see being refused
 * (any_refused of kmod/bpf) is in its place already, and not counted again. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_REFUSED_H
#define RINGTAIL_DAEMON_SOURCE_BPF_REFUSED_H

#include <stdint.h>

struct source_bpf_objects;
struct source_store;

/* `refused`: how many in all runs of the daemon. What cannot be told now is told next time. */
void source_bpf_refused_tell(struct source_bpf_objects *objects, struct source_store *store, uint64_t refused);

/* How many of them no ring has. */
uint64_t source_bpf_refused_untold(const struct source_bpf_objects *objects, uint64_t refused);

#endif
