#include "courier/parcel.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"
#include "query/glob.h"
#include "query/visible.h"

#define NUMBER_TEXT_BYTES 24

static void run_print(const struct run *run, char text[RUN_TEXT_BYTES])
{
	char boot[BOOT_ID_TEXT_BYTES];

	boot_id_print(run->boot_id, boot);
	snprintf(text, RUN_TEXT_BYTES, "%s/%" PRIu64, boot, run->epoch);
}

struct parcel *parcel_create(enum kafka_topic topic, const struct parcel_label *label, const void *a,
			     size_t a_bytes, const void *b, size_t b_bytes)
{
	struct parcel *parcel = malloc(sizeof(*parcel) + a_bytes + b_bytes);

	if (!parcel)
		return NULL;
	*parcel = (struct parcel){ .topic = topic, .label = *label, .bytes = a_bytes + b_bytes };
	memcpy(parcel->value, a, a_bytes);
	if (b_bytes)
		memcpy(parcel->value + a_bytes, b, b_bytes);
	return parcel;
}

struct parcel *parcel_create_gap(const struct parcel *refused)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t raw[64], frame[256];	/* six numbers */
	struct parcel *parcel = NULL;
	struct parcel_label label = refused->label;
	size_t bytes;

	gap.cpu = label.span.cpu;
	gap.first_seq = label.span.first_seq;
	gap.end_seq = label.span.end_seq;
	gap.stage = RINGTAIL__V1__LOSS_STAGE__LOSS_EXPORT;
	gap.reason = RINGTAIL__V1__LOSS_REASON__REASON_REJECTED;
	label.type = FRAME_GAP;
	bytes = ringtail__v1__gap__get_packed_size(&gap);
	if (codec && label.span.known && bytes <= sizeof(raw) && frame_bound((uint32_t)bytes) <= sizeof(frame)) {
		ringtail__v1__gap__pack(&gap, raw);
		bytes = frame_seal(codec, FRAME_GAP, raw, (uint32_t)bytes, frame);
		parcel = parcel_create(KAFKA_FRAMES, &label, frame, bytes, NULL, 0);
	}
	frame_codec_destroy(codec);
	return parcel;
}

/* ---- The key and the headers ------------------------------------------------------------------ */

bool parcel_host_is_good(const char *host)
{
	return *host && strlen(host) < HOST_BYTES_MAX && visible_is_all(host) && !strpbrk(host, "\"\\");
}

bool parcel_host_matches(const char *host, const char *const *glob, size_t globs)
{
	for (size_t i = 0; i < globs; i++)
		if (glob_match(glob[i], host, strlen(host)))
			return true;
	return !globs;
}

size_t parcel_key(const struct parcel *parcel, const char *host, char key[PARCEL_KEY_BYTES_MAX])
{
	char run[RUN_TEXT_BYTES];

	if (parcel->topic == KAFKA_FRAMES)
		return (size_t)snprintf(key, PARCEL_KEY_BYTES_MAX, "%s", host);
	run_print(&parcel->label.run, run);
	return (size_t)snprintf(key, PARCEL_KEY_BYTES_MAX, "%s%c%s%c%08" PRIx32, host, '\0', run, '\0',
				parcel->label.catalog);
}

static bool add(rd_kafka_headers_t *headers, const char *name, const char *value)
{
	return !rd_kafka_header_add(headers, name, -1, value, (ssize_t)strlen(value));
}

static bool add_number(rd_kafka_headers_t *headers, const char *name, uint64_t value)
{
	char text[NUMBER_TEXT_BYTES];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	return add(headers, name, text);
}

rd_kafka_headers_t *parcel_headers(const struct parcel *parcel)
{
	const struct parcel_label *label = &parcel->label;
	rd_kafka_headers_t *headers = rd_kafka_headers_new(8);
	char run[RUN_TEXT_BYTES], catalog[16];
	bool good;

	if (!headers)
		return NULL;
	run_print(&label->run, run);
	snprintf(catalog, sizeof(catalog), "%08" PRIx32, label->catalog);
	good = add(headers, "schema", PARCEL_SCHEMA) &&
	       add(headers, "type", parcel->topic == KAFKA_RUNS ? "run" : frame_type_name(label->type)) &&
	       add(headers, "run", run) && add(headers, "catalog", catalog);
	if (good && label->span.known)
		good = add_number(headers, "cpu", label->span.cpu) &&
		       add_number(headers, "first", label->span.first_seq) &&
		       add_number(headers, "end", label->span.end_seq);
	if (good)
		return headers;
	rd_kafka_headers_destroy(headers);
	return NULL;
}

/* ---- Read again -------------------------------------------------------------------------------- */

/* A header's text, with a NUL; false: it is not there, or too long. */
static bool get(const rd_kafka_headers_t *headers, const char *name, char text[RUN_TEXT_BYTES])
{
	const void *value;
	size_t bytes;

	if (rd_kafka_header_get_last(headers, name, &value, &bytes) || bytes >= RUN_TEXT_BYTES)
		return false;
	memcpy(text, value, bytes);
	text[bytes] = '\0';
	return strlen(text) == bytes;
}

static bool get_number(const rd_kafka_headers_t *headers, const char *name, int base, uint64_t *number)
{
	char text[RUN_TEXT_BYTES], *end;

	if (!get(headers, name, text) || strspn(text, "0123456789abcdef") != strlen(text) || !*text)
		return false;
	errno = 0;
	*number = strtoull(text, &end, base);
	return !errno && !*end;
}

static bool get_run(const rd_kafka_headers_t *headers, struct run *run)
{
	char text[RUN_TEXT_BYTES], again[RUN_TEXT_BYTES];
	const char *at = text;

	if (!get(headers, "run", text))
		return false;
	*run = (struct run){ 0 };
	for (size_t i = 0; i < sizeof(run->boot_id); i++) {
		at += *at == '-';
		if (sscanf(at, "%2hhx", &run->boot_id[i]) != 1)
			return false;
		at += strnlen(at, 2);
	}
	if (*at != '/')
		return false;
	run->epoch = strtoull(at + 1, NULL, 10);
	run_print(run, again);
	return strcmp(text, again) == 0;
}

static bool get_type(const rd_kafka_headers_t *headers, unsigned *type)
{
	static const unsigned types[] = { FRAME_SUBSCRIBED, FRAME_BATCH, FRAME_WATERMARK, FRAME_GAP, FRAME_BYE };
	char text[RUN_TEXT_BYTES];

	if (!get(headers, "type", text))
		return false;
	*type = FRAME_SERVER_HELLO;
	if (strcmp(text, "run") == 0)
		return true;
	for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (strcmp(text, frame_type_name(types[i])) == 0) {
			*type = types[i];
			return true;
		}
	return false;
}

bool parcel_read_label(const rd_kafka_headers_t *headers, struct parcel_label *label)
{
	uint64_t number;
	char schema[RUN_TEXT_BYTES];

	*label = (struct parcel_label){ 0 };
	if (!get(headers, "schema", schema) || strcmp(schema, PARCEL_SCHEMA) != 0 ||
	    !get_type(headers, &label->type) || !get_run(headers, &label->run) ||
	    !get_number(headers, "catalog", 16, &number) || number > UINT32_MAX)
		return false;
	label->catalog = (uint32_t)number;
	if (!get_number(headers, "cpu", 10, &number))
		return label->type != FRAME_BATCH && label->type != FRAME_GAP;
	label->span.cpu = (uint32_t)number;
	label->span.known = number < CURSOR_POSITIONS_MAX &&
			    get_number(headers, "first", 10, &label->span.first_seq) &&
			    get_number(headers, "end", 10, &label->span.end_seq) &&
			    label->span.first_seq <= label->span.end_seq;
	return label->span.known;
}
