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
#include "tests/lib/failing_memory.h"
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

/* ---- Lists ----------------------------------------------------------------------------------- */

/* Of a call of that name. */
static enum export_class class_of_call(struct export_chooser *chooser, const struct export_host *host,
				       const char *function, uint64_t duration_ns, int error)
{
	Ringtail__V1__Probe probe = *host->run->probe[MAKE_READ];
	struct export_event *event = make_event(host, MAKE_READ, 5, "a", NS_PER_S, duration_ns, (uint64_t)-error, 0);

	probe.function = (char *)function;
	event->probe = &probe;
	return class_of(chooser, event);
}

static void test_each_error_that_matters(void **state)
{
	static const int matter[] = {EIO, ENOSPC, EROFS, EMFILE, ENFILE, ENOMEM, EDQUOT, ESTALE, ENOBUFS};
	static const char *const refused[] = {"open", "openat", "openat2", "execve", "execveat", "bind", "connect", "mount",
					      "ptrace", "bpf", "setuid"};
	struct export_host *host = make_host(100 * MS, NULL);
	struct export_chooser *chooser = export_chooser_create(host, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(matter) / sizeof(matter[0]); i++)
		assert_int_equal(class_of_call(chooser, host, "fsync", 1, matter[i]), EXPORT_ERROR);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(class_of_call(chooser, host, refused[i], 1, EPERM), EXPORT_ERROR);
		assert_int_equal(class_of_call(chooser, host, refused[i], 1, EACCES), EXPORT_ERROR);
		assert_int_equal(class_of_call(chooser, host, refused[i], 1, ENOENT), EXPORT_NOTHING);
	}
	assert_int_equal(class_of_call(chooser, host, "kill", 1, EPERM), EXPORT_NOTHING);
	assert_int_equal(class_of_call(chooser, host, "fsync", 1, EAGAIN), EXPORT_NOTHING);
	/* A slow one that failed as programs do is slow; one that never came back is neither. */
	assert_int_equal(class_of_call(chooser, host, "fsync", 100 * MS, ENOENT), EXPORT_SLOW);
	assert_int_equal(class_of_call(chooser, host, "fsync", NEVER, EIO), EXPORT_NOTHING);
	export_chooser_destroy(chooser);
	export_host_destroy(host);
}

static void test_what_waits_by_nature_is_not_slow(void **state)
{
	static const char *const waits[] = {
		"accept", "accept4", "clock_nanosleep", "epoll_pwait", "epoll_pwait2", "epoll_wait", "futex", "futex_wait",
		"futex_waitv", "io_getevents", "io_pgetevents", "io_uring_enter", "mq_timedreceive", "msgrcv", "nanosleep",
		"pause", "poll", "ppoll", "pselect6", "read", "readv", "recvfrom", "recvmmsg", "recvmsg",
		"restart_syscall", "rt_sigsuspend", "rt_sigtimedwait", "select", "semop", "semtimedop", "vfork", "wait4",
		"waitid",
	};
	static const char *const slow[] = {"pread64", "write", "fsync", "openat", "zzz", "aaa"};
	struct export_host *host = make_host(100 * MS, NULL);
	struct export_chooser *chooser = export_chooser_create(host, 0);

	(void)state;
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++)
		assert_int_equal(class_of_call(chooser, host, waits[i], NS_PER_S, 0), EXPORT_NOTHING);
	for (size_t i = 0; i < sizeof(slow) / sizeof(slow[0]); i++)
		assert_int_equal(class_of_call(chooser, host, slow[i], NS_PER_S, 0), EXPORT_SLOW);
	export_chooser_destroy(chooser);
	export_host_destroy(host);
}

/* The end of a process, as a run that records by what: its signal, or 0. */
static enum export_class class_of_end(struct export_chooser *chooser, const struct export_host *host, uint32_t pid,
				      uint64_t status, bool kernel)
{
	static Ringtail__V1__Field *field[3];
	Ringtail__V1__Probe probe = *host->run->probe[MAKE_EXIT];
	struct export_event *event = make_event(host, MAKE_EXIT, pid, "a", NS_PER_S, 120, 1, 0);

	memcpy(field, probe.field, 2 * sizeof(field[0]));
	field[2] = field[1];
	probe.field = field;
	probe.n_field = 3;
	event->probe = &probe;
	event->fields = 3;
	event->field[2] = status;
	event->thread.kernel = kernel;
	return class_of(chooser, event);
}

static void test_ends(void **state)
{
	struct export_host *host = make_host(100 * MS, NULL);
	struct export_chooser *chooser = export_chooser_create(host, 0);
	struct export_event *event;

	(void)state;
	assert_int_equal(class_of_end(chooser, host, 7, 9, false), EXPORT_EXIT);
	assert_int_equal(class_of_end(chooser, host, 7, 0x8b, false), EXPORT_EXIT);	/* with a core */
	assert_int_equal(class_of_end(chooser, host, 7, 0, false), EXPORT_NOTHING);	/* though it said nothing */
	assert_int_equal(class_of_end(chooser, host, 7, 0x100, false), EXPORT_NOTHING);
	assert_int_equal(class_of_end(chooser, host, 7, 9, true), EXPORT_NOTHING);
	/* exit of the first thread is a word; of another one it is not, nor is that of the pid in the same place. */
	assert_int_equal(class_of_call(chooser, host, "exit", NEVER, 0), EXPORT_NOTHING);
	assert_int_equal(class_of(chooser, make_event(host, MAKE_EXIT, 5 + 4096, "a", 1, 120, 1, 0)), EXPORT_EXIT);
	assert_int_equal(class_of(chooser, make_event(host, MAKE_EXIT, 5, "a", 1, 120, 1, 0)), EXPORT_NOTHING);
	assert_int_equal(class_of(chooser, make_event(host, MAKE_EXIT, 5, "a", 1, 120, 1, 0)), EXPORT_EXIT);
	{
		Ringtail__V1__Probe probe = *host->run->probe[MAKE_READ];

		probe.function = (char *)"exit";
		event = make_event(host, MAKE_READ, 9, "a", 1, NEVER, 0, 0);
		event->probe = &probe;
		event->thread.tid = 10;
		class_of(chooser, event);
		assert_int_equal(class_of(chooser, make_event(host, MAKE_EXIT, 9, "a", 1, 120, 1, 0)), EXPORT_EXIT);
	}
	event = make_event(host, MAKE_EXIT_GROUP, 6, "a", 1, NEVER, 0, 0);
	event->thread.tid = 8;
	class_of(chooser, event);		/* of any thread */
	assert_int_equal(class_of(chooser, make_event(host, MAKE_EXIT, 6, "a", 1, 120, 1, 0)), EXPORT_NOTHING);
	event = make_event(host, MAKE_EXIT_GROUP, 6, "a", 1, NEVER, 0, 0x100);
	assert_int_equal(class_of(chooser, event), EXPORT_NOTHING);	/* a status has eight bits */
	export_chooser_destroy(chooser);
	export_host_destroy(host);
}

static void test_everything_where_somebody_chose(void **state)
{
	struct export_host *host = make_host(100 * MS, NULL);
	struct export_chooser *chooser = export_chooser_create(host, 0);

	(void)state;
	host->everything = true;
	assert_int_equal(class_of(chooser, make_event(host, MAKE_READ, 5, "a", 1, 1, 0, 0)), EXPORT_EVENT);
	assert_int_equal(class_of(chooser, make_event(host, MAKE_FORK, 5, "a", 1, 6, 6, 0)), EXPORT_EVENT);
	export_chooser_destroy(chooser);
	export_host_destroy(host);
}

#define CHOSEN "duration >= 5000000ns || provider == \"tracepoint\" || function =~ \"exit*\" || error in (EPERM, EACCES," \
	       " EIO, ENOSPC, EROFS, EMFILE, ENFILE, ENOMEM, EDQUOT, ESTALE, ENOBUFS)"

static void test_what_is_asked_for(void **state)
{
	struct config config = {.slow_call_ns = 5 * MS};
	char filter[FILTER_BYTES_MAX + 1], more[FILTER_BYTES_MAX + 2];
	struct error error;
	size_t room = FILTER_BYTES_MAX - strlen("(" CHOSEN ") && ()");

	(void)state;
	assert_int_equal(export_choose_request(&config, filter, &error), 0);
	assert_string_equal(filter, CHOSEN);
	config.export_filter = (char *)"pid == 1 || uid == 2";
	assert_int_equal(export_choose_request(&config, filter, &error), 0);
	assert_string_equal(filter, "(" CHOSEN ") && (pid == 1 || uid == 2)");
	/* As long as fits, and no longer. */
	memset(more, 'x', sizeof(more));
	more[room] = '\0';
	config.export_filter = more;
	assert_int_equal(export_choose_request(&config, filter, &error), 0);
	assert_int_equal(strlen(filter), FILTER_BYTES_MAX);
	more[room] = 'x';
	more[room + 1] = '\0';
	assert_int_equal(export_choose_request(&config, filter, &error), -EINVAL);
	assert_string_equal(error.code, "export-filter");
	config.export_probe.count = 1;
	assert_int_equal(export_choose_request(&config, filter, &error), 0);
	assert_string_equal(filter, more);
	config.export_filter = NULL;
	assert_int_equal(export_choose_request(&config, filter, &error), 0);
	assert_string_equal(filter, "");
	assert_int_equal(export_choose_globs_count, 4);
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
	/* What comes late is treated no worse, and fills nothing. */
	assert_false(export_choose_within_rate(chooser, 0));
	/* However long nothing came, a second's worth and no more. */
	passed = 0;
	for (unsigned i = 0; i < 100; i++)
		passed += export_choose_within_rate(chooser, 100 * NS_PER_S);
	assert_int_equal(passed, 10);
	assert_false(export_choose_within_rate(chooser, 100 * NS_PER_S + 100 * MS - 1));
	assert_true(export_choose_within_rate(chooser, 100 * NS_PER_S + 100 * MS));
	export_chooser_destroy(chooser);
	chooser = export_chooser_create(host, 0);
	for (unsigned i = 0; i < 100; i++)
		assert_true(export_choose_within_rate(chooser, NS_PER_S));
	export_chooser_destroy(chooser);
	export_chooser_destroy(NULL);
	export_host_destroy(host);
}

static void test_order(void **state)
{
	static const uint64_t time[] = {50, 10, 30, 20, 60};
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
	/* One that comes later is in its place among those that wait. */
	export_order_put(order, make_event(host, MAKE_FORK, 1, "a", 40, 0, 0, 0));
	export_order_take(order, 40, &list);
	assert_int_equal(order->events, 2);
	export_order_take(order, UINT64_MAX, &list);
	assert_int_equal(order->events, 0);
	while ((event = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, event, link);
		assert_int_equal(event->time_ns, expect);
		expect += 10;
		export_event_destroy(event);
	}
	assert_int_equal(expect, 70);
	free(order);
	export_host_destroy(host);
}

/* Of one time, by CPU and then by number; what is taken leaves the rest in order. */
static void test_order_of_one_time(void **state)
{
	static const struct {
		uint64_t time, seq;
		uint32_t cpu;
	} row[] = {{7, 3, 1}, {7, 1, 2}, {7, 9, 0}, {7, 2, 1}, {6, 8, 3}, {8, 0, 0}};
	static const unsigned wanted[] = {8, 9, 2, 3, 1, 0};
	struct export_host *host = make_host(MS, NULL);
	struct export_order *order = calloc(1, sizeof(*order));
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_event *event;

	(void)state;
	for (unsigned i = 0; i < 6; i++) {
		event = make_event(host, MAKE_FORK, 1, "a", row[i].time, 0, 0, 0);
		event->seq = row[i].seq;
		event->cpu = row[i].cpu;
		export_order_put(order, event);
	}
	export_order_take(order, 5, &list);
	assert_true(TAILQ_EMPTY(&list));
	export_order_take(order, 7, &list);
	assert_int_equal(order->events, 1);
	export_order_take(order, 8, &list);
	for (unsigned i = 0; i < 6; i++) {
		event = TAILQ_FIRST(&list);
		assert_int_equal(event->seq, wanted[i]);
		TAILQ_REMOVE(&list, event, link);
		export_event_destroy(event);
	}
	assert_true(TAILQ_EMPTY(&list));
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

static void test_no_memory(void **state)
{
	struct export_host *host = make_host(MS, "mak*");
	struct export_tree *tree;
	uint64_t before = counter_read(COUNTER_export_processes_evicted);

	(void)state;
	failures_left = 1;
	assert_null(export_chooser_create(host, 0));
	failures_left = 1;
	assert_null(export_tree_create(host));
	export_tree_destroy(NULL);
	/* A process that there is none for has no span, and that is counted; its children have none either. */
	tree = export_tree_create(host);
	span_of(tree, make_event(host, MAKE_EXEC, 10, "make", 2, 10, 0, 0));
	for (unsigned i = 0; i < 2; i++) {
		struct export_event *event = make_event(host, i ? MAKE_FORK : MAKE_EXEC, i ? 10 : 20, "make", 3, 11, 11, 0);

		failures_left = 1;
		export_tree_take(tree, event);
		failures_left = 0;
		export_event_destroy(event);
	}
	assert_int_equal(counter_read(COUNTER_export_processes_evicted) - before, 2);
	assert_false(span_of(tree, make_event(host, MAKE_OPENAT, 11, "make", 4, 1, 0, 0)).in_tree);
	assert_false(span_of(tree, make_event(host, MAKE_OPENAT, 20, "make", 4, 1, 0, 0)).in_tree);
	export_tree_destroy(tree);
	export_host_destroy(host);
}

/* Who comes with a pid that was somebody's is somebody else; two whose pids meet in the table are two. */
static void test_pids_of_the_tree(void **state)
{
	struct export_host *host = make_host(MS, "mak*");
	struct export_tree *tree = export_tree_create(host);
	struct export_span first, second;

	(void)state;
	span_of(tree, make_event(host, MAKE_EXEC, 10, "make", 2, 10, 0, 0));
	span_of(tree, make_event(host, MAKE_FORK, 10, "make", 3, 11, 11, 0));
	span_of(tree, make_event(host, MAKE_EXEC, 10 + 1024, "make", 4, 10, 0, 0));
	first = span_of(tree, make_event(host, MAKE_OPENAT, 10, "make", 5, 1, 0, 0));
	second = span_of(tree, make_event(host, MAKE_OPENAT, 10 + 1024, "make", 5, 1, 0, 0));
	assert_memory_not_equal(first.trace_id, second.trace_id, TRACE_ID_BYTES);
	/* 11 again, of another parent: its end was not seen. */
	first = span_of(tree, make_event(host, MAKE_OPENAT, 11, "make", 6, 1, 0, 0));
	span_of(tree, make_event(host, MAKE_FORK, 10 + 1024, "make", 7, 11, 11, 0));
	second = span_of(tree, make_event(host, MAKE_EXIT, 11, "make", 8, 0, 1, 0));
	assert_memory_not_equal(first.trace_id, second.trace_id, TRACE_ID_BYTES);
	assert_int_equal(second.start_ns, 7);
	assert_string_equal(second.name, "make");
	/* A thread of somebody who is in no tree, and a child of such a one, are in none. */
	span_of(tree, make_event(host, MAKE_FORK, 77, "sh", 9, 78, 78, 0));
	assert_false(span_of(tree, make_event(host, MAKE_OPENAT, 78, "sh", 9, 1, 0, 0)).in_tree);
	export_tree_destroy(tree);
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
		cmocka_unit_test(test_each_error_that_matters),
		cmocka_unit_test(test_what_waits_by_nature_is_not_slow),
		cmocka_unit_test(test_ends),
		cmocka_unit_test(test_everything_where_somebody_chose),
		cmocka_unit_test(test_what_is_asked_for),
		cmocka_unit_test(test_rate),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_order_of_one_time),
		cmocka_unit_test(test_tree),
		cmocka_unit_test(test_tree_of_another_run),
		cmocka_unit_test(test_ending_in_another_run),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_pids_of_the_tree),
		cmocka_unit_test(test_tree_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
