/* What a relay knows of a host: what is new, what has come before, and what is stored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "daemon/base/limits.h"
#include "daemon/relay/host.h"

static const struct run first = {.boot_id = {1}, .epoch = 7};
static const struct run second = {.boot_id = {1}, .epoch = 8};

static struct cursor *places(const struct run *run, uint32_t n, const uint64_t *seq)
{
	struct cursor *cursor = cursor_create(n);

	assert_non_null(cursor);
	cursor->run = *run;
	for (uint32_t i = 0; i < n; i++)
		cursor_append(cursor, i, seq[i]);
	return cursor;
}

#define PLACES(run, ...) places(run, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), \
				(uint64_t[]){__VA_ARGS__})

static void begin(struct relay_host *host, const struct run *run, struct cursor *start,
		  struct cursor *since)
{
	struct relay_opening opening = {.refs = 1, .run = *run, .start = start};

	assert_int_equal(relay_host_open(host, &opening, since), 0);
	free(start);
	free(since);
}

/* A batch, or a gap, of one CPU. */
static int take(struct relay_host *host, enum frame_type type, uint32_t cpu, uint64_t from, uint64_t to)
{
	struct frame_ref frame = {.type = type, .cpu = cpu, .first_seq = from, .end_seq = to};
	struct cursor *upto = cursor_create(1);
	int news;

	assert_non_null(upto);
	cursor_append(upto, cpu, to);
	news = relay_host_take(host, &frame, upto);
	free(upto);
	return news;
}

static int take_watermark(struct relay_host *host, uint64_t time_ns, struct cursor *upto)
{
	struct frame_ref frame = {.type = FRAME_WATERMARK, .time_ns = time_ns};
	int news = relay_host_take(host, &frame, upto);

	free(upto);
	return news;
}

static void what_came_before_is_a_duplicate(void **state)
{
	struct relay_host *host = relay_host_create("web-1");

	(void)state;
	begin(host, &first, PLACES(&first, 10, 20), NULL);
	assert_int_equal(take(host, FRAME_BATCH, 0, 10, 15), 1);
	assert_int_equal(take(host, FRAME_BATCH, 1, 20, 25), 1);
	assert_int_equal(take(host, FRAME_BATCH, 0, 10, 15), 0);
	assert_int_equal(take(host, FRAME_GAP, 1, 20, 22), 0);
	/* A part of it is new. */
	assert_int_equal(take(host, FRAME_BATCH, 0, 12, 18), 1);
	/* A gap of no size says that something of unknown size is missing. */
	assert_int_equal(take(host, FRAME_GAP, 0, 18, 18), 1);
	assert_int_equal(take_watermark(host, 100, PLACES(&first, 18, 30)), 1);
	assert_int_equal(take(host, FRAME_BATCH, 1, 25, 30), 0);
	assert_int_equal(take_watermark(host, 100, PLACES(&first, 18, 30)), 0);
	assert_int_equal(take_watermark(host, 101, PLACES(&first, 18, 30)), 1);
	assert_int_equal(take_watermark(host, 101, PLACES(&first, 18, 31)), 1);
	relay_host_destroy(host);
}

static void a_new_connection_sends_again_what_was_not_stored(void **state)
{
	struct relay_host *host = relay_host_create("web-1");

	(void)state;
	begin(host, &first, PLACES(&first, 0), NULL);
	assert_int_equal(take(host, FRAME_BATCH, 0, 0, 40), 1);
	begin(host, &first, PLACES(&first, 0), PLACES(&first, 20));
	assert_int_equal(take(host, FRAME_BATCH, 0, 0, 40), 0);
	assert_int_equal(take(host, FRAME_BATCH, 0, 40, 50), 1);
	/* What could not be stored is new when it comes again. */
	relay_host_fail(host);
	begin(host, &first, PLACES(&first, 0), PLACES(&first, 20));
	assert_int_equal(take(host, FRAME_BATCH, 0, 0, 20), 0);
	assert_int_equal(take(host, FRAME_BATCH, 0, 20, 40), 1);
	relay_host_destroy(host);
}

static void numbers_of_another_run_begin_anew(void **state)
{
	struct relay_host *host = relay_host_create("web-1");

	(void)state;
	begin(host, &first, PLACES(&first, 0), NULL);
	assert_int_equal(take(host, FRAME_BATCH, 0, 0, 100), 1);
	assert_int_equal(take_watermark(host, 1000, PLACES(&first, 100)), 1);
	/* `since` is of the run before, and says nothing of this one. */
	begin(host, &second, PLACES(&second, 0), PLACES(&first, 100));
	assert_int_equal(take(host, FRAME_BATCH, 0, 0, 100), 1);
	assert_int_equal(take_watermark(host, 500, PLACES(&second, 100)), 1);
	/* A run that is read off the agent's disk does not say where its CPUs begin. */
	begin(host, &first, cursor_create(0), NULL);
	assert_int_equal(take(host, FRAME_BATCH, 3, 70, 80), 1);
	assert_int_equal(take(host, FRAME_BATCH, 3, 70, 80), 0);
	relay_host_destroy(host);
}

static void what_is_stored_grows_with_what_is_confirmed(void **state)
{
	struct relay_host *host = relay_host_create("web-1");
	struct relay_opening opening = {.refs = 1, .run = first};
	struct cursor *upto = PLACES(&first, 5, 6);
	struct relay_item item = {.host = host->name, .opening = &opening, .upto = upto};

	(void)state;
	assert_null(host->stored);
	assert_int_equal(relay_host_store(host, &item), 0);
	assert_true(run_equal(&host->stored->run, &first));
	assert_int_equal(cursor_seq(host->stored, 1, 0), 6);
	upto->position[1].seq = 4;		/* never back */
	assert_int_equal(relay_host_store(host, &item), 0);
	assert_int_equal(cursor_seq(host->stored, 1, 0), 6);
	opening.run = second;
	assert_int_equal(relay_host_store(host, &item), 0);
	assert_int_equal(cursor_seq(host->stored, 1, 0), 4);
	assert_true(run_equal(&host->stored->run, &second));
	free(upto);
	relay_host_destroy(host);
}

/* 0 to 10 fail while 10 to 20 wait behind them; 10 to 20 are stored after all, and 0 to 10 come again. */
static void what_came_behind_a_failure_is_not_acknowledged(void **state)
{
	struct relay_host *host = relay_host_create("web-1");
	struct relay_opening opening = {.refs = 1, .run = first};
	struct cursor *five = PLACES(&first, 5), *ten = PLACES(&first, 10), *twenty = PLACES(&first, 20);
	struct relay_item before = {.opening = &opening, .upto = five};
	struct relay_item behind = {.opening = &opening, .upto = twenty};
	struct relay_item again = {.opening = &opening, .upto = ten};

	(void)state;
	before.generation = behind.generation = host->generation;
	assert_int_equal(relay_host_store(host, &before), 0);
	relay_host_fail(host);
	assert_int_equal(relay_host_store(host, &behind), -ECANCELED);
	assert_int_equal(cursor_seq(host->stored, 0, 0), 5);
	again.generation = host->generation;
	assert_int_equal(relay_host_store(host, &again), 0);
	assert_int_equal(cursor_seq(host->stored, 0, 0), 10);
	free(five);
	free(ten);
	free(twenty);
	relay_host_destroy(host);
}

static struct relay_opening *open_stream(size_t catalog_bytes)
{
	struct relay_opening *opening = calloc(1, sizeof(*opening));

	assert_non_null(opening);
	opening->refs = 1;
	opening->run = first;
	opening->hello = frame_ref_create(FRAME_SERVER_HELLO, 100);
	opening->catalog = frame_ref_create(FRAME_CATALOG, catalog_bytes);
	opening->start = PLACES(&first, 0, 0);
	return opening;
}

static void what_is_held_counts_with_all_that_it_holds(void **state)
{
	struct relay_host *host = relay_host_create("web-1");
	struct relay_opening *opening = open_stream(1000);
	struct cursor *upto = PLACES(&first, 10, 20, 30);
	struct relay_item item = {.opening = opening, .upto = upto, .frame = frame_ref_create(FRAME_GAP, 50)};
	size_t each = RELAY_ITEM_BYTES + 50 + 3 * sizeof(struct position);
	size_t begins = 100 + 1000 + 2 * sizeof(struct position);

	(void)state;
	/* How its stream begins counts once. */
	assert_int_equal(relay_host_hold(host, &item), each + begins);
	assert_int_equal(relay_host_hold(host, &item), each);
	assert_int_equal(host->held_bytes, 2 * each + begins);
	assert_int_equal(host->openings, 1);
	assert_int_equal(host->held, 2);
	assert_int_equal(relay_host_release(host, &item), each);
	assert_int_equal(relay_host_release(host, &item), each + begins);
	assert_int_equal(host->held_bytes, 0);
	assert_int_equal(host->openings, 0);
	assert_int_equal(host->held, 0);
	relay_opening_put(opening);
	frame_ref_put(item.frame);
	free(upto);
	relay_host_destroy(host);
}

static void a_host_that_begins_again_and_again_has_to_wait(void **state)
{
	struct relay_host *host = relay_host_create("web-1");
	struct relay_opening *opening[RELAY_OPENINGS_MAX];
	struct relay_item item = {.frame = frame_ref_create(FRAME_GAP, 50)};
	struct cursor *upto = PLACES(&first, 10);

	(void)state;
	item.upto = upto;
	for (unsigned i = 0; i < RELAY_OPENINGS_MAX; i++) {
		assert_false(relay_host_is_full(host));
		item.opening = opening[i] = open_stream(100);
		relay_host_hold(host, &item);
	}
	assert_true(relay_host_is_full(host));
	for (unsigned i = 0; i < RELAY_OPENINGS_MAX; i++) {
		item.opening = opening[i];
		relay_host_release(host, &item);
		relay_opening_put(opening[i]);
		assert_false(relay_host_is_full(host));
	}
	/* So has one whose beginning is as large as can be. */
	item.opening = open_stream(RELAY_HELD_HOST_BYTES);
	relay_host_hold(host, &item);
	assert_true(relay_host_is_full(host));
	relay_host_release(host, &item);
	relay_opening_put(item.opening);
	frame_ref_put(item.frame);
	free(upto);
	relay_host_destroy(host);
}

static void a_name_is_that_of_a_directory(void **state)
{
	static const char *const good[] = {"web-1", "a", "db.example.org", "A_b.C-9"};
	static const char *const bad[] = {"", ".", "..", "..bad", "-x", "a/b", "a b", "\xc3\xa9", "a\n"};
	char longest[IDENTITY_NAME_BYTES + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(relay_host_name_is_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(relay_host_name_is_valid(bad[i]));
	memset(longest, 'x', sizeof(longest));
	longest[IDENTITY_NAME_BYTES] = '\0';
	assert_false(relay_host_name_is_valid(longest));
	longest[IDENTITY_NAME_BYTES - 1] = '\0';
	assert_true(relay_host_name_is_valid(longest));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_came_before_is_a_duplicate),
		cmocka_unit_test(a_new_connection_sends_again_what_was_not_stored),
		cmocka_unit_test(numbers_of_another_run_begin_anew),
		cmocka_unit_test(what_is_stored_grows_with_what_is_confirmed),
		cmocka_unit_test(what_came_behind_a_failure_is_not_acknowledged),
		cmocka_unit_test(what_is_held_counts_with_all_that_it_holds),
		cmocka_unit_test(a_host_that_begins_again_and_again_has_to_wait),
		cmocka_unit_test(a_name_is_that_of_a_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
