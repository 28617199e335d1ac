/*
 * parts: started forwards and stopped back; where one fails, it and those before it are stopped, the last
 * one first, each once, and none after it is touched.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/engine.h"

struct engine {
	char told[64];
	char failing;		/* the part that fails, or 0 */
};

static void tell(struct engine *engine, const char *what)
{
	strncat(engine->told, what, sizeof(engine->told) - strlen(engine->told) - 1);
}

static int start(struct engine *engine, char name, const char *what, struct error *error)
{
	tell(engine, what);
	return engine->failing == name ? error_set(error, EIO, "broken", "%c does not start", name) : 0;
}

static int start_a(struct engine *engine, struct error *error)
{
	return start(engine, 'a', "+a", error);
}

static int start_b(struct engine *engine, struct error *error)
{
	return start(engine, 'b', "+b", error);
}

static int start_c(struct engine *engine, struct error *error)
{
	return start(engine, 'c', "+c", error);
}

static void stop_a(struct engine *engine)
{
	tell(engine, "-a");
}

static void stop_c(struct engine *engine)
{
	tell(engine, "-c");
}

static const struct engine_part parts[] = {
	{"a", start_a, stop_a},
	{"b", start_b, NULL},
	{"c", start_c, stop_c},
};

#define PARTS (sizeof(parts) / sizeof(parts[0]))

static void test_all_start_and_stop_in_reverse(void **state)
{
	struct engine engine = {0};
	struct error error = {0};

	(void)state;
	assert_int_equal(engine_parts_start(parts, PARTS, &engine, &error), 0);
	assert_string_equal(engine.told, "+a+b+c");
	engine_parts_stop(parts, PARTS, &engine);
	assert_string_equal(engine.told, "+a+b+c-c-a");
}

static void test_one_that_fails_is_unwound(void **state)
{
	static const struct {
		char failing;
		const char *told;
	} cases[] = {{'a', "+a-a"}, {'b', "+a+b-a"}, {'c', "+a+b+c-c-a"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct engine engine = {.failing = cases[i].failing};
		struct error error = {0};

		assert_int_equal(engine_parts_start(parts, PARTS, &engine, &error), -EIO);
		assert_string_equal(error.code, "broken");
		assert_string_equal(engine.told, cases[i].told);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_start_and_stop_in_reverse),
		cmocka_unit_test(test_one_that_fails_is_unwound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
