/*
 * meter: counts events on the drain workers, whether or not a client subscribes to them: calls, errors and
 * durations by system call, how long threads wait, and processes that start and end.
 *
 *	drain ─ event ─► meter (one for each worker) ─ once a pass ─► meter_sched, top processes
 *	                   │                                              │
 *	                   └────────── relaxed loads ──► main thread ◄────┘
 *
 * A meter belongs to its worker's thread, which alone adds to its counters, without a lock and
 * without an atomic addition: flat arrays by system call number, a bucket by counting leading zeros.
 * The main thread reads them at any time. The figures of a whole second (the busiest processes) are
 * passed to it under a lock, once a second.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_METER_H
#define RINGTAIL_DAEMON_COLLECT_METER_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/limits.h"
#include "daemon/collect/meter_sched.h"
#include "daemon/ring/reader.h"
#include "daemon/ring/thread_table.h"
#include "kmod/uapi/ringtail.h"
#include "query/probe_set.h"

/* 1 to 133 as they are, the kernel's own for calls to be started again, and any other. */
#define METER_ERRNO_LAST	133u	/* EHWPOISON */
#define METER_ERRNO_RESTART	(METER_ERRNO_LAST + 1)	/* ERESTARTSYS, 512, and those after it */
#define METER_ERRNO_OTHER	(METER_ERRNO_RESTART + 5)
#define METER_ERRNOS		(METER_ERRNO_OTHER + 1)

/* One system call. Written by one thread. */
struct meter_call {
	struct meter_histogram duration;
	_Atomic uint64_t never;		/* calls that do not return, and have no duration */
	_Atomic uint64_t error[METER_ERRNOS];
};

/* A call that was slow; `version` is odd while it is written. */
struct meter_slow {
	_Atomic uint64_t version;
	_Atomic uint64_t cpu, seq, duration_ns, time_ns;
};

enum meter_count {
	METER_SWITCHES,
	METER_WAKEUPS,
	METER_FORKS,
	METER_EXECS,
	METER_EXITS,
	METER_COUNTS,
};

/* A name of programs, with metrics-comm. Written by one thread; `comm` before `taken`. */
struct meter_comm {
	_Atomic uint64_t comm[2];	/* RT_COMM_BYTES, as two words */
	_Atomic uint64_t calls, cpu_ns;
};

/* A process, as the table of the busiest has it. */
struct top_entry {
	uint32_t pid;
	char comm[RT_COMM_BYTES];	/* of the thread that was seen last; not terminated if full */
	uint64_t calls, errors, cpu_ns;
	uint64_t weight;		/* by which the least busy is found */
};

#define TOP_SLOTS (4u * METER_PROCESSES_MAX)

/* The busiest processes, in a table of fixed size. All zeros is an empty table. */
struct meter_top {
	uint32_t entries;
	struct top_entry entry[METER_PROCESSES_MAX];
	uint16_t slot[TOP_SLOTS];	/* entry + 1, by hash of pid; 0: empty */
};

/* Adds to entry.pid's; `weight` is not looked at. */
void meter_top_add(struct meter_top *top, const struct top_entry *entry);

/* One ring, as its meter sees it: who runs there, and since when. Belongs to the drain. */
struct meter_ring {
	uint32_t cpu;
	uint32_t tid;			/* whose `run` it is; 0: nobody's */
	struct top_entry run;		/* since the thread came on, or the last pass */
	uint32_t running_tid;		/* as the last switch said */
	uint64_t running_ns;		/* since then; 0: not known */
	uint64_t last_ns;		/* of the newest event */
};

struct meter;
struct meters;

struct meters_config {
	unsigned workers;
	const Ringtail__V1__Catalog *catalog;
	const struct probe_set *probes;	/* what is metered, of all that is recorded */
	uint64_t slow_ns;		/* calls that take as long are kept for exemplars */
	bool comm;			/* counters by name of program */
};

/* All meters; main thread. NULL: out of memory. */
struct meters *meters_create(const struct meters_config *config);

/* Call it after the workers ended. NULL is safe. */
void meters_destroy(struct meters *meters);

/* From the next event on, or nearly: workers see it when they see it. */
void meters_set_probes(struct meters *meters, const struct probe_set *probes);
void meters_set_slow(struct meters *meters, uint64_t slow_ns);

/* That worker's. */
struct meter *meters_get(struct meters *meters, unsigned worker);

/* ---- The worker's side ----------------------------------------------------------------------- */

/* An event of a known probe, of the thread with that index (or THREAD_NONE). */
void meter_event(struct meter *meter, struct meter_ring *ring, const struct ring_item *item,
		 const struct thread_table *threads, uint32_t thread);

/* The ring lost records after its newest event. */
void meter_loss(struct meter *meter, struct meter_ring *ring);

/* At the end of a pass: for each ring, and then once. No event before watermark_ns will come. */
void meter_end_run(struct meter *meter, struct meter_ring *ring, struct thread_table *threads,
		   uint64_t now_ns);
void meter_end_pass(struct meter *meter, uint64_t watermark_ns, uint64_t now_ns);

/* ---- The main thread's side ------------------------------------------------------------------ */

/* The sum over all workers. */
struct meter_sum {
	uint64_t cell[METER_CELLS];
	uint64_t bucket[METER_BUCKETS];	/* the same, coarser */
	uint64_t sum_ns, count;		/* count: the sum of the buckets */
};

struct meter_call_sum {
	struct meter_sum duration;
	uint64_t never, errors;
	uint64_t error[METER_ERRNOS];
};

/* False: that call was never seen, and *sum is not set. */
bool meters_read_call(const struct meters *meters, uint32_t number, struct meter_call_sum *sum);
uint64_t meters_read_count(const struct meters *meters, enum meter_count count);
/* Of all system calls together. */
void meters_read_durations(const struct meters *meters, struct meter_sum *sum);
void meters_read_latency(const struct meters *meters, struct meter_sum *sum);
void meters_read_off_cpu(const struct meters *meters, enum off_reason reason,
			 struct meter_sum *sum);

/* The newest slow call of a bucket that any worker saw; false: none. */
struct meter_slow_call {
	uint32_t cpu;
	uint64_t seq, duration_ns, time_ns;
};
bool meters_read_slow(const struct meters *meters, uint32_t number, unsigned bucket,
		      struct meter_slow_call *slow);

/*
 * The busiest processes of the last whole second, unordered, at most METER_PROCESSES_MAX; returns how
 * many. *span_ns: how long that second was, 0 if there was none yet.
 */
uint32_t meters_read_top(struct meters *meters, struct top_entry *entry, uint64_t *span_ns);

/* By name of program, at most METER_COMMS_MAX and then what found no room, with an empty name. */
struct meter_comm_sum {
	char comm[RT_COMM_BYTES + 1];
	uint64_t calls, cpu_ns;
};
uint32_t meters_read_comms(const struct meters *meters, struct meter_comm_sum *comm);

/* "openat", "nr_500"; NULL: the catalog has no such number. */
const char *meters_call_name(const struct meters *meters, uint32_t number);

#endif
