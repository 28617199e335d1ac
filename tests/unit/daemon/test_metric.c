/*
 * metric: snapshots are whole or not there, bounded, and outlive their makers' interest; as text they
 * are what both formats want.
 */
#include <setjmp.h>
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/metrics/metric.h"
#include "daemon/metrics/self.h"
#include "daemon/metrics/format.h"
#include "proto/export/exposition.pb-c.h"
#include "tests/lib/failing_memory.h"

static void fill(struct metric_builder *builder)
{
	static const struct metric_exemplar exemplar = {
		.trace_id = {0xab, [15] = 0x01}, .seconds = 0.0000003, .realtime_ns = 1500000000,
	};
	const struct metric_label label[2] = {{.name = "path", .value = "a\\b\"c\nd"},
					      {.name = "other", .value = "\xc3\xa9"}};
	struct metric_histogram histogram = {
		.count = 6, .sum_seconds = 0.5, .bucket = {[0] = 1, [1] = 2, [27] = 3},
		.exemplar = {[1] = &exemplar},
	};

	metric_begin(builder, METRIC_COUNTER, "x_bytes_total", "bytes", "Bytes \\ of\nall");
	metric_add(builder, 3, label, 2);
	metric_add(builder, 9007199254740991.0, NULL, 0);
	metric_begin(builder, METRIC_GAUGE, "nobody", "", "Without points");
	metric_begin(builder, METRIC_GAUGE, "y", "", "A \"gauge\"");
	metric_add(builder, -0.1, NULL, 0);
	metric_begin(builder, METRIC_HISTOGRAM, "z_seconds", "seconds", "Times");
	metric_add_histogram(builder, &histogram, label + 1, 1);
}

static char *text_of(const struct metric_snapshot *snapshot, enum metric_format format)
{
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_int_equal(metric_format_write(snapshot, format, out), 0);
	fclose(out);
	if (!text)
		abort();
	return text;
}

static void assert_begins(const char *text, const char *begin)
{
	if (strncmp(text, begin, strlen(begin)) != 0)
		fail_msg("%s\ndoes not begin with\n%s", text, begin);
}

static void assert_has(const char *text, const char *part)
{
	if (!strstr(text, part))
		fail_msg("%s\nis not in\n%s", part, text);
}

static void test_text(void **state)
{
	struct metric_builder *builder = metric_builder_create(1 << 20);
	const struct metric_snapshot *snapshot;
	char *text;

	(void)state;
	fill(builder);
	snapshot = metric_builder_end(builder, 2, 1);
	assert_int_equal(snapshot->families, 3);
	assert_int_equal(snapshot->points, 4);
	text = text_of(snapshot, METRIC_PROMETHEUS);
	assert_begins(text, "# HELP x_bytes_total Bytes \\\\ of\\nall.\n"
			    "# TYPE x_bytes_total counter\n"
			    "x_bytes_total{path=\"a\\\\b\\\"c\\nd\",other=\"\xc3\xa9\"} 3\n"
			    "x_bytes_total 9007199254740991\n"
			    "# HELP y A \"gauge\".\n"
			    "# TYPE y gauge\n"
			    "y -0.1\n"
			    "# HELP z_seconds Times.\n"
			    "# TYPE z_seconds histogram\n"
			    "z_seconds_bucket{other=\"\xc3\xa9\",le=\"2.56e-07\"} 1\n"
			    "z_seconds_bucket{other=\"\xc3\xa9\",le=\"5.12e-07\"} 3\n");
	assert_has(text, "le=\"17.179869184\"} 3\nz_seconds_bucket{other=\"\xc3\xa9\",le=\"+Inf\"} 6\n"
			 "z_seconds_sum{other=\"\xc3\xa9\"} 0.5\n"
			 "z_seconds_count{other=\"\xc3\xa9\"} 6\n");
	assert_null(strstr(text, "trace_id"));
	assert_null(strstr(text, "nobody"));
	free(text);
	text = text_of(snapshot, METRIC_OPENMETRICS);
	assert_begins(text, "# HELP x_bytes Bytes \\\\ of\\nall.\n"
			    "# TYPE x_bytes counter\n"
			    "# UNIT x_bytes bytes\n"
			    "x_bytes_total{");
	assert_has(text, "# HELP y A \\\"gauge\\\".\n");
	assert_has(text, "le=\"5.12e-07\"} 3 # {trace_id=\"ab000000000000000000000000000001\"}"
			 " 3e-07 1.500\n");
	assert_has(text, "_count{other=\"\xc3\xa9\"} 6\n# EOF\n");
	free(text);
	metric_snapshot_destroy(snapshot);
}

static void test_bound(void **state)
{
	struct metric_builder *builder = metric_builder_create(1000);
	const struct metric_snapshot *volatile snapshot;

	(void)state;
	metric_begin(builder, METRIC_COUNTER, "x_total", "", "Many");
	for (unsigned i = 0; i < 1000; i++)
		metric_add(builder, i, NULL, 0);
	snapshot = metric_builder_end(builder, 0, 0);
	assert_true(snapshot->points > 0 && snapshot->points < 20);
	assert_int_equal(snapshot->points + snapshot->dropped, 1000);
	assert_int_equal(snapshot->families, 1);
	metric_snapshot_destroy(snapshot);
	metric_snapshot_destroy(NULL);
	metric_builder_destroy(NULL);
}

/* Names of cgroups are long, and count as what they are. */
static void test_bound_of_long_labels(void **state)
{
	struct metric_builder *builder = metric_builder_create(10000);
	const struct metric_snapshot *snapshot;
	char text[1001];

	(void)state;
	memset(text, 'x', 1000);
	text[1000] = '\0';
	metric_begin(builder, METRIC_COUNTER, "x_total", "", "Many");
	for (unsigned i = 0; i < 100; i++)
		metric_add(builder, i, &(struct metric_label){.name = "path", .value = text}, 1);
	snapshot = metric_builder_end(builder, 0, 0);
	assert_in_range(snapshot->points, 1, 9);
	assert_int_equal(snapshot->points + snapshot->dropped, 100);
	metric_snapshot_destroy(snapshot);
}

static void test_out_of_memory(void **state)
{
	unsigned failures = 0;
	bool made = false;

	(void)state;
	for (unsigned n = 0; n < 20 && !made; n++) {
		struct metric_builder *builder;
		const struct metric_snapshot *snapshot;

		memory_fails_after(n);
		builder = metric_builder_create(1 << 20);
		if (builder)
			fill(builder);
		snapshot = builder ? metric_builder_end(builder, 0, 0) : NULL;
		memory_suffices();
		made = snapshot;
		failures += !made;
		metric_snapshot_destroy(snapshot);
	}
	assert_true(made);
	assert_int_equal(failures, 3);
}

#define PROTOBUF "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily"

/* The next message, after its length. */
static Ringtail__Exposition__MetricFamily *next_family(const uint8_t **at, const uint8_t *end)
{
	Ringtail__Exposition__MetricFamily *family;
	size_t bytes = 0;
	unsigned shift = 0;

	for (; **at & 0x80; (*at)++, shift += 7)
		bytes |= (size_t)(**at & 0x7f) << shift;
	bytes |= (size_t)*(*at)++ << shift;
	assert_true(bytes <= (size_t)(end - *at));
	family = ringtail__exposition__metric_family__unpack(NULL, bytes, *at);
	assert_non_null(family);
	*at += bytes;
	return family;
}

/* Observations of 100 ns (twice), 250 ns, 300 ns (thrice), 1 s (four), 2 s and 80 min. */
static const struct metric_snapshot *make_histogram(void)
{
	static const struct {
		uint64_t ns, count;
	} given[] = {{100, 2}, {250, 1}, {257, 3}, {1000000000, 4}, {2000000000, 1},
		     {4800000000000, 1}};
	const struct metric_exemplar exemplar = {.seconds = 2, .realtime_ns = 1500000001};
	struct metric_cell cell[6];
	struct metric_histogram histogram = {.count = 12, .sum_seconds = 4806, .cells = 6,
					     .cell = cell};
	const struct metric_label label = {"name", "a\x1b\n\"b\""};
	struct metric_builder *builder = metric_builder_create(1 << 20);

	for (unsigned i = 0; i < 6; i++) {
		cell[i] = (struct metric_cell){meter_cell_of(given[i].ns), given[i].count};
		histogram.bucket[meter_bucket_of(given[i].ns)] += given[i].count;
	}
	histogram.exemplar[meter_bucket_of(2000000000)] = &exemplar;
	metric_begin(builder, METRIC_COUNTER, "a_total", "", "Some");
	metric_add(builder, 3, NULL, 0);
	metric_begin(builder, METRIC_HISTOGRAM, "b_seconds", "seconds", "Times");
	metric_add_histogram(builder, &histogram, &label, 1);
	metric_begin(builder, METRIC_GAUGE, "c", "", "Level");
	metric_add(builder, -1.5, NULL, 0);
	return metric_builder_end(builder, 2, 1);
}

static void check_histogram(const Ringtail__Exposition__Histogram *histogram)
{
	/* 2^-22 s is 238 ns: bucket -175 holds 250 and 257, which a bound of ours keeps in two cells. */
	static const int32_t offset[] = {-175, 174, 7, 88};
	static const uint64_t count[] = {4, 4, 1, 1};
	int64_t sum = 0;

	assert_int_equal(histogram->sample_count, 12);
	assert_true(histogram->sample_sum == 4806);
	assert_int_equal(histogram->n_bucket, METER_BUCKETS);
	assert_int_equal(histogram->bucket[0]->cumulative_count, 3);
	assert_int_equal(histogram->bucket[1]->cumulative_count, 6);
	assert_true(isinf(histogram->bucket[METER_BUCKETS - 1]->upper_bound));
	assert_int_equal(histogram->bucket[METER_BUCKETS - 1]->cumulative_count, 12);
	assert_int_equal(histogram->schema, 3);
	assert_true(histogram->zero_threshold == 0x1p-22);
	assert_int_equal(histogram->zero_count, 2);
	assert_int_equal(histogram->n_positive_span, 4);
	assert_int_equal(histogram->n_positive_delta, 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(histogram->positive_span[i]->offset, offset[i]);
		assert_int_equal(histogram->positive_span[i]->length, 1);
		sum += histogram->positive_delta[i];
		assert_int_equal(sum, count[i]);
	}
}

static void test_protobuf(void **state)
{
	const struct metric_snapshot *snapshot = make_histogram();
	Ringtail__Exposition__MetricFamily *family;
	Ringtail__Exposition__Metric *metric;
	const uint8_t *at;
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	(void)state;
	assert_int_equal(metric_format_write(snapshot, METRIC_PROTOBUF, out), 0);
	fclose(out);
	at = (const uint8_t *)text;
	family = next_family(&at, (const uint8_t *)text + bytes);
	assert_string_equal(family->name, "a_total");
	assert_string_equal(family->help, "Some.");
	assert_int_equal(family->type, RINGTAIL__EXPOSITION__METRIC_TYPE__COUNTER);
	assert_true(family->metric[0]->counter->value == 3);
	ringtail__exposition__metric_family__free_unpacked(family, NULL);
	family = next_family(&at, (const uint8_t *)text + bytes);
	assert_int_equal(family->type, RINGTAIL__EXPOSITION__METRIC_TYPE__HISTOGRAM);
	metric = family->metric[0];
	assert_string_equal(metric->label[0]->value, "a\\x1b\n\"b\"");
	check_histogram(metric->histogram);
	assert_true(metric->histogram->bucket[23]->exemplar->value == 2);
	assert_int_equal(metric->histogram->bucket[23]->exemplar->timestamp->nanos, 500000001);
	ringtail__exposition__metric_family__free_unpacked(family, NULL);
	family = next_family(&at, (const uint8_t *)text + bytes);
	assert_true(family->metric[0]->gauge->value == -1.5);
	ringtail__exposition__metric_family__free_unpacked(family, NULL);
	assert_ptr_equal(at, text + bytes);
	free(text);
	metric_snapshot_destroy(snapshot);
}

static void test_negotiation(void **state)
{
	static const struct {
		const char *accept;
		enum metric_format format;
	} cases[] = {
		{NULL, METRIC_PROMETHEUS},
		{"", METRIC_PROMETHEUS},
		{"*/*", METRIC_PROMETHEUS},
		{"text/html, */*;q=0.8", METRIC_PROMETHEUS},
		{"text/plain", METRIC_PROMETHEUS},
		{"application/openmetrics-text", METRIC_OPENMETRICS},
		{"APPLICATION/OpenMetrics-Text; Version=1.0.0", METRIC_OPENMETRICS},
		{"application/openmetrics-text;q=0", METRIC_PROMETHEUS},
		{"application/openmetrics-text; q=0.4, text/plain;q=0.5", METRIC_PROMETHEUS},
		{"text/plain;q=0.4,application/openmetrics-text ;version=1.0.0;q=0.5",
		 METRIC_OPENMETRICS},
		{"application/openmetrics-texts", METRIC_PROMETHEUS},
		{"application/openmetrics-text;q=x", METRIC_PROMETHEUS},
		{"application/openmetrics-text;q=7", METRIC_PROMETHEUS},
		{",,;,application/openmetrics-text", METRIC_OPENMETRICS},
		{PROTOBUF ";encoding=delimited", METRIC_PROTOBUF},
		{PROTOBUF "; Encoding=\"delimited\" ;q=0.1", METRIC_PROTOBUF},
		{PROTOBUF ";encoding=delimited,application/openmetrics-text,text/plain", METRIC_PROTOBUF},
		{PROTOBUF ";encoding=delimited;q=0.3,text/plain;q=0.4", METRIC_PROMETHEUS},
		{PROTOBUF ";encoding=delimited;q=0", METRIC_PROMETHEUS},
		{PROTOBUF ";encoding=text", METRIC_PROMETHEUS},
		{PROTOBUF ";encoding=delimited2,text/plain;encoding=delimited", METRIC_PROMETHEUS},
		{PROTOBUF, METRIC_PROMETHEUS},
		{PROTOBUF ";", METRIC_PROMETHEUS},
		{"application/vnd.google.protobuf;encoding=delimited", METRIC_PROMETHEUS},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (metric_format_negotiate(cases[i].accept) != cases[i].format)
			fail_msg("%s", cases[i].accept);
}

static void test_names_of_losses(void **state)
{
	(void)state;
	assert_string_equal(metric_stage_name(LOSS_STAGE_RING), "ring");
	assert_string_equal(metric_reason_name(LOSS_REASON_QUEUE_FULL), "queue_full");
	assert_string_equal(metric_stage_name(99), "unknown");
}

static void test_process(void **state)
{
	struct metric_process process;
	int fd = metric_process_open();

	(void)state;
	assert_true(fd >= 0);
	metric_process_read(fd, &process);
	assert_true(process.cpu_seconds > 0);
	assert_true(process.resident_bytes > 100000);
	metric_process_read(-1, &process);
	assert_int_equal(process.resident_bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_bound),
		cmocka_unit_test(test_bound_of_long_labels),
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_protobuf),
		cmocka_unit_test(test_negotiation),
		cmocka_unit_test(test_names_of_losses),
		cmocka_unit_test(test_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
