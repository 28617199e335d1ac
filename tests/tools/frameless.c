/*
 * frameless: burns processor time below a chain of calls that has no frame pointers, through the C library's qsort(),
 * for witnesses of user stacks:
 *
 *	main > frameless_outer > qsort ... > frameless_compare > frameless_middle > frameless_leaf
 *
 * usage: frameless. It runs until it is killed, or its input ends.
 */
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>

#define ROUNDS	200000u
#define VALUES	16

static volatile uint64_t result;

static __attribute__((noinline)) void frameless_leaf(uint64_t seed)
{
	uint64_t x = seed | 1;

	for (unsigned i = 0; i < ROUNDS; i++)
		x = x * 6364136223846793005u + i;
	result = x;
}

static __attribute__((noinline)) void frameless_middle(uint64_t seed)
{
	volatile char large[300];

	large[5] = (char)seed;
	frameless_leaf(seed);
	result += (uint64_t)large[5];
}

static int frameless_compare(const void *a, const void *b)
{
	frameless_middle(*(const unsigned *)a);
	return *(const int *)a - *(const int *)b;
}

static __attribute__((noinline)) void frameless_outer(void)
{
	int value[VALUES];

	for (int i = 0; i < VALUES; i++)
		value[i] = i * 7 % VALUES;
	qsort(value, VALUES, sizeof(value[0]), frameless_compare);
	result += (uint64_t)value[0];
}

int main(void)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	while (!poll(&input, 1, 0))
		frameless_outer();
	return 0;
}
