/*
 * load: a known number of system calls, on known CPUs, from processes whose pids are known first.
 *
 *	load [-n CALLS] [-P PROCESSES] [--pin[=CPU,CPU...]] [--rate CALLS] [--pause]
 *
 * CALLS getppid calls in all, shared out evenly. Process i runs on the i-th of the pinned CPUs,
 * which without a list are all of them in turn. Two JSON lines go to stdout: the pids, before
 * anything is called (and with --pause nothing is until a byte comes on stdin, so that a filter
 * can name them), then counts and times. Between the two each process makes its getppid calls,
 * one read before and one write after, and nothing else; with --rate, so many in a second of all
 * processes together, it also sleeps each few milliseconds. Single-threaded throughout.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES_MAX	256
#define CALLS_MAX	UINT64_C(100000000000)
#define RATE_MAX	UINT64_C(1000000000)
#define NS_PER_S	UINT64_C(1000000000)
#define CHUNKS_PER_S	200		/* with --rate, calls come in so many bursts */

struct options {
	uint64_t calls;
	uint64_t rate;		/* per second; 0: as fast as it goes */
	unsigned processes;
	bool pause;
	unsigned cpu[PROCESSES_MAX];	/* where process i runs, by i % cpus */
	unsigned cpus;			/* 0: anywhere */
};

struct result {
	uint64_t calls;
	uint64_t wrong;		/* calls that did not return the parent's pid */
	uint64_t start_ns, end_ns;
};

struct process {
	pid_t pid;
	uint64_t calls;
	struct result result;
};

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static uint64_t parse_number(const char *text, uint64_t max, const char *what)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || end == text || *end || *text == '-' || value > max) {
		fprintf(stderr, "load: %s: '%s' is not a number from 0 to %" PRIu64 "\n", what, text,
			max);
		exit(2);
	}
	return value;
}

/* "0,1", or every CPU this process may use when there is no list. */
static void parse_cpus(char *list, struct options *options)
{
	cpu_set_t allowed;

	if (list) {
		for (char *cpu = strtok(list, ","); cpu && options->cpus < PROCESSES_MAX;
		     cpu = strtok(NULL, ","))
			options->cpu[options->cpus++] =
				(unsigned)parse_number(cpu, CPU_SETSIZE - 1, "--pin");
		return;
	}
	if (sched_getaffinity(0, sizeof(allowed), &allowed))
		die("sched_getaffinity");
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && options->cpus < PROCESSES_MAX; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			options->cpu[options->cpus++] = cpu;
}

static void parse_options(int argc, char **argv, struct options *options)
{
	static const struct option names[] = {
		{"calls", required_argument, NULL, 'n'},
		{"processes", required_argument, NULL, 'P'},
		{"pin", optional_argument, NULL, 'p'},
		{"rate", required_argument, NULL, 'r'},
		{"pause", no_argument, NULL, 'w'},
		{NULL, 0, NULL, 0},
	};
	int name;

	*options = (struct options){.calls = 1000000, .processes = 1};
	while ((name = getopt_long(argc, argv, "n:P:", names, NULL)) != -1) {
		switch (name) {
		case 'n':
			options->calls = parse_number(optarg, CALLS_MAX, "-n");
			break;
		case 'P':
			options->processes = (unsigned)parse_number(optarg, PROCESSES_MAX, "-P");
			break;
		case 'p':
			parse_cpus(optarg, options);
			break;
		case 'r':
			options->rate = parse_number(optarg, RATE_MAX, "--rate");
			break;
		case 'w':
			options->pause = true;
			break;
		default:
			exit(2);
		}
	}
	if (optind < argc || !options->processes) {
		fprintf(stderr, "usage: load [-n CALLS] [-P PROCESSES] [--pin[=CPU,...]] "
				"[--rate CALLS] [--pause]\n");
		exit(2);
	}
}

static void pin(unsigned cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

/* What a child does between the byte that starts it and the result it leaves. */
static struct result make_calls(uint64_t calls, uint64_t rate, pid_t parent)
{
	uint64_t chunk = rate ? rate / CHUNKS_PER_S + 1 : calls;
	struct result result = {.calls = calls};

	result.start_ns = now_ns();
	for (uint64_t i = 0; i < calls; i++) {
		result.wrong += syscall(SYS_getppid) != parent;
		if (rate && (i + 1) % chunk == 0)
			sleep_until(result.start_ns + (i + 1) * NS_PER_S / rate);
	}
	result.end_ns = now_ns();
	return result;
}

static void child(uint64_t calls, uint64_t rate, pid_t parent, int start, int done)
{
	struct result result;
	char byte;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(start, &byte, 1) != 1)
		_exit(1);
	result = make_calls(calls, rate, parent);
	_exit(write(done, &result, sizeof(result)) != sizeof(result));
}

static void start_processes(const struct options *options, struct process *process, int *start,
			    int (*done)[2])
{
	pid_t parent = getpid();

	for (unsigned i = 0; i < options->processes; i++) {
		process[i].calls = options->calls / options->processes +
				   (i < options->calls % options->processes);
		if (pipe(done[i]))
			die("pipe");
		process[i].pid = fork();
		if (process[i].pid < 0)
			die("fork");
		if (!process[i].pid) {
			close(start[1]);
			if (options->cpus)
				pin(options->cpu[i % options->cpus]);
			child(process[i].calls, options->rate / options->processes, parent,
			      start[0], done[i][1]);
		}
		close(done[i][1]);
	}
	close(start[0]);
}

static void print_pids(const struct options *options, const struct process *process)
{
	printf("{\"pids\":[");
	for (unsigned i = 0; i < options->processes; i++)
		printf("%s%d", i ? "," : "", process[i].pid);
	printf("]}\n");
	fflush(stdout);
}

static void collect(const struct options *options, struct process *process, int (*done)[2])
{
	for (unsigned i = 0; i < options->processes; i++) {
		if (read(done[i][0], &process[i].result, sizeof(process[i].result)) !=
		    sizeof(process[i].result)) {
			fprintf(stderr, "load: process %d ended early\n", process[i].pid);
			exit(1);
		}
		waitpid(process[i].pid, NULL, 0);
	}
}

static int print_result(const struct options *options, const struct process *process)
{
	uint64_t first_ns = UINT64_MAX, last_ns = 0, busy_ns = 0, wrong = 0;

	for (unsigned i = 0; i < options->processes; i++) {
		const struct result *result = &process[i].result;

		first_ns = result->start_ns < first_ns ? result->start_ns : first_ns;
		last_ns = result->end_ns > last_ns ? result->end_ns : last_ns;
		busy_ns += result->end_ns - result->start_ns;
		wrong += result->wrong;
	}
	printf("{\"calls\":%" PRIu64 ",\"wrong\":%" PRIu64 ",\"processes\":%u,\"elapsed_ns\":%" PRIu64
	       ",\"ns_per_call\":%.2f,\"process\":[", options->calls, wrong, options->processes,
	       last_ns - first_ns, options->calls ? (double)busy_ns / (double)options->calls : 0);
	for (unsigned i = 0; i < options->processes; i++)
		printf("%s{\"pid\":%d,\"calls\":%" PRIu64 ",\"start_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64
		       "}", i ? "," : "", process[i].pid, process[i].calls,
		       process[i].result.start_ns, process[i].result.end_ns);
	printf("]}\n");
	return wrong ? 1 : 0;
}

int main(int argc, char **argv)
{
	static struct options options;
	static struct process process[PROCESSES_MAX];
	static char go[PROCESSES_MAX];
	static int done[PROCESSES_MAX][2];
	int start[2];
	char byte;

	parse_options(argc, argv, &options);
	if (pipe(start))
		die("pipe");
	start_processes(&options, process, start, done);
	print_pids(&options, process);
	if (options.pause && read(STDIN_FILENO, &byte, 1) != 1) {
		fprintf(stderr, "load: stdin ended before the byte that starts it\n");
		return 1;	/* the children find the start pipe closed */
	}
	if (write(start[1], go, options.processes) != (ssize_t)options.processes)
		die("write");
	collect(&options, process, done);
	return print_result(&options, process);
}
