/*
 * No memory for an order to a worker: whichever it is (start, remove, drain), it is given a moment later,
 * and no client notices more than that.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdlib.h>

#include <cmocka.h>

#include "daemon/base/counters.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_engine.h"

#define CALLS	"syscall:getppid:call"
#define READS	"syscall:read:call"
#define EVENTS	1000u

static unsigned orders_allocations_left, orders_failures_left;

/* The n-th allocation for an order from now on fails. */
static void fail_after(unsigned n)
{
	orders_allocations_left = n;
	orders_failures_left = 1;
}

static void begin_order(void)
{
	allocations_left = orders_allocations_left;
	failures_left = orders_failures_left;
}

static int end_order(int err)
{
	orders_allocations_left = allocations_left;
	orders_failures_left = failures_left;
	allocations_left = failures_left = 0;
	return err;
}

int __real_worker_add_subscription(struct worker *worker, uint32_t subscription,
				   const struct batcher_spec *spec);
int __wrap_worker_add_subscription(struct worker *worker, uint32_t subscription,
				   const struct batcher_spec *spec);
int __real_worker_remove_subscription(struct worker *worker, uint32_t subscription);
int __wrap_worker_remove_subscription(struct worker *worker, uint32_t subscription);
int __real_worker_empty(struct worker *worker);
int __wrap_worker_empty(struct worker *worker);

int __wrap_worker_add_subscription(struct worker *worker, uint32_t subscription,
				   const struct batcher_spec *spec)
{
	begin_order();
	return end_order(__real_worker_add_subscription(worker, subscription, spec));
}

int __wrap_worker_remove_subscription(struct worker *worker, uint32_t subscription)
{
	begin_order();
	return end_order(__real_worker_remove_subscription(worker, subscription));
}

int __wrap_worker_empty(struct worker *worker)
{
	begin_order();
	return end_order(__real_worker_empty(worker));
}

static void await_configures(struct engine *e, unsigned configures)
{
	PEER_AWAIT(e->base, e->loader.configures >= configures);
	assert_int_equal(e->loader.configures, configures);
}

/* Starts, for every allocation of it; one that is there already loses nothing meanwhile. */
static void test_start_and_remove(void **state)
{
	uint64_t delayed = counter_read(COUNTER_orders_delayed);
	bool failed = true;

	(void)state;
	for (unsigned n = 0; failed; n++) {
		struct watcher before, late;
		struct engine e;

		assert_true(n < 64);
		engine_open(&e, 2, 2, 8);
		before = watcher_open(&e, CALLS, NULL, NULL);
		fail_after(n);
		late = watcher_open(&e, CALLS, "ret >= 0", NULL);
		failed = !orders_failures_left;
		orders_allocations_left = orders_failures_left = 0;
		engine_write(&e, EVENTS);
		watcher_await(&before, EVENTS);
		watcher_await(&late, EVENTS);
		engine_check_ledger(&e);
		/* And goes: what it alone wanted is recorded no more. */
		fail_after(n % 2);
		peer_send_bye(late.peer);
		peer_close(late.peer);
		await_configures(&e, 3);
		engine_write(&e, EVENTS);
		watcher_await(&before, 2 * EVENTS);
		engine_check_ledger(&e);
		orders_allocations_left = orders_failures_left = 0;
		peer_close(before.peer);
		engine_close(&e);
	}
	assert_true(counter_read(COUNTER_orders_delayed) > delayed + 4);
}

static void test_drain(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 2; n++) {
		uint64_t delayed = counter_read(COUNTER_orders_delayed);
		struct watcher watcher;
		struct engine e;

		engine_open(&e, 2, 2, 8);
		watcher = watcher_open(&e, CALLS, NULL, NULL);
		engine_write(&e, EVENTS);
		fail_after(n);
		fanout_stop(e.fanout, "the test is over", engine_stopped, &e);
		PEER_AWAIT(e.base, e.stops == 1);
		assert_int_equal(counter_read(COUNTER_orders_delayed), delayed + 1);
		watcher_await(&watcher, EVENTS);
		engine_check_ledger(&e);
		watcher_await_bye(&watcher);
		peer_close(watcher.peer);
		engine_close(&e);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_start_and_remove),
		cmocka_unit_test(test_drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
