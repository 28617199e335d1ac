/* What the kernel refuses to run a program for is lost in a ring, as often as the kernel says, of the probe it was. */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "tests/bpf/harness.h"

/* A tracepoint that fires in another's program, each time that this calls a helper. */
#define TRACEPOINT	"tracepoint:bpf_trace:bpf_trace_printk"
#define LOG		"events/bpf_trace/bpf_trace_printk/enable"
#define CALLS		50

/* One that does not fire here. */
#define NEVER		"tracepoint:sched:sched_process_hang"

/* A function of the kernel that a program itself calls when it introduces a thread: there it meets itself. */
#define FUNCTION	"fentry:strncpy_from_kernel_nofault"
#define THREADS		50

static struct harness harness;

struct told {
	uint64_t calls, events;		/* of getppid, of the probe */
	uint64_t lost, nobodys, others;	/* of the probe, of none, of others */
	uint32_t probe;
};

static struct told told;

static void count(void *context, uint32_t cpu, const struct ring_item *item)
{
	(void)context;
	(void)cpu;
	told.calls += item->probe == RT_PROBE_SYSCALL_CALL + SYS_getppid;
	told.events += item->probe == told.probe;
}

static void count_loss(struct harness *of, const struct rt_loss *loss)
{
	bool ours = loss->first == told.probe && loss->last == told.probe && loss->reason == RT_LOST_REFUSED;

	(void)of;
	told.lost += ours;
	told.nobodys += loss->first == RT_PROBE_LOSS;
	told.others += !ours && loss->first != RT_PROBE_LOSS;
}

static int want(void *context, const Ringtail__V1__Probe *probe)
{
	told.probe = probe->id;
	harness_want(context, probe->id);
	return 0;
}

/* So many questions about a program fail; the kernel refused each program, it seems, so many more times. */
static unsigned infos_failing, misses_more;

int __real_bpf_obj_get_info_by_fd(int fd, void *info, __u32 *bytes);
int __wrap_bpf_obj_get_info_by_fd(int fd, void *info, __u32 *bytes);
int __wrap_bpf_obj_get_info_by_fd(int fd, void *info, __u32 *bytes)
{
	int err;

	if (infos_failing) {
		infos_failing--;
		errno = ENODEV;
		return -1;
	}
	err = __real_bpf_obj_get_info_by_fd(fd, info, bytes);
	if (misses_more && !err && *bytes == sizeof(struct bpf_prog_info))
		((struct bpf_prog_info *)info)->recursion_misses += misses_more;
	return err;
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

static bool is_newer(unsigned major, unsigned minor)
{
	unsigned of[2] = {0};
	struct utsname name;

	assert_int_equal(uname(&name), 0);
	assert_int_equal(sscanf(name.release, "%u.%u", &of[0], &of[1]), 2);
	return of[0] > major || (of[0] == major && of[1] >= minor);
}

/* Whether the kernel has a name for the guard that any_refused looks at. */
static bool has_guard(void)
{
	FILE *file = fopen("/proc/kallsyms", "r");
	char line[512];
	bool found = false;

	assert_non_null(file);
	while (!found && fgets(line, sizeof(line), file))
		found = strstr(line, " bpf_prog_active\n");
	fclose(file);
	return found;
}

/* ---- Another's program ------------------------------------------------------------------------ */

struct another {
	int runs;		/* a map: how often it has run */
	int event;
};

#define INSN(op, to, from, by, number) \
	((struct bpf_insn){.code = (op), .dst_reg = (to), .src_reg = (from), .off = (by), .imm = (number)})

/* In an interrupt, for each millisecond that this thread runs: takes the guard, and calls bpf_trace_printk("x"). */
static void attach_another(struct another *another)
{
	int map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "runs", 4, 8, 1, NULL);
	struct bpf_insn insn[] = {
		INSN(BPF_ST | BPF_MEM | BPF_DW, 10, 0, -8, 'x'),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 1, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 1, 0, 0, -8),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 2, 0, 0, 2),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_trace_printk),
		INSN(BPF_ST | BPF_MEM | BPF_W, 10, 0, -8, 0),
		INSN(BPF_LD | BPF_IMM | BPF_DW, 1, BPF_PSEUDO_MAP_FD, 0, map),
		INSN(0, 0, 0, 0, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_X, 2, 10, 0, 0),
		INSN(BPF_ALU64 | BPF_ADD | BPF_K, 2, 0, 0, -8),
		INSN(BPF_JMP | BPF_CALL, 0, 0, 0, BPF_FUNC_map_lookup_elem),
		INSN(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 2, 0),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 1, 0, 0, 1),
		INSN(BPF_STX | BPF_ATOMIC | BPF_DW, 0, 1, 0, BPF_ADD),
		INSN(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, 0),
		INSN(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
	};
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE, .size = sizeof(attr), .config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = 1000000, .disabled = 1,
	};
	int program = bpf_prog_load(BPF_PROG_TYPE_PERF_EVENT, "another", "GPL", insn, sizeof(insn) / sizeof(insn[0]), NULL);

	another->runs = map;
	another->event = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	assert_true(map >= 0);
	assert_true(program >= 0);
	assert_true(another->event >= 0);
	assert_int_equal(ioctl(another->event, PERF_EVENT_IOC_SET_BPF, program), 0);
	assert_int_equal(ioctl(another->event, PERF_EVENT_IOC_ENABLE, 0), 0);
	close(program);
}

static uint64_t runs_of(const struct another *another)
{
	uint32_t key = 0;
	uint64_t runs;

	assert_int_equal(bpf_map_lookup_elem(another->runs, &key, &runs), 0);
	return runs;
}

/* Returns how often it has run, which it does no more. */
static uint64_t detach_another(const struct another *another)
{
	uint64_t runs;

	close(another->event);
	runs = runs_of(another);
	close(another->runs);
	return runs;
}

/* ---- The kernel's log of that tracepoint ------------------------------------------------------- */

static char tracefs[] = "/tmp/ringtail-tracefs-XXXXXX";

/* The test's own: not every machine has one mounted. */
static void mount_tracefs(void)
{
	if (!mkdtemp(tracefs) || mount("none", tracefs, "tracefs", 0, NULL)) {
		perror(tracefs);
		exit(1);
	}
}

static void unmount_tracefs(void)
{
	umount(tracefs);
	rmdir(tracefs);
}

static FILE *open_log(const char *how)
{
	char path[sizeof(tracefs) + sizeof(LOG)];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", tracefs, LOG);
	file = fopen(path, how);
	assert_non_null(file);
	return file;
}

static bool is_logged(void)
{
	FILE *file = open_log("r");
	int is = -1;

	assert_int_equal(fscanf(file, "%d", &is), 1);
	fclose(file);
	return is;
}

/* The kernel switches it on as soon as a program may print, some kernels a little later. */
static void leave_log(bool as_it_was)
{
	FILE *file;

	while (!is_logged())
		usleep(1000);
	if (as_it_was)
		return;
	file = open_log("w");
	fputs("0", file);
	assert_int_equal(fclose(file), 0);
}

/* ---- Tests ------------------------------------------------------------------------------------- */

/*
 * From 6.7 on the kernel counts it; where it has a name for its guard, a second program sees it, in its place. Others
 * may print meanwhile, so that the kernel's own count, which is of all processes, goes up beside us.
 */
static void check_lost(uint64_t runs, uint64_t least)
{
	if (has_guard() || !is_newer(6, 7)) {
		assert_int_equal(told.lost, has_guard() ? runs : 0);
		assert_int_equal(told.nobodys, 0);
	} else {
		assert_true(least >= runs);
		assert_true(told.lost >= least);
		assert_true(told.lost + told.nobodys <= kernel_count());
	}
	/* Of no other probe, and not as the ring's counters have it, where it could be of any. */
	assert_int_equal(told.others, 0);
	assert_int_equal(harness.lost, 0);
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, lost_total)), 0);
}

static uint64_t run_another(void)
{
	struct another another;

	attach_another(&another);
	while (runs_of(&another) < CALLS)
		;
	return detach_another(&another);
}

/* Asks as the engine does, and reads. */
static void look(void)
{
	struct source_stats stats;

	assert_int_equal(source_bpf.stats(harness.source, &stats), 0);
	assert_int_equal(stats.recursion_lost, 0);
	harness_drain(&harness, count, NULL);
}

static void what_another_program_keeps_away_is_lost_of_its_probe(void **state)
{
	const struct source_request nothing = {0};
	struct source_request request = {0};
	bool was_logged = is_logged();
	uint64_t runs, least;
	struct error error;

	(void)state;
	told = (struct told){0};
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_getppid);
	harness_want_pid(&request, getpid());
	if (source_bpf.make(harness.source, TRACEPOINT, want, &request, &error))
		fail_msg("%s: %s", error.code, error.what);
	harness_configure(&harness, &request);
	runs = run_another();
	for (unsigned i = 0; i < CALLS; i++)
		syscall(SYS_getppid);
	least = kernel_count();
	look();
	assert_int_equal(told.calls, CALLS);
	assert_int_equal(told.events, 0);
	check_lost(runs, least);
	/* Once: what is told is not told again. */
	look();
	check_lost(runs, least);
	/* It is of the request that was in force then, not of the one that comes; nobody has to ask, as at the end. */
	runs += run_another();
	least = kernel_count();
	harness_configure(&harness, &nothing);
	harness_drain(&harness, count, NULL);
	check_lost(runs, least);
	look();
	check_lost(runs, least);
	leave_log(was_logged);
}

/* The probe is still attached: whoever asks for it next has lost nothing of that. */
static void what_nobody_wanted_is_lost_of_no_probe(void **state)
{
	const struct source_request nothing = {0};
	struct source_request request = {0};
	bool was_logged = is_logged();
	uint64_t runs, least;

	(void)state;
	harness_want(&request, told.probe);
	harness_want_pid(&request, getpid());
	told = (struct told){.probe = told.probe};
	runs = run_another();
	least = kernel_count();
	harness_configure(&harness, &request);
	harness_configure(&harness, &nothing);
	look();
	if (!has_guard() && is_newer(6, 7))
		assert_true(told.nobodys >= runs);
	else
		assert_int_equal(told.nobodys, 0);
	assert_true(told.lost <= kernel_count() - least);
	assert_int_equal(told.others, 0);
	leave_log(was_logged);
	harness_reset(&harness);
}

/* The count of one program cannot be read: what the others were refused is lost in the ring none the less. */
static void a_count_that_cannot_be_read_hides_no_other(void **state)
{
	struct source_request request = {0};
	struct source_stats stats;
	struct error error;
	int look_ms;

	(void)state;
	told = (struct told){0};
	if (source_bpf.make(harness.source, NEVER, want, &request, &error))
		fail_msg("%s: %s", error.code, error.what);
	harness_configure(&harness, &request);
	infos_failing = 1;
	misses_more = 7;
	assert_int_equal(source_bpf.stats(harness.source, &stats), -ENODEV);
	misses_more = 0;
	assert_int_equal(infos_failing, 0);
	harness_drain(&harness, count, NULL);
	assert_int_equal(told.lost, 7);
	/* It may be refused again: the loader looks by itself, soon. */
	source_bpf.attention(harness.source, &look_ms);
	assert_int_equal(look_ms, 100);
	harness_reset(&harness);
}

static void *call(void *tid)
{
	syscall(SYS_getppid);
	*(pid_t *)tid = gettid();
	return NULL;
}

/* Its end is seen by a program, too, after whoever joins it goes on. */
static void run_to_the_end(void)
{
	char path[64];
	pthread_t thread;
	pid_t tid = 0;

	assert_int_equal(pthread_create(&thread, NULL, call, &tid), 0);
	pthread_join(thread, NULL);
	snprintf(path, sizeof(path), "/proc/self/task/%d", tid);
	for (unsigned i = 0; access(path, F_OK) == 0; i++) {
		assert_true(i < 10000);
		usleep(1000);
	}
}

/* A program meets itself. Not every kernel attaches programs to functions: there it is refused with the reason. */
static void what_a_function_s_program_misses_is_lost_of_its_probe(void **state)
{
	const struct source_request nothing = {0};
	struct source_request request = {0};
	struct source_stats stats;
	uint64_t before = kernel_count(), refused;
	struct error error;

	(void)state;
	told = (struct told){0};
	harness_want(&request, RT_PROBE_SYSCALL_CALL + SYS_getppid);
	harness_want_pid(&request, getpid());
	if (source_bpf.make(harness.source, FUNCTION, want, &request, &error) ||
	    source_bpf.configure(harness.source, &request, &error)) {
		printf("# %s: %s\n", error.code, error.what);
		assert_string_equal(error.code, "fentry-not-here");
		return;
	}
	for (unsigned i = 0; i < THREADS; i++)
		run_to_the_end();
	/* Programs that nobody wants anything of call nothing that they could meet themselves in. */
	harness_configure(&harness, &nothing);
	refused = kernel_count() - before;
	assert_int_equal(source_bpf.stats(harness.source, &stats), 0);
	assert_int_equal(stats.recursion_lost, 0);
	harness_drain(&harness, count, NULL);
	assert_true(refused >= THREADS);
	assert_int_equal(told.lost, refused);
	assert_int_equal(told.calls, THREADS);
	harness_reset(&harness);
}

static void every_ring_adds_up(void **state)
{
	(void)state;
	for (unsigned i = 0; i < harness.rings; i++) {
		struct ring_usage usage;

		ring_reader_usage(harness.ring[i].reader, &usage);
		assert_int_equal(usage.produced, usage.records + usage.in_flight);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_another_program_keeps_away_is_lost_of_its_probe),
		cmocka_unit_test(what_nobody_wanted_is_lost_of_no_probe),
		cmocka_unit_test(a_count_that_cannot_be_read_hides_no_other),
		cmocka_unit_test(what_a_function_s_program_misses_is_lost_of_its_probe),
		cmocka_unit_test(every_ring_adds_up),
	};
	int failed;

	mount_tracefs();
	harness_open(&harness, 1 << 22);
	harness.loss = count_loss;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	unmount_tracefs();
	return failed ? 1 : 0;
}
