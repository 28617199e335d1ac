/*
 * The line of those who have not been let in: in order, a little at a time, and half of the loop's time at
 * most; who leaves it is not served, and whose turn it is may be gone afterwards.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/net/turnstile.h"

#define LINE (4u * STRANGERS_TURN_MAX)

struct stranger {
	struct turnstile_place place;
	struct fixture *f;
	unsigned served;
	uint64_t work_ns;
	bool again, frees_itself;
};

struct fixture {
	struct event_base *base;
	struct turnstile *turnstile;
	struct stranger stranger[LINE];
	struct stranger *order[4 * LINE];
	unsigned served;
	uint64_t worked_ns, last_ns;
};

static void on_go(void *context)
{
	struct stranger *stranger = context;
	struct fixture *f = stranger->f;
	uint64_t began_ns = clock_monotonic();

	f->order[f->served++ % (4 * LINE)] = stranger;
	stranger->served++;
	while (clock_monotonic() - began_ns < stranger->work_ns)
		;
	f->last_ns = clock_monotonic() - began_ns;
	f->worked_ns += f->last_ns;
	if (stranger->again)
		turnstile_join(f->turnstile, &stranger->place);
	if (stranger->frees_itself)
		free(stranger);
}

static void prepare(struct fixture *f, struct stranger *stranger)
{
	stranger->f = f;
	stranger->place = (struct turnstile_place){.go = on_go, .context = stranger};
}

static int setup(void **state)
{
	struct event_config *config = event_config_new();
	struct fixture *f = calloc(1, sizeof(*f));

	event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);	/* as the daemon's */
	f->base = event_base_new_with_config(config);
	event_config_free(config);
	f->turnstile = turnstile_create(f->base);
	for (unsigned i = 0; i < LINE; i++)
		prepare(f, &f->stranger[i]);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	turnstile_destroy(f->turnstile);
	turnstile_destroy(NULL);
	event_base_free(f->base);
	free(f);
	return 0;
}

static void serve_all(struct fixture *f, unsigned served)
{
	while (f->served < served)
		event_base_loop(f->base, EVLOOP_ONCE);
	event_base_loop(f->base, EVLOOP_NONBLOCK);
	assert_int_equal(f->served, served);
}

static void test_in_order(void **state)
{
	struct fixture *f = *state;
	unsigned turns = 0;

	for (unsigned i = 0; i < LINE; i++) {
		turnstile_join(f->turnstile, &f->stranger[i].place);
		turnstile_join(f->turnstile, &f->stranger[i].place);	/* it stands there already */
	}
	assert_int_equal(f->served, 0);
	while (f->served < LINE) {
		unsigned before = f->served;

		event_base_loop(f->base, EVLOOP_ONCE);
		assert_true(f->served - before <= STRANGERS_TURN_MAX);
		turns++;
	}
	assert_true(turns >= LINE / STRANGERS_TURN_MAX);
	for (unsigned i = 0; i < LINE; i++)
		assert_ptr_equal(f->order[i], &f->stranger[i]);
}

static void test_who_leaves_is_not_served(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 4; i++)
		turnstile_join(f->turnstile, &f->stranger[i].place);
	turnstile_leave(f->turnstile, &f->stranger[0].place);
	turnstile_leave(f->turnstile, &f->stranger[3].place);
	turnstile_leave(f->turnstile, &f->stranger[3].place);
	serve_all(f, 2);
	assert_int_equal(f->stranger[1].served + f->stranger[2].served, 2);
	turnstile_join(f->turnstile, &f->stranger[0].place);
	turnstile_leave(f->turnstile, &f->stranger[0].place);
	serve_all(f, 2);
	turnstile_join(f->turnstile, &f->stranger[0].place);
	serve_all(f, 3);
}

static void test_may_be_gone_afterwards(void **state)
{
	struct fixture *f = *state;
	struct stranger *stranger = calloc(1, sizeof(*stranger));

	prepare(f, stranger);
	stranger->frees_itself = true;
	turnstile_join(f->turnstile, &stranger->place);
	turnstile_join(f->turnstile, &f->stranger[0].place);
	serve_all(f, 2);
}

static void test_without_a_turnstile(void **state)
{
	struct fixture *f = *state;

	turnstile_join(NULL, &f->stranger[0].place);
	assert_int_equal(f->stranger[0].served, 1);
	turnstile_leave(NULL, &f->stranger[0].place);
}

struct let_in {
	struct fixture *f;
	unsigned turns, served, between_max;
};

static void on_let_in(evutil_socket_t fd, short what, void *context)
{
	struct let_in *let_in = context;
	unsigned between = let_in->f->served - let_in->served;

	(void)fd, (void)what;
	let_in->turns++;
	let_in->served = let_in->f->served;
	if (between > let_in->between_max)
		let_in->between_max = between;
}

/*
 * Strangers with dear handshakes who never end: who was let in has its turn after one that fills a turn,
 * and half of the time is nobody's of the line.
 */
static void test_storm_of_strangers(void **state)
{
	struct fixture *f = *state;
	struct let_in let_in = {.f = f};
	struct event *event = event_new(f->base, -1, EV_PERSIST, on_let_in, &let_in);
	struct timeval often = {.tv_usec = 1};
	uint64_t began_ns, all_ns;

	for (unsigned i = 0; i < LINE; i++) {
		f->stranger[i].work_ns = STRANGERS_TURN_NS + 1;
		f->stranger[i].again = true;
		turnstile_join(f->turnstile, &f->stranger[i].place);
	}
	event_add(event, &often);
	began_ns = clock_monotonic();
	while (f->served < LINE)
		event_base_loop(f->base, EVLOOP_ONCE);
	all_ns = clock_monotonic() - began_ns;
	assert_int_equal(let_in.between_max, 1);
	assert_true(let_in.turns >= LINE);
	/* The last turn's rest is still to come; and timers come a microsecond early. */
	all_ns -= f->last_ns;
	assert_true(f->worked_ns - f->last_ns <= all_ns / 2 + all_ns / 20);
	event_free(event);
	for (unsigned i = 0; i < LINE; i++)
		turnstile_leave(f->turnstile, &f->stranger[i].place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_order, setup, teardown),
		cmocka_unit_test_setup_teardown(test_who_leaves_is_not_served, setup, teardown),
		cmocka_unit_test_setup_teardown(test_may_be_gone_afterwards, setup, teardown),
		cmocka_unit_test_setup_teardown(test_without_a_turnstile, setup, teardown),
		cmocka_unit_test_setup_teardown(test_storm_of_strangers, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
