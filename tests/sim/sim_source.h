/*
 * sim_source: a loader whose kernel is made up: rings in memory, producers that write what the seed
 * says, where the request in force lets them, and the truth about every attempt.
 */
#ifndef RINGTAIL_TESTS_SIM_SOURCE_H
#define RINGTAIL_TESTS_SIM_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/source/loader.h"

#define SOURCE_RINGS_MAX 4u
#define ATTEMPT_WORDS_MAX 6u

struct attempt {
	enum attempt_kind {
		ATTEMPT_EVENT,
		ATTEMPT_META,		/* the ring's own record */
		ATTEMPT_BAD,		/* a record that nobody can understand */
		ATTEMPT_LOST,
	} kind;
	enum rt_lost reason;
	uint16_t probe;
	uint32_t tid;
	uint64_t time_ns;
	uint32_t words;
	uint64_t word[ATTEMPT_WORDS_MAX];
	unsigned life;			/* of the thread: its number, and what it is called, were another's before */
	bool has_string;		/* one comes with it, if it is asked for: */
	bool strung;			/* it was, and so it is in the ring */
};

/* What a thread's record names: the file that it executes, and its cgroup. */
enum source_text {
	SOURCE_EXE,
	SOURCE_CGROUP,
	SOURCE_TEXTS,
};

struct source_truth {
	uint32_t cpu;
	uint64_t n, room;
	struct attempt *attempt;	/* by number */
};

/* Something that happened and that the request in force did not let be recorded. */
struct unrecorded {
	uint32_t ring;
	uint64_t seq, time_ns;		/* it would have been about there */
	bool after_end;			/* the daemon was told to stop before: a Bye tells of it */
	struct attempt attempt;
};

struct source_config_sim {
	unsigned rings;
	uint64_t ring_bytes;
	uint64_t epoch;
};

/* A daemon's loader; there may have been others before. */
struct loader *source_start(const struct source_config_sim *config);

/* It will soon be told to record nothing: that events are not recorded is no surprise then. */
void source_stopping(struct loader *loader);

/* The kernel records no more for it. orderly: all that it had was read, and sent, and `stored`. */
void source_end(struct loader *loader, bool orderly, bool stored);
bool source_ended_orderly(const struct loader *loader);
bool source_ended_well(const struct loader *loader);	/* it was not killed, as far as a disk can know */
bool source_has_ended(const struct loader *loader);

/* The loader process dies, which its engine is told. Unless the rings are kept, nothing is recorded any more. */
void source_die(struct loader *loader);

/* The run is told to end, and to leave the rings to the next. */
void source_leave(struct loader *loader);
bool source_is_leaving(const struct loader *loader);

/*
 * The run has ended, or was killed, and the kernel goes on as it was last asked. `well`: all that was read was
 * passed on.
 */
void source_keep(struct loader *loader, bool killed, bool well);
bool source_left_well(const struct loader *loader);

/* Another run goes on with the rings, each from there; and where that was, 0 of rings that are its own. */
void source_begin_ring(struct loader *loader, unsigned ring, uint64_t seq);
uint64_t source_begin_of(const struct loader *loader, unsigned ring);

/* Of the newest run, that goes on or has ended; what happens then is recorded by nobody. */
struct loader *source_newest(void);

/* The one of that epoch, or NULL. */
struct loader *source_of_epoch(uint64_t epoch);

/* Orders to the made-up kernel. */
void source_refuse_next(struct loader *loader);		/* the next request */
void source_burst(struct loader *loader, unsigned events);
void source_nest(struct loader *loader, uint64_t ns);	/* a writer is interrupted for so long */
void source_lose(struct loader *loader, unsigned n);	/* writers that gave up */
void source_bad(struct loader *loader);
void source_exit(struct loader *loader);		/* a thread ends, and another gets its number */

uint64_t source_epoch(const struct loader *loader);
const struct source_truth *source_truth(const struct loader *loader, unsigned ring);
uint64_t source_strings_ns(const struct loader *loader);	/* it records them since then */
int source_ring_of(const struct loader *loader, uint32_t cpu);
const struct unrecorded *source_unrecorded(const struct loader *loader, uint64_t *n);

/* Who a thread is, everywhere. */
uint32_t source_pid_of(uint32_t tid);
uint32_t source_uid_of(uint32_t tid);
void source_comm_of(uint32_t tid, unsigned life, char comm[RT_COMM_BYTES]);
const char *source_text_of(uint32_t tid, enum source_text text);

/* The string that comes with an attempt. */
#define SOURCE_STRING_BYTES 32u
/* Its argument: of none of the probes a descriptor or a buffer, whose texts other flags ask for. */
#define SOURCE_STRING_ARG	2u
size_t source_string_of(const struct attempt *attempt, char string[SOURCE_STRING_BYTES]);

#endif
