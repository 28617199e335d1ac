/* What the kernel refuses to run a program for is lost in a ring, as often as the kernel says. */
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

/* A function of the kernel that a program itself calls when it introduces a thread: there it meets itself. */
#define FUNCTION	"fentry:strncpy_from_kernel_nofault"
#define THREADS		50

static struct harness harness;

struct told {
	uint64_t calls;
};

static void count(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct told *told = context;

	(void)cpu;
	told->calls += item->probe == RT_PROBE_SYSCALL_CALL + SYS_getppid;
}

static int want(void *context, const Ringtail__V1__Probe *probe)
{
	harness_want(context, probe->id);
	return 0;
}

/* The kernel's own count, of the programs that this process has loaded: not by way of the source. */
static uint64_t kernel_count(void)
{
	uint64_t misses = 0;
	char path[64], line[256];

	for (int fd = 3; fd < 1024; fd++) {
		FILE *file;
		unsigned long long number;
		bool is_program = false;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file)) {
			is_program |= sscanf(line, "prog_type: %llu", &number) == 1;
			if (is_program && sscanf(line, "recursion_misses: %llu", &number) == 1)
				misses += number;
		}
		if (file)
			fclose(file);
	}
	return misses;
}

static void *call(void *context)
{
	syscall(SYS_getppid);
	return context;
}

static uint64_t lost_as(enum rt_lost reason)
{
	return harness_counter(&harness, offsetof(struct rt_ring_producer, lost) + reason * sizeof(uint64_t));
}

static void what_is_refused_is_lost_in_a_ring(void **state)
{
	const struct source_request nothing = {0};
	struct source_request request = {0};
	struct source_stats stats;
	struct told told = {0};
	uint64_t refused, lost;
	struct error error;

	(void)state;
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_getppid);
	harness_want_pid(&request, getpid());
	if (source_bpf.make(harness.source, FUNCTION, want, &request, &error)) {
		printf("# %s: %s\n", error.code, error.what);
		skip();
	}
	if (source_bpf.configure(harness.source, &request, &error)) {
		printf("# %s: %s\n", error.code, error.what);
		skip();
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, call, NULL), 0);
		pthread_join(thread, NULL);
	}
	/* Programs that nobody wants anything of call nothing that they could meet themselves in. */
	harness_configure(&harness, &nothing);
	lost = lost_as(RT_LOST_REFUSED);
	refused = kernel_count();
	assert_int_equal(source_bpf.stats(harness.source, &stats), 0);
	assert_int_equal(stats.recursion_lost, 0);
	harness_drain(&harness, count, &told);
	assert_true(refused >= THREADS);
	assert_int_equal(lost, 0);
	assert_int_equal(lost_as(RT_LOST_REFUSED), refused);
	assert_int_equal(harness.lost, refused);
	assert_int_equal(told.calls, THREADS);
	/* Once: what is told is not told again. */
	assert_int_equal(source_bpf.stats(harness.source, &stats), 0);
	assert_int_equal(lost_as(RT_LOST_REFUSED), kernel_count());
	harness_reset(&harness);
}

static void every_ring_adds_up(void **state)
{
	(void)state;
	for (unsigned i = 0; i < harness.rings; i++) {
		struct ring_usage usage;

		ring_reader_usage(harness.ring[i].reader, &usage);
		assert_int_equal(usage.produced, usage.records + usage.lost[RT_LOST_REFUSED] + usage.in_flight);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused_is_lost_in_a_ring),
		cmocka_unit_test(every_ring_adds_up),
	};
	int failed;

	harness_open(&harness, 1 << 22);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
