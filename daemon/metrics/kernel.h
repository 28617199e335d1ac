/*
 * metric_kernel: the meters' counts as families of metrics, with a bound on how many series there
 * are. A system call gets its own series when it is first seen, up to `series_max`; those after it
 * share the series `other`. The same goes for pairs of call and errno. What has a series keeps it, so
 * that no counter ever goes back. In: the meters; out: families of a snapshot. Main thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_KERNEL_H
#define RINGTAIL_DAEMON_METRICS_KERNEL_H

#include "daemon/collect/meter.h"
#include "daemon/metrics/metric.h"

struct metric_kernel;

struct metric_kernel_config {
	const struct meters *meters;
	uint32_t series_max;
	uint8_t boot_id[16];		/* with the epoch, what trace ids are made of */
	uint64_t epoch;
	bool comm;
};

/* NULL: out of memory. */
struct metric_kernel *metric_kernel_create(const struct metric_kernel_config *config);
void metric_kernel_destroy(struct metric_kernel *kernel);

/* realtime_less_monotonic_ns: what to add to an event's time. */
void metric_kernel_add(struct metric_kernel *kernel, struct metric_builder *builder,
		       uint64_t realtime_less_monotonic_ns);

#endif
