/* meter_read: what the main thread reads of the meters; see meter.h. */
#include <stdatomic.h>
#include <string.h>

#include "daemon/collect/meter_private.h"

/* A slow call that is being written is left out when it stays so: the next look has it. */
#define SLOW_TRIES 8

static uint64_t load(const _Atomic uint64_t *total)
{
	return atomic_load_explicit(total, memory_order_relaxed);
}

static void add_histogram(struct meter_sum *sum, const struct meter_histogram *histogram)
{
	for (unsigned i = 0; i < METRIC_BUCKETS; i++) {
		uint64_t n = load(&histogram->bucket[i]);

		sum->bucket[i] += n;
		sum->count += n;
	}
	sum->sum_ns += load(&histogram->sum_ns);
}

bool meters_read_call(const struct meters *meters, uint32_t number, struct meter_call_sum *sum)
{
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
	meter_top_clear(&all);
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

static struct meter_comm_sum *find_comm(struct meter_comm_sum *comm, uint32_t *comms,
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
			sum = find_comm(comm, &comms, word);
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
