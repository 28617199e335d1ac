/*
 * Spans of programs as exporters have them: a begin and its end become one, calls of its thread are inside it, and what
 * programs leave open, end twice, never began or make up costs nobody else anything. Each event is sent, dropped, a part
 * of another or open: none is lost.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "daemon/base/counters.h"
#include "daemon/export/spans.h"
#include "daemon/programs/table.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/export_make.h"

#define BEGIN_ID	(RT_PROBE_PROGRAM + 1)
#define END_ID		(RT_PROBE_PROGRAM + 2)
#define PID		100

static struct fixture {
	struct export_host *host;
	struct export_spans *spans;
	Ringtail__V1__Probe *begin, *end;
	struct export_taken taken;
	uint64_t events;
} f;

static Ringtail__V1__Probe *probe_of(enum rt_program_sort sort, uint32_t id)
{
	const struct program_probe probe = {
		.provider = "app", .name = "request", .format = "", .file = "a.c", .line = 1, .sort = sort,
	};
	Ringtail__V1__Probe *message = program_probe_message(&probe);

	assert_non_null(message);
	message->id = id;
	export_run_take_late(f.host->run, message);
	return message;
}

static int begin(void **state)
{
	(void)state;
	memset(&f, 0, sizeof(f));
	f.host = make_host(1000000, NULL);
	f.spans = export_spans_create();
	assert_non_null(f.spans);
	f.begin = probe_of(RT_PROGRAM_SPAN_BEGIN, BEGIN_ID);
	f.end = probe_of(RT_PROGRAM_SPAN_END, END_ID);
	TAILQ_INIT(&f.taken.send);
	TAILQ_INIT(&f.taken.drop);
	return 0;
}

static uint64_t count(const struct export_list *list)
{
	const struct export_event *event;
	uint64_t n = 0;

	TAILQ_FOREACH(event, list, link)
		n++;
	return n;
}

static void forget(struct export_list *list)
{
	struct export_event *event;

	while ((event = TAILQ_FIRST(list)) != NULL) {
		TAILQ_REMOVE(list, event, link);
		export_event_destroy(event);
	}
}

static void check_ledger(void)
{
	assert_int_equal(count(&f.taken.send) + count(&f.taken.drop) + f.taken.merged + f.taken.memory + export_spans_open(f.spans), f.events);
}

static int finish(void **state)
{
	(void)state;
	check_ledger();
	forget(&f.taken.send);
	forget(&f.taken.drop);
	export_spans_destroy(f.spans);
	ringtail__v1__probe__free_unpacked(f.begin, NULL);
	ringtail__v1__probe__free_unpacked(f.end, NULL);
	export_host_destroy(f.host);
	return 0;
}

/* Of trace 1, where `parent` is not 0. last: of a begin whether it is a scope, of an end its status. */
static struct export_event *make_half(bool ends, uint32_t pid, uint32_t tid, uint64_t time_ns, unsigned span, unsigned parent,
				      uint64_t last)
{
	struct batch_thread thread = {.tid = tid, .pid = pid, .comm = "program"};
	struct batch_item item = {.kind = BATCH_EVENT, .seq = f.events, .thread = &thread};
	uint64_t field[PROBE_FIELDS_MAX] = {0};
	struct rt_program_ids ids = {0};
	struct export_event *event;
	char text[33];

	snprintf(text, sizeof(text), "%032x", 1);
	memcpy(ids.trace_id, text, 32);
	snprintf(text, sizeof(text), "%016x", span);
	memcpy(ids.span_id, text, 16);
	snprintf(text, sizeof(text), "%016x", parent);
	if (parent)
		memcpy(ids.parent_id, text, 16);
	memcpy(&field[ends], &ids, sizeof(ids));
	field[ends + sizeof(ids) / 8] = last;
	field[0] = ends ? 5 : field[0];
	item.event.probe = ends ? END_ID : BEGIN_ID;
	item.event.fields = f.host->run->shape[item.event.probe].fields;
	item.event.has_duration = ends;
	item.event.time_ns = time_ns;
	item.event.field = field;
	event = export_event_create(f.host->run, 1, &item);
	assert_non_null(event);
	return event;
}

static void take(struct export_event *event)
{
	f.events++;
	assert_true(export_spans_take(f.spans, event, &f.taken));
	check_ledger();
}

static void begins(uint32_t tid, uint64_t time_ns, unsigned span, unsigned parent, bool scope)
{
	take(make_half(false, PID, tid, time_ns, span, parent, scope));
}

static void ends(uint32_t tid, uint64_t time_ns, unsigned span, unsigned parent)
{
	take(make_half(true, PID, tid, time_ns, span, parent, 0));
}

/* It is a span of its own there, of that trace. Returns its parent. */
static unsigned check_call(const struct export_event *event)
{
	const struct trace_place place = export_event_place(event);
	uint8_t own[SPAN_ID_BYTES];

	trace_id_make_span(&place, own);
	assert_memory_equal(event->span.span_id, own, sizeof(own));
	assert_int_equal(event->span.trace_id[TRACE_ID_BYTES - 1], 1);
	assert_true(event->span.has_parent);
	return event->span.parent_id[SPAN_ID_BYTES - 1];
}

/* In which span a call of that thread is; 0: in none. */
static unsigned call_in(uint32_t pid, uint32_t tid, uint64_t time_ns)
{
	struct export_event *event = make_event(f.host, MAKE_READ, pid, "program", time_ns, 1, 0, 0);
	unsigned span = 0;

	event->thread.tid = tid;
	assert_false(export_spans_take(f.spans, event, &f.taken));
	if (event->span.in_tree)
		span = check_call(event);
	export_event_destroy(event);
	return span;
}

static void exits(uint32_t tid, uint64_t time_ns, bool process)
{
	struct export_event *event = make_event(f.host, MAKE_EXIT, PID, "program", time_ns, 120, process, 0);

	event->thread.tid = tid;
	assert_false(export_spans_take(f.spans, event, &f.taken));
	export_event_destroy(event);
}

static unsigned id_of(const struct export_event *event)
{
	return event->span.span_id[SPAN_ID_BYTES - 1];
}

/* ---- What programs do ---------------------------------------------------------------------------- */

static void test_a_begin_and_its_end_are_one(void **state)
{
	const struct export_event *sent;

	(void)state;
	begins(1, 10, 7, 0, true);
	assert_int_equal(export_spans_open(f.spans), 1);
	ends(1, 20, 7, 0);
	assert_int_equal(export_spans_open(f.spans), 0);
	assert_int_equal(count(&f.taken.send), 1);
	sent = TAILQ_FIRST(&f.taken.send);
	assert_true(sent->begin && sent->begin->time_ns == 10 && sent->time_ns == 20);
	assert_true(sent->span.is_program && !sent->span.has_parent && !sent->span.failure);
	assert_int_equal(sent->class, EXPORT_EVENT);
	assert_int_equal(sent->span.trace_id[TRACE_ID_BYTES - 1], 1);
	assert_int_equal(export_event_start_ns(sent), 15);
	assert_int_equal(export_event_span_status(sent), 0);
}

static void test_calls_are_in_the_innermost_scope(void **state)
{
	(void)state;
	assert_int_equal(call_in(PID, 1, 5), 0);
	begins(1, 10, 7, 0, true);
	begins(1, 20, 8, 7, true);
	begins(1, 21, 9, 8, false);		/* by hand: whoever ends it */
	assert_int_equal(call_in(PID, 1, 25), 8);
	assert_int_equal(call_in(PID, 2, 25), 0);
	assert_int_equal(call_in(PID + 1, 1, 25), 0);
	assert_int_equal(call_in(PID, 1 + 1024, 25), 0);	/* which meets it in the table */
	ends(1, 30, 8, 7);
	assert_int_equal(call_in(PID, 1, 35), 7);
	ends(2, 36, 9, 8);			/* another thread ends it */
	ends(1, 40, 7, 0);
	assert_int_equal(call_in(PID, 1, 45), 0);
	assert_int_equal(count(&f.taken.send), 3);
	assert_true(TAILQ_FIRST(&f.taken.send)->span.has_parent);
}

/* A span may be open for days: the frame with its begin is acknowledged meanwhile, that with its end once it is sent. */
static void test_what_is_open_holds_no_frame(void **state)
{
	struct export_event *half[2] = {make_half(false, PID, 1, 10, 7, 0, 1), make_half(true, PID, 1, 20, 7, 0, 0)};
	struct export_frames *frames = calloc(1, sizeof(*frames));

	(void)state;
	assert_non_null(frames);
	for (unsigned i = 0; i < 2; i++) {
		export_frames_begin(frames, i + 1);
		export_frames_hold(frames, i + 1);
		half[i]->frames = frames;
		half[i]->frame = i + 1;
	}
	assert_int_equal(export_frames_settled(frames), 0);
	take(half[0]);
	assert_int_equal(export_frames_settled(frames), 1);
	take(half[1]);
	assert_int_equal(export_frames_settled(frames), 1);
	forget(&f.taken.send);
	f.events--;				/* that one was sent */
	assert_int_equal(export_frames_settled(frames), 2);
	free(frames);
}

static void test_an_end_without_a_begin_is_sent(void **state)
{
	(void)state;
	ends(1, 20, 7, 0);
	ends(1, 21, 7, 0);
	assert_int_equal(count(&f.taken.send), 2);
	assert_null(TAILQ_FIRST(&f.taken.send)->begin);
	assert_int_equal(export_event_start_ns(TAILQ_FIRST(&f.taken.send)), 15);
}

static void test_what_its_process_leaves_open_is_sent(void **state)
{
	const struct export_event *sent;

	(void)state;
	begins(1, 10, 7, 0, true);
	begins(2, 11, 8, 0, true);
	begins(2, 12, 9, 0, false);
	exits(2, 20, false);
	assert_int_equal(count(&f.taken.send), 1);
	sent = TAILQ_FIRST(&f.taken.send);
	assert_int_equal(id_of(sent), 8);
	assert_string_equal(sent->span.failure, "its thread ended in it");
	assert_int_equal(sent->span.end_ns, 20);
	exits(1, 30, true);
	assert_int_equal(count(&f.taken.send), 3);
	sent = TAILQ_LAST(&f.taken.send, export_list);
	assert_string_equal(sent->span.failure, "its process ended in it");
	assert_int_equal(sent->span.end_ns, 30);
	assert_int_equal(export_spans_open(f.spans), 0);
	assert_int_equal(call_in(PID, 1, 40), 0);
}

/* The end of an inner scope was lost: it is over with the outer one, and calls behind that are in neither. */
static void test_a_lost_end(void **state)
{
	const struct export_event *sent;

	(void)state;
	begins(1, 10, 7, 0, true);
	begins(1, 20, 8, 7, true);
	begins(1 + 1024, 21, 5, 0, true);	/* of another thread, in the same place of the table */
	ends(1, 40, 7, 0);
	assert_int_equal(call_in(PID, 1, 45), 0);
	assert_int_equal(count(&f.taken.send), 2);
	sent = TAILQ_FIRST(&f.taken.send);
	assert_int_equal(id_of(sent), 8);
	assert_string_equal(sent->span.failure, "its end was lost");
	assert_int_equal(sent->span.end_ns, 40);
	assert_int_equal(call_in(PID, 1 + 1024, 45), 5);
}

/* ---- What programs make up ----------------------------------------------------------------------- */

static void test_one_id_twice(void **state)
{
	(void)state;
	begins(1, 10, 7, 0, true);
	begins(2, 11, 7, 0, true);
	assert_int_equal(export_spans_open(f.spans), 1);
	assert_int_equal(count(&f.taken.send), 1);
	assert_string_equal(TAILQ_FIRST(&f.taken.send)->span.failure, "its end was lost");
	assert_int_equal(TAILQ_FIRST(&f.taken.send)->span.end_ns, 11);
	assert_int_equal(call_in(PID, 1, 12), 0);
	assert_int_equal(call_in(PID, 2, 12), 7);
}

static void test_another_program_s_ids(void **state)
{
	(void)state;
	begins(1, 10, 7, 0, true);
	take(make_half(true, PID + 1, 1, 20, 7, 0, 0));
	assert_int_equal(export_spans_open(f.spans), 1);
	assert_null(TAILQ_FIRST(&f.taken.send)->begin);
	take(make_half(false, PID + 1, 1, 21, 7, 0, 1));
	assert_int_equal(export_spans_open(f.spans), 2);
	assert_int_equal(call_in(PID, 1, 22), 7);
}

static void test_ids_that_are_none(void **state)
{
	struct export_event *event;
	char *at;

	(void)state;
	for (unsigned ends = 0; ends < 2; ends++)
		for (unsigned broken = 0; broken < 4; broken++) {
			event = make_half(ends, PID, 1, 10, 7, 8, 1);
			at = (char *)&event->field[ends];
			switch (broken) {
			case 0:
				at[31] = 'g';
				break;
			case 1:
				at[32] = 'A';
				break;
			case 2:
				memset(at, '0', 32);
				break;
			case 3:
				memset(at + 32, '0', 16);
			}
			take(event);
		}
	assert_int_equal(count(&f.taken.drop), 8);
	/* A parent that is none leaves the span a root. */
	event = make_half(true, PID, 1, 10, 7, 8, 1);
	((char *)&event->field[1])[63] = 'x';
	take(event);
	assert_false(TAILQ_FIRST(&f.taken.send)->span.has_parent);
}

/* ---- Bounds -------------------------------------------------------------------------------------- */

static void test_the_oldest_is_pushed_out(void **state)
{
	uint64_t before = counter_read(COUNTER_export_spans_evicted);

	(void)state;
	for (unsigned i = 0; i < EXPORT_SPANS_MAX + 3; i++) {
		f.events++;
		assert_true(export_spans_take(f.spans, make_half(false, PID, i, i, 1 + i, 0, 1), &f.taken));
	}
	assert_int_equal(counter_read(COUNTER_export_spans_evicted) - before, 3);
	assert_int_equal(export_spans_open(f.spans), EXPORT_SPANS_MAX);
	assert_int_equal(f.taken.memory, 3);
	assert_int_equal(count(&f.taken.drop), 0);
	assert_int_equal(call_in(PID, 2, 1), 0);
	ends(2, 9999, 3, 0);
	assert_null(TAILQ_FIRST(&f.taken.send)->begin);
}

static void test_no_memory(void **state)
{
	uint64_t before = counter_read(COUNTER_export_spans_evicted);
	struct export_event *event = make_half(false, PID, 1, 10, 7, 0, 1);

	(void)state;
	failures_left = 1;
	assert_null(export_spans_create());
	export_spans_destroy(NULL);
	failures_left = 1;
	f.events++;
	assert_true(export_spans_take(f.spans, event, &f.taken));
	failures_left = 0;
	assert_int_equal(counter_read(COUNTER_export_spans_evicted) - before, 1);
	assert_int_equal(f.taken.memory, 1);
	assert_int_equal(count(&f.taken.drop), 0);
	ends(1, 20, 7, 0);
	assert_int_equal(count(&f.taken.send), 1);
}

static void check_cut_short(const struct export_event *sent, uint64_t end_ns)
{
	assert_string_equal(sent->span.failure, "the recording ended in it");
	assert_int_equal(sent->span.end_ns, end_ns);
}

/* What was open in another run of the rings, or when no more comes, is sent up to there: nobody filtered it. */
static void test_no_more_comes(void **state)
{
	struct export_host *next = make_host(1000000, NULL);
	struct export_event *event = make_event(next, MAKE_READ, PID, "program", 1, 1, 0, 0);
	unsigned references = f.host->run->references;

	(void)state;
	begins(1, 10, 7, 0, true);
	assert_int_equal(call_in(PID, 2, 12), 0);
	assert_false(export_spans_take(f.spans, event, &f.taken));
	assert_false(event->span.in_tree);
	export_event_destroy(event);
	assert_int_equal(count(&f.taken.send), 1);
	assert_int_equal(f.host->run->references, references + 1);	/* that event's, and nobody else's */
	check_cut_short(TAILQ_FIRST(&f.taken.send), 12);
	begins(1, 10, 7, 0, true);
	begins(1, 20, 8, 7, true);
	export_spans_flush(f.spans, &f.taken);
	assert_int_equal(export_spans_open(f.spans), 0);
	assert_int_equal(count(&f.taken.send), 3);
	check_cut_short(TAILQ_LAST(&f.taken.send, export_list), 20);
	assert_int_equal(count(&f.taken.drop), 0);
	export_host_destroy(next);
}

int main(void)
{
#define TEST(name)	cmocka_unit_test_setup_teardown(name, begin, finish)
	const struct CMUnitTest tests[] = {
		TEST(test_a_begin_and_its_end_are_one),
		TEST(test_calls_are_in_the_innermost_scope),
		TEST(test_what_is_open_holds_no_frame),
		TEST(test_an_end_without_a_begin_is_sent),
		TEST(test_what_its_process_leaves_open_is_sent),
		TEST(test_a_lost_end),
		TEST(test_one_id_twice),
		TEST(test_another_program_s_ids),
		TEST(test_ids_that_are_none),
		TEST(test_the_oldest_is_pushed_out),
		TEST(test_no_memory),
		TEST(test_no_more_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
