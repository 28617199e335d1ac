/*
 * What the kernel's verifier has to do before the programs may run, in instructions that it goes through.
 * That is most of what a start costs, and grows unseen: a branch in a loop, or a function that is not
 * verified_once, multiplies it.
 */
#include "tests/bpf/harness.h"

#include <bpf/bpf.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ONE_MAX		32000	/* of one program; sys_enter, which looks descriptors up, takes most on 6.1 */
#define ALL_MAX		144000	/* of all: 6.1 goes through 128,534, 6.18 through 126,574 */
#define PROGRAMS_MIN	15	/* all of them, and one that is made on request */

struct counted {
	unsigned programs;
	unsigned long instructions;
};

/* Whether the descriptor is a program's; then what the kernel says of it. */
static bool describe(int fd, struct bpf_prog_info *info)
{
	char path[64], link[64] = "";
	uint32_t bytes = sizeof(*info);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (readlink(path, link, sizeof(link) - 1) < 0 || strcmp(link, "anon_inode:bpf-prog"))
		return false;
	memset(info, 0, sizeof(*info));
	assert_int_equal(bpf_obj_get_info_by_fd(fd, info, &bytes), 0);
	return true;
}

static struct counted count_programs(void)
{
	struct counted counted = {};
	struct bpf_prog_info info;
	struct dirent *entry;
	DIR *directory = opendir("/proc/self/fd");

	assert_non_null(directory);
	while ((entry = readdir(directory))) {
		if (!describe(atoi(entry->d_name), &info))
			continue;
		print_message("%-16s %6u instructions verified\n", info.name, info.verified_insns);
		assert_true(info.verified_insns > 0);
		if (info.verified_insns > ONE_MAX)
			fail_msg("%s: the verifier goes through %u instructions, at most %u", info.name,
				 info.verified_insns, ONE_MAX);
		counted.instructions += info.verified_insns;
		counted.programs++;
	}
	closedir(directory);
	return counted;
}

static int want(void *request, const Ringtail__V1__Probe *probe)
{
	harness_want(request, probe->id);
	return 0;
}

/* The kernel has a program when somebody has wanted what it records: here, everything. */
static void want_everything(struct harness *harness)
{
	struct source_request request = {.flags = RT_FLAG_USTACK};
	struct source_stuck answer;
	struct error error;
	int nothing;

	if (source_bpf.make(harness->source, "tracepoint:sched:sched_waking", want, &request, &error))
		fail_msg("%s: %s", error.code, error.what);
	for (uint32_t probe = RT_PROBE_SCHED_SWITCH; probe <= RT_PROBE_SCHED_EXIT; probe++)
		harness_want(&request, probe);
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_getppid);
	harness_want(&request, RT_PROBE_TIMER + RT_TIMER_PROFILE_99HZ);
	harness_configure(harness, &request);
	nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);
	assert_true(nothing >= 0);
	if (source_bpf.stuck(harness->source, 0, nothing, &answer, &error))
		fail_msg("%s: %s", error.code, error.what);
	close(nothing);
}

static void programs_are_verified_quickly(void **state)
{
	struct harness harness;
	struct counted counted;

	(void)state;
	harness_open(&harness, RT_RING_BYTES_MIN);
	want_everything(&harness);
	counted = count_programs();
	harness_close(&harness);
	print_message("%lu of %u programs\n", counted.instructions, counted.programs);
	assert_true(counted.programs >= PROGRAMS_MIN);
	assert_true(counted.instructions <= ALL_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(programs_are_verified_quickly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
