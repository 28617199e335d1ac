/* System calls as the BPF producer records them: exact, in pairs, with their arguments. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

#define CALL(name)	(RT_PROBE_SYSCALL_CALL + SYS_##name)
#define ENTRY(name)	(RT_PROBE_SYSCALL_ENTRY + SYS_##name)
#define RETURN(name)	(RT_PROBE_SYSCALL_RETURN + SYS_##name)
#define UNNAMED		500		/* no kernel has it, no header names it */
#define CALLS		harness_fewer(100000)
#define SLICE		5000		/* calls between drains: fits a ring */

static struct harness harness;

struct count {
	uint64_t calls, entries, returns, wrong;
	uint32_t tid;
	uint64_t ret;
};

static void count_getppid(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct count *count = context;

	(void)cpu;
	switch (item->probe) {
	case CALL(getppid):
		count->calls++;
		count->wrong += item->tid != count->tid || item->words != 2 ||
				item->payload[1] != count->ret || item->payload[0] > 1000000000;
		break;
	case ENTRY(getppid):
		count->entries++;
		count->wrong += item->tid != count->tid || item->words != 0;
		break;
	case RETURN(getppid):
		count->returns++;
		count->wrong += item->tid != count->tid || item->words != 1 ||
				item->payload[0] != count->ret;
		break;
	default:
		count->wrong++;
	}
}

static void run_getppid(struct count *count)
{
	for (unsigned i = 0; i < CALLS; i++) {
		syscall(SYS_getppid);
		if (i % SLICE == SLICE - 1)
			harness_drain(&harness, count_getppid, count);
	}
}

static void hundred_thousand_calls_are_exactly_that_many_records(void **state)
{
	struct count count = { .tid = gettid(), .ret = getppid() };
	struct source_request request = { 0 };

	(void)state;
	harness_want(&request, CALL(getppid));
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
	run_getppid(&count);
	harness_reset(&harness);
	assert_int_equal(count.calls, CALLS);
	assert_int_equal(count.wrong, 0);
	assert_int_equal(harness.lost, 0);
}

static void entries_and_returns_come_in_pairs(void **state)
{
	struct count count = { .tid = gettid(), .ret = getppid() };
	struct source_request request = { 0 };

	(void)state;
	harness_want(&request, ENTRY(getppid));
	harness_want(&request, RETURN(getppid));
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
	run_getppid(&count);
	harness_want(&request, CALL(getppid));
	harness_configure(&harness, &request);
	run_getppid(&count);
	harness_reset(&harness);
	assert_int_equal(count.entries, 2 * CALLS);
	assert_int_equal(count.returns, 2 * CALLS);
	assert_int_equal(count.calls, CALLS);
	assert_int_equal(count.wrong, 0);
}

/* ---- arguments ------------------------------------------------------------------------------ */

struct seen {
	uint16_t probe;
	unsigned times;
	struct ring_item item;
	uint64_t payload[RT_RECORD_WORDS_MAX];
};

static void see(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct seen *seen = context;

	(void)cpu;
	if (item->probe != seen->probe)
		return;
	seen->times++;
	seen->item = *item;
	memcpy(seen->payload, item->payload, item->words * sizeof(uint64_t));
	seen->item.payload = seen->payload;
}

static void request_mine(uint32_t probe, uint32_t flags)
{
	struct source_request request = { .flags = flags };

	harness_want(&request, probe);
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
}

static void six_arguments_arrive_and_ints_are_extended(void **state)
{
	struct seen seen = { .probe = CALL(mmap) };

	(void)state;
	request_mine(CALL(mmap), 0);
	assert_int_equal(syscall(SYS_mmap, 0x1000, 0x2000, 3, 0x4, 0xffffffffu, 0x6000L), -1);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.item.words, 8);
	assert_int_equal(seen.payload[1], -EBADF);
	assert_int_equal(seen.payload[2], 0x1000);
	assert_int_equal(seen.payload[3], 0x2000);
	assert_int_equal(seen.payload[4], 3);
	assert_int_equal(seen.payload[5], 4);
	assert_int_equal(seen.payload[7], 0x6000);

	seen = (struct seen){ .probe = CALL(openat) };
	request_mine(CALL(openat), 0);
	assert_int_equal(syscall(SYS_openat, AT_FDCWD & 0xffffffffu, "/nothing/here", O_RDONLY, 0), -1);
	harness_drain(&harness, see, &seen);
	assert_int_equal((int64_t)seen.payload[2], AT_FDCWD);
	assert_int_equal((int64_t)seen.payload[1], -ENOENT);
	harness_reset(&harness);
}

static void expect_text(const struct rt_attachment *attachment, const char *text)
{
	assert_non_null(attachment);
	assert_int_equal(attachment->bytes, strlen(text));
	assert_memory_equal(attachment->data, text, attachment->bytes);
	for (unsigned i = attachment->bytes; i % 8; i++)
		assert_int_equal(attachment->data[i], 0);
}

static void strings_come_with_their_arguments_and_are_cut(void **state)
{
	char name[300];
	struct seen seen = { .probe = CALL(renameat) };

	(void)state;
	memset(name, 'x', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	request_mine(CALL(renameat), RT_FLAG_STRINGS);
	syscall(SYS_renameat, -1, "/no/such", -1, name);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.times, 1);
	expect_text(harness_attachment(&seen.item, 6, RT_ATTACH_STRING, 1), "/no/such");
	name[RT_STRING_BYTES_MAX] = '\0';
	expect_text(harness_attachment(&seen.item, 6, RT_ATTACH_STRING, 3), name);
	harness_reset(&harness);
}

static void a_string_that_can_not_be_read_is_counted(void **state)
{
	uint64_t faults = harness_counter(&harness, offsetof(struct rt_ring_producer, faults));
	struct seen seen = { .probe = CALL(openat) };

	(void)state;
	request_mine(CALL(openat), RT_FLAG_STRINGS);
	syscall(SYS_openat, -1, (char *)16, 0, 0);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.item.words, 6);
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, faults)),
			 faults + 1);
	harness_reset(&harness);
}

static void expect_address(struct seen *seen, unsigned words, unsigned arg, const void *address,
			   unsigned bytes)
{
	const struct rt_attachment *attachment;

	harness_drain(&harness, see, seen);
	assert_int_equal(seen->times, 1);
	attachment = harness_attachment(&seen->item, words, RT_ATTACH_SOCKADDR, arg);
	if (!address) {
		assert_int_equal(seen->item.words, words);
		return;
	}
	assert_non_null(attachment);
	assert_int_equal(attachment->bytes, bytes);
	assert_memory_equal(attachment->data, address, bytes);
	for (unsigned i = bytes; i % 8; i++)
		assert_int_equal(attachment->data[i], 0);
}

static void the_address_that_a_call_is_given_comes_as_it_is_and_is_cut(void **state)
{
	const int length[] = { 0, -1, 1, 7, 16, 110, 111, 128 };
	struct sockaddr_storage address;

	(void)state;
	memset(&address, 'x', sizeof(address));
	request_mine(CALL(connect), RT_FLAG_STRINGS);
	for (unsigned i = 0; i < sizeof(length) / sizeof(length[0]); i++) {
		struct seen seen = { .probe = CALL(connect) };
		unsigned bytes = length[i] > RT_SOCKADDR_BYTES_MAX ? RT_SOCKADDR_BYTES_MAX : length[i];

		syscall(SYS_connect, -1, &address, length[i]);
		expect_address(&seen, 5, 1, length[i] > 0 ? &address : NULL, bytes);
	}
	harness_reset(&harness);
	request_mine(CALL(sendto), RT_FLAG_STRINGS);
	for (unsigned i = 0; i < 2; i++) {
		struct seen seen = { .probe = CALL(sendto) };

		syscall(SYS_sendto, -1, "a", 1, 0, i ? &address : NULL, 28);
		expect_address(&seen, 8, 4, i ? &address : NULL, 28);
	}
	harness_reset(&harness);
}

static void an_address_that_a_call_fills_in_comes_if_it_did(void **state)
{
	struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	socklen_t bytes = sizeof(own);

	(void)state;
	assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
	request_mine(CALL(getsockname), RT_FLAG_STRINGS);
	for (unsigned i = 0; i < 2; i++) {
		struct seen seen = { .probe = CALL(getsockname) };

		syscall(SYS_getsockname, i ? -1 : fd, &own, &bytes);
		expect_address(&seen, 5, 1, i ? NULL : &own, sizeof(own));
	}
	harness_reset(&harness);
	close(fd);
}

static void an_address_that_can_not_be_read_is_counted(void **state)
{
	uint64_t faults = harness_counter(&harness, offsetof(struct rt_ring_producer, faults));
	struct seen seen = { .probe = CALL(connect) };

	(void)state;
	request_mine(CALL(connect), RT_FLAG_STRINGS);
	syscall(SYS_connect, -1, (void *)16, 16);
	expect_address(&seen, 5, 1, NULL, 0);
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, faults)),
			 faults + 1);
	harness_reset(&harness);
}

static void stacks_are_attached_innermost_first(void **state)
{
	struct seen seen = { .probe = CALL(getppid) };
	const struct rt_attachment *kernel, *user;

	(void)state;
	request_mine(CALL(getppid), RT_FLAG_KSTACK | RT_FLAG_USTACK);
	syscall(SYS_getppid);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.times, 1);
	kernel = harness_attachment(&seen.item, 2, RT_ATTACH_KSTACK, 0);
	user = harness_attachment(&seen.item, 2, RT_ATTACH_USTACK, 0);
	assert_non_null(kernel);
	assert_non_null(user);
	assert_true(kernel->bytes >= 8 && kernel->bytes <= 8 * RT_STACK_FRAMES_MAX);
	assert_true(((const uint64_t *)kernel->data)[0] >> 63);
	assert_true(user->bytes >= 8);
	assert_false(((const uint64_t *)user->data)[0] >> 63);
	harness_reset(&harness);
}

/* ---- calls that are special ----------------------------------------------------------------- */

static pid_t run_child(void (*child)(void *), void *arg)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		child(arg);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return pid;
}

static void exec_true(void *arg)
{
	(void)arg;
	usleep(20000);
	execl("/bin/true", "true", NULL);
}

static void *exec_in_thread(void *arg)
{
	exec_true(arg);
	return NULL;
}

static void exec_true_in_thread(void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, exec_in_thread, arg);
	pthread_join(thread, NULL);
}

static void exec_keeps_its_arguments_and_string(void **state)
{
	void (*const way[])(void *) = { exec_true, exec_true_in_thread };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct seen seen = { .probe = CALL(execve) };
		struct source_request request = { .flags = RT_FLAG_STRINGS };
		pid_t pid;

		harness_want(&request, CALL(execve));
		harness_want_comm(&request, "test_syscalls");
		harness_want_comm(&request, "true");
		harness_configure(&harness, &request);
		pid = run_child(way[i], NULL);
		harness_drain(&harness, see, &seen);
		assert_int_equal(seen.times, 1);
		assert_int_equal(seen.item.tid, pid);	/* the leader's, whoever called */
		assert_int_equal(seen.payload[1], 0);
		assert_true(seen.payload[2] != 0);
		expect_text(harness_attachment(&seen.item, 5, RT_ATTACH_STRING, 0), "/bin/true");
		harness_reset(&harness);
	}
}

static void leave(void *arg)
{
	(void)arg;
	syscall(SYS_exit_group, 5);
}

static void exit_group_is_recorded_at_its_entry(void **state)
{
	struct source_request request = { 0 };
	struct seen seen = { .probe = CALL(exit_group) };
	pid_t pid;

	(void)state;
	harness_want(&request, CALL(exit_group));
	harness_want_comm(&request, "test_syscalls");
	harness_configure(&harness, &request);
	pid = run_child(leave, NULL);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.item.tid, pid);
	assert_true(seen.payload[0] == RT_DURATION_NEVER);
	assert_int_equal(seen.payload[1], 0);
	assert_int_equal(seen.payload[2], 5);
	harness_reset(&harness);
}

static void nothing(void *arg)
{
	(void)arg;
}

static void fork_returns_twice_and_is_one_call(void **state)
{
	uint64_t unpaired = harness_counter(&harness, offsetof(struct rt_ring_producer, unpaired));
	struct source_request request = { 0 };
	struct seen seen = { .probe = CALL(clone) };
	pid_t pid;

	(void)state;
	harness_want(&request, CALL(clone));
	harness_want_comm(&request, "test_syscalls");
	harness_configure(&harness, &request);
	pid = run_child(nothing, NULL);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.payload[1], pid);
	/* The child's return: an arm64 kernel has none, unless it enters calls as x86-64 does. */
	unpaired = harness_counter(&harness, offsetof(struct rt_ring_producer, unpaired)) - unpaired;
#ifdef __aarch64__
	assert_in_range(unpaired, 0, 1);
#else
	assert_int_equal(unpaired, 1);
#endif
	harness_reset(&harness);
}

static void a_number_without_a_name_is_recorded_with_six_arguments(void **state)
{
	struct seen seen = { .probe = RT_PROBE_SYSCALL_CALL + UNNAMED };

	(void)state;
	request_mine(seen.probe, 0);
	assert_int_equal(syscall(UNNAMED, 11, 22, 33, 44, 55, 66L), -1);
	harness_drain(&harness, see, &seen);
	harness_reset(&harness);
	assert_int_equal(seen.times, 1);
	assert_int_equal(seen.item.words, 8);
	assert_int_equal((int64_t)seen.payload[1], -ENOSYS);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(seen.payload[2 + i], 11 * (i + 1));
}

#ifdef __x86_64__
static void calls_of_another_abi_are_counted_and_not_recorded(void **state)
{
	uint64_t foreign = harness_counter(&harness, offsetof(struct rt_ring_producer, foreign));
	struct seen seen = { .probe = CALL(writev) };	/* 20 is getpid through int 0x80 */
	long pid = 20;

	(void)state;
	request_mine(CALL(writev), 0);
	__asm__ volatile("int $0x80" : "+a"(pid) : : "memory", "r8", "r9", "r10", "r11");
	harness_drain(&harness, see, &seen);
	harness_reset(&harness);
	assert_int_equal(seen.times, 0);
	if (pid == -ENOSYS)
		foreign -= 1;	/* the kernel was built without: it was not traced either */
	assert_true(harness_counter(&harness, offsetof(struct rt_ring_producer, foreign)) >=
		    foreign + 1);
}
#endif

static void on_signal(int number)
{
	(void)number;
}

/* What no table has is recorded as one call, with its number and every register: 1000, 1 << 30, -1. */
static void a_number_beyond_the_table_is_recorded_with_it(void **state)
{
	static const long numbers[] = { 1000, RT_SYSCALL_UNKNOWN, RT_SYSCALLS_MAX, 1 << 30, -1 };
	uint64_t foreign = harness_counter(&harness, offsetof(struct rt_ring_producer, foreign));
	uint64_t unpaired = harness_counter(&harness, offsetof(struct rt_ring_producer, unpaired));
	const unsigned id = RT_PROBE_SYSCALL_CALL + RT_SYSCALL_UNKNOWN;

	(void)state;
	signal(SIGUSR1, on_signal);
	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct seen seen = { .probe = id };

		request_mine(id, 0);
		assert_int_equal(syscall(numbers[i], 11, 22, 33, 44, 55, 66L << 33), -1);
		getpid();
		raise(SIGUSR1);		/* its handler's return says -1, and is no such call */
		harness_drain(&harness, see, &seen);
		harness_reset(&harness);
		assert_int_equal(seen.times, 1);
		assert_int_equal(seen.item.words, 2 + 7);
		assert_int_equal((int64_t)seen.payload[1], -ENOSYS);
		assert_int_equal((int64_t)seen.payload[2], numbers[i]);
		for (unsigned k = 0; k < 5; k++)
			assert_int_equal(seen.payload[3 + k], 11 * (k + 1));
		assert_int_equal(seen.payload[8], 66L << 33);
	}
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, foreign)), foreign);
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, unpaired)),
			 unpaired);
}

static void a_request_that_stays_loses_nothing_when_others_change(void **state)
{
	struct count count = { .tid = gettid(), .ret = getppid() };
	struct source_request request = { 0 };

	(void)state;
	harness_want(&request, CALL(getppid));
	harness_want_pid(&request, getpid());
	harness_configure(&harness, &request);
	for (int i = 0; i < 40; i++) {
		struct source_request other = request;

		if (i & 1)
			harness_want(&other, RT_PROBE_SCHED_SWITCH);
		if (i & 2)
			harness_want(&other, RETURN(getpid));
		harness_want_pid(&other, i + 1);
		for (int call = 0; call < 100; call++)
			syscall(SYS_getppid);
		harness_configure(&harness, &other);
		for (int call = 0; call < 100; call++)
			syscall(SYS_getppid);
	}
	harness_configure(&harness, &request);
	harness_drain(&harness, count_getppid, &count);
	harness_reset(&harness);
	assert_int_equal(count.calls, 40 * 200);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hundred_thousand_calls_are_exactly_that_many_records),
		cmocka_unit_test(entries_and_returns_come_in_pairs),
		cmocka_unit_test(six_arguments_arrive_and_ints_are_extended),
		cmocka_unit_test(strings_come_with_their_arguments_and_are_cut),
		cmocka_unit_test(a_string_that_can_not_be_read_is_counted),
		cmocka_unit_test(the_address_that_a_call_is_given_comes_as_it_is_and_is_cut),
		cmocka_unit_test(an_address_that_a_call_fills_in_comes_if_it_did),
		cmocka_unit_test(an_address_that_can_not_be_read_is_counted),
		cmocka_unit_test(stacks_are_attached_innermost_first),
		cmocka_unit_test(exec_keeps_its_arguments_and_string),
		cmocka_unit_test(exit_group_is_recorded_at_its_entry),
		cmocka_unit_test(fork_returns_twice_and_is_one_call),
		cmocka_unit_test(a_number_without_a_name_is_recorded_with_six_arguments),
		cmocka_unit_test(a_number_beyond_the_table_is_recorded_with_it),
#ifdef __x86_64__
		cmocka_unit_test(calls_of_another_abi_are_counted_and_not_recorded),
#endif
		cmocka_unit_test(a_request_that_stays_loses_nothing_when_others_change),
	};
	int failed;

	harness_open(&harness, 1 << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
