/*
 * profile: what one sample with its stacks costs, beside perf's ring with call chains, in one run.
 *
 * In: [ROUNDS]; it must be root. Out: a JSON line for each figure on stdout; exit 77 with a reason where
 * BPF or perf events may not.
 *
 *	one thread on one CPU: the same work below DEPTH frames, timed  =  a slice
 *	slices: empty | perf | ringtail | empty | ...
 *
 * All are events of the CPU clock with the same period; the empty one has neither ring nor program, so that
 * the interrupt, which costs most of it in a virtual machine, is in none of the figures. perf's writes what
 * `perf record -g` asks for into its ring, which nobody reads. The rate is high so that a slice has many samples: of a cost that belongs to
 * each sample, the rate is no part. The loader's own event ticks 99 times a second beside it; a second link
 * of the same program, with the same cookie, gives the rate.
 *
 * Then the same with tables of .eh_frame, beside perf's ring with registers and 8 KiB of the stack, of which
 * `perf record --call-graph dwarf` makes user stacks later.
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "daemon/source/finder.h"
#include "daemon/source/source.h"

#define DEPTH		16
#define WORK		400000u		/* of a slice: some ms */
#define PERIOD_NS	50000
#define SLICES		40		/* of each mode in a round */
#define ROUNDS_DEFAULT	5
#define ROUNDS_MAX	100
#define RING_BYTES	(1u << 22)
#define PERF_PAGES	1024
#define CPU		1
#define PROFILE		(RT_PROBE_TIMER + RT_TIMER_PROFILE_99HZ)
#define COOKIE		(1u << 8 | RT_TIMER_PROFILE_99HZ)	/* of the source's first attachment */

#define DWARF_REGS	0xff0fffull	/* those of x86-64 */
#define DWARF_BYTES	8192		/* of the stack: perf's default */
#define TABLES_TURNS	1000

enum mode { EMPTY, PERF, RINGTAIL, DWARF, TABLES, MODES };

static volatile uint64_t result;
static struct source *source;
static struct rt_ring_producer *producer;
static struct rt_ring_consumer *consumer;
static struct perf_event_mmap_page *perf_page, *dwarf_page;
static int empty_fd = -1, perf_fd = -1, dwarf_fd = -1, event_fd = -1;	/* event: with ringtail's program */
static struct finder finder;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* With a frame at each depth: built with -fno-omit-frame-pointer (Makefile). */
static __attribute__((noinline)) void work(unsigned depth)
{
	if (depth) {
		work(depth - 1);
		result++;
		return;
	}
	for (unsigned i = 0; i < WORK; i++)
		result = result * 6364136223846793005u + i;
}

/* ---- The two -------------------------------------------------------------------------------- */

static int open_clock(uint64_t sample_type)
{
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = PERIOD_NS,
		.sample_type = sample_type,
		.disabled = 1,
		.watermark = 1,
		.wakeup_watermark = PERF_PAGES * 4096u,
		.sample_regs_user = sample_type & PERF_SAMPLE_REGS_USER ? DWARF_REGS : 0,
		.sample_stack_user = sample_type & PERF_SAMPLE_STACK_USER ? DWARF_BYTES : 0,
		.exclude_callchain_user = (sample_type & PERF_SAMPLE_STACK_USER) != 0,
	};

	return (int)syscall(SYS_perf_event_open, &attr, -1, CPU, -1, PERF_FLAG_FD_CLOEXEC);
}

/* The ring is emptied by moving its tail: reading is not what is measured. */
static bool perf_open(void)
{
	const uint64_t plain = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_PERIOD |
			       PERF_SAMPLE_CALLCHAIN;

	empty_fd = open_clock(0);
	perf_fd = open_clock(plain);
	dwarf_fd = open_clock(plain | PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER);
	if (empty_fd < 0 || perf_fd < 0 || dwarf_fd < 0)
		return false;
	perf_page = mmap(NULL, (PERF_PAGES + 1) * 4096u, PROT_READ | PROT_WRITE, MAP_SHARED, perf_fd, 0);
	dwarf_page = mmap(NULL, (PERF_PAGES + 1) * 4096u, PROT_READ | PROT_WRITE, MAP_SHARED, dwarf_fd, 0);
	return perf_page != MAP_FAILED && dwarf_page != MAP_FAILED;
}

/* The program that the source has just loaded: the last one. */
static int find_program(void)
{
	uint32_t id = 0;
	int last = -1;

	while (bpf_prog_get_next_id(id, &id) == 0) {
		struct bpf_prog_info info = {0};
		uint32_t bytes = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd >= 0 && bpf_obj_get_info_by_fd(fd, &info, &bytes) == 0 &&
		    info.type == BPF_PROG_TYPE_PERF_EVENT && !strcmp(info.name, "timer")) {
			if (last >= 0)
				close(last);
			last = fd;
		} else if (fd >= 0) {
			close(fd);
		}
	}
	return last;
}

static bool configure(bool on)
{
	struct source_request request = {.flags = RT_FLAG_KSTACK | RT_FLAG_USTACK};
	struct error error;

	if (on)
		request.probes[PROFILE / 8] |= 1u << PROFILE % 8;
	if (!source_bpf.configure(source, &request, &error))
		return true;
	fprintf(stderr, "profile: %s: %s\n", error.code, error.what);
	return false;
}

static bool ringtail_open(void)
{
	const struct source_config config = {.ring_bytes = RING_BYTES, .excluded_pids = {1}, .finder = &finder};
	LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = COOKIE);
	struct ring_handle ring;
	struct error error;
	int program, link;

	if (finder_start(&finder, NULL, false, &error) || source_bpf.open(&config, &source, &error)) {
		fprintf(stderr, "profile: %s: %s; %s\n", error.code, error.what, error.hint);
		return false;
	}
	if (source_bpf.ring(source, CPU, &ring))
		return false;
	producer = mmap(NULL, ring.ring_bytes, PROT_READ, MAP_SHARED, ring.ring_fd, ring.ring_offset);
	consumer = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, ring.consumer_fd,
			ring.consumer_offset);
	event_fd = open_clock(0);
	/* The program is loaded when it is wanted. */
	if (producer == MAP_FAILED || consumer == MAP_FAILED || event_fd < 0 || !configure(true))
		return false;
	program = find_program();
	if (program < 0)
		return false;
	link = bpf_link_create(program, event_fd, BPF_PERF_EVENT, &options);
	return link >= 0;
}

/* Bytes of what the last slice left in its ring. */
static uint64_t take_bytes(enum mode mode)
{
	uint64_t bytes = 0;

	if (mode == PERF || mode == DWARF) {
		struct perf_event_mmap_page *page = mode == PERF ? perf_page : dwarf_page;

		bytes = __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) - page->data_tail;
		__atomic_store_n(&page->data_tail, page->data_tail + bytes, __ATOMIC_RELEASE);
	} else if (mode != EMPTY) {
		uint64_t pos = __atomic_load_n(&producer->producer_pos, __ATOMIC_ACQUIRE);

		bytes = pos - consumer->consumer_pos;
		__atomic_store_n(&consumer->consumer_pos, pos, __ATOMIC_RELEASE);
	}
	return bytes;
}

/* ---- Slices --------------------------------------------------------------------------------- */

struct slice {
	double ns;
	uint64_t bytes;
};

static struct slice run_slice(enum mode mode)
{
	int fd = mode == EMPTY ? empty_fd : mode == PERF ? perf_fd : mode == DWARF ? dwarf_fd : event_fd;
	struct slice slice = {0};

	take_bytes(mode);
	ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
	slice.ns = now_ns();
	work(DEPTH);
	slice.ns = now_ns() - slice.ns;
	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	slice.bytes = take_bytes(mode);
	return slice;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *value, int values)
{
	qsort(value, values, sizeof(*value), compare);
	return values % 2 ? value[values / 2] : (value[values / 2 - 1] + value[values / 2]) / 2;
}

struct figures {
	double sample_ns[MODES], sample_bytes[MODES];
};

/* What a sample costs in these two modes: the time that a slice grows by, for each period of the work in it. */
static struct figures run_round(enum mode theirs, enum mode mine)
{
	const enum mode modes[] = {EMPTY, theirs, mine};
	static double ns[MODES][SLICES], bytes[MODES][SLICES];
	struct figures figures = {0};
	double plain;

	for (int i = 0; i < SLICES; i++)
		for (unsigned m = 0; m < 3; m++) {
			enum mode mode = modes[m];
			struct slice slice = run_slice(mode);

			ns[mode][i] = slice.ns;
			bytes[mode][i] = slice.bytes / (slice.ns / PERIOD_NS);
		}
	plain = median(ns[EMPTY], SLICES);
	for (unsigned m = 1; m < 3; m++) {
		enum mode mode = modes[m];
		double with = median(ns[mode], SLICES);

		figures.sample_ns[mode] = (with - plain) / (plain / PERIOD_NS);
		figures.sample_bytes[mode] = median(bytes[mode], SLICES);
	}
	return figures;
}

static void print_row(const char *name, const char *unit, const char *peer, double *mine, double *theirs,
		      int rounds, double budget)
{
	double ratios[ROUNDS_MAX], ratio;

	for (int i = 0; i < rounds; i++)
		ratios[i] = mine[i] / theirs[i];
	ratio = median(ratios, rounds);
	printf("{\"name\":\"%s\",\"value\":%.1f,\"unit\":\"%s\",\"peer\":\"%s\","
	       "\"peer_value\":%.1f,\"ratio\":%.3f,\"budget\":", name, median(mine, rounds), unit, peer,
	       median(theirs, rounds), ratio);
	if (budget > 0)
		printf("%.2f", budget);
	else
		printf("null");
	printf(",\"rounds\":%d}\n", rounds);
}

static void prepare(void)
{
	const struct sched_param priority = {.sched_priority = 1};
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(CPU, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus)) {
		printf("SKIP: there is no CPU %d\n", CPU);
		exit(77);
	}
	sched_setscheduler(0, SCHED_FIFO, &priority);
}

/* Files are read, one in a turn, until the source asks for nothing soon. */
static void load_tables(void)
{
	int wait_ms = 0;

	for (int i = 0; i < TABLES_TURNS && (i < 2 || wait_ms < 100); i++) {
		struct pollfd asks = {.events = POLLIN};

		source_bpf.attend(source);
		asks.fd = source_bpf.attention(source, &wait_ms);
		poll(&asks, 1, wait_ms < 100 ? wait_ms : 0);
	}
}

static double ns[MODES][ROUNDS_MAX], bytes[MODES][ROUNDS_MAX];

static void run_rounds(enum mode theirs, enum mode mine, int rounds)
{
	for (int i = 0; i < rounds; i++) {
		struct figures figures = run_round(theirs, mine);

		for (enum mode mode = theirs; mode <= mine; mode++) {
			ns[mode][i] = figures.sample_ns[mode];
			bytes[mode][i] = figures.sample_bytes[mode];
		}
	}
}

int main(int argc, char **argv)
{
	static const char *const chains = "perf's ring with call chains", *const dwarf = "perf's ring with 8 KiB of stack";
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS_DEFAULT;

	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = ROUNDS_DEFAULT;
	prepare();
	if (!perf_open() || !ringtail_open()) {
		printf("SKIP: no perf events, or no BPF: %s\n", strerror(errno));
		return 77;
	}
	run_rounds(PERF, RINGTAIL, rounds);
	load_tables();
	run_rounds(DWARF, TABLES, rounds);
	if (producer->lost_total) {
		fprintf(stderr, "profile: %llu samples were lost\n",
			(unsigned long long)producer->lost_total);
		return 1;
	}
	print_row("profile_sample", "ns", chains, ns[RINGTAIL], ns[PERF], rounds, 1.0);
	print_row("profile_ring_bytes", "B", chains, bytes[RINGTAIL], bytes[PERF], rounds, 0);
	print_row("profile_unwound_sample", "ns", dwarf, ns[TABLES], ns[DWARF], rounds, 0);
	print_row("profile_unwound_ring_bytes", "B", dwarf, bytes[TABLES], bytes[DWARF], rounds, 0);
	configure(false);
	source_bpf.close(source);
	finder_stop(&finder);
	return 0;
}
