/*
 * metric: snapshots are whole or not there, bounded, and outlive their makers' interest; as text they
 * are what both formats want. metric.c is compiled in with an allocator that can fail.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static unsigned allocations_left = UINT32_MAX;	/* until one fails */

static bool may_allocate(void)
{
	return allocations_left && allocations_left--;
}

static void *failing_calloc(size_t n, size_t bytes)
{
	return may_allocate() ? calloc(n, bytes) : NULL;
}

static void *failing_malloc(size_t bytes)
{
	return may_allocate() ? malloc(bytes) : NULL;
}

#define calloc failing_calloc
#define malloc failing_malloc
#include "daemon/metrics/metric.c"
#undef calloc
#undef malloc

#include "daemon/metrics/self.h"
#include "daemon/metrics/text.h"

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

	metric_text_write(snapshot, format, out);
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
	metric_snapshot_put(snapshot);
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
	assert_ptr_equal(metric_snapshot_get(snapshot), snapshot);
	metric_snapshot_put(snapshot);
	assert_int_equal(snapshot->families, 1);	/* still there */
	metric_snapshot_put(snapshot);
	metric_snapshot_put(NULL);
	metric_builder_destroy(NULL);
}

static void test_out_of_memory(void **state)
{
	unsigned failures = 0;
	bool made = false;

	(void)state;
	for (unsigned n = 0; n < 20 && !made; n++) {
		struct metric_builder *builder;
		const struct metric_snapshot *snapshot;

		allocations_left = n;
		builder = metric_builder_create(1 << 20);
		if (builder)
			fill(builder);
		snapshot = builder ? metric_builder_end(builder, 0, 0) : NULL;
		allocations_left = UINT32_MAX;
		made = snapshot;
		failures += !made;
		metric_snapshot_put(snapshot);
	}
	assert_true(made);
	assert_int_equal(failures, 3);
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
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (metric_text_negotiate(cases[i].accept) != cases[i].format)
			fail_msg("%s", cases[i].accept);
}

static void test_names_of_losses(void **state)
{
	(void)state;
	assert_string_equal(metric_stage_name(RINGTAIL__V1__LOSS_STAGE__LOSS_RING), "ring");
	assert_string_equal(metric_reason_name(RINGTAIL__V1__LOSS_REASON__REASON_QUEUE_FULL),
			    "queue_full");
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
		cmocka_unit_test(test_out_of_memory),
		cmocka_unit_test(test_negotiation),
		cmocka_unit_test(test_names_of_losses),
		cmocka_unit_test(test_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
