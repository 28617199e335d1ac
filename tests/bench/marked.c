/*
 * marked: a program whose function and mark are probed, and how long they take it.
 *
 *	marked		then a line on stdin for each turn: `function N`, `mark N` or `guard N`
 *
 * The first line on stdout is the pid. Each turn is answered by ns for one of N calls of work(), of N marks that are
 * reached whatever the semaphore says, or of N looks at the semaphore of a mark that nobody records.
 */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CALLS_MAX	2000000000l

unsigned short bench_reached_semaphore __attribute__((section(".probes"), used));
unsigned short bench_guarded_semaphore __attribute__((section(".probes"), used));

/* It begins with what the kernel can emulate, as most functions do (a push): to step over another takes microseconds. */
__attribute__((noinline, patchable_function_entry(1))) long work(long a, long b);

long work(long a, long b)
{
	__asm__ volatile("" : "+r"(a), "+r"(b));
	return a + b;
}

static double now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void call(long n)
{
	for (long i = 0; i < n; i++)
		work(i, 5);
}

static void mark(long n)
{
	for (long i = 0; i < n; i++)
		STAP_PROBE4(bench, reached, i, 2, i + 1, n);
}

static void guard(long n)
{
	for (long i = 0; i < n; i++)
		if (__builtin_expect(*(volatile unsigned short *)&bench_guarded_semaphore, 0))
			STAP_PROBE4(bench, guarded, i, 2, i + 1, n);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(long n);
	} turns[] = {{"function", call}, {"mark", mark}, {"guard", guard}};
	char line[64], name[16];
	long n;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%d\n", getpid());
	while (fgets(line, sizeof(line), stdin)) {
		if (sscanf(line, "%15s %ld", name, &n) != 2 || n < 1 || n > CALLS_MAX)
			return 2;
		for (size_t i = 0; i < sizeof(turns) / sizeof(turns[0]); i++) {
			double start = now_ns();

			if (strcmp(name, turns[i].name) != 0)
				continue;
			turns[i].run(n);
			printf("%.3f\n", (now_ns() - start) / (double)n);
		}
	}
	return 0;
}
