/*
 * What the BPF producer counts instead of recording it: as many as there were, by result, and each event either counted
 * or recorded, whenever a request changes what is wanted.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "tests/bpf/harness.h"

#define CALL(name)	(RT_PROBE_SYSCALL_CALL + SYS_##name)
#define CALLS		harness_fewer(100000)
#define CHANGES		harness_fewer(60)

static struct harness harness;

/* Of one probe: counted since the test began, and recorded. */
struct seen {
	uint16_t probe;
	uint64_t good, bad, recorded, recorded_bad;
	uint64_t duration_ns;	/* of the last that was recorded */
};

static void see_record(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct seen *seen = context;

	(void)cpu;
	if (item->probe != seen->probe)
		return;
	seen->recorded++;
	seen->recorded_bad += item->payload[1] >= (uint64_t)-RT_ERRNO_MAX;
	seen->duration_ns = item->payload[0];
}

static void take(struct seen *seen)
{
	struct ring_counted counted;

	harness_drain(&harness, see_record, seen);
	for (unsigned i = 0; i < harness.rings; i++)
		if (ring_reader_take_counted(harness.ring[i].reader, &counted, 1)) {
			assert_int_equal(counted.probe, seen->probe);
			seen->good += counted.good;
			seen->bad += counted.bad;
			harness.ring[i].seq += counted.good + counted.bad;
		}
}

static void want_mine(struct source_request *request, uint16_t probe, bool counted)
{
	memset(request, 0, sizeof(*request));
	harness_want(request, probe);
	harness_want_pid(request, getpid());
	if (counted)
		request->counted[probe / 8] |= (uint8_t)(1u << probe % 8);
}

static void watch(struct seen *seen)
{
	for (unsigned i = 0; i < harness.rings; i++) {
		ring_reader_unwatch_counted(harness.ring[i].reader);
		assert_true(ring_reader_watch_counted(harness.ring[i].reader, seen->probe));
	}
	take(seen);
	*seen = (struct seen){.probe = seen->probe};
}

static void calls_are_counted_by_result_and_leave_no_record(void **state)
{
	struct seen seen = {.probe = CALL(close)};
	struct source_request request;

	(void)state;
	watch(&seen);
	want_mine(&request, seen.probe, true);
	harness_configure(&harness, &request);
	for (unsigned i = 0; i < CALLS; i++)
		syscall(SYS_close, -1);
	for (unsigned i = 0; i < CALLS / 10; i++)
		syscall(SYS_close, syscall(SYS_dup, 0));
	take(&seen);
	harness_reset(&harness);
	assert_int_equal(seen.bad, CALLS);
	assert_int_equal(seen.good, CALLS / 10);
	assert_int_equal(seen.recorded, 0);
}

static void *call_for_long(void *context)
{
	unsigned *calls = context;

	for (; !__atomic_load_n(&calls[1], __ATOMIC_ACQUIRE); calls[0]++)
		syscall(SYS_getppid);
	return NULL;
}

/* Requests change amid calls, on another CPU where there is one. */
static void each_call_is_either_counted_or_recorded(void **state)
{
	struct seen seen = {.probe = CALL(getppid)};
	struct source_request request;
	unsigned calls[2] = {0}, before;
	pthread_t thread;

	(void)state;
	watch(&seen);
	want_mine(&request, seen.probe, true);
	harness_configure(&harness, &request);
	assert_int_equal(pthread_create(&thread, NULL, call_for_long, calls), 0);
	for (unsigned i = 0; i < CHANGES; i++) {
		want_mine(&request, seen.probe, i % 2);
		harness_configure(&harness, &request);
		before = __atomic_load_n(&calls[0], __ATOMIC_RELAXED);
		while (__atomic_load_n(&calls[0], __ATOMIC_RELAXED) - before < 200)
			take(&seen);
	}
	__atomic_store_n(&calls[1], 1, __ATOMIC_RELEASE);
	pthread_join(thread, NULL);
	take(&seen);
	harness_reset(&harness);
	assert_true(seen.good && seen.recorded);
	assert_int_equal(seen.bad, 0);
	assert_int_equal(seen.good + seen.recorded + harness.lost, calls[0]);
}

static void nobody_else_is_counted(void **state)
{
	struct seen seen = {.probe = CALL(getppid)};
	struct source_request request;

	(void)state;
	watch(&seen);
	want_mine(&request, seen.probe, true);
	request.clause[0].pid = 1;
	harness_configure(&harness, &request);
	for (unsigned i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	take(&seen);
	harness_reset(&harness);
	assert_int_equal(seen.good + seen.bad + seen.recorded, 0);
}

/* Where somebody wants returns of every thread, the programs refuse nobody: then whose call it was must be recorded. */
static void nobody_else_is_counted_beside_returns(void **state)
{
	const uint16_t beside = RT_PROBE_SYSCALL_RETURN + SYS_getuid;
	struct seen seen = {.probe = CALL(getppid)};
	struct source_request request;

	(void)state;
	watch(&seen);
	want_mine(&request, seen.probe, true);
	request.clause[0].pid = 1;
	harness_want(&request, beside);
	request.unfiltered[beside / 8] |= (uint8_t)(1u << beside % 8);
	harness_configure(&harness, &request);
	for (unsigned i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	take(&seen);
	assert_int_equal(seen.good + seen.bad, 0);
	/* Everybody's are counted all the same. */
	request.unfiltered[seen.probe / 8] |= (uint8_t)(1u << seen.probe % 8);
	harness_configure(&harness, &request);
	for (unsigned i = 0; i < 1000; i++)
		syscall(SYS_getppid);
	take(&seen);
	harness_reset(&harness);
	assert_true(seen.good >= 1000);
}

/* ---- A call that waits while the request changes ----------------------------------------------- */

/* A thread that reads one byte at once, and waits for others. */
struct waiting {
	int reads;
	int pipe[2];
	pthread_t thread;
	pid_t tid;
};

static void *read_all(void *context)
{
	struct waiting *waiting = context;
	char byte;

	__atomic_store_n(&waiting->tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
	for (int i = 0; i < waiting->reads; i++)
		if (syscall(SYS_read, waiting->pipe[0], &byte, 1) != 1)
			abort();
	return NULL;
}

/* /proc says in which call a thread waits, and with what; "running" if in none. */
static bool waits_in_read(const struct waiting *waiting)
{
	char path[64], said[256] = "", wanted[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", __atomic_load_n(&waiting->tid, __ATOMIC_ACQUIRE));
	snprintf(wanted, sizeof(wanted), "%d 0x%x ", SYS_read, (unsigned)waiting->pipe[0]);
	file = fopen(path, "r");
	if (file && !fgets(said, sizeof(said), file))
		said[0] = '\0';
	if (file)
		fclose(file);
	return strncmp(said, wanted, strlen(wanted)) == 0;
}

/* That many of its reads are over then, and the next has begun. */
static void wait_after(struct waiting *waiting, struct seen *seen, uint64_t reads)
{
	while (seen->good + seen->recorded < reads || !waits_in_read(waiting)) {
		take(seen);
		sched_yield();
	}
}

static void begin_reading(struct waiting *waiting, struct seen *seen)
{
	assert_int_equal(pipe(waiting->pipe), 0);
	assert_int_equal(write(waiting->pipe[1], "1", 1), 1);
	assert_int_equal(pthread_create(&waiting->thread, NULL, read_all, waiting), 0);
	wait_after(waiting, seen, 1);
}

static void end_reading(struct waiting *waiting)
{
	assert_int_equal(write(waiting->pipe[1], "9", 1), 1);
	assert_int_equal(pthread_join(waiting->thread, NULL), 0);
	close(waiting->pipe[0]);
	close(waiting->pipe[1]);
}

/* Its thread alone: the harness itself reads /proc. */
static void want_reads(struct source_request *request, bool counted)
{
	want_mine(request, CALL(read), counted);
	request->clause[0].tid_op = RT_FILTER_NE;
	request->clause[0].tid = (uint32_t)getpid();
}

/* Nobody knows when it began: it lasts from when such calls are recorded. */
static void a_call_that_began_to_be_counted_is_recorded(void **state)
{
	struct seen seen = {.probe = CALL(read)};
	struct waiting waiting = {.reads = 2};
	struct source_request request;
	uint64_t before_ns, wanted_ns, ends_ns;

	(void)state;
	watch(&seen);
	want_reads(&request, true);
	harness_configure(&harness, &request);
	begin_reading(&waiting, &seen);
	before_ns = clock_monotonic();
	want_reads(&request, false);
	harness_configure(&harness, &request);
	wanted_ns = clock_monotonic();
	take(&seen);
	assert_int_equal(seen.recorded, 0);
	ends_ns = clock_monotonic();
	end_reading(&waiting);
	take(&seen);
	assert_int_equal(seen.good, 1);
	assert_int_equal(seen.recorded, 1);
	assert_in_range(seen.duration_ns, ends_ns - wanted_ns, clock_monotonic() - before_ns);
	harness_reset(&harness);
	assert_int_equal(harness_counter(&harness, offsetof(struct rt_ring_producer, unpaired)), 0);
}

/* And the other way round: it is counted, for no record of it is wanted any more. */
static void a_call_that_began_to_be_recorded_is_counted(void **state)
{
	struct seen seen = {.probe = CALL(read)};
	struct waiting waiting = {.reads = 2};
	struct source_request request;

	(void)state;
	watch(&seen);
	want_reads(&request, true);
	harness_configure(&harness, &request);
	want_reads(&request, false);
	harness_configure(&harness, &request);
	begin_reading(&waiting, &seen);
	want_reads(&request, true);
	harness_configure(&harness, &request);
	end_reading(&waiting);
	take(&seen);
	harness_reset(&harness);
	assert_int_equal(seen.good, 1);
	assert_int_equal(seen.recorded, 1);
}

/* The thread that waits, as the source tells of it; false: it does not. */
static bool ask_stuck(const struct waiting *waiting, uint64_t longer_than_ns, struct source_stuck *answer,
		      struct source_stuck_thread *thread)
{
	int fd = memfd_create("stuck", 0);
	struct error error;
	bool found = false;

	assert_true(fd >= 0);
	assert_int_equal(source_bpf.stuck(harness.source, longer_than_ns, fd, answer, &error), 0);
	for (uint64_t i = 0; i < answer->threads && !found; i++) {
		assert_int_equal(pread(fd, thread, sizeof(*thread), (off_t)(i * sizeof(*thread))), sizeof(*thread));
		found = thread->tid == (uint32_t)waiting->tid;
	}
	close(fd);
	return found;
}

/* Not even that of the thread's last call that was recorded. */
static void a_counted_call_has_no_beginning(void **state)
{
	struct seen seen = {.probe = CALL(read)};
	struct waiting waiting = {.reads = 3};
	struct source_stuck_thread thread;
	struct source_request request;
	struct source_stuck answer;

	(void)state;
	watch(&seen);
	want_reads(&request, false);
	harness_configure(&harness, &request);
	begin_reading(&waiting, &seen);
	want_reads(&request, true);
	harness_configure(&harness, &request);
	assert_int_equal(write(waiting.pipe[1], "2", 1), 1);
	wait_after(&waiting, &seen, 2);
	assert_true(ask_stuck(&waiting, 0, &answer, &thread));
	assert_int_equal(thread.since_ns, 0);
	assert_int_equal(thread.before_ns, 0);
	assert_false(ask_stuck(&waiting, 1, &answer, &thread));
	assert_true(answer.undated > 0);
	want_reads(&request, false);
	harness_configure(&harness, &request);
	assert_true(ask_stuck(&waiting, 0, &answer, &thread));
	assert_int_equal(thread.since_ns, 0);
	end_reading(&waiting);
	harness_reset(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_counted_by_result_and_leave_no_record),
		cmocka_unit_test(each_call_is_either_counted_or_recorded),
		cmocka_unit_test(nobody_else_is_counted),
		cmocka_unit_test(nobody_else_is_counted_beside_returns),
		cmocka_unit_test(a_call_that_began_to_be_counted_is_recorded),
		cmocka_unit_test(a_call_that_began_to_be_recorded_is_counted),
		cmocka_unit_test(a_counted_call_has_no_beginning),
	};
	int failed;

	harness_open(&harness, 1 << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
