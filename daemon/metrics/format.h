/*
 * metric_format: which format a scrape asks for; and a snapshot in that format: in one of the two texts that
 * Prometheus reads, its own, 0.0.4, and OpenMetrics 1.0.0, which has units, exemplars and an end; or as its protobuf
 * messages, which alone have native histograms, beside the classic ones. In: an Accept header, a snapshot; out: a
 * format, bytes. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_FORMAT_H
#define RINGTAIL_DAEMON_METRICS_FORMAT_H

#include <stdio.h>

#include "daemon/metrics/metric.h"

enum metric_format {
	METRIC_PROMETHEUS,
	METRIC_OPENMETRICS,
	METRIC_PROTOBUF,
	METRIC_FORMATS,
};

/* What an Accept header asks for; NULL is none. The one with the highest q; where they are equal, the last of
 * these that is named; Prometheus' own where none is. */
enum metric_format metric_format_negotiate(const char *accept);

const char *metric_format_content_type(enum metric_format format);

/* -ENOMEM: what was written is not whole. */
int metric_format_write(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out);

#endif
