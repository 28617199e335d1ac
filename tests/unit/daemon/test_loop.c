/*
 * A callback that makes its own event active again keeps neither a descriptor nor a timer waiting.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <unistd.h>

#include "daemon/base/limits.h"
#include "daemon/base/loop.h"

#define TURNS_MAX	1000u

/* One that has always more to do; in its first turn something happens that the other waits for. */
struct busy {
	struct event_base *base;
	struct event *again, *other;
	int writes;			/* a byte into this; -1: nothing but time passes */
	unsigned turns;
};

static void on_busy(evutil_socket_t fd, short what, void *context)
{
	struct busy *busy = context;

	(void)fd, (void)what;
	if (!busy->turns && busy->writes >= 0)
		assert_int_equal(write(busy->writes, "x", 1), 1);
	else if (!busy->turns)
		assert_int_equal(event_add(busy->other, &(struct timeval){0}), 0);
	if (++busy->turns < TURNS_MAX)
		event_active(busy->again, EV_READ, 0);
	else
		event_base_loopbreak(busy->base);
}

static void on_other(evutil_socket_t fd, short what, void *context)
{
	(void)fd, (void)what;
	event_base_loopbreak(context);
}

/* How many turns the busy one had before the other got its own. */
static unsigned turns_before(int reads, int writes)
{
	struct busy busy = {.base = loop_create(), .writes = writes};

	assert_non_null(busy.base);
	busy.again = event_new(busy.base, -1, 0, on_busy, &busy);
	busy.other = event_new(busy.base, reads, reads < 0 ? 0 : EV_READ, on_other, busy.base);
	assert_non_null(busy.again);
	assert_non_null(busy.other);
	event_active(busy.again, EV_READ, 0);
	if (reads >= 0)
		assert_int_equal(event_add(busy.other, NULL), 0);
	assert_int_equal(event_base_dispatch(busy.base), 0);
	event_free(busy.other);
	event_free(busy.again);
	event_base_free(busy.base);
	return busy.turns;
}

static void a_descriptor_gets_its_turn(void **state)
{
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_in_range(turns_before(ends[0], ends[1]), 1, LOOP_CALLBACKS_MAX + 1);
	close(ends[0]);
	close(ends[1]);
}

static void a_timer_gets_its_turn(void **state)
{
	(void)state;
	assert_in_range(turns_before(-1, -1), 1, LOOP_CALLBACKS_MAX + 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_descriptor_gets_its_turn),
		cmocka_unit_test(a_timer_gets_its_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
