/*
 * program_segment: the memory that one program shares with the daemon (struct rt_program_segment).
 *
 * In: how many rings. Out: a sealed file in memory for the program, mapped here. Its size cannot change; all else
 * in it can, at any time: it is written here, and read by program_reader alone. Main thread.
 */
#ifndef RINGTAIL_DAEMON_PROGRAMS_SEGMENT_H
#define RINGTAIL_DAEMON_PROGRAMS_SEGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RT_PROBE_LAYOUT_ONLY
#include "proto/ringtail-probe.h"

struct program_segment {
	struct rt_program_segment *map;
	size_t bytes;
	uint32_t rings;
	uint32_t first_locked;		/* rings below are of the CPU of that number */
	uint64_t ring_bytes;
	uint32_t probes;
	int fd;				/* -1 once the program has it */
};

/* `rseq`: one ring for each CPU and one for threads without rseq; else all have locks. 0 or -errno. */
int program_segment_create(struct program_segment *segment, uint32_t cpus, uint64_t ring_bytes, bool rseq,
			   uint32_t probes);

/* Whether times are the processor's counter; without that, nanoseconds. */
void program_segment_count(struct program_segment *segment, bool counter);

void program_segment_close_fd(struct program_segment *segment);
void program_segment_destroy(struct program_segment *segment);

struct rt_program_ring *program_segment_ring(const struct program_segment *segment, uint32_t i);

/* The daemon is stopped: the program, which must know that word, looks for another one. */
void program_segment_leave(struct program_segment *segment);

void program_segment_enable(struct program_segment *segment, uint32_t probe, bool on);

#endif
