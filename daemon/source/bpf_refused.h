/*
 * source_bpf_refused: what the kernel refused to run our programs for, as losses in the stream.
 *
 * The kernel runs no program inside itself, and counts what it refuses of each program, but not on which CPU nor when.
 * What is new since the last look is lost now, on the ring of the CPU that the loader runs on, as events of the
 * program's probes: whoever asked for others has lost nothing. What a program of ours could see being refused
 * (any_refused of kmod/bpf) is in its place already, and not counted again. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_REFUSED_H
#define RINGTAIL_DAEMON_SOURCE_BPF_REFUSED_H

#include <stdint.h>

struct source_bpf_objects;
struct source_store;

/* What was refused of one program, or of all that a made probe has. */
struct source_bpf_refused {
	unsigned slot;			/* REFUSED_MADE and request.h */
	uint16_t first, last;		/* probes: they were events of these */
	uint64_t count;			/* in all runs of the daemon */
};

/*
 * Writes into a ring what is new, in at most *turns runs of the program that does, and takes those off. Returns how
 * many no ring has yet: they wait for the next look.
 */
uint64_t source_bpf_refused_tell(struct source_bpf_objects *objects, struct source_store *store,
				 const struct source_bpf_refused *refused, unsigned *turns);

#endif
