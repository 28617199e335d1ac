/*
 * test_provider: the other providers see what the test makes happen, and stacks and strings are
 * those of who made it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <netinet/in.h>
#include <unistd.h>

#include "tests/kmod/guest.h"

#define CALL(nr)	(RT_PROBE_SYSCALL_CALL + (nr))
#define RING_BYTES	(4u << 20)

static uint64_t by_probe[RT_PROBE_MAX];

static void count_probe(const struct guest_item *item, void *data)
{
	(void)data;
	by_probe[item->item.probe]++;
}

/* fork, exec, exit, switch and wakeup of a known number of children. */
static void sched(void)
{
	struct guest_count count = {0};
	struct guest guest;
	uint64_t children = 20;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	guest_start(&guest, 0, 0, RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP,
		    RT_PROBE_SCHED_FORK, RT_PROBE_SCHED_EXEC, RT_PROBE_SCHED_EXIT, 0);
	for (uint64_t i = 0; i < children; i++) {
		pid_t child = fork();

		if (child == 0)
			execl("/bin/true", "true", NULL);
		check_equal(waitpid(child, NULL, 0), child);
	}
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, count_probe, NULL);
	check(by_probe[RT_PROBE_SCHED_FORK] >= children);
	check(by_probe[RT_PROBE_SCHED_EXEC] >= children);
	check(by_probe[RT_PROBE_SCHED_EXIT] >= children);
	check(by_probe[RT_PROBE_SCHED_SWITCH] > children);
	check(by_probe[RT_PROBE_SCHED_WAKEUP] >= children);
	check_equal(count.lost_total, 0);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

/* On each CPU the one that is switched to is the one that is switched from next. */
static void follow_switches(const struct guest_item *item, void *data)
{
	uint32_t *next = data;

	if (item->item.probe != RT_PROBE_SCHED_SWITCH)
		return;
	if (next[item->cpu] != ~0u)
		check_equal(item->item.tid, next[item->cpu]);
	next[item->cpu] = (uint32_t)item->item.payload[2];
}

static void switches_chain(void)
{
	uint32_t next[GUEST_CPUS_MAX];
	struct guest_count count = {0};
	struct guest guest;

	memset(next, 0xff, sizeof(next));
	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	guest_start(&guest, 0, 0, RT_PROBE_SCHED_SWITCH, 0);
	for (int i = 0; i < 100; i++)
		sleep_ms(2);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, follow_switches, next);
	check(count.events > 100);
	guest_close(&guest);
}

struct made_way {
	uint64_t own, child;
	uint64_t running;		/* on CPU 0, as the last switch there said; UINT64_MAX: nobody knows */
	uint64_t from_own;
};

static void follow_own(const struct guest_item *item, void *data)
{
	struct made_way *way = data;

	check(item->item.probe != RT_PROBE_SCHED_WAKEUP || item->item.tid != way->own);
	if (item->item.probe != RT_PROBE_SCHED_SWITCH || item->cpu)
		return;
	if (item->item.tid == way->own) {
		check(item->item.payload[2] && item->item.payload[2] != way->own);
		way->from_own += item->item.payload[2] == way->child;
	} else if (item->item.tid == way->child && way->running != UINT64_MAX) {
		check_equal(item->item.tid, way->running);
	}
	way->running = item->item.payload[2];
}

/* The process that opened the device is excluded; where it makes way for another, that is the other's event. */
static void switches_from_excluded(void)
{
	struct made_way way = {.own = (uint64_t)getpid(), .running = UINT64_MAX};
	struct guest_count count = {0};
	struct guest guest;
	int there[2], back[2];
	char byte = 0;

	pin(0);
	check_equal(pipe(there) | pipe(back), 0);
	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	way.child = (uint64_t)fork();
	if (!way.child) {
		for (int i = 0; i < 100; i++)
			if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
				_exit(1);
		_exit(0);
	}
	guest_start(&guest, 0, 0, RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP, 0);
	for (int i = 0; i < 100; i++) {
		check_equal(write(there[1], &byte, 1), 1);
		check_equal(read(back[0], &byte, 1), 1);
		if (i % 20 == 0)
			sleep_ms(1);
	}
	check_control(guest.fd, RT_IOC_STOP, NULL);
	check_equal(waitpid((pid_t)way.child, NULL, 0), way.child);
	guest_drain(&guest, &count, follow_own, &way);
	check(way.from_own >= 50);
	check_equal(count.lost_total, 0);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

static void on_signal(int signal)
{
	(void)signal;
}

/* Bytes over the loopback: network, soft interrupts, pages and signals. */
static void make_everything(void)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
				      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(address);
	int in = socket(AF_INET, SOCK_DGRAM, 0), out = socket(AF_INET, SOCK_DGRAM, 0);
	char byte = 0;

	check_equal(bind(in, (struct sockaddr *)&address, length), 0);
	check_equal(getsockname(in, (struct sockaddr *)&address, &length), 0);
	for (int i = 0; i < 20; i++) {
		check_equal(sendto(out, &byte, 1, 0, (struct sockaddr *)&address, length), 1);
		check_equal(recv(in, &byte, 1, 0), 1);
	}
	close(in);
	close(out);
	signal(SIGUSR1, on_signal);
	raise(SIGUSR1);
	for (int i = 0; i < 10; i++) {
		void *pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

		check(pages != MAP_FAILED);
		munmap(pages, 1 << 20);
	}
	sleep_ms(100);
}

static void hot_tracepoints(void)
{
	static const uint32_t expected[] = {
		RT_PROBE_IRQ_ENTRY, RT_PROBE_IRQ_EXIT, RT_PROBE_SOFTIRQ_ENTRY,
		RT_PROBE_SOFTIRQ_EXIT, RT_PROBE_TIMER_START, RT_PROBE_TIMER_EXPIRE,
		RT_PROBE_PAGE_ALLOC, RT_PROBE_PAGE_FREE, RT_PROBE_NET_XMIT,
		RT_PROBE_NET_RECEIVE, RT_PROBE_NAPI_POLL, RT_PROBE_SIGNAL_DELIVER,
	};
	struct guest_count count = {0};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	guest_start(&guest, 0, RT_FLAG_KSTACK | RT_FLAG_STRINGS, RT_PROBE_IRQ_ENTRY,
		    RT_PROBE_IRQ_EXIT, RT_PROBE_SOFTIRQ_ENTRY, RT_PROBE_SOFTIRQ_EXIT,
		    RT_PROBE_TIMER_START, RT_PROBE_TIMER_EXPIRE, RT_PROBE_PAGE_ALLOC,
		    RT_PROBE_PAGE_FREE, RT_PROBE_BLOCK_ISSUE, RT_PROBE_BLOCK_COMPLETE,
		    RT_PROBE_NET_XMIT, RT_PROBE_NET_RECEIVE, RT_PROBE_NAPI_POLL,
		    RT_PROBE_SIGNAL_DELIVER, 0);
	make_everything();
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, count_probe, NULL);
	for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
		if (!by_probe[expected[i]] && expected[i] != RT_PROBE_IRQ_ENTRY &&
		    expected[i] != RT_PROBE_IRQ_EXIT && expected[i] != RT_PROBE_NAPI_POLL)
			fail(__FILE__, __LINE__, "no event of probe %#x", expected[i]);
	check(by_probe[RT_PROBE_NET_XMIT] >= 20);
	check(by_probe[RT_PROBE_SIGNAL_DELIVER] >= 1);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

/* ---- Stacks and strings ---- */

static uint64_t symbol_start(const char *name, uint64_t *end)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	char line[512], symbol[256], type;
	unsigned long long address;
	uint64_t start = 0;

	*end = 0;
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%llx %c %255s", &address, &type, symbol) != 3)
			continue;
		if (start && !*end && address > start)
			*end = address;
		if (strcmp(symbol, name) == 0)
			start = address;
	}
	if (file)
		fclose(file);
	return start;
}

struct attached {
	uint32_t probe, fields, frames[2];
	uint64_t stack[2][RT_STACK_FRAMES_MAX];	/* kernel, user */
	char text[2][RT_STRING_BYTES_MAX + 1];
	uint32_t texts, events;
};

static void collect(const struct guest_item *item, void *data)
{
	struct attached *attached = data;
	const uint64_t *at = item->item.payload + attached->fields;
	const uint64_t *end = item->item.payload + item->item.words;

	if (item->item.probe != attached->probe)
		return;
	attached->events++;
	while (at < end) {
		const struct rt_attachment *a = (const void *)at;
		uint32_t words = 1 + (a->bytes + 7) / 8;

		check(at + words <= end);
		for (uint32_t i = a->bytes; i % 8; i++)
			check_equal(a->data[i], 0);
		if (a->kind == RT_ATTACH_STRING && attached->texts < 2) {
			memcpy(attached->text[attached->texts], a->data, a->bytes);
			attached->text[attached->texts++][a->bytes] = 0;
		} else if (a->kind != RT_ATTACH_STRING) {
			int user = a->kind == RT_ATTACH_USTACK;

			attached->frames[user] = a->bytes / 8;
			memcpy(attached->stack[user], a->data, a->bytes);
		}
		at += words;
	}
	check(at == end);
}

static bool has_frame_in(const struct attached *attached, int user, uint64_t start, uint64_t end)
{
	for (uint32_t i = 0; i < attached->frames[user]; i++)
		if (attached->stack[user][i] > start && attached->stack[user][i] <= end)
			return true;
	return false;
}

/*
 * A call without a function of the library's between, the kernel's function that it comes to, and the one that the
 * event of its return is written in.
 */
#ifdef __aarch64__
static const char kernel_entry[] = "el0_svc", kernel_return[] = "syscall_trace_exit";

static inline void call_getppid(void)
{
	register long number __asm__("x8") = SYS_getppid;
	register long ret __asm__("x0");

	__asm__ volatile("svc #0" : "=r"(ret) : "r"(number) : "memory");
}
#else
static const char kernel_entry[] = "do_syscall_64", kernel_return[] = "syscall_exit_work";

static inline void call_getppid(void)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "0"((long)SYS_getppid) : "rcx", "r11", "memory");
}
#endif

/* With a frame pointer, so that the walk finds its way: known functions, called in order. */
__attribute__((noinline))
static void innermost(void)
{
	/* A leaf has no frame of its own unless it asks for one. */
	__asm__ volatile("" :: "r"(__builtin_frame_address(0)));
	call_getppid();
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline))
static void middle(void)
{
	innermost();
	__asm__ volatile("" ::: "memory");
}

__attribute__((noinline))
static void outermost(void)
{
	middle();
	__asm__ volatile("" ::: "memory");
}

#define FUNCTION_BYTES_MAX 64

static void stacks(void)
{
	struct attached attached = {.probe = CALL(SYS_getppid), .fields = 2};
	struct guest_count count = {0};
	struct guest guest;
	uint64_t start, end;
	uintptr_t function[] = {(uintptr_t)innermost, (uintptr_t)middle, (uintptr_t)outermost};

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	guest_start(&guest, getpid(), RT_FLAG_KSTACK | RT_FLAG_USTACK, CALL(SYS_getppid), 0);
	outermost();
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, collect, &attached);
	check_equal(attached.events, 1);
	check(attached.frames[1] >= 3);
	for (int i = 0; i < 3; i++)
		if (attached.stack[1][i] < function[i] ||
		    attached.stack[1][i] > function[i] + FUNCTION_BYTES_MAX)
			fail(__FILE__, __LINE__, "user frame %d is %#llx, not in %#lx", i,
			     (unsigned long long)attached.stack[1][i], function[i]);
	start = symbol_start(kernel_entry, &end);
	check(start && end);
	check(has_frame_in(&attached, 0, start, end));
	/* The first frame is the kernel's own, not ours. */
	start = symbol_start(kernel_return, &end);
	if (start && (attached.stack[0][0] <= start - 4096 || attached.stack[0][0] >= end + 4096))
		fail(__FILE__, __LINE__, "kernel frame 0 is %#llx, 1 is %#llx, not near %#llx",
		     (unsigned long long)attached.stack[0][0],
		     (unsigned long long)attached.stack[0][1], (unsigned long long)start);
	guest_close(&guest);
}

static void strings(void)
{
	static const char long_name[] = "/a/very/long/name/that/is/cut/aaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
	struct attached attached = {.probe = CALL(SYS_openat), .fields = 6};
	struct guest_count count = {0};
	struct rt_stats stats;
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	guest_start(&guest, getpid(), RT_FLAG_STRINGS, CALL(SYS_openat), CALL(SYS_renameat2), 0);
	syscall(SYS_openat, AT_FDCWD, "/etc/nothing", O_RDONLY);
	syscall(SYS_openat, AT_FDCWD, long_name, O_RDONLY);
	syscall(SYS_openat, AT_FDCWD, (char *)8, O_RDONLY);
	syscall(SYS_openat, AT_FDCWD, NULL, O_RDONLY);
	guest_drain(&guest, &count, collect, &attached);
	check_equal(attached.events, 4);
	check_equal(attached.texts, 2);
	check(strcmp(attached.text[0], "/etc/nothing") == 0);
	check_equal(strlen(attached.text[1]), RT_STRING_BYTES_MAX);
	check(strncmp(attached.text[1], long_name, RT_STRING_BYTES_MAX) == 0);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check_equal(stats.faults, 1);
	attached = (struct attached){.probe = CALL(SYS_renameat2), .fields = 7};
	syscall(SYS_renameat2, AT_FDCWD, "/old", AT_FDCWD, "/new", 0);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, collect, &attached);
	check(strcmp(attached.text[0], "/old") == 0 && strcmp(attached.text[1], "/new") == 0);
	guest_close(&guest);
}

static void exec_strings(void)
{
	struct attached call = {.probe = CALL(SYS_execve), .fields = 5};
	struct attached exec = {.probe = RT_PROBE_SCHED_EXEC, .fields = 2};
	struct guest_count count = {0};
	struct guest guest;
	pid_t child;

	for (int round = 0; round < 2; round++) {
		struct attached *attached = round ? &exec : &call;

		guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
		guest_map(&guest);
		guest_start(&guest, 0, round ? 0 : RT_FLAG_STRINGS, attached->probe, 0);
		child = fork();
		if (child == 0)
			execl("/bin/true", "true", NULL);
		check_equal(waitpid(child, NULL, 0), child);
		check_control(guest.fd, RT_IOC_STOP, NULL);
		guest_drain(&guest, &count, collect, attached);
		check_equal(attached->events, 1);
		check_equal(attached->texts, 1);
		check(strcmp(attached->text[0], "/bin/true") == 0);
		guest_close(&guest);
	}
}

/* ---- Timers and functions ---- */

static void profile(void)
{
	struct rt_enable enable[] = {
		{.probe = RT_PROBE_PROFILE, .rate_hz = 500,
		 .flags = RT_FLAG_KSTACK | RT_FLAG_USTACK},
		{.probe = RT_PROBE_INTERVAL, .rate_hz = 20},
	};
	struct guest_count count = {0};
	struct guest guest;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	check_control(guest.fd, RT_IOC_ENABLE, &enable[0]);
	check_control(guest.fd, RT_IOC_ENABLE, &enable[1]);
	check_control(guest.fd, RT_IOC_START, NULL);
	sleep_ms(1000);
	/* Another rate, under way. */
	enable[0].rate_hz = 50;
	check_control(guest.fd, RT_IOC_ENABLE, &enable[0]);
	sleep_ms(100);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, count_probe, NULL);
	/* An emulated machine may be late; it cannot be early. */
	check(by_probe[RT_PROBE_PROFILE] > 100);
	check(by_probe[RT_PROBE_PROFILE] <= (uint64_t)cpus_online() * 700);
	check(by_probe[RT_PROBE_INTERVAL] >= 5 && by_probe[RT_PROBE_INTERVAL] <= 30);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

static uint32_t kprobe_of(int fd, const char *function, uint32_t on_return)
{
	struct rt_kprobe kprobe = {.on_return = on_return};

	strcpy(kprobe.function, function);
	check_control(fd, RT_IOC_KPROBE, &kprobe);
	return kprobe.probe;
}

static void kprobes(void)
{
	struct attached entry = {.fields = 6};
	struct guest_count count = {0};
	struct guest guest;
	struct rt_stats stats;
	uint64_t start, end;
	uint32_t ret;
	int null;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest.config.flags |= RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	guest_map(&guest);
	entry.probe = kprobe_of(guest.fd, "vfs_write", 0);
	ret = kprobe_of(guest.fd, "vfs_write", 1);
	guest_start(&guest, getpid(), RT_FLAG_KSTACK, entry.probe, ret, 0);
	null = open("/dev/null", O_WRONLY);
	for (int i = 0; i < 10; i++)
		check_equal(write(null, "0123456789", 10), 10);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	memset(by_probe, 0, sizeof(by_probe));
	guest_drain(&guest, &count, count_probe, NULL);
	check_equal(by_probe[entry.probe], 10);
	check_equal(by_probe[ret], 10);
	check_control(guest.fd, RT_IOC_START, NULL);
	check_equal(write(null, "x", 1), 1);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, collect, &entry);
	check_equal(entry.events, 1);
	start = symbol_start("vfs_write", &end);
	check(entry.stack[0][0] >= start && entry.stack[0][0] < end);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check_equal(stats.kprobe_missed, 0);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

const struct test provider_tests[] = {
	{"provider_sched", sched},
	{"provider_switches_chain", switches_chain},
	{"provider_switches_from_excluded", switches_from_excluded},
	{"provider_hot_tracepoints", hot_tracepoints},
	{"provider_stacks", stacks},
	{"provider_strings", strings},
	{"provider_exec_strings", exec_strings},
	{"provider_profile", profile},
	{"provider_kprobes", kprobes},
	{NULL, NULL},
};
