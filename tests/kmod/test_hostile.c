/*
 * test_hostile: consumers that lie, vanish or play games. The kernel stays well, and other
 * consumers get what is theirs.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/kmod/guest.h"

#define GETPPID		(RT_PROBE_SYSCALL_CALL + SYS_getppid)
#define RING_BYTES	(16u << 10)

/* Garbage in the consumer page: refused and counted, and the ring only becomes full. */
static void garbage_in_page(void)
{
	static const uint64_t bad[] = {
		1, 7, ~0ull, 1ull << 63, RING_BYTES * 1024ull, 0x1234567890abcdefull & ~7ull,
	};
	struct rt_stats stats;
	struct guest guest;
	struct load load;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	load_prepare(&load, 20000, 0);
	guest_start(&guest, 0, 0, GETPPID, RT_PROBE_SCHED_SWITCH, 0);
	load_release(&load);
	for (unsigned i = 0; i < 2000; i++) {
		for (int cpu = 0; cpu < cpus_online(); cpu++) {
			volatile struct rt_ring_consumer *page = guest.ring[cpu].consumer;

			page->consumer_pos = bad[i % (sizeof(bad) / sizeof(bad[0]))] + (i & ~7u);
			page->bell_at = i % 3 ? 0 : i;
		}
		if (i % 100 == 0)
			sleep_ms(1);
	}
	load_wait(&load);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check(stats.consumer_bad > 0);
	check(stats.lost[RT_LOST_FULL] > 0);
	check_equal(stats.attempts, stats.records + stats.lost_total);
	guest_close(&guest);
}

/* A position that no reader can have left, and read(2) after that: it goes on where the last believable one was. */
static void garbage_before_read(void)
{
	static const uint64_t bad[] = {7, RING_BYTES - 4, 1ull << 63, ~0ull};
	static char bytes[RING_BYTES];

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct guest guest;
		struct load load;

		guest_open(&guest, 4 * RING_BYTES, RT_POLICY_DROP);
		for (int cpu = 0; cpu < cpus_online(); cpu++) {
			uint64_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, guest.fd,
					      (off_t)RT_MAP_CONSUMER(cpu));

			check(page != MAP_FAILED);
			*page = bad[i];
			munmap(page, 4096);
		}
		load_prepare(&load, 200, 0);
		guest_start(&guest, load.pid, 0, GETPPID, 0);
		load_release(&load);
		load_wait(&load);
		check_control(guest.fd, RT_IOC_STOP, NULL);
		check(read(guest.fd, bytes, sizeof(bytes)) > 200 * RT_RECORD_HEADER_BYTES);
		check_equal(read(guest.fd, bytes, sizeof(bytes)), 0);
		guest_close(&guest);
	}
}

/* A page that says everything was read, as fast as it is written: the kernel writes on. */
static void reader_without_reading(void)
{
	struct guest guest;
	struct load load;
	int status;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	load_prepare(&load, 50000, 0);
	guest_start(&guest, 0, 0, GETPPID, 0);
	load_release(&load);
	while (waitpid(load.pid, &status, WNOHANG) == 0)
		for (int i = 0; i < 1000; i++)
			*(volatile uint64_t *)&guest.ring[0].consumer->consumer_pos =
				*(volatile uint64_t *)&guest.ring[0].producer->producer_pos;
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_close(&guest);
}

/* The descriptor goes while recording is on, with and without mappings left. */
static void close_while_recording(void)
{
	struct load load;

	load_prepare(&load, 2000000, 0);
	load_release(&load);
	for (int i = 0; i < 20; i++) {
		struct guest guest;

		guest_open(&guest, RING_BYTES, (enum rt_policy)(i % 3));
		guest_map(&guest);
		guest_start(&guest, 0, 0, GETPPID, RT_PROBE_SCHED_SWITCH, RT_PROBE_PROFILE,
			    RT_PROBE_INTERVAL, 0);
		sleep_ms(2);
		if (i & 1)
			close(guest.fd);
		else
			guest_close(&guest);
	}
	kill(load.pid, SIGKILL);
	waitpid(load.pid, NULL, 0);
}

/* A fork has the descriptor and the mappings; it lives on after its parent is gone. */
static void fork_with_descriptor(void)
{
	struct guest guest;
	pid_t child;
	int status;

	guest_open(&guest, RING_BYTES, RT_POLICY_DROP);
	guest_map(&guest);
	guest_start(&guest, 0, 0, GETPPID, 0);
	child = fork();
	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0) {
			struct guest_count count = {0};

			sleep_ms(50);
			for (int i = 0; i < 100; i++)
				syscall(SYS_getppid);
			guest_drain(&guest, &count, NULL, NULL);
			_exit(count.events >= 100 ? 0 : 1);
		}
		check_equal(waitpid(grandchild, &status, 0), grandchild);
		_exit(WEXITSTATUS(status));
	}
	guest_close(&guest);
	check_equal(waitpid(child, &status, 0), child);
	check_equal(status, 0);
}

struct racers {
	int fd;
	volatile bool over;
};

static void *race_controls(void *data)
{
	struct racers *racers = data;
	struct rt_enable enable = {.probe = GETPPID};
	struct rt_config config = {.ring_bytes = RING_BYTES, .watermark_bytes = 1};
	uint32_t probe = GETPPID;

	while (!racers->over) {
		control(racers->fd, RT_IOC_ENABLE, &enable);
		control(racers->fd, RT_IOC_START, NULL);
		config.policy = (config.policy + 1) % 3;
		control(racers->fd, RT_IOC_SET_CONFIG, &config);
		control(racers->fd, RT_IOC_SNAPSHOT, NULL);
		control(racers->fd, RT_IOC_STOP, NULL);
		control(racers->fd, RT_IOC_CLEAR, NULL);
		control(racers->fd, RT_IOC_DISABLE, &probe);
	}
	return NULL;
}

static void *race_mappings(void *data)
{
	struct racers *racers = data;
	static char bytes[65536];

	while (!racers->over) {
		void *map = mmap(NULL, 8192, PROT_READ, MAP_SHARED, racers->fd, 0);

		if (map != MAP_FAILED) {
			(void)*(volatile char *)map;
			munmap(map, 8192);
		}
		map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, racers->fd,
			   (off_t)RT_MAP_CONSUMER(0));
		if (map != MAP_FAILED) {
			*(volatile uint64_t *)map = 0;
			munmap(map, 4096);
		}
		if (read(racers->fd, bytes, sizeof(bytes)) < 0)
			continue;
	}
	return NULL;
}

/* Every call at once, from many threads, on one descriptor. */
static void calls_race(void)
{
	struct racers racers = {.fd = open(RT_DEVICE, O_RDWR | O_NONBLOCK)};
	pthread_t thread[6];

	check(racers.fd >= 0);
	for (int i = 0; i < 6; i++)
		pthread_create(&thread[i], NULL, i & 1 ? race_mappings : race_controls, &racers);
	sleep_ms(3000);
	racers.over = true;
	for (int i = 0; i < 6; i++)
		pthread_join(thread[i], NULL);
	close(racers.fd);
}

static void set_online(int cpu, bool online)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu);
	fd = open(path, O_WRONLY);
	if (fd < 0)
		skip("CPUs cannot be taken off line here");
	check_equal(write(fd, online ? "1" : "0", 1), 1);
	close(fd);
}

/* A CPU goes and comes under load: nothing is lost that was not counted, timers follow. */
static void cpu_off_and_on(void)
{
	struct guest_count count = {0};
	struct guest guest;
	struct load load[2];
	int status;

	if (cpus_online() < 2)
		skip("one CPU");
	guest_open(&guest, 1u << 20, RT_POLICY_DROP);
	guest_map(&guest);
	load_prepare(&load[0], 400000, -1);
	load_prepare(&load[1], 400000, -1);
	guest_start(&guest, 0, 0, GETPPID, RT_PROBE_SCHED_SWITCH, RT_PROBE_PROFILE,
		    RT_PROBE_INTERVAL, 0);
	load_release(&load[0]);
	load_release(&load[1]);
	for (int i = 0; i < 6; i++) {
		set_online(1, i & 1);
		for (int k = 0; k < 10; k++) {
			guest_drain(&guest, &count, NULL, NULL);
			sleep_ms(5);
		}
	}
	for (int i = 0; i < 2; i++) {
		kill(load[i].pid, SIGKILL);
		waitpid(load[i].pid, &status, 0);
	}
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check(count.events > 0);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

/* A ring that is made before its CPU is there. */
static void open_with_cpu_off(void)
{
	struct guest_count count = {0};
	struct guest guest;
	struct load load;

	if (cpus_online() < 2)
		skip("one CPU");
	set_online(1, false);
	guest_open(&guest, 1u << 20, RT_POLICY_DROP);
	guest_start(&guest, 0, 0, GETPPID, RT_PROBE_PROFILE, 0);
	set_online(1, true);
	guest_map(&guest);
	check(guest.ring[1].producer != NULL);
	load_prepare(&load, 500, 1);
	load_release(&load);
	load_wait(&load);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check(count.events >= 500);
	guest_check_ledger(&guest, &count);
	guest_close(&guest);
}

/* A killed thread leaves no place taken: more threads than places live and die. */
static void many_threads_die(void)
{
	struct guest_count count = {0};
	struct rt_stats stats;
	struct guest guest;

	guest_open(&guest, 1u << 20, RT_POLICY_DROP);
	guest_map(&guest);
	guest_start(&guest, 0, 0, RT_PROBE_SYSCALL_CALL + SYS_ppoll, 0);
	for (int i = 0; i < 300; i++) {
		pid_t child = fork();

		if (child == 0)
			for (;;)
				syscall(SYS_ppoll, NULL, 0, NULL, NULL, 0);
		if (i % 2)
			sched_yield();
		kill(child, SIGKILL);
		waitpid(child, NULL, 0);
	}
	check_control(guest.fd, RT_IOC_STOP, NULL);
	guest_drain(&guest, &count, NULL, NULL);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check_equal(stats.crowded, 0);
	guest_close(&guest);
}

const struct test hostile_tests[] = {
	{"hostile_garbage_in_page", garbage_in_page},
	{"hostile_garbage_before_read", garbage_before_read},
	{"hostile_reader_without_reading", reader_without_reading},
	{"hostile_close_while_recording", close_while_recording},
	{"hostile_fork_with_descriptor", fork_with_descriptor},
	{"hostile_calls_race", calls_race},
	{"hostile_many_threads_die", many_threads_die},
	{"hotplug_cpu_off_and_on", cpu_off_and_on},
	{"hotplug_open_with_cpu_off", open_with_cpu_off},
	{NULL, NULL},
};
