/*
 * metric_self: the collector's own health as families of metrics: every counter, the ledgers, what it
 * costs. In: what `tracectl stat` is made of too (stat.h), so that both say the same, and what the
 * kernel says of this process. Out: families of a snapshot. Main thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_SELF_H
#define RINGTAIL_DAEMON_METRICS_SELF_H

#include "daemon/metrics/metric.h"
#include "daemon/metrics/stat.h"

/* What this process takes. */
struct metric_process {
	double cpu_seconds;
	uint64_t resident_bytes;	/* 0: not known */
};

/*
 * Opens what metric_process_read() reads, while /proc is to be seen. -errno: the resident size stays
 * unknown. The descriptor is the caller's.
 */
int metric_process_open(void);
void metric_process_read(int fd, struct metric_process *process);

void metric_self_add(struct metric_builder *builder, const struct daemon_stat *stat,
		     const struct metric_process *process);

/* Of a stream's losses, a point each, in the family that was begun. */
void metric_stream_losses(struct metric_builder *builder, struct metric_label owner, const struct stat_losses *losses);

/* "ring", "queue_full": a loss's stage and reason as labels say them. */
const char *metric_stage_name(unsigned stage);
const char *metric_reason_name(unsigned reason);

#endif
