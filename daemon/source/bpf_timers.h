/*
 * source_bpf_timers: the clocks of profile:hz:* and interval:*, and the counters of software:* and
 * hardware:*: perf events with the timer program
 * attached, one on each CPU that is online for a profile, one on some CPU for an interval.
 *
 * In: which slots are wanted. Out: attached links, kept over a restart. The loader's one thread.
 */
#ifndef RINGTAIL_DAEMON_SOURCE_BPF_TIMERS_H
#define RINGTAIL_DAEMON_SOURCE_BPF_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/source/bpf_objects.h"
#include "kmod/bpf/request.h"
#include "query/error.h"

struct source_bpf_timer {
	char name[48];			/* as people write it; "": the slot was never used */
	uint16_t probe;			/* its id */
	uint64_t period_ns;		/* or how many events */
	bool interval, counts;
	uint32_t type;			/* of the perf event: PERF_TYPE_*, */
	uint64_t config;		/* PERF_COUNT_* */
	uint32_t attachment;		/* 0: nobody wants it */
	int *link;			/* [cpus], -1: none; NULL: never wanted */
};

struct source_bpf_timers {
	struct source_bpf_objects *objects;
	struct source_store *store;
	struct source_bpf_timer timer[RT_TIMERS_MAX];	/* the fixed ones first */
	uint32_t attachments;		/* so far; the next one's number is one more */
	int online_fd, rate_fd;		/* what the kernel says of CPUs, and of sampling */
	char online[256];		/* as it was when links were made last */
};

void source_bpf_timers_init(struct source_bpf_timers *timers, struct source_bpf_objects *objects,
			    struct source_store *store);
void source_bpf_timers_fini(struct source_bpf_timers *timers);

/* Goes on with those that an earlier run left, as `request` has them. */
void source_bpf_timers_adopt(struct source_bpf_timers *timers, const struct bpf_request *request);

/*
 * Slots for clocks that were made on request: each has its own as long as it is attached. -E2BIG with *error: all
 * clients together ask for too many.
 */
int source_bpf_timers_place(struct source_bpf_timers *timers, const struct source_bpf_timer wanted[],
			    unsigned n, struct error *error);

/*
 * Attaches what `wanted` (a bit for each slot) has and is not there yet, and fills in request->timer.
 * What is attached ticks in vain until the request is published. On failure nothing has changed.
 */
int source_bpf_timers_attach(struct source_bpf_timers *timers, uint32_t wanted,
			     struct bpf_request *request, struct error *error);

/* Detaches all others, once the request is published. */
void source_bpf_timers_detach(struct source_bpf_timers *timers, uint32_t wanted);

/* Whether any ticks; then source_bpf_timers_follow() is to be called once a second or so. */
bool source_bpf_timers_any(const struct source_bpf_timers *timers);

/* CPUs come and go: attaches on those that came. */
void source_bpf_timers_follow(struct source_bpf_timers *timers);

#endif
