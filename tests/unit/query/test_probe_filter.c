/*
 * What a program asks of an event before it writes it: of random filters, never more than the filters ask, and the same
 * where all of it can be asked. What somebody has written over the tests leads nowhere.
 */
#include "proto/ringtail-probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

#include <cmocka.h>

#include "proto/batch_layout.h"
#include "query/filter.h"
#include "query/probe_filter.h"

#define COUNT(array)	(sizeof(array) / sizeof((array)[0]))
#define DONE		RT_PROBE_PROGRAM	/* an event: id, us, tiny, url, where */
#define END		(RT_PROBE_PROGRAM + 1)	/* of a span: duration_ns, status */
#define PID		71
#define UID		1001
#define ROUNDS		20000

static uint64_t seed = 1;

static uint32_t pick(size_t n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)((seed >> 33) % n);
}

/* ---- The catalog, and events of it --------------------------------------------------------------- */

static const struct plan {
	const char *name;
	Ringtail__V1__FieldType type;
	uint32_t bits;
	uint8_t type_of_program;
} done[] = {
	{"id", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32, rt_program_type(RT_PROGRAM_UNSIGNED, 4)},
	{"us", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 64, rt_program_type(RT_PROGRAM_SIGNED, 8)},
	{"tiny", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 8, rt_program_type(RT_PROGRAM_SIGNED, 1)},
	{"url", RINGTAIL__V1__FIELD_TYPE__FIELD_TEXT, 0, rt_program_type(RT_PROGRAM_STRING, 8)},
	{"where", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64, rt_program_type(RT_PROGRAM_POINTER, 8)},
	{"cpu", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32, 0},
}, end[] = {
	{"duration_ns", RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION, 64, 0},
	{"status", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 32, 0},
	{"cpu", RINGTAIL__V1__FIELD_TYPE__FIELD_UNSIGNED, 32, 0},
};

#define DONE_WORDS	(COUNT(done) - 1)
#define END_WORDS	(COUNT(end) - 1)

static Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;

static void add_probe(uint32_t id, const char *function, const char *name, const struct plan *plan, size_t fields)
{
	static Ringtail__V1__Probe probe[2], *probes[2];
	static Ringtail__V1__Field field[2][COUNT(done)], *list[2][COUNT(done)];
	size_t i = catalog.n_probe++;

	ringtail__v1__probe__init(&probe[i]);
	probe[i].id = id;
	probe[i].provider = (char *)"app";
	probe[i].function = (char *)function;
	probe[i].name = (char *)name;
	for (size_t k = 0; k < fields; k++) {
		ringtail__v1__field__init(&field[i][k]);
		field[i][k].name = (char *)plan[k].name;
		field[i][k].type = plan[k].type;
		field[i][k].bits = plan[k].bits;
		list[i][k] = &field[i][k];
	}
	probe[i].field = list[i];
	probe[i].n_field = fields;
	probes[i] = &probe[i];
	catalog.probe = probes;
}

/* One event: as the program has it, and as the daemon gets it. */
struct sample {
	struct rt_probe_site site;
	uint8_t type[DONE_WORDS];
	uint64_t value[DONE_WORDS];	/* what the macro hands over, or the words before the arguments */
	char text[RT_PROGRAM_STRING_MAX + 8];
	struct rt_probe_event event;
	uint64_t word[DONE_WORDS + 1];
	struct batch_attachment attached;
	struct batch_event got;
	struct batch_thread thread;
};

static const char *const texts[] = {
	"", "/", "/api/", "/api/users", "/api/users/12345", "/api/users/123456", "/api/users/1234567890", "(null)", "x",
};

static void make_text(struct sample *sample)
{
	uint32_t which = pick(COUNT(texts) + 2);
	const char *seen = sample->text;

	if (which < COUNT(texts)) {
		strcpy(sample->text, texts[which]);
	} else if (which == COUNT(texts)) {
		memset(sample->text, 'y', sizeof(sample->text) - 1);
		sample->text[sizeof(sample->text) - 1] = '\0';
	} else {
		seen = "(null)";
	}
	sample->value[3] = seen == sample->text ? (uint64_t)(uintptr_t)sample->text : 0;
	sample->word[3] = strnlen(seen, RT_PROGRAM_STRING_MAX);
	sample->attached = (struct batch_attachment){.kind = RT_ATTACH_STRING, .arg = 3, .text = (const uint8_t *)seen,
						     .text_bytes = sample->word[3]};
}

static void make_done(struct sample *sample)
{
	const int64_t us[] = {INT64_MIN, -5, -1, 0, 1, 100, 1000, INT64_MAX};
	const int8_t tiny[] = {-128, -1, 0, 3, 127};

	for (size_t i = 0; i < DONE_WORDS; i++)
		sample->type[i] = done[i].type_of_program;
	sample->value[0] = pick(4);
	sample->value[1] = (uint64_t)us[pick(COUNT(us))];
	sample->value[2] = rt_value_signed(tiny[pick(COUNT(tiny))]);
	sample->value[4] = pick(2) * 0xffffffff81000000u;
	memcpy(sample->word, sample->value, sizeof(sample->value));
	make_text(sample);
	sample->word[DONE_WORDS] = pick(2);
	sample->site = (struct rt_probe_site){.arguments = DONE_WORDS, .type = sample->type,
					     .word = __start_rt_probe_words};
	sample->event = (struct rt_probe_event){.site = &sample->site, .value = sample->value};
	sample->got = (struct batch_event){.probe = DONE, .fields = DONE_WORDS + 1, .field = sample->word};
}

static void make_end(struct sample *sample)
{
	const int status[] = {-5, 0, 7};

	sample->value[0] = pick(3) * 1000000;
	sample->value[1] = (uint64_t)(int64_t)status[pick(COUNT(status))];
	memcpy(sample->word, sample->value, END_WORDS * 8);
	sample->word[END_WORDS] = pick(2);
	sample->event = (struct rt_probe_event){.site = &sample->site, .fixed = sample->value, .words = END_WORDS};
	sample->got = (struct batch_event){.probe = END, .fields = END_WORDS + 1, .field = sample->word,
					   .has_duration = true};
}

static void make_sample(struct sample *sample)
{
	memset(sample, 0, sizeof(*sample));
	if (pick(4))
		make_done(sample);
	else
		make_end(sample);
	sample->thread = (struct batch_thread){.tid = 72, .pid = PID, .uid = UID, .comm = "app"};
}

static bool daemon_passes(const struct filter *filter, struct sample *sample)
{
	struct filter_texts text = {.attachment = &sample->attached, .attachments = sample->got.probe == DONE};

	return filter_pass(filter, 0, &sample->got, &sample->thread, &text);
}

/* ---- The program --------------------------------------------------------------------------------- */

static struct {
	struct rt_program_segment segment;
	struct rt_program_ring ring;
} memory;

#define segment	memory.segment

/* The daemon changes the tests while one of them looks at a text. */
static bool changes;

size_t __real_strnlen(const char *text, size_t most);
size_t __wrap_strnlen(const char *text, size_t most);
size_t __wrap_strnlen(const char *text, size_t most)
{
	segment.turn += changes ? 2 : 0;
	return __real_strnlen(text, most);
}

static void write_tests(const struct probe_filter *filter)
{
	for (unsigned i = 0; i < filter->tests; i++)
		memcpy(segment.test[i], &filter->test[i], sizeof(filter->test[i]));
}

static bool program_passes(const struct probe_filter *filter, const struct sample *sample)
{
	static struct probe_filter settled;
	uint8_t first;

	probe_filter_init(&settled);
	first = probe_filter_settle(filter, PID, UID, &settled);
	write_tests(&settled);
	if (first >= RT_PROGRAM_FAIL)
		return first == RT_PROGRAM_PASS;
	return rt_probe_run(&segment, first, &sample->event);
}

/* ---- Filters ------------------------------------------------------------------------------------- */

static const char *const asked[] = {
	"id == 1", "id != 2", "us > 100", "us < 0", "us >= -1", "us <= 9223372036854775807", "us == -5", "tiny < -1",
	"tiny == 127", "tiny != -128", "tiny > 300", "id & 1", "id & 3 == 2", "url == \"/api/\"", "url != \"x\"",
	"url =~ \"/api/*\"", "url =~ \"x\"", "url == \"(null)\"", "url == \"/api/users/12345\"", "where == 0",
	"duration > 1ms", "duration_ns == 0", "status < 0", "status != 7", "pid == 71", "pid != 71", "uid == 1001",
	"uid < 5", "probe =~ \"app:done:*\"", "name == \"end\"", "us in (1, 100)", "us > 18446744073709551615",
};

static const char *const unasked[] = {
	"comm == \"app\"", "comm == \"other\"", "tid == 72", "arg.cpu == 1", "cpu == 0", "us > id", "url =~ \"*s\"",
	"url =~ \"/api/*/*\"", "url =~ \"/[ab]*\"", "url =~ \"/ap?/\"", "url == \"/api/users/123456\"", "url != \"/api/users/123456\"",
	"url =~ \"/api/users/123456*\"", "ppid == 0", "time > 0", "container == \"x\"",
};

static void add_words(char *text, size_t room, bool all, unsigned depth)
{
	size_t used = strlen(text);

	if (depth && pick(3)) {
		snprintf(text + used, room - used, "%s(", pick(3) ? "" : "!");
		add_words(text, room, all, depth - 1);
		used = strlen(text);
		snprintf(text + used, room - used, " %s ", pick(2) ? "&&" : "||");
		add_words(text, room, all, depth - 1);
		used = strlen(text);
		snprintf(text + used, room - used, ")");
		return;
	}
	snprintf(text + used, room - used, "%s(%s)", pick(4) ? "" : "!", all || pick(3) ? asked[pick(COUNT(asked))] :
		 unasked[pick(COUNT(unasked))]);
}

static struct filter *make_filter(const char *text)
{
	struct filter *filter;
	struct error error;

	if (filter_compile(text, &catalog, &filter, &error) != 0)
		fail_msg("%s: %s", text, error.what);
	return filter;
}

/* What passes one of the filters passes the program; and nothing else, where all is asked. */
static void check(struct filter *const *filter, unsigned filters, bool all, const char *text)
{
	static struct probe_filter of_done, of_end;
	struct sample sample;

	probe_filter_init(&of_done);
	probe_filter_init(&of_end);
	for (unsigned i = 0; i < filters; i++) {
		filter_narrow(filter[i], DONE, DONE_WORDS, &of_done);
		filter_narrow(filter[i], END, END_WORDS, &of_end);
	}
	if (all && filters)
		assert_true(of_done.whole && of_end.whole);
	for (unsigned round = 0; round < 12; round++) {
		const struct probe_filter *made;
		bool wanted = false, passes;

		make_sample(&sample);
		made = sample.got.probe == DONE ? &of_done : &of_end;
		for (unsigned i = 0; i < filters; i++)
			wanted |= daemon_passes(filter[i], &sample);
		passes = program_passes(made, &sample);
		if (wanted ? !passes : made->whole && passes)
			fail_msg("%s: the daemon says %d, the program %d, whole %d", text, wanted, passes, made->whole);
	}
}

static void test_a_program_asks_what_the_filters_ask(void **state)
{
	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		char text[2][1024] = {"", ""};
		struct filter *filter[2];
		unsigned filters = 1 + pick(2);
		bool all = pick(2);

		for (unsigned i = 0; i < filters; i++) {
			add_words(text[i], sizeof(text[i]), all, 2);
			filter[i] = make_filter(text[i]);
		}
		check(filter, filters, all, text[0]);
		for (unsigned i = 0; i < filters; i++)
			filter_destroy(filter[i]);
	}
}

/* The part of a filter that a program does not know is the daemon's. */
static void test_a_part_is_asked(void **state)
{
	static const struct {
		const char *text;
		uint16_t probe;
		uint8_t first;		/* 0: any test */
		bool whole;
	} row[] = {
		{"us > 100", DONE, 0, true},
		{"us > 100", END, RT_PROGRAM_FAIL, true},
		{"!(us > 100)", END, RT_PROGRAM_PASS, true},
		{"comm == \"app\"", DONE, RT_PROGRAM_PASS, false},
		{"us > 100 && comm == \"app\"", DONE, 0, false},
		{"us > 100 || comm == \"app\"", DONE, RT_PROGRAM_PASS, false},
		{"!(us > 100 && comm == \"app\")", DONE, RT_PROGRAM_PASS, false},
		{"!(us > 100 || comm == \"app\")", DONE, 0, false},
		{"url == \"a text of more than 16\"", DONE, 0, false},
		{"url != \"a text of more than 16\"", DONE, RT_PROGRAM_PASS, false},
		{"arg.cpu == 0", DONE, RT_PROGRAM_PASS, false},
		{"function == \"done\"", DONE, RT_PROGRAM_PASS, true},
		{"function == \"done\"", END, RT_PROGRAM_FAIL, true},
	};

	(void)state;
	for (size_t i = 0; i < COUNT(row); i++) {
		struct filter *filter = make_filter(row[i].text);
		struct probe_filter made;

		probe_filter_init(&made);
		filter_narrow(filter, row[i].probe, row[i].probe == DONE ? DONE_WORDS : END_WORDS, &made);
		if (made.whole != row[i].whole || (row[i].first ? made.first != row[i].first : made.first >= RT_PROGRAM_FAIL))
			fail_msg("%s: begins at %u, whole %d", row[i].text, made.first, made.whole);
		filter_destroy(filter);
	}
}

/* No filter, or too many tests for the table: each event is written. */
static void test_what_does_not_fit_passes(void **state)
{
	struct filter *filter = make_filter("us in (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37)");
	static struct probe_filter made, to;
	uint8_t first = 0;

	(void)state;
	probe_filter_init(&made);
	filter_narrow(filter, DONE, DONE_WORDS, &made);
	assert_int_equal(made.tests, 19);
	probe_filter_init(&to);
	for (unsigned i = 0; i < RT_PROGRAM_TESTS_MAX / 19; i++)
		assert_in_range(probe_filter_settle(&made, PID, UID, &to), 0, RT_PROGRAM_TESTS_MAX - 1);
	assert_int_equal(probe_filter_settle(&made, PID, UID, &to), RT_PROGRAM_PASS);
	assert_int_equal(to.tests, RT_PROGRAM_TESTS_MAX / 19 * 19);
	for (unsigned i = 0; i < RT_PROGRAM_TESTS_MAX / 19; i++) {
		assert_int_not_equal(first, RT_PROGRAM_PASS);
		filter_narrow(filter, DONE, DONE_WORDS, &made);
		first = made.first;
	}
	assert_int_equal(first, RT_PROGRAM_PASS);
	filter_destroy(filter);
	probe_filter_init(&made);
	filter_narrow(NULL, DONE, DONE_WORDS, &made);
	assert_int_equal(made.first, RT_PROGRAM_PASS);
}

/* Where the daemon hides texts, its filters compare others than a program has. */
static void test_texts_may_be_hidden(void **state)
{
	struct filter *filter = make_filter("url == \"x\" && us > 1");
	struct probe_filter made;

	(void)state;
	probe_filter_init(&made);
	made.asks_texts = false;
	filter_narrow(filter, DONE, DONE_WORDS, &made);
	assert_false(made.whole);
	assert_int_equal(made.tests, 1);
	assert_int_equal(made.test[0].kind, RT_PROGRAM_RANGE);
	filter_destroy(filter);
}

/* Of two processes, each asks what is left for it. */
static void test_a_process_is_asked_what_is_left(void **state)
{
	struct filter *filter = make_filter("pid == 71 && us > 100 || pid == 73 || uid == 7 && id == 1");
	struct probe_filter made, to;

	(void)state;
	probe_filter_init(&made);
	filter_narrow(filter, DONE, DONE_WORDS, &made);
	probe_filter_init(&to);
	assert_int_equal(probe_filter_settle(&made, 71, 0, &to), 0);
	assert_int_equal(to.tests, 1);
	assert_int_equal(probe_filter_settle(&made, 73, 0, &to), RT_PROGRAM_PASS);
	assert_int_equal(probe_filter_settle(&made, 74, 0, &to), RT_PROGRAM_FAIL);
	probe_filter_init(&to);
	assert_int_equal(probe_filter_settle(&made, 74, 7, &to), 0);
	assert_int_equal(to.test[0].word, 0);
	filter_destroy(filter);
}

/* Whatever stands in the memory: it ends, and reads nothing but the event. What makes no sense lets the event pass. */
static void test_nonsense_ends(void **state)
{
	struct rt_program_test test = {.kind = RT_PROGRAM_RANGE, .word = DONE_WORDS, .yes = RT_PROGRAM_FAIL,
				       .no = RT_PROGRAM_FAIL};
	struct sample sample;

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		uint8_t *bytes = (uint8_t *)segment.test;

		for (size_t i = 0; i < sizeof(segment.test); i++)
			bytes[i] = (uint8_t)(pick(2) ? pick(6) : pick(256));
		make_sample(&sample);
		rt_probe_run(&segment, pick(2) ? pick(RT_PROGRAM_TESTS_MAX) : pick(UINT32_MAX), &sample.event);
	}
	make_done(&sample);
	memcpy(segment.test[0], &test, sizeof(test));
	assert_int_equal(rt_probe_run(&segment, 0, &sample.event), 1);	/* a field that it does not have */
	test.word = 0;
	memcpy(segment.test[0], &test, sizeof(test));
	assert_int_equal(rt_probe_run(&segment, 0, &sample.event), 0);
	test.kind = RT_PROGRAM_TEXT;
	memcpy(segment.test[0], &test, sizeof(test));
	assert_int_equal(rt_probe_run(&segment, 0, &sample.event), 1);	/* a number as a text */
	test = (struct rt_program_test){.kind = RT_PROGRAM_PREFIX, .word = 3, .bytes = RT_PROGRAM_TEST_BYTES + 1,
					.yes = RT_PROGRAM_FAIL, .no = RT_PROGRAM_FAIL};
	memcpy(segment.test[0], &test, sizeof(test));
	assert_int_equal(rt_probe_run(&segment, 0, &sample.event), 1);	/* more bytes than there are */
	test = (struct rt_program_test){.kind = RT_PROGRAM_RANGE, .yes = 7, .no = 7};
	memcpy(segment.test[7], &test, sizeof(test));
	assert_int_equal(rt_probe_run(&segment, 7, &sample.event), 1);	/* in a circle */
}

/* What the daemon changes meanwhile, or before it has done so, says nothing of the event. */
static void test_tests_that_change_let_pass(void **state)
{
	const struct rt_program_test test = {.kind = RT_PROGRAM_TEXT, .word = 3, .bytes = 1, .low = 'z',
					     .yes = RT_PROGRAM_PASS, .no = RT_PROGRAM_FAIL};
	struct sample sample;

	(void)state;
	memset(&memory, 0, sizeof(memory));
	memset(&sample, 0, sizeof(sample));
	make_done(&sample);
	memcpy(segment.test[1], &test, sizeof(test));
	segment.enabled[0] = RT_PROGRAM_NARROWED + 1;
	rt_probe_segment = &segment;
	assert_int_equal(rt_probe_passes(&sample.site, NULL, 0, sample.value), 0);
	assert_int_equal(memory.ring.filtered, 1);
	changes = true;
	assert_int_equal(rt_probe_passes(&sample.site, NULL, 0, sample.value), 1);
	changes = false;
	segment.turn = 3;
	assert_int_equal(rt_probe_passes(&sample.site, NULL, 0, sample.value), 1);
	segment.turn = 4;
	segment.enabled[0] = 1;
	assert_int_equal(rt_probe_passes(&sample.site, NULL, 0, sample.value), 1);
	assert_int_equal(memory.ring.filtered, 1);
	rt_probe_segment = NULL;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_program_asks_what_the_filters_ask),
		cmocka_unit_test(test_a_part_is_asked),
		cmocka_unit_test(test_what_does_not_fit_passes),
		cmocka_unit_test(test_texts_may_be_hidden),
		cmocka_unit_test(test_a_process_is_asked_what_is_left),
		cmocka_unit_test(test_nonsense_ends),
		cmocka_unit_test(test_tests_that_change_let_pass),
	};

	add_probe(DONE, "done", "event", done, COUNT(done));
	add_probe(END, "served", "end", end, COUNT(end));
	return cmocka_run_group_tests(tests, NULL, NULL);
}
