/*
 * test_memory: each allocation of this room fails in turn; nothing crashes, nothing leaks, and the
 * next try works.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include <cmocka.h>

#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/frame.h"
#include "tests/lib/failing_memory.h"

ZSTD_CCtx *__real_ZSTD_createCCtx(void);
ZSTD_CCtx *__wrap_ZSTD_createCCtx(void);
ZSTD_DCtx *__real_ZSTD_createDCtx(void);
ZSTD_DCtx *__wrap_ZSTD_createDCtx(void);

ZSTD_CCtx *__wrap_ZSTD_createCCtx(void)
{
	return may_allocate() ? __real_ZSTD_createCCtx() : NULL;
}

ZSTD_DCtx *__wrap_ZSTD_createDCtx(void)
{
	return may_allocate() ? __real_ZSTD_createDCtx() : NULL;
}

#define ALLOCATIONS_MAX 16

static void *create_encoder(void)
{
	return batch_encoder_create(100);
}

static void destroy_encoder(void *encoder)
{
	batch_encoder_destroy(encoder);
}

static void *create_decoder(void)
{
	static const struct batch_probe probe;

	return batch_decoder_create(&probe, 1);
}

static void destroy_decoder(void *decoder)
{
	batch_decoder_destroy(decoder);
}

static void *create_codec(void)
{
	return frame_codec_create(1);
}

static void destroy_codec(void *codec)
{
	frame_codec_destroy(codec);
}

/* Fails the first allocation, then the second, ... until none is left to fail. */
static void check(void *(*create)(void), void (*destroy)(void *), unsigned allocations)
{
	for (unsigned i = 0; i <= ALLOCATIONS_MAX; i++) {
		void *made;

		allocations_left = i;
		failures_left = 1;
		made = create();
		allocations_left = failures_left = 0;
		destroy(made);
		if (made) {
			assert_int_equal(i, allocations);
			return;
		}
	}
	fail_msg("it does not work with any number of allocations");
}

static void test_encoder(void **state)
{
	(void)state;
	check(create_encoder, destroy_encoder, 6);
}

static void test_decoder(void **state)
{
	(void)state;
	check(create_decoder, destroy_decoder, 1);	/* its tables grow as batches need them */
}

static void test_codec(void **state)
{
	(void)state;
	check(create_codec, destroy_codec, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_encoder),
		cmocka_unit_test(test_decoder),
		cmocka_unit_test(test_codec),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
