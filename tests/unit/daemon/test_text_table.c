/*
 * Texts of a ring, and the threads that name them: told again, pushed out by newer ones, kept for a
 * restart; and of a list of cgroups, the one that is a container's.
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
#include "daemon/ring/text_table.h"
#include "daemon/ring/thread_table.h"

#define ID "3f2a5cbd1e9047d6a8b1c2d3e4f5061728394a5b6c7d8e9f00112233445566aa"

static void learn(struct text_table *table, uint64_t id, const char *text)
{
	assert_int_not_equal(text_table_learn(table, id, text, (uint32_t)strlen(text)), UINT32_MAX);
}

static void expect(const struct batch_text *text, const char *wanted)
{
	assert_non_null(text);
	assert_int_equal(text->bytes, strlen(wanted));
	assert_memory_equal(text->data, wanted, text->bytes);
}

static void test_the_last_are_known(void **state)
{
	struct text_table *table = text_table_create();
	const struct batch_text *kept, *first;
	char text[32];

	(void)state;
	learn(table, RT_TEXT_EXE | 1, "/bin/first");
	kept = text_get(text_table_find(table, RT_TEXT_EXE | 1));
	for (unsigned i = 2; i <= RT_TEXTS_MAX; i++) {
		snprintf(text, sizeof(text), "/bin/%u", i);
		learn(table, RT_TEXT_EXE | i, text);
	}
	/* Told again, it is the same one, and the newest. */
	learn(table, RT_TEXT_EXE | 1, "/bin/first");
	first = text_table_find(table, RT_TEXT_EXE | 1);
	assert_ptr_equal(first, kept);
	for (unsigned i = 1; i < RT_TEXTS_MAX; i++)
		learn(table, RT_TEXT_EXE | (RT_TEXTS_MAX + i), "/bin/newer");
	expect(text_table_find(table, RT_TEXT_EXE | 1), "/bin/first");
	assert_null(text_table_find(table, RT_TEXT_EXE | RT_TEXTS_MAX));
	learn(table, 7, "/newest");
	assert_null(text_table_find(table, RT_TEXT_EXE | 1));
	/* Who has a reference has it still. */
	expect(kept, "/bin/first");
	text_put(kept);
	/* An id that stands for something else now. */
	learn(table, 7, "/other");
	expect(text_table_find(table, 7), "/other");
	assert_int_equal(text_table_learn(table, 8, "", 0), UINT32_MAX);
	text_table_destroy(table);
}

static void test_a_list_of_cgroups_is_the_containers(void **state)
{
	struct text_table *table = text_table_create();

	(void)state;
	learn(table, 1, "/system.slice/containerd.service\n/docker/" ID "\n/user\n");
	expect(text_table_find(table, 1), "/docker/" ID);
	learn(table, 2, "/a\n/b\n");
	expect(text_table_find(table, 2), "/a");
	learn(table, 3, "/");
	expect(text_table_find(table, 3), "/");
	/* A file's name may hold anything. */
	learn(table, RT_TEXT_EXE | 4, "/tmp/a\n/docker/" ID);
	expect(text_table_find(table, RT_TEXT_EXE | 4), "/tmp/a\n/docker/" ID);
	text_table_destroy(table);
}

static void test_threads_keep_their_texts(void **state)
{
	struct thread_table *table = thread_table_create(16);
	struct rt_thread thread = {.pid = 5, .exe = RT_TEXT_EXE | 1, .cgroup = 1, .cgroup_id = 77};
	uint64_t unknown = counter_read(COUNTER_contexts_unknown);
	uint32_t index;

	(void)state;
	thread_table_learn_text(table, RT_TEXT_EXE | 1, "/bin/cat", 8);
	thread_table_learn_text(table, 1, "/docker", 7);
	index = thread_table_learn(table, 5, &thread);
	for (unsigned i = 2; i < 2 * RT_TEXTS_MAX; i++)
		thread_table_learn_text(table, i, "/x", 2);
	expect(thread_table_get(table, index)->exe, "/bin/cat");
	expect(thread_table_get(table, index)->cgroup, "/docker");
	assert_int_equal(thread_table_get(table, index)->cgroup_id, 77);
	assert_int_equal(counter_read(COUNTER_contexts_unknown), unknown);
	/* A thread that names what nobody told has none, and that is counted. */
	assert_int_equal(thread_table_learn(table, 5, &thread), index);
	assert_null(thread_table_get(table, index)->exe);
	assert_int_equal(counter_read(COUNTER_contexts_unknown), unknown + 2);
	thread = (struct rt_thread){.pid = 6, .flags = RT_THREAD_BARE};
	thread_table_learn(table, 6, &thread);
	assert_int_equal(counter_read(COUNTER_contexts_unknown), unknown + 3);
	thread_table_destroy(table);
}

static void test_a_restart_keeps_texts(void **state)
{
	struct thread_ring *journal = calloc(1, sizeof(*journal) + 16 * sizeof(journal->slot[0]));
	struct thread_table *table = thread_table_create(16);
	struct rt_thread thread = {.pid = 5, .exe = RT_TEXT_EXE | 9};

	(void)state;
	assert_non_null(journal);
	thread_table_keep(table, journal);
	for (unsigned i = 0; i < RT_TEXTS_MAX + 5; i++)
		thread_table_learn_text(table, 100 + i, "/old", 4);
	thread_table_learn_text(table, RT_TEXT_EXE | 9, "/bin/sleep", 10);
	thread_table_learn(table, 5, &thread);
	thread_table_destroy(table);	/* killed: nothing is said */
	table = thread_table_create(16);
	thread_table_keep(table, journal);
	expect(thread_table_get(table, thread_table_find(table, 5))->exe, "/bin/sleep");
	expect(thread_table_text(table, 100 + RT_TEXTS_MAX + 4), "/old");
	assert_null(thread_table_text(table, 100));
	thread_table_destroy(table);
	free(journal);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_last_are_known),
		cmocka_unit_test(test_a_list_of_cgroups_is_the_containers),
		cmocka_unit_test(test_threads_keep_their_texts),
		cmocka_unit_test(test_a_restart_keeps_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
