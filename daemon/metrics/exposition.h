/*
 * metric_exposition: a snapshot as the protobuf messages that Prometheus reads. It alone has native
 * histograms, beside the classic ones that the text formats have too. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_EXPOSITION_H
#define RINGTAIL_DAEMON_METRICS_EXPOSITION_H

#include <stdio.h>

#include "daemon/metrics/metric.h"

/* -ENOMEM; what was written then is not whole. */
int metric_exposition_write(const struct metric_snapshot *snapshot, FILE *out);

#endif
