/* test_ledger: spans that meet, holes, overlaps, watermarks. */
#include "tests/unit/client/check.h"

#include <errno.h>
#include <stdlib.h>

#include "client/lib/ledger.h"

static struct ledger ledger;

static int setup(void **state)
{
	(void)state;
	memset(&ledger, 0, sizeof(ledger));
	return 0;
}

static void meets(void **state)
{
	struct cursor *cursor = cursor_create(2);

	(void)state;
	assert_non_null(cursor);
	assert_int_equal(ledger_start(&ledger, 0, 10), 0);
	assert_int_equal(ledger_span(&ledger, 0, 10, 20), 0);
	assert_int_equal(ledger_span(&ledger, 0, 20, 20), 0);
	assert_int_equal(ledger_span(&ledger, 0, 20, 35), 0);
	assert_int_equal(ledger_span(&ledger, 3, 7, 9), 0);	/* a CPU nobody announced */
	assert_int_equal(ledger_span(&ledger, 3, 9, 12), 0);
	assert_int_equal(ledger.residual, 0);
	ledger_cursor(&ledger, cursor);
	assert_int_equal(cursor->n, 2);
	assert_int_equal(cursor->position[0].seq, 35);
	assert_int_equal(cursor->position[1].cpu, 3);
	assert_int_equal(cursor->position[1].seq, 12);
	free(cursor);
}

static void hole(void **state)
{
	(void)state;
	ledger_start(&ledger, 0, 0);
	ledger_span(&ledger, 0, 4, 10);
	assert_int_equal(ledger.residual, 4);
	ledger_span(&ledger, 0, 10, 12);
	assert_int_equal(ledger.residual, 4);
}

static void overlap(void **state)
{
	(void)state;
	ledger_span(&ledger, 1, 0, 10);
	ledger_span(&ledger, 1, 8, 12);
	assert_int_equal(ledger.residual, 2);
	ledger_span(&ledger, 1, 3, 5);		/* all of it was told before */
	assert_int_equal(ledger.residual, 4);
	ledger_span(&ledger, 1, 12, 13);
	assert_int_equal(ledger.residual, 4);
}

static void watermark(void **state)
{
	(void)state;
	ledger_span(&ledger, 0, 0, 10);
	assert_int_equal(ledger_watermark(&ledger, 0, 30, 20), 0); /* 10..29 were for others */
	ledger_span(&ledger, 0, 30, 40);
	assert_int_equal(ledger_watermark(&ledger, 0, 35, 0), 0);	/* an old one changes nothing */
	ledger_span(&ledger, 0, 40, 41);
	assert_int_equal(ledger.residual, 0);
	ledger_watermark(&ledger, 0, 50, 10);
	ledger_span(&ledger, 0, 45, 60);	/* but it had said that nothing is left before 50 */
	assert_int_equal(ledger.residual, 5);
}

static void batch_missing_before_a_watermark(void **state)
{
	(void)state;
	ledger_span(&ledger, 0, 0, 10);
	ledger_watermark(&ledger, 0, 30, 5);	/* 5 were for others; a batch had the other 15 */
	assert_int_equal(ledger.residual, 15);
	ledger_span(&ledger, 0, 30, 40);
	assert_int_equal(ledger.residual, 15);
}

/* As a daemon that sends a batch again: only the first batch of a connection may reach back. */
static void batch_that_comes_twice(void **state)
{
	(void)state;
	ledger_start(&ledger, 0, 5);
	ledger_span(&ledger, 0, 0, 10);
	assert_int_equal(ledger.residual, 0);
	ledger_span(&ledger, 0, 0, 10);
	assert_int_equal(ledger.residual, 10);
	ledger_start(&ledger, 0, 10);		/* after a reconnect */
	ledger_span(&ledger, 0, 10, 10);	/* nothing: the first batch is still to come */
	ledger_span(&ledger, 0, 8, 12);
	assert_int_equal(ledger.residual, 10);
	ledger_span(&ledger, 0, 8, 12);
	assert_int_equal(ledger.residual, 14);
}

static void start_is_kept(void **state)
{
	(void)state;
	ledger_span(&ledger, 0, 0, 10);
	ledger_start(&ledger, 0, 50);		/* after a reconnect: 10..49 need a gap */
	ledger_span(&ledger, 0, 10, 50);
	assert_int_equal(ledger.residual, 0);
	ledger_start(&ledger, 0, 90);
	ledger_span(&ledger, 0, 90, 95);	/* and 50..89 have none */
	assert_int_equal(ledger.residual, 40);
	ledger_restart(&ledger);
	ledger.residual = 0;
	ledger_start(&ledger, 0, 3);
	ledger_span(&ledger, 0, 3, 4);
	assert_int_equal(ledger.residual, 0);
}

/* What is missing is a sum: of holes, of batches before watermarks, of every CPU. */
static void holes_add_up(void **state)
{
	(void)state;
	ledger_span(&ledger, 0, 0, 10);
	ledger_span(&ledger, 1, 0, 10);
	ledger_span(&ledger, 0, 11, 12);
	ledger_span(&ledger, 1, 13, 14);
	assert_int_equal(ledger.residual, 4);
	ledger_watermark(&ledger, 0, 22, 5);
	assert_int_equal(ledger.residual, 9);
	ledger_watermark(&ledger, 1, 24, 4);
	assert_int_equal(ledger.residual, 15);
}

/* A watermark says from where on a CPU is complete, of which nothing had come: nothing before it is missing. */
static void watermark_of_a_new_cpu(void **state)
{
	struct cursor *cursor = cursor_create(2);

	(void)state;
	assert_non_null(cursor);
	assert_int_equal(ledger_watermark(&ledger, 2, 70, 0), 0);
	assert_int_equal(ledger.residual, 0);
	ledger_cursor(&ledger, cursor);
	assert_int_equal(cursor->n, 1);
	assert_int_equal(cursor->position[0].cpu, 2);
	assert_int_equal(cursor->position[0].seq, 70);
	ledger_span(&ledger, 2, 73, 80);
	assert_int_equal(ledger.residual, 3);
	free(cursor);
}

static void expect_cursor(struct cursor *cursor, uint32_t n, uint32_t cpu, uint64_t seq)
{
	ledger_cursor(&ledger, cursor);
	assert_int_equal(cursor->n, n);
	assert_int_equal(cursor_seq(cursor, cpu, 0), seq);
}

/* CPUs in any order, up to the last that there can be. */
static void cursor_has_every_cpu(void **state)
{
	struct cursor *cursor = cursor_create(3), *one = cursor_create(1);

	(void)state;
	assert_non_null(cursor);
	assert_non_null(one);
	ledger_span(&ledger, 0, 0, 4);
	expect_cursor(cursor, 1, 0, 4);
	ledger_span(&ledger, 1, 0, 5);
	expect_cursor(cursor, 2, 1, 5);
	assert_int_equal(ledger_span(&ledger, CURSOR_POSITIONS_MAX - 1, 0, 6), 0);
	ledger_span(&ledger, 0, 4, 7);
	expect_cursor(cursor, 3, CURSOR_POSITIONS_MAX - 1, 6);
	assert_int_equal(cursor_seq(cursor, 0, 0), 7);
	expect_cursor(one, 1, 0, 7);		/* what does not fit is left out */
	ledger_restart(&ledger);
	expect_cursor(cursor, 0, 0, 0);
	ledger_span(&ledger, CURSOR_POSITIONS_MAX - 1, 90, 91);	/* of another run: no hole */
	assert_int_equal(ledger.residual, 0);
	free(cursor);
	free(one);
}

/* Another run has none of the CPUs of the one before, however many those were; what is missing stays missing. */
static void restart_forgets_every_cpu(void **state)
{
	struct cursor *cursor = cursor_create(3);

	(void)state;
	assert_non_null(cursor);
	ledger_span(&ledger, 0, 0, 10);
	ledger_span(&ledger, 7, 0, 10);
	ledger_span(&ledger, 7, 12, 13);
	ledger_restart(&ledger);
	assert_int_equal(ledger.cpus, 0);
	assert_int_equal(ledger.residual, 2);
	ledger_start(&ledger, 2, 5);
	assert_int_equal(ledger.cpus, 3);
	expect_cursor(cursor, 1, 2, 5);
	ledger_span(&ledger, 7, 100, 101);
	assert_int_equal(ledger.residual, 2);
	free(cursor);
}

/* A watermark at 0 makes a CPU known: what follows begins there. */
static void watermark_at_the_very_beginning(void **state)
{
	(void)state;
	assert_int_equal(ledger_watermark(&ledger, 0, 0, 0), 0);
	ledger_span(&ledger, 0, 3, 5);
	assert_int_equal(ledger.residual, 3);
}

/* More may be said to be skipped than has come, by a daemon that counts otherwise: that is no hole. */
static void watermark_of_more_skips_than_attempts(void **state)
{
	(void)state;
	ledger_span(&ledger, 0, 0, 10);
	ledger_watermark(&ledger, 0, 12, 5);
	assert_int_equal(ledger.residual, 0);
	ledger_watermark(&ledger, 0, 13, 1);
	assert_int_equal(ledger.residual, 0);
	ledger_watermark(&ledger, 0, 15, 1);
	assert_int_equal(ledger.residual, 1);
	ledger_span(&ledger, 0, 15, 16);
	assert_int_equal(ledger.residual, 1);
}

static void wrong(void **state)
{
	(void)state;
	assert_int_equal(ledger_span(&ledger, CURSOR_POSITIONS_MAX, 0, 1), -ERANGE);
	assert_int_equal(ledger_start(&ledger, UINT32_MAX, 0), -ERANGE);
	assert_int_equal(ledger_watermark(&ledger, CURSOR_POSITIONS_MAX, 0, 0), -ERANGE);
	assert_int_equal(ledger_span(&ledger, 0, 2, 1), -EBADMSG);
	assert_int_equal(ledger.residual, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(meets, setup), cmocka_unit_test_setup(hole, setup),
		cmocka_unit_test_setup(overlap, setup), cmocka_unit_test_setup(watermark, setup),
		cmocka_unit_test_setup(batch_missing_before_a_watermark, setup),
		cmocka_unit_test_setup(batch_that_comes_twice, setup),
		cmocka_unit_test_setup(start_is_kept, setup), cmocka_unit_test_setup(holes_add_up, setup),
		cmocka_unit_test_setup(watermark_of_a_new_cpu, setup),
		cmocka_unit_test_setup(cursor_has_every_cpu, setup),
		cmocka_unit_test_setup(restart_forgets_every_cpu, setup),
		cmocka_unit_test_setup(watermark_at_the_very_beginning, setup),
		cmocka_unit_test_setup(watermark_of_more_skips_than_attempts, setup),
		cmocka_unit_test_setup(wrong, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
