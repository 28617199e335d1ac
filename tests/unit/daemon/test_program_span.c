/*
 * Spans by the header's own code, read out of its ring: who is under whom, on one thread, over threads, in a child and
 * under W3C's traceparent; ends that nobody began, or twice; and what is left where nobody asks.
 */
#include "proto/ringtail-probe.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <ucontext.h>

#include <cmocka.h>

#include "daemon/programs/reader.h"
#include "daemon/programs/segment.h"

#define RING_BYTES	(1u << 14)
#define SEEN_MAX	16
#define EXAMPLE		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

static struct fixture {
	struct program_segment segment;
	struct program_reader reader[2];
} f;

/* A record as it is seen: the begin of a span, or its end. */
struct seen {
	const char *name;
	bool ends;
	uint32_t tid, words;
	uint64_t duration_ns, scope, argument;
	int64_t status;
	struct rt_program_ids ids;
	char text[RT_PROGRAM_STRING_MAX + 1];
};

static struct seen seen[SEEN_MAX];
static unsigned records;

/* One ring gets all: the thread stays where it is. */
static int begin(void **state)
{
	cpu_set_t cpus;

	(void)state;
	CPU_ZERO(&cpus);
	CPU_SET(sched_getcpu(), &cpus);
	assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
	assert_int_equal(program_segment_create(&f.segment, 2, RING_BYTES, false, (uint32_t)rt_probe_count()), 0);
	for (uint32_t i = 0; i < 2; i++)
		program_reader_init(&f.reader[i], program_segment_ring(&f.segment, i), RING_BYTES);
	for (uint32_t i = 0; i < rt_probe_count(); i++)
		program_segment_enable(&f.segment, i, true);
	rt_probe_segment = f.segment.map;
	rt_probe_shift = (uintptr_t)f.segment.map->enabled - (uintptr_t)__start_rt_probe_words;
	return 0;
}

static int finish(void **state)
{
	(void)state;
	rt_probe_shift = 0;
	assert_int_equal(rt_span_innermost.scope, 0);
	assert_int_equal(rt_span_innermost.open, 0);
	program_segment_destroy(&f.segment);
	return 0;
}

static void ask_for(bool begins, bool ends)
{
	for (const struct rt_probe_site *const *site = __start_rt_probe_sites; site < __stop_rt_probe_sites; site++)
		program_segment_enable(&f.segment, (uint32_t)((*site)->word - __start_rt_probe_words),
				       (*site)->sort == RT_PROGRAM_SPAN_END ? ends : begins);
}

static void understand(const struct program_item *item, struct seen *as)
{
	const struct rt_probe_site *site = rt_probe_site_of(__start_rt_probe_words + item->probe);
	struct rt_program_begin begins;
	struct rt_program_end ends;

	*as = (struct seen){.name = site->name, .ends = site->sort == RT_PROGRAM_SPAN_END, .tid = item->tid,
			    .words = item->words};
	if (as->ends) {
		assert_int_equal(item->words, RT_PROGRAM_END_WORDS);
		memcpy(&ends, item->payload, sizeof(ends));
		as->duration_ns = ends.duration_ns;
		as->status = ends.status;
		as->ids = ends.ids;
		return;
	}
	assert_int_equal(site->sort, RT_PROGRAM_SPAN_BEGIN);
	memcpy(&begins, item->payload, sizeof(begins));
	as->scope = begins.scope;
	as->ids = begins.ids;
	as->argument = item->payload[RT_PROGRAM_BEGIN_WORDS];
	if (item->words > RT_PROGRAM_BEGIN_WORDS + site->arguments) {
		const uint64_t *text = &item->payload[RT_PROGRAM_BEGIN_WORDS + site->arguments];

		memcpy(as->text, text + 1, text[0] >> 32);
		assert_int_equal(text[0] & 0xffffffff,
				 (RT_PROGRAM_BEGIN_WORDS + 1) << 16 | RT_PROGRAM_ATTACHMENT);
	}
}

/* What was written since. */
static void look(void)
{
	struct program_item item;
	uint64_t time;

	records = 0;
	for (unsigned i = 0; i < 2; i++) {
		program_reader_look(&f.reader[i]);
		while (program_reader_peek(&f.reader[i], &time)) {
			assert_true(records < SEEN_MAX);
			program_reader_take(&f.reader[i], &item);
			understand(&item, &seen[records++]);
		}
		assert_int_equal(program_reader_lost(&f.reader[i]), 0);
		program_reader_release(&f.reader[i]);
	}
}

static bool is_root(const struct seen *of)
{
	static const char none[sizeof(of->ids.parent_id)];

	return memcmp(of->ids.parent_id, none, sizeof(none)) == 0;
}

static bool is_under(const struct seen *child, const struct seen *parent)
{
	return memcmp(child->ids.parent_id, parent->ids.span_id, 16) == 0 &&
	       memcmp(child->ids.trace_id, parent->ids.trace_id, 32) == 0;
}

static bool is_same(const struct seen *a, const struct seen *b)
{
	return memcmp(&a->ids, &b->ids, sizeof(a->ids)) == 0 && strcmp(a->name, b->name) == 0;
}

static void inner(unsigned n)
{
	RT_SPAN(app, inner, "n %u, %s", n, "a text");
}

static void outer(void)
{
	RT_SPAN(app, outer, "twice");
	inner(1);
	inner(2);
}

/* ---- Scopes -------------------------------------------------------------------------------------- */

static void test_scopes_are_under_each_other(void **state)
{
	(void)state;
	outer();
	look();
	assert_int_equal(records, 6);
	assert_true(is_root(&seen[0]) && !seen[0].ends && seen[0].scope == 1);
	assert_true(is_under(&seen[1], &seen[0]) && is_under(&seen[3], &seen[0]));
	assert_true(is_same(&seen[1], &seen[2]) && is_same(&seen[3], &seen[4]) && is_same(&seen[0], &seen[5]));
	assert_true(!is_same(&seen[1], &seen[3]) && seen[2].ends && seen[4].ends && seen[5].ends);
	assert_int_equal(seen[1].argument, 1);
	assert_int_equal(seen[3].argument, 2);
	assert_string_equal(seen[3].text, "a text");
	assert_true(rt_span_is_hex(seen[0].ids.trace_id, 32) && rt_span_is_hex(seen[0].ids.span_id, 16));
	assert_true(seen[5].duration_ns >= seen[2].duration_ns + seen[4].duration_ns);
	outer();
	struct seen before = seen[0];
	look();
	assert_true(memcmp(seen[0].ids.trace_id, before.ids.trace_id, 32) != 0);
}

static int returns_early(int at)
{
	RT_SPAN_AS(span, NULL, app, early, "at %d", at);

	for (int i = 0; i < 10; i++) {
		RT_SPAN(app, turn, "%d", i);
		if (i == at)
			return span.status = -i;
	}
	return 0;
}

/* However the scope is left. And what the program calls its failure comes with the end. */
static void test_a_return_ends_all_scopes(void **state)
{
	(void)state;
	assert_int_equal(returns_early(2), -2);
	look();
	assert_int_equal(records, 8);
	assert_true(is_same(&seen[5], &seen[6]) && seen[6].ends && seen[6].status == 0);
	assert_true(is_same(&seen[0], &seen[7]) && seen[7].ends && seen[7].status == -2);
}

/* Where only one of the two is asked for, that one comes, and its ids are what they would be. */
static void test_half_of_it_asked_for(void **state)
{
	(void)state;
	ask_for(false, true);
	outer();
	look();
	assert_int_equal(records, 3);
	assert_true(seen[0].ends && is_under(&seen[0], &seen[2]) && is_under(&seen[1], &seen[2]));
	ask_for(true, false);
	outer();
	look();
	assert_int_equal(records, 3);
	assert_true(!seen[0].ends && is_under(&seen[1], &seen[0]) && is_under(&seen[2], &seen[0]));
}

static unsigned evaluated;

static unsigned dear(void)
{
	return ++evaluated;
}

static void test_nobody_asks(void **state)
{
	struct rt_span_context from, current;
	struct rt_span span;
	char text[RT_TRACEPARENT_BYTES];

	(void)state;
	ask_for(false, false);
	{
		RT_SPAN(app, dear, "%u", dear());
		assert_int_equal(rt_span_current(&current), -1);
		RT_SPAN_BEGIN(&span, NULL, app, idle, "idle");
		rt_span_end(&span);
		assert_int_equal(rt_span_text(&span.context, text), -1);
		assert_string_equal(text, "");
	}
	/* A trace that goes through is handed on as it came. */
	assert_int_equal(rt_span_parse(EXAMPLE, &from), 0);
	{
		RT_SPAN_AS(passes, &from, app, passes, "passes");
		outer();
		assert_int_equal(rt_span_current(&current), 0);
		assert_int_equal(rt_span_text(&current, text), 0);
		assert_string_equal(text, EXAMPLE);
		RT_SPAN_BEGIN(&span, NULL, app, idle, "idle");
		assert_int_equal(rt_span_text(&span.context, text), 0);
		assert_string_equal(text, EXAMPLE);
	}
	assert_int_equal(evaluated, 0);
	look();
	assert_int_equal(records, 0);
}

/* What was begun unasked has no end, and what was asked for at its begin may have none. */
static void test_asked_for_in_the_middle(void **state)
{
	struct rt_span span;

	(void)state;
	ask_for(false, false);
	RT_SPAN_BEGIN(&span, NULL, app, long_one, "long");
	ask_for(true, true);
	rt_span_end(&span);
	RT_SPAN_BEGIN(&span, NULL, app, long_one, "long");
	ask_for(false, false);
	rt_span_end(&span);
	ask_for(true, true);
	rt_span_end(&span);
	look();
	assert_int_equal(records, 1);
	assert_false(seen[0].ends);
}

/* ---- Scopes that are left in another order, or never ---------------------------------------------- */

#define FIBERS		8
#define STACK_BYTES	(64u << 10)

static struct fiber {
	ucontext_t at, resume;
	void *stack;
	struct rt_span_context current;
} fiber[FIBERS];

static void enter_and_wait(unsigned i)
{
	RT_SPAN(app, fiber, "%u", i);

	rt_span_current(&fiber[i].current);
	swapcontext(&fiber[i].at, &fiber[i].resume);
}

static void run_fiber(unsigned i)
{
	enter_and_wait(i);
	swapcontext(&fiber[i].at, &fiber[i].resume);
}

/* Until it is in its scope, on a stack of its own. */
static void fiber_enter(unsigned i)
{
	fiber[i].stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(fiber[i].stack, MAP_FAILED);
	assert_int_equal(getcontext(&fiber[i].at), 0);
	fiber[i].at.uc_stack.ss_sp = fiber[i].stack;
	fiber[i].at.uc_stack.ss_size = STACK_BYTES;
	makecontext(&fiber[i].at, (void (*)(void))run_fiber, 1, i);
	swapcontext(&fiber[i].resume, &fiber[i].at);
}

/* It is no more, and where its scope was, nothing can be read. */
static void fiber_end(unsigned i)
{
	assert_int_equal(munmap(fiber[i].stack, STACK_BYTES), 0);
}

static void fiber_leave(unsigned i)
{
	swapcontext(&fiber[i].resume, &fiber[i].at);
	fiber_end(i);
}

static bool is_current(unsigned i)
{
	struct rt_span_context now;

	return rt_span_current(&now) == 0 && memcmp(&now, &fiber[i].current, sizeof(now)) == 0;
}

/* The one that is entered first is left first: what comes then is under none of them. */
static void test_coroutines_leave_in_the_order_they_came(void **state)
{
	(void)state;
	fiber_enter(0);
	fiber_enter(1);
	fiber_leave(0);
	fiber_leave(1);
	inner(1);
	look();
	assert_int_equal(records, 6);
	assert_true(is_root(&seen[0]) && is_under(&seen[1], &seen[0]) && is_root(&seen[4]));
	assert_true(is_same(&seen[2], &seen[0]) && is_same(&seen[3], &seen[1]));
}

/* One that was entered after the outer one had ended is not under the inner one. */
static void test_a_coroutine_that_came_later_stays(void **state)
{
	(void)state;
	fiber_enter(0);
	fiber_enter(1);
	fiber_leave(0);
	fiber_enter(2);
	fiber_leave(1);
	assert_true(is_current(2));
	fiber_leave(2);
	look();
	assert_int_equal(records, 6);
	assert_true(is_root(&seen[3]) && !seen[3].ends);
}

/* In any order: a scope around all is the innermost at their end, and after it none is. */
static void test_coroutines_in_any_order(void **state)
{
	uint64_t chance = 0x9e3779b97f4a7c15u;
	struct rt_span_context now;
	bool is_in[FIBERS] = {false};

	(void)state;
	ask_for(true, false);
	for (unsigned turn = 0; turn < 400; turn++) {
		unsigned i = (chance = chance * 6364136223846793005u + 1442695040888963407u) >> 61;

		is_in[i] ? fiber_leave(i) : fiber_enter(i);
		is_in[i] = !is_in[i];
		if (turn % 8 == 7)
			look();
		for (i = 0; turn % 100 == 99 && i < FIBERS; i++) {
			if (is_in[i])
				fiber_leave(i);
			is_in[i] = false;
		}
		assert_true(turn % 100 != 99 || rt_span_current(&now) == -1);
	}
	look();
}

/* Nothing is read of a scope whose stack is no more. */
static void test_a_coroutine_that_ends_amid_its_scope(void **state)
{
	(void)state;
	{
		RT_SPAN(app, around, "around");
		fiber_enter(0);
		fiber_end(0);
		inner(1);
	}
	assert_int_equal(rt_span_innermost.scope, 0);
	fiber_enter(1);
	fiber_end(1);
	inner(2);
	rt_span_forget();
	inner(3);
	look();
	assert_int_equal(records, 10);
	assert_true(is_under(&seen[1], &seen[0]) && is_same(&seen[4], &seen[0]) && is_root(&seen[5]));
	assert_true(is_under(&seen[6], &seen[5]) && is_root(&seen[8]));
}

static jmp_buf back;

__attribute__((noreturn)) static void deep(unsigned left)
{
	volatile char room[256];

	RT_SPAN(app, deep, "%u", left);
	room[0] = (char)left;
	if (left)
		deep(left - 1);
	longjmp(back, 1 + !room[0]);
}

/* Others have written over the frames since. */
static void test_scopes_that_longjmp_leaves_out(void **state)
{
	volatile char over[4096];

	(void)state;
	{
		RT_SPAN(app, around, "around");
		if (!setjmp(back))
			deep(2);
		for (size_t i = 0; i < sizeof(over); i++)
			over[i] = (char)-1;
		inner(1);
	}
	outer();
	rt_span_forget();
	look();
	assert_int_equal(records, 13);
	assert_true(is_same(&seen[6], &seen[0]) && seen[6].ends && is_root(&seen[7]));
}

static void *leave_elsewhere(void *nothing)
{
	struct rt_span_context before, now;

	RT_SPAN(app, elsewhere, "elsewhere");
	assert_int_equal(rt_span_current(&before), 0);
	swapcontext(&fiber[0].resume, &fiber[0].at);
	assert_int_equal(rt_span_current(&now), 0);
	assert_memory_equal(&now, &before, sizeof(now));
	return nothing;
}

/* The thread that it moved to is inside what it was inside of. */
static void test_a_coroutine_that_moves_to_another_thread(void **state)
{
	pthread_t thread;

	(void)state;
	fiber_enter(1);
	fiber_enter(0);
	assert_int_equal(pthread_create(&thread, NULL, leave_elsewhere, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	fiber_leave(1);
	rt_span_forget();
	look();
	assert_int_equal(records, 6);
	assert_true(is_root(&seen[2]) && seen[3].ends && is_same(&seen[3], &seen[1]) && seen[3].tid != seen[1].tid);
	fiber_end(0);
}

static void test_the_numbers_of_scopes_begin_again(void **state)
{
	(void)state;
	rt_span_scopes = UINT32_MAX - 2;
	outer();
	fiber_enter(0);
	fiber_enter(1);
	fiber_leave(0);
	fiber_leave(1);
	inner(1);
	look();
	assert_int_equal(records, 12);
	assert_true(is_under(&seen[1], &seen[0]) && is_under(&seen[3], &seen[0]) && is_root(&seen[6]) && is_root(&seen[10]));
}

/* ---- Begin and end by hand ----------------------------------------------------------------------- */

static void *work(void *context)
{
	struct rt_span *span = context;

	RT_SPAN_AS(inside, &span->context, app, inside, "inside");
	rt_span_end(span);
	return NULL;
}

static void test_a_span_ends_on_another_thread(void **state)
{
	struct rt_span span;
	pthread_t thread;

	(void)state;
	{
		RT_SPAN(app, request, "request");
		RT_SPAN_BEGIN(&span, NULL, app, job, "job");
		inner(1);			/* which is not under it */
	}
	assert_int_equal(pthread_create(&thread, NULL, work, &span), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	rt_span_end(&span);
	rt_span_end(&span);
	look();
	assert_int_equal(records, 8);
	assert_true(is_under(&seen[1], &seen[0]) && seen[1].scope == 0);
	assert_true(is_under(&seen[2], &seen[0]) && seen[4].ends);
	assert_true(is_under(&seen[5], &seen[1]) && seen[5].tid != seen[1].tid);
	assert_true(is_same(&seen[6], &seen[1]) && seen[6].ends && is_same(&seen[7], &seen[5]));
}

static void test_an_end_without_a_begin(void **state)
{
	struct rt_span span;

	(void)state;
	memset(&span, 0, sizeof(span));
	rt_span_end(&span);
	look();
	assert_int_equal(records, 0);
}

/* The child goes on under the span that the parent is in, ends none of the parent's, and draws numbers of its own. */
static void test_a_child_is_under_its_parent(void **state)
{
	struct rt_span by_hand;
	int status;
	pid_t child;

	(void)state;
	RT_SPAN_BEGIN(&by_hand, NULL, app, by_hand, "by hand");
	{
		RT_SPAN(app, forks, "forks");
		child = fork();
		if (!child) {
			rt_probe_shift = (uintptr_t)f.segment.map->enabled - (uintptr_t)__start_rt_probe_words;
			inner(1);
			rt_span_end(&by_hand);
		} else {
			assert_int_equal(waitpid(child, &status, 0), child);
			assert_int_equal(status, 0);
			inner(2);
		}
	}
	if (!child)
		_exit(rt_span_innermost.scope != 0);
	rt_span_end(&by_hand);
	look();
	assert_int_equal(records, 8);
	assert_true(is_under(&seen[2], &seen[1]) && is_same(&seen[3], &seen[2]));
	assert_true(is_under(&seen[4], &seen[1]) && is_same(&seen[5], &seen[4]) && !is_same(&seen[4], &seen[2]));
	assert_true(is_same(&seen[6], &seen[1]) && is_same(&seen[7], &seen[0]));
}

/* ---- W3C ----------------------------------------------------------------------------------------- */

static void test_a_trace_that_another_program_began(void **state)
{
	struct rt_span_context from, current;
	char text[RT_TRACEPARENT_BYTES];

	(void)state;
	assert_int_equal(rt_span_parse(EXAMPLE, &from), 0);
	{
		RT_SPAN_AS(span, &from, app, request, "request");
		assert_int_equal(rt_span_current(&current), 0);
		assert_int_equal(rt_span_text(&current, text), 0);
		inner(1);
	}
	look();
	assert_int_equal(records, 4);
	assert_memory_equal(seen[0].ids.trace_id, EXAMPLE + 3, 32);
	assert_memory_equal(seen[0].ids.parent_id, EXAMPLE + 36, 16);
	assert_true(is_under(&seen[1], &seen[0]));
	assert_memory_equal(text, EXAMPLE, 36);
	assert_memory_equal(text + 36, seen[0].ids.span_id, 16);
	assert_string_equal(text + 52, "-01");
}

/* What the recommendation calls invalid begins a trace anew; what a later version adds is passed over. */
static void test_traceparents(void **state)
{
	static const char *const bad[] = {
		"", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-011",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
		"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"0x-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736_00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7_01",
		"00-4bf92f3577b34da6a3ce929d0e0e473g-00f067aa0ba902b7-01",
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01x",
	};
	static const char later[] = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-f5-what comes";
	struct rt_span_context from;
	char text[RT_TRACEPARENT_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(rt_span_parse(bad[i], &from), -1);
		assert_int_equal(rt_span_text(&from, text), -1);
	}
	assert_int_equal(rt_span_parse(NULL, &from), -1);
	{
		RT_SPAN_AS(span, &from, app, request, "request");
	}
	look();
	assert_true(records == 2 && is_root(&seen[0]));
	assert_int_equal(rt_span_parse(later, &from), 0);
	assert_int_equal(from.flags, 0xf5);
	assert_int_equal(rt_span_text(&from, text), 0);
	assert_string_equal(text, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-f5");
}

int main(void)
{
#define TEST(name)	cmocka_unit_test_setup_teardown(name, begin, finish)
	const struct CMUnitTest tests[] = {
		TEST(test_scopes_are_under_each_other),
		TEST(test_a_return_ends_all_scopes),
		TEST(test_half_of_it_asked_for),
		TEST(test_nobody_asks),
		TEST(test_asked_for_in_the_middle),
		TEST(test_coroutines_leave_in_the_order_they_came),
		TEST(test_a_coroutine_that_came_later_stays),
		TEST(test_coroutines_in_any_order),
		TEST(test_a_coroutine_that_ends_amid_its_scope),
		TEST(test_scopes_that_longjmp_leaves_out),
		TEST(test_a_coroutine_that_moves_to_another_thread),
		TEST(test_the_numbers_of_scopes_begin_again),
		TEST(test_a_span_ends_on_another_thread),
		TEST(test_an_end_without_a_begin),
		TEST(test_a_child_is_under_its_parent),
		TEST(test_a_trace_that_another_program_began),
		TEST(test_traceparents),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
