/* What is compressed, zlib makes what it was, whatever it is and however long; damage is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "daemon/base/gzip.h"

#define BYTES_MAX 400000u

static size_t most_bytes;		/* that were asked for at once */

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);

void *__wrap_malloc(size_t bytes)
{
	most_bytes = bytes > most_bytes ? bytes : most_bytes;
	return __real_malloc(bytes);
}

static uint8_t in[BYTES_MAX], back[BYTES_MAX + 1];

enum content { ZEROS, NOISE, TEXT, MIXED, CONTENTS };

static void make(enum content content)
{
	static const char text[] = "openat(dfd=9) = 3 ";
	uint32_t state = 1;

	for (size_t i = 0; i < sizeof(in); i++) {
		state = state * 1103515245 + 12345;
		in[i] = content == ZEROS ? 0 :
			content == NOISE || (content == MIXED && i / 70000 % 2) ? (uint8_t)(state >> 16) :
			(uint8_t)text[(i + (state >> 29)) % (sizeof(text) - 1)];
	}
}

static size_t undo_with_zlib(const uint8_t *from, size_t bytes)
{
	z_stream stream = {.next_in = (uint8_t *)from, .avail_in = (unsigned)bytes,
			   .next_out = back, .avail_out = sizeof(back)};

	assert_int_equal(inflateInit2(&stream, 15 + 16), Z_OK);
	assert_int_equal(inflate(&stream, Z_FINISH), Z_STREAM_END);
	assert_int_equal(stream.avail_in, 0);
	inflateEnd(&stream);
	return stream.total_out;
}

static void test_there_and_back(void **state)
{
	/* Beside the borders of a stored block, of which what does not compress is made. */
	static const size_t bytes[] = {0, 1, 2, 9, 100, 65534, 65535, 65536, 131070, 131071, BYTES_MAX};

	(void)state;
	for (enum content content = 0; content < CONTENTS; content++) {
		make(content);
		for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
			uint8_t *out, *undone;
			size_t out_bytes, undone_bytes;

			assert_int_equal(gzip_compress(in, bytes[i], &out, &out_bytes), 0);
			assert_int_equal(undo_with_zlib(out, out_bytes), bytes[i]);
			assert_memory_equal(back, in, bytes[i]);
			assert_int_equal(gzip_undo(out, out_bytes, &undone, &undone_bytes), 0);
			assert_int_equal(undone_bytes, bytes[i]);
			assert_memory_equal(undone, in, bytes[i]);
			free(undone);
			free(out);
		}
	}
}

static void test_repetition_is_compressed(void **state)
{
	uint8_t *out;
	size_t bytes;

	(void)state;
	make(ZEROS);
	assert_int_equal(gzip_compress(in, sizeof(in), &out, &bytes), 0);
	assert_in_range(bytes, 18, sizeof(in) / 200);
	free(out);
}

static void test_damage_is_noticed(void **state)
{
	uint8_t *out, *undone;
	size_t bytes, undone_bytes;

	(void)state;
	make(TEXT);
	assert_int_equal(gzip_compress(in, 1000, &out, &bytes), 0);
	assert_int_equal(gzip_undo(out, 3, &undone, &undone_bytes), -EIO);
	for (size_t cut = 4; cut < bytes; cut++) {
		uint8_t part[2000];

		memcpy(part, out, cut - 4);
		memcpy(part + cut - 4, out + bytes - 4, 4);	/* its size, which is believed */
		assert_int_equal(gzip_undo(part, cut, &undone, &undone_bytes), -EIO);
	}
	out[bytes - 8] ^= 1;			/* its checksum */
	assert_int_equal(gzip_undo(out, bytes, &undone, &undone_bytes), -EIO);
	out[bytes - 8] ^= 1;
	for (int more = -1; more <= 1; more += 2) {
		out[bytes - 4] = (uint8_t)(1000 + more);	/* its size */
		assert_int_equal(gzip_undo(out, bytes, &undone, &undone_bytes), -EIO);
	}
	free(out);
}

/* A buffer has a byte more than the size: a size that leaves no room for that is refused before memory is taken. */
static void test_largest_size_is_refused(void **state)
{
	uint8_t *out, *undone;
	size_t bytes, undone_bytes;

	(void)state;
	make(TEXT);
	assert_int_equal(gzip_compress(in, 1000, &out, &bytes), 0);
	memset(out + bytes - 4, 0xff, 4);
	most_bytes = 0;
	assert_int_equal(gzip_undo(out, bytes, &undone, &undone_bytes), -EIO);
	assert_int_equal(most_bytes, 0);
	free(out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_repetition_is_compressed),
		cmocka_unit_test(test_damage_is_noticed),
		cmocka_unit_test(test_largest_size_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
