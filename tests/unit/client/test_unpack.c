/* test_unpack: what a daemon sends is looked over before it is unpacked, as what clients send is. */
#include "tests/unit/client/check.h"

#include "client/lib/unpack.h"
#include "proto/ringtail.pb-c.h"

static void repeated_singular_field(void **state)
{
	static const uint8_t subscribed[] = "\x0a\x02\x10\x05\x0a\x02\x10\x05";
	struct arena *arena = NULL;

	(void)state;
	assert_non_null(unpack(&ringtail__v1__subscribed__descriptor, subscribed, 4, &arena));
	arena_destroy(arena);
	assert_null(unpack(&ringtail__v1__subscribed__descriptor, subscribed, 8, &arena));
	assert_null(arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(repeated_singular_field),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
