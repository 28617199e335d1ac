/*
 * tracepoint: what one record of a tracepoint costs, beside ftrace's own record of it, in one run.
 *
 * In: [ROUNDS]; it must be root. Out: a JSON line for each tracepoint on stdout, and one of the mean of the ratios;
 * exit 77 with a reason where BPF or ftrace may not.
 *
 *	one thread on one CPU: operations that fire the event, timed  =  a slice
 *	untraced | ftrace | ringtail, in an order that moves on    x rounds    x every tracepoint
 *
 * The cost is the median slice with it less the median slice without, of the same round; the ratio is the median of
 * the rounds' ratios. "Untraced" has no program attached either. The ring is emptied between slices by moving the
 * consumer position, and a slice fits it, so nothing may be lost. ftrace has an instance of its own, in overwrite
 * mode and unread. sched_switch is written by hand. block_bio_queue is made from the tracepoint's format, and the others
 * from what the kernel passes (daemon/source/tracepoint_args.def), where it lets them.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "daemon/source/source.h"

#define CPU		1
#define SLICES		16		/* of each mode in a round */
#define ROUNDS_DEFAULT	9
#define ROUNDS_MAX	100
#define RING_BYTES	(1u << 20)
#define BLOCK_BYTES	4096
#define BLOCKS		1024
#define MEAN_MAX	0.80
#define INSTANCE	"/sys/kernel/tracing/instances/ringtail_bench_tp.%d"
#define DETACHES_MAX	1000

enum mode { UNTRACED, FTRACE, RINGTAIL, MODES };

static struct source *source;
static struct rt_ring_producer *producer;
static struct rt_ring_consumer *consumer;
static char instance[80];
static int ping, pong, null_fd, udp, block = -1, zram = -1;
static struct sockaddr_in here;
static uint8_t *block_bytes;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* ---- What fires the events ---------------------------------------------------------------------- */

/* Real-time where that is allowed, so that others disturb a slice less. */
static bool pin(void)
{
	const struct sched_param priority = {.sched_priority = 1};
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(CPU, &cpus);
	pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
	return !pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
}

static void *answer(void *arg)
{
	eventfd_t value;

	pin();
	while (!eventfd_read(ping, &value))
		eventfd_write(pong, 1);
	return arg;
}

/* Two threads of one CPU wake each other in turn. */
static void wake(int times)
{
	eventfd_t value;

	for (int i = 0; i < times; i++) {
		eventfd_write(ping, 1);
		eventfd_read(pong, &value);
	}
}

/* More pieces than the kernel has room for on its stack. */
static void allocate(int times)
{
	static char byte;
	struct iovec piece[9];

	for (int i = 0; i < 9; i++)
		piece[i] = (struct iovec){&byte, 1};
	for (int i = 0; i < times; i++)
		if (writev(null_fd, piece, 9) != 9)
			abort();
}

static void send_to_myself(int times)
{
	char bytes[64] = "";

	for (int i = 0; i < times; i++)
		if (sendto(udp, bytes, 32, 0, (void *)&here, sizeof(here)) != 32 ||
		    recv(udp, bytes, sizeof(bytes), MSG_DONTWAIT) != 32)
			abort();
}

static void read_block(int times)
{
	for (int i = 0; i < times; i++)
		if (pread(block, block_bytes, BLOCK_BYTES, i % BLOCKS * BLOCK_BYTES) != BLOCK_BYTES)
			abort();
}

static const struct event {
	const char *system, *name;
	void (*fire)(int times);
	int times, of_each;		/* in a slice; events of each time */
	double budget;
} events[] = {
	{ "sched", "sched_switch", wake, 500, 2, 0.5 },	/* by hand */
	{ "sched", "sched_waking", wake, 500, 2, 1 },
	{ "kmem", "kmalloc", allocate, 1000, 1, 1 },
	{ "block", "block_bio_queue", read_block, 500, 1, 1 },
	{ "net", "net_dev_queue", send_to_myself, 400, 1, 1 },
	{ "net", "netif_receive_skb", send_to_myself, 400, 1, 1 },
	{ "irq", "softirq_entry", send_to_myself, 400, 1, 1 },
};

#define EVENTS (sizeof(events) / sizeof(events[0]))

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return written;
}

/* A block device in memory, of our own; -1: there is none. */
static void block_open(void)
{
	int fd = open("/sys/class/zram-control/hot_add", O_RDONLY | O_CLOEXEC);
	char text[16] = "", path[64];

	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0 || sscanf(text, "%d", &zram) != 1)
		zram = -1;
	if (fd >= 0)
		close(fd);
	snprintf(path, sizeof(path), "/sys/block/zram%d/disksize", zram);
	if (zram < 0 || !write_text(path, "16M"))
		return;
	snprintf(path, sizeof(path), "/dev/zram%d", zram);
	block = open(path, O_RDONLY | O_DIRECT | O_CLOEXEC);
	block_bytes = aligned_alloc(BLOCK_BYTES, BLOCK_BYTES);
}

static void block_close(void)
{
	char text[64];

	if (zram < 0)
		return;
	if (block >= 0)
		close(block);
	snprintf(text, sizeof(text), "/sys/block/zram%d/reset", zram);
	write_text(text, "1");
	snprintf(text, sizeof(text), "%d", zram);
	write_text("/sys/class/zram-control/hot_remove", text);
}

static bool work_open(void)
{
	socklen_t bytes = sizeof(here);
	pthread_t thread;

	ping = eventfd(0, EFD_CLOEXEC);
	pong = eventfd(0, EFD_CLOEXEC);
	null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	here = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	block_open();
	return !bind(udp, (void *)&here, sizeof(here)) && !getsockname(udp, (void *)&here, &bytes) &&
	       !pthread_create(&thread, NULL, answer, NULL);
}

/* ---- Who records -------------------------------------------------------------------------------- */

static bool ftrace_enable(const struct event *event, bool on)
{
	char path[200];

	snprintf(path, sizeof(path), "%s/events/%s/%s/enable", instance, event->system, event->name);
	return write_text(path, on ? "1" : "0");
}

static bool ringtail_open(void)
{
	const struct source_config config = {.ring_bytes = RING_BYTES, .excluded_pids = {1}};
	struct ring_handle ring;
	struct error error;

	if (source_bpf.open(&config, &source, &error)) {
		fprintf(stderr, "tracepoint: %s: %s; %s\n", error.code, error.what, error.hint);
		return false;
	}
	if (source_bpf.ring(source, CPU, &ring))
		return false;
	producer = mmap(NULL, ring.ring_bytes, PROT_READ, MAP_SHARED, ring.ring_fd, ring.ring_offset);
	consumer = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring.consumer_fd,
			ring.consumer_offset);
	return producer != MAP_FAILED && consumer != MAP_FAILED;
}

static int take_id(void *id, const Ringtail__V1__Probe *probe)
{
	*(uint32_t *)id = probe->id;
	return 0;
}

static uint32_t probe_of(const struct event *event)
{
	const Ringtail__V1__Catalog *catalog = source_bpf.catalog(source);
	char spec[128];
	struct error error;
	uint32_t id = 0;

	for (size_t i = 0; i < catalog->n_probe; i++)
		if (!strcmp(catalog->probe[i]->function, event->system) &&
		    !strcmp(catalog->probe[i]->name, event->name))
			return catalog->probe[i]->id;
	snprintf(spec, sizeof(spec), "tracepoint:%s:%s", event->system, event->name);
	if (source_bpf.make(source, spec, take_id, &id, &error))
		fprintf(stderr, "tracepoint: %s: %s\n", error.code, error.what);
	return id;
}

/* What nobody wants any more is detached at once: else it would be in the cost of doing nothing. */
static bool ringtail_enable(uint32_t probe, bool on)
{
	struct source_request request = {0};
	struct error error;

	if (on)
		request.probes[probe / 8] |= (uint8_t)(1u << probe % 8);
	if (source_bpf.configure(source, &request, &error)) {
		fprintf(stderr, "tracepoint: %s: %s\n", error.code, error.what);
		return false;
	}
	for (int i = 0; !on && i < DETACHES_MAX && source_bpf.idle(source); i++)
		;
	return true;
}

/* ---- Figures ------------------------------------------------------------------------------------ */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *value, int values)
{
	qsort(value, (size_t)values, sizeof(*value), compare);
	return values % 2 ? value[values / 2] : (value[values / 2 - 1] + value[values / 2]) / 2;
}

/* ns of an event and of what fires it: the median slice. */
static double measure(const struct event *event)
{
	double slice[SLICES];

	event->fire(event->times);	/* warm caches, and the thread's introduction */
	for (int i = 0; i < SLICES; i++) {
		__atomic_store_n(&consumer->consumer_pos,
				 __atomic_load_n(&producer->producer_pos, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
		slice[i] = now_ns();
		event->fire(event->times);
		slice[i] = (now_ns() - slice[i]) / (event->times * event->of_each);
	}
	return median(slice, SLICES);
}

static bool run_mode(const struct event *event, uint32_t probe, enum mode mode, double *ns)
{
	bool good = mode == FTRACE ? ftrace_enable(event, true) :
		    mode == RINGTAIL ? ringtail_enable(probe, true) : true;

	if (good)
		*ns = measure(event);
	if (mode == FTRACE)
		good = ftrace_enable(event, false) && good;
	else if (mode == RINGTAIL)
		good = ringtail_enable(probe, false) && good;
	return good;
}

static void print_row(const struct event *event, double *mine, double *theirs, double *ratio, int rounds,
		      double *of_median)
{
	double mine_ns = median(mine, rounds), theirs_ns = median(theirs, rounds);

	/* They are in order now. */
	*of_median = median(ratio, rounds);
	printf("{\"name\":\"tracepoint.%s\",\"value\":%.1f,\"unit\":\"ns\",\"peer\":\"ftrace's own record\","
	       "\"peer_value\":%.1f,\"ratio\":%.3f,\"budget\":%.2f,\"rounds\":%d,"
	       "\"spread\":[%.3g,%.3g],\"peer_spread\":[%.3g,%.3g]}\n", event->name, mine_ns, theirs_ns,
	       *of_median, event->budget, rounds, mine[0], mine[rounds - 1], theirs[0], theirs[rounds - 1]);
}

static bool run_event(const struct event *event, int rounds, double *ratio_of)
{
	double mine[ROUNDS_MAX], theirs[ROUNDS_MAX], ratio[ROUNDS_MAX];
	uint32_t probe = probe_of(event);

	if (!probe)
		return false;
	for (int round = 0; round < rounds; round++) {
		double ns[MODES];

		for (int i = 0; i < MODES; i++) {
			enum mode mode = (enum mode)((i + round) % MODES);

			if (!run_mode(event, probe, mode, &ns[mode]))
				return false;
		}
		mine[round] = ns[RINGTAIL] - ns[UNTRACED];
		theirs[round] = ns[FTRACE] - ns[UNTRACED];
		ratio[round] = mine[round] / theirs[round];
	}
	print_row(event, mine, theirs, ratio, rounds, ratio_of);
	return true;
}

static int skip(const char *why)
{
	printf("SKIP: %s\n", why);
	return 77;
}

static bool run_events(int rounds)
{
	double sum = 0, ratio;
	int measured = 0;

	for (size_t i = 0; i < EVENTS; i++) {
		if (events[i].fire == read_block && block < 0) {
			fprintf(stderr, "tracepoint: %s: no zram here\n", events[i].name);
			continue;
		}
		if (!run_event(&events[i], rounds, &ratio))
			return false;
		sum += ratio;
		measured++;
	}
	printf("{\"name\":\"tracepoint.mean\",\"value\":%.3f,\"unit\":\"x ftrace\",\"peer\":null,"
	       "\"peer_value\":null,\"ratio\":%.3f,\"budget\":%.2f,\"rounds\":%d}\n", sum / measured,
	       sum / measured, MEAN_MAX, rounds);
	return true;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS_DEFAULT;
	bool good;

	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = ROUNDS_DEFAULT;
	if (!pin())
		return skip("there is no second CPU");
	if (!ringtail_open())
		return skip("BPF programs may not be loaded here");
	snprintf(instance, sizeof(instance), INSTANCE, getpid());
	if (mkdir(instance, 0700))
		return skip("no tracefs to make an instance in");
	good = work_open() && run_events(rounds);
	block_close();
	rmdir(instance);
	if (good && producer->lost_total) {
		fprintf(stderr, "tracepoint: %llu records were lost: the slices do not fit\n",
			(unsigned long long)producer->lost_total);
		good = false;
	}
	source_bpf.close(source);
	return good ? 0 : 1;
}
