/*
 * pace: how long a worker lets what it has recorded wait, so that few events come at once and many come in full
 * batches.
 *
 * In: when a bell wakes the worker, and how many records each of its passes has read. Out: the tick, which is the
 * time to the next pass. On the worker's thread.
 *
 * A bell that wakes an idle worker is followed by one short tick, for events come in groups. How many short ticks
 * there are is bounded (PACE_CREDIT_NS_MAX, PACE_WAKE_NS); beyond that it is PACE_REST_NS. If passes find many
 * records, each tick is twice the one before, up to the batch interval; if they find fewer than half as many for the
 * time, half of it; and if few come at short ticks, the worker waits for a bell again. Records of all rings count
 * together, for a pass reads all of them and costs one waking.
 */
#ifndef RINGTAIL_DAEMON_COLLECT_PACE_H
#define RINGTAIL_DAEMON_COLLECT_PACE_H

#include <stdbool.h>
#include <stdint.h>

struct pace {
	uint64_t tick_ns;		/* the one in force; never more than the batch interval */
	uint64_t credit_ns;		/* saved up for short ticks, */
	uint64_t woken_ns;		/* up to then; 0: no bell yet */
};

/* At the longest tick, which is the batch interval. */
void pace_init(struct pace *pace, uint64_t interval_ns);

/* A bell has woken an idle worker, or the few records of a pass want one more. */
void pace_wake(struct pace *pace, uint64_t now_ns, uint64_t interval_ns);

/* A pass has read so many records. False: the worker may as well wait for a bell. */
bool pace_pass(struct pace *pace, uint64_t records, uint64_t interval_ns);

/* It may not: a record in a ring is not finished, or another one has come, or no bell rings for what is awaited. */
void pace_hold(struct pace *pace, uint64_t interval_ns);

/*
 * How long a writer may take between reading the clock and reserving its place in the ring; watermarks leave it
 * that much. It is a part of the tick, else what a pass sends would wait at the client for the next one.
 */
uint64_t pace_slack(const struct pace *pace, uint64_t interval_ns);

#endif
