#include "daemon/metrics/text.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

enum metric_format metric_text_negotiate(const char *accept)
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

const char *metric_text_content_type(enum metric_format format)
{
	static const char *const type[METRIC_FORMATS] = {
		[METRIC_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
		[METRIC_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
		[METRIC_PROTOBUF] = ("application/vnd.google.protobuf; "
				     "proto=io.prometheus.client.MetricFamily; encoding=delimited"),
	};

	return type[format];
}

/* ---- Writing --------------------------------------------------------------------------------- */

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

/* A label's value between its quotes, or (`is_help`) a help text. */
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

void metric_text_write(const struct metric_snapshot *snapshot, enum metric_format format, FILE *out)
{
	for (const struct metric_family *family = snapshot->first; family; family = family->next) {
		write_head(family, format, out);
		for (const struct metric_point *point = family->first; point; point = point->next)
			write_point(family, point, format, out);
	}
	if (format == METRIC_OPENMETRICS)
		fputs("# EOF\n", out);
}
