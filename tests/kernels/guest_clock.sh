# guest_clock: how fast the clock of a virtual machine runs; for scripts to read in.
#
# The guest's TSC is the host's. A guest that measures it while the host is busy measures a fraction: its clock
# then runs some times too fast, and every time limit in it is as much shorter. So it is told.

# guest_clock FILE: prints what the guest's kernel is to be told; nothing, without a compiler. FILE is written.
guest_clock() {
	if gcc -O1 -x c -o "$1" - 2>/dev/null <<'MEASURE'
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>
static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC_RAW, &time);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}
int main(void)
{
	double begin = now(), end;
	unsigned long long first = __rdtsc(), last;

	do {
		end = now();
		last = __rdtsc();
	} while (end - begin < 0.3);
	printf("%.0f\n", (double)(last - first) / (end - begin) / 1000);
	return 0;
}
MEASURE
	then
		echo "tsc_early_khz=$("$1")"
	fi
}
