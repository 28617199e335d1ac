/*
 * metric_text: a snapshot as text, in one of the two formats that Prometheus reads: its own, 0.0.4,
 * and OpenMetrics 1.0.0, which has units, exemplars and an end. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_TEXT_H
#define RINGTAIL_DAEMON_METRICS_TEXT_H

#include <stdio.h>

#include "daemon/metrics/metric.h"

enum metric_format {
	METRIC_PROMETHEUS,
	METRIC_OPENMETRICS,
};

/* What an Accept header asks for; NULL is none. The one with the higher q; where they are equal, or
 * neither is named, Prometheus' own unless OpenMetrics is named. */
enum metric_format metric_text_negotiate(const char *accept);

const char *metric_text_content_type(enum metric_format format);

void metric_text_write(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out);

#endif
