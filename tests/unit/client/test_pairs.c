/* pairs: what begins ends once, with its own numbers; what is too much, or given up, does not. */
#include "tests/unit/client/check.h"

#include <stdlib.h>

#include "client/cli/pairs.h"

static const uint64_t one[PAIRS_ON_MAX] = { 1 }, two[PAIRS_ON_MAX] = { 0, 1 };

static void begin_and_end(void **state)
{
	struct pairs *pairs = pairs_create();
	struct pair *pair;

	(void)state;
	assert_null(pairs_end(pairs, one));
	assert_true(pairs_begin(pairs, one, 5, "abc", 2, 3, false));
	assert_true(pairs_begin(pairs, two, 6, "", 0, 0, false));
	assert_true(pairs_begin(pairs, one, 7, "de", 2, 4, false));	/* anew */
	assert_int_equal(pairs_open(pairs), 2);
	assert_int_equal(pairs_replaced(pairs), 1);
	pair = pairs_end(pairs, one);
	assert_int_equal(pair->time_ns, 7);
	assert_string_equal(pair->key, "de");
	assert_int_equal(pair->numbers, 4);
	free(pair);
	assert_null(pairs_end(pairs, one));
	pairs_give_up(pairs);
	assert_int_equal(pairs_open(pairs), 0);
	assert_null(pairs_end(pairs, two));
	assert_int_equal(pairs_replaced(pairs), 1);
	pairs_destroy(pairs);
	pairs_destroy(NULL);
}

static void bounded(void **state)
{
	struct pairs *pairs = pairs_create();
	uint64_t on[PAIRS_ON_MAX] = { 0 };

	(void)state;
	for (; on[1] < PAIRS_MAX; on[1]++)
		assert_true(pairs_begin(pairs, on, 1, "k", 1, 0, false));
	assert_false(pairs_begin(pairs, on, 1, "k", 1, 0, false));
	on[1] = 7;
	assert_true(pairs_begin(pairs, on, 2, "k", 1, 0, false));
	for (on[1] = 0; on[1] < PAIRS_MAX; on[1]++) {
		struct pair *pair = pairs_end(pairs, on);

		assert_int_equal(pair->time_ns, on[1] == 7 ? 2 : 1);
		free(pair);
	}
	assert_int_equal(pairs_open(pairs), 0);
	/* And once more, for all of that was given back: none is left of what is given up. */
	for (on[1] = 0; on[1] < PAIRS_MAX; on[1]++)
		assert_true(pairs_begin(pairs, on, 3, "kk", 1, 0, false));
	pairs_give_up(pairs);
	assert_int_equal(pairs_open(pairs), 0);
	for (on[1] = 0; on[1] < PAIRS_MAX; on[1]++)
		assert_null(pairs_end(pairs, on));
	pairs_destroy(pairs);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(begin_and_end), cmocka_unit_test(bounded) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
