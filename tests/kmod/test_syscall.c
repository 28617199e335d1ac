/*
 * test_syscall: system calls are recorded each, with the right words, and nobody else's.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/guest.h"

#define CALL(nr)	(RT_PROBE_SYSCALL_CALL + (nr))
#define ENTRY(nr)	(RT_PROBE_SYSCALL_ENTRY + (nr))
#define RETURN(nr)	(RT_PROBE_SYSCALL_RETURN + (nr))
#define RING_BYTES	(1u << 20)
#define EXACT_CALLS	100000u
/* A load that has to be read in full is never further ahead of its reader than this: in a virtual machine, a
 * CPU may stand still for as long as the other one needs to fill a ring. */
#define AHEAD_CALLS	8000u

struct expected {
	uint32_t pid, ppid;
	uint64_t good, last_ns;
	bool introduced[GUEST_CPUS_MAX];
};

static void expect_getppid(const struct guest_item *item, void *data)
{
	struct expected *expected = data;
	const struct ring_item *it = &item->item;

	if (it->probe == RT_PROBE_THREAD) {
		const struct rt_thread *thread = (const void *)it->payload;

		check_equal(it->words, sizeof(*thread) / 8);
		check_equal(thread->pid, expected->pid);
		check_equal(thread->ppid, expected->ppid);
		expected->introduced[item->cpu] = true;
		return;
	}
	check_equal(it->probe, CALL(SYS_getppid));
	check_equal(it->tid, expected->pid);
	check(expected->introduced[item->cpu]);
	check_equal(it->words, 2);
	check_equal(it->payload[1], expected->ppid);
	check(it->payload[0] < 10000000000ull);
	expected->good++;
}

/* Lets each of them go on as far as the reader may be behind with all of them. */
static void keep_ahead(struct load *load, unsigned loads, uint64_t read)
{
	for (unsigned i = 0; i < loads; i++) {
		uint64_t allowed = EXACT_CALLS / loads - load[i].calls;

		if (allowed * loads < read + AHEAD_CALLS)
			load_allow(&load[i], AHEAD_CALLS / loads);
	}
}

/* Every call of one process, several times more than the ring holds. */
static void exact(void)
{
	struct guest guest;
	struct guest_count count = {0};
	struct expected expected = {.ppid = getpid()};
	struct load load;
	int status;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	load_prepare(&load, EXACT_CALLS, -1);
	expected.pid = load.pid;
	guest_start(&guest, load.pid, 0, CALL(SYS_getppid), 0);
	while (waitpid(load.pid, &status, WNOHANG) == 0) {
		keep_ahead(&load, 1, count.events);
		guest_drain(&guest, &count, expect_getppid, &expected);
	}
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, expect_getppid, &expected);
	check_equal(count.lost_total, 0);
	check_equal(expected.good, EXACT_CALLS);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

static void count_probe(const struct guest_item *item, void *data)
{
	uint64_t *by_probe = data;

	by_probe[item->item.probe]++;
}

/* Four processes on all CPUs: as many events as calls, in time order on each CPU. */
static void in_order(const struct guest_item *item, void *data)
{
	uint64_t *last_ns = data;

	check(item->item.time_ns >= last_ns[item->cpu]);
	last_ns[item->cpu] = item->item.time_ns;
}

static void exact_four(void)
{
	uint64_t last_ns[GUEST_CPUS_MAX] = {0};
	struct guest_count count = {0};
	struct load load[4];
	struct guest guest;
	int left = 4;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	for (int i = 0; i < 4; i++)
		load_prepare(&load[i], EXACT_CALLS / 4, i % cpus_online());
	guest_start(&guest, 0, 0, CALL(SYS_getppid), 0);
	while (left) {
		keep_ahead(load, 4, count.events);
		guest_drain(&guest, &count, in_order, last_ns);
		left -= waitpid(-1, NULL, WNOHANG) > 0;
	}
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, in_order, last_ns);
	check_equal(count.lost_total, 0);
	check_equal(count.events, EXACT_CALLS);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

/* Entry and return apart, and together with the call. */
static void entry_and_return(void)
{
	static uint64_t by_probe[RT_PROBE_MAX];
	struct guest_count count = {0};
	struct guest guest;
	struct load load;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	load_prepare(&load, 1000, -1);
	guest_start(&guest, load.pid, 0, CALL(SYS_getppid), ENTRY(SYS_getppid),
		    RETURN(SYS_getppid), CALL(SYS_exit_group), 0);
	load_release(&load);
	load_wait(&load);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, count_probe, by_probe);
	check_equal(by_probe[CALL(SYS_getppid)], 1000);
	check_equal(by_probe[ENTRY(SYS_getppid)], 1000);
	check_equal(by_probe[RETURN(SYS_getppid)], 1000);
	check_equal(by_probe[CALL(SYS_exit_group)], 1);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

struct found {
	uint32_t probe;
	uint64_t field[8];
	unsigned times, words;
};

static void find(const struct guest_item *item, void *data)
{
	struct found *found = data;

	if (item->item.probe != found->probe)
		return;
	found->times++;
	found->words = item->item.words;
	for (unsigned i = 0; i < item->item.words && i < 8; i++)
		found->field[i] = item->item.payload[i];
}

/* Runs `act` in a child that is the only one traced, and finds the one event of `probe`. */
static pid_t run_traced(struct guest *guest, uint32_t probe, uint32_t flags, void (*act)(void))
{
	int go[2], status;
	pid_t child;
	char byte;

	check_equal(pipe(go), 0);
	child = fork();
	if (child == 0) {
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		act();
		_exit(0);
	}
	guest_start(guest, child, flags, probe, 0);
	check_equal(write(go[1], "g", 1), 1);
	check_equal(waitpid(child, &status, 0), child);
	check_control(guest->fd, RT_IOC_STOP, NULL);
	close(go[0]);
	close(go[1]);
	return child;
}

static void call_openat(void)
{
	/* Rubbish in the upper halves must not be seen. */
	syscall(SYS_openat, 0x1234567800000000ull | (uint32_t)AT_FDCWD, "/nowhere",
		0xabcdef0100000000ull | O_RDWR, 0);
}

static void arguments(void)
{
	struct found found = {.probe = CALL(SYS_openat)};
	struct guest_count count = {0};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	run_traced(&guest, found.probe, 0, call_openat);
	guest_drain(&guest, &count, find, &found);
	check_equal(found.times, 1);
	check_equal(found.words, 6);
	check_equal(found.field[1], -ENOENT);
	check_equal(found.field[2], AT_FDCWD);
	check_equal(found.field[4], O_RDWR);
	guest_close(&guest);
}

static void call_execve(void)
{
	char *argv[] = {"true", NULL}, *envp[] = {NULL};

	execve("/bin/true", argv, envp);
	_exit(1);
}

/* An exec's registers are gone when it returns; its record has them all the same. */
static void execve_arguments(void)
{
	struct found found = {.probe = CALL(SYS_execve)};
	struct guest_count count = {0};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	run_traced(&guest, found.probe, 0, call_execve);
	guest_drain(&guest, &count, find, &found);
	check_equal(found.times, 1);
	check_equal(found.field[1], 0);
	check(found.field[2] && found.field[3] && found.field[4]);
	check_equal(count.threads, 2);	/* the name it had, and the name it got */
	guest_close(&guest);
}

static void *exec_in_thread(void *unused)
{
	(void)unused;
	call_execve();
	return NULL;
}

static char thread_stack[65536];

static int thread_body(void *unused)
{
	exec_in_thread(unused);
	return 0;
}

static void call_execve_in_thread(void)
{
	clone(thread_body, thread_stack + sizeof(thread_stack),
	      CLONE_VM | CLONE_THREAD | CLONE_SIGHAND | CLONE_FILES | CLONE_FS, NULL);
	for (;;)
		pause();
}

/* A thread that execs takes over its leader's tid: one call all the same. */
static void execve_by_thread(void)
{
	struct found found = {.probe = CALL(SYS_execve)};
	struct guest_count count = {0};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	run_traced(&guest, found.probe, 0, call_execve_in_thread);
	guest_drain(&guest, &count, find, &found);
	check_equal(found.times, 1);
	check_equal(found.field[1], 0);
	guest_close(&guest);
}

static void on_signal(int signal)
{
	(void)signal;
}

static void call_sigreturn(void)
{
	signal(SIGUSR1, on_signal);
	for (int i = 0; i < 10; i++)
		raise(SIGUSR1);
}

/* The return from a handler comes back with the interrupted program's registers. */
static void return_from_signals(void)
{
	struct found found = {.probe = CALL(SYS_rt_sigreturn)};
	struct guest_count count = {0};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	run_traced(&guest, found.probe, 0, call_sigreturn);
	guest_drain(&guest, &count, find, &found);
	check_equal(found.times, 10);
	check_equal(found.words, 2);
	guest_close(&guest);
}

/* Nothing of the process that opened the device, unless it is asked for. */
static void self_is_excluded(void)
{
	struct guest_count count = {0};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	guest_start(&guest, getpid(), 0, CALL(SYS_getppid), 0);
	for (int i = 0; i < 100; i++)
		syscall(SYS_getppid);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check_equal(count.records, 0);

	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	check_control(guest.fd, RT_IOC_START, NULL);
	for (int i = 0; i < 100; i++)
		syscall(SYS_getppid);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check_equal(count.events, 100);

	guest.config.excluded_pids[2] = getpid();
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	check_control(guest.fd, RT_IOC_START, NULL);
	syscall(SYS_getppid);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check_equal(count.events, 100);
	guest_close(&guest);
}

static uint64_t events_with(struct guest *guest, const struct rt_filter_clause *clause,
			    uint32_t clauses)
{
	struct rt_enable enable = {.probe = CALL(SYS_getppid), .clauses = clauses};
	struct guest_count count = {0};
	struct load load;

	memcpy(enable.clause, clause, clauses * sizeof(*clause));
	check_control(guest->fd, RT_IOC_ENABLE, &enable);
	check_control(guest->fd, RT_IOC_START, NULL);
	load_prepare(&load, 50, -1);
	load_release(&load);
	load_wait(&load);
	check_control(guest->fd, RT_IOC_STOP, NULL);
	guest_drain(guest, &count, NULL, NULL);
	return count.events;
}

static void filters(void)
{
	struct rt_filter_clause mine = {.comm_op = RT_FILTER_EQ, .comm = "filtered"};
	struct rt_filter_clause not_mine = {.comm_op = RT_FILTER_NE, .comm = "filtered"};
	struct rt_filter_clause root = {.uid_op = RT_FILTER_EQ, .uid = 0};
	struct rt_filter_clause nobody = {.uid_op = RT_FILTER_EQ, .uid = 65534};
	struct rt_filter_clause tid = {.tid_op = RT_FILTER_NE, .tid = getpid()};
	struct rt_filter_clause both = {.uid_op = RT_FILTER_EQ, .comm_op = RT_FILTER_EQ,
					.comm = "filtere"};
	struct rt_filter_clause any_of[2];
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	prctl(PR_SET_NAME, "filtered");
	check_equal(events_with(&guest, &mine, 1), 50);
	check_equal(events_with(&guest, &not_mine, 1), 0);
	check_equal(events_with(&guest, &root, 1), 50);
	check_equal(events_with(&guest, &nobody, 1), 0);
	check_equal(events_with(&guest, &tid, 1), 50);
	check_equal(events_with(&guest, &both, 1), 0);
	any_of[0] = nobody;
	any_of[1] = mine;
	check_equal(events_with(&guest, any_of, 2), 50);
	any_of[1] = not_mine;
	check_equal(events_with(&guest, any_of, 2), 0);
	guest_close(&guest);
}

static void rename_and_call(void)
{
	for (int i = 0; i < 20; i++) {
		prctl(PR_SET_NAME, i & 1 ? "one" : "two");
		syscall(SYS_getppid);
	}
}

static void follow_names(const struct guest_item *item, void *data)
{
	const struct rt_thread *thread = (const void *)item->item.payload;
	char *now = data;
	static int calls;

	if (item->item.probe == RT_PROBE_THREAD)
		memcpy(now, thread->comm, RT_COMM_BYTES);
	else
		check(strcmp(now, calls++ & 1 ? "one" : "two") == 0);
}

/* A new name is told before the next event. */
static void names_follow(void)
{
	struct guest_count count = {0};
	char now[RT_COMM_BYTES];
	struct guest guest;

	pin(0);
	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	run_traced(&guest, CALL(SYS_getppid), 0, rename_and_call);
	guest_drain(&guest, &count, follow_names, now);
	check_equal(count.events, 20);
	guest_close(&guest);
}

/* What is enabled may change under load; a call seen from its middle is no event. */
static void reconfigure_under_load(void)
{
	struct guest_count count = {0};
	struct rt_stats stats;
	struct guest guest;
	struct load load;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	load_prepare(&load, 200000, -1);
	guest_start(&guest, load.pid, 0, CALL(SYS_getppid), 0);
	load_release(&load);
	for (int i = 0; i < 20; i++) {
		struct rt_enable enable = {.probe = ENTRY(SYS_getppid)};
		uint32_t probe = i & 2 ? CALL(SYS_getppid) : enable.probe;

		enable.probe = probe;
		control(guest.fd, i & 1 ? RT_IOC_DISABLE : RT_IOC_ENABLE,
			i & 1 ? (void *)&probe : (void *)&enable);
		guest_drain(&guest, &count, NULL, NULL);
		sleep_ms(10);
	}
	kill(load.pid, SIGKILL);
	waitpid(load.pid, NULL, 0);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check_equal(stats.crowded, 0);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

const struct test syscall_tests[] = {
	{"syscall_exact", exact},
	{"syscall_exact_four_processes", exact_four},
	{"syscall_entry_and_return", entry_and_return},
	{"syscall_arguments", arguments},
	{"syscall_execve_arguments", execve_arguments},
	{"syscall_execve_by_thread", execve_by_thread},
	{"syscall_sigreturn", return_from_signals},
	{"syscall_self_is_excluded", self_is_excluded},
	{"syscall_filters", filters},
	{"syscall_names_follow", names_follow},
	{"syscall_reconfigure_under_load", reconfigure_under_load},
	{NULL, NULL},
};
