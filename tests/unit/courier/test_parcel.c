/* parcel: a label as headers, and read again: what is beyond its bounds is no label. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "courier/parcel.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

static bool reads(const struct parcel_label *label, struct parcel_label *again)
{
	struct parcel *parcel = parcel_create(KAFKA_FRAMES, label, "x", 1, NULL, 0);
	rd_kafka_headers_t *headers = parcel_headers(parcel);
	bool good = parcel_read_label(headers, again);

	rd_kafka_headers_destroy(headers);
	free(parcel);
	return good;
}

static void test_a_label_at_its_bounds(void **state)
{
	struct parcel_label label = {
		.run = { .boot_id = { 1, 0xff, 3 }, .epoch = UINT64_MAX }, .catalog = UINT32_MAX,
		.type = FRAME_BATCH, .span = { true, CURSOR_POSITIONS_MAX - 1, 5, UINT64_MAX },
	}, again;

	(void)state;
	assert_true(reads(&label, &again));
	assert_true(run_equal(&again.run, &label.run));
	assert_int_equal(again.catalog, label.catalog);
	assert_int_equal(again.type, FRAME_BATCH);
	assert_true(again.span.known);
	assert_int_equal(again.span.cpu, CURSOR_POSITIONS_MAX - 1);
	assert_int_equal(again.span.first_seq, 5);
	assert_int_equal(again.span.end_seq, UINT64_MAX);
	label.span.cpu = CURSOR_POSITIONS_MAX;
	assert_false(reads(&label, &again));
	label.span = (struct forward_span){ true, 0, 6, 5 };
	assert_false(reads(&label, &again));
	label.span = (struct forward_span){ true, 0, 5, 5 };
	assert_true(reads(&label, &again));
	/* A batch and a gap are of some CPU; a watermark is of all. */
	label.span.known = false;
	assert_false(reads(&label, &again));
	label.type = FRAME_GAP;
	assert_false(reads(&label, &again));
	label.type = FRAME_WATERMARK;
	assert_true(reads(&label, &again));
	assert_false(again.span.known);
}

/* ---- Headers of others -------------------------------------------------------------------------- */

#define RUN "01ff0300-0000-0000-0000-000000000000/7"

static bool reads_up_to(const char *run, const char *catalog, const char *cpu, const char *end)
{
	const char *const header[][2] = {
		{ "schema", PARCEL_SCHEMA }, { "type", "batch" }, { "run", run }, { "catalog", catalog },
		{ "cpu", cpu }, { "first", "5" }, { "end", end },
	};
	rd_kafka_headers_t *headers = rd_kafka_headers_new(8);
	struct parcel_label label;
	bool good;

	for (size_t i = 0; i < sizeof(header) / sizeof(header[0]); i++)
		rd_kafka_header_add(headers, header[i][0], -1, header[i][1], (ssize_t)strlen(header[i][1]));
	good = parcel_read_label(headers, &label);
	rd_kafka_headers_destroy(headers);
	return good;
}

static bool reads_headers(const char *run, const char *catalog, const char *cpu)
{
	return reads_up_to(run, catalog, cpu, "9");
}

static void test_headers_that_are_none(void **state)
{
	char text[2 * RUN_TEXT_BYTES];

	(void)state;
	assert_true(reads_headers(RUN, "0000000a", "3"));
	assert_true(reads_headers(RUN, "ffffffff", "3"));
	assert_false(reads_headers(RUN, "100000000", "3"));
	assert_false(reads_headers(RUN, "10000000000000001", "3"));	/* more than 64 bits */
	assert_false(reads_headers(RUN, "", "3"));
	assert_false(reads_headers(RUN, "0000000a", ""));
	assert_false(reads_headers(RUN, "0000000a", "18446744073709551617"));
	assert_false(reads_headers(RUN, "0000000a", "-1"));
	assert_true(reads_up_to(RUN, "0000000a", "3", "18446744073709551615"));
	assert_false(reads_up_to(RUN, "0000000a", "3", "18446744073709551616"));
	assert_false(reads_up_to(RUN, "0000000a", "3", "4"));
	/* A run is written in one way. */
	assert_false(reads_headers("01FF0300-0000-0000-0000-000000000000/7", "0000000a", "3"));
	assert_false(reads_headers("01ff0300-0000-0000-0000-000000000000/07", "0000000a", "3"));
	assert_false(reads_headers("01ff03000000-0000-0000-000000000000/7", "0000000a", "3"));
	memset(text, '0', sizeof(text));
	text[RUN_TEXT_BYTES - 1] = '\0';
	assert_true(reads_headers(RUN, text, "3"));
	text[RUN_TEXT_BYTES - 1] = '0';
	text[RUN_TEXT_BYTES] = '\0';
	assert_false(reads_headers(RUN, text, "3"));
}

static void test_a_text_ends_where_it_says(void **state)
{
	static const char run[] = RUN "\0more";
	rd_kafka_headers_t *headers = rd_kafka_headers_new(8);
	struct parcel_label label;

	(void)state;
	rd_kafka_header_add(headers, "schema", -1, PARCEL_SCHEMA, -1);
	rd_kafka_header_add(headers, "type", -1, "watermark", -1);
	rd_kafka_header_add(headers, "run", -1, run, (ssize_t)sizeof(run) - 1);
	rd_kafka_header_add(headers, "catalog", -1, "0000000a", -1);
	assert_false(parcel_read_label(headers, &label));
	rd_kafka_header_add(headers, "run", -1, RUN, -1);	/* the last of a name counts */
	assert_true(parcel_read_label(headers, &label));
	rd_kafka_headers_destroy(headers);
}

/* ---- Hosts -------------------------------------------------------------------------------------- */

static void test_hosts(void **state)
{
	static const char *const glob[] = { "db-*", "web-1" };
	char name[HOST_BYTES_MAX + 1];

	(void)state;
	assert_true(parcel_host_is_good("web-1"));
	assert_false(parcel_host_is_good(""));
	assert_false(parcel_host_is_good("web\n1"));
	assert_false(parcel_host_is_good("web\"1"));
	assert_false(parcel_host_is_good("web\\1"));
	memset(name, 'a', sizeof(name));
	name[HOST_BYTES_MAX - 1] = '\0';
	assert_true(parcel_host_is_good(name));
	name[HOST_BYTES_MAX - 1] = 'a';
	name[HOST_BYTES_MAX] = '\0';
	assert_false(parcel_host_is_good(name));
	assert_true(parcel_host_matches("web-1", glob, 2));
	assert_true(parcel_host_matches("db-7", glob, 2));
	assert_false(parcel_host_matches("web-12", glob, 2));
	assert_true(parcel_host_matches("web-12", NULL, 0));
}

/* ---- What stands for a frame --------------------------------------------------------------------- */

static void test_a_gap_of_what_was_refused(void **state)
{
	struct parcel_label label = { .type = FRAME_BATCH, .catalog = 3, .span = { true, 4, 10, 30 } };
	struct parcel *refused = parcel_create(KAFKA_FRAMES, &label, "x", 1, NULL, 0), *instead;
	struct frame_codec *codec = frame_codec_create(1);
	struct frame_header header;
	Ringtail__V1__Gap *gap;
	const uint8_t *body;
	uint8_t raw[64];

	(void)state;
	instead = parcel_create_gap(refused);
	assert_non_null(instead);
	assert_int_equal(instead->label.type, FRAME_GAP);
	assert_int_equal(instead->label.catalog, 3);
	assert_int_equal(instead->topic, KAFKA_FRAMES);
	assert_int_equal(frame_parse_header(instead->value, instead->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(header.type, FRAME_GAP);
	assert_int_equal(frame_open(codec, instead->value, &header, raw, &body), FRAME_OK);
	gap = ringtail__v1__gap__unpack(NULL, header.raw_bytes, body);
	assert_int_equal(gap->cpu, 4);
	assert_int_equal(gap->first_seq, 10);
	assert_int_equal(gap->end_seq, 30);
	assert_int_equal(gap->stage, RINGTAIL__V1__LOSS_STAGE__LOSS_EXPORT);
	assert_int_equal(gap->reason, RINGTAIL__V1__LOSS_REASON__REASON_REJECTED);
	ringtail__v1__gap__free_unpacked(gap, NULL);
	free(instead);
	refused->label.span.known = false;
	assert_null(parcel_create_gap(refused));
	free(refused);
	frame_codec_destroy(codec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_label_at_its_bounds),
		cmocka_unit_test(test_headers_that_are_none),
		cmocka_unit_test(test_a_text_ends_where_it_says),
		cmocka_unit_test(test_hosts),
		cmocka_unit_test(test_a_gap_of_what_was_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
