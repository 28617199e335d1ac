/*
 * metric_source: makes snapshots of all metrics. In: the meters, the daemon's stat, what the kernel says of
 * this process. Out: snapshots, which are anybody's. Main thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_SOURCE_H
#define RINGTAIL_DAEMON_METRICS_SOURCE_H

#include "daemon/collect/meter.h"
#include "daemon/metrics/metric.h"
#include "daemon/metrics/stat.h"

struct metric_source;
struct transport_tls_context;

struct metric_source_config {
	/* How the daemon stands, for daemon_stat_free(); NULL: out of memory. */
	struct daemon_stat *(*stat)(void *context);
	void *context;
	/* Adds the metrics of other rooms; NULL: none. */
	void (*tell)(void *context, struct metric_builder *builder);
	void *tell_context;
	const struct meters *meters;	/* borrowed */
	uint32_t series_max;
	bool comm;
	uint8_t boot_id[16];
	uint64_t epoch;
	int process_fd;			/* metric_process_open()'s; the source's from then on */
	const struct transport_tls_context *tls;	/* borrowed; NULL: there is none */
};

/* NULL: out of memory. */
struct metric_source *metric_source_create(const struct metric_source_config *config);
void metric_source_destroy(struct metric_source *source);

/* All there is to say now; one reference is the caller's. NULL: out of memory. */
const struct metric_snapshot *metric_source_take(struct metric_source *source);

/* How the daemon stands, alone; for daemon_stat_free(). NULL: out of memory. */
struct daemon_stat *metric_source_stat(struct metric_source *source);

#endif
