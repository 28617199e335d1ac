/*
 * busy: burns processor time in a known chain of calls, for witnesses of profiles:
 *
 *	main > busy_outer > busy_middle > busy_twice	two thirds of the time
 *	main > busy_outer > busy_once			one third
 *
 * usage: busy MILLISECONDS, of processor time: on a loaded machine it takes longer, and is sampled as often
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 20000u

static volatile uint64_t result;

/* Of equal cost; the frame of each is made because it calls another. */
static __attribute__((noinline)) void nothing(void)
{
	__asm__ volatile("");
}

static __attribute__((noinline)) void busy_twice(void)
{
	uint64_t x = result | 1;

	nothing();
	for (unsigned i = 0; i < 2 * ROUNDS; i++)
		x = x * 6364136223846793005u + i;
	result = x;
}

static __attribute__((noinline)) void busy_once(void)
{
	uint64_t x = result | 3;

	nothing();
	for (unsigned i = 0; i < ROUNDS; i++)
		x = x * 6364136223846793005u + i;
	result = x;
}

static __attribute__((noinline)) void busy_middle(void)
{
	busy_twice();
	result++;
}

static __attribute__((noinline)) void busy_outer(void)
{
	busy_middle();
	busy_once();
	result++;
}

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000ll + now.tv_nsec / 1000000;
}

int main(int argc, char **argv)
{
	int64_t end;

	if (argc != 2) {
		fprintf(stderr, "usage: busy MILLISECONDS\n");
		return 2;
	}
	end = now_ms() + atoi(argv[1]);
	while (now_ms() < end)
		busy_outer();
	return 0;
}
