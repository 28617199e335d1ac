/*
 * export_remote_write: a snapshot of metrics as Prometheus remote write 1.0: what a scrape of
 * /metrics would have brought, with the labels `job` and `instance` that the scrape would have added.
 * A histogram is one series for each bucket, cumulated, and its count and sum.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/kind.h"
#include "proto/export/remote_write.pb-c.h"
#include "proto/message.h"

#define LABELS_MAX	(METRIC_LABELS_MAX + 4u)	/* name, instance, job, le */
#define HISTOGRAM_SERIES (METER_BUCKETS + 2u)
#define TEXT_BYTES	32u
#define NAME_SUFFIX_BYTES 8u			/* "_bucket" */
#define SERIES_BYTES								\
	(sizeof(Ringtail__Prometheus__TimeSeries) + sizeof(Ringtail__Prometheus__Sample) + \
	 LABELS_MAX * (sizeof(Ringtail__Prometheus__Label) + sizeof(void *) + 16u) + \
	 3u * sizeof(void *) + 96u)
#define EXEMPLAR_BYTES								\
	(sizeof(Ringtail__Prometheus__Exemplar) + sizeof(Ringtail__Prometheus__Label) +	\
	 2u * sizeof(void *) + TRACE_ID_TEXT_BYTES + 96u)

struct making {
	const struct export_maker *maker;
	const struct metric_snapshot *snapshot;
	Ringtail__Prometheus__WriteRequest *request;
	char *le[METER_BUCKETS];	/* as texts */
};

static void *take(const struct making *making, size_t bytes)
{
	return export_arena_take(making->maker->arena, bytes);
}

/* ---- Series ---------------------------------------------------------------------------------- */

static Ringtail__Prometheus__Label *make_label(const struct making *making, const char *name,
					       const char *value)
{
	Ringtail__Prometheus__Label *label = take(making, sizeof(*label));

	ringtail__prometheus__label__init(label);
	label->name = (char *)name;
	label->value = (char *)value;
	return label;
}

static int compare_labels(const void *left, const void *right)
{
	const Ringtail__Prometheus__Label *a = *(Ringtail__Prometheus__Label *const *)left;
	const Ringtail__Prometheus__Label *b = *(Ringtail__Prometheus__Label *const *)right;

	return strcmp(a->name, b->name);
}

/* le: NULL, or which bucket. */
static void set_labels(const struct making *making, Ringtail__Prometheus__TimeSeries *series,
		       const char *name, const struct metric_point *point, const char *le)
{
	Ringtail__Prometheus__Label **list = take(making, LABELS_MAX * sizeof(*list));
	size_t n = 0;

	list[n++] = make_label(making, "__name__", name);
	list[n++] = make_label(making, "instance", making->maker->run->name);
	list[n++] = make_label(making, "job", "ringtail");
	if (le)
		list[n++] = make_label(making, "le", le);
	/* An empty value is the same as no label, and is not to be sent. */
	for (uint32_t i = 0; i < point->labels; i++)
		if (point->label[i].value[0])
			list[n++] = make_label(making, point->label[i].name, point->label[i].value);
	qsort(list, n, sizeof(*list), compare_labels);
	series->labels = list;
	series->n_labels = n;
}

static Ringtail__Prometheus__TimeSeries *add_series(struct making *making, const char *name,
						    const struct metric_point *point,
						    const char *le, double value)
{
	Ringtail__Prometheus__TimeSeries *series = take(making, sizeof(*series));
	Ringtail__Prometheus__Sample *sample = take(making, sizeof(*sample));

	ringtail__prometheus__time_series__init(series);
	ringtail__prometheus__sample__init(sample);
	sample->value = value;
	sample->timestamp = (int64_t)(making->snapshot->realtime_ns / 1000000);
	set_labels(making, series, name, point, le);
	series->samples = take(making, sizeof(*series->samples));
	series->samples[0] = sample;
	series->n_samples = 1;
	making->request->timeseries[making->request->n_timeseries++] = series;
	return series;
}

static void add_exemplar(struct making *making, Ringtail__Prometheus__TimeSeries *series,
			 const struct metric_exemplar *from)
{
	Ringtail__Prometheus__Exemplar *exemplar = take(making, sizeof(*exemplar));
	char *text = take(making, TRACE_ID_TEXT_BYTES);

	trace_id_text(from->trace_id, text);
	ringtail__prometheus__exemplar__init(exemplar);
	exemplar->value = from->seconds;
	exemplar->timestamp = (int64_t)(from->realtime_ns / 1000000);
	exemplar->labels = take(making, sizeof(*exemplar->labels));
	exemplar->labels[0] = make_label(making, "trace_id", text);
	exemplar->n_labels = 1;
	series->exemplars = take(making, sizeof(*series->exemplars));
	series->exemplars[0] = exemplar;
	series->n_exemplars = 1;
}

static char *suffixed(const struct making *making, const char *name, const char *suffix)
{
	size_t bytes = strlen(name) + NAME_SUFFIX_BYTES;
	char *text = take(making, bytes);

	snprintf(text, bytes, "%s%s", name, suffix);
	return text;
}

static void add_histogram(struct making *making, const struct metric_family *family,
			  const struct metric_point *point)
{
	const char *bucket = suffixed(making, family->name, "_bucket");
	const struct metric_histogram *from = point->histogram;
	uint64_t sum = 0;

	for (unsigned i = 0; i < METER_BUCKETS; i++) {
		Ringtail__Prometheus__TimeSeries *series;

		sum += from->bucket[i];
		series = add_series(making, bucket, point, making->le[i], (double)sum);
		if (from->exemplar[i])
			add_exemplar(making, series, from->exemplar[i]);
	}
	add_series(making, suffixed(making, family->name, "_count"), point, NULL,
		   (double)from->count);
	add_series(making, suffixed(making, family->name, "_sum"), point, NULL,
		   from->sum_seconds);
}

/* ---- Families -------------------------------------------------------------------------------- */

static void add_family(struct making *making, const struct metric_family *family)
{
	static const Ringtail__Prometheus__MetricType type[] = {
		[METRIC_COUNTER] = RINGTAIL__PROMETHEUS__METRIC_TYPE__COUNTER,
		[METRIC_GAUGE] = RINGTAIL__PROMETHEUS__METRIC_TYPE__GAUGE,
		[METRIC_HISTOGRAM] = RINGTAIL__PROMETHEUS__METRIC_TYPE__HISTOGRAM,
	};
	Ringtail__Prometheus__MetricMetadata *metadata = take(making, sizeof(*metadata));

	ringtail__prometheus__metric_metadata__init(metadata);
	metadata->type = type[family->type];
	metadata->metric_family_name = (char *)family->name;
	metadata->help = (char *)family->help;
	metadata->unit = (char *)family->unit;
	making->request->metadata[making->request->n_metadata++] = metadata;
	for (const struct metric_point *point = family->first; point; point = point->next)
		if (family->type == METRIC_HISTOGRAM)
			add_histogram(making, family, point);
		else
			add_series(making, family->name, point, NULL, point->value);
}

/* As /metrics writes them, so that both make the same series. */
static void write_bounds(struct making *making)
{
	for (unsigned i = 0; i < METER_BUCKETS; i++) {
		making->le[i] = take(making, TEXT_BYTES);
		if (i < METER_BUCKET_BOUNDS)
			snprintf(making->le[i], TEXT_BYTES, "%.12g", meter_bucket_seconds(i));
		else
			snprintf(making->le[i], TEXT_BYTES, "+Inf");
	}
}

static size_t arena_bytes(const struct metric_snapshot *snapshot, size_t *series)
{
	size_t bytes = METER_BUCKETS * TEXT_BYTES + 64;

	*series = 0;
	for (const struct metric_family *family = snapshot->first; family; family = family->next) {
		bytes += sizeof(Ringtail__Prometheus__MetricMetadata) + sizeof(void *) + 32;
		if (family->type == METRIC_HISTOGRAM) {
			bytes += family->points * (METER_BUCKETS * EXEMPLAR_BYTES +
						   3 * (strlen(family->name) + 32));
			*series += family->points * HISTOGRAM_SERIES;
		} else {
			*series += family->points;
		}
	}
	return bytes + *series * SERIES_BYTES;
}

static int build_metrics(const struct export_maker *maker, const struct metric_snapshot *snapshot,
			 struct export_body *body)
{
	Ringtail__Prometheus__WriteRequest request = RINGTAIL__PROMETHEUS__WRITE_REQUEST__INIT;
	struct making making = {maker, snapshot, &request, {0}};
	size_t series, bytes = arena_bytes(snapshot, &series);

	if (export_arena_reserve(maker->arena, bytes) != 0)
		return -ENOMEM;
	write_bounds(&making);
	request.timeseries = take(&making, series * sizeof(*request.timeseries));
	request.metadata = take(&making, snapshot->families * sizeof(*request.metadata));
	for (const struct metric_family *family = snapshot->first; family; family = family->next)
		add_family(&making, family);
	return export_body_pack(body, &request.base, snapshot->points);
}

/* ---- A part ---------------------------------------------------------------------------------- */

static bool is_bucket(const Ringtail__Prometheus__TimeSeries *series)
{
	for (size_t i = 0; i < series->n_labels; i++)
		if (strcmp(series->labels[i]->name, "le") == 0)
			return true;
	return false;
}

/* The series behind those of one point: a histogram's are its buckets, its count and its sum. */
static size_t skip_point(const Ringtail__Prometheus__WriteRequest *request, size_t at)
{
	bool histogram = false;

	while (at < request->n_timeseries && is_bucket(request->timeseries[at])) {
		histogram = true;
		at++;
	}
	at += histogram ? 2 : 1;
	return at < request->n_timeseries ? at : request->n_timeseries;
}

static int build_part(const uint8_t *body, size_t bytes, uint64_t from, uint64_t points,
		      struct export_body *part)
{
	Ringtail__Prometheus__WriteRequest *whole =
		message_unpack_checked(&ringtail__prometheus__write_request__descriptor, NULL,
				       body, bytes);	/* made here */
	Ringtail__Prometheus__WriteRequest request;
	size_t begin = 0, end;
	int err;

	if (!whole)
		return -ENOMEM;
	request = *whole;
	for (uint64_t i = 0; i < from; i++)
		begin = skip_point(whole, begin);
	end = begin;
	for (uint64_t i = 0; i < points; i++)
		end = skip_point(whole, end);
	request.timeseries += begin;
	request.n_timeseries = end - begin;
	err = export_body_pack(part, &request.base, points);
	ringtail__prometheus__write_request__free_unpacked(whole, NULL);
	return err;
}

static const char *const headers[] = {"X-Prometheus-Remote-Write-Version: 0.1.0", NULL};

const struct export_kind export_remote_write = {
	.name = "remote-write",
	.path = "/api/v1/write",
	.encoding = EXPORT_SNAPPY,
	.headers = headers,
	.build_metrics = build_metrics,
	.build_part = build_part,
	.judge = export_judge,
};
