/*
 * A cursor: one position for each CPU, wherever it stands; its message says the same, and a message that
 * names no boot is of no run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "proto/cursor.h"
#include "proto/limits.h"
#include "tests/lib/failing_memory.h"

#define CPUS 40u

static const struct run run = {.boot_id = "0123456789abcde", .epoch = 7};

/* Every third CPU, from the last: none stands at its own number. */
static struct cursor *make(void)
{
	struct cursor *cursor = cursor_create(0);

	assert_non_null(cursor);
	cursor->run = run;
	for (unsigned i = CPUS; i-- > 0;)
		assert_int_equal(cursor_add(&cursor, 3 * i, 100 + i), 0);
	return cursor;
}

static void test_cpus_that_do_not_stand_at_their_number(void **state)
{
	struct cursor *cursor = make();

	(void)state;
	assert_int_equal(cursor->n, CPUS);
	for (unsigned cpu = 0; cpu < 3 * CPUS; cpu++)
		assert_int_equal(cursor_seq(cursor, cpu, 5), cpu % 3 ? 5 : 100 + cpu / 3);
	/* One that is there takes no room; another one does. */
	while (cursor->n < cursor->capacity)
		cursor_append(cursor, 1000 + cursor->n, 0);
	assert_true(cursor_put(cursor, 6, 1));
	assert_int_equal(cursor_seq(cursor, 6, 5), 1);
	assert_false(cursor_put(cursor, 1, 1));
	free(cursor);
}

/* As much as there is room for. */
static void test_assigned_to_a_smaller_one(void **state)
{
	struct cursor *cursor = make(), *small = cursor_create(3), *none = cursor_create(0);

	(void)state;
	assert_true(small && none);
	cursor_assign(small, cursor);
	cursor_assign(none, cursor);
	assert_true(run_equal(&small->run, &run) && run_equal(&none->run, &run));
	assert_int_equal(small->n, 3);
	assert_int_equal(none->n, 0);
	assert_memory_equal(small->position, cursor->position, 3 * sizeof(cursor->position[0]));
	free(cursor);
	free(small);
	free(none);
}

static void test_message_says_the_same(void **state)
{
	struct cursor *cursor = make(), *back;
	struct cursor_message *message = cursor_message_create(cursor);

	(void)state;
	assert_non_null(message);
	back = cursor_of_message(&message->cursor);
	assert_non_null(back);
	assert_true(run_equal(&back->run, &run));
	assert_int_equal(back->n, CPUS);
	for (unsigned i = 0; i < CPUS; i++) {
		assert_int_equal(back->position[i].cpu, cursor->position[i].cpu);
		assert_int_equal(back->position[i].seq, cursor->position[i].seq);
	}
	free(back);
	message->cursor.boot_id.len--;
	back = cursor_of_message(&message->cursor);
	assert_false(run_is_named(&back->run));
	assert_false(run_equal(&back->run, &run));
	free(back);
	free(message);
	free(cursor);
}

/* Sixteen bytes name a boot, and no other number of them does. */
static void test_boot_id_of_another_length_names_no_run(void **state)
{
	uint8_t id[17];

	(void)state;
	memset(id, 'x', sizeof(id));
	for (size_t bytes = 0; bytes <= sizeof(id); bytes++) {
		struct run of = run_of_message((ProtobufCBinaryData){.len = bytes, .data = id}, 7);

		assert_int_equal(run_is_named(&of), bytes == 16);
		assert_int_equal(of.epoch, 7);
	}
}

static void test_no_message_is_longer_than_the_limit(void **state)
{
	static Ringtail__V1__Position position, *list[CURSOR_POSITIONS_MAX + 1];
	Ringtail__V1__Cursor message = RINGTAIL__V1__CURSOR__INIT;
	struct cursor *cursor;

	(void)state;
	for (unsigned i = 0; i <= CURSOR_POSITIONS_MAX; i++)
		list[i] = &position;
	message.position = list;
	message.n_position = CURSOR_POSITIONS_MAX + 1;
	cursor = cursor_of_message(&message);
	assert_int_equal(cursor->n, CURSOR_POSITIONS_MAX);
	free(cursor);
	cursor = cursor_of_message(NULL);
	assert_int_equal(cursor->n, 0);
	free(cursor);
}

static void test_no_memory(void **state)
{
	struct cursor *cursor = make();
	uint32_t n;

	(void)state;
	while (cursor->n < cursor->capacity)
		cursor_append(cursor, 1000 + cursor->n, 0);
	n = cursor->n;
	failures_left = 1;
	assert_true(cursor_add(&cursor, 1, 9) < 0);
	assert_int_equal(cursor->n, n);
	assert_int_equal(cursor_add(&cursor, 1, 9), 0);
	assert_int_equal(cursor_seq(cursor, 1, 0), 9);
	assert_int_equal(cursor_seq(cursor, 0, 0), 100);
	failures_left = 3;
	assert_null(cursor_copy(cursor));
	assert_null(cursor_create(1));
	assert_null(cursor_message_create(cursor));
	free(cursor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cpus_that_do_not_stand_at_their_number),
		cmocka_unit_test(test_assigned_to_a_smaller_one),
		cmocka_unit_test(test_message_says_the_same),
		cmocka_unit_test(test_boot_id_of_another_length_names_no_run),
		cmocka_unit_test(test_no_message_is_longer_than_the_limit),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
