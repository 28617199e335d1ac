#include "daemon/collect/meter_sched.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/base/limits.h"

#define SETS		4096u	/* a power of two */
#define WAYS		4u
#define STATE_DEAD	0x30u	/* EXIT_DEAD, EXIT_ZOMBIE: it does not come back */
#define STATE_SLEEPS	0x01u
#define STATE_BLOCKS	0x02u
#define STATE_IDLE	0x80u
#define STATE_PREEMPTED	0x100u

/* A thread that waits; tid 0 is nobody. */
struct waiting {
	uint32_t tid;
	uint32_t reason;
	uint64_t out_ns, wake_ns;	/* 0: not seen */
};

struct meter_sched {
	struct meter_sched_totals totals;	/* written under the lock */
	pthread_mutex_t lock;
	unsigned workers;
	uint64_t watermark_ns[WORKERS_MAX];
	uint64_t trusted_ns;		/* what began before may have lost its end */
	uint32_t events;
	struct sched_event *event, *merged;	/* sorted; METER_SCHED_PENDING_MAX of each */
	struct waiting set[SETS][WAYS];
};

static const char *const reason_name[OFF_REASONS] = {
	[OFF_PREEMPTED] = "preempted",
	[OFF_SLEEPING] = "sleeping",
	[OFF_BLOCKED] = "blocked",
	[OFF_IDLE] = "idle",
	[OFF_OTHER] = "other",
};

const char *off_reason_name(enum off_reason reason)
{
	return reason_name[reason];
}

struct meter_sched *meter_sched_create(unsigned workers)
{
	struct meter_sched *sched = calloc(1, sizeof(*sched));

	if (!sched)
		return NULL;
	pthread_mutex_init(&sched->lock, NULL);
	sched->workers = workers;
	sched->event = malloc(METER_SCHED_PENDING_MAX * sizeof(*sched->event));
	sched->merged = malloc(METER_SCHED_PENDING_MAX * sizeof(*sched->merged));
	if (!sched->event || !sched->merged) {
		meter_sched_destroy(sched);
		return NULL;
	}
	return sched;
}

void meter_sched_destroy(struct meter_sched *sched)
{
	if (!sched)
		return;
	pthread_mutex_destroy(&sched->lock);
	free(sched->event);
	free(sched->merged);
	free(sched);
}

const struct meter_sched_totals *meter_sched_totals(const struct meter_sched *sched)
{
	return &sched->totals;
}

/* ---- Threads that wait ----------------------------------------------------------------------- */

static struct waiting *set_of(struct meter_sched *sched, uint32_t tid)
{
	return sched->set[(tid * 2654435769u) >> 20 & (SETS - 1)];
}

static struct waiting *find(struct meter_sched *sched, uint32_t tid)
{
	struct waiting *set = set_of(sched, tid);

	for (unsigned i = 0; i < WAYS; i++)
		if (set[i].tid == tid)
			return &set[i];
	return NULL;
}

static uint64_t since(const struct waiting *waiting)
{
	return waiting->out_ns ? waiting->out_ns : waiting->wake_ns;
}

static struct waiting *find_or_add(struct meter_sched *sched, uint32_t tid)
{
	struct waiting *set = set_of(sched, tid), *oldest = set;

	for (unsigned i = 0; i < WAYS; i++) {
		if (set[i].tid == tid)
			return &set[i];
		if (oldest->tid && (!set[i].tid || since(&set[i]) < since(oldest)))
			oldest = &set[i];
	}
	if (oldest->tid)
		counter_add(COUNTER_meter_threads_evicted, 1);
	*oldest = (struct waiting){.tid = tid};
	return oldest;
}

static enum off_reason reason_of(uint32_t state)
{
	if (!state || state & STATE_PREEMPTED)
		return OFF_PREEMPTED;
	if (state & STATE_IDLE)
		return OFF_IDLE;
	if (state & STATE_BLOCKS)
		return OFF_BLOCKED;
	return state & STATE_SLEEPS ? OFF_SLEEPING : OFF_OTHER;
}

static void take_out(struct meter_sched *sched, const struct sched_event *event, uint64_t now)
{
	struct waiting *waiting;

	if (event->state != STATE_PREEMPTED && event->state & STATE_DEAD) {
		waiting = find(sched, event->tid);
		if (waiting)
			waiting->tid = 0;
		return;
	}
	waiting = find_or_add(sched, event->tid);
	/* It came back unseen: from one whose events are not recorded. */
	if (waiting->out_ns > sched->trusted_ns)
		counter_add(COUNTER_meter_switches_unmatched, 1);
	waiting->out_ns = now;
	waiting->reason = reason_of(event->state);
	waiting->wake_ns = 0;	/* was woken while it still ran */
}

static void take_in(struct meter_sched *sched, const struct sched_event *event, uint64_t now)
{
	struct waiting *waiting = find(sched, event->tid);

	if (!waiting) {
		counter_add(COUNTER_meter_switches_unmatched, 1);
		return;
	}
	if (waiting->wake_ns > sched->trusted_ns)
		meter_histogram_add(&sched->totals.latency, now - waiting->wake_ns);
	if (waiting->out_ns > sched->trusted_ns)
		meter_histogram_add(&sched->totals.off_cpu[waiting->reason],
				    now - waiting->out_ns);
	waiting->tid = 0;
}

static void take_event(struct meter_sched *sched, const struct sched_event *event)
{
	uint64_t now = event->key >> 2;
	struct waiting *waiting;

	switch ((enum sched_kind)(event->key & 3)) {
	case SCHED_LOSS:
		sched->trusted_ns = now;
		break;
	case SCHED_WAKE:
		/* It is runnable from the first time on. */
		waiting = find_or_add(sched, event->tid);
		if (!waiting->wake_ns)
			waiting->wake_ns = now;
		break;
	case SCHED_OUT:
		take_out(sched, event, now);
		break;
	case SCHED_IN:
		take_in(sched, event, now);
		break;
	}
}

/* ---- Order ----------------------------------------------------------------------------------- */

static void merge(struct sched_event *event, uint32_t left, uint32_t right,
		  struct sched_event *scratch)
{
	const struct sched_event *a = scratch, *a_end = scratch + left;
	const struct sched_event *b = event + left, *b_end = event + left + right;

	memcpy(scratch, event, left * sizeof(*event));
	while (a < a_end)
		*event++ = b < b_end && b->key < a->key ? *b++ : *a++;
}

/* Most of it is in order already, ring by ring: then a step is one comparison. */
void meter_sched_sort(struct sched_event *event, uint32_t n, struct sched_event *scratch)
{
	for (uint32_t width = 1; width < n; width *= 2)
		for (uint32_t at = 0; at + width < n; at += 2 * width) {
			uint32_t right = n - at - width < width ? n - at - width : width;
			struct sched_event *middle = &event[at + width];

			if (middle[-1].key > middle->key)
				merge(&event[at], width, right, scratch);
		}
}

static void merge_pending(struct meter_sched *sched, const struct sched_event *event, uint32_t n)
{
	const struct sched_event *a = sched->event, *a_end = a + sched->events;
	const struct sched_event *b = event, *b_end = event + n;
	struct sched_event *merged = sched->merged, *to = merged;

	while (a < a_end && b < b_end)
		*to++ = b->key < a->key ? *b++ : *a++;
	memcpy(to, a, (size_t)(a_end - a) * sizeof(*a));
	to += a_end - a;
	memcpy(to, b, (size_t)(b_end - b) * sizeof(*b));
	sched->merged = sched->event;
	sched->event = merged;
	sched->events += n;
}

static void take_until(struct meter_sched *sched, uint64_t until_ns)
{
	uint32_t taken = 0;

	while (taken < sched->events && sched->event[taken].key >> 2 < until_ns)
		take_event(sched, &sched->event[taken++]);
	sched->events -= taken;
	memmove(sched->event, sched->event + taken, sched->events * sizeof(*sched->event));
}

void meter_sched_pass(struct meter_sched *sched, unsigned worker, const struct sched_event *event,
		      uint32_t n, uint64_t watermark_ns)
{
	uint64_t until_ns = UINT64_MAX;

	pthread_mutex_lock(&sched->lock);
	if (sched->events + n > METER_SCHED_PENDING_MAX) {
		counter_add(COUNTER_meter_events_unordered, sched->events);
		take_until(sched, UINT64_MAX);
	}
	merge_pending(sched, event, n);
	if (watermark_ns > sched->watermark_ns[worker])
		sched->watermark_ns[worker] = watermark_ns;
	for (unsigned i = 0; i < sched->workers; i++)
		if (sched->watermark_ns[i] < until_ns)
			until_ns = sched->watermark_ns[i];
	take_until(sched, until_ns);
	pthread_mutex_unlock(&sched->lock);
}
