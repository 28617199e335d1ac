/* meter_private: the inside of meter, shared by meter.c (writes) and meter_read.c (reads) alone. */
#ifndef RINGTAIL_DAEMON_COLLECT_METER_PRIVATE_H
#define RINGTAIL_DAEMON_COLLECT_METER_PRIVATE_H

#include <pthread.h>

#include "daemon/base/limits.h"
#include "daemon/collect/meter.h"

enum meter_action {
	METER_IGNORE,
	METER_CALL,
	METER_SWITCH,
	METER_WAKEUP,
	METER_FORK,
	METER_EXEC,
	METER_EXIT,
};

/* The worker's, but for what is said otherwise. */
struct meter {
	struct meters *meters;
	unsigned worker;
	struct meter_call *call;		/* RT_SYSCALLS_MAX; read by the main thread */
	struct meter_slow (*slow)[METRIC_BUCKETS]; /* RT_SYSCALLS_MAX; the same */
	_Atomic uint64_t count[METER_COUNTS];	/* the same */
	struct meter_comm *comm;		/* the same; NULL without metrics-comm */
	uint32_t comms, comms_max;		/* comm[comms_max] is the rest's */

	struct sched_event *event, *scratch;	/* METER_SCHED_EVENTS_MAX of each */
	uint32_t events;

	struct meter_top top;			/* of the second that is not over */
	uint64_t top_began_ns;

	pthread_mutex_t lock;			/* of the two below; taken once a second */
	struct meter_top published;
	uint64_t published_span_ns;
};

struct meters {
	struct meters_config config;
	const char *name[RT_SYSCALLS_MAX];	/* the catalog's */
	_Atomic uint8_t action[RT_PROBE_MAX];	/* enum meter_action; the main thread writes */
	_Atomic uint64_t slow_ns;
	struct meter_sched *sched;
	struct meter *meter[WORKERS_MAX];
};

#endif
