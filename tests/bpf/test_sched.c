/* The scheduler's events, and the threads they speak of. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

#define PINGS	500

static struct harness harness;

struct seen {
	uint32_t tid;			/* whose events are counted */
	uint32_t peer;			/* who it names */
	unsigned switches_away, switches_to, wakeups, forks, execs, exits, groups_dead;
	bool filename;
};

static void see(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct seen *seen = context;
	const struct rt_attachment *name;

	(void)cpu;
	switch (item->probe) {
	case RT_PROBE_SCHED_SWITCH:
		assert_true(item->words == 4 && item->payload[0] < 140 && item->payload[3] < 140);
		seen->switches_away += item->tid == seen->tid;
		seen->switches_to += item->payload[2] == seen->tid;
		break;
	case RT_PROBE_SCHED_WAKEUP:
		assert_true(item->words == 3 && item->payload[2] < harness.rings);
		seen->wakeups += item->tid == seen->tid && item->payload[0] == seen->peer;
		seen->wakeups += item->tid == seen->peer && item->payload[0] == seen->tid;
		break;
	case RT_PROBE_SCHED_FORK:
		assert_int_equal(item->words, 2);
		seen->forks += item->tid == seen->tid;
		if (item->tid == seen->tid) {
			seen->peer = item->payload[0];
			assert_int_equal(item->payload[1], seen->peer);
		}
		break;
	case RT_PROBE_SCHED_EXEC:
		if (item->tid != seen->peer)
			break;
		seen->execs++;
		assert_int_equal(item->payload[0], seen->peer);
		name = harness_attachment(item, 2, RT_ATTACH_STRING, 1);
		seen->filename = name && name->bytes == 9 && !memcmp(name->data, "/bin/true", 9);
		break;
	case RT_PROBE_SCHED_EXIT:
		seen->exits += item->tid == seen->peer;
		seen->groups_dead += item->tid == seen->peer && item->payload[1] == 1;
		break;
	}
}

static void pipes_ping(int from, int to, int first)
{
	char byte = 0;

	for (int i = 0; i < PINGS; i++) {
		if (first && write(to, &byte, 1) != 1)
			_exit(1);
		if (read(from, &byte, 1) != 1)
			_exit(1);
		if (!first && write(to, &byte, 1) != 1)
			_exit(1);
	}
}

static void two_that_wait_for_each_other_switch_and_wake(void **state)
{
	struct source_request request = { 0 };
	struct seen seen = { .tid = getpid() };
	int there[2], back[2];

	(void)state;
	assert_int_equal(pipe(there) | pipe(back), 0);
	harness_pin(0);
	harness_want(&request, RT_PROBE_SCHED_SWITCH);
	harness_want(&request, RT_PROBE_SCHED_WAKEUP);
	harness_configure(&harness, &request);
	seen.peer = fork();
	if (!seen.peer) {
		pipes_ping(there[0], back[1], 0);
		_exit(0);
	}
	pipes_ping(back[0], there[1], 1);
	waitpid(seen.peer, NULL, 0);
	harness_drain(&harness, see, &seen);
	harness_reset(&harness);
	assert_true(seen.switches_away >= PINGS);
	assert_true(seen.switches_to >= PINGS);
	/* One that the other wakes may preempt it at once and so never find it asleep. */
	assert_true(seen.wakeups >= PINGS / 2);
	assert_int_equal(harness.lost, 0);
}

static void a_process_forks_execs_and_exits(void **state)
{
	struct source_request request = { 0 };
	struct seen seen = { .tid = getpid() };
	pid_t pid;

	(void)state;
	harness_pin(0);
	for (uint32_t probe = RT_PROBE_SCHED_SWITCH; probe <= RT_PROBE_SCHED_EXIT; probe++)
		harness_want(&request, probe);
	harness_configure(&harness, &request);
	pid = fork();
	if (!pid) {
		execl("/bin/true", "true", NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	harness_drain(&harness, see, &seen);
	harness_reset(&harness);
	assert_int_equal(seen.forks, 1);
	assert_int_equal(seen.peer, pid);
	assert_int_equal(seen.execs, 1);
	assert_true(seen.filename);
	assert_int_equal(seen.exits, 1);
	assert_int_equal(seen.groups_dead, 1);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void a_thread_is_introduced_as_it_is_and_again_when_renamed(void **state)
{
	struct source_request request = { 0 };

	(void)state;
	harness_pin(0);
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_getppid);
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
	prctl(PR_SET_NAME, "before");
	syscall(SYS_getppid);
	harness_drain(&harness, NULL, NULL);
	assert_int_equal(harness.last_thread_tid, gettid());
	assert_int_equal(harness.last_thread.pid, getpid());
	assert_int_equal(harness.last_thread.ppid, getppid());
	assert_int_equal(harness.last_thread.uid, getuid());
	assert_int_equal(harness.last_thread.flags, 0);
	assert_true(harness.last_thread.start_ns > 0);
	assert_memory_equal(harness.last_thread.comm, "before\0\0\0\0\0\0\0\0\0\0", RT_COMM_BYTES);
	prctl(PR_SET_NAME, "and after");
	memset(&harness.last_thread, 0, sizeof(harness.last_thread));
	syscall(SYS_getppid);
	harness_drain(&harness, NULL, NULL);
	assert_memory_equal(harness.last_thread.comm, "and after\0\0\0\0\0\0\0", RT_COMM_BYTES);
	memset(&harness.last_thread, 0, sizeof(harness.last_thread));
	syscall(SYS_getppid);
	harness_drain(&harness, NULL, NULL);
	assert_int_equal(harness.last_thread.pid, 0);	/* once is enough */
	harness_reset(&harness);
}

#define HERDS	40
#define HERD	100

static void *do_little(void *arg)
{
	syscall(SYS_getppid);
	sched_yield();
	return arg;
}

/* Slots are taken, shared by tids that collide, and freed; the harness checks introductions. */
static void thousands_of_threads_come_and_go(void **state)
{
	struct source_request request = { 0 };
	pthread_t thread[HERD];

	(void)state;
	for (uint32_t probe = RT_PROBE_SCHED_SWITCH; probe <= RT_PROBE_SCHED_EXIT; probe++)
		harness_want(&request, probe);
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_getppid);
	harness_configure(&harness, &request);
	for (unsigned herd = 0; herd < harness_fewer(HERDS); herd++) {
		for (int i = 0; i < HERD; i++)
			assert_int_equal(pthread_create(&thread[i], NULL, do_little, NULL), 0);
		for (int i = 0; i < HERD; i++)
			pthread_join(thread[i], NULL);
		harness_drain(&harness, NULL, NULL);
	}
	harness_reset(&harness);
	assert_int_equal(harness.lost, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_that_wait_for_each_other_switch_and_wake),
		cmocka_unit_test(a_process_forks_execs_and_exits),
		cmocka_unit_test(a_thread_is_introduced_as_it_is_and_again_when_renamed),
		cmocka_unit_test(thousands_of_threads_come_and_go),
	};
	int failed;

	harness_open(&harness, 1 << 22);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
