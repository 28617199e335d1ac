#include "query/probe_filter.h"

#include <string.h>

_Static_assert(RT_PROGRAM_TESTS_MAX <= RT_PROGRAM_FAIL, "a test's number is no other place");

void probe_filter_init(struct probe_filter *filter)
{
	filter->first = RT_PROGRAM_FAIL;
	filter->tests = 0;
	filter->whole = true;
	filter->asks_texts = true;
}

void probe_filter_open(struct probe_filter *filter)
{
	filter->first = RT_PROGRAM_PASS;
	filter->tests = 0;
}

bool probe_filter_add(struct probe_filter *filter, const struct rt_program_test *test, uint8_t *place)
{
	if (test->yes == test->no) {
		*place = test->yes;
		return true;
	}
	if (filter->tests == RT_PROGRAM_TESTS_MAX)
		return false;
	filter->test[filter->tests] = *test;
	*place = filter->tests++;
	return true;
}

static uint8_t moved(const uint8_t place[RT_PROGRAM_TESTS_MAX], uint8_t from)
{
	return from < RT_PROGRAM_TESTS_MAX ? place[from] : from;
}

/* Whether the process is asked, and the answer. */
static bool is_of_process(const struct rt_program_test *test, uint32_t pid, uint32_t uid, bool *yes)
{
	uint32_t number = test->kind == PROBE_FILTER_PID ? pid : uid;

	*yes = (number - test->low <= test->span) != test->negated;
	return test->kind == PROBE_FILTER_PID || test->kind == PROBE_FILTER_UID;
}

/* Which tests the process may come to. */
static void find_reached(const struct probe_filter *filter, uint32_t pid, uint32_t uid, bool reached[RT_PROGRAM_FAIL + 2])
{
	reached[filter->first] = true;
	for (unsigned i = filter->tests; i--;) {
		const struct rt_program_test *test = &filter->test[i];
		bool yes, decided = is_of_process(test, pid, uid, &yes);

		reached[test->yes] |= reached[i] && (!decided || yes);
		reached[test->no] |= reached[i] && (!decided || !yes);
	}
}

uint8_t probe_filter_settle(const struct probe_filter *filter, uint32_t pid, uint32_t uid, struct probe_filter *to)
{
	uint8_t place[RT_PROGRAM_TESTS_MAX] = {0}, before = to->tests;
	bool reached[RT_PROGRAM_FAIL + 2] = {false};

	find_reached(filter, pid, uid, reached);
	/* Each goes on at lower ones, which have their places by then. */
	for (uint8_t i = 0; i < filter->tests; i++) {
		struct rt_program_test test = filter->test[i];
		bool yes;

		if (!reached[i])
			continue;
		test.yes = moved(place, test.yes);
		test.no = moved(place, test.no);
		if (is_of_process(&test, pid, uid, &yes)) {
			place[i] = yes ? test.yes : test.no;
		} else if (!probe_filter_add(to, &test, &place[i])) {
			to->tests = before;
			return RT_PROGRAM_PASS;
		}
	}
	return moved(place, filter->first);
}
