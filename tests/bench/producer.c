/*
 * producer: what one recorded system call costs, beside ftrace, in one run.
 *
 * In: nothing; it must be root. Out: JSON lines on stdout, one for each figure, and a table on
 * stderr. Exit 77 with a reason where BPF or ftrace may not.
 *
 *	thread on CPU 0, thread on CPU 1:  getppid x CALLS, timed  =  a slice
 *	main: attach a mode | slices on one CPU | slices on both | detach    x every mode x rounds
 *
 * The cost of a mode is the median slice with it less the median slice without, of the same round.
 * Rings are emptied between slices by moving the consumer position: what reading costs is another
 * benchmark's, and a slice fits a ring, so nothing may be lost. ftrace has an instance of its own,
 * in overwrite mode and unread, so that no tracing state of the machine changes.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/bpf.h>

#include "daemon/source/source.h"

#define CALLS		2000		/* in a slice: 80 KB of records */
#define SLICES		24		/* in a round, of each mode */
#define ROUNDS_DEFAULT	15
#define ROUNDS_MAX	500
#define WORKERS		2
#define RING_BYTES	(1u << 18)
#define INSTANCE_PATTERN "/sys/kernel/tracing/instances/ringtail_bench.%d"
#define GETPPID_PROBE	(RT_PROBE_SYSCALL_CALL + SYS_getppid)

enum mode {
	MODE_UNTRACED,
	MODE_EMPTY,
	MODE_FTRACE,
	MODE_RINGTAIL,
	MODE_RINGTAIL_FILTERED,
	MODE_RINGTAIL_OTHER,
	MODES,
};

static const char *const mode_name[MODES] = {
	"untraced", "empty BPF pair", "ftrace raw_syscalls", "ringtail call",
	"ringtail call, pid filter", "ringtail, another pid",
};

/* ---- the work ------------------------------------------------------------------------------- */

struct worker {
	pthread_t thread;
	int cpu;
	double slice_ns[SLICES];	/* per call */
};

static struct worker worker[WORKERS];
static pthread_barrier_t start, end, gate;
static int active_workers;		/* who works in this part; set between barriers */
static bool finished;
static struct ring_map {
	struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
} ring_map[RT_CPUS_MAX];
static unsigned rings;

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* Each worker empties its own CPU's ring: nothing of its own is unfinished there. */
static void empty_ring(int cpu)
{
	__atomic_store_n(&ring_map[cpu].consumer->consumer_pos,
			 __atomic_load_n(&ring_map[cpu].producer->producer_pos, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELEASE);
}

static double run_slice(void)
{
	double before = now_ns();

	for (int i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	return (now_ns() - before) / CALLS;
}

/* Real-time where that is allowed, so that others on this machine disturb a slice less. */
static void *worker_main(void *arg)
{
	const struct sched_param priority = { .sched_priority = 1 };
	struct worker *self = arg;
	cpu_set_t cpus;

	pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority);
	CPU_ZERO(&cpus);
	CPU_SET(self->cpu, &cpus);
	pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus);
	for (;;) {
		pthread_barrier_wait(&start);
		if (finished)
			return NULL;
		if (self - worker < active_workers) {
			if (active_workers > 1)
				pthread_barrier_wait(&gate);
			for (int i = 0; i < SLICES; i++) {
				empty_ring(self->cpu);
				self->slice_ns[i] = run_slice();
			}
		}
		pthread_barrier_wait(&end);
	}
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *value, int values)
{
	qsort(value, values, sizeof(*value), compare_doubles);
	return values % 2 ? value[values / 2] : (value[values / 2 - 1] + value[values / 2]) / 2;
}

/* The median slice of `workers` threads at once. */
static double measure(int workers)
{
	double all[WORKERS * SLICES];

	active_workers = workers;
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&end);
	for (int i = 0; i < workers; i++)
		memcpy(all + i * SLICES, worker[i].slice_ns, sizeof(worker[i].slice_ns));
	return median(all, workers * SLICES);
}

/* ---- the peers ------------------------------------------------------------------------------ */

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return written;
}

static char instance[64];	/* its directory; the pid is in the name: two benchmarks may run */

static bool ftrace_enable(bool on)
{
	static const char *const event[] = { "sys_enter", "sys_exit" };
	char path[160];

	for (int i = 0; i < 2; i++) {
		snprintf(path, sizeof(path), "%s/events/raw_syscalls/%s/enable", instance, event[i]);
		if (!write_file(path, on ? "1" : "0"))
			return false;
	}
	return true;
}

static int empty_program[2], empty_link[2];

/* Two programs that do nothing, at the tracepoints that ringtail uses. */
static bool empty_load(void)
{
	static const char *const at[2] = { "sys_enter", "sys_exit" };
	static const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	for (int i = 0; i < 2; i++) {
		LIBBPF_OPTS(bpf_prog_load_opts, options,
			    .expected_attach_type = BPF_TRACE_RAW_TP);
		int id = libbpf_find_vmlinux_btf_id(at[i], BPF_TRACE_RAW_TP);

		if (id < 0)
			return false;
		options.attach_btf_id = id;
		empty_program[i] = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "GPL", nothing, 2,
						 &options);
		if (empty_program[i] < 0)
			return false;
	}
	return true;
}

static bool empty_enable(bool on)
{
	for (int i = 0; i < 2; i++) {
		if (!on)
			close(empty_link[i]);
		else if ((empty_link[i] = bpf_raw_tracepoint_open(NULL, empty_program[i])) < 0)
			return false;
	}
	return true;
}

/* ---- ringtail ------------------------------------------------------------------------------- */

static struct source *source;

static bool ringtail_open(void)
{
	const struct source_config config = { .ring_bytes = RING_BYTES, .excluded_pids = { 1 } };
	struct ring_handle ring;
	struct error error;

	if (source_bpf.open(&config, &source, &error)) {
		fprintf(stderr, "producer: %s: %s; %s\n", error.code, error.what, error.hint);
		return false;
	}
	for (; !source_bpf.ring(source, rings, &ring); rings++) {
		ring_map[rings].producer = mmap(NULL, ring.ring_bytes, PROT_READ, MAP_SHARED,
						ring.ring_fd, ring.ring_offset);
		ring_map[rings].consumer = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE,
						MAP_SHARED, ring.consumer_fd, ring.consumer_offset);
		if (ring_map[rings].producer == MAP_FAILED || ring_map[rings].consumer == MAP_FAILED)
			return false;
	}
	return true;
}

static bool ringtail_enable(bool on, uint32_t pid)
{
	struct source_request request = { 0 };
	struct error error;

	if (on)
		request.probes[GETPPID_PROBE / 8] |= 1u << GETPPID_PROBE % 8;
	if (on && pid) {
		request.clauses = 1;
		request.clause[0] = (struct rt_filter_clause){ .pid_op = RT_FILTER_EQ, .pid = pid };
	}
	if (!source_bpf.configure(source, &request, &error))
		return true;
	fprintf(stderr, "producer: %s: %s\n", error.code, error.what);
	return false;
}

static uint64_t ringtail_lost(void)
{
	uint64_t lost = 0;

	for (unsigned i = 0; i < rings; i++)
		lost += ring_map[i].producer->lost_total;
	return lost;
}

static bool mode_enable(enum mode mode, bool on)
{
	switch (mode) {
	case MODE_EMPTY:
		return empty_enable(on);
	case MODE_FTRACE:
		return ftrace_enable(on);
	case MODE_RINGTAIL:
		return ringtail_enable(on, 0);
	case MODE_RINGTAIL_FILTERED:
		return ringtail_enable(on, getpid());
	case MODE_RINGTAIL_OTHER:
		return ringtail_enable(on, 1);
	case MODE_UNTRACED:
	case MODES:
		break;
	}
	return true;
}

/* ---- results -------------------------------------------------------------------------------- */

static double call_ns[WORKERS][MODES][ROUNDS_MAX];	/* [workers - 1] */

struct figure {
	double value, spread;	/* median, median distance from it */
};

static struct figure figure_of(const double *value, int rounds)
{
	double sorted[ROUNDS_MAX];
	struct figure figure;

	memcpy(sorted, value, rounds * sizeof(*value));
	figure.value = median(sorted, rounds);
	for (int i = 0; i < rounds; i++)
		sorted[i] = value[i] > figure.value ? value[i] - figure.value :
						      figure.value - value[i];
	figure.spread = median(sorted, rounds);
	return figure;
}

/* What a mode adds to a call, round by round. */
static void costs(int workers, enum mode mode, int rounds, double *cost)
{
	for (int i = 0; i < rounds; i++)
		cost[i] = call_ns[workers - 1][mode][i] - call_ns[workers - 1][MODE_UNTRACED][i];
}

static void print_row(const char *name, const double *cost, const char *peer,
		      const double *peer_cost, int rounds)
{
	struct figure mine = figure_of(cost, rounds), theirs = figure_of(peer_cost, rounds), ratio;
	double ratios[ROUNDS_MAX];

	for (int i = 0; i < rounds; i++)
		ratios[i] = cost[i] / peer_cost[i];
	ratio = figure_of(ratios, rounds);
	printf("{\"name\":\"%s\",\"value\":%.1f,\"unit\":\"ns\",\"peer\":\"%s\",\"peer_value\":%.1f,"
	       "\"ratio\":%.3f,\"rounds\":%d,\"spread\":%.1f,\"peer_spread\":%.1f,\"ratio_spread\":%.3f}\n",
	       name, mine.value, peer, theirs.value, ratio.value, rounds, mine.spread, theirs.spread,
	       ratio.spread);
}

static void print_results(int rounds)
{
	static double cost[WORKERS][MODES][ROUNDS_MAX];

	for (int workers = 1; workers <= WORKERS; workers++)
		for (int mode = 0; mode < MODES; mode++) {
			struct figure figure = figure_of(call_ns[workers - 1][mode], rounds);

			costs(workers, mode, rounds, cost[workers - 1][mode]);
			fprintf(stderr, "%d CPU%s %-28s %7.1f ns a call (+- %.1f), adds %6.1f\n",
				workers, workers > 1 ? "s" : " ", mode_name[mode], figure.value,
				figure.spread, figure_of(cost[workers - 1][mode], rounds).value);
		}
	print_row("producer_call_1cpu", cost[0][MODE_RINGTAIL], mode_name[MODE_FTRACE],
		  cost[0][MODE_FTRACE], rounds);
	print_row("producer_call_filtered_1cpu", cost[0][MODE_RINGTAIL_FILTERED],
		  mode_name[MODE_FTRACE], cost[0][MODE_FTRACE], rounds);
	print_row("producer_other_pid_1cpu", cost[0][MODE_RINGTAIL_OTHER], mode_name[MODE_FTRACE],
		  cost[0][MODE_FTRACE], rounds);
	print_row("producer_empty_pair_1cpu", cost[0][MODE_EMPTY], mode_name[MODE_FTRACE],
		  cost[0][MODE_FTRACE], rounds);
	print_row("producer_call_2cpu", cost[1][MODE_RINGTAIL], "ringtail on one CPU",
		  cost[0][MODE_RINGTAIL], rounds);
	print_row("producer_call_2cpu_ftrace", cost[1][MODE_RINGTAIL], mode_name[MODE_FTRACE],
		  cost[1][MODE_FTRACE], rounds);
}

static int skip(const char *why)
{
	printf("SKIP: %s\n", why);
	return 77;
}

static bool run_rounds(int rounds)
{
	for (int round = 0; round < rounds; round++)
		for (int i = 0; i < MODES; i++) {
			enum mode mode = (i + round) % MODES;

			if (!mode_enable(mode, true))
				return false;
			measure(1);	/* warm caches and the thread's introduction */
			for (int workers = 1; workers <= WORKERS; workers++)
				call_ns[workers - 1][mode][round] = measure(workers);
			if (!mode_enable(mode, false))
				return false;
		}
	return true;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS_DEFAULT;
	bool good;

	if (rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: producer [rounds, 1 to %d]\n", ROUNDS_MAX);
		return 2;
	}
	if (sysconf(_SC_NPROCESSORS_ONLN) < WORKERS)
		return skip("two CPUs are needed");
	if (!ringtail_open() || !empty_load())
		return skip("BPF programs may not be loaded here");
	snprintf(instance, sizeof(instance), INSTANCE_PATTERN, getpid());
	if (mkdir(instance, 0700))
		return skip("no tracefs to make an instance in");
	pthread_barrier_init(&start, NULL, WORKERS + 1);
	pthread_barrier_init(&end, NULL, WORKERS + 1);
	pthread_barrier_init(&gate, NULL, WORKERS);
	for (int i = 0; i < WORKERS; i++) {
		worker[i].cpu = i;
		pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]);
	}
	good = run_rounds(rounds);
	finished = true;
	pthread_barrier_wait(&start);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(worker[i].thread, NULL);
	rmdir(instance);
	if (good && ringtail_lost()) {
		fprintf(stderr, "producer: %llu records were lost: the slices do not fit\n",
			(unsigned long long)ringtail_lost());
		good = false;
	}
	if (good)
		print_results(rounds);
	source_bpf.close(source);
	return good ? 0 : 1;
}
