/* user_names: lines of passwd(5), also such as nobody should write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "query/user_names.h"

static void test_find(void **state)
{
	static const char lines[] = "root:x:0:0::/:/bin/sh\nwww:x:33:33\nwwww:x:34:\n\n:x:1:\nbad\nworse:x\n"
				    "no:x:a:\nhuge:x:99999999999:\nnobody:x:65534:1:::\nlast:x:7:";
	uint32_t uid;

	(void)state;
	assert_true(user_names_find("root", &uid));	/* though nothing was set */
	assert_int_equal(uid, 0);
	assert_false(user_names_find("www", &uid));
	user_names_set(lines);
	assert_true(user_names_find("www", &uid));
	assert_int_equal(uid, 33);
	assert_true(user_names_find("nobody", &uid));
	assert_int_equal(uid, 65534);
	assert_true(user_names_find("last", &uid));
	assert_int_equal(uid, 7);
	assert_false(user_names_find("ww", &uid));
	assert_false(user_names_find("", &uid));
	assert_false(user_names_find("bad", &uid));
	assert_false(user_names_find("worse", &uid));
	assert_false(user_names_find("no", &uid));
	assert_false(user_names_find("huge", &uid));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_find) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
