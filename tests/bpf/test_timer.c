/* profile:hz:*, interval:* and the maps of processes whose stacks are taken. */
#include <elf.h>
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

#define PROFILE		(RT_PROBE_TIMER + RT_TIMER_PROFILE_99HZ)
#define INTERVAL	(RT_PROBE_TIMER + RT_TIMER_INTERVAL_1S)
#define BUSY_NS		500000000ll

static struct harness harness;

struct seen {
	uint32_t tid;
	unsigned samples, others, idle, in_code, stacks, ticks, maps;
	uint64_t periods, code, build_id[3];
	bool map_of_code;
	char path[RT_STRING_BYTES_MAX + 1];
};

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static int64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

#define BURN_BYTES_MAX	2048	/* of code, with a sanitizer's in it */

/*
 * For that long, and until a busy machine has let it run for half as long. Returns how long it took. The frame of this
 * function is in every stack while it burns.
 */
static __attribute__((noinline)) int64_t burn(int64_t ns)
{
	int64_t begin = now_ns(), cpu_end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns / 2;
	volatile unsigned count = 0;

	while (now_ns() < begin + ns || clock_ns(CLOCK_THREAD_CPUTIME_ID) < cpu_end)
		for (unsigned i = 0; i < 100000; i++)
			count++;
	return now_ns() - begin;
}

static void see_sample(struct seen *seen, const struct ring_item *item)
{
	const uint64_t *payload = item->payload;

	seen->idle += item->tid == 0;
	if (item->tid != seen->tid) {
		seen->others++;
		return;
	}
	assert_true((payload[0] == 0) != (payload[1] == 0));
	assert_true(payload[2] >= 1);
	seen->samples++;
	seen->periods += payload[2];
	seen->in_code += payload[1] - (uintptr_t)burn < BURN_BYTES_MAX;
	seen->stacks += harness_attachment(item, 3, RT_ATTACH_USTACK, 0) != NULL;
}

static void see_map(struct seen *seen, const struct ring_item *item)
{
	const struct rt_attachment *path = harness_attachment(item, 10, RT_ATTACH_STRING, 8);

	seen->maps++;
	if (seen->code - item->payload[0] >= item->payload[1])
		return;
	seen->map_of_code = true;
	memcpy(seen->build_id, item->payload + 3, sizeof(seen->build_id));
	if (path)
		snprintf(seen->path, sizeof(seen->path), "%.*s", (int)path->bytes, (char *)path->data);
}

static void see(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct seen *seen = context;

	(void)cpu;
	if (item->probe == PROFILE)
		see_sample(seen, item);
	else if (item->probe == INTERVAL)
		seen->ticks += item->payload[0] >= 1;
	else if (item->probe == RT_PROBE_PROCESS_MAP && item->tid == seen->tid)
		see_map(seen, item);
}

static struct seen seen_of_this(void)
{
	return (struct seen){ .tid = (uint32_t)syscall(SYS_gettid), .code = (uintptr_t)burn };
}

static void a_busy_thread_is_sampled_99_times_a_second_and_the_idle_ones_are_not(void **state)
{
	struct source_request request = { .generation = 1 };
	struct seen seen = seen_of_this();
	int64_t took_ns;

	(void)state;
	harness_want(&request, PROFILE);
	harness_configure(&harness, &request);
	took_ns = burn(BUSY_NS);
	harness_drain(&harness, see, &seen);
	/* On a loaded machine it runs for a part of the time. */
	assert_in_range(seen.samples, 5, took_ns * 99 / 1000000000 + 10);
	assert_in_range(seen.periods, seen.samples, took_ns * 99 / 1000000000 + 15);
	assert_true(seen.in_code > 0);
	assert_int_equal(seen.idle, 0);
	harness_reset(&harness);
	seen = seen_of_this();
	burn(BUSY_NS / 4);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.samples + seen.others, 0);
}

static void a_profile_with_a_filter_samples_that_process_alone(void **state)
{
	struct source_request request = { .generation = 1 };
	struct seen seen = seen_of_this();

	(void)state;
	harness_want(&request, PROFILE);
	harness_want_pid(&request, (uint32_t)getpid());
	harness_configure(&harness, &request);
	burn(BUSY_NS);
	harness_drain(&harness, see, &seen);
	assert_true(seen.samples > 0);
	assert_int_equal(seen.others, 0);
	harness_reset(&harness);
}

static void an_interval_ticks_once_in_its_time(void **state)
{
	struct source_request request = { .generation = 1 };
	struct seen seen = seen_of_this();
	int64_t begin;

	(void)state;
	harness_want(&request, INTERVAL);
	begin = now_ns();
	harness_configure(&harness, &request);
	while (seen.ticks < 2 && now_ns() < begin + 20000000000ll) {
		poll(NULL, 0, 50);
		harness_drain(&harness, see, &seen);
	}
	assert_in_range(seen.ticks, 2, (now_ns() - begin) / 1000000000 + 1);
	harness_reset(&harness);
}

/* The build-id of this program, as three words. */
static int own_build_id(struct dl_phdr_info *info, size_t bytes, void *context)
{
	uint64_t *build_id = context;

	(void)bytes;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];
		const char *at = (const char *)info->dlpi_addr + header->p_vaddr;
		const char *end = at + header->p_memsz;

		while (header->p_type == PT_NOTE && at + sizeof(ElfW(Nhdr)) < end) {
			const ElfW(Nhdr) *note = (const void *)at;

			if (note->n_type == NT_GNU_BUILD_ID && note->n_descsz == 20)
				memcpy(build_id, at + sizeof(*note) + 4, 20);
			at += sizeof(*note) + ((note->n_namesz + 3) & ~3u) + ((note->n_descsz + 3) & ~3u);
		}
	}
	return 1;		/* the first is the program itself */
}

static void the_maps_of_a_process_with_a_stack_are_told_with_build_ids(void **state)
{
	struct source_request request = { .generation = 1, .flags = RT_FLAG_USTACK };
	struct seen seen = seen_of_this();
	uint64_t build_id[3] = { 0 };
	struct pollfd asks = { .events = POLLIN };
	int timeout_ms;

	(void)state;
	harness_want(&request, PROFILE);
	harness_want_pid(&request, (uint32_t)getpid());
	harness_configure(&harness, &request);
	burn(BUSY_NS);
	asks.fd = source_bpf.attention(harness.source, &timeout_ms);
	assert_int_equal(poll(&asks, 1, 1000), 1);
	assert_true(timeout_ms > 0);
	source_bpf.attend(harness.source);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.stacks, seen.samples);
	assert_true(seen.map_of_code);
	assert_non_null(strstr(seen.path, "test_timer"));
	dl_iterate_phdr(own_build_id, build_id);
	assert_memory_equal(build_id, seen.build_id, 20);
	/* They are told once, while nothing changes. */
	seen.maps = 0;
	burn(BUSY_NS / 2);
	source_bpf.attend(harness.source);
	harness_drain(&harness, see, &seen);
	assert_int_equal(seen.maps, 0);
	/* A new request is another reader's, who was told nothing. */
	request.generation++;
	harness_configure(&harness, &request);
	burn(BUSY_NS / 2);
	source_bpf.attend(harness.source);
	harness_drain(&harness, see, &seen);
	assert_true(seen.maps > 0);
	harness_reset(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_busy_thread_is_sampled_99_times_a_second_and_the_idle_ones_are_not),
		cmocka_unit_test(a_profile_with_a_filter_samples_that_process_alone),
		cmocka_unit_test(an_interval_ticks_once_in_its_time),
		cmocka_unit_test(the_maps_of_a_process_with_a_stack_are_told_with_build_ids),
	};
	int failed;

	harness_open(&harness, 1 << 20);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed != 0;
}
