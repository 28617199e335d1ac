/* Bodies are what their protocols say, whatever the event holds; answers are judged by their rules;
 * and URLs and headers are refused where they cannot mean anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <snappy-c.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "daemon/export/kind.h"
#include "daemon/export/pack.h"
#include "daemon/export/sender.h"
#include "daemon/export/target.h"
#include "proto/export/loki.pb-c.h"
#include "proto/export/otlp.pb-c.h"
#include "proto/export/remote_write.pb-c.h"
#include "tests/unit/daemon/export_make.h"

#define EVENTS 3

struct fixture {
	struct export_host *host;
	struct export_arena arena;
	struct export_list list;
	struct export_body body;
};

/* A slow call, one that failed, and one of a thread whose name is no UTF-8. */
static void make(struct fixture *fixture, const struct export_kind *kind)
{
	struct export_maker maker = {.arena = &fixture->arena, .to_realtime_ns = 1000};
	struct export_event *event[EVENTS];

	*fixture = (struct fixture){.host = make_host(1000000, NULL)};
	maker.run = fixture->host->run;
	TAILQ_INIT(&fixture->list);
	event[0] = make_event(fixture->host, MAKE_OPENAT, 5, "slow", 5000000, 2000000, 3, 9);
	event[0]->class = EXPORT_SLOW;
	event[1] = make_event(fixture->host, MAKE_OPENAT, 6, "a\"b", 5000001, 10,
			      (uint64_t)-ENOSPC, 9);
	event[1]->class = EXPORT_ERROR;
	event[2] = make_event(fixture->host, MAKE_EXIT, 7, "\xff\x01x", 5000002, 120, 1, 0);
	event[2]->class = EXPORT_EXIT;
	for (unsigned i = 0; i < EVENTS; i++)
		TAILQ_INSERT_TAIL(&fixture->list, event[i], link);
	assert_int_equal(kind->build(&maker, &fixture->list, &fixture->body), 0);
}

static void unmake(struct fixture *fixture)
{
	struct export_event *event;

	while ((event = TAILQ_FIRST(&fixture->list)) != NULL) {
		TAILQ_REMOVE(&fixture->list, event, link);
		export_event_destroy(event);
	}
	free(fixture->body.data);
	export_arena_fini(&fixture->arena);
	export_host_destroy(fixture->host);
}

/* Its bytes are those that protobuf-c packs. */
static void assert_packed(const ProtobufCMessage *message, const struct export_body *body)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *data = malloc(bytes + 1);

	assert_non_null(data);
	assert_int_equal(body->bytes, bytes);
	protobuf_c_message_pack(message, data);
	assert_memory_equal(body->data, data, bytes);
	free(data);
}

static const Ringtail__Otlp__AnyValue *find(Ringtail__Otlp__KeyValue *const *list, size_t n,
					    const char *key)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(list[i]->key, key) == 0)
			return list[i]->value;
	return NULL;
}

static void test_logs(void **state)
{
	Ringtail__Otlp__LogsRequest *request;
	Ringtail__Otlp__LogRecord *const *record;
	struct fixture fixture;

	(void)state;
	make(&fixture, &export_otlp_logs);
	assert_int_equal(fixture.body.items, EVENTS);
	request = ringtail__otlp__logs_request__unpack(NULL, fixture.body.bytes,
						       fixture.body.data);
	assert_non_null(request);
	record = request->resource_logs[0]->scope_logs[0]->log_records;
	assert_int_equal(request->resource_logs[0]->scope_logs[0]->n_log_records, EVENTS);
	assert_int_equal(record[0]->time_unix_nano, 5001000);
	assert_string_equal(record[0]->event_name, "ringtail.syscall.openat");
	assert_string_equal(record[0]->body->string_value,
			    "slow[5]: openat(dfd=9) = 3 <2.000ms>");
	assert_int_equal(record[0]->trace_id.len, TRACE_ID_BYTES);
	assert_int_equal(record[1]->trace_id.len, 0);
	assert_string_equal(record[1]->severity_text, "ERROR");
	assert_string_equal(find(record[1]->attributes, record[1]->n_attributes,
				 "error.type")->string_value, "ENOSPC");
	assert_string_equal(record[2]->body->string_value, "\?\?x[7]: killed by a signal");
	assert_packed(&request->base, &fixture.body);
	ringtail__otlp__logs_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

/* One nanosecond before a unit's border, a duration is still of the unit below. */
static void test_durations_at_the_border_of_a_unit(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "<0.000us>"}, {999, "<0.999us>"}, {1000, "<1.000us>"}, {999999, "<999.999us>"},
		{1000000, "<1.000ms>"}, {999999999, "<999.999ms>"}, {1000000000, "<1.000s>"},
		{59999999999, "<59.999s>"},
	};
	struct export_host *host = make_host(1000000, NULL);
	char body[EXPORT_BODY_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct export_event *event = make_event(host, MAKE_OPENAT, 5, "slow", 5, cases[i].ns, 3, 9);

		export_event_body(event, body);
		assert_string_equal(strchr(body, '<'), cases[i].text);
		export_event_destroy(event);
	}
	export_host_destroy(host);
}

/* Each event says of its thread what it was then, and what another of its slot said is not its own. */
static void test_threads_of_one_slot(void **state)
{
	static const struct {
		uint32_t pid;
		const char *comm;
		unsigned uid;
	} row[] = {{5, "a", 0}, {5, "a", 0}, {5, "b", 0}, {5, "b", 7}, {69, "b", 7}, {5, "b", 7}, {5, "a", 0}, {6, "a", 0}};
	Ringtail__Otlp__LogsRequest *request;
	Ringtail__Otlp__LogRecord *const *record;
	struct fixture fixture = {.host = make_host(1000000, NULL)};
	struct export_maker maker = {.arena = &fixture.arena, .run = fixture.host->run};
	size_t n = sizeof(row) / sizeof(row[0]);

	(void)state;
	TAILQ_INIT(&fixture.list);
	for (size_t i = 0; i < n; i++) {
		struct export_event *event = make_event(fixture.host, MAKE_OPENAT, row[i].pid, row[i].comm, i, 2, 3, 4);

		event->thread.uid = row[i].uid;
		event->thread.tid = row[i].pid == 6 ? 5 : row[i].pid;
		TAILQ_INSERT_TAIL(&fixture.list, event, link);
	}
	assert_int_equal(export_otlp_logs.build(&maker, &fixture.list, &fixture.body), 0);
	request = ringtail__otlp__logs_request__unpack(NULL, fixture.body.bytes, fixture.body.data);
	assert_non_null(request);
	assert_packed(&request->base, &fixture.body);
	record = request->resource_logs[0]->scope_logs[0]->log_records;
	for (size_t i = 0; i < n; i++) {
		Ringtail__Otlp__KeyValue *const *list = record[i]->attributes;

		assert_int_equal(find(list, record[i]->n_attributes, "process.pid")->int_value, row[i].pid);
		assert_int_equal(find(list, record[i]->n_attributes, "process.user.id")->int_value, row[i].uid);
		assert_string_equal(find(list, record[i]->n_attributes, "thread.name")->string_value, row[i].comm);
		assert_non_null(find(list, record[i]->n_attributes, "ringtail.syscall.ret"));
	}
	ringtail__otlp__logs_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

/* What is about as long as was expected stays where it is; what is not is moved. */
static void test_messages_of_any_length(void **state)
{
	static const size_t bytes[] = {0, 1, 126, 127, 128, 129, 16382, 16383, 16384, 16385, 70000};
	static char text[70001];

	(void)state;
	for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++)
		for (size_t expected = 0; expected < 3000000; expected = expected * 90 + 1) {
			Ringtail__Otlp__Scope scope = RINGTAIL__OTLP__SCOPE__INIT;
			Ringtail__Otlp__ScopeLogs logs = RINGTAIL__OTLP__SCOPE_LOGS__INIT;
			struct export_pack pack = {0};
			struct export_pack_place place;
			struct export_body body;

			memset(text, 'x', bytes[i]);
			text[bytes[i]] = '\0';
			scope.name = text;
			logs.scope = &scope;
			logs.schema_url = (char *)"behind";
			place = export_pack_open(&pack, 1, expected);
			export_pack_text(&pack, 1, text);
			export_pack_close(&pack, place);
			export_pack_text(&pack, 3, "behind");
			assert_int_equal(export_pack_finish(&pack, &body, 5), 0);
			assert_int_equal(body.items, 5);
			assert_packed(&logs.base, &body);
			free(body.data);
		}
}

/* A field that goes on with another has no name of its own. */
static void test_no_attribute_without_a_name(void **state)
{
	Ringtail__Otlp__LogsRequest *request;
	const Ringtail__Otlp__LogRecord *record;
	struct fixture fixture = {.host = make_host(1000000, NULL)};
	struct export_maker maker = {.arena = &fixture.arena, .run = fixture.host->run};
	struct export_event *event = make_event(fixture.host, MAKE_FORK, 5, "a", 1, 2, 3, 4);

	(void)state;
	TAILQ_INIT(&fixture.list);
	TAILQ_INSERT_TAIL(&fixture.list, event, link);
	assert_int_equal(export_otlp_logs.build(&maker, &fixture.list, &fixture.body), 0);
	request = ringtail__otlp__logs_request__unpack(NULL, fixture.body.bytes, fixture.body.data);
	assert_non_null(request);
	record = request->resource_logs[0]->scope_logs[0]->log_records[0];
	assert_non_null(find(record->attributes, record->n_attributes, "ringtail.event.child_pid"));
	assert_null(find(record->attributes, record->n_attributes, "ringtail.event."));
	ringtail__otlp__logs_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

static void test_loki(void **state)
{
	Ringtail__Loki__PushRequest *request;
	struct fixture fixture;

	(void)state;
	make(&fixture, &export_loki);
	request = ringtail__loki__push_request__unpack(NULL, fixture.body.bytes,
						       fixture.body.data);
	assert_non_null(request);
	assert_int_equal(request->n_streams, EVENTS);	/* as each is of another class */
	for (size_t i = 0; i < request->n_streams; i++) {
		const Ringtail__Loki__Stream *stream = request->streams[i];

		assert_non_null(strstr(stream->labels, "service=\"ringtail\""));
		assert_int_equal(stream->n_entries, 1);
		assert_in_range(stream->entries[0]->n_structured_metadata, 1, 15);
	}
	assert_packed(&request->base, &fixture.body);
	ringtail__loki__push_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

/* The first text is the path; others have their field's name, and one of no field that there is has none. */
static void test_loki_names_texts_by_their_fields(void **state)
{
	Ringtail__Loki__PushRequest *request;
	const Ringtail__Loki__Entry *entry;
	struct fixture fixture = {.host = make_host(1000000, NULL)};
	struct export_maker maker = {.arena = &fixture.arena, .run = fixture.host->run};
	struct export_event *event = make_event(fixture.host, MAKE_OPENAT, 5, "a", 1, 2, 3, 4);
	static const char *const expected[][2] = {{"path", "first"}, {"dfd", "second"}};
	unsigned found = 0;

	(void)state;
	event->class = EXPORT_ERROR;
	event->thread.comm[0] = '\0';
	event->strings = 3;
	for (unsigned i = 0; i < 3; i++)
		strcpy(event->string[i], (const char *[]){"first", "second", "third"}[i]);
	event->string_field[0] = 1;
	event->string_field[1] = 2;
	event->string_field[2] = 3;		/* it has three */
	TAILQ_INIT(&fixture.list);
	TAILQ_INSERT_TAIL(&fixture.list, event, link);
	assert_int_equal(export_loki.build(&maker, &fixture.list, &fixture.body), 0);
	request = ringtail__loki__push_request__unpack(NULL, fixture.body.bytes, fixture.body.data);
	assert_non_null(request);
	entry = request->streams[0]->entries[0];
	for (size_t i = 0; i < entry->n_structured_metadata; i++) {
		const Ringtail__Loki__Pair *pair = entry->structured_metadata[i];

		assert_string_not_equal(pair->value, "third");
		for (unsigned j = 0; j < 2; j++)
			if (strcmp(pair->name, expected[j][0]) == 0) {
				assert_string_equal(pair->value, expected[j][1]);
				found++;
			}
	}
	assert_int_equal(found, 2);
	assert_packed(&request->base, &fixture.body);
	ringtail__loki__push_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

/* A quote would end the label's value, a backslash would take its end away: neither is in it. */
static void test_loki_host_with_quote_and_backslash(void **state)
{
	struct fixture fixture = {.host = make_host(1000000, NULL)};
	struct export_maker maker = {.arena = &fixture.arena, .run = fixture.host->run};
	Ringtail__Loki__PushRequest *request;
	struct export_event *event;

	(void)state;
	snprintf(fixture.host->run->name, sizeof(fixture.host->run->name), "a\"b\\");
	event = make_event(fixture.host, MAKE_OPENAT, 5, "a", 1, 2, 3, 4);
	event->class = EXPORT_SLOW;
	TAILQ_INIT(&fixture.list);
	TAILQ_INSERT_TAIL(&fixture.list, event, link);
	assert_int_equal(export_loki.build(&maker, &fixture.list, &fixture.body), 0);
	request = ringtail__loki__push_request__unpack(NULL, fixture.body.bytes, fixture.body.data);
	assert_non_null(request);
	assert_string_equal(request->streams[0]->labels,
			    "{class=\"slow\", host=\"a?b?\", service=\"ringtail\"}");
	ringtail__loki__push_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

static void test_traces(void **state)
{
	Ringtail__Otlp__TracesRequest *request;
	const Ringtail__Otlp__ScopeSpans *scope;
	struct fixture fixture;

	(void)state;
	make(&fixture, &export_otlp_traces);
	request = ringtail__otlp__traces_request__unpack(NULL, fixture.body.bytes,
							 fixture.body.data);
	assert_non_null(request);
	scope = request->resource_spans[0]->scope_spans[0];
	assert_int_equal(scope->n_spans, 1);		/* the slow call alone is in no tree */
	assert_int_equal(fixture.body.items, 1);
	assert_string_equal(scope->spans[0]->name, "openat");
	assert_int_equal(scope->spans[0]->start_time_unix_nano, 3001000);
	assert_int_equal(scope->spans[0]->end_time_unix_nano, 5001000);
	assert_int_equal(scope->spans[0]->parent_span_id.len, 0);
	assert_packed(&request->base, &fixture.body);
	ringtail__otlp__traces_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

/* Whether the span of a process that ended with that status says that it failed. */
static bool is_error(uint8_t exit_code)
{
	struct fixture fixture = {.host = make_host(1000000, NULL)};
	struct export_maker maker = {.arena = &fixture.arena, .run = fixture.host->run};
	struct export_event *event = make_event(fixture.host, MAKE_EXIT, 5, "a", 2, 120, 1, 0);
	Ringtail__Otlp__TracesRequest *request;
	const Ringtail__Otlp__Span *span;
	bool error;

	event->class = EXPORT_EVENT;
	event->span = (struct export_span){.start_ns = 1, .in_tree = true, .is_process = true,
					   .has_exit_code = true, .exit_code = exit_code, .name = "a"};
	TAILQ_INIT(&fixture.list);
	TAILQ_INSERT_TAIL(&fixture.list, event, link);
	assert_int_equal(export_otlp_traces.build(&maker, &fixture.list, &fixture.body), 0);
	request = ringtail__otlp__traces_request__unpack(NULL, fixture.body.bytes, fixture.body.data);
	assert_non_null(request);
	span = request->resource_spans[0]->scope_spans[0]->spans[0];
	error = span->status && span->status->code == RINGTAIL__OTLP__STATUS_CODE__STATUS_CODE_ERROR;
	ringtail__otlp__traces_request__free_unpacked(request, NULL);
	unmake(&fixture);
	return error;
}

static void test_exit_status_0_is_no_error(void **state)
{
	(void)state;
	assert_false(is_error(0));
	assert_true(is_error(1));
}

/* ---- Metrics --------------------------------------------------------------------------------- */

static const struct metric_snapshot *make_snapshot(void)
{
	static const struct metric_exemplar exemplar = {{1}, 0.5, 77};
	const struct metric_label label[] = {{"zone", "b"}, {"area", "a"}, {"none", ""}};
	struct metric_histogram histogram = {.count = 3, .sum_seconds = 1.5, .bucket = {1, 2}};
	struct metric_builder *builder = metric_builder_create(1 << 20);

	histogram.exemplar[1] = &exemplar;
	metric_begin(builder, METRIC_COUNTER, "x_total", "", "Things");
	metric_add(builder, 12, label, 3);
	metric_add(builder, 13, NULL, 0);
	metric_begin(builder, METRIC_HISTOGRAM, "x_seconds", "seconds", "How long");
	metric_add_histogram(builder, &histogram, label, 1);
	return metric_builder_end(builder, 5000000000, 1000000000);
}

static void make_metrics(const struct export_kind *kind, struct fixture *fixture)
{
	const struct metric_snapshot *snapshot = make_snapshot();
	struct export_maker maker = {.arena = &fixture->arena};

	*fixture = (struct fixture){.host = make_host(1, NULL)};
	TAILQ_INIT(&fixture->list);
	maker.run = fixture->host->run;
	assert_int_equal(kind->build_metrics(&maker, snapshot, &fixture->body), 0);
	assert_int_equal(fixture->body.items, 3);
	metric_snapshot_destroy(snapshot);
}

static void test_remote_write(void **state)
{
	Ringtail__Prometheus__WriteRequest *request;
	struct fixture fixture;

	(void)state;
	make_metrics(&export_remote_write, &fixture);
	request = ringtail__prometheus__write_request__unpack(NULL, fixture.body.bytes,
							      fixture.body.data);
	assert_non_null(request);
	assert_int_equal(request->n_timeseries, 2 + METER_BUCKETS + 2);
	for (size_t i = 0; i < request->n_timeseries; i++) {
		const Ringtail__Prometheus__TimeSeries *series = request->timeseries[i];

		assert_int_equal(series->samples[0]->timestamp, 5000);
		assert_string_equal(series->labels[0]->name, "__name__");
		for (size_t j = 1; j < series->n_labels; j++) {
			assert_true(strcmp(series->labels[j - 1]->name,
					   series->labels[j]->name) < 0);
			assert_true(series->labels[j]->value[0] != '\0');
		}
	}
	assert_true(request->timeseries[2]->samples[0]->value == 1);
	assert_true(request->timeseries[3]->samples[0]->value == 3);	/* cumulated */
	assert_int_equal(request->timeseries[3]->n_exemplars, 1);
	assert_int_equal(request->n_metadata, 2);
	ringtail__prometheus__write_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

static void test_otlp_metrics(void **state)
{
	Ringtail__Otlp__MetricsRequest *request;
	const Ringtail__Otlp__HistogramPoint *point;
	Ringtail__Otlp__Metric *const *metric;
	struct fixture fixture;

	(void)state;
	make_metrics(&export_otlp_metrics, &fixture);
	request = ringtail__otlp__metrics_request__unpack(NULL, fixture.body.bytes,
							  fixture.body.data);
	assert_non_null(request);
	metric = request->resource_metrics[0]->scope_metrics[0]->metrics;
	assert_true(metric[0]->sum->is_monotonic);
	assert_int_equal(metric[0]->sum->aggregation_temporality,
			 RINGTAIL__OTLP__TEMPORALITY__TEMPORALITY_CUMULATIVE);
	assert_true(metric[0]->sum->data_points[0]->as_double == 12);
	assert_int_equal(metric[0]->sum->data_points[0]->start_time_unix_nano, 1000000000);
	assert_string_equal(metric[1]->unit, "s");
	point = metric[1]->histogram->data_points[0];
	assert_int_equal(point->n_bucket_counts, point->n_explicit_bounds + 1);
	assert_int_equal(point->n_exemplars, 1);
	assert_true(point->bucket_counts[1] == 2 && point->count == 3 && point->sum == 1.5);
	ringtail__otlp__metrics_request__free_unpacked(request, NULL);
	unmake(&fixture);
}

/* ---- Around them ------------------------------------------------------------------------------ */

static void test_compress(void **state)
{
	uint8_t in[5000], *out, back[sizeof(in)];
	size_t bytes, back_bytes = sizeof(back);
	z_stream stream = {0};

	(void)state;
	for (size_t i = 0; i < sizeof(in); i++)
		in[i] = (uint8_t)(i * i / 7);
	assert_int_equal(export_compress(EXPORT_SNAPPY, in, sizeof(in), &out, &bytes), 0);
	assert_int_equal(snappy_uncompress((char *)out, bytes, (char *)back, &back_bytes),
			 SNAPPY_OK);
	assert_memory_equal(back, in, sizeof(in));
	free(out);
	assert_int_equal(export_compress(EXPORT_GZIP, in, sizeof(in), &out, &bytes), 0);
	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	stream.next_in = out;
	stream.avail_in = (unsigned)bytes;
	stream.next_out = back;
	stream.avail_out = sizeof(back);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	inflateEnd(&stream);
	assert_memory_equal(back, in, sizeof(in));
	free(out);
}

static void test_judge(void **state)
{
	static const uint8_t partial[] = {0x0a, 4, 0x08, 5, 0x12, 0};
	static const uint8_t garbage[] = "all is well";
	static const uint8_t why[] = {0x0a, 8, 0x08, 5, 0x12, 4, 'n', 'o', '\n', '!'};
	static const uint8_t fewer_than_none[] = {0x0a, 11, 0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
	char text[300];
	static const struct {
		const struct export_kind *kind;
		long status;
		enum export_outcome outcome;
	} row[] = {
		{&export_otlp_logs, 200, EXPORT_ACCEPTED}, {&export_otlp_logs, 204, EXPORT_ACCEPTED},
		{&export_otlp_logs, 301, EXPORT_HOLD}, {&export_otlp_logs, 400, EXPORT_REJECTED},
		{&export_otlp_logs, 429, EXPORT_RETRY}, {&export_otlp_logs, 500, EXPORT_RETRY},
		{&export_loki, 501, EXPORT_RETRY}, {&export_loki, 502, EXPORT_RETRY},
		{&export_loki, 503, EXPORT_RETRY}, {&export_loki, 504, EXPORT_RETRY},
		{&export_loki, 500, EXPORT_RETRY}, {&export_loki, 505, EXPORT_RETRY},
		{&export_loki, 408, EXPORT_RETRY}, {&export_loki, 413, EXPORT_REJECTED},
		{&export_loki, 422, EXPORT_REJECTED}, {&export_loki, 401, EXPORT_HOLD},
		{&export_otlp_traces, 403, EXPORT_HOLD}, {&export_otlp_metrics, 404, EXPORT_HOLD},
		{&export_remote_write, 500, EXPORT_RETRY}, {&export_remote_write, 308, EXPORT_HOLD},
		{&export_remote_write, 400, EXPORT_REJECTED},
		{&export_remote_write, 204, EXPORT_ACCEPTED},
	};
	struct export_verdict verdict;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		row[i].kind->judge(row[i].status, garbage, sizeof(garbage), &verdict);
		assert_int_equal(verdict.outcome, row[i].outcome);
		assert_int_equal(verdict.rejected, 0);
	}
	export_otlp_logs.judge(200, partial, sizeof(partial), &verdict);
	assert_int_equal(verdict.outcome, EXPORT_ACCEPTED);
	assert_int_equal(verdict.rejected, 5);
	assert_string_equal(verdict.message, "");
	export_otlp_logs.judge(200, NULL, 0, &verdict);
	assert_int_equal(verdict.rejected, 0);
	export_otlp_logs.judge(200, why, sizeof(why), &verdict);
	assert_int_equal(verdict.rejected, 5);
	assert_string_equal(verdict.message, "no !");
	export_otlp_logs.judge(200, fewer_than_none, sizeof(fewer_than_none), &verdict);
	assert_int_equal(verdict.rejected, 0);
	/* Of a refusal the words are kept, as far as there is room, as text of one line. */
	export_otlp_logs.judge(500, (const uint8_t *)"a\tb\xff c\x7f~\n\n", 11, &verdict);
	assert_string_equal(verdict.message, "a b  c ~");
	memset(text, 'x', sizeof(text));
	export_loki.judge(500, (const uint8_t *)text, sizeof(text), &verdict);
	assert_int_equal(strlen(verdict.message), sizeof(verdict.message) - 1);
	export_loki.judge(200, (const uint8_t *)text, sizeof(text), &verdict);
	assert_string_equal(verdict.message, "");
}

/* In the words of each back end, of each version; in an answer of text, or of protobuf. */
static void test_what_is_said_of_the_time(void **state)
{
	static const struct {
		long status;
		const char *text;
		enum export_outcome outcome;
		enum export_lateness late;
	} row[] = {
		{400, "entry for stream '{host=\"a\"}' has timestamp too old: 2026-01-01T00:00:00Z", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{400, "entry with timestamp 2026-01-01 ignored, reason: 'entry out of order' for stream", EXPORT_REJECTED, EXPORT_BEHIND},
		{400, "entry with timestamp 2026-01-01 ignored, reason: 'entry too far behind'", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{400, "entry for stream '{host=\"a\"}' has timestamp too new: 2026-01-01T00:00:00Z", EXPORT_REJECTED, EXPORT_IN_TIME},
		{400, "\x12\x2e" "entry for stream has timestamp too old: 2026-01", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{400, "out of bounds\n", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{400, "out of order sample\n", EXPORT_REJECTED, EXPORT_BEHIND},
		{400, "too old sample\n", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{500, "too old sample\n", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{409, "store locally for endpoint 127.0.0.1:10901: conflict: out of bounds", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{409, "somebody else writes", EXPORT_HOLD, EXPORT_IN_TIME},
		{400, "failed pushing to ingester mimir-1: user=one-with-a-name-that-is-so-long-that-no-room-is-left-for-the-rest:"
		      " the sample has been rejected because its timestamp is too old", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{400, "the sample has been rejected because another sample with a more recent timestamp has already been ingested"
		      " (err-mimir-sample-out-of-order)", EXPORT_REJECTED, EXPORT_BEHIND},
		{400, "duplicate sample for timestamp", EXPORT_REJECTED, EXPORT_IN_TIME},
		{400, "out of order sample, too old: out of order", EXPORT_REJECTED, EXPORT_TOO_OLD},
		{500, "Index 5 out of bounds for length 5", EXPORT_RETRY, EXPORT_IN_TIME},
		{500, "the schema is too old", EXPORT_RETRY, EXPORT_IN_TIME},
		{503, "too old sample", EXPORT_RETRY, EXPORT_IN_TIME},
		{429, "too old sample", EXPORT_RETRY, EXPORT_IN_TIME},
		{401, "the token is too old", EXPORT_HOLD, EXPORT_IN_TIME},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		for (unsigned k = 0; export_kinds[k]; k++) {
			struct export_verdict verdict;

			export_kinds[k]->judge(row[i].status, (const uint8_t *)row[i].text, strlen(row[i].text), &verdict);
			assert_int_equal(verdict.outcome, row[i].outcome);
			assert_int_equal(verdict.late, row[i].late);
		}
}

static void test_retry(void **state)
{
	(void)state;
	for (unsigned tries = 1; tries < 200; tries++) {
		uint64_t most = tries < 20 ? (uint64_t)EXPORT_RETRY_NS_MIN << (tries - 1) : UINT64_MAX;
		uint64_t wait = export_retry_ns(tries, 0);

		if (most > EXPORT_RETRY_NS_MAX)
			most = EXPORT_RETRY_NS_MAX;
		assert_in_range(wait, most / 2, most);
	}
	assert_int_equal(export_retry_ns(1, 7000000000), 7000000000);
	assert_int_equal(export_retry_ns(1, UINT64_MAX), EXPORT_RETRY_AFTER_NS_MAX);
	/* Who asks for less than would be waited is not asked sooner. */
	assert_in_range(export_retry_ns(199, 1), EXPORT_RETRY_NS_MAX / 2, EXPORT_RETRY_NS_MAX);
}

static int read_targets(const char *target, const char *header, struct export_targets *targets,
			struct error *error)
{
	struct config config = {0};

	config.export.word[config.export.count++] = (char *)target;
	config.export.word[config.export.count++] = (char *)"loki:http://other/";
	if (header)
		config.export_header.word[config.export_header.count++] = (char *)header;
	return export_targets_read(&config, &(struct account){geteuid(), getegid()}, targets,
				   error);
}

static void test_targets(void **state)
{
	static const char *const wrong[][3] = {
		{"otlp:http://a", NULL, "export-kind"},
		{"otlp-logs", NULL, "export-kind"},
		{"otlp-logs:ftp://a", NULL, "export-url"},
		{"otlp-logs:", NULL, "export-url"},
		{"otlp-logs:http://me:secret@a", NULL, "export-url"},
		{"loki:http://other", NULL, "export-twice"},
		{"otlp-logs:http://a", "no colon", "export-header"},
		{"otlp-logs:http://a", ": x", "export-header"},
		{"otlp-logs:http://a", "nothing X: y", "export-header"},
	};
	struct export_targets targets;
	struct error error;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_int_equal(read_targets(wrong[i][0], wrong[i][1], &targets, &error), -EINVAL);
		assert_string_equal(error.code, wrong[i][2]);
	}
	assert_int_equal(read_targets("otlp-logs:http://a:4318", "loki X: y", &targets, &error), 0);
	assert_string_equal(targets.target[0].url, "http://a:4318/v1/logs");
	assert_string_equal(targets.target[1].url, "http://other/loki/api/v1/push");
	assert_int_equal(targets.target[0].headers, 0);
	assert_string_equal(targets.target[1].header[0], "X: y");
	export_targets_free(&targets);
	assert_int_equal(read_targets("otlp-logs:https://a/own/path?q=1", "A-b: c", &targets, &error),
			 0);
	assert_string_equal(targets.target[0].url, "https://a/own/path?q=1");
	assert_int_equal(targets.target[0].headers, 1);
	export_targets_free(&targets);
}

static void test_secret(void **state)
{
	char path[] = "/tmp/ringtail-secret-XXXXXX", header[64];
	struct export_targets targets;
	struct error error;
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, "Bearer x\n", 9), 9);
	snprintf(header, sizeof(header), "Authorization: @%s", path);
	assert_int_equal(fchmod(fd, 0644), 0);
	assert_int_equal(read_targets("loki:http://a", header, &targets, &error), -EACCES);
	assert_int_equal(fchmod(fd, 0600), 0);
	assert_int_equal(read_targets("loki:http://a", header, &targets, &error), 0);
	assert_string_equal(targets.target[0].header[0], "Authorization: Bearer x");
	export_targets_free(&targets);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(read_targets("loki:http://a", header, &targets, &error), -EINVAL);
	close(fd);
	unlink(path);
	assert_true(read_targets("loki:http://a", header, &targets, &error) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logs),
		cmocka_unit_test(test_durations_at_the_border_of_a_unit),
		cmocka_unit_test(test_no_attribute_without_a_name),
		cmocka_unit_test(test_threads_of_one_slot),
		cmocka_unit_test(test_messages_of_any_length),
		cmocka_unit_test(test_loki),
		cmocka_unit_test(test_loki_host_with_quote_and_backslash),
		cmocka_unit_test(test_loki_names_texts_by_their_fields),
		cmocka_unit_test(test_traces),
		cmocka_unit_test(test_exit_status_0_is_no_error),
		cmocka_unit_test(test_remote_write),
		cmocka_unit_test(test_otlp_metrics),
		cmocka_unit_test(test_compress),
		cmocka_unit_test(test_judge),
		cmocka_unit_test(test_what_is_said_of_the_time),
		cmocka_unit_test(test_retry),
		cmocka_unit_test(test_targets),
		cmocka_unit_test(test_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
