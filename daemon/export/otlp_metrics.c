/*
 * export_otlp_metrics: a snapshot of metrics as OTLP: counters are cumulative sums since the start,
 * histograms have explicit bounds, and both have exemplars. Names are those of /metrics.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/otlp.h"
#include "proto/message.h"

/* Of a family with its lists, and of a point; on the safe side of the arena's rounding. */
#define FAMILY_BYTES	(sizeof(Ringtail__Otlp__Metric) + sizeof(Ringtail__Otlp__Histogram) + \
			 sizeof(void *) + 64u)
#define LABEL_BYTES	(sizeof(Ringtail__Otlp__KeyValue) + sizeof(Ringtail__Otlp__AnyValue) + \
			 sizeof(void *) + 48u)
#define EXEMPLAR_BYTES	(sizeof(Ringtail__Otlp__Exemplar) + sizeof(void *) + 32u)
#define POINT_BYTES	(sizeof(Ringtail__Otlp__HistogramPoint) + sizeof(void *) +	\
			 METRIC_LABELS_MAX * LABEL_BYTES + 64u)
#define HISTOGRAM_BYTES	(METER_BUCKETS * (sizeof(uint64_t) + EXEMPLAR_BYTES) + 32u)

struct making {
	const struct export_maker *maker;
	const struct metric_snapshot *snapshot;
	double *bounds;			/* of every histogram */
};

static void *take(const struct making *making, size_t bytes)
{
	return export_arena_take(making->maker->arena, bytes);
}

static void set_labels(const struct making *making, const struct metric_point *point,
		       Ringtail__Otlp__KeyValue ***list, size_t *n)
{
	struct otlp_attributes attributes;

	otlp_attributes_init(&attributes, making->maker->arena, METRIC_LABELS_MAX);
	for (uint32_t i = 0; i < point->labels; i++)
		otlp_add_text(&attributes, point->label[i].name, point->label[i].value);
	*list = attributes.list;
	*n = attributes.n;
}

static Ringtail__Otlp__NumberPoint *make_number(const struct making *making,
						const struct metric_family *family,
						const struct metric_point *point)
{
	Ringtail__Otlp__NumberPoint *number = take(making, sizeof(*number));

	ringtail__otlp__number_point__init(number);
	if (family->type == METRIC_COUNTER)
		number->start_time_unix_nano = making->snapshot->start_realtime_ns;
	number->time_unix_nano = making->snapshot->realtime_ns;
	number->value_case = RINGTAIL__OTLP__NUMBER_POINT__VALUE_AS_DOUBLE;
	number->as_double = point->value;
	set_labels(making, point, &number->attributes, &number->n_attributes);
	return number;
}

static Ringtail__Otlp__Exemplar *make_exemplar(const struct making *making,
					       const struct metric_exemplar *from)
{
	Ringtail__Otlp__Exemplar *exemplar = take(making, sizeof(*exemplar));

	ringtail__otlp__exemplar__init(exemplar);
	exemplar->time_unix_nano = from->realtime_ns;
	exemplar->value_case = RINGTAIL__OTLP__EXEMPLAR__VALUE_AS_DOUBLE;
	exemplar->as_double = from->seconds;
	exemplar->trace_id.data = (uint8_t *)from->trace_id;
	exemplar->trace_id.len = TRACE_ID_BYTES;
	return exemplar;
}

static Ringtail__Otlp__HistogramPoint *make_histogram(const struct making *making,
						      const struct metric_point *point)
{
	const struct metric_histogram *from = point->histogram;
	Ringtail__Otlp__HistogramPoint *histogram = take(making, sizeof(*histogram));

	ringtail__otlp__histogram_point__init(histogram);
	histogram->start_time_unix_nano = making->snapshot->start_realtime_ns;
	histogram->time_unix_nano = making->snapshot->realtime_ns;
	histogram->count = from->count;
	histogram->has_sum_case = RINGTAIL__OTLP__HISTOGRAM_POINT__HAS_SUM_SUM;
	histogram->sum = from->sum_seconds;
	histogram->bucket_counts = (uint64_t *)from->bucket;
	histogram->n_bucket_counts = METER_BUCKETS;
	histogram->explicit_bounds = making->bounds;
	histogram->n_explicit_bounds = METER_BUCKET_BOUNDS;
	histogram->exemplars = take(making, METER_BUCKETS * sizeof(*histogram->exemplars));
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		if (from->exemplar[i])
			histogram->exemplars[histogram->n_exemplars++] =
				make_exemplar(making, from->exemplar[i]);
	set_labels(making, point, &histogram->attributes, &histogram->n_attributes);
	return histogram;
}

static Ringtail__Otlp__NumberPoint **make_numbers(const struct making *making,
						  const struct metric_family *family, size_t *n)
{
	Ringtail__Otlp__NumberPoint **list = take(making, family->points * sizeof(*list));

	for (const struct metric_point *point = family->first; point; point = point->next)
		list[(*n)++] = make_number(making, family, point);
	return list;
}

static void make_data(const struct making *making, const struct metric_family *family,
		      Ringtail__Otlp__Metric *metric)
{
	switch (family->type) {
	case METRIC_GAUGE:
		metric->data_case = RINGTAIL__OTLP__METRIC__DATA_GAUGE;
		metric->gauge = take(making, sizeof(*metric->gauge));
		ringtail__otlp__gauge__init(metric->gauge);
		metric->gauge->data_points = make_numbers(making, family,
							  &metric->gauge->n_data_points);
		break;
	case METRIC_COUNTER:
		metric->data_case = RINGTAIL__OTLP__METRIC__DATA_SUM;
		metric->sum = take(making, sizeof(*metric->sum));
		ringtail__otlp__sum__init(metric->sum);
		metric->sum->aggregation_temporality =
			RINGTAIL__OTLP__TEMPORALITY__TEMPORALITY_CUMULATIVE;
		metric->sum->is_monotonic = true;
		metric->sum->data_points = make_numbers(making, family,
							&metric->sum->n_data_points);
		break;
	case METRIC_HISTOGRAM:
		metric->data_case = RINGTAIL__OTLP__METRIC__DATA_HISTOGRAM;
		metric->histogram = take(making, sizeof(*metric->histogram));
		ringtail__otlp__histogram__init(metric->histogram);
		metric->histogram->aggregation_temporality =
			RINGTAIL__OTLP__TEMPORALITY__TEMPORALITY_CUMULATIVE;
		metric->histogram->data_points =
			take(making, family->points * sizeof(*metric->histogram->data_points));
		for (const struct metric_point *point = family->first; point; point = point->next)
			metric->histogram->data_points[metric->histogram->n_data_points++] =
				make_histogram(making, point);
	}
}

/* "s" and "By" are what UCUM calls them. */
static const char *unit_of(const struct metric_family *family)
{
	if (strcmp(family->unit, "seconds") == 0)
		return "s";
	return strcmp(family->unit, "bytes") == 0 ? "By" : family->unit;
}

static Ringtail__Otlp__Metric *make_metric(const struct making *making,
					   const struct metric_family *family)
{
	Ringtail__Otlp__Metric *metric = take(making, sizeof(*metric));

	ringtail__otlp__metric__init(metric);
	metric->name = (char *)family->name;
	metric->description = (char *)family->help;
	metric->unit = (char *)unit_of(family);
	make_data(making, family, metric);
	return metric;
}

static size_t arena_bytes(const struct metric_snapshot *snapshot)
{
	size_t bytes = OTLP_COMMON_BYTES + METER_BUCKET_BOUNDS * sizeof(double) + 64;

	for (const struct metric_family *family = snapshot->first; family; family = family->next) {
		bytes += FAMILY_BYTES + family->points * POINT_BYTES;
		if (family->type == METRIC_HISTOGRAM)
			bytes += family->points * HISTOGRAM_BYTES;
	}
	return bytes + snapshot->families * sizeof(void *);
}

static int build_metrics(const struct export_maker *maker, const struct metric_snapshot *snapshot,
			 struct export_body *body)
{
	Ringtail__Otlp__MetricsRequest request = RINGTAIL__OTLP__METRICS_REQUEST__INIT;
	Ringtail__Otlp__ResourceMetrics resource = RINGTAIL__OTLP__RESOURCE_METRICS__INIT;
	Ringtail__Otlp__ScopeMetrics scope = RINGTAIL__OTLP__SCOPE_METRICS__INIT;
	Ringtail__Otlp__ResourceMetrics *resources = &resource;
	Ringtail__Otlp__ScopeMetrics *scopes = &scope;
	struct making making = {.maker = maker, .snapshot = snapshot};

	if (export_arena_reserve(maker->arena, arena_bytes(snapshot)) != 0)
		return -ENOMEM;
	making.bounds = take(&making, METER_BUCKET_BOUNDS * sizeof(*making.bounds));
	for (unsigned i = 0; i < METER_BUCKET_BOUNDS; i++)
		making.bounds[i] = meter_bucket_seconds(i);
	scope.metrics = take(&making, snapshot->families * sizeof(*scope.metrics));
	for (const struct metric_family *family = snapshot->first; family; family = family->next)
		scope.metrics[scope.n_metrics++] = make_metric(&making, family);
	scope.scope = otlp_scope(maker);
	resource.resource = otlp_resource(maker, false);
	resource.schema_url = scope.schema_url = OTLP_SCHEMA_URL;
	resource.scope_metrics = &scopes;
	resource.n_scope_metrics = 1;
	request.resource_metrics = &resources;
	request.n_resource_metrics = 1;
	body->items = snapshot->points;
	return otlp_pack(&request.base, body);
}

/* ---- A part ---------------------------------------------------------------------------------- */

/* All three kinds of data begin with their points. */
static size_t *points_of(Ringtail__Otlp__Metric *metric, void ****list)
{
	switch (metric->data_case) {
	case RINGTAIL__OTLP__METRIC__DATA_GAUGE:
		*list = (void ***)&metric->gauge->data_points;
		return &metric->gauge->n_data_points;
	case RINGTAIL__OTLP__METRIC__DATA_SUM:
		*list = (void ***)&metric->sum->data_points;
		return &metric->sum->n_data_points;
	case RINGTAIL__OTLP__METRIC__DATA_HISTOGRAM:
		*list = (void ***)&metric->histogram->data_points;
		return &metric->histogram->n_data_points;
	default:
		return NULL;
	}
}

/* What a metric's list was before it was cut, and is again before it is freed. */
struct cut {
	size_t n;
	void **list;
};

/* Leaves the points from `from` on, so many, of all metrics together. */
static void cut_points(Ringtail__Otlp__ScopeMetrics *scope, struct cut *cut, uint64_t from,
		       uint64_t points)
{
	for (size_t i = 0; i < scope->n_metrics; i++) {
		void ***list;
		size_t *n = points_of(scope->metrics[i], &list), skipped, left;

		if (!n)
			continue;
		cut[i] = (struct cut){*n, *list};
		skipped = from < *n ? from : *n;
		left = *n - skipped < points ? *n - skipped : points;
		from -= skipped;
		points -= left;
		*list += skipped;
		*n = left;
	}
}

static void uncut_points(Ringtail__Otlp__ScopeMetrics *scope, const struct cut *cut)
{
	for (size_t i = 0; i < scope->n_metrics; i++) {
		void ***list;
		size_t *n = points_of(scope->metrics[i], &list);

		if (!n)
			continue;
		*n = cut[i].n;
		*list = cut[i].list;
	}
}

/* Without the metrics that have no points left. */
static int pack_cut(Ringtail__Otlp__MetricsRequest *request, Ringtail__Otlp__ScopeMetrics *scope,
		    struct export_body *part)
{
	Ringtail__Otlp__Metric **all = scope->metrics, **some = calloc(scope->n_metrics + 1,
								       sizeof(*some));
	size_t n = scope->n_metrics;
	int err;

	if (!some)
		return -ENOMEM;
	scope->metrics = some;
	scope->n_metrics = 0;
	for (size_t i = 0; i < n; i++) {
		void ***list;
		const size_t *points = points_of(all[i], &list);

		if (points && *points)
			some[scope->n_metrics++] = all[i];
	}
	err = otlp_pack(&request->base, part);
	scope->metrics = all;
	scope->n_metrics = n;
	free(some);
	return err;
}

static int build_part(const uint8_t *body, size_t bytes, uint64_t from, uint64_t points,
		      struct export_body *part)
{
	Ringtail__Otlp__MetricsRequest *request =
		message_unpack_checked(&ringtail__otlp__metrics_request__descriptor, NULL, body,
				       bytes);	/* made here */
	Ringtail__Otlp__ScopeMetrics *scope;
	struct cut *cut;
	int err = -ENOMEM;

	if (!request)
		return err;
	scope = request->resource_metrics[0]->scope_metrics[0];
	cut = calloc(scope->n_metrics + 1, sizeof(*cut));
	if (cut) {
		cut_points(scope, cut, from, points);
		part->items = points;
		err = pack_cut(request, scope, part);
		uncut_points(scope, cut);
	}
	free(cut);
	ringtail__otlp__metrics_request__free_unpacked(request, NULL);
	return err;
}

const struct export_kind export_otlp_metrics = {
	.name = "otlp-metrics",
	.path = "/v1/metrics",
	.encoding = EXPORT_GZIP,
	.build_metrics = build_metrics,
	.build_part = build_part,
	.judge = otlp_judge,
};
