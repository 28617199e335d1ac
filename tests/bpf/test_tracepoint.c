/* A tracepoint that is recorded of what the kernel passes to it, with a text, with stacks, and without perf. */
#include <arpa/inet.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tests/bpf/harness.h"

#define TRACEPOINT	"tracepoint:net:net_dev_queue"
#define PACKETS		20
#define HEADERS_BYTES	42	/* Ethernet, IPv4, UDP */

static struct harness harness;

struct seen {
	uint32_t probe, first_bytes;
	unsigned events, stacks;
	bool wants_stack;
};

static void see(void *context, uint32_t cpu, const struct ring_item *item)
{
	struct seen *seen = context;
	const struct rt_attachment *name, *stack;

	(void)cpu;
	if (item->probe != seen->probe)
		return;
	name = harness_attachment(item, 3, RT_ATTACH_STRING, 2);
	stack = harness_attachment(item, 3, RT_ATTACH_KSTACK, 0);
	assert_int_equal(item->tid, gettid());
	assert_true(item->payload[0] >> 48 == 0xffff);
	assert_int_equal(item->payload[1], seen->first_bytes + seen->events + HEADERS_BYTES);
	assert_int_equal(item->payload[2], sizeof("lo"));
	assert_non_null(name);
	assert_int_equal(name->bytes, sizeof("lo"));
	assert_memory_equal(name->data, "lo\0\0\0\0\0", 8);
	assert_int_equal(stack != NULL, seen->wants_stack);
	assert_int_equal(item->words, 3 + 2 + (stack ? 1 + stack->bytes / 8 : 0));
	seen->events++;
	seen->stacks += stack && stack->bytes >= 3 * 8;
}

static int take(void *context, const Ringtail__V1__Probe *probe)
{
	((struct seen *)context)->probe = probe->id;
	return 0;
}

/* Over the loopback, each a byte longer than the one before. */
static void send_packets(uint32_t first_bytes)
{
	struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t length = sizeof(here);
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	char bytes[256] = "";

	assert_int_equal(bind(udp, (void *)&here, sizeof(here)) | getsockname(udp, (void *)&here, &length), 0);
	for (uint32_t i = 0; i < PACKETS; i++)
		assert_int_equal(sendto(udp, bytes, first_bytes + i, 0, (void *)&here, sizeof(here)), first_bytes + i);
	close(udp);
}

/* How many programs of that type this process has loaded. */
static unsigned programs_of(unsigned type)
{
	unsigned count = 0, number;
	char path[64], line[256];

	for (int fd = 3; fd < 1024; fd++) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
		file = fopen(path, "r");
		while (file && fgets(line, sizeof(line), file))
			count += sscanf(line, "prog_type: %u", &number) == 1 && number == type;
		if (file)
			fclose(file);
	}
	return count;
}

static bool preempts_programs(void)
{
	struct utsname name;
	unsigned major = 0;

	assert_int_equal(uname(&name), 0);
	return sscanf(name.release, "%u", &major) == 1 && major >= 7;
}

static void a_record_has_what_is_passed(void **state)
{
	struct seen seen = {.first_bytes = 30};
	struct error error;

	(void)state;
	assert_int_equal(source_bpf.make(harness.source, TRACEPOINT, take, &seen, &error), 0);
	for (int flags = 0; flags < 2; flags++) {
		struct source_request request = {.flags = flags ? RT_FLAG_KSTACK : 0};

		harness_want(&request, seen.probe);
		harness_want_pid(&request, (uint32_t)getpid());
		harness_configure(&harness, &request);
		if (!preempts_programs())
			assert_int_equal(programs_of(BPF_PROG_TYPE_TRACEPOINT), 0);
		seen.events = 0;
		seen.wants_stack = flags;
		send_packets(seen.first_bytes);
		harness_drain(&harness, see, &seen);
		assert_int_equal(seen.events, PACKETS);
		assert_int_equal(seen.stacks, flags ? PACKETS : 0);
	}
	assert_int_equal(harness.lost, 0);
	harness_reset(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_record_has_what_is_passed),
	};
	cpu_set_t here;
	int failed;

	/* The rings are read one after another: on one CPU, in the order of what was sent. */
	CPU_ZERO(&here);
	CPU_SET(sched_getcpu(), &here);
	if (sched_setaffinity(0, sizeof(here), &here)) {
		perror("sched_setaffinity");
		return 1;
	}
	harness_open(&harness, 1 << 22);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	harness_close(&harness);
	return failed ? 1 : 0;
}
