#include "daemon/metrics/exposition.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "proto/export/exposition.pb-c.h"
#include "query/visible.h"

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

/* ---- Labels ---------------------------------------------------------------------------------- */

/* As metric_text shows it, so that both formats make the same series. NULL: out of memory. */
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

/* ---- Histograms ------------------------------------------------------------------------------ */

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

/* ---- Writing --------------------------------------------------------------------------------- */

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

static int write_point(const struct metric_family *family, const struct metric_point *point,
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
		err = write_point(family, point, making, out);
	return err;
}

int metric_exposition_write(const struct metric_snapshot *snapshot, FILE *out)
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
