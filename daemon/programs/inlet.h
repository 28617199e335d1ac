/*
 * program_inlet: events of programs on their way into a ring that the daemon trusts.
 *
 * In: segments of programs, from the main thread. Out: records of kmod/uapi/ringtail.h in one more ring, which is
 * drained as those of the kernel are: in order of time over all programs, each thread introduced, losses in their
 * place. The drain worker that owns that ring pulls, at the beginning of each pass.
 *
 * Who wrote a record is what the kernel said when the program connected (SO_PEERCRED). The thread, the CPU and the
 * fields are what the program says.
 */
#ifndef RINGTAIL_DAEMON_PROGRAMS_INLET_H
#define RINGTAIL_DAEMON_PROGRAMS_INLET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "daemon/programs/segment.h"
#include "daemon/programs/table.h"
#include "query/error.h"

struct ring_writer;
struct program_inlet;
struct inlet_program;

struct inlet_config {
	uint32_t pid, uid;
	bool same_pids;			/* the program knows itself by that pid: then its tids are the host's, too */
	char comm[RT_PROGRAM_COMM_BYTES];
	struct program_segment segment;	/* the inlet's from then on */
	_Atomic bool *gone;		/* set to true when everything is freed; may be NULL */
	uint32_t probes;
	struct inlet_probe {
		uint16_t id;
		uint8_t words;		/* of a record, before its texts and arrays */
		uint8_t scope;		/* the word that says that of a span; 0: it is none */
		uint8_t unit[RT_PROGRAM_BEGIN_WORDS + RT_PROGRAM_ARGS_MAX];	/* of what is attached to that word: 1 of a
										 * text, an element's bytes. 0: nothing is */
	} probe[];
};

/* The writer is borrowed, and nobody else writes. NULL: no memory. */
struct program_inlet *program_inlet_create(struct ring_writer *writer);

/* After the workers ended. NULL is safe. */
void program_inlet_destroy(struct program_inlet *inlet);

/* Takes the config over. Main thread. NULL: no memory, and the config is still the caller's. */
struct inlet_program *program_inlet_add(struct program_inlet *inlet, struct inlet_config *config);

/*
 * Whether some of its probes are asked for. Before they are enabled: from then on its rings are looked at, which takes a
 * page of memory for each. After they are disabled: until they are at rest. Main thread.
 */
void program_inlet_use(struct inlet_program *program, bool wanted);

/*
 * Its connection is closed, and its probes are disabled: what is in its rings is read yet, then it is freed, whatever
 * is written meanwhile. Main thread; `program` has been freed, and the segment is not used any more.
 */
void program_inlet_end(struct program_inlet *inlet, struct inlet_program *program);

/* Whether any of their probes is asked for: where none is, nobody looks for records. Main thread. */
void program_inlet_want(struct program_inlet *inlet, bool wanted);

struct inlet_pulled {
	uint64_t oldest_ns;		/* nothing that is older was left; UINT64_MAX: nothing was */
	uint64_t again_ns;		/* look again after so long; UINT64_MAX: no need */
};

/* Passes what has a time up to until_ns. The worker's thread. */
void program_inlet_pull(struct program_inlet *inlet, uint64_t until_ns, struct inlet_pulled *pulled);

#endif
