/*
 * metric_self: the collector's own health as families of metrics: every counter, the ledgers, what it
 * costs. In: the Stat message that `tracectl stat` shows, so that both say the same, and what the
 * kernel says of this process. Main thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_SELF_H
#define RINGTAIL_DAEMON_METRICS_SELF_H

#include "daemon/metrics/metric.h"
#include "proto/ringtail.pb-c.h"

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

void metric_self_add(struct metric_builder *builder, const Ringtail__V1__Stat *stat,
		     const struct metric_process *process);

/* "ring", "queue_full": a loss's stage and reason as labels say them. */
const char *metric_stage_name(Ringtail__V1__LossStage stage);
const char *metric_reason_name(Ringtail__V1__LossReason reason);

#endif
