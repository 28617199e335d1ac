#include "daemon/metrics/format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/export/exposition.pb-c.h"
#include "query/visible.h"

/* ---- Which format ---------------------------------------------------------------------------- */

/* The q of one media range, in thousandths: 1000 where it says none, 0 where it says nonsense. */
static int quality_of(const char *range, size_t bytes)
{
	char text[256];
	const char *q;

	if (bytes >= sizeof(text))
		return 0;
	memcpy(text, range, bytes);
	text[bytes] = '\0';
	for (q = strchr(text, ';'); q; q = strchr(q, ';')) {
		q += 1 + strspn(q + 1, " \t");
		if ((*q == 'q' || *q == 'Q') && q[1] == '=') {
			double value = strtod(q + 2, NULL);

			return value >= 0 && value <= 1 ? (int)(value * 1000) : 0;
		}
	}
	return 1000;
}

static bool is_type(const char *range, const char *type)
{
	size_t bytes = strlen(type);

	return strncasecmp(range, type, bytes) == 0 && strchr(" \t;,", range[bytes]);
}

/* Whether a media range has that parameter, quoted or not. */
static bool has_parameter(const char *range, size_t bytes, const char *name, const char *value)
{
	size_t name_bytes = strlen(name), value_bytes = strlen(value);
	const char *end = range + bytes, *at = range;

	while ((at = memchr(at, ';', (size_t)(end - at))) != NULL) {
		at += 1 + strspn(at + 1, " \t");
		if (strncasecmp(at, name, name_bytes) != 0 || at[name_bytes] != '=')
			continue;
		at += name_bytes + 1;
		at += *at == '"';
		if (strncasecmp(at, value, value_bytes) == 0 && strchr(" \t;,\"", at[value_bytes]))
			return true;
	}
	return false;
}

/* Of protobuf there are many: this is the one that we write. */
static bool is_protobuf(const char *range, size_t bytes)
{
	return is_type(range, "application/vnd.google.protobuf") &&
	       has_parameter(range, bytes, "proto", "io.prometheus.client.MetricFamily") &&
	       has_parameter(range, bytes, "encoding", "delimited");
}

enum metric_format metric_format_negotiate(const char *accept)
{
	int best = 0, quality[METRIC_FORMATS] = {0};
	enum metric_format format = METRIC_PROMETHEUS;

	while (accept && *accept) {
		size_t bytes;
		int q;

		accept += strspn(accept, " \t,");
		bytes = strcspn(accept, ",");
		q = quality_of(accept, bytes);
		if (is_protobuf(accept, bytes) && q > quality[METRIC_PROTOBUF])
			quality[METRIC_PROTOBUF] = q;
		else if (is_type(accept, "application/openmetrics-text") &&
			 q > quality[METRIC_OPENMETRICS])
			quality[METRIC_OPENMETRICS] = q;
		else if (is_type(accept, "text/plain") && q > quality[METRIC_PROMETHEUS])
			quality[METRIC_PROMETHEUS] = q;
		accept += bytes;
	}
	for (unsigned i = 0; i < METRIC_FORMATS; i++)
		if (quality[i] && quality[i] >= best) {
			best = quality[i];
			format = i;
		}
	return format;
}

const char *metric_format_content_type(enum metric_format format)
{
	static const char *const type[METRIC_FORMATS] = {
		[METRIC_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
		[METRIC_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
		[METRIC_PROTOBUF] = ("application/vnd.google.protobuf; "
				     "proto=io.prometheus.client.MetricFamily; encoding=delimited"),
	};

	return type[format];
}

/* ---- Text ------------------------------------------------------------------------------------ */

/* The shortest text that reads back as the same number. */
static void write_number(double value, FILE *out)
{
	char text[40];

	if (value == (double)(int64_t)value && value < 1e15 && value > -1e15) {
		fprintf(out, "%" PRId64, (int64_t)value);
		return;
	}
	for (int digits = 6; digits <= 17; digits++) {
		snprintf(text, sizeof(text), "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	fputs(text, out);
}

/* `quotes`: quotes are escaped, too, as in a label's value and in the help of OpenMetrics. */
static void write_escaped(const char *text, bool quotes, FILE *out)
{
	size_t n = strlen(text), bytes;
	uint32_t code;

	for (; n; text += bytes, n -= bytes) {
		bool shown = visible_next(text, n, &bytes, &code) == VISIBLE_SHOWN;

		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '\\' || (*text == '"' && quotes))
			fprintf(out, "\\%c", *text);
		else if (shown)
			fwrite(text, 1, bytes, out);
		else	/* so that two names stay two */
			for (size_t i = 0; i < bytes; i++)
				fprintf(out, "\\\\x%02x", (unsigned char)text[i]);
	}
}

/* {a="b",le="..."}, or nothing. le: NULL, or the last label's value. */
static void write_labels(const struct metric_point *point, const char *le, FILE *out)
{
	const char *before = "{";

	for (uint32_t i = 0; i < point->labels; i++) {
		fprintf(out, "%s%s=\"", before, point->label[i].name);
		write_escaped(point->label[i].value, true, out);
		putc('"', out);
		before = ",";
	}
	if (le) {
		fprintf(out, "%sle=\"%s\"", before, le);
		before = ",";
	}
	if (*before == ',')
		putc('}', out);
}

static void write_exemplar(const struct metric_exemplar *exemplar, FILE *out)
{
	char id[TRACE_ID_TEXT_BYTES];

	trace_id_text(exemplar->trace_id, id);
	fprintf(out, " # {trace_id=\"%s\"} ", id);
	write_number(exemplar->seconds, out);
	fprintf(out, " %" PRIu64 ".%03" PRIu64, exemplar->realtime_ns / 1000000000,
		exemplar->realtime_ns / 1000000 % 1000);
}

/* 2^-k times 10^-9 has few digits: bounds read as 2.56e-07, and are the same in every scrape. */
static void bound_text(unsigned bucket, char text[24])
{
	if (bucket == METER_BUCKET_BOUNDS)
		strcpy(text, "+Inf");
	else
		snprintf(text, 24, "%.12g", meter_bucket_seconds(bucket));
}

static void write_histogram(const struct metric_family *family, const struct metric_point *point,
			    enum metric_format format, FILE *out)
{
	const struct metric_histogram *histogram = point->histogram;
	uint64_t count = 0;

	for (unsigned i = 0; i < METER_BUCKETS; i++) {
		char le[24];

		bound_text(i, le);
		count += histogram->bucket[i];
		fprintf(out, "%s_bucket", family->name);
		write_labels(point, le, out);
		fprintf(out, " %" PRIu64, count);
		if (format == METRIC_OPENMETRICS && histogram->exemplar[i])
			write_exemplar(histogram->exemplar[i], out);
		putc('\n', out);
	}
	fprintf(out, "%s_sum", family->name);
	write_labels(point, NULL, out);
	putc(' ', out);
	write_number(histogram->sum_seconds, out);
	fprintf(out, "\n%s_count", family->name);
	write_labels(point, NULL, out);
	fprintf(out, " %" PRIu64 "\n", count);
}

/* OpenMetrics names a counter's family without the _total of its points. */
static void write_head(const struct metric_family *family, enum metric_format format, FILE *out)
{
	static const char *const type_name[] = {
		[METRIC_COUNTER] = "counter",
		[METRIC_GAUGE] = "gauge",
		[METRIC_HISTOGRAM] = "histogram",
	};
	size_t bytes = strlen(family->name);
	int shown;

	if (format == METRIC_OPENMETRICS && family->type == METRIC_COUNTER)
		bytes -= strlen("_total");
	shown = (int)bytes;
	fprintf(out, "# HELP %.*s ", shown, family->name);
	write_escaped(family->help, format == METRIC_OPENMETRICS, out);
	fprintf(out, ".\n# TYPE %.*s %s\n", shown, family->name, type_name[family->type]);
	if (format == METRIC_OPENMETRICS && *family->unit)
		fprintf(out, "# UNIT %.*s %s\n", shown, family->name, family->unit);
}

static void write_point(const struct metric_family *family, const struct metric_point *point,
			enum metric_format format, FILE *out)
{
	if (point->histogram) {
		write_histogram(family, point, format, out);
		return;
	}
	fputs(family->name, out);
	write_labels(point, NULL, out);
	putc(' ', out);
	write_number(point->value, out);
	putc('\n', out);
}

static void write_text(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out)
{
	for (const struct metric_family *family = snapshot->first; family; family = family->next) {
		write_head(family, format, out);
		for (const struct metric_point *point = family->first; point; point = point->next)
			write_point(family, point, format, out);
	}
	if (format == METRIC_OPENMETRICS)
		fputs("# EOF\n", out);
}

/* ---- Protobuf -------------------------------------------------------------------------------- */

#define FAMILY_METRIC	(4u << 3 | 2u)	/* the tag of MetricFamily.metric */

/* A metric and all that it refers to. */
struct making {
	Ringtail__Exposition__Metric metric;
	Ringtail__Exposition__LabelPair pair[METRIC_LABELS_MAX], *pairs[METRIC_LABELS_MAX];
	char *escaped[METRIC_LABELS_MAX];
	Ringtail__Exposition__Counter counter;
	Ringtail__Exposition__Gauge gauge;
	Ringtail__Exposition__Histogram histogram;
	Ringtail__Exposition__Bucket bucket[METER_BUCKETS], *buckets[METER_BUCKETS];
	Ringtail__Exposition__Exemplar exemplar[METER_BUCKETS];
	Ringtail__Exposition__Timestamp timestamp[METER_BUCKETS];
	Ringtail__Exposition__LabelPair trace[METER_BUCKETS], *traces[METER_BUCKETS];
	char trace_id[METER_BUCKETS][TRACE_ID_TEXT_BYTES];
	Ringtail__Exposition__BucketSpan span[METER_CELLS], *spans[METER_CELLS];
	int64_t delta[METER_CELLS];
};

/* ---- Protobuf: labels ------------------------------------------------------------------------ */

/* As the text formats show it, so that all make the same series. NULL: out of memory. */
static char *escape(const char *text)
{
	size_t n = strlen(text), bytes, at = 0;
	char *to = malloc(4 * n + 1);
	uint32_t code;

	for (; to && n; text += bytes, n -= bytes)
		if (visible_next(text, n, &bytes, &code) == VISIBLE_SHOWN || *text == '\n') {
			memcpy(to + at, text, bytes);
			at += bytes;
		} else {
			for (size_t i = 0; i < bytes; i++)
				at += (size_t)snprintf(to + at, 5, "\\x%02x",
						       (unsigned char)text[i]);
		}
	if (to)
		to[at] = '\0';
	return to;
}

static int set_labels(struct making *making, const struct metric_point *point)
{
	for (uint32_t i = 0; i < point->labels; i++) {
		making->escaped[i] = escape(point->label[i].value);
		if (!making->escaped[i])
			return -ENOMEM;
		ringtail__exposition__label_pair__init(&making->pair[i]);
		making->pair[i].name = (char *)point->label[i].name;
		making->pair[i].value = making->escaped[i];
		making->pairs[i] = &making->pair[i];
	}
	making->metric.label = making->pairs;
	making->metric.n_label = point->labels;
	return 0;
}

/* ---- Protobuf: histograms -------------------------------------------------------------------- */

static void set_exemplar(struct making *making, unsigned i, const struct metric_exemplar *from)
{
	Ringtail__Exposition__Exemplar *exemplar = &making->exemplar[i];

	ringtail__exposition__exemplar__init(exemplar);
	ringtail__exposition__label_pair__init(&making->trace[i]);
	ringtail__exposition__timestamp__init(&making->timestamp[i]);
	trace_id_text(from->trace_id, making->trace_id[i]);
	making->trace[i].name = (char *)"trace_id";
	making->trace[i].value = making->trace_id[i];
	making->traces[i] = &making->trace[i];
	making->timestamp[i].seconds = (int64_t)(from->realtime_ns / 1000000000);
	making->timestamp[i].nanos = (int32_t)(from->realtime_ns % 1000000000);
	exemplar->label = &making->traces[i];
	exemplar->n_label = 1;
	exemplar->value = from->seconds;
	exemplar->timestamp = &making->timestamp[i];
	making->bucket[i].exemplar = exemplar;
}

static void set_classic(struct making *making, const struct metric_histogram *from)
{
	uint64_t count = 0;

	for (unsigned i = 0; i < METER_BUCKETS; i++) {
		count += from->bucket[i];
		ringtail__exposition__bucket__init(&making->bucket[i]);
		making->bucket[i].cumulative_count = count;
		making->bucket[i].upper_bound = i < METER_BUCKET_BOUNDS ?
						meter_bucket_seconds(i) : INFINITY;
		if (from->exemplar[i])
			set_exemplar(making, i, from->exemplar[i]);
		making->buckets[i] = &making->bucket[i];
	}
	making->histogram.bucket = making->buckets;
	making->histogram.n_bucket = METER_BUCKETS;
}

/* One more native bucket, `i` beyond all so far. */
static void add_native(struct making *making, int i, int *next, int64_t delta)
{
	Ringtail__Exposition__Histogram *histogram = &making->histogram;

	if (!histogram->n_positive_span || i != *next) {
		Ringtail__Exposition__BucketSpan *span =
			&making->span[histogram->n_positive_span];

		ringtail__exposition__bucket_span__init(span);
		span->offset = i - *next;
		making->spans[histogram->n_positive_span++] = span;
	}
	making->span[histogram->n_positive_span - 1].length++;
	making->delta[histogram->n_positive_delta++] = delta;
	*next = i + 1;
}

/* Two cells may be of one native bucket: what a bound of ours cuts in two. */
static void set_native(struct making *making, const struct metric_histogram *from)
{
	Ringtail__Exposition__Histogram *histogram = &making->histogram;
	uint64_t last = 0;
	int next = 0;

	histogram->schema = METER_NATIVE_SCHEMA;
	histogram->zero_threshold = METER_NATIVE_ZERO_SECONDS;
	histogram->positive_span = making->spans;
	histogram->positive_delta = making->delta;
	for (uint32_t i = 0; i < from->cells; i++) {
		uint64_t count = from->cell[i].count;
		int native = meter_native_of_cell(from->cell[i].cell);

		if (from->cell[i].cell == 0) {
			histogram->zero_count = count;
			continue;
		}
		if (i + 1 < from->cells && meter_native_of_cell(from->cell[i + 1].cell) == native)
			count += from->cell[++i].count;
		add_native(making, native, &next, (int64_t)(count - last));
		last = count;
	}
}

static void set_histogram(struct making *making, const struct metric_histogram *from)
{
	ringtail__exposition__histogram__init(&making->histogram);
	making->histogram.sample_count = from->count;
	making->histogram.sample_sum = from->sum_seconds;
	set_classic(making, from);
	set_native(making, from);
	making->metric.histogram = &making->histogram;
}

/* ---- Protobuf: messages ---------------------------------------------------------------------- */

static void write_varint(uint64_t value, FILE *out)
{
	for (; value > 0x7f; value >>= 7)
		putc((int)(value & 0x7f) | 0x80, out);
	putc((int)value, out);
}

static int write_message(const ProtobufCMessage *message, FILE *out)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *packed = malloc(bytes + 1);

	if (!packed)
		return -ENOMEM;
	protobuf_c_message_pack(message, packed);
	fwrite(packed, 1, bytes, out);
	free(packed);
	return 0;
}

static int write_metric(const struct metric_family *family, const struct metric_point *point,
			struct making *making, FILE *out)
{
	Ringtail__Exposition__Metric *metric = &making->metric;
	int err;

	ringtail__exposition__metric__init(metric);
	memset(making->escaped, 0, sizeof(making->escaped));
	err = set_labels(making, point);
	if (point->histogram) {
		set_histogram(making, point->histogram);
	} else if (family->type == METRIC_COUNTER) {
		ringtail__exposition__counter__init(&making->counter);
		making->counter.value = point->value;
		metric->counter = &making->counter;
	} else {
		ringtail__exposition__gauge__init(&making->gauge);
		making->gauge.value = point->value;
		metric->gauge = &making->gauge;
	}
	if (!err) {
		write_varint(FAMILY_METRIC, out);
		write_varint(protobuf_c_message_get_packed_size(&metric->base), out);
		err = write_message(&metric->base, out);
	}
	for (uint32_t i = 0; i < point->labels; i++)
		free(making->escaped[i]);
	return err;
}

/* A message cut in two is the same message: its points are written one by one. */
static int write_family(const struct metric_family *family, struct making *making, FILE *out)
{
	static const Ringtail__Exposition__MetricType type[] = {
		[METRIC_COUNTER] = RINGTAIL__EXPOSITION__METRIC_TYPE__COUNTER,
		[METRIC_GAUGE] = RINGTAIL__EXPOSITION__METRIC_TYPE__GAUGE,
		[METRIC_HISTOGRAM] = RINGTAIL__EXPOSITION__METRIC_TYPE__HISTOGRAM,
	};
	Ringtail__Exposition__MetricFamily head = RINGTAIL__EXPOSITION__METRIC_FAMILY__INIT;
	char help[256];
	int err;

	snprintf(help, sizeof(help), "%s.", family->help);
	head.name = (char *)family->name;
	head.help = help;
	head.type = type[family->type];
	err = write_message(&head.base, out);
	for (const struct metric_point *point = family->first; !err && point; point = point->next)
		err = write_metric(family, point, making, out);
	return err;
}

static int write_protobuf(const struct metric_snapshot *snapshot, FILE *out)
{
	struct making *making = malloc(sizeof(*making));
	int err = making ? 0 : -ENOMEM;

	for (const struct metric_family *family = snapshot->first; !err && family;
	     family = family->next) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *body = open_memstream(&text, &bytes);

		if (!body) {
			err = -ENOMEM;
			break;
		}
		err = write_family(family, making, body);
		if (fclose(body) != 0)
			err = -ENOMEM;
		if (!err) {
			write_varint(bytes, out);
			fwrite(text, 1, bytes, out);
		}
		free(text);
	}
	free(making);
	return err;
}

int metric_format_write(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out)
{
	if (format == METRIC_PROTOBUF)
		return write_protobuf(snapshot, out);
	write_text(snapshot, format, out);
	return 0;
}
