/*
 * marker: system calls that can be recognised afterwards, at random times, and when each was made.
 *
 *	marker COUNT GAP_MS_MAX SEED
 *
 * The n-th is close(MARKER_FD_BASE + n), which fails with EBADF and disturbs nothing. Before it the
 * program waits a random time up to GAP_MS_MAX, so that no timer of a tracer is met in phase. Once
 * all are made, one line "fd time_ns" each goes to stdout; the time is CLOCK_MONOTONIC just before
 * the call. The first line, printed at once, is the pid; a byte on stdin starts it.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define MARKER_FD_BASE	1000000000
#define COUNT_MAX	100000

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int main(int argc, char **argv)
{
	static uint64_t called_ns[COUNT_MAX];
	long count, gap_ns_max;
	char byte;

	if (argc != 4) {
		fprintf(stderr, "usage: marker COUNT GAP_MS_MAX SEED\n");
		return 2;
	}
	count = atol(argv[1]);
	gap_ns_max = atol(argv[2]) * 1000000;
	srandom((unsigned)atol(argv[3]));
	if (count < 1 || count > COUNT_MAX || gap_ns_max < 1 || gap_ns_max > 999999999) {
		fprintf(stderr, "marker: COUNT is 1 to %d, GAP_MS_MAX 1 to 999\n", COUNT_MAX);
		return 2;
	}
	printf("%d\n", getpid());
	fflush(stdout);
	if (read(STDIN_FILENO, &byte, 1) != 1)
		return 1;
	for (long n = 0; n < count; n++) {
		struct timespec gap = {.tv_nsec = random() % gap_ns_max};

		nanosleep(&gap, NULL);
		called_ns[n] = now_ns();
		syscall(SYS_close, MARKER_FD_BASE + n);
	}
	for (long n = 0; n < count; n++)
		printf("%ld %" PRIu64 "\n", MARKER_FD_BASE + n, called_ns[n]);
	return 0;
}
