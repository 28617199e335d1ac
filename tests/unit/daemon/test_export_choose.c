/* What is sent when nobody said what; that it stays in the order of time and within its rate; and
 * process trees, of which each event's span is known when it comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/export/choose.h"
#include "daemon/export/intake.h"
#include "daemon/export/tree.h"
#include "tests/unit/daemon/export_make.h"

#define MS 1000000ull
#define NEVER UINT64_MAX

static enum export_class class_of(struct export_chooser *chooser, struct export_event *event)
{
	enum export_class class;

	export_choose(chooser, event);
	class = event->class;
	export_event_destroy(event);
	return class;
}

static void test_classes(void **state)
{
	static const struct {
		enum make_probe probe;
		uint32_t pid;
		uint64_t a, b, c;
		enum export_class class;
	} row[] = {
		{MAKE_OPENAT, 5, 99 * MS, 3, 0, EXPORT_NOTHING},
		{MAKE_OPENAT, 5, 100 * MS, 3, 0, EXPORT_SLOW},
		{MAKE_READ, 5, 100 * MS, 3, 0, EXPORT_NOTHING},	/* it waits by nature */
		{MAKE_READ, 5, 1, (uint64_t)-EIO, 0, EXPORT_ERROR},
		{MAKE_READ, 5, 1, (uint64_t)-EACCES, 0, EXPORT_NOTHING},
		{MAKE_OPENAT, 5, 1, (uint64_t)-EACCES, 0, EXPORT_ERROR},
		{MAKE_OPENAT, 5, 1, (uint64_t)-ENOENT, 0, EXPORT_NOTHING},
		{MAKE_EXEC, 5, 5, 0, 0, EXPORT_EXEC},
		{MAKE_FORK, 5, 6, 6, 0, EXPORT_NOTHING},
		{MAKE_EXIT_GROUP, 5, NEVER, 0, 0, EXPORT_NOTHING},
		{MAKE_EXIT, 5, 120, 0, 0, EXPORT_NOTHING},	/* a thread before the last */
		{MAKE_EXIT, 5, 120, 1, 0, EXPORT_NOTHING},	/* it ended well */
		{MAKE_EXIT_GROUP, 6, NEVER, 0, 3, EXPORT_EXIT},
		{MAKE_EXIT, 6, 120, 1, 0, EXPORT_NOTHING},	/* that was told before */
		{MAKE_EXIT, 7, 120, 1, 0, EXPORT_EXIT},		/* without a word: killed */
	};
	struct export_host *host = make_host(100 * MS, NULL);
	struct export_chooser *chooser = export_chooser_create(host, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		assert_int_equal(class_of(chooser, make_event(host, row[i].probe, row[i].pid, "a",
							      NS_PER_S * (i + 1), row[i].a,
							      row[i].b, row[i].c)),
				 row[i].class);
	export_chooser_destroy(chooser);
	export_host_destroy(host);
}

static void test_rate(void **state)
{
	struct export_host *host = make_host(MS, NULL);
	struct export_chooser *chooser = export_chooser_create(host, 10);
	unsigned passed = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++)		/* at once: what a second may have */
		passed += export_choose_within_rate(chooser, NS_PER_S);
	assert_int_equal(passed, 10);
	for (unsigned i = 0; i < 100; i++)		/* and two more in the next 0.2 s */
		passed += export_choose_within_rate(chooser, NS_PER_S + i * 2 * MS);
	assert_in_range(passed, 11, 12);
	export_chooser_destroy(chooser);
	export_host_destroy(host);
}

static void test_order(void **state)
{
	static const uint64_t time[] = {50, 10, 30, 20, 40};
	struct export_host *host = make_host(MS, NULL);
	struct export_order *order = calloc(1, sizeof(*order));
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_event *event;
	uint64_t expect = 10;

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		export_order_put(order, make_event(host, MAKE_FORK, 1, "a", time[i], 0, 0, 0));
	export_order_take(order, 30, &list);
	assert_int_equal(order->events, 2);
	export_order_take(order, UINT64_MAX, &list);
	assert_int_equal(order->events, 0);
	while ((event = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, event, link);
		assert_int_equal(event->time_ns, expect);
		expect += 10;
		export_event_destroy(event);
	}
	assert_int_equal(expect, 60);
	free(order);
	export_host_destroy(host);
}

/* Gives the event to the tree and returns its span. */
static struct export_span span_of(struct export_tree *tree, struct export_event *event)
{
	struct export_span span;

	export_tree_take(tree, event);
	span = event->span;
	export_event_destroy(event);
	return span;
}

static void test_tree(void **state)
{
	struct export_host *host = make_host(MS, "mak*");
	struct export_tree *tree = export_tree_create(host);
	struct export_span root, child, call;

	(void)state;
	assert_false(span_of(tree, make_event(host, MAKE_EXEC, 9, "cat", 1, 9, 0, 0)).in_tree);
	span_of(tree, make_event(host, MAKE_EXEC, 10, "make", 2, 10, 0, 0));
	span_of(tree, make_event(host, MAKE_FORK, 10, "make", 3, 11, 11, 0));
	span_of(tree, make_event(host, MAKE_FORK, 10, "make", 3, 12, 10, 0));	/* a thread */
	span_of(tree, make_event(host, MAKE_EXEC, 11, "cc", 4, 11, 0, 0));
	call = span_of(tree, make_event(host, MAKE_OPENAT, 11, "cc", 5, 1, 0, 0));
	assert_false(span_of(tree, make_event(host, MAKE_OPENAT, 9, "cat", 5, 1, 0, 0)).in_tree);
	span_of(tree, make_event(host, MAKE_EXIT_GROUP, 11, "cc", 6, NEVER, 0, 0x102));
	child = span_of(tree, make_event(host, MAKE_EXIT, 11, "cc", 7, 0, 1, 0));
	assert_false(span_of(tree, make_event(host, MAKE_EXIT, 10, "make", 8, 0, 0, 0)).is_process);
	root = span_of(tree, make_event(host, MAKE_EXIT, 10, "make", 9, 0, 1, 0));
	assert_true(root.is_process && child.is_process && !call.is_process && call.in_tree);
	assert_true(!root.has_parent && child.has_parent && call.has_parent);
	assert_memory_equal(child.parent_id, root.span_id, SPAN_ID_BYTES);
	assert_memory_equal(call.parent_id, child.span_id, SPAN_ID_BYTES);
	assert_memory_equal(child.trace_id, root.trace_id, TRACE_ID_BYTES);
	assert_memory_equal(call.trace_id, root.trace_id, TRACE_ID_BYTES);
	assert_string_equal(root.name, "make");
	assert_string_equal(child.name, "cc");
	assert_int_equal(root.start_ns, 2);
	assert_int_equal(child.start_ns, 3);
	assert_true(child.has_exit_code && child.exit_code == 2 && !root.has_exit_code);
	/* It is over: who has the pid next is somebody else. */
	assert_false(span_of(tree, make_event(host, MAKE_EXIT, 10, "make", 10, 0, 1, 0)).in_tree);
	export_tree_destroy(tree);
	export_host_destroy(host);
}

/* Who has a process' pid in the next run of the rings is somebody else: its end was not seen. */
static void test_tree_of_another_run(void **state)
{
	struct export_host *host = make_host(MS, "mak*"), *next = make_host(MS, "mak*");
	struct export_tree *tree = export_tree_create(host);

	(void)state;
	span_of(tree, make_event(host, MAKE_EXEC, 10, "make", 2, 10, 0, 0));
	assert_true(span_of(tree, make_event(host, MAKE_OPENAT, 10, "make", 3, 1, 0, 0)).in_tree);
	assert_false(span_of(tree, make_event(next, MAKE_OPENAT, 10, "sh", 1, 1, 0, 0)).in_tree);
	assert_false(span_of(tree, make_event(next, MAKE_EXIT, 10, "sh", 2, 0, 1, 0)).is_process);
	export_tree_destroy(tree);
	export_host_destroy(next);
	export_host_destroy(host);
}

/* Nor has it said that it ends. */
static void test_ending_in_another_run(void **state)
{
	struct export_host *host = make_host(MS, NULL), *next = make_host(MS, NULL);
	struct export_chooser *chooser = export_chooser_create(host, 0);

	(void)state;
	class_of(chooser, make_event(host, MAKE_EXIT_GROUP, 7, "a", 1, NEVER, 0, 0));
	assert_int_equal(class_of(chooser, make_event(next, MAKE_EXIT, 7, "b", 1, 120, 1, 0)),
			 EXPORT_EXIT);
	export_chooser_destroy(chooser);
	export_host_destroy(next);
	export_host_destroy(host);
}

static void test_tree_is_bounded(void **state)
{
	struct export_host *host = make_host(MS, "*");
	struct export_tree *tree = export_tree_create(host);
	uint64_t before = counter_read(COUNTER_export_processes_evicted);

	(void)state;
	for (uint32_t pid = 1; pid <= EXPORT_PROCESSES_MAX + 3; pid++)
		span_of(tree, make_event(host, MAKE_EXEC, pid, "a", pid, pid, 0, 0));
	assert_int_equal(counter_read(COUNTER_export_processes_evicted) - before, 3);
	assert_false(span_of(tree, make_event(host, MAKE_EXIT, 3, "a", 1, 0, 1, 0)).is_process);
	assert_true(span_of(tree, make_event(host, MAKE_EXIT, 4, "a", 1, 0, 1, 0)).is_process);
	export_tree_destroy(tree);
	export_host_destroy(host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_classes),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_tree_of_another_run),
		cmocka_unit_test(test_ending_in_another_run),
		cmocka_unit_test(test_tree_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
