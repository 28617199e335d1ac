/*
 * The thread table against a plain array that holds the same: learning, renaming, forgetting, growing,
 * and what goes when it is full.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/ring/thread_table.h"

static struct rt_thread named(const char *comm, uint32_t pid)
{
	struct rt_thread thread = {.pid = pid, .uid = 7, .ppid = 1};

	memcpy(thread.comm, comm, strnlen(comm, sizeof(thread.comm)));
	return thread;
}

static void test_learn_find_forget(void **state)
{
	struct thread_table *table = thread_table_create(1024);
	struct rt_thread sh = named("sh", 10), cat = named("a name of 16 byt", 10);
	uint32_t index;

	(void)state;
	assert_int_equal(thread_table_find(table, 10), THREAD_NONE);
	index = thread_table_learn(table, 10, &sh);
	assert_int_equal(thread_table_find(table, 10), index);
	assert_string_equal(thread_table_get(table, index)->comm, "sh");
	/* The same thread by another name keeps its index; the name may fill the field. */
	assert_int_equal(thread_table_learn(table, 10, &cat), index);
	assert_memory_equal(thread_table_get(table, index)->comm, "a name of 16 byt", 16);
	assert_int_equal(thread_table_get(table, index)->uid, 7);
	thread_table_forget(table, 10);
	assert_int_equal(thread_table_find(table, 10), THREAD_NONE);
	thread_table_forget(table, 10);
	assert_int_equal(thread_table_learn(table, 11, &sh), index);
	assert_int_equal(thread_table_size(table), 1);
	thread_table_destroy(table);
}

#define TIDS 3000u
#define STEPS 200000u

static void test_random_history(void **state)
{
	static uint32_t pid_of[TIDS];	/* 0: not known */
	struct thread_table *table = thread_table_create(TIDS);
	unsigned seed = 20261120;

	(void)state;
	print_message("seed %u\n", seed);
	for (unsigned step = 0; step < STEPS; step++) {
		/* Strided, so that many share their home. */
		uint32_t i = (uint32_t)rand_r(&seed) % TIDS, tid = i * 4096 + 1;

		if (rand_r(&seed) % 3) {
			struct rt_thread thread = named("x", pid_of[i] = step + 1);

			assert_int_not_equal(thread_table_learn(table, tid, &thread), THREAD_NONE);
		} else {
			thread_table_forget(table, tid);
			pid_of[i] = 0;
		}
		i = (uint32_t)rand_r(&seed) % TIDS;
		uint32_t index = thread_table_find(table, i * 4096 + 1);

		assert_int_equal(index != THREAD_NONE, pid_of[i] != 0);
		if (pid_of[i])
			assert_int_equal(thread_table_get(table, index)->pid, pid_of[i]);
	}
	assert_int_equal(counter_read(COUNTER_threads_evicted), 0);
	thread_table_destroy(table);
}

static void test_full(void **state)
{
	struct thread_table *table = thread_table_create(8);
	unsigned known = 0;

	(void)state;
	for (uint32_t tid = 1; tid <= 20; tid++) {
		struct rt_thread thread = named("x", tid);
		uint32_t index = thread_table_learn(table, tid, &thread);

		assert_true(index < 8);
		assert_int_equal(thread_table_find(table, tid), index);
	}
	for (uint32_t tid = 1; tid <= 20; tid++)
		known += thread_table_find(table, tid) != THREAD_NONE;
	assert_int_equal(known, 8);
	assert_int_equal(counter_read(COUNTER_threads_evicted), 12);
	thread_table_destroy(table);
	thread_table_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_learn_find_forget),
		cmocka_unit_test(test_random_history),
		cmocka_unit_test(test_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
