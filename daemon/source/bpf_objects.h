/*
 * source_bpf_objects: the kernel objects of the BPF producer as descriptors: maps, programs, links.
 * They come of loading, or of a store in which an earlier run has left them. Among the maps are the rings, which
 * are sized before the programs are loaded, filled in and frozen after.
 *
 * In: a loaded skeleton, or named descriptors; the geometry of the rings. Out: descriptors that are checked, and
 * the programs' variables, mapped. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_OBJECTS_H
#define RINGTAIL_DAEMON_SOURCE_BPF_OBJECTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "query/error.h"
#include "daemon/source/source.h"

/* What the names of the BPF producer's objects begin with in a store. */
#define SOURCE_BPF_NAMES "source.bpf."

struct ringtail_bpf;
struct ringtail_bpf__bss;
struct source_bpf_images;

/* Maps whose content this room does not look into: they are kept so that a program that the next run loads has the same. */
#define SOURCE_BPF_INNER_MAPS	9

/*
 * In the order of attaching; detaching goes the other way. The first four keep the memory of
 * threads true, so they see everything that the others may have to know.
 */
enum source_bpf_program {
	PROGRAM_EXIT,
	PROGRAM_RENAME,
	PROGRAM_EXEC,
	PROGRAM_MOVE,
	PROGRAM_FORK,
	PROGRAM_WAKEUP,
	PROGRAM_WAKEUP_NEW,
	PROGRAM_SWITCH,
	PROGRAM_SYS_ENTER,
	PROGRAM_SYS_EXIT,
	PROGRAM_TIMER,		/* from here on: attached and run in other ways */
	PROGRAM_MAPS_FIND,
	PROGRAM_MAPS_TELL,
	PROGRAM_STUCK,
	PROGRAM_REFUSED,
	PROGRAMS,
};

struct source_bpf_objects {
	int rings, consumers, bells, variables, maps_found, maps_wanted, storage;	/* maps; -1: none */
	int inner[SOURCE_BPF_INNER_MAPS];
	int *bell;			/* [cpus]: what hangs in `bells` */
	pthread_t hanger;		/* hangs them up, */
	bool is_hanging;		/* until somebody joins it */
	int hang_err;			/* what came of that */
	unsigned cpus;
	const struct source_bpf_images *images;	/* to load programs from; borrowed */
	uint32_t tracepoint[PROGRAMS];	/* the kernel's number, of those that go through perf; 0: of others */
	int program[PROGRAMS];		/* -1: nobody has wanted it yet */
	int link[PROGRAMS];		/* -1: not attached */
	int leaving[PROGRAMS];		/* detached as far as we care; until the barrier */
	int barrier;			/* read end; -1: nothing is leaving */
	struct ringtail_bpf__bss *shared;	/* `variables`, mapped */
};

void source_bpf_objects_init(struct source_bpf_objects *objects);

/* Takes copies of a loaded skeleton's maps; it may be destroyed then. */
int source_bpf_objects_copy(struct source_bpf_objects *objects,
			    const struct ringtail_bpf *skeleton, struct error *error);

/* Gives the maps that an earlier run has left to a skeleton that is to be loaded. 0 or -errno. */
int source_bpf_objects_reuse(const struct source_bpf_objects *objects, struct ringtail_bpf *skeleton);

/* The descriptor of one of those, by its name, which is borrowed. */
int source_bpf_objects_inner(const struct source_bpf_objects *objects, const char *name);

/*
 * The program's descriptor, which is borrowed; it is loaded, and handed over to the store, when it is wanted for the first
 * time. -errno with *error. `store` may be NULL.
 */
int source_bpf_objects_program(struct source_bpf_objects *objects, enum source_bpf_program program,
			       struct source_store *store, struct error *error);

/*
 * Takes what an earlier run has left; of the programs, those that it has loaded. 1: all of it is here, and fits the configuration and this
 * program. 0: nothing was left. -errno: something was, with *error saying why it cannot be gone on
 * with. What is not taken stays in `kept`.
 */
int source_bpf_objects_adopt(struct source_bpf_objects *objects, struct activation *kept,
			     const struct source_config *config, struct error *error);

/*
 * From now on records of probes that were made on request may be in the rings, whose numbers the next run does
 * not know: it will not go on with them, and say so.
 */
void source_bpf_objects_keep_made(const struct source_bpf_objects *objects, struct source_store *store);

/* Hands over the maps and bells; programs and links are handed over as they are loaded and attached. */
void source_bpf_objects_keep(const struct source_bpf_objects *objects, struct source_store *store);

/* Closes all; what is attached stays so if a store keeps it. */
void source_bpf_objects_fini(struct source_bpf_objects *objects);

/* ---- Links ------------------------------------------------------------------------------------ */

/*
 * Where a store has a copy of a link, the program stays attached until that is closed, too. So a link
 * that is not wanted any more leaves in two steps: the store is asked to drop it, and when it has
 * (`barrier`), ours is closed. Until then it can be taken back, so that no program is ever attached
 * twice. `store` may be NULL.
 */
int source_bpf_objects_attach(struct source_bpf_objects *objects, enum source_bpf_program program,
			      struct source_store *store, struct error *error);
void source_bpf_objects_detach(struct source_bpf_objects *objects, uint32_t programs,
			       struct source_store *store);

/* What the link of a timer on a CPU is called in a store; returns `name` (ACTIVATION_NAME_BYTES). */
const char *source_bpf_name_timer(char *name, unsigned slot, unsigned cpu);

/* The barrier has come. */
void source_bpf_objects_settle(struct source_bpf_objects *objects);

/*
 * Returns when every program run that started before the call has ended: the kernel waits for that
 * whenever user space changes a map of maps, so that programs see the change. This one changes
 * nothing: it puts a bell back where it is.
 */
int source_bpf_objects_wait_for_programs(const struct source_bpf_objects *objects);

/* ---- Rings ------------------------------------------------------------------------------------ */

/* Checks the geometry and gives it to the maps and to the programs' constants. Before load. */
int source_bpf_rings_size(struct ringtail_bpf *skeleton, const struct source_config *config,
			  struct error *error);

/*
 * Makes the bells, writes the producer pages, and makes the rings read-only to user space, while no program is
 * attached. The objects have copies of the maps, and stay where they are: a thread begins to hang up the bells.
 */
int source_bpf_rings_init(struct source_bpf_objects *objects, uint64_t ring_bytes,
			  struct error *error);

/* Loads the programs that every request takes. */
int source_bpf_objects_begin(struct source_bpf_objects *objects, struct error *error);

/* Waits until the bells hang: before that, no program may be attached. */
int source_bpf_bells_wait(struct source_bpf_objects *objects, struct error *error);

/* As source_ops.ring. */
int source_bpf_rings_get(const struct source_bpf_objects *objects, uint64_t ring_bytes, unsigned i,
			 struct ring_handle *ring);

#endif
