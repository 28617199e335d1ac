/*
 * guest: see guest.h.
 */
#include "tests/kmod/guest.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define EXIT_SKIP 77

void fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	printf("# %s:%d: ", file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

void skip(const char *why)
{
	printf("# skipped: %s\n", why);
	fflush(stdout);
	_exit(EXIT_SKIP);
}

int control(int fd, unsigned long command, void *argument)
{
	return ioctl(fd, command, argument) < 0 ? -errno : 0;
}

void guest_open(struct guest *guest, uint64_t ring_bytes, enum rt_policy policy)
{
	memset(guest, 0, sizeof(*guest));
	guest->fd = open(RT_DEVICE, O_RDWR | O_CLOEXEC);
	if (guest->fd < 0)
		fail(__FILE__, __LINE__, "open %s: %s", RT_DEVICE, strerror(errno));
	check_control(guest->fd, RT_IOC_GET_CONFIG, &guest->config);
	guest->config.ring_bytes = ring_bytes;
	guest->config.watermark_bytes = ring_bytes / 4;
	guest->config.policy = policy;
	check_control(guest->fd, RT_IOC_SET_CONFIG, &guest->config);
}

static void map_ring(struct guest *guest, uint32_t cpu)
{
	struct guest_ring *ring = &guest->ring[cpu];
	struct error error;
	void *map;

	ring->map_bytes = RT_RING_MAP_BYTES(guest->config.ring_bytes);
	map = mmap(NULL, ring->map_bytes, PROT_READ, MAP_SHARED, guest->fd, RT_MAP_RING(cpu));
	if (map == MAP_FAILED) {
		check_equal(errno, ENXIO);
		return;
	}
	ring->producer = map;
	ring->consumer = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, guest->fd,
			      RT_MAP_CONSUMER(cpu));
	check(ring->consumer != MAP_FAILED);
	if (ring_reader_create(map, ring->map_bytes, ring->consumer, &ring->reader, &error))
		fail(__FILE__, __LINE__, "ring of CPU %u: %s", cpu, error.what);
	check_equal(ring->producer->cpu, cpu);
}

void guest_map(struct guest *guest)
{
	for (uint32_t cpu = 0; cpu < GUEST_CPUS_MAX; cpu++)
		map_ring(guest, cpu);
	check(guest->ring[0].producer != NULL);
}

void guest_close(struct guest *guest)
{
	for (uint32_t cpu = 0; cpu < GUEST_CPUS_MAX; cpu++) {
		struct guest_ring *ring = &guest->ring[cpu];

		if (!ring->producer)
			continue;
		ring_reader_destroy(ring->reader);
		munmap((void *)ring->producer, ring->map_bytes);
		munmap(ring->consumer, RT_PAGE_BYTES);
	}
	close(guest->fd);
}

void guest_start(struct guest *guest, uint32_t pid, uint32_t flags, ...)
{
	static struct rt_select select;
	uint32_t probe;
	va_list args;

	memset(&select, 0, sizeof(select));
	va_start(args, flags);
	while ((probe = va_arg(args, uint32_t)))
		select.probes[probe >> 3] |= 1u << (probe & 7);
	va_end(args);
	select.flags = flags;
	if (pid) {
		select.clauses = 1;
		select.clause[0].pid_op = RT_FILTER_EQ;
		select.clause[0].pid = pid;
	}
	check_control(guest->fd, RT_IOC_SELECT, &select);
	check_control(guest->fd, RT_IOC_START, NULL);
}

static void count_item(const struct ring_item *item, enum ring_read read,
		       struct guest_count *count)
{
	if (read == RING_LOST) {
		count->lost[item->reason] += item->count;
		count->lost_total += item->count;
		return;
	}
	count->records++;
	if (item->probe == RT_PROBE_THREAD)
		count->threads++;
	else if (item->probe >= RT_PROBE_EVENT_MIN)
		count->events++;
}

void guest_drain(struct guest *guest, struct guest_count *count,
		 void (*each)(const struct guest_item *item, void *data), void *data)
{
	for (uint32_t cpu = 0; cpu < GUEST_CPUS_MAX; cpu++) {
		struct ring_reader *reader = guest->ring[cpu].reader;
		struct guest_item item = {.cpu = cpu};
		enum ring_read read;

		while (reader && (read = ring_reader_next(reader, &item.item)) != RING_EMPTY) {
			if (read == RING_CORRUPT)
				fail(__FILE__, __LINE__, "CPU %u: %s", cpu,
				     ring_reader_error(reader));
			count_item(&item.item, read, count);
			if (each && read == RING_RECORD)
				each(&item, data);
			ring_reader_release(reader);
		}
	}
}

void guest_check_ledger(struct guest *guest, const struct guest_count *count)
{
	struct rt_stats stats;
	uint64_t missed;

	check_control(guest->fd, RT_IOC_STATS, &stats);
	check_equal(stats.attempts, stats.records + stats.lost_total);
	/* In the flight recorder the reader counts as lost what it came too late for. */
	missed = guest->config.policy == RT_POLICY_OVERWRITE ? count->lost[RT_LOST_FULL] : 0;
	check_equal(count->records + missed, stats.records);
	check_equal(count->lost_total - missed, stats.lost_total);
	for (int i = 0; i < RT_LOST_REASONS; i++)
		if (!(missed && i == RT_LOST_FULL))
			check_equal(count->lost[i], stats.lost[i]);
}

void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check_equal(sched_setaffinity(0, sizeof(set), &set), 0);
}

int cpus_online(void)
{
	return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

void sleep_ms(unsigned ms)
{
	struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		;
}

static void make_calls(int go, uint64_t calls)
{
	uint64_t allowed;

	for (; calls; calls -= allowed) {
		if (read(go, &allowed, sizeof(allowed)) != sizeof(allowed))
			_exit(1);
		for (uint64_t i = 0; i < allowed; i++)
			syscall(SYS_getppid);
	}
}

void load_prepare(struct load *load, uint64_t calls, int cpu)
{
	int go[2];

	check_equal(pipe(go), 0);
	fflush(stdout);
	load->calls = calls;
	load->pid = fork();
	check(load->pid >= 0);
	if (load->pid) {
		close(go[0]);
		load->go = go[1];
		return;
	}
	close(go[1]);
	if (cpu >= 0)
		pin(cpu);
	make_calls(go[0], calls);
	_exit(0);
}

void load_allow(struct load *load, uint64_t calls)
{
	if (calls > load->calls)
		calls = load->calls;
	if (!calls)
		return;
	load->calls -= calls;
	check_equal(write(load->go, &calls, sizeof(calls)), sizeof(calls));
	if (!load->calls)
		close(load->go);
}

void load_release(struct load *load)
{
	load_allow(load, load->calls);
}

void load_wait(struct load *load)
{
	int status;

	check_equal(waitpid(load->pid, &status, 0), load->pid);
	check_equal(status, 0);
}
