/*
 * kmod_bench: what one getppid costs inside the virtual machine, in ns of its clock.
 *
 *	kmod_bench plain CALLS		as things are
 *	kmod_bench call CALLS		under the module: one record for each call
 *	kmod_bench pair CALLS		entry and return apart
 *	kmod_bench refused CALLS	a filter that lets nothing pass
 *
 * Prints one number. The ring holds all records, and nobody reads: what is measured is the
 * producer.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/kmod/guest.h"

#define WARM_UP 1000

static double loop(uint64_t calls)
{
	struct timespec from, to;

	for (int i = 0; i < WARM_UP; i++)
		syscall(SYS_getppid);
	clock_gettime(CLOCK_MONOTONIC, &from);
	for (uint64_t i = 0; i < calls; i++)
		syscall(SYS_getppid);
	clock_gettime(CLOCK_MONOTONIC, &to);
	return ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) /
	       (double)calls;
}

static double under_module(const char *how, uint64_t calls)
{
	struct rt_stats stats;
	struct guest guest;
	double ns;

	guest_open(&guest, 16u << 20, RT_POLICY_DROP);
	guest.config.flags = RT_CONFIG_SELF;
	check_control(guest.fd, RT_IOC_SET_CONFIG, &guest.config);
	if (strcmp(how, "pair") == 0)
		guest_start(&guest, 0, 0, RT_PROBE_SYSCALL_ENTRY + SYS_getppid,
			    RT_PROBE_SYSCALL_RETURN + SYS_getppid, 0);
	else
		guest_start(&guest, strcmp(how, "call") ? 1 : 0, 0,
			    RT_PROBE_SYSCALL_CALL + SYS_getppid, 0);
	ns = loop(calls);
	check_control(guest.fd, RT_IOC_STOP, NULL);
	check_control(guest.fd, RT_IOC_STATS, &stats);
	check_equal(stats.lost_total, 0);
	check(strcmp(how, "refused") == 0 || stats.records >= calls);
	guest_close(&guest);
	return ns;
}

int main(int argc, char **argv)
{
	uint64_t calls = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;

	if (!calls)
		return 2;
	pin(0);
	printf("%.1f\n", strcmp(argv[1], "plain") ? under_module(argv[1], calls) : loop(calls));
	return 0;
}
