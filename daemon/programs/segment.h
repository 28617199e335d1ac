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
	uint32_t turn;			/* of the tests, as it was written last */
	bool narrowed;			/* some are in force */
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

/*
 * All probes at once, as rt_program_segment.enabled has them, and the tests that these name. A program that is amid a test
 * writes its event, whatever the test would say.
 */
void program_segment_narrow(struct program_segment *segment, const uint32_t *enabled, const struct rt_program_test *test,
			    uint32_t tests);

#endif
