/*
 * A snapshot of metrics as each kind pushes it, to the letter; and each part of it: all points of one after
 * another, none twice, and none of a metric that has no point in it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/export/kind.h"
#include "proto/export/otlp.pb-c.h"
#include "proto/export/remote_write.pb-c.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/export_make.h"
#include "tests/unit/daemon/export_show.h"

#define POINTS	6u
#define SERIES	(METER_BUCKETS + 2u)	/* of a histogram */
#define TRACE	"01000000000000000000000000000000"

static const struct metric_snapshot *make_snapshot(void)
{
	static const struct metric_exemplar exemplar = {{1}, 0.25, 77000000};
	const struct metric_label label[] = {{"zone", "b"}, {"area", "a"}, {"none", ""}};
	struct metric_histogram histogram = {.count = 6, .sum_seconds = 1.5, .bucket = {1, 2, [27] = 3}};
	struct metric_builder *builder = metric_builder_create(1 << 20);

	histogram.exemplar[1] = histogram.exemplar[27] = &exemplar;
	metric_begin(builder, METRIC_COUNTER, "x_total", "", "Things");
	metric_add(builder, 12, label, 3);
	metric_add(builder, 13, NULL, 0);
	metric_begin(builder, METRIC_GAUGE, "x_bytes", "bytes", "Room");
	metric_add(builder, -0.5, label, 1);
	metric_begin(builder, METRIC_HISTOGRAM, "x_seconds", "seconds", "How long");
	metric_add_histogram(builder, &histogram, label, 1);
	histogram = (struct metric_histogram){0};
	metric_add_histogram(builder, &histogram, NULL, 0);
	metric_begin(builder, METRIC_GAUGE, "last", "", "The last");
	metric_add(builder, 1, NULL, 0);
	return metric_builder_end(builder, 5000000000, 1000000000);
}

static struct export_body make(const struct export_kind *kind)
{
	const struct metric_snapshot *snapshot = make_snapshot();
	struct export_host *host = make_host(1, NULL);
	struct export_arena arena = {0};
	struct export_maker maker = {host->run, &arena, 0};
	struct export_body body = {0};

	strcpy(host->run->name, "box");
	assert_int_equal(kind->build_metrics(&maker, snapshot, &body), 0);
	assert_int_equal(body.items, POINTS);
	export_arena_fini(&arena);
	export_host_destroy(host);
	metric_snapshot_destroy(snapshot);
	return body;
}

static char *shown(const ProtobufCMessage *message)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	show(out, message);
	fclose(out);
	return text;
}

static void expect(const void *message, const char *wanted)
{
	char *text = shown(message);

	assert_string_equal(text, wanted);
	free(text);
}

/* ---- OTLP ------------------------------------------------------------------------------------ */

static Ringtail__Otlp__MetricsRequest *unpack_otlp(const struct export_body *body)
{
	Ringtail__Otlp__MetricsRequest *request = ringtail__otlp__metrics_request__unpack(NULL, body->bytes, body->data);

	assert_non_null(request);
	return request;
}

/* A point of a histogram: bounds are powers of two, in ns from 256 on. */
static void put_histogram(FILE *out, uint64_t count, double sum, uint64_t first, uint64_t second, uint64_t last)
{
	fputs("{start_time_unix_nano=1000000000 time_unix_nano=5000000000", out);
	if (count)
		fprintf(out, " count=%u", (unsigned)count);
	fprintf(out, " sum=%.17g bucket_counts=[", sum);
	for (unsigned i = 0; i < METER_BUCKETS; i++)
		fprintf(out, "%s%u", i ? " " : "", (unsigned)(i == 0 ? first : i == 1 ? second : i == 27 ? last : 0));
	fputs("] explicit_bounds=[", out);
	for (unsigned i = 0; i < METER_BUCKET_BOUNDS; i++)
		fprintf(out, "%s%.17g", i ? " " : "", (double)(256ull << i) / 1e9);
	fputc(']', out);
	for (unsigned i = 0; count && i < 2; i++)
		fprintf(out, "%s{time_unix_nano=77000000 as_double=0.25 trace_id=" TRACE "}", i ? " " : " exemplars=[");
	fputs(count ? "] attributes=[zone='b']}" : "}", out);
}

static void otlp(void **state)
{
	struct export_body body = make(&export_otlp_metrics);
	Ringtail__Otlp__MetricsRequest *request = unpack_otlp(&body);
	Ringtail__Otlp__ResourceMetrics *resource = request->resource_metrics[0];
	Ringtail__Otlp__ScopeMetrics *scope = resource->scope_metrics[0];
	char *wanted = NULL;
	size_t bytes, n, attributes;
	FILE *out = open_memstream(&wanted, &bytes);

	(void)state;
	assert_int_equal(scope->n_metrics, 4);
	expect(scope->metrics[0],
	       "{name='x_total' description='Things' sum={data_points=["
	       "{start_time_unix_nano=1000000000 time_unix_nano=5000000000 as_double=12 attributes=[zone='b' area='a' none='']} "
	       "{start_time_unix_nano=1000000000 time_unix_nano=5000000000 as_double=13}]"
	       " aggregation_temporality=2 is_monotonic=true}}");
	expect(scope->metrics[1], "{name='x_bytes' description='Room' unit='By' gauge={data_points=["
	       "{time_unix_nano=5000000000 as_double=-0.5 attributes=[zone='b']}]}}");
	fputs("{name='x_seconds' description='How long' unit='s' histogram={data_points=[", out);
	put_histogram(out, 6, 1.5, 1, 2, 3);
	fputc(' ', out);
	put_histogram(out, 0, 0, 0, 0, 0);
	fputs("] aggregation_temporality=2}}", out);
	fclose(out);
	expect(scope->metrics[2], wanted);
	n = scope->n_metrics;
	attributes = resource->resource->n_attributes;
	scope->n_metrics = 0;
	resource->resource->n_attributes = 3;
	expect(resource, "{resource={attributes=[service.name='ringtail'"
	       " service.instance.id='box' host.name='box']} scope_metrics=[{scope={name='ringtail'}"
	       " schema_url='https://opentelemetry.io/schemas/1.29.0'}]"
	       " schema_url='https://opentelemetry.io/schemas/1.29.0'}");
	scope->n_metrics = n;
	resource->resource->n_attributes = attributes;
	ringtail__otlp__metrics_request__free_unpacked(request, NULL);
	free(wanted);
	free(body.data);
}

static bool has_attribute(const Ringtail__Otlp__Resource *resource, const char *key)
{
	for (size_t i = 0; i < resource->n_attributes; i++)
		if (!strcmp(resource->attributes[i]->key, key))
			return true;
	return false;
}

/* A back end makes new series of each resource, and a collector of each version of a scope. */
static void otlp_resource_is_the_host_over_boots_and_upgrades(void **state)
{
	static const char *const changes[] = {"ringtail.boot.id", "service.version", "os.version"};
	struct export_body body = make(&export_otlp_metrics);
	Ringtail__Otlp__MetricsRequest *request = unpack_otlp(&body);

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		assert_false(has_attribute(request->resource_metrics[0]->resource, changes[i]));
	assert_true(has_attribute(request->resource_metrics[0]->resource, "os.type"));
	assert_string_equal(request->resource_metrics[0]->scope_metrics[0]->scope->version, "");
	ringtail__otlp__metrics_request__free_unpacked(request, NULL);
	free(body.data);
}

/* The points of each metric that is there, as `name:points `. */
static void otlp_parts(void **state)
{
	static const struct {
		unsigned from, points;
		const char *wanted;
	} row[] = {
		{0, 6, "x_total:2 x_bytes:1 x_seconds:2 last:1 "}, {0, 3, "x_total:2 x_bytes:1 "},
		{3, 3, "x_seconds:2 last:1 "}, {0, 1, "x_total:1 "}, {1, 1, "x_total:1 "}, {1, 2, "x_total:1 x_bytes:1 "},
		{4, 2, "x_seconds:1 last:1 "}, {5, 1, "last:1 "}, {2, 1, "x_bytes:1 "},
	};
	struct export_body body = make(&export_otlp_metrics);

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		Ringtail__Otlp__MetricsRequest *request;
		struct export_body part = {0};
		char text[200] = "";

		assert_int_equal(export_otlp_metrics.build_part(body.data, body.bytes, row[i].from, row[i].points, &part), 0);
		assert_int_equal(part.items, row[i].points);
		request = unpack_otlp(&part);
		for (size_t j = 0; j < request->resource_metrics[0]->scope_metrics[0]->n_metrics; j++) {
			const Ringtail__Otlp__Metric *metric = request->resource_metrics[0]->scope_metrics[0]->metrics[j];
			size_t n = metric->gauge ? metric->gauge->n_data_points : 0;

			if (metric->data_case == RINGTAIL__OTLP__METRIC__DATA_SUM)
				n = metric->sum->n_data_points;
			else if (metric->data_case == RINGTAIL__OTLP__METRIC__DATA_HISTOGRAM)
				n = metric->histogram->n_data_points;
			snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s:%zu ", metric->name, n);
		}
		assert_string_equal(text, row[i].wanted);
		/* The second of two is not the first. */
		if (row[i].from == 1)
			assert_true(request->resource_metrics[0]->scope_metrics[0]->metrics[0]->sum->data_points[0]->as_double ==
				    13);
		ringtail__otlp__metrics_request__free_unpacked(request, NULL);
		free(part.data);
	}
	assert_int_not_equal(export_otlp_metrics.build_part((const uint8_t *)"\xff", 1, 0, 1, &(struct export_body){0}), 0);
	free(body.data);
}

/* ---- Remote write ---------------------------------------------------------------------------- */

static Ringtail__Prometheus__WriteRequest *unpack_write(const struct export_body *body)
{
	Ringtail__Prometheus__WriteRequest *request = ringtail__prometheus__write_request__unpack(NULL, body->bytes,
											       body->data);

	assert_non_null(request);
	return request;
}

/* The series of the histogram's bucket i, whose first point has a label, the second none. */
static void expect_bucket(const void *series, unsigned i, bool first)
{
	const unsigned sum = !first ? 0 : i == 0 ? 1 : i < 27 ? 3 : 6;
	char wanted[512], le[32], value[32] = "";

	if (i < METER_BUCKET_BOUNDS)
		snprintf(le, sizeof(le), "%.12g", (double)(256ull << i) / 1e9);
	else
		strcpy(le, "+Inf");
	if (sum)
		snprintf(value, sizeof(value), "value=%u ", sum);
	snprintf(wanted, sizeof(wanted), "{labels=[__name__='x_seconds_bucket' instance='box' job='ringtail' le='%s'%s]"
		 " samples=[{%stimestamp=5000}]%s}", le, first ? " zone='b'" : "", value,
		 first && (i == 1 || i == 27) ?
		 " exemplars=[{labels=[trace_id='" TRACE "'] value=0.25 timestamp=77}]" : "");
	expect(series, wanted);
}

static void remote_write(void **state)
{
	struct export_body body = make(&export_remote_write);
	Ringtail__Prometheus__WriteRequest *request = unpack_write(&body);
	Ringtail__Prometheus__TimeSeries **series = request->timeseries;

	(void)state;
	assert_int_equal(request->n_timeseries, 2 + 1 + 2 * SERIES + 1);
	expect(series[0], "{labels=[__name__='x_total' area='a' instance='box' job='ringtail' zone='b']"
	       " samples=[{value=12 timestamp=5000}]}");
	expect(series[1], "{labels=[__name__='x_total' instance='box' job='ringtail'] samples=[{value=13 timestamp=5000}]}");
	expect(series[2], "{labels=[__name__='x_bytes' instance='box' job='ringtail' zone='b']"
	       " samples=[{value=-0.5 timestamp=5000}]}");
	for (unsigned i = 0; i < METER_BUCKETS; i++) {
		expect_bucket(series[3 + i], i, true);
		expect_bucket(series[3 + SERIES + i], i, false);
	}
	expect(series[3 + METER_BUCKETS], "{labels=[__name__='x_seconds_count' instance='box' job='ringtail' zone='b']"
	       " samples=[{value=6 timestamp=5000}]}");
	expect(series[4 + METER_BUCKETS], "{labels=[__name__='x_seconds_sum' instance='box' job='ringtail' zone='b']"
	       " samples=[{value=1.5 timestamp=5000}]}");
	expect(series[3 + 2 * SERIES], "{labels=[__name__='last' instance='box' job='ringtail']"
	       " samples=[{value=1 timestamp=5000}]}");
	assert_int_equal(request->n_metadata, 4);
	expect(request->metadata[0], "{type=1 metric_family_name='x_total' help='Things'}");
	expect(request->metadata[1], "{type=2 metric_family_name='x_bytes' help='Room' unit='bytes'}");
	expect(request->metadata[2], "{type=3 metric_family_name='x_seconds' help='How long' unit='seconds'}");
	ringtail__prometheus__write_request__free_unpacked(request, NULL);
	free(body.data);
}

static void remote_write_parts(void **state)
{
	static const struct {
		unsigned from, points, first, series;	/* of the whole */
	} row[] = {
		{0, 6, 0, 4 + 2 * SERIES}, {0, 3, 0, 3}, {3, 3, 3, 1 + 2 * SERIES}, {1, 1, 1, 1}, {2, 2, 2, 1 + SERIES},
		{4, 1, 3 + SERIES, SERIES}, {4, 2, 3 + SERIES, SERIES + 1}, {5, 1, 3 + 2 * SERIES, 1},
		{5, 9, 3 + 2 * SERIES, 1},
	};
	struct export_body body = make(&export_remote_write);
	Ringtail__Prometheus__WriteRequest *whole = unpack_write(&body);

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		Ringtail__Prometheus__WriteRequest *request;
		struct export_body part = {0};

		assert_int_equal(export_remote_write.build_part(body.data, body.bytes, row[i].from, row[i].points, &part), 0);
		assert_int_equal(part.items, row[i].points);
		request = unpack_write(&part);
		assert_int_equal(request->n_timeseries, row[i].series);
		assert_int_equal(request->n_metadata, 4);
		for (unsigned j = 0; j < row[i].series; j++) {
			char *text = shown(&whole->timeseries[row[i].first + j]->base);

			expect(request->timeseries[j], text);
			free(text);
		}
		ringtail__prometheus__write_request__free_unpacked(request, NULL);
		free(part.data);
	}
	assert_int_not_equal(export_remote_write.build_part((const uint8_t *)"\xff", 1, 0, 1, &(struct export_body){0}), 0);
	ringtail__prometheus__write_request__free_unpacked(whole, NULL);
	free(body.data);
}

/* Wherever memory ends, that is said, and nothing is left. */
static void no_memory(void **state)
{
	const struct export_kind *kind[] = {&export_otlp_metrics, &export_remote_write};
	const struct metric_snapshot *snapshot = make_snapshot();
	struct export_host *host = make_host(1, NULL);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct export_body body, part, ended;
		unsigned n = 0, parts = 0;
		int err = -1;

		for (; err; n++) {
			struct export_arena arena = {0};
			struct export_maker maker = {host->run, &arena, 0};

			allocations_left = n;
			failures_left = 1;
			body = (struct export_body){0};
			err = kind[i]->build_metrics(&maker, snapshot, &body);
			assert_true(!err || (err == -ENOMEM && !body.data));
			failures_left = 0;
			export_arena_fini(&arena);
		}
		assert_int_equal(n, 3);			/* the arena, and the body */
		ended = (struct export_body){0};
		for (err = -1; err; parts++) {
			allocations_left = parts;
			failures_left = 1;
			part = ended;
			err = kind[i]->build_part(body.data, body.bytes, 1, 2, &part);
			assert_true(!err || err == -ENOMEM);
			failures_left = 0;
		}
		assert_int_equal(parts, i ? 2 : 4);	/* OTLP cuts its lists first */
		free(part.data);
		free(body.data);
	}
	export_host_destroy(host);
	metric_snapshot_destroy(snapshot);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(otlp),
		cmocka_unit_test(otlp_resource_is_the_host_over_boots_and_upgrades),
		cmocka_unit_test(otlp_parts),
		cmocka_unit_test(remote_write),
		cmocka_unit_test(remote_write_parts),
		cmocka_unit_test(no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
