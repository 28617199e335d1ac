/* watchdog: the manager is told while all move, and not when one does not. */
#include <event2/event.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/host/watchdog.h"

#define WORKERS 3
#define PATIENCE_USEC "200000"
#define TURNS_MAX 100000

struct world {
	struct event_base *base;
	struct watchdog *watchdog;
	uint64_t beats[WORKERS];
	bool stands_still[WORKERS];
	unsigned told;
};

static uint64_t beats(void *context, unsigned worker)
{
	struct world *world = context;

	if (!world->stands_still[worker])
		world->beats[worker]++;
	return world->beats[worker];
}

static void tell(void *context)
{
	((struct world *)context)->told++;
}

static struct world begin(const char *usec)
{
	struct world world = {.base = event_base_new()};

	assert_non_null(world.base);
	if (usec)
		assert_int_equal(setenv("WATCHDOG_USEC", usec, 1), 0);
	else
		unsetenv("WATCHDOG_USEC");
	return world;
}

static void start(struct world *world)
{
	const struct watchdog_config config = {
		.base = world->base, .workers = WORKERS, .beats = beats, .tell = tell,
		.context = world,
	};
	struct error error;

	assert_int_equal(watchdog_create(&config, &world->watchdog, &error), 0);
}

static void end(struct world *world)
{
	watchdog_destroy(world->watchdog);
	event_base_free(world->base);
	unsetenv("WATCHDOG_USEC");
}

/* Lets the loop run until the manager has been told so often more; false: it was not, in that time. */
static bool is_told(struct world *world, unsigned more, uint64_t ns_max)
{
	unsigned wanted = world->told + more;
	uint64_t deadline = clock_monotonic() + ns_max;

	for (int turn = 0; turn < TURNS_MAX && world->told < wanted; turn++) {
		if (clock_monotonic() > deadline)
			return false;
		event_base_loop(world->base, EVLOOP_ONCE);
	}
	return world->told >= wanted;
}

#define LONG_NS 60000000000ull

static void without_a_manager_there_is_none(void **state)
{
	struct world world = begin(NULL);

	(void)state;
	start(&world);
	assert_null(world.watchdog);
	watchdog_release_workers(world.watchdog);
	end(&world);
}

static void what_the_manager_says_has_to_be_a_time(void **state)
{
	const char *const wrong[] = {"", "0", "soon", "-1"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct world world = begin(wrong[i]);

		start(&world);
		assert_null(world.watchdog);
		end(&world);
	}
}

static void tells_while_all_move(void **state)
{
	struct world world = begin(PATIENCE_USEC);

	(void)state;
	start(&world);
	assert_true(is_told(&world, 5, LONG_NS));
	end(&world);
}

static void is_silent_while_one_is_stuck(void **state)
{
	struct world world = begin(PATIENCE_USEC);

	(void)state;
	start(&world);
	assert_true(is_told(&world, 1, LONG_NS));
	world.stands_still[1] = true;
	/* It has that long before it counts as stuck; soon after, there is nothing any more. */
	is_told(&world, 1000, WORKER_PATIENCE_NS_MIN);
	for (unsigned told = world.told; is_told(&world, 1, 1000000000);)
		assert_true(world.told - told < 100);
	world.stands_still[1] = false;
	assert_true(is_told(&world, 2, LONG_NS));
	end(&world);
}

static void workers_that_have_ended_do_not_count(void **state)
{
	struct world world = begin(PATIENCE_USEC);

	(void)state;
	start(&world);
	world.stands_still[0] = true;
	watchdog_release_workers(world.watchdog);
	is_told(&world, 1000, WORKER_PATIENCE_NS_MIN + 500000000);
	assert_true(is_told(&world, 2, LONG_NS));
	end(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_manager_there_is_none),
		cmocka_unit_test(what_the_manager_says_has_to_be_a_time),
		cmocka_unit_test(tells_while_all_move),
		cmocka_unit_test(is_silent_while_one_is_stuck),
		cmocka_unit_test(workers_that_have_ended_do_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
