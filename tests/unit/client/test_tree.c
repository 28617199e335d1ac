/* tree: who belongs to it, from a stream in order of time: forks, ends, numbers that are used again. */
#include "tests/unit/client/check.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/cli/tree.h"

static const struct ringtail_field fork_fields[] = {
	{ .name = "child_tid", .bits = 32 }, { .name = "child_pid", .bits = 32 },
};
static const struct ringtail_field exit_fields[] = {
	{ .name = "prio", .bits = 32 }, { .name = "group_dead", .bits = 32 },
};
static struct ringtail_probe forks = { .kind = RINGTAIL_TRACEPOINT, .fields = 2, .field = fork_fields },
			     execs = { .kind = RINGTAIL_TRACEPOINT },
			     exits = { .kind = RINGTAIL_TRACEPOINT, .fields = 2, .field = exit_fields },
			     calls = { .kind = RINGTAIL_CALL, .spec = "syscall:read:call" };

static bool takes(struct tree *tree, const struct ringtail_probe *probe, uint32_t pid, uint32_t ppid,
		  uint64_t value)
{
	const uint64_t values[] = { 7, value };
	const struct ringtail_item event = {
		.kind = RINGTAIL_EVENT, .probe = probe, .value = values,
		.thread = { .tid = pid, .pid = pid, .ppid = ppid },
	};

	forks.spec = tree_probes[0];
	execs.spec = tree_probes[1];
	exits.spec = tree_probes[2];
	return tree_takes(tree, &event);
}

static void follows_forks(void **state)
{
	struct tree *tree = tree_create();

	(void)state;
	assert_true(tree_add(tree, 10));
	assert_false(tree_add(tree, 0));
	assert_false(tree_add(tree, TREE_PIDS));
	assert_true(takes(tree, &calls, 10, 1, 0));
	assert_false(takes(tree, &calls, 11, 1, 0));
	assert_false(takes(tree, &calls, 12, 10, 0));	/* its fork was not seen */
	assert_false(takes(tree, &forks, 11, 1, 13));
	assert_false(takes(tree, &calls, 13, 11, 0));
	assert_true(takes(tree, &forks, 10, 1, 14));
	assert_true(takes(tree, &forks, 14, 10, 15));
	assert_true(takes(tree, &exits, 14, 10, 0));	/* a thread of several */
	assert_true(takes(tree, &calls, 14, 10, 0));
	assert_true(takes(tree, &exits, 14, 10, 1));
	assert_true(takes(tree, &calls, 15, 1, 0));	/* the orphan */
	assert_false(takes(tree, &calls, 14, 1, 0));	/* another process, with that number */
	assert_true(takes(tree, &forks, 15, 1, TREE_PIDS + 5ull));
	tree_destroy(tree);
}

static void believes_parents(void **state)
{
	struct tree *tree = tree_create();

	(void)state;
	tree_add(tree, 10);
	tree_believe_parents(tree);
	assert_true(takes(tree, &calls, 12, 10, 0));
	assert_true(takes(tree, &calls, 13, 12, 0));
	assert_false(takes(tree, &calls, 14, 1, 0));
	tree_destroy(tree);
}

static void waits_for_the_exec(void **state)
{
	struct tree *tree = tree_create();

	(void)state;
	tree_add(tree, 10);
	tree_await_exec(tree, 10);
	assert_false(takes(tree, &calls, 10, 1, 0));
	assert_false(takes(tree, &execs, 11, 1, 0));
	assert_true(takes(tree, &execs, 10, 1, 0));
	assert_true(takes(tree, &calls, 10, 1, 0));
	tree_destroy(tree);
}

static void finds_descendants(void **state)
{
	struct tree *tree = tree_create();
	pid_t child, pid = getpid();
	int ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	child = fork();
	if (!child) {
		char byte;

		close(ends[1]);
		_exit((int)read(ends[0], &byte, 1));
	}
	tree_add(tree, (uint64_t)pid);
	assert_false(takes(tree, &calls, (uint32_t)child, 1, 0));
	tree_add_descendants(tree);
	assert_true(takes(tree, &calls, (uint32_t)child, 1, 0));
	close(ends[1]);
	close(ends[0]);
	assert_int_equal(waitpid(child, NULL, 0), child);
	tree_destroy(tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(follows_forks), cmocka_unit_test(believes_parents),
		cmocka_unit_test(waits_for_the_exec), cmocka_unit_test(finds_descendants),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
