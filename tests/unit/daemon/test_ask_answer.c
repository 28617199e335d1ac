/*
 * Answers: each event is in one series or with the others, whatever keys come, and none goes back; the busiest keys lately
 * are those that are shown. Keys: texts of every part of an event, whatever it is made of.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/ask/answer.h"
#include "tests/unit/daemon/small_catalog.h"

static struct ask_key key_of(const char *text)
{
	struct ask_key key = {.bytes = strlen(text) + 1};

	memcpy(key.text, text, key.bytes);
	return key;
}

static void add(struct ask_answer *answer, const char *text, unsigned times)
{
	struct ask_key key = key_of(text);

	while (times--)
		ask_answer_add(answer, &key, &(uint64_t){1000}, times % 2);
}

/* UINT64_MAX: it is not shown. */
static uint64_t shown(const struct ask_answer *answer, const char *text)
{
	const struct ask_row *row;

	for (unsigned at = 0; (row = ask_answer_next(answer, &at));)
		if (strcmp(row->key.text, text) == 0)
			return row->counts.events;
	return UINT64_MAX;
}

static uint64_t all(const struct ask_answer *answer, unsigned *rows)
{
	uint64_t events = ask_answer_others(answer)->events;
	const struct ask_row *row;

	*rows = 0;
	for (unsigned at = 0; (row = ask_answer_next(answer, &at)); ++*rows)
		events += row->counts.events;
	return events;
}

static void the_busiest_are_shown_and_the_others_told_together(void **state)
{
	struct ask_answer *answer = ask_answer_create(2);
	unsigned rows;

	(void)state;
	add(answer, "a", 10);
	add(answer, "b", 3);
	add(answer, "c", 50);
	assert_int_equal(shown(answer, "a"), 10);
	assert_int_equal(ask_answer_others(answer)->events, 50);
	ask_answer_turn(answer);
	assert_int_equal(shown(answer, "a"), 10);
	assert_int_equal(shown(answer, "b"), UINT64_MAX);
	assert_int_equal(shown(answer, "c"), 0);	/* from now on */
	assert_int_equal(ask_answer_others(answer)->events, 53);
	assert_int_equal(ask_answer_others(answer)->errors, 5 * 5 + 1);
	assert_true(ask_answer_others(answer)->sum == 53000);
	assert_int_equal(ask_answer_others(answer)->bucket[meter_bucket_of(1000)], 53);
	add(answer, "c", 7);
	assert_int_equal(shown(answer, "c"), 7);
	/* One that comes back begins anew: what it had is the others'. */
	add(answer, "b", 1000);
	ask_answer_turn(answer);
	assert_int_equal(shown(answer, "b"), 0);
	assert_int_equal(all(answer, &rows), 1070);
	assert_int_equal(rows, 2);
	ask_answer_destroy(answer);
}

/* As one by one. */
static void many_at_once_are_as_busy(void **state)
{
	struct ask_answer *answer = ask_answer_create(1);
	struct ask_key key = key_of("b");

	(void)state;
	add(answer, "a", 10);
	ask_answer_add_all(answer, &key, 20);
	assert_int_equal(ask_answer_others(answer)->events, 20);
	ask_answer_turn(answer);
	assert_int_equal(shown(answer, "b"), 0);
	ask_answer_add_all(answer, &key, 5);
	assert_int_equal(shown(answer, "b"), 5);
	assert_int_equal(ask_answer_others(answer)->events, 30);
	ask_answer_destroy(answer);
}

/* Who is shown stays while nobody is much busier: a series that comes and goes says little. */
static void places_are_kept(void **state)
{
	struct ask_answer *answer = ask_answer_create(1);

	(void)state;
	add(answer, "a", 10);
	add(answer, "b", 14);
	ask_answer_turn(answer);
	assert_int_equal(shown(answer, "a"), 10);
	for (unsigned i = 0; i < 10; i++)
		ask_answer_turn(answer);
	assert_int_equal(shown(answer, "a"), 10);	/* nobody does anything */
	add(answer, "b", 20);
	ask_answer_turn(answer);
	assert_int_equal(shown(answer, "a"), UINT64_MAX);
	assert_int_equal(shown(answer, "b"), 0);
	ask_answer_destroy(answer);
}

/* Keys at random, many more than there is room for, and one that comes again and again. */
static void nothing_is_lost_and_nothing_goes_back(void **state)
{
	struct ask_answer *answer = ask_answer_create(3);
	uint64_t events = 0, others = 0, busy = 0;
	unsigned rows;

	(void)state;
	srandom(1);
	for (unsigned turn = 0; turn < 200; turn++) {
		for (unsigned i = 0; i < 50; i++) {
			char text[16];

			snprintf(text, sizeof(text), "%ld", random() % 5000);
			add(answer, i % 4 ? text : "busy", 1);
			events++;
		}
		ask_answer_turn(answer);
		assert_int_equal(all(answer, &rows), events);
		assert_int_equal(rows, 3);
		assert_true(ask_answer_others(answer)->events >= others);
		others = ask_answer_others(answer)->events;
		assert_true(shown(answer, "busy") != UINT64_MAX && shown(answer, "busy") >= busy);
		busy = shown(answer, "busy");
	}
	assert_true(busy >= 13 * 199);
	ask_answer_destroy(answer);
}

/* ---- Keys ----------------------------------------------------------------------------------------- */

static const Ringtail__V1__Probe *probe_of(uint32_t id)
{
	for (size_t i = 0; i < small_catalog.n_probe; i++)
		if (small_catalog.probe[i]->id == id)
			return small_catalog.probe[i];
	fail();
	return NULL;
}

static void expect(const char *name, const struct batch_item *item, const char *wanted)
{
	struct ask_key key = {.bytes = 0};

	ask_key_add(&key, name, probe_of(item->event.probe), 5, item);
	assert_true(key.bytes && key.bytes <= ASK_LABEL_BYTES_MAX + 1);
	assert_string_equal(key.text, wanted);
	assert_int_equal(strlen(key.text) + 1, key.bytes);
}

static void texts_of_an_event(void **state)
{
	static const char cgroup[] = "/docker/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
	const struct batch_text exe = {.data = "/bin/cat", .bytes = 8}, group = {.data = cgroup, .bytes = sizeof(cgroup) - 1};
	struct batch_thread thread = {.tid = 7, .pid = 6, .uid = 5, .comm = "sixteen-letters-", .exe = &exe, .cgroup = &group};
	const struct batch_attachment text = {.kind = RINGTAIL__V1__ATTACHMENT_KIND__ATTACH_STRING, .arg = 3,
					      .text = (const uint8_t *)"/etc/\xff\n\xc3\xa4", .text_bytes = 9};
	uint64_t field[] = {1500, (uint64_t)-ENOENT, (uint64_t)-100, 0x7f00, 0x80000, 0644};
	struct batch_item item = {.event = {.probe = SMALL_OPENAT, .fields = 6, .has_duration = true, .field = field},
				  .thread = &thread, .attachment = &text, .attachments = 1};

	(void)state;
	expect("comm", &item, "sixteen-letters-");
	expect("pid", &item, "6");
	expect("tid", &item, "7");
	expect("uid", &item, "5");
	expect("cpu", &item, "5");
	expect("function", &item, "openat");
	expect("probe", &item, "syscall:openat:call");
	expect("error", &item, "ENOENT");
	expect("exe", &item, "/bin/cat");
	expect("container", &item, "0123456789ab");
	expect("unit", &item, "");
	expect("filename", &item, "/etc/??\xc3\xa4");
	expect("flags", &item, "O_RDONLY|O_CLOEXEC");
	expect("duration", &item, "1500");
	expect("ret", &item, "-2");
	expect("sig", &item, "");
	field[1] = (uint64_t)-4000;
	expect("error", &item, "4000");
	field[1] = (uint64_t)-4095;			/* the last that is an error, and the next */
	expect("error", &item, "4095");
	field[1] = (uint64_t)-4096;
	expect("error", &item, "");
	field[1] = 0;
	expect("error", &item, "");
	field[1] = 3;
	item.attachments = 0;
	expect("error", &item, "");
	expect("filename", &item, "0x7f00");
	thread.exe = NULL;
	thread.cgroup = NULL;
	expect("exe", &item, "");
	expect("container", &item, "");
}

static void numbers_of_an_event(void **state)
{
	uint64_t field[] = {1500, (uint64_t)-ENOENT, 3, 0x7f00, 4096}, number;
	struct batch_item item = {.event = {.probe = SMALL_READ, .fields = 5, .has_duration = true, .field = field}};
	const Ringtail__V1__Probe *probe = probe_of(SMALL_READ);

	(void)state;
	assert_true(ask_key_number("duration", probe, &item, &number) && number == 1500);
	assert_true(ask_key_number("count", probe, &item, &number) && number == 4096);
	assert_false(ask_key_number("ret", probe, &item, &number));	/* it failed */
	assert_false(ask_key_number("nothing", probe, &item, &number));
	assert_int_equal(ask_key_errno(probe, &item), ENOENT);
	field[0] = UINT64_MAX;
	assert_false(ask_key_number("duration", probe, &item, &number));
	assert_int_equal(ask_key_errno(probe, &item), 0);
	field[0] = 1;
	field[1] = 77;
	assert_true(ask_key_number("ret", probe, &item, &number) && number == 77);
	assert_int_equal(ask_key_errno(probe, &item), 0);
}

/* Of any length, also where a character lies on the cut. */
static void long_texts_are_cut_and_say_so(void **state)
{
	(void)state;
	for (unsigned bytes = 0; bytes < 300; bytes++) {
		char exe[300];
		const struct batch_text text = {.data = exe, .bytes = bytes};
		struct batch_thread thread = {.exe = &text};
		struct batch_item item = {.event = {.probe = SMALL_READ}, .thread = &thread};
		struct ask_key key = {.bytes = 0};

		for (unsigned i = 0; i < sizeof(exe); i++)
			exe[i] = "\xe2\x82\xac"[i % 3];
		ask_key_add(&key, "exe", probe_of(SMALL_READ), 0, &item);
		assert_true(key.bytes <= ASK_LABEL_BYTES_MAX + 1);
		assert_int_equal(strlen(key.text) + 1, key.bytes);
		assert_int_equal(bytes > ASK_LABEL_BYTES_MAX - 3, strstr(key.text, "...") != NULL);
	}
}

static int set_up(void **state)
{
	(void)state;
	small_catalog_get();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_busiest_are_shown_and_the_others_told_together),
		cmocka_unit_test(many_at_once_are_as_busy),
		cmocka_unit_test(places_are_kept),
		cmocka_unit_test(nothing_is_lost_and_nothing_goes_back),
		cmocka_unit_test(texts_of_an_event),
		cmocka_unit_test(numbers_of_an_event),
		cmocka_unit_test(long_texts_are_cut_and_say_so),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
