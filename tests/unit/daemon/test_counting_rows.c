/*
 * Rows of a question, one event after the other: which events share one, what a row adds up, when there is room for no
 * more, and what of an event is sent for all that share its row. Which questions are the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/collect/batcher.h"
#include "daemon/collect/counting.h"
#include "proto/batch_counts.h"
#include "tests/unit/daemon/small_catalog.h"

#define OTHER		(RT_PROBE_PROGRAM + 3)	/* whose result is called otherwise, and which has an address */
#define NEVER		UINT64_MAX
#define WORDS_MAX	300u
#define TEXT_MAX	1024u

static Ringtail__V1__Field other_field[4];
static Ringtail__V1__Field *other_fields[4];
static Ringtail__V1__Probe other;
static Ringtail__V1__Probe *all[16];
static Ringtail__V1__Catalog catalog;

static struct probe_table probes;
static struct thread_table *threads;

static struct {
	struct batcher_spec spec;
	struct counting *counting;
	struct counts_reader reader;
} f;

/* ---- Questions -------------------------------------------------------------------------------- */

static void set_other(unsigned i, const char *name, Ringtail__V1__FieldType type, uint32_t bits)
{
	ringtail__v1__field__init(&other_field[i]);
	other_field[i].name = (char *)name;
	other_field[i].type = type;
	other_field[i].bits = bits;
	other_field[i].c_type = (char *)"";
	other_fields[i] = &other_field[i];
}

static void make_catalog(void)
{
	const Ringtail__V1__Catalog *small = small_catalog_get();

	small_buf.c_type = (char *)"char *";
	ringtail__v1__probe__init(&other);
	other.id = OTHER;
	other.provider = (char *)"app";
	other.function = (char *)"io";
	other.name = (char *)"done";
	set_other(0, "status", RINGTAIL__V1__FIELD_TYPE__FIELD_RESULT, 64);
	set_other(1, "addr", RINGTAIL__V1__FIELD_TYPE__FIELD_HEX, 64);
	set_other(2, "delta", RINGTAIL__V1__FIELD_TYPE__FIELD_SIGNED, 16);
	set_other(3, "waker", RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD, 32);
	other.field = other_fields;
	other.n_field = 4;
	ringtail__v1__catalog__init(&catalog);
	memcpy(all, small->probe, small->n_probe * sizeof(all[0]));
	all[small->n_probe] = &other;
	catalog.probe = all;
	catalog.n_probe = small->n_probe + 1;
}

static struct question *make_question(const struct question_request *request)
{
	struct question *question;
	struct error error;

	assert_int_equal(question_create(request, &f.spec.probes, &catalog, &question, &error), 0);
	return question;
}

static void end(void)
{
	counting_destroy(f.counting);
	question_destroy((struct question *)f.spec.question);
	counts_reader_fini(&f.reader);
	memset(&f, 0, sizeof(f));
}

static void ask(const char *by, const char *of)
{
	const char *const name[] = {by};
	struct question_request request = {.by = name, .bys = by != NULL, .of = of};
	struct error error;

	f.spec.flags = RT_FLAG_STRINGS | RT_FLAG_DATA;
	assert_int_equal(probe_set_add_glob(&f.spec.probes, "*:*:*", &catalog, &error), 0);
	f.spec.question = make_question(&request);
	f.counting = counting_create(&f.spec, threads);
	assert_non_null(f.counting);
}

/* ---- Events ----------------------------------------------------------------------------------- */

struct made {
	uint64_t payload[WORDS_MAX];
	struct ring_item item;
};

static const struct batch_thread thread = {.tid = 10, .pid = 9, .ppid = 1, .uid = 5, .comm = "one"};

static struct made make(uint16_t probe, uint64_t a, uint64_t b, uint64_t c)
{
	struct made made = {.payload = {a, b, c}, .item = {.probe = probe, .tid = 10}};

	made.item.words = probes.probe[probe].fields;
	return made;
}

static void attach(struct made *made, enum rt_attachment_kind kind, uint16_t arg, const char *text)
{
	struct rt_attachment *attachment = (void *)&made->payload[made->item.words];

	attachment->kind = kind;
	attachment->arg = arg;
	attachment->bytes = (uint32_t)strlen(text);
	memcpy(attachment->data, text, attachment->bytes);
	made->item.words += (uint16_t)(1 + (attachment->bytes + 7) / 8);
	assert_in_range(made->item.words, 1, WORDS_MAX);
}

/* Whether there was a row for it. */
static bool take(struct made *made)
{
	const struct probe_info *info = &probes.probe[made->item.probe];

	made->item.payload = made->payload;
	if (counting_add(f.counting, &made->item, info, &thread))
		return true;
	counting_add_row(f.counting, &made->item, 7);
	return false;
}

static bool take_simple(uint16_t probe, uint64_t a, uint64_t b, uint64_t c)
{
	struct made made = make(probe, a, b, c);

	return take(&made);
}

/* What is sent of the one at hand. */
static const struct ring_item *bare_of(struct made *made)
{
	take(made);
	return counting_bare(f.counting, &made->item, &probes.probe[made->item.probe]);
}

/* Of the first row. */
static struct batch_counts first_row(void)
{
	struct batch_counts counts;
	struct wire_reader body;
	uint64_t events;
	size_t bytes;

	body.at = counting_pack(f.counting, &bytes);
	body.end = body.at + bytes;
	counts_reader_clear(&f.reader);
	assert_true(counts_reader_open(&f.reader, body));
	assert_true(counts_reader_sum(&f.reader, counting_rows(f.counting), 1u << 20, &events));
	assert_int_equal(events, counting_events(f.counting));
	assert_true(counts_reader_next(&f.reader, &counts));
	return counts;
}

/* ---- Which share a row ------------------------------------------------------------------------ */

/* The result is a field's type, whatever the catalog calls it; errors are -1 to -4095. */
static void test_errors(void **state)
{
	(void)state;
	ask("error", "");
	assert_false(take_simple(OTHER, (uint64_t)-5, 0, 0));
	assert_true(take_simple(OTHER, (uint64_t)-5, 1, 1));
	assert_false(take_simple(OTHER, (uint64_t)-4095, 0, 0));
	assert_false(take_simple(OTHER, (uint64_t)-4096, 0, 0));
	assert_true(take_simple(OTHER, 3, 0, 0));
	end();
	ask(NULL, "");
	take_simple(OTHER, (uint64_t)-4095, 0, 0);
	take_simple(OTHER, (uint64_t)-4096, 0, 0);
	take_simple(OTHER, (uint64_t)-1, 0, 0);
	assert_int_equal(first_row().events, 3);
	assert_int_equal(first_row().errors, 2);
	end();
}

/* A call that does not return has no result, also one without arguments: what stands there says nothing. */
static void test_calls_that_do_not_return(void **state)
{
	(void)state;
	ask("error", "");
	assert_false(take_simple(SMALL_GETPPID, NEVER, (uint64_t)-5, 0));
	assert_true(take_simple(SMALL_GETPPID, NEVER, 0, 0));
	assert_false(take_simple(SMALL_GETPPID, 7, 0, 0));
	end();
	/* Its arguments are as good as any. */
	ask(NULL, "error_code");
	take_simple(SMALL_EXIT, NEVER, 0, 3);
	assert_int_equal(first_row().values, 1);
	assert_int_equal(first_row().sum, 3);
	end();
	ask(NULL, "duration");
	take_simple(SMALL_EXIT, NEVER, 0, 3);
	assert_int_equal(first_row().values, 0);
	/* Nor is it one of those that did. */
	assert_false(take_simple(SMALL_EXIT, 5, 0, 3));
	end();
}

static void test_an_address_that_is_a_field(void **state)
{
	(void)state;
	ask("addr", "");
	assert_false(take_simple(OTHER, 0, 1, 0));
	assert_false(take_simple(OTHER, 0, 2, 0));
	assert_true(take_simple(OTHER, 1, 2, 3));
	end();
}

/* What is called so is told apart from a text of the same bytes, and a stack is none of the texts. */
static void test_texts(void **state)
{
	struct made a = make(SMALL_OPENAT, 1, 2, 3), b = a;

	(void)state;
	ask("filename", "");
	attach(&a, RT_ATTACH_STRING, 1, "/etc/one");
	attach(&b, RT_ATTACH_STRING, 1, "/etc/two");
	assert_false(take(&a));
	assert_false(take(&b));
	assert_true(take(&a));
	attach(&a, RT_ATTACH_USTACK, 0, "12345678");
	assert_true(take(&a));
	attach(&a, RT_ATTACH_KSTACK, 0, "12345678");
	assert_true(take(&a));
	end();
	ask("path", "");
	assert_false(take(&a));
	assert_false(take(&b));
	attach(&b, RT_ATTACH_KSTACK, 0, "12345678");
	attach(&b, RT_ATTACH_USTACK, 1, "12345678");
	assert_true(take(&b));
	end();
}

/* Of two probes without a text, each has a row: how it is shown is the probe's matter. */
static void test_probes_without_a_text(void **state)
{
	(void)state;
	ask("path", "");
	assert_false(take_simple(SMALL_OPENAT, 1, 2, 3));
	assert_false(take_simple(SMALL_KILL, 1, 2, 3));
	assert_true(take_simple(SMALL_OPENAT, 4, 5, 6));
	end();
}

/* What is shown of a buffer ends where the call's result says. */
static void test_a_buffer_ends_with_its_result(void **state)
{
	struct made a = make(SMALL_READ, 1, 4, 3), b = make(SMALL_READ, 1, 8, 3), again = make(SMALL_READ, 9, 4, 3);

	(void)state;
	ask("buf", "");
	attach(&a, RT_ATTACH_DATA, 1, "abcdefgh");
	attach(&b, RT_ATTACH_DATA, 1, "abcdefgh");
	attach(&again, RT_ATTACH_DATA, 1, "abcdefgh");
	assert_false(take(&a));
	assert_false(take(&b));
	assert_true(take(&again));
	assert_int_equal(bare_of(&a)->payload[1], 4);
	end();
	ask("filename", "");
	b = make(SMALL_OPENAT, 1, 4, 3);
	attach(&b, RT_ATTACH_STRING, 1, "abcdefgh");
	assert_int_equal(bare_of(&b)->payload[1], 0);
	end();
}

/* A thread that a field names is shown with its name, which may change. */
static void test_threads_in_fields(void **state)
{
	struct rt_thread known = {.pid = 40, .comm = "before"};
	struct made made = make(OTHER, 0, 0, 0);

	(void)state;
	made.payload[3] = 41;
	thread_table_learn(threads, 41, &known);
	ask("waker", "");
	assert_false(take(&made));
	assert_true(take(&made));
	strcpy(known.comm, "after");
	thread_table_learn(threads, 41, &known);
	assert_false(take(&made));
	assert_true(take(&made));
	end();
}

/* There was no room for all of its key: it shares no row, also with its like. */
static void test_keys_that_are_cut(void **state)
{
	struct made made = make(SMALL_OPENAT, 1, 2, 3);
	char text[TEXT_MAX];

	(void)state;
	memset(text, 'x', sizeof(text));
	text[600] = '\0';
	attach(&made, RT_ATTACH_STRING, 1, text);
	ask("filename", "");
	assert_false(take(&made));
	assert_false(take(&made));
	assert_false(take_simple(SMALL_OPENAT, 1, 2, 3));
	assert_true(take_simple(SMALL_OPENAT, 1, 2, 3));
	assert_false(take(&made));
	assert_int_equal(counting_rows(f.counting), 4);
	assert_int_equal(counting_events(f.counting), 5);
	end();
}

/* ---- What a row adds up ----------------------------------------------------------------------- */

static void test_values(void **state)
{
	static const uint64_t value[] = {5, 0, 9, 5};
	struct batch_counts counts;

	(void)state;
	ask(NULL, "duration");
	for (unsigned i = 0; i < 4; i++)
		take_simple(SMALL_GETPPID, value[i] << 60, 0, 0);
	counts = first_row();
	assert_int_equal(counts.events, 4);
	assert_int_equal(counts.values, 4);
	assert_int_equal(counts.least, 0);
	assert_int_equal(counts.greatest, 9ull << 60);
	assert_int_equal(counts.sum, 19ull << 60);
	assert_int_equal(counts.sum_high, 1);
	assert_int_equal(counts.buckets, 3);
	assert_int_equal(counts.bucket[1].values, 2);
	end();
	ask(NULL, "duration");
	take_simple(SMALL_GETPPID, 8, 0, 0);
	take_simple(SMALL_GETPPID, 8, 0, 0);
	counts = first_row();
	assert_int_equal(counts.least, 8);
	assert_int_equal(counts.buckets, 1);
	end();
}

/* With the field's own width and sign: below 0 it is no value. */
static void test_values_of_a_width(void **state)
{
	struct batch_counts counts;

	(void)state;
	ask(NULL, "delta");
	take_simple(OTHER, 0, 0, 0xffff);
	take_simple(OTHER, 0, 0, 0x10005);
	counts = first_row();
	assert_int_equal(counts.events, 2);
	assert_int_equal(counts.values, 1);
	assert_int_equal(counts.sum, 5);
	end();
	ask(NULL, "fd");
	take_simple(SMALL_READ, 1, 0, 0x1ffffff9cull);
	take_simple(SMALL_READ, 1, 0, 0x100000004ull);
	counts = first_row();
	assert_int_equal(counts.values, 1);
	assert_int_equal(counts.sum, 4);
	end();
	ask(NULL, "ret");
	take_simple(SMALL_READ, 1, (uint64_t)-9, 0);
	take_simple(SMALL_READ, 1, 6, 0);
	assert_int_equal(first_row().values, 1);
	assert_int_equal(first_row().sum, 6);
	end();
}

/* What was there before is no more: no row, no event, no bucket. */
static void test_empty_again(void **state)
{
	struct batch_counts counts;

	(void)state;
	ask("fd", "duration");
	for (unsigned round = 0; round < 2; round++) {
		take_simple(SMALL_READ, 5, 0, round);
		take_simple(SMALL_READ, 900, 0, 3);
		take_simple(SMALL_READ, 5, 0, 3);
		assert_int_equal(counting_rows(f.counting), 2);
		assert_int_equal(counting_events(f.counting), 3);
		counts = first_row();
		assert_int_equal(counts.events, 1);
		assert_int_equal(counts.buckets, 1);
		assert_int_equal(counts.bucket[0].values, 1);
		counting_clear(f.counting);
		assert_int_equal(counting_rows(f.counting), 0);
		assert_int_equal(counting_events(f.counting), 0);
	}
	end();
}

/* The slice is that of the first row. */
static void test_slice_of_the_rows(void **state)
{
	struct made made = make(SMALL_READ, 1, 0, 0);
	const struct probe_info *info = &probes.probe[SMALL_READ];

	(void)state;
	ask("fd", "");
	made.item.payload = made.payload;
	for (uint64_t i = 0; i < 3; i++) {
		made.payload[2] = i;
		assert_false(counting_add(f.counting, &made.item, info, &thread));
		counting_add_row(f.counting, &made.item, 100 + i);
		assert_int_equal(counting_slice(f.counting), 100);
	}
	end();
}

/* ---- Room ------------------------------------------------------------------------------------- */

/* As long as there is room, the next event can be counted, whatever it is. */
static unsigned fill(uint16_t probe, size_t text_bytes, uint64_t spread)
{
	char text[TEXT_MAX];
	unsigned n = 0;

	memset(text, 'x', sizeof(text));
	text[text_bytes] = '\0';
	while (counting_has_room(f.counting) && n < 3 * COUNT_BUCKETS_MAX) {
		struct made made = make(probe, 1 + n * spread, 0, n);

		if (text_bytes) {
			text[0] = (char)('0' + n % 64);
			text[1] = (char)('0' + n / 64 % 64);
			text[2] = (char)('0' + n / 4096);
			attach(&made, RT_ATTACH_STRING, 1, text);
		}
		take(&made);
		n++;
	}
	return n;
}

static void test_room_for_rows(void **state)
{
	(void)state;
	ask("fd", "");
	assert_int_equal(fill(SMALL_READ, 0, 0), COUNT_ROWS_MAX);
	counting_clear(f.counting);
	assert_true(counting_has_room(f.counting));
	end();
}

/* Each key may be as long as the longest: there is room for no more where that one would not fit. */
static void test_room_for_keys(void **state)
{
	unsigned rows;

	(void)state;
	ask("filename", "");
	rows = fill(SMALL_OPENAT, 400, 0);
	/* 128 KiB of them, less what the longest takes: 480 bytes. These have 400 of text, and 18. */
	assert_int_equal(rows, ((128u << 10) - 480) / 418 + 1);
	counting_clear(f.counting);
	assert_int_equal(fill(SMALL_OPENAT, 400, 0), rows);
	end();
}

/* One bucket of each block of them, in one row. */
static void test_room_for_buckets(void **state)
{
	unsigned n = 0;

	(void)state;
	ask("fd", "duration");
	for (uint64_t i = 0; counting_has_room(f.counting) && n < COUNT_BUCKETS_MAX; i++)
		for (unsigned bit = 0; bit < 60 && counting_has_room(f.counting); bit++, n++)
			take_simple(SMALL_READ, 1ull << bit, 0, i);
	assert_in_range(n, 100, COUNT_BUCKETS_MAX);
	assert_true(counting_rows(f.counting) < COUNT_ROWS_MAX);
	first_row();
	counting_clear(f.counting);
	assert_true(counting_has_room(f.counting));
	/* Four buckets of each block: they end before blocks do. */
	n = 0;
	for (uint64_t i = 0; counting_has_room(f.counting) && n <= COUNT_BUCKETS_MAX; i++)
		for (unsigned k = 4 * 8; k < 4 * 60 && counting_has_room(f.counting); k++, n++)
			take_simple(SMALL_READ, (4ull + k % 4) << (k / 4), 0, i);
	assert_int_equal(n, COUNT_BUCKETS_MAX);
	counting_clear(f.counting);
	assert_true(counting_has_room(f.counting));
	/* A bucket that is there has room for any number. */
	for (n = 0; n < 2 * COUNT_BUCKETS_MAX; n++)
		take_simple(SMALL_READ, 1000, 0, 1);
	assert_true(counting_has_room(f.counting));
	end();
}

/* ---- What is sent of an event ----------------------------------------------------------------- */

static void test_bare(void **state)
{
	struct made made = make(SMALL_OPENAT, 77, 3, 4);
	struct made never = make(SMALL_EXIT, NEVER, 3, 4);
	const struct ring_item *bare;

	(void)state;
	made.payload[4] = 5;
	attach(&made, RT_ATTACH_STRING, 1, "/etc/one");
	ask("flags", "");
	bare = bare_of(&made);
	assert_int_equal(bare->payload[0], 0);
	assert_int_equal(bare->payload[2], 0);
	assert_int_equal(bare->payload[4], 5);
	end();
	ask("comm", "duration");
	bare = bare_of(&made);
	assert_int_equal(bare->words, probes.probe[SMALL_OPENAT].fields);
	assert_int_equal(bare->payload[0], 0);
	/* That it does not return is seen by its duration. */
	bare = bare_of(&never);
	assert_int_equal(bare->payload[0], NEVER);
	assert_int_equal(bare->payload[2], 0);
	end();
	ask("filename", "");
	assert_int_equal(bare_of(&made)->words, made.item.words);
	end();
}

/* ---- Which questions are the same ------------------------------------------------------------- */

static void check_equal(const struct question_request *a, const struct question_request *b, bool equal)
{
	struct question *first = make_question(a), *second = make_question(b);

	assert_int_equal(question_equal(first, second), equal);
	assert_int_equal(question_equal(second, first), equal);
	question_destroy(first);
	question_destroy(second);
}

static void test_which_are_the_same(void **state)
{
	static const char *const comm[] = {"comm", "pid"}, *const pid[] = {"pid", "comm"};
	const uint64_t interval_ns = 4 * QUESTION_INTERVAL_NS_MIN;
	const struct question_request a = {comm, 2, "duration", interval_ns, 3};
	const struct question_request another[] = {
		{pid, 2, "duration", interval_ns, 3}, {comm, 1, "duration", interval_ns, 3},
		{comm, 2, "ret", interval_ns, 3}, {comm, 2, "duration", interval_ns + 1, 3},
		{comm, 2, "duration", 0, 3}, {comm, 2, "duration", interval_ns, 4},
	};
	const struct question_request later = {comm, 2, "duration", interval_ns, 3 + 7 * interval_ns};
	struct question *question = make_question(&a);

	(void)state;
	check_equal(&a, &a, true);
	check_equal(&a, &later, true);		/* the same intervals */
	for (unsigned i = 0; i < sizeof(another) / sizeof(another[0]); i++)
		check_equal(&a, &another[i], false);
	assert_true(question_equal(NULL, NULL));
	assert_false(question_equal(question, NULL));
	assert_false(question_equal(NULL, question));
	question_destroy(question);
}

static int set_up(void **state)
{
	struct rt_thread known = {.pid = 9, .comm = "one"};
	struct error error;

	(void)state;
	make_catalog();
	threads = thread_table_create(64);
	assert_non_null(threads);
	thread_table_learn(threads, 10, &known);
	return probe_table_init(&probes, &catalog, &error);
}

static int tear_down(void **state)
{
	(void)state;
	thread_table_destroy(threads);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_calls_that_do_not_return),
		cmocka_unit_test(test_an_address_that_is_a_field),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_probes_without_a_text),
		cmocka_unit_test(test_a_buffer_ends_with_its_result),
		cmocka_unit_test(test_threads_in_fields),
		cmocka_unit_test(test_keys_that_are_cut),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_values_of_a_width),
		cmocka_unit_test(test_empty_again),
		cmocka_unit_test(test_slice_of_the_rows),
		cmocka_unit_test(test_room_for_rows),
		cmocka_unit_test(test_room_for_keys),
		cmocka_unit_test(test_room_for_buckets),
		cmocka_unit_test(test_bare),
		cmocka_unit_test(test_which_are_the_same),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
