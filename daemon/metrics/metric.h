/*
 * metric: everything the daemon has to say of itself and of the kernel at one moment, as families of
 * points: what /metrics renders, and what the exporters push.
 *
 *	snapshot ─ family ─ family ─ ...	ringtail_syscall_errors_total, a counter
 *	             └ point ─ point ─ ...	{syscall="openat", errno="ENOENT"} 12
 *
 * A snapshot is built on the main thread, then ended; from then on nobody changes it, and any thread
 * may read it and give its reference back. Its memory is one arena with a bound: what finds no room
 * is counted in `dropped`, and running out of memory fails the whole snapshot at its end.
 */
#ifndef RINGTAIL_DAEMON_METRICS_METRIC_H
#define RINGTAIL_DAEMON_METRICS_METRIC_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/base/trace_id.h"
#include "daemon/collect/meter_bucket.h"

#define METRIC_LABELS_MAX	4u

enum metric_type {
	METRIC_COUNTER,		/* only grows, from 0 at snapshot.start_realtime_ns; named .._total */
	METRIC_GAUGE,
	METRIC_HISTOGRAM,	/* of seconds */
};

struct metric_label {
	const char *name;
	const char *value;	/* UTF-8, neither escaped nor quoted */
};

/* An event of a bucket, and the trace that contains it. */
struct metric_exemplar {
	uint8_t trace_id[TRACE_ID_BYTES];
	double seconds;
	uint64_t realtime_ns;
};

/* How many are in a cell of the meter's (daemon/collect/meter_bucket.h). */
struct metric_cell {
	uint32_t cell;
	uint64_t count;
};

struct metric_histogram {
	uint64_t count;		/* the sum of the buckets */
	double sum_seconds;
	uint64_t bucket[METER_BUCKETS];	/* not cumulated; the last is beyond every bound */
	const struct metric_exemplar *exemplar[METER_BUCKETS]; /* NULL: none */
	uint32_t cells;
	const struct metric_cell *cell;	/* the same as the buckets, finer; those that are not empty, in order */
};

struct metric_point {
	const struct metric_point *next;
	uint32_t labels;
	struct metric_label label[METRIC_LABELS_MAX];
	double value;		/* counter, gauge; whole numbers are exact up to 2^53 */
	const struct metric_histogram *histogram; /* METRIC_HISTOGRAM alone */
};

struct metric_family {
	const struct metric_family *next;
	const char *name;	/* as Prometheus says it: with unit and _total */
	const char *help;	/* a sentence without its full stop */
	const char *unit;	/* "seconds", "bytes", or "" for a plain number */
	enum metric_type type;
	uint32_t points;
	const struct metric_point *first;
};

struct metric_snapshot {
	uint64_t realtime_ns;		/* of this snapshot */
	uint64_t start_realtime_ns;	/* since when counters count */
	uint32_t families, points;
	uint32_t dropped;		/* points that found no room */
	const struct metric_family *first;
};

/* By whoever has it, on whichever thread. */
void metric_snapshot_destroy(const struct metric_snapshot *snapshot);

/* ---- Making one ------------------------------------------------------------------------------ */

struct metric_builder;

/* bytes_max: of the arena. NULL: out of memory. */
struct metric_builder *metric_builder_create(uint64_t bytes_max);
void metric_builder_destroy(struct metric_builder *builder);

/* The points that follow are of this family. Name, help and unit are borrowed and must be static. */
void metric_begin(struct metric_builder *builder, enum metric_type type, const char *name,
		  const char *unit, const char *help);

/* A point; labels are copied, their names borrowed. */
void metric_add(struct metric_builder *builder, double value, const struct metric_label *label,
		uint32_t labels);

/* A copy of a label's name, for one that is not static; it lives as long as the snapshot. */
const char *metric_keep(struct metric_builder *builder, const char *name);

/* A copy of a histogram and its exemplars. */
void metric_add_histogram(struct metric_builder *builder, const struct metric_histogram *histogram,
			  const struct metric_label *label, uint32_t labels);

/*
 * Ends the building: frees the builder, and returns one reference to the caller. A family without
 * points is left out. NULL: out of memory.
 */
const struct metric_snapshot *metric_builder_end(struct metric_builder *builder,
						 uint64_t realtime_ns, uint64_t start_realtime_ns);

#endif
