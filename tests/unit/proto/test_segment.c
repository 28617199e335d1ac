/* Names of segments, and where a sealed one ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "proto/frame.h"
#include "proto/segment.h"

static void test_names(void **state)
{
	static const uint64_t sequences[] = {0, 1, 0xdeadbeef, UINT64_MAX};
	char name[SEGMENT_NAME_BYTES];

	(void)state;
	segment_name_format(name, 255, SEGMENT_SEALED);
	assert_string_equal(name, "00000000000000ff.seg");
	for (unsigned i = 0; i < 4; i++) {
		for (unsigned j = SEGMENT_OPEN; j <= SEGMENT_BAD; j++) {
			enum segment_state is;
			uint64_t sequence;

			segment_name_format(name, sequences[i], (enum segment_state)j);
			assert_true(segment_name_parse(name, &sequence, &is));
			assert_int_equal(sequence, sequences[i]);
			assert_int_equal(is, j);
		}
	}
}

static void test_other_names(void **state)
{
	static const char *const names[] = {
		"", ".", "..", "1.seg", "0000000000000001", "0000000000000001.", "consumers",
		"0000000000000001.segs", "000000000000000A.seg", "00000000000000001.seg",
		"000000000000000g.seg", " 000000000000001.seg", "0000000000000001.SEG",
	};
	enum segment_state is;
	uint64_t sequence;

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		assert_false(segment_name_parse(names[i], &sequence, &is));
}

static void test_spool_names(void **state)
{
	char name[2 * SPOOL_NAME_BYTES] = "";

	(void)state;
	for (size_t n = 0; n < sizeof(name) - 1; n++) {
		assert_int_equal(spool_name_is_valid(name), n == SPOOL_NAME_BYTES - 1);
		name[n] = "0123456789abcdef"[n % 16];
	}
	name[SPOOL_NAME_BYTES - 1] = '/';
	assert_false(spool_name_is_valid(name));
	name[SPOOL_NAME_BYTES - 1] = '\0';
	for (const char *c = "/.gAF\n \xff"; *c; c++) {
		name[3] = *c;
		assert_false(spool_name_is_valid(name));
	}
}

/* A file of some frame, then the end; `end` says where. */
static size_t make_file(uint8_t *out, size_t *end)
{
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t body[100];
	size_t n;

	for (unsigned i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 37);
	n = frame_seal(codec, FRAME_BATCH, body, sizeof(body), out);
	*end = n;
	n += frame_seal(codec, FRAME_SEGMENT_END, body, 60, out + n);
	frame_codec_destroy(codec);
	return n;
}

static void test_end(void **state)
{
	uint8_t file[1000];
	size_t end, at, n = make_file(file, &end);

	(void)state;
	/* In all of the file, or just the last of it. */
	for (size_t from = 0; from <= end; from++) {
		assert_true(segment_find_end(file + from, n - from, &at));
		assert_int_equal(from + at, end);
	}
	/* Not in a part of the frame, nor with anything behind it, nor without it. */
	for (size_t from = end + 1; from <= n; from++)
		assert_false(segment_find_end(file + from, n - from, &at));
	for (size_t to = 0; to < n; to++)
		assert_false(segment_find_end(file, to, &at));
	file[n] = 0;
	assert_false(segment_find_end(file, n + 1, &at));
}

static void test_running_checksum(void **state)
{
	static const uint8_t digits[] = "123456789";
	uint32_t crc = 0;

	(void)state;
	/* The check value of CRC-32C in every catalogue of them. */
	assert_int_equal(frame_crc32c(0, digits, 9), 0xe3069283u);
	for (unsigned i = 0; i < 9; i++)
		crc = frame_crc32c(crc, digits + i, 1);
	assert_int_equal(crc, 0xe3069283u);
	assert_int_equal(frame_crc32c(5, digits, 0), 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_other_names),
		cmocka_unit_test(test_spool_names),
		cmocka_unit_test(test_end),
		cmocka_unit_test(test_running_checksum),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
