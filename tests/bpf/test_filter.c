/* What the kernel filters: pid, tid, comm and uid, equal and not, excluded pids, two CPUs at once. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

#define PROBE	(RT_PROBE_SYSCALL_CALL + SYS_getppid)
#define CALLS	200

static struct harness harness;

struct count {
	uint32_t tid[2];		/* whose calls are counted */
	uint64_t calls[2], others;
	uint32_t cpu[2];		/* where the last was */
};

static void count_calls(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct count *count = context;

	if (item->probe != PROBE)
		return;
	for (int i = 0; i < 2; i++)
		if (item->tid == count->tid[i]) {
			count->calls[i]++;
			count->cpu[i] = cpu;
			return;
		}
	count->others++;
}

static void make_calls(int calls)
{
	for (int i = 0; i < calls; i++)
		syscall(SYS_getppid);
}

/* The calls of this thread, and of a child called "otherwise-one" with uid 65534, that pass the clause. */
static struct count run_two(const struct rt_filter_clause *clause, unsigned clauses)
{
	struct source_request request = { .clauses = clauses };
	struct count count = { .tid = { gettid() } };
	int go[2], ready[2];
	char byte = 0;

	memcpy(request.clause, clause, clauses * sizeof(*clause));
	harness_want(&request, PROBE);
	assert_int_equal(pipe(go) | pipe(ready), 0);
	count.tid[1] = fork();
	if (!count.tid[1]) {
		prctl(PR_SET_NAME, "otherwise-one");
		if (setuid(65534) || write(ready[1], &byte, 1) != 1 || read(go[0], &byte, 1) != 1)
			_exit(1);
		make_calls(CALLS);
		_exit(0);
	}
	for (unsigned i = 0; i < clauses; i++) {	/* "the child's" */
		if (request.clause[i].pid == UINT32_MAX)
			request.clause[i].pid = count.tid[1];
		if (request.clause[i].tid == UINT32_MAX)
			request.clause[i].tid = count.tid[1];
	}
	harness_configure(&harness, &request);
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);	/* the child has changed its uid */
	assert_int_equal(write(go[1], &byte, 1), 1);
	make_calls(CALLS);
	waitpid(count.tid[1], NULL, 0);
	close(ready[0]);
	close(go[0]);
	close(go[1]);
	harness_drain(&harness, count_calls, &count);
	harness_reset(&harness);
	return count;
}

static void each_field_filters_equal_and_not(void **state)
{
	const uint32_t me = getpid(), child = UINT32_MAX;
	const struct {
		struct rt_filter_clause clause[2];
		unsigned clauses;
		unsigned passes;	/* bit 0: this thread, bit 1: the child */
	} row[] = {
		{ {{ .pid_op = RT_FILTER_EQ, .pid = me }}, 1, 1 },
		{ {{ .pid_op = RT_FILTER_EQ, .pid = child }}, 1, 2 },
		{ {{ .pid_op = RT_FILTER_NE, .pid = me }}, 1, 2 },
		{ {{ .tid_op = RT_FILTER_EQ, .tid = me }}, 1, 1 },
		{ {{ .tid_op = RT_FILTER_NE, .tid = child }}, 1, 1 },
		{ {{ .uid_op = RT_FILTER_EQ, .uid = 65534 }}, 1, 2 },
		{ {{ .uid_op = RT_FILTER_NE, .uid = 65534 }}, 1, 1 },
		{ {{ .comm_op = RT_FILTER_EQ, .comm = "otherwise-one" }}, 1, 2 },
		{ {{ .comm_op = RT_FILTER_NE, .comm = "otherwise-one" }}, 1, 1 },
		{ {{ .comm_op = RT_FILTER_EQ, .comm = "otherwise-on" }}, 1, 0 },
		{ {{ .comm_op = RT_FILTER_EQ, .comm = "otherwise-two" }}, 1, 0 },
		{ {{ .comm_op = RT_FILTER_NE, .comm = "otherwise-two" }}, 1, 3 },
		{ {{ .pid_op = RT_FILTER_EQ, .pid = me },
		   { .comm_op = RT_FILTER_EQ, .comm = "otherwise-one" }}, 2, 3 },
		{ {{ .pid_op = RT_FILTER_EQ, .pid = me,
		     .comm_op = RT_FILTER_EQ, .comm = "otherwise-one" }}, 1, 0 },
		{ {{ 0 }}, 0, 3 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct count count = run_two(row[i].clause, row[i].clauses);

		if (count.calls[0] != (row[i].passes & 1 ? CALLS : 0) ||
		    count.calls[1] != (row[i].passes & 2 ? CALLS : 0))
			fail_msg("row %u: %llu calls here, %llu of the child", i,
				 (unsigned long long)count.calls[0],
				 (unsigned long long)count.calls[1]);
	}
}

static void a_rename_changes_who_passes_at_once(void **state)
{
	struct source_request request = { 0 };
	struct count count = { .tid = { gettid() } };

	(void)state;
	prctl(PR_SET_NAME, "first");
	harness_want(&request, PROBE);
	harness_want_comm(&request, "second");
	harness_configure(&harness, &request);
	make_calls(CALLS);
	prctl(PR_SET_NAME, "second");
	make_calls(10);
	prctl(PR_SET_NAME, "third");
	make_calls(CALLS);
	harness_drain(&harness, count_calls, &count);
	harness_reset(&harness);
	assert_int_equal(count.calls[0], 10);
}

/* The uids that the readers had been told of the caller, at each of its calls. */
struct told {
	uint32_t tid;
	unsigned calls;
	uint32_t uid[2];
};

static void see_uid(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct told *told = context;

	(void)cpu;
	if (item->tid != told->tid ||
	    (item->probe != PROBE && item->probe != RT_PROBE_SYSCALL_ENTRY + SYS_getppid))
		return;
	assert_int_equal(harness.last_thread_tid, told->tid);
	if (told->calls < 2)
		told->uid[told->calls] = harness.last_thread.uid;
	told->calls++;
}

static long setuid_by_its_number(void)
{
	return syscall(SYS_setuid, 65534);
}

/* In a child called "setuid": a call, setuid, another call. */
static struct told run_setuid(const struct source_request *request, long (*set_uid)(void))
{
	struct told told = { 0 };
	int status;

	harness_configure(&harness, request);
	told.tid = fork();
	if (!told.tid) {
		harness_pin(0);
		prctl(PR_SET_NAME, "setuid");
		make_calls(1);
		if (set_uid())
			_exit(1);
		make_calls(1);
		_exit(0);
	}
	waitpid(told.tid, &status, 0);
	assert_int_equal(status, 0);
	harness_drain(&harness, see_uid, &told);
	harness_reset(&harness);
	return told;
}

static void setuid_introduces_the_thread_again(void **state)
{
	const uint32_t calls[][2] = {	/* setuid itself is recorded or is not */
		{ PROBE, PROBE },
		{ PROBE, RT_PROBE_SYSCALL_CALL + SYS_setuid },
		{ RT_PROBE_SYSCALL_ENTRY + SYS_getppid, RT_PROBE_SYSCALL_ENTRY + SYS_setuid },
		{ RT_PROBE_SYSCALL_ENTRY + SYS_getppid, RT_PROBE_SYSCALL_ENTRY + SYS_getppid },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		struct source_request request = { 0 };
		struct told told;

		harness_want(&request, calls[i][0]);
		harness_want(&request, calls[i][1]);
		harness_want_comm(&request, "setuid");
		told = run_setuid(&request, setuid_by_its_number);
		assert_int_equal(told.calls, 2);
		assert_int_equal(told.uid[0], getuid());
		assert_int_equal(told.uid[1], 65534);
	}
}

static void setuid_changes_who_passes_at_once(void **state)
{
	const struct rt_filter_clause nobody = {
		.uid_op = RT_FILTER_EQ, .uid = 65534, .comm_op = RT_FILTER_EQ, .comm = "setuid",
	};
	struct source_request request = { .clauses = 1, .clause = { nobody } };
	struct told told;

	(void)state;
	harness_want(&request, PROBE);
	told = run_setuid(&request, setuid_by_its_number);
	assert_int_equal(told.calls, 1);
	assert_int_equal(told.uid[0], 65534);
}

#ifdef __x86_64__
static long setuid_of_i386(void)
{
	long call = 213, uid = 65534;

	__asm__ volatile("int $0x80" : "+a"(call) : "b"(uid) : "memory", "r8", "r9", "r10", "r11");
	return (int)call;
}

static void setuid_of_another_abi_introduces_the_thread_again(void **state)
{
	struct source_request request = { 0 };
	struct told told;
	pid_t probe = fork();
	int status;

	(void)state;
	if (!probe)
		_exit(setuid_of_i386() ? 1 : 0);
	waitpid(probe, &status, 0);
	if (status)
		skip();		/* the kernel was built without it */
	harness_want(&request, PROBE);
	harness_want_comm(&request, "setuid");
	told = run_setuid(&request, setuid_of_i386);
	assert_int_equal(told.calls, 2);
	assert_int_equal(told.uid[1], 65534);
}
#endif

/* ---- CPUs ----------------------------------------------------------------------------------- */

static void two_processes_on_two_cpus_are_both_exact(void **state)
{
	const unsigned calls = harness_fewer(20000);
	struct source_request request = { 0 };
	struct count count = { 0 };

	(void)state;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	harness_want(&request, PROBE);
	harness_want_comm(&request, "on a cpu");
	harness_configure(&harness, &request);
	for (int i = 0; i < 2; i++) {
		count.tid[i] = fork();
		if (count.tid[i])
			continue;
		harness_pin(i);
		prctl(PR_SET_NAME, "on a cpu");
		make_calls(calls);
		_exit(0);
	}
	for (int i = 0; i < 2; i++)
		waitpid(count.tid[i], NULL, 0);
	harness_drain(&harness, count_calls, &count);
	harness_reset(&harness);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(count.calls[i], calls);
		assert_int_equal(count.cpu[i], i);
	}
	assert_int_equal(count.others, 0);
}

static void *move_about(void *arg)
{
	const unsigned *moves = arg;

	for (unsigned i = 0; i < *moves; i++) {
		harness_pin(i % 2);
		make_calls(25);
		if (i % 16 == 0)
			usleep(1);
	}
	return arg;
}

static void threads_that_migrate_lose_nothing(void **state)
{
	struct source_request request = { 0 };
	struct count count = { 0 };
	unsigned moves = harness_fewer(400);
	pthread_t thread[8];

	(void)state;
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		skip();
	harness_want(&request, PROBE);
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_sched_setaffinity);
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
	for (int i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, move_about, &moves), 0);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	harness_drain(&harness, count_calls, &count);
	assert_int_equal(count.others, 8 * moves * 25);
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, unpaired)), 0);
	harness_reset(&harness);
}

static void want_unfiltered(struct source_request *request, uint32_t probe)
{
	harness_want(request, probe);
	request->unfiltered[probe / 8] |= 1u << probe % 8;
}

static void count_probes(void *context, uint32_t cpu, const struct ring_item *item)
{
	uint64_t *count = context;

	(void)cpu;
	if (item->tid == (uint32_t)gettid() && item->probe < RT_PROBE_MAX)
		count[item->probe]++;
}

/* One subscription's filter does not take from another, nor give it what it did not ask for. */
static void what_is_unfiltered_is_everybodys(void **state)
{
	const uint32_t entry = RT_PROBE_SYSCALL_ENTRY + SYS_getuid;
	const uint32_t unfiltered = RT_PROBE_SYSCALL_CALL + SYS_getgid;
	const uint32_t returns = RT_PROBE_SYSCALL_RETURN + SYS_getgid;
	struct source_request request = { 0 };
	uint64_t *count = calloc(RT_PROBE_MAX, sizeof(*count));

	(void)state;
	harness_want(&request, PROBE);
	want_unfiltered(&request, entry);
	want_unfiltered(&request, unfiltered);
	want_unfiltered(&request, RT_PROBE_SCHED_FORK);
	harness_want_pid(&request, 1);
	for (unsigned i = 0; i < 2; i++) {
		/* Of a return nobody knows at its entry who wants it: then all is recorded. */
		if (i == 1)
			want_unfiltered(&request, returns);
		harness_configure(&harness, &request);
		for (unsigned n = 0; n < CALLS; n++) {
			syscall(SYS_getppid);
			syscall(SYS_getuid);
			syscall(SYS_getgid);
		}
		if (fork() == 0)
			_exit(0);
		wait(NULL);
		harness_drain(&harness, count_probes, count);
		assert_int_equal(count[PROBE], i * CALLS);
		assert_int_equal(count[entry], (i + 1) * CALLS);
		assert_int_equal(count[unfiltered], (i + 1) * CALLS);
		assert_int_equal(count[returns], i * CALLS);
		assert_int_equal(count[RT_PROBE_SCHED_FORK], i + 1);
	}
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, unpaired)), 0);
	free(count);
	harness_reset(&harness);
}

static void excluded_pids_are_never_recorded(void **state)
{
	const struct rt_filter_clause nobody_in_particular = { 0 };
	struct source_request request = { 0 };
	uint64_t *calls = calloc(RT_PROBE_MAX, sizeof(*calls));
	struct count count;

	(void)state;
	harness_close(&harness);
	harness_open_excluding(&harness, 1 << 22, getpid());
	count = run_two(&nobody_in_particular, 1);
	assert_int_equal(count.calls[0], 0);
	assert_int_equal(count.calls[1], CALLS);
	want_unfiltered(&request, PROBE);
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_getgid);
	harness_want_pid(&request, 1);
	harness_configure(&harness, &request);
	make_calls(CALLS);
	harness_drain(&harness, count_probes, calls);
	assert_int_equal(calls[PROBE], 0);
	free(calls);
	harness_reset(&harness);
}

#define PINGS	200

#define OWN_MAX	8

struct switches {
	uint32_t own[OWN_MAX], child;	/* also threads that have been joined: they may still be on their way out */
	unsigned owns;
	uint32_t running;		/* on CPU 0, as the last switch there said; UINT32_MAX: nobody knows */
	bool all;			/* are recorded, but for those that concern nobody else */
	uint64_t from_own, wakeups_by_own;
};

static bool is_own(const struct switches *switches, uint64_t tid)
{
	for (unsigned i = 0; i < switches->owns; i++)
		if (switches->own[i] == tid)
			return true;
	return false;
}

static void follow_switches(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct switches *switches = context;

	if (item->probe == RT_PROBE_SCHED_WAKEUP)
		switches->wakeups_by_own += is_own(switches, item->tid);
	if (item->probe != RT_PROBE_SCHED_SWITCH || cpu)
		return;
	if (is_own(switches, item->tid)) {
		switches->from_own += item->payload[2] == switches->child;
		assert_true(item->payload[2] && !is_own(switches, item->payload[2]));
	} else if (switches->all && item->tid == switches->child && switches->running != UINT32_MAX) {
		/* What gave it the CPU is there. */
		assert_int_equal(item->tid, switches->running);
	}
	switches->running = item->payload[2];
}

/* Answers on the first pipe what it reads from the second. */
static void answer_pings(int to, int from)
{
	char byte;

	harness_pin(0);
	for (int i = 0; i < PINGS; i++)
		if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
			_exit(1);
}

struct pings {
	uint32_t tid;			/* of the thread that answers */
	int to, from;
};

static void *answer_on_thread(void *arg)
{
	struct pings *pings = arg;

	__atomic_store_n(&pings->tid, gettid(), __ATOMIC_RELEASE);
	answer_pings(pings->to, pings->from);
	return NULL;
}

/* Each ping goes to a thread of ours and to a child, all on one CPU. */
static void ping_both(const struct source_request *request, struct switches *switches)
{
	int there[2][2], back[2][2];
	struct pings pings;
	pthread_t thread;
	char byte = 0;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pipe(there[i]) | pipe(back[i]), 0);
	switches->child = fork();
	if (!switches->child) {
		answer_pings(back[0][1], there[0][0]);
		_exit(0);
	}
	pings = (struct pings){.to = back[1][1], .from = there[1][0]};
	assert_int_equal(pthread_create(&thread, NULL, answer_on_thread, &pings), 0);
	while (!__atomic_load_n(&pings.tid, __ATOMIC_ACQUIRE))
		sched_yield();
	assert_true(switches->owns < OWN_MAX);
	switches->own[switches->owns++] = pings.tid;
	harness_configure(&harness, request);
	for (int i = 0; i < 2 * PINGS; i++) {
		assert_int_equal(write(there[i % 2][1], &byte, 1), 1);
		assert_int_equal(read(back[i % 2][0], &byte, 1), 1);
		if (i % 40 == 0)
			usleep(1000);	/* the CPU may be idle then */
	}
	harness_drain(&harness, follow_switches, switches);
	pthread_join(thread, NULL);
	waitpid(switches->child, NULL, 0);
	for (int i = 0; i < 2; i++)
		for (int end = 0; end < 2; end++) {
			close(there[i][end]);
			close(back[i][end]);
		}
	harness_reset(&harness);
}

/* An excluded thread makes way for another's: that switch is the other's event, and no other of its own is. */
static void switches_from_excluded_threads_are_those_of_others(void **state)
{
	const struct {
		uint32_t pid;		/* the one that passes the filter; 0: there is none */
		bool unfiltered, recorded, all;
	} of[] = {
		{ 0, false, true, true },
		{ 1, true, true, true },
		{ 1, false, false, false },
		{ (uint32_t)getpid(), false, true, false },
	};
	struct switches switches = { .own = { gettid() }, .owns = 1 };
	cpu_set_t before;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	harness_close(&harness);
	harness_open_excluding(&harness, 1 << 22, getpid());
	harness_pin(0);
	for (unsigned i = 0; i < sizeof(of) / sizeof(of[0]); i++) {
		struct source_request request = { 0 };

		switches.running = UINT32_MAX;
		switches.all = of[i].all;
		switches.from_own = switches.wakeups_by_own = 0;
		if (of[i].unfiltered)
			want_unfiltered(&request, RT_PROBE_SCHED_SWITCH);
		else
			harness_want(&request, RT_PROBE_SCHED_SWITCH);
		harness_want(&request, RT_PROBE_SCHED_WAKEUP);
		if (of[i].pid)
			harness_want_pid(&request, of[i].pid);
		ping_both(&request, &switches);
		assert_int_equal(harness.lost, 0);
		assert_int_equal(switches.wakeups_by_own, 0);
		if (of[i].recorded)
			assert_true(switches.from_own >= PINGS / 4);
		else
			assert_int_equal(switches.from_own, 0);
	}
	sched_setaffinity(0, sizeof(before), &before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_filters_equal_and_not),
		cmocka_unit_test(a_rename_changes_who_passes_at_once),
		cmocka_unit_test(setuid_introduces_the_thread_again),
		cmocka_unit_test(setuid_changes_who_passes_at_once),
#ifdef __x86_64__
		cmocka_unit_test(setuid_of_another_abi_introduces_the_thread_again),
#endif
		cmocka_unit_test(two_processes_on_two_cpus_are_both_exact),
		cmocka_unit_test(threads_that_migrate_lose_nothing),
		cmocka_unit_test(what_is_unfiltered_is_everybodys),
		cmocka_unit_test(excluded_pids_are_never_recorded),
		cmocka_unit_test(switches_from_excluded_threads_are_those_of_others),
	};
	int failed;

	harness_open(&harness, 1 << 22);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
