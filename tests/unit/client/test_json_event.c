/* test_json_event: single values of an event as JSON. */
#include "tests/unit/client/check.h"

#include "client/cli/json_event.h"

static struct out out;

/* Elements of an array have the sign of their type; where the bytes were cut, no half of one is shown. */
static void arrays_json(void **state)
{
	static const struct {
		struct ringtail_field field;
		const char *json;
	} cases[] = {
		{ { .type = RINGTAIL_BYTES, .bits = 16, .bytes = 8, .element_signed = true }, "[0,1,-2,3]" },
		{ { .type = RINGTAIL_BYTES, .bits = 16, .bytes = 8 }, "[0,1,65534,3]" },
		{ { .type = RINGTAIL_BYTES, .bits = 16, .bytes = 7, .element_signed = true }, "[0,1,-2]" },
		{ { .type = RINGTAIL_BYTES, .bits = 8, .bytes = 5, .element_signed = true }, "[0,0,1,0,-2]" },
		{ { .type = RINGTAIL_BYTES, .bits = 32, .bytes = 8 }, "[65536,262142]" },
	};
	const uint64_t value = 0x0003fffe00010000;

	(void)state;
	check_out(&out);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct ringtail_probe probe = { .fields = 1, .field = &cases[i].field };
		const struct ringtail_item event = { .kind = RINGTAIL_EVENT, .probe = &probe, .value = &value };

		json_put_value(&out, &event, 0);
		assert_string_equal(check_text(&out), cases[i].json);
	}
	close(out.fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arrays_json),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
