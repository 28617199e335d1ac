/*
 * test_wire: varints and zigzag at every length, and what the reader makes of bytes that end early.
 */
#include "proto/wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The definition, slowly. */
static size_t slow_put(uint8_t *out, uint64_t value)
{
	size_t n = 0;

	for (; value > 127; value >>= 7)
		out[n++] = (uint8_t)(value % 128 + 128);
	out[n++] = (uint8_t)value;
	return n;
}

static void check_varint(uint64_t value)
{
	uint8_t slow[WIRE_WRITE_BYTES], fast[WIRE_WRITE_BYTES];
	size_t n = slow_put(slow, value);
	struct wire_reader reader = { slow, slow + n };
	uint64_t read;

	assert_int_equal(wire_put(fast, value) - fast, n);
	assert_memory_equal(fast, slow, n);
	assert_true(wire_get(&reader, &read));
	assert_int_equal(read, value);
	assert_ptr_equal(reader.at, reader.end);
	for (size_t cut = 0; cut < n; cut++) {
		uint8_t *exact = malloc(cut + 1);	/* for the sanitizer to guard */

		assert_non_null(exact);
		memcpy(exact + 1, slow, cut);
		reader = (struct wire_reader){ exact + 1, exact + 1 + cut };
		assert_false(wire_get(&reader, &read));
		free(exact);
	}
}

static void test_varints(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		check_varint(1ULL << bit);
		check_varint((1ULL << bit) - 1);
		check_varint((1ULL << bit) + 1);
		check_varint(0xa5a5a5a5a5a5a5a5ULL >> bit);
	}
	check_varint(UINT64_MAX);
}

static void test_zigzag(void **state)
{
	(void)state;
	assert_int_equal(wire_zigzag(0), 0);
	assert_int_equal(wire_zigzag((uint64_t)-1), 1);
	assert_int_equal(wire_zigzag(1), 2);
	assert_int_equal(wire_zigzag((uint64_t)INT64_MIN), UINT64_MAX);
	for (unsigned bit = 0; bit < 64; bit++) {
		assert_int_equal(wire_unzigzag(wire_zigzag(1ULL << bit)), 1ULL << bit);
		assert_int_equal(wire_unzigzag(wire_zigzag(0 - (1ULL << bit))), 0 - (1ULL << bit));
	}
}

static void test_varint_over_64_bits(void **state)
{
	uint8_t bytes[11];
	uint64_t value;
	struct wire_reader reader = { bytes, bytes + 10 };

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	bytes[9] = 2;
	assert_false(wire_get(&reader, &value));
	bytes[9] = 0x80;
	bytes[10] = 0;
	reader = (struct wire_reader){ bytes, bytes + 11 };
	assert_false(wire_get(&reader, &value));
}

static void test_fields(void **state)
{
	static const uint8_t message[] = {
		0x08, 0x96, 0x01,				/* 1: 150 */
		0x12, 3, 'a', 'b', 'c',				/* 2: "abc" */
		0x19, 1, 2, 3, 4, 5, 6, 7, 8,			/* 3: fixed64 */
		0x25, 1, 2, 3, 4,				/* 4: fixed32 */
	};
	struct wire_reader reader = { message, message + sizeof(message) };
	struct wire_field field;

	(void)state;
	assert_true(wire_get_field(&reader, &field));
	assert_int_equal(field.number, 1);
	assert_int_equal(field.value, 150);
	assert_true(wire_get_field(&reader, &field));
	assert_int_equal(field.number, 2);
	assert_int_equal(field.body.end - field.body.at, 3);
	assert_memory_equal(field.body.at, "abc", 3);
	assert_true(wire_get_field(&reader, &field));
	assert_int_equal(field.value, 0x0807060504030201);
	assert_true(wire_get_field(&reader, &field));
	assert_int_equal(field.number, 4);
	assert_int_equal(field.value, 0x04030201);
	assert_ptr_equal(reader.at, reader.end);
	assert_false(wire_get_field(&reader, &field));
}

/* Of every type; the same bytes with the number 1 are a field. */
static void test_no_field_has_number_zero(void **state)
{
	static const enum wire_type types[] = { WIRE_VARINT, WIRE_FIXED64, WIRE_BYTES, WIRE_FIXED32 };
	uint8_t bytes[9] = { 0 };
	struct wire_field field;

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		struct wire_reader reader = { bytes, bytes + sizeof(bytes) };

		bytes[0] = (uint8_t)types[i];
		assert_false(wire_get_field(&reader, &field));
		bytes[0] = (uint8_t)(1 << 3 | types[i]);
		reader.at = bytes;
		assert_true(wire_get_field(&reader, &field));
	}
}

static void test_empty_is_left_out(void **state)
{
	uint8_t out[64];

	(void)state;
	assert_ptr_equal(wire_put_scalar(out, 1, 0), out);
	assert_ptr_equal(wire_put_bytes(out, 1, NULL, 0), out);
	assert_ptr_equal(wire_put_message(out, 1, out, out), out + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_varints),
		cmocka_unit_test(test_zigzag),
		cmocka_unit_test(test_varint_over_64_bits),
		cmocka_unit_test(test_fields),
		cmocka_unit_test(test_no_field_has_number_zero),
		cmocka_unit_test(test_empty_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
