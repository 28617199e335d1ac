/* Ids of traces and spans are the published hash of a record's place: any language can make them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "daemon/base/trace_id.h"

static const uint8_t boot_id[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* What `openssl mac -macopt size:16 SIPHASH` says of the same words. */
static void test_known(void **state)
{
	const struct trace_place place = {boot_id, 0x0123456789abcdef, 3, 1000001};
	uint8_t trace[TRACE_ID_BYTES], span[SPAN_ID_BYTES];
	char text[TRACE_ID_TEXT_BYTES];

	(void)state;
	trace_id_make(&place, trace);
	trace_id_text(trace, text);
	assert_string_equal(text, "ccb02bda7a695118eb700c13e219f315");
	trace_id_make_span(&place, span);
	assert_memory_equal(span, "\x6b\xda\x00\xf8\xa0\xc0\x66\xa5", sizeof(span));
}

static void test_every_part_counts(void **state)
{
	static const uint8_t other_boot[16] = {1};
	const struct trace_place place[] = {
		{boot_id, 1, 1, 1}, {boot_id, 2, 1, 1}, {boot_id, 1, 2, 1}, {boot_id, 1, 1, 2},
		{other_boot, 1, 1, 1},
	};
	uint8_t id[sizeof(place) / sizeof(place[0])][TRACE_ID_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(place) / sizeof(place[0]); i++) {
		trace_id_make(&place[i], id[i]);
		for (size_t j = 0; j < i; j++)
			assert_memory_not_equal(id[i], id[j], TRACE_ID_BYTES);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_every_part_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
