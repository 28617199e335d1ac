/*
 * test_frame: what is sealed opens again, every bit that flips on the way is noticed, and each way
 * in which bytes are not a frame has its own answer.
 */
#include "proto/frame.h"

#include <endian.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <isa-l/crc.h>
#include <zstd.h>

#include "proto/limits.h"

#define ZSTD_HEADER_BYTES_MAX 18

static struct frame_codec *codec;

/* Makes header and checksum fit whatever body a test has put behind them; returns all bytes. */
static size_t forge(uint8_t *frame, uint32_t body_bytes, uint32_t raw_bytes)
{
	const uint16_t magic = htole16(FRAME_MAGIC);
	uint32_t crc;

	memcpy(frame, &magic, 2);
	frame[2] = FRAME_VERSION;
	frame[3] = FRAME_BATCH;
	body_bytes = htole32(body_bytes);
	raw_bytes = htole32(raw_bytes);
	memcpy(frame + 4, &body_bytes, 4);
	memcpy(frame + 8, &raw_bytes, 4);
	body_bytes = le32toh(body_bytes);
	crc = crc32_iscsi(frame, 12, ~0u);
	crc = htole32(~crc32_iscsi(frame + FRAME_HEADER_BYTES, (int)body_bytes, crc));
	memcpy(frame + 12, &crc, 4);
	return FRAME_HEADER_BYTES + body_bytes;
}

static enum frame_status parse(const uint8_t *frame, size_t bytes, struct frame_header *header)
{
	return frame_parse_header(frame, bytes, FRAME_RAW_BYTES_MAX, header);
}

/* Parses and opens; the raw buffer is exactly as large as promised, for the sanitizer to guard. */
static enum frame_status open_frame(const uint8_t *frame, size_t bytes, uint8_t **copy,
				    uint32_t *raw_bytes)
{
	struct frame_header header;
	enum frame_status status = parse(frame, bytes, &header);
	const uint8_t *body;
	uint8_t *raw;

	*copy = NULL;
	if (status || header.body_bytes > bytes - FRAME_HEADER_BYTES)
		return status ? status : FRAME_SHORT;
	raw = malloc(header.raw_bytes ? header.raw_bytes : 1);
	assert_non_null(raw);
	status = frame_open(codec, frame, &header, raw, &body);
	if (!status && body != raw) {
		assert_ptr_equal(body, frame + FRAME_HEADER_BYTES);
		memcpy(raw, body, header.raw_bytes);
	}
	if (status) {
		free(raw);
		return status;
	}
	*copy = raw;
	*raw_bytes = header.raw_bytes;
	return FRAME_OK;
}

static enum frame_status status_of(const uint8_t *frame, size_t bytes)
{
	uint32_t raw_bytes;
	uint8_t *copy;
	enum frame_status status = open_frame(frame, bytes, &copy, &raw_bytes);

	free(copy);
	return status;
}

static void check_round_trip(const uint8_t *raw, uint32_t bytes)
{
	uint8_t *frame = malloc(frame_bound(bytes)), *copy;
	size_t frame_bytes, made_bytes;
	const uint8_t *made;
	uint32_t raw_bytes;

	assert_non_null(frame);
	frame_bytes = frame_seal(codec, FRAME_BATCH, raw, bytes, frame);
	assert_in_range(frame_bytes, FRAME_HEADER_BYTES, FRAME_HEADER_BYTES + bytes);
	made = frame_make(codec, FRAME_BATCH, raw, bytes, &made_bytes);
	assert_int_equal(made_bytes, frame_bytes);
	assert_memory_equal(made, frame, made_bytes);
	assert_int_equal(open_frame(frame, frame_bytes, &copy, &raw_bytes), FRAME_OK);
	assert_int_equal(raw_bytes, bytes);
	if (bytes)
		assert_memory_equal(copy, raw, bytes);
	free(copy);
	free(frame);
}

static void fill_noise(uint8_t *bytes, size_t n)
{
	uint64_t state = 88172645463325252ULL;

	for (size_t i = 0; i < n; i++) {
		state ^= state << 13;
		state ^= state >> 7;
		state ^= state << 17;
		bytes[i] = (uint8_t)state;
	}
}

static void test_round_trip(void **state)
{
	static const uint32_t sizes[] = {
		0, 1, FRAME_COMPRESS_BYTES_MIN - 1, FRAME_COMPRESS_BYTES_MIN, 5000, 200000,
		FRAME_RAW_BYTES_MAX - 1, FRAME_RAW_BYTES_MAX,
	};
	uint8_t *raw = calloc(1, FRAME_RAW_BYTES_MAX);
	size_t bytes;

	(void)state;
	assert_non_null(raw);
	for (unsigned noise = 0; noise < 2; noise++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			check_round_trip(raw, sizes[i]);
		fill_noise(raw, FRAME_RAW_BYTES_MAX);
	}
	assert_int_equal(frame_seal(codec, FRAME_BATCH, raw, FRAME_RAW_BYTES_MAX + 1, raw), 0);
	assert_null(frame_make(codec, FRAME_BATCH, raw, FRAME_RAW_BYTES_MAX + 1, &bytes));
	free(raw);
}

/* The header as frame.h draws it, and the checksum's test vector: CRC-32C of "123456789". */
static void test_layout(void **state)
{
	static const uint8_t expected[] = { 0x52, 0x74, 1, 8, 9, 0, 0, 0, 9, 0, 0, 0 };
	uint8_t frame[1024];

	(void)state;
	assert_int_equal(~crc32_iscsi((unsigned char *)"123456789", 9, ~0u), 0xe3069283);
	assert_int_equal(frame_seal(codec, FRAME_BATCH, (const uint8_t *)"123456789", 9, frame),
			 25);
	assert_memory_equal(frame, expected, sizeof(expected));
	assert_memory_equal(frame + FRAME_HEADER_BYTES, "123456789", 9);
	assert_int_equal(forge(frame, 9, 9), 25);
	assert_int_equal(status_of(frame, 25), FRAME_OK);
}

static void test_short(void **state)
{
	uint8_t frame[1024];
	struct frame_header header;

	(void)state;
	frame_seal(codec, FRAME_BYE, (const uint8_t *)"abc", 3, frame);
	for (size_t n = 0; n < FRAME_HEADER_BYTES; n++)
		assert_int_equal(parse(frame, n, &header), FRAME_SHORT);
	assert_int_equal(parse(frame, FRAME_HEADER_BYTES, &header), FRAME_OK);
	assert_int_equal(header.type, FRAME_BYE);
	assert_int_equal(header.body_bytes, 3);
	assert_int_equal(header.raw_bytes, 3);
}

static void test_not_a_frame(void **state)
{
	uint8_t frame[1024];
	struct frame_header header;

	(void)state;
	frame_seal(codec, FRAME_BYE, (const uint8_t *)"abc", 3, frame);
	frame[0] ^= 1;
	assert_int_equal(parse(frame, 19, &header), FRAME_BAD_MAGIC);
	frame[0] ^= 1;
	frame[2] = FRAME_VERSION + 1;
	assert_int_equal(parse(frame, 19, &header), FRAME_BAD_VERSION);
	frame[2] = FRAME_VERSION;
	for (unsigned type = 0; type < 256; type++) {
		bool known = strcmp(frame_type_name(type), "?") != 0;

		frame[3] = (uint8_t)type;
		assert_int_equal(parse(frame, 19, &header), known ? FRAME_OK : FRAME_BAD_TYPE);
	}
	assert_int_equal(parse((const uint8_t *)"GET / HTTP/1.1\r\n\r\n", 18, &header),
			 FRAME_BAD_MAGIC);
}

static void test_too_large(void **state)
{
	uint8_t frame[64] = { 0 };
	struct frame_header header;

	(void)state;
	forge(frame, 4, 101);
	assert_int_equal(frame_parse_header(frame, 64, 101, &header), FRAME_OK);
	assert_int_equal(frame_parse_header(frame, 64, 100, &header), FRAME_TOO_LARGE);
	forge(frame, 5, 4);				/* "compressed" to more than it was */
	assert_int_equal(parse(frame, 64, &header), FRAME_TOO_LARGE);
	forge(frame, 4, FRAME_RAW_BYTES_MAX + 1);
	assert_int_equal(frame_parse_header(frame, 64, UINT32_MAX, &header), FRAME_TOO_LARGE);
	forge(frame, 4, UINT32_MAX);
	assert_int_equal(frame_parse_header(frame, 64, UINT32_MAX, &header), FRAME_TOO_LARGE);
}

/* Every bit of a frame matters, in a plain one and in a compressed one. */
static void test_bit_flips(void **state)
{
	uint8_t raw[400], frame[1024];

	(void)state;
	memset(raw, 'r', sizeof(raw));
	for (uint32_t bytes = 20; bytes <= 400; bytes += 380) {
		size_t n = frame_seal(codec, FRAME_BATCH, raw, bytes, frame);

		assert_int_equal(status_of(frame, n), FRAME_OK);
		for (size_t bit = 0; bit < n * 8; bit++) {
			frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_int_not_equal(status_of(frame, n), FRAME_OK);
			frame[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		frame[n - 1] ^= 1;
		assert_int_equal(status_of(frame, n), FRAME_BAD_CHECKSUM);
	}
}

/* Bodies that zstd would take, or half take, with a right checksum around them. */
static void test_bad_zstd(void **state)
{
	static uint8_t raw[4000], frame[8192];
	uint8_t *body = frame + FRAME_HEADER_BYTES;
	static const uint8_t skippable[] = { 0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4 };
	uint32_t n;

	(void)state;
	memset(raw, 'z', sizeof(raw));
	n = (uint32_t)ZSTD_compress(body, 4096, raw, sizeof(raw), 1);
	assert_false(ZSTD_isError(n));
	assert_int_equal(status_of(frame, forge(frame, n, sizeof(raw))), FRAME_OK);
	assert_int_equal(status_of(frame, forge(frame, n, sizeof(raw) - 1)), FRAME_BAD_ZSTD);
	assert_int_equal(status_of(frame, forge(frame, n, sizeof(raw) + 1)), FRAME_BAD_ZSTD);
	assert_int_equal(status_of(frame, forge(frame, n - 1, sizeof(raw))), FRAME_BAD_ZSTD);
	/* Bytes behind the zstd frame: one, another frame, a skippable frame. */
	assert_int_equal(status_of(frame, forge(frame, n + 1, sizeof(raw))), FRAME_BAD_ZSTD);
	memcpy(body + n, body, n);
	assert_int_equal(status_of(frame, forge(frame, 2 * n, sizeof(raw))), FRAME_BAD_ZSTD);
	assert_int_equal(status_of(frame, forge(frame, 2 * n, 2 * sizeof(raw))), FRAME_BAD_ZSTD);
	memcpy(body + n, skippable, sizeof(skippable));
	assert_int_equal(status_of(frame, forge(frame, n + sizeof(skippable), sizeof(raw))),
			 FRAME_BAD_ZSTD);
	/* A skippable frame alone, no zstd at all, too little to tell. */
	memcpy(body, skippable, sizeof(skippable));
	assert_int_equal(status_of(frame, forge(frame, sizeof(skippable), 100)), FRAME_BAD_ZSTD);
	assert_int_equal(status_of(frame, forge(frame, 100, 4000)), FRAME_BAD_ZSTD);
	assert_int_equal(status_of(frame, forge(frame, 3, 4000)), FRAME_BAD_ZSTD);
	assert_int_equal(status_of(frame, forge(frame, 0, 4000)), FRAME_BAD_ZSTD);
}

/* A zstd frame that does not announce its size: what it unpacks to is not known beforehand. */
static void test_unannounced_size(void **state)
{
	static uint8_t raw[4000], frame[8192];
	ZSTD_CCtx *context = ZSTD_createCCtx();
	size_t n;

	(void)state;
	assert_non_null(context);
	ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, 0);
	n = ZSTD_compress2(context, frame + FRAME_HEADER_BYTES, 4096, raw, sizeof(raw));
	ZSTD_freeCCtx(context);
	assert_int_equal(status_of(frame, forge(frame, (uint32_t)n, sizeof(raw))), FRAME_BAD_ZSTD);
}

/* 64 MiB of zeros in some kilobytes: as announced it is too large, under a lie it is no frame. */
static void test_bomb(void **state)
{
	const size_t bomb_bytes = 64u << 20;
	uint8_t *zeros = calloc(1, bomb_bytes), *frame = malloc(1u << 20);
	struct frame_header header;
	size_t n;

	(void)state;
	assert_true(zeros && frame);
	n = ZSTD_compress(frame + FRAME_HEADER_BYTES, (1u << 20) - FRAME_HEADER_BYTES, zeros,
			  bomb_bytes, 1);
	assert_in_range(n, ZSTD_HEADER_BYTES_MAX, 1u << 18);
	forge(frame, (uint32_t)n, (uint32_t)bomb_bytes);
	assert_int_equal(parse(frame, 1u << 20, &header), FRAME_TOO_LARGE);
	assert_int_equal(status_of(frame, forge(frame, (uint32_t)n, FRAME_RAW_BYTES_MAX)),
			 FRAME_BAD_ZSTD);
	/* The bomb lies about itself, too: its announced size becomes what the header says. */
	assert_int_equal(frame[FRAME_HEADER_BYTES + 4] & 0xc0, 0x80);	/* 4 bytes of size ... */
	memset(frame + FRAME_HEADER_BYTES + 6, 0, 4);			/* ... after the window */
	frame[FRAME_HEADER_BYTES + 8] = FRAME_RAW_BYTES_MAX >> 16;
	assert_int_equal(ZSTD_getFrameContentSize(frame + FRAME_HEADER_BYTES, n),
			 FRAME_RAW_BYTES_MAX);
	assert_int_equal(status_of(frame, forge(frame, (uint32_t)n, FRAME_RAW_BYTES_MAX)),
			 FRAME_BAD_ZSTD);
	free(zeros);
	free(frame);
}

static void test_names(void **state)
{
	(void)state;
	for (unsigned status = FRAME_OK; status <= FRAME_BAD_MESSAGE; status++) {
		assert_string_not_equal(frame_status_name(status), "?");
		assert_string_not_equal(frame_status_text(status), "?");
	}
	assert_string_equal(frame_status_name(FRAME_BAD_CHECKSUM), "bad-checksum");
	assert_string_equal(frame_status_name(FRAME_BAD_MESSAGE + 1), "?");
	assert_string_equal(frame_status_text(FRAME_BAD_MESSAGE + 1), "?");
#define FRAME(name, value, message, sender) \
	assert_string_not_equal(frame_type_name(FRAME_##name), "?");
#include "proto/frame_types.def"
#undef FRAME
	assert_string_equal(frame_type_name(FRAME_BATCH), "batch");
	assert_string_equal(frame_type_name(0), "?");
	assert_string_equal(frame_type_name(UINT32_MAX), "?");
}

static int setup(void **state)
{
	(void)state;
	codec = frame_codec_create(1);
	return codec ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	frame_codec_destroy(codec);
	frame_codec_destroy(NULL);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_layout),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_short),
		cmocka_unit_test(test_not_a_frame),
		cmocka_unit_test(test_too_large),
		cmocka_unit_test(test_bit_flips),
		cmocka_unit_test(test_bad_zstd),
		cmocka_unit_test(test_unannounced_size),
		cmocka_unit_test(test_bomb),
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
