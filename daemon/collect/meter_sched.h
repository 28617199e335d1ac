/*
 * meter_sched: how long threads wait: from being woken to running, and from leaving a CPU to coming
 * back to one.
 *
 * A thread is woken on one CPU, runs on another and leaves from there, and rings are read one after
 * the other, so its events do not come in order. Each worker collects the scheduler's events of a
 * pass, sorts them, and hands them over with its watermark; events older than every worker's
 * watermark are then matched in order of time, whichever worker they came from. Threads that wait are
 * kept in a table of fixed size; if it is full, a new one replaces the thread that has waited longest,
 * which is counted.
 *
 * meter_sched_pass() takes a lock, once a pass; the totals are read without it.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_METER_SCHED_H
#define RINGTAIL_DAEMON_COLLECT_METER_SCHED_H

#include <stdatomic.h>
#include <stdint.h>

#include "daemon/collect/meter_bucket.h"

struct meter_sched;

enum sched_kind {		/* in the order in which they count where the time is the same */
	SCHED_LOSS,		/* a ring lost records: nothing that began before can be trusted */
	SCHED_WAKE,
	SCHED_OUT,
	SCHED_IN,
};

struct sched_event {
	uint64_t key;		/* time_ns << 2 | enum sched_kind */
	uint32_t tid;
	uint32_t state;		/* SCHED_OUT: as sched_switch's prev_state says it */
};

enum off_reason {		/* why a thread left its CPU */
	OFF_PREEMPTED,	/* it would have gone on */
	OFF_SLEEPING,		/* waits, and signals can wake it */
	OFF_BLOCKED,		/* waits uninterruptibly: mostly for a disk or a lock */
	OFF_IDLE,		/* a kernel thread without work */
	OFF_OTHER,		/* stopped, traced, parked */
	OFF_REASONS,
};

/* One writer, any reader. */
struct meter_histogram {
	_Atomic uint64_t cell[METER_CELLS];
	_Atomic uint64_t sum_ns;
};

struct meter_sched_totals {
	struct meter_histogram latency;			/* woken to running */
	struct meter_histogram off_cpu[OFF_REASONS];	/* leaving to coming back */
};

static inline struct sched_event sched_event_make(enum sched_kind kind, uint64_t time_ns,
						  uint32_t tid, uint32_t state)
{
	return (struct sched_event){.key = time_ns << 2 | kind, .tid = tid, .state = state};
}

/* Plain additions of the only writer's. For each call: here, to be inlined. */
static inline void meter_histogram_add(struct meter_histogram *histogram, uint64_t ns)
{
	_Atomic uint64_t *cell = &histogram->cell[meter_cell_of(ns)];

	atomic_store_explicit(cell, atomic_load_explicit(cell, memory_order_relaxed) + 1,
			      memory_order_relaxed);
	atomic_store_explicit(&histogram->sum_ns,
			      atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed) + ns,
			      memory_order_relaxed);
}

const char *off_reason_name(enum off_reason reason);

/* NULL: out of memory. */
struct meter_sched *meter_sched_create(unsigned workers);
void meter_sched_destroy(struct meter_sched *sched);

/* Sorts in place, by key; `scratch` has room for n. */
void meter_sched_sort(struct sched_event *event, uint32_t n, struct sched_event *scratch);

/*
 * A worker's sorted events, n at most METER_SCHED_EVENTS_MAX, and up to when it has seen everything; 0:
 * no further than before. From that worker's thread.
 */
void meter_sched_pass(struct meter_sched *sched, unsigned worker, const struct sched_event *event,
		      uint32_t n, uint64_t watermark_ns);

/* Of all workers; read it with relaxed loads. */
const struct meter_sched_totals *meter_sched_totals(const struct meter_sched *sched);

#endif
