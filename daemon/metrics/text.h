/*
 * metric_text: which format a scrape asks for; and a snapshot as text, in one of the two formats that
 * Prometheus reads: its own, 0.0.4, and OpenMetrics 1.0.0, which has units, exemplars and an end. In: an
 * Accept header, a snapshot; out: a format, text. Pure; any thread.
 */
#ifndef RINGTAIL_DAEMON_METRICS_TEXT_H
#define RINGTAIL_DAEMON_METRICS_TEXT_H

#include <stdio.h>

#include "daemon/metrics/metric.h"

enum metric_format {
	METRIC_PROMETHEUS,
	METRIC_OPENMETRICS,
	METRIC_PROTOBUF,	/* metric_exposition writes it */
	METRIC_FORMATS,
};

/* What an Accept header asks for; NULL is none. The one with the highest q; where they are equal, the last of
 * these that is named; Prometheus' own where none is. */
enum metric_format metric_text_negotiate(const char *accept);

const char *metric_text_content_type(enum metric_format format);

/* A format that is text. */
void metric_text_write(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out);

#endif
