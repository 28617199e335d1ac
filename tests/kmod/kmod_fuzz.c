/*
 * kmod_fuzz: random ioctls, mappings, reads and lies on /dev/ringtail, from several processes and
 * threads at once, while a load makes events. It looks for nothing itself: the kernel must survive,
 * and its log stay clean.
 *
 *	kmod_fuzz SECONDS [SEED]	prints its seed; one seed gives each worker one sequence
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kmod/uapi/ringtail_ioctl.h"

#define PROCESSES	3
#define THREADS		3
#define DEVICES		4
#define MAPS		8
#define STEPS_PER_LIFE	20000

struct map {
	void *at;
	size_t bytes;
	bool writable;
};

struct worker {
	uint64_t state;
	int *fd;		/* DEVICES of them, shared with the process's other threads */
	struct map map[MAPS];	/* its own */
	uint64_t end_s;
	uint64_t steps, good;
};

static uint64_t now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

/* splitmix64 */
static uint64_t any(struct worker *worker)
{
	uint64_t z = worker->state += 0x9e3779b97f4a7c15ull;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static uint64_t below(struct worker *worker, uint64_t bound)
{
	return any(worker) % bound;
}

static bool once_in(struct worker *worker, unsigned n)
{
	return below(worker, n) == 0;
}

/* Numbers that have a meaning, or nearly. */
static uint64_t number(struct worker *worker)
{
	static const uint64_t known[] = {
		0, 1, 2, 3, 4, 7, 8, 63, 64, 4096, 8192, 16384, 65536, 1 << 20, 1 << 28,
		RT_PROBE_SCHED_SWITCH, RT_PROBE_PROFILE, RT_PROBE_KPROBE, RT_PROBE_MAX,
		RT_PROBE_SYSCALL_CALL + SYS_getppid, RT_MAP_STRIDE, RT_MAP_STRIDE / 2,
		~0u, ~0ull, 1ull << 63, 0x7fffffff,
	};
#define KNOWN (sizeof(known) / sizeof(known[0]))

	switch (below(worker, 4)) {
	case 0:
		return any(worker) >> below(worker, 64);
	case 1:
		return known[below(worker, KNOWN)] + below(worker, 3) - 1;
	default:
		return known[below(worker, KNOWN)];
	}
}
#undef KNOWN

static uint32_t probe(struct worker *worker)
{
	switch (below(worker, 7)) {
	case 6:
		return RT_PROBE_MADE + (uint32_t)below(worker, 4);
	case 0:
		return RT_PROBE_SYSCALL_CALL + (uint32_t)below(worker, RT_PROBE_MAX -
							       RT_PROBE_SYSCALL_CALL);
	case 1:
		return RT_PROBE_SCHED_SWITCH + (uint32_t)below(worker, 5);
	case 2:
		return RT_PROBE_MODULE_MIN + (uint32_t)below(worker, 14);
	case 3:
		return RT_PROBE_PROFILE + (uint32_t)below(worker, 2);
	case 4:
		return RT_PROBE_KPROBE + (uint32_t)below(worker, 4);
	default:
		return (uint32_t)number(worker);
	}
}

static void fill_clauses(struct worker *worker, uint32_t *clauses, struct rt_filter_clause *clause)
{
	*clauses = (uint32_t)(once_in(worker, 8) ? number(worker) : below(worker, 3));
	for (int i = 0; i < RT_FILTER_CLAUSES_MAX; i++) {
		clause[i].pid_op = (uint8_t)below(worker, once_in(worker, 9) ? 256 : 3);
		clause[i].tid_op = (uint8_t)below(worker, 3);
		clause[i].uid_op = (uint8_t)below(worker, 3);
		clause[i].comm_op = (uint8_t)below(worker, 3);
		clause[i].pid = (uint32_t)below(worker, 500);
		snprintf(clause[i].comm, sizeof(clause[i].comm), "kmod_fuzz");
	}
}

static unsigned long fill_enable(struct worker *worker, void *space)
{
	struct rt_enable *enable = space;
	bool timer;

	enable->probe = probe(worker);
	timer = enable->probe == RT_PROBE_PROFILE || enable->probe == RT_PROBE_INTERVAL;
	enable->flags = (uint32_t)below(worker, once_in(worker, 9) ? 256 : 8);
	enable->rate_hz = timer ? 1 + (uint32_t)below(worker, 2000)
				: once_in(worker, 9) ? (uint32_t)number(worker) : 0;
	fill_clauses(worker, &enable->clauses, enable->clause);
	return RT_IOC_ENABLE;
}

static unsigned long fill_select(struct worker *worker, void *space)
{
	struct rt_select *select = space;

	memset(select, 0, sizeof(*select));
	for (uint64_t i = below(worker, 40); i; i--) {
		uint32_t id = probe(worker) % RT_PROBE_MAX;

		select->probes[id >> 3] |= (uint8_t)(1u << (id & 7));
	}
	for (unsigned i = 0; i < 8; i++)
		select->unfiltered[below(worker, sizeof(select->unfiltered))] |= 1u << below(worker, 8);
	select->flags = (uint32_t)below(worker, 8);
	fill_clauses(worker, &select->clauses, select->clause);
	return RT_IOC_SELECT;
}

static unsigned long fill_config(struct worker *worker, void *space)
{
	struct rt_config *config = space;

	memset(config, 0, sizeof(*config));
	config->ring_bytes = once_in(worker, 4) ? number(worker) : 16384u << below(worker, 4);
	config->watermark_bytes = once_in(worker, 4) ? number(worker) : 1 + below(worker, 16384);
	config->policy = (uint32_t)below(worker, 4);
	config->wake_ms = (uint32_t)below(worker, 40);
	config->flags = (uint32_t)below(worker, once_in(worker, 9) ? 256 : 4);
	config->excluded_pids[below(worker, 4)] = (uint32_t)below(worker, 500);
	return RT_IOC_SET_CONFIG;
}

static unsigned long fill_kprobe(struct worker *worker, void *space)
{
	static const char *const function[] = {
		"do_sys_openat2", "vfs_read", "vfs_write", "schedule", "no_such_function", "",
		"rt_ring_commit", "__x64_sys_getppid", "wake_up_process",
	};
	struct rt_kprobe *kprobe = space;

	memset(kprobe, 0, sizeof(*kprobe));
	strcpy(kprobe->function, function[below(worker, sizeof(function) / sizeof(function[0]))]);
	kprobe->on_return = (uint32_t)below(worker, 3);
	return RT_IOC_KPROBE;
}

static void fuzz_control(struct worker *worker, int fd)
{
	static const unsigned long plain[] = {
		RT_IOC_INFO, RT_IOC_START, RT_IOC_STOP, RT_IOC_STATS, RT_IOC_GET_CONFIG,
		RT_IOC_CLEAR, RT_IOC_SNAPSHOT, RT_IOC_START, RT_IOC_START,
	};
	static __thread uint64_t space[4096];
	void *argument = space;
	unsigned long command;

	switch (below(worker, 14)) {
	case 0:
	case 1:
		command = fill_enable(worker, space);
		break;
	case 2:
		command = fill_select(worker, space);
		break;
	case 3:
		command = fill_config(worker, space);
		break;
	case 4:
		command = fill_kprobe(worker, space);
		break;
	case 5:
		*(uint32_t *)space = probe(worker);
		command = RT_IOC_DISABLE;
		break;
	case 6:
		*(struct rt_bell *)space = (struct rt_bell){
			.cpu = (uint32_t)(once_in(worker, 2) ? RT_CPU_ALL : below(worker, 3)),
			.eventfd = (int)below(worker, 20) - 2};
		command = RT_IOC_BELL;
		break;
	case 7:
		*(struct rt_read *)space = (struct rt_read){
			.cpu = (uint32_t)below(worker, 3), .flags = (uint32_t)below(worker, 2),
			.index = number(worker) % 5000, .to = (uintptr_t)(space + 512),
			.bytes = 2048};
		command = RT_IOC_READ;
		break;
	case 8:
		*(struct rt_table *)space = (struct rt_table){
			.count = (uint32_t)below(worker, 20), .probe = probe(worker),
			.to = (uintptr_t)(space + 512)};
		command = once_in(worker, 4) ? RT_IOC_LIST : RT_IOC_FIELDS;
		break;
	case 9:
		for (size_t i = 0; i < 512; i++)
			space[i] = number(worker);
		command = _IOC(below(worker, 4), RT_IOC_MAGIC, below(worker, 20),
			       below(worker, 2000));
		break;
	case 10:
		*(uint32_t *)space = probe(worker);
		command = RT_IOC_SOURCE;
		break;
	case 11:
		*(int32_t *)space = (int)below(worker, 20) - 2;
		command = RT_IOC_WATCH;
		break;
	default:
		command = plain[below(worker, sizeof(plain) / sizeof(plain[0]))];
	}
	if (once_in(worker, 50))
		argument = (void *)(uintptr_t)number(worker);
	worker->good += ioctl(fd, command, argument) >= 0;
}

static void fuzz_map(struct worker *worker, int fd)
{
	struct map *map = &worker->map[below(worker, MAPS)];
	uint64_t offset = RT_MAP_RING(below(worker, 3)) +
			  (once_in(worker, 2) ? RT_MAP_STRIDE / 2 : 0);
	int protection = (int)below(worker, once_in(worker, 4) ? 8 : 4);

	if (map->at) {
		munmap(map->at, map->bytes);
		map->at = NULL;
	}
	if (once_in(worker, 8))
		offset = number(worker) & ~4095ull;
	map->bytes = (1 + below(worker, once_in(worker, 3) ? 40 : 1)) * 4096;
	map->at = mmap(NULL, map->bytes, protection, once_in(worker, 5) ? MAP_PRIVATE : MAP_SHARED,
		       fd, (off_t)offset);
	if (map->at == MAP_FAILED)
		map->at = NULL;
	map->writable = protection & PROT_WRITE && offset % RT_MAP_STRIDE;
	worker->good += map->at != NULL;
}

static void fuzz_memory(struct worker *worker)
{
	struct map *map = &worker->map[below(worker, MAPS)];

	if (!map->at)
		return;
	switch (below(worker, 4)) {
	case 0:
		if (mprotect(map->at, map->bytes, (int)below(worker, 4)) == 0)
			mprotect(map->at, map->bytes, PROT_READ | (map->writable ? PROT_WRITE : 0));
		break;
	case 1:
		madvise(map->at, map->bytes, (int)below(worker, 22));
		break;
	case 2:
		mremap(map->at, map->bytes, map->bytes, 0);
		break;
	default:
		/* Only the consumer page is written: the rest would end us. */
		if (map->writable && map->bytes == 4096) {
			struct rt_ring_consumer *page = map->at;

			*(volatile uint64_t *)&page->consumer_pos = number(worker);
			*(volatile uint64_t *)&page->bell_at = number(worker);
		}
	}
}

static void fuzz_file(struct worker *worker, int *fd)
{
	static __thread char bytes[70000];
	struct pollfd poll_fd = {.fd = *fd, .events = POLLIN};

	switch (below(worker, 8)) {
	case 0:
		close(*fd);
		*fd = open(RT_DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
		break;
	case 1:
		poll(&poll_fd, 1, 1);
		break;
	case 2:
		if (fork() == 0) {
			sched_yield();
			_exit(0);
		}
		break;
	case 3:
		waitpid(-1, NULL, WNOHANG);
		break;
	default:
		worker->good += read(*fd, bytes, below(worker, sizeof(bytes))) > 0;
	}
}

static void *work(void *data)
{
	struct worker *worker = data;

	for (; worker->steps < STEPS_PER_LIFE && now_s() < worker->end_s; worker->steps++) {
		int *fd = &worker->fd[below(worker, DEVICES)];

		switch (below(worker, 10)) {
		case 0:
			fuzz_map(worker, *fd);
			break;
		case 1:
			fuzz_memory(worker);
			break;
		case 2:
			fuzz_file(worker, fd);
			break;
		case 3:
			for (int i = 0; i < 50; i++)
				syscall(SYS_getppid);
			break;
		default:
			fuzz_control(worker, *fd);
		}
	}
	return NULL;
}

/* One process: its threads share its descriptors, so that calls race on one consumer. */
static int live(uint64_t seed, uint64_t end_s)
{
	struct worker worker[THREADS];
	pthread_t thread[THREADS];
	int fd[DEVICES];

	memset(worker, 0, sizeof(worker));
	for (int i = 0; i < DEVICES; i++)
		fd[i] = open(RT_DEVICE, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	eventfd(0, EFD_NONBLOCK);
	for (uint64_t i = 0; i < THREADS; i++) {
		worker[i].state = seed + i;
		worker[i].fd = fd;
		worker[i].end_s = end_s;
		pthread_create(&thread[i], NULL, work, &worker[i]);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	for (int i = 1; i < THREADS; i++) {
		worker[0].steps += worker[i].steps;
		worker[0].good += worker[i].good;
	}
	printf("# seed %llu: %llu steps, %llu of them took effect\n", (unsigned long long)seed,
	       (unsigned long long)worker[0].steps, (unsigned long long)worker[0].good);
	fflush(stdout);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t seconds = argc > 1 ? strtoull(argv[1], NULL, 0) : 60;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
	uint64_t end_s = now_s() + seconds;
	pid_t child[PROCESSES] = {0};

	printf("# kmod_fuzz: seed %llu, %llu s\n", (unsigned long long)seed,
	       (unsigned long long)seconds);
	fflush(stdout);
	while (now_s() < end_s) {
		for (int i = 0; i < PROCESSES; i++) {
			if (child[i] && waitpid(child[i], NULL, WNOHANG) == 0)
				continue;
			seed += 1000;
			child[i] = fork();
			if (child[i] == 0)
				_exit(live(seed, end_s));
		}
		usleep(50000);
	}
	for (int i = 0; i < PROCESSES; i++) {
		/* Whoever hangs in the kernel shows here: the caller's time-out ends us. */
		if (child[i] > 0)
			waitpid(child[i], NULL, 0);
	}
	return 0;
}
