/*
 * First its life and what the workers do with it, then what the main thread reads.
 */
#include "daemon/collect/meter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/limits.h"

enum meter_action {
	METER_IGNORE,
	METER_CALL,
	METER_SWITCH,
	METER_WAKEUP,
	METER_FORK,
	METER_EXEC,
	METER_EXIT,
};

#define CALL_WEIGHT_NS	256	/* a call weighs as much as the time a short one takes */

/* ---- The busiest processes ------------------------------------------------------------------- */

/*
 * A table of fixed size: space-saving (Metwally, Agrawal, El Abbadi 2005). A process that finds the
 * table full replaces the least busy one, and inherits its weight as what its own may be too high by.
 * So a process with more than 1 part in METER_PROCESSES_MAX of all weight is in the table.
 */
static uint32_t home_of(uint32_t pid)
{
	return (uint32_t)(((uint64_t)(pid * 2654435769u) * TOP_SLOTS) >> 32);
}

/* The slot of a pid, or the empty one where it would be: a quarter is full at most. */
static uint16_t *slot_of(struct meter_top *top, uint32_t pid)
{
	uint32_t at = home_of(pid);

	while (top->slot[at] && top->entry[top->slot[at] - 1].pid != pid)
		at = (at + 1) % TOP_SLOTS;
	return &top->slot[at];
}

static struct top_entry *find_least(struct meter_top *top)
{
	struct top_entry *least = top->entry;

	for (uint32_t i = 1; i < top->entries; i++)
		if (top->entry[i].weight < least->weight)
			least = &top->entry[i];
	return least;
}

/* Empties a slot; entries that were put past it for want of room move up (backward shift). */
static void empty_slot(struct meter_top *top, uint32_t at)
{
	for (uint32_t next = (at + 1) % TOP_SLOTS; top->slot[next]; next = (next + 1) % TOP_SLOTS) {
		uint32_t home = home_of(top->entry[top->slot[next] - 1].pid);

		if ((next - home) % TOP_SLOTS >= (next - at) % TOP_SLOTS) {
			top->slot[at] = top->slot[next];
			at = next;
		}
	}
	top->slot[at] = 0;
}

static struct top_entry *find_or_add(struct meter_top *top, uint32_t pid)
{
	uint16_t *slot = slot_of(top, pid);
	struct top_entry *entry;
	uint64_t weight;

	if (*slot)
		return &top->entry[*slot - 1];
	if (top->entries < METER_PROCESSES_MAX) {
		entry = &top->entry[top->entries++];
		*entry = (struct top_entry){.pid = pid};
		*slot = (uint16_t)top->entries;
		return entry;
	}
	entry = find_least(top);
	weight = entry->weight;
	empty_slot(top, (uint32_t)(slot_of(top, entry->pid) - top->slot));
	*entry = (struct top_entry){.pid = pid, .weight = weight};
	*slot_of(top, pid) = (uint16_t)(entry - top->entry + 1);
	return entry;
}

void meter_top_add(struct meter_top *top, const struct top_entry *from)
{
	struct top_entry *entry = find_or_add(top, from->pid);

	memcpy(entry->comm, from->comm, sizeof(entry->comm));
	entry->calls += from->calls;
	entry->errors += from->errors;
	entry->cpu_ns += from->cpu_ns;
	entry->weight += from->calls * CALL_WEIGHT_NS + from->cpu_ns;
}

/* ---- Meters ---------------------------------------------------------------------------------- */

/* The worker's, but for what is said otherwise. */
struct meter {
	struct meters *meters;
	unsigned worker;
	struct meter_call *call;		/* RT_SYSCALLS_MAX; read by the main thread */
	struct meter_slow (*slow)[METER_BUCKETS]; /* RT_SYSCALLS_MAX; the same */
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

#define TOP_SPAN_NS	1000000000ull
#define ERRNO_RESTART	512		/* ERESTARTSYS and the four after it: inside the kernel only */
#define ERRNO_MAX	4095

/* A plain addition of the only writer's. */
static inline void add(_Atomic uint64_t *total, uint64_t n)
{
	atomic_store_explicit(total, atomic_load_explicit(total, memory_order_relaxed) + n,
			      memory_order_relaxed);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static void meter_destroy(struct meter *meter)
{
	if (!meter)
		return;
	pthread_mutex_destroy(&meter->lock);
	free(meter->call);
	free(meter->slow);
	free(meter->comm);
	free(meter->event);
	free(meter->scratch);
	free(meter);
}

/* The big arrays cost nothing where no call falls: they are zero pages until then. */
static struct meter *meter_create(struct meters *meters, unsigned worker)
{
	struct meter *meter = calloc(1, sizeof(*meter));

	if (!meter)
		return NULL;
	pthread_mutex_init(&meter->lock, NULL);
	meter->meters = meters;
	meter->worker = worker;
	meter->call = calloc(RT_SYSCALLS_MAX, sizeof(*meter->call));
	meter->slow = calloc(RT_SYSCALLS_MAX, sizeof(*meter->slow));
	meter->event = malloc(METER_SCHED_EVENTS_MAX * sizeof(*meter->event));
	meter->scratch = malloc(METER_SCHED_EVENTS_MAX * sizeof(*meter->scratch));
	if (meters->config.comm) {
		meter->comms_max = METER_COMMS_MAX / meters->config.workers;
		meter->comm = calloc(meter->comms_max + 1, sizeof(*meter->comm));
	}
	if (!meter->call || !meter->slow || !meter->event || !meter->scratch ||
	    (meters->config.comm && !meter->comm)) {
		meter_destroy(meter);
		return NULL;
	}
	return meter;
}

struct meters *meters_create(const struct meters_config *config)
{
	struct meters *meters = calloc(1, sizeof(*meters));
	bool failed = false;

	if (!meters)
		return NULL;
	meters->config = *config;
	meters->sched = meter_sched_create(config->workers);
	for (unsigned i = 0; i < config->workers; i++) {
		meters->meter[i] = meter_create(meters, i);
		failed |= !meters->meter[i];
	}
	if (!meters->sched || failed) {
		meters_destroy(meters);
		return NULL;
	}
	for (size_t i = 0; i < config->catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = config->catalog->probe[i];

		if (probe->id - RT_PROBE_SYSCALL_CALL < RT_SYSCALLS_MAX)
			meters->name[probe->id - RT_PROBE_SYSCALL_CALL] = probe->function;
	}
	meters_set_probes(meters, config->probes);
	meters_set_slow(meters, config->slow_ns);
	return meters;
}

void meters_destroy(struct meters *meters)
{
	if (!meters)
		return;
	for (unsigned i = 0; i < meters->config.workers; i++)
		meter_destroy(meters->meter[i]);
	meter_sched_destroy(meters->sched);
	free(meters);
}

struct meter *meters_get(struct meters *meters, unsigned worker)
{
	return meters->meter[worker];
}

static enum meter_action action_of(uint32_t probe)
{
	switch (probe) {
	case RT_PROBE_SCHED_SWITCH:	return METER_SWITCH;
	case RT_PROBE_SCHED_WAKEUP:	return METER_WAKEUP;
	case RT_PROBE_SCHED_FORK:	return METER_FORK;
	case RT_PROBE_SCHED_EXEC:	return METER_EXEC;
	case RT_PROBE_SCHED_EXIT:	return METER_EXIT;
	default:
		return probe - RT_PROBE_SYSCALL_CALL < RT_SYSCALLS_MAX ? METER_CALL : METER_IGNORE;
	}
}

void meters_set_probes(struct meters *meters, const struct probe_set *probes)
{
	for (uint32_t i = RT_PROBE_EVENT_MIN; i < RT_PROBE_MAX; i++)
		atomic_store_explicit(&meters->action[i],
				      probe_set_test(probes, i) ? action_of(i) : METER_IGNORE,
				      memory_order_relaxed);
}

void meters_set_slow(struct meters *meters, uint64_t slow_ns)
{
	atomic_store_explicit(&meters->slow_ns, slow_ns, memory_order_relaxed);
}

/* ---- Who runs -------------------------------------------------------------------------------- */

static struct meter_comm *find_comm(struct meter *meter, const char comm[RT_COMM_BYTES])
{
	uint64_t word[2];

	memcpy(word, comm, sizeof(word));
	/* Nobody knows the name: no row of the table is named nothing. */
	if (!word[0])
		return &meter->comm[meter->comms_max];
	for (uint32_t i = 0; i < meter->comms; i++)
		if (meter->comm[i].comm[0] == word[0] && meter->comm[i].comm[1] == word[1])
			return &meter->comm[i];
	if (meter->comms == meter->comms_max)
		return &meter->comm[meter->comms_max];
	/* Calls come after the name: who sees them (acquire, in the sums below) sees it whole. */
	atomic_store_explicit(&meter->comm[meter->comms].comm[0], word[0], memory_order_relaxed);
	atomic_store_explicit(&meter->comm[meter->comms].comm[1], word[1], memory_order_release);
	return &meter->comm[meter->comms++];
}

/* What the run has counted goes into the tables, and it counts on from 0. */
static void close_run(struct meter *meter, struct meter_ring *ring)
{
	struct top_entry *run = &ring->run;

	if (!run->calls && !run->cpu_ns)
		return;
	meter_top_add(&meter->top, run);
	if (meter->comm) {
		struct meter_comm *comm = find_comm(meter, run->comm);

		add(&comm->calls, run->calls);
		add(&comm->cpu_ns, run->cpu_ns);
	}
	run->calls = run->errors = run->cpu_ns = 0;
}

__attribute__((noinline))
static void begin_run(struct meter *meter, struct meter_ring *ring, uint32_t tid,
		      const struct thread_table *threads, uint32_t thread)
{
	close_run(meter, ring);
	ring->tid = tid;
	ring->run = (struct top_entry){.pid = tid};
	if (thread != THREAD_NONE) {
		const struct batch_thread *who = thread_table_get(threads, thread);

		ring->run.pid = who->pid;
		memcpy(ring->run.comm, who->comm, sizeof(ring->run.comm));
	}
}

/* Time on the CPU up to now, if the last switch brought the thread that runs now. An idle CPU is nobody's time. */
static void charge_cpu(struct meter_ring *ring, uint64_t now_ns)
{
	if (ring->running_ns && ring->running_tid && ring->running_tid == ring->tid && now_ns > ring->running_ns)
		ring->run.cpu_ns += now_ns - ring->running_ns;
	ring->running_ns = now_ns;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static void add_sched(struct meter *meter, struct sched_event event)
{
	if (meter->events == METER_SCHED_EVENTS_MAX) {
		meter_sched_sort(meter->event, meter->events, meter->scratch);
		meter_sched_pass(meter->meters->sched, meter->worker, meter->event, meter->events,
				 0);
		meter->events = 0;
	}
	meter->event[meter->events++] = event;
}

static void take_switch(struct meter *meter, struct meter_ring *ring, const struct ring_item *item)
{
	uint32_t next_tid = (uint32_t)item->payload[2];

	add(&meter->count[METER_SWITCHES], 1);
	charge_cpu(ring, item->time_ns);
	ring->running_tid = next_tid;
	/* Thread 0 is every CPU's own, and waits for nothing. */
	if (item->tid)
		add_sched(meter, sched_event_make(SCHED_OUT, item->time_ns, item->tid,
						  (uint32_t)item->payload[1]));
	if (next_tid)
		add_sched(meter, sched_event_make(SCHED_IN, item->time_ns, next_tid, 0));
}

/* The reader takes a copy whose version was even and the same before and after. */
__attribute__((noinline))
static void note_slow(struct meter *meter, const struct meter_ring *ring,
		      const struct ring_item *item, uint64_t ns)
{
	struct meter_slow *slow =
		&meter->slow[item->probe - RT_PROBE_SYSCALL_CALL][meter_bucket_of(ns)];
	uint64_t version = atomic_load_explicit(&slow->version, memory_order_relaxed);

	/* Rings are read one after the other: the newest stays. */
	if (item->time_ns < atomic_load_explicit(&slow->time_ns, memory_order_relaxed))
		return;
	atomic_store_explicit(&slow->version, version + 1, memory_order_relaxed);
	/* Pairs with read_slow()'s acquires: whoever reads one of these sees the odd version. */
	atomic_store_explicit(&slow->cpu, ring->cpu, memory_order_release);
	atomic_store_explicit(&slow->seq, item->seq, memory_order_release);
	atomic_store_explicit(&slow->duration_ns, ns, memory_order_release);
	atomic_store_explicit(&slow->time_ns, item->time_ns, memory_order_release);
	atomic_store_explicit(&slow->version, version + 2, memory_order_release);
}

static inline uint32_t errno_index(uint64_t number)
{
	if (number <= METER_ERRNO_LAST)
		return (uint32_t)number;
	return number - ERRNO_RESTART < 5 ? METER_ERRNO_RESTART + (uint32_t)(number - ERRNO_RESTART)
					  : METER_ERRNO_OTHER;
}

static inline void take_call(struct meter *meter, struct meter_ring *ring,
			     const struct ring_item *item)
{
	struct meter_call *call = &meter->call[item->probe - RT_PROBE_SYSCALL_CALL];
	uint64_t ns = item->payload[0], failed = -item->payload[1];

	ring->run.calls++;
	if (ns == RT_DURATION_NEVER) {
		add(&call->never, 1);
		return;
	}
	meter_histogram_add(&call->duration, ns);
	if (failed - 1 < ERRNO_MAX) {
		ring->run.errors++;
		add(&call->error[errno_index(failed)], 1);
	}
	if (ns >= atomic_load_explicit(&meter->meters->slow_ns, memory_order_relaxed))
		note_slow(meter, ring, item, ns);
}

void meter_event(struct meter *meter, struct meter_ring *ring, const struct ring_item *item,
		 const struct thread_table *threads, uint32_t thread)
{
	enum meter_action action = atomic_load_explicit(&meter->meters->action[item->probe],
							memory_order_relaxed);

	if (action == METER_IGNORE)
		return;
	if (item->tid != ring->tid)
		begin_run(meter, ring, item->tid, threads, thread);
	ring->last_ns = item->time_ns;
	switch (action) {
	case METER_IGNORE:
		break;
	case METER_CALL:
		take_call(meter, ring, item);
		break;
	case METER_SWITCH:
		take_switch(meter, ring, item);
		break;
	case METER_WAKEUP:
		add(&meter->count[METER_WAKEUPS], 1);
		if (item->payload[0])
			add_sched(meter, sched_event_make(SCHED_WAKE, item->time_ns,
							  (uint32_t)item->payload[0], 0));
		break;
	case METER_FORK:
		add(&meter->count[METER_FORKS], 1);
		break;
	case METER_EXEC:
		/* Another name from here on. */
		add(&meter->count[METER_EXECS], 1);
		begin_run(meter, ring, item->tid, threads, thread);
		break;
	case METER_EXIT:
		add(&meter->count[METER_EXITS], 1);
		break;
	}
}

void meter_loss(struct meter *meter, struct meter_ring *ring)
{
	ring->running_ns = 0;
	add_sched(meter, sched_event_make(SCHED_LOSS, ring->last_ns, 0, 0));
}

/* ---- The end of a pass ----------------------------------------------------------------------- */

void meter_end_run(struct meter *meter, struct meter_ring *ring, struct thread_table *threads,
		   uint64_t now_ns)
{
	/* It may run on without an event of its own. */
	if (ring->running_ns && ring->running_tid && ring->running_tid != ring->tid)
		begin_run(meter, ring, ring->running_tid, threads,
			  thread_table_find(threads, ring->running_tid));
	if (ring->running_ns && now_ns > ring->running_ns && ring->running_tid)
		charge_cpu(ring, now_ns);
	close_run(meter, ring);
}

static void publish_top(struct meter *meter, uint64_t now_ns)
{
	pthread_mutex_lock(&meter->lock);
	meter->published = meter->top;
	meter->published_span_ns = meter->top_began_ns ? now_ns - meter->top_began_ns : 0;
	pthread_mutex_unlock(&meter->lock);
	memset(&meter->top, 0, sizeof(struct meter_top));
	meter->top_began_ns = now_ns;
}

void meter_end_pass(struct meter *meter, uint64_t watermark_ns, uint64_t now_ns)
{
	meter_sched_sort(meter->event, meter->events, meter->scratch);
	meter_sched_pass(meter->meters->sched, meter->worker, meter->event, meter->events,
			 watermark_ns);
	meter->events = 0;
	if (now_ns - meter->top_began_ns >= TOP_SPAN_NS)
		publish_top(meter, now_ns);
}

/* ---- What the main thread reads ---------------------------------------------------------------- */

/* A slow call that is being written is left out when it stays so: the next look has it. */
#define SLOW_TRIES 8

static uint64_t load(const _Atomic uint64_t *total)
{
	return atomic_load_explicit(total, memory_order_relaxed);
}

/* Most calls are never made: their cells are not looked at, nor the sums written that nobody reads. */
static bool is_empty(const struct meter_histogram *histogram)
{
	return !load(&histogram->sum_ns) && !load(&histogram->cell[0]);
}

static void add_histogram(struct meter_sum *sum, const struct meter_histogram *histogram)
{
	if (is_empty(histogram))
		return;
	for (unsigned i = 0; i < METER_CELLS; i++) {
		uint64_t n = load(&histogram->cell[i]);

		sum->cell[i] += n;
		sum->bucket[meter_bucket_of_cell(i)] += n;
		sum->count += n;
	}
	sum->sum_ns += load(&histogram->sum_ns);
}

static bool was_seen(const struct meters *meters, uint32_t number)
{
	for (unsigned i = 0; i < meters->config.workers; i++) {
		const struct meter_call *call = &meters->meter[i]->call[number];

		if (!is_empty(&call->duration) || load(&call->never))
			return true;
	}
	return false;
}

bool meters_read_call(const struct meters *meters, uint32_t number, struct meter_call_sum *sum)
{
	if (!was_seen(meters, number))
		return false;
	*sum = (struct meter_call_sum){0};
	for (unsigned i = 0; i < meters->config.workers; i++) {
		const struct meter_call *call = &meters->meter[i]->call[number];

		add_histogram(&sum->duration, &call->duration);
		sum->never += load(&call->never);
		for (unsigned j = 0; j < METER_ERRNOS; j++) {
			uint64_t n = load(&call->error[j]);

			sum->error[j] += n;
			sum->errors += n;
		}
	}
	return sum->duration.count || sum->never;
}

uint64_t meters_read_count(const struct meters *meters, enum meter_count count)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < meters->config.workers; i++)
		sum += load(&meters->meter[i]->count[count]);
	return sum;
}

void meters_read_durations(const struct meters *meters, struct meter_sum *sum)
{
	*sum = (struct meter_sum){0};
	for (unsigned i = 0; i < meters->config.workers; i++)
		for (uint32_t j = 0; j < RT_SYSCALLS_MAX; j++)
			if (meters->name[j])
				add_histogram(sum, &meters->meter[i]->call[j].duration);
}

void meters_read_latency(const struct meters *meters, struct meter_sum *sum)
{
	*sum = (struct meter_sum){0};
	add_histogram(sum, &meter_sched_totals(meters->sched)->latency);
}

void meters_read_off_cpu(const struct meters *meters, enum off_reason reason,
			 struct meter_sum *sum)
{
	*sum = (struct meter_sum){0};
	add_histogram(sum, &meter_sched_totals(meters->sched)->off_cpu[reason]);
}

static bool read_slow(const struct meter_slow *from, struct meter_slow_call *slow)
{
	for (unsigned i = 0; i < SLOW_TRIES; i++) {
		uint64_t version = atomic_load_explicit(&from->version, memory_order_acquire);

		if (!version)
			return false;
		slow->cpu = (uint32_t)atomic_load_explicit(&from->cpu, memory_order_acquire);
		slow->seq = atomic_load_explicit(&from->seq, memory_order_acquire);
		slow->duration_ns = atomic_load_explicit(&from->duration_ns, memory_order_acquire);
		slow->time_ns = atomic_load_explicit(&from->time_ns, memory_order_acquire);
		if (!(version & 1) && load(&from->version) == version)
			return true;
	}
	return false;
}

bool meters_read_slow(const struct meters *meters, uint32_t number, unsigned bucket,
		      struct meter_slow_call *slow)
{
	bool found = false;

	for (unsigned i = 0; i < meters->config.workers; i++) {
		struct meter_slow_call one;

		if (!read_slow(&meters->meter[i]->slow[number][bucket], &one) ||
		    (found && one.time_ns < slow->time_ns))
			continue;
		*slow = one;
		found = true;
	}
	return found;
}

uint32_t meters_read_top(struct meters *meters, struct top_entry *entry, uint64_t *span_ns)
{
	struct meter_top all;

	*span_ns = 0;
	memset(&all, 0, sizeof(struct meter_top));
	for (unsigned i = 0; i < meters->config.workers; i++) {
		struct meter *meter = meters->meter[i];

		pthread_mutex_lock(&meter->lock);
		for (uint32_t j = 0; j < meter->published.entries; j++)
			meter_top_add(&all, &meter->published.entry[j]);
		if (meter->published_span_ns > *span_ns)
			*span_ns = meter->published_span_ns;
		pthread_mutex_unlock(&meter->lock);
	}
	memcpy(entry, all.entry, all.entries * sizeof(*entry));
	return all.entries;
}

static struct meter_comm_sum *find_sum(struct meter_comm_sum *comm, uint32_t *comms,
					const uint64_t word[2])
{
	uint32_t i = 0;

	while (i < *comms && memcmp(comm[i].comm, word, RT_COMM_BYTES) != 0)
		i++;
	if (i == *comms) {
		comm[i] = (struct meter_comm_sum){0};
		memcpy(comm[i].comm, word, RT_COMM_BYTES);
		++*comms;
	}
	return &comm[i];
}

uint32_t meters_read_comms(const struct meters *meters, struct meter_comm_sum *comm)
{
	struct meter_comm_sum rest = {0};
	uint32_t comms = 0;

	for (unsigned i = 0; i < meters->config.workers; i++) {
		const struct meter *meter = meters->meter[i];

		for (uint32_t j = 0; meter->comm && j < meter->comms_max; j++) {
			uint64_t word[2];
			struct meter_comm_sum *sum;

			word[1] = atomic_load_explicit(&meter->comm[j].comm[1],
						       memory_order_acquire);
			word[0] = load(&meter->comm[j].comm[0]);
			if (!word[0])
				break;
			sum = find_sum(comm, &comms, word);
			sum->calls += load(&meter->comm[j].calls);
			sum->cpu_ns += load(&meter->comm[j].cpu_ns);
		}
		if (meter->comm) {
			rest.calls += load(&meter->comm[meter->comms_max].calls);
			rest.cpu_ns += load(&meter->comm[meter->comms_max].cpu_ns);
		}
	}
	comm[comms++] = rest;
	return comms;
}

const char *meters_call_name(const struct meters *meters, uint32_t number)
{
	return number < RT_SYSCALLS_MAX ? meters->name[number] : NULL;
}
