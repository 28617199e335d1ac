#include "tests/bpf/harness.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static bool may_not(const struct error *error)
{
	static const char *const code[] = { "bpf-no-capability", "bpf-not-in-kernel",
					    "bpf-not-permitted", "bpf-no-btf", NULL };

	for (const char *const *c = code; *c; c++)
		if (!strcmp(error->code, *c))
			return true;
	return false;
}

static void ring_open(struct harness_ring *ring)
{
	struct error error;

	ring->map_bytes = ring->source.ring_bytes;
	ring->producer = mmap(NULL, ring->map_bytes, PROT_READ, MAP_SHARED, ring->source.ring_fd,
			      ring->source.ring_offset);
	assert_ptr_not_equal(ring->producer, MAP_FAILED);
	ring->consumer = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			      ring->source.consumer_fd, ring->source.consumer_offset);
	assert_ptr_not_equal(ring->consumer, MAP_FAILED);
	if (ring_reader_create(ring->producer, ring->map_bytes, ring->consumer, &ring->reader, &error))
		fail_msg("%s: %s", error.code, error.what);
	ring->known = calloc(HARNESS_TIDS_MAX / 8, 1);
	assert_non_null(ring->known);
}

static void open_with(struct harness *harness, const struct source_config *config)
{
	struct error error;
	int err;

	memset(harness, 0, sizeof(*harness));
	err = source_bpf.open(config, &harness->source, &error);
	if (err && may_not(&error)) {
		printf("SKIP: %s; %s\n", error.what, error.hint);
		exit(77);
	}
	if (err)
		fail_msg("%s: %s", error.code, error.what);
	while (harness->rings < HARNESS_CPUS_MAX &&
	       !source_bpf.ring(harness->source, harness->rings,
				&harness->ring[harness->rings].source))
		ring_open(&harness->ring[harness->rings++]);
	assert_true(harness->rings > 0);
}

void harness_open_excluding(struct harness *harness, uint64_t ring_bytes, uint32_t pid)
{
	open_with(harness, &(struct source_config){ .ring_bytes = ring_bytes, .excluded_pids = { 0, pid } });
}

void harness_open_finding(struct harness *harness, uint64_t ring_bytes, struct finder *finder)
{
	open_with(harness, &(struct source_config){ .ring_bytes = ring_bytes, .finder = finder });
}

void harness_open(struct harness *harness, uint64_t ring_bytes)
{
	harness_open_excluding(harness, ring_bytes, 0);
}

void harness_close(struct harness *harness)
{
	for (unsigned i = 0; i < harness->rings; i++) {
		struct harness_ring *ring = &harness->ring[i];

		ring_reader_destroy(ring->reader);
		munmap((void *)ring->producer, ring->map_bytes);
		munmap(ring->consumer, RT_PAGE_BYTES);
		free(ring->known);
	}
	source_bpf.close(harness->source);
}

void harness_want(struct source_request *request, uint32_t probe)
{
	request->probes[probe / 8] |= 1u << probe % 8;
}

void harness_want_pid(struct source_request *request, uint32_t pid)
{
	request->clause[request->clauses++] =
		(struct rt_filter_clause){ .pid_op = RT_FILTER_EQ, .pid = pid };
}

void harness_want_comm(struct source_request *request, const char *comm)
{
	struct rt_filter_clause *clause = &request->clause[request->clauses++];

	*clause = (struct rt_filter_clause){ .comm_op = RT_FILTER_EQ };
	memcpy(clause->comm, comm, strlen(comm));
}

void harness_configure(struct harness *harness, const struct source_request *request)
{
	struct error error;

	if (source_bpf.configure(harness->source, request, &error))
		fail_msg("%s: %s", error.code, error.what);
}

/* ---- reading -------------------------------------------------------------------------------- */

static void expect_known(const struct harness_ring *ring, uint32_t tid, uint16_t probe)
{
	if (tid >= HARNESS_TIDS_MAX || !(ring->known[tid / 8] & 1u << tid % 8))
		fail_msg("CPU %u, event 0x%x: thread %u was not introduced", ring->source.cpu, probe,
			 tid);
}

static void learn_thread(struct harness *harness, struct harness_ring *ring,
			 const struct ring_item *item)
{
	const struct rt_thread *thread = (const void *)item->payload;

	assert_int_equal(item->words * 8, sizeof(*thread));
	assert_true(item->tid < HARNESS_TIDS_MAX);
	if (thread->flags & RT_THREAD_EXITED) {	/* twice if an interrupt came in between */
		ring->known[item->tid / 8] &= ~(1u << item->tid % 8);
		return;
	}
	ring->known[item->tid / 8] |= 1u << item->tid % 8;
	if (thread->exe)
		assert_non_null(harness_text(harness, thread->exe));
	if (thread->cgroup)
		assert_non_null(harness_text(harness, thread->cgroup));
	if (harness->thread)
		harness->thread(harness, item->tid, thread);
	harness->last_thread = *thread;
	harness->last_thread_tid = item->tid;
}

static void learn_text(struct harness *harness, const struct ring_item *item)
{
	const struct rt_text *text = (const void *)item->payload;

	assert_true(text->id && text->bytes <= RT_TEXT_BYTES_MAX);
	assert_int_equal(item->words, (sizeof(*text) + text->bytes + 7) / 8);
	for (unsigned i = text->bytes; i < item->words * 8 - sizeof(*text); i++)
		assert_int_equal(text->data[i], 0);
	harness->texts++;
	for (unsigned i = 0; i < HARNESS_TEXTS_MAX; i++) {
		struct harness_text *to = &harness->text[i];

		if (to->id && to->id != text->id)
			continue;
		to->id = text->id;
		memcpy(to->text, text->data, text->bytes);
		to->text[text->bytes] = '\0';
		return;
	}
	fail_msg("more than %d texts", HARNESS_TEXTS_MAX);
}

const char *harness_text(const struct harness *harness, uint64_t id)
{
	for (unsigned i = 0; i < HARNESS_TEXTS_MAX; i++)
		if (id && harness->text[i].id == id)
			return harness->text[i].text;
	return NULL;
}

static void check_event(const struct harness_ring *ring, const struct ring_item *item)
{
	expect_known(ring, item->tid, item->probe);
	switch (item->probe) {
	case RT_PROBE_SCHED_SWITCH:
		expect_known(ring, item->payload[2], item->probe);
		break;
	case RT_PROBE_SCHED_WAKEUP:
	case RT_PROBE_SCHED_FORK:
		expect_known(ring, item->payload[0], item->probe);
		break;
	}
}

/* The reader passes over sub-buffer headers, which are numbered too: holes it explains, none back. */
static void take_record(struct harness *harness, struct harness_ring *ring,
			const struct ring_item *item, harness_event event, void *context)
{
	assert_true(item->seq >= ring->seq);
	assert_true(item->time_ns >= ring->time_ns);
	ring->seq = item->seq + 1;
	ring->time_ns = item->time_ns;
	harness->records++;
	if (item->probe == RT_PROBE_THREAD) {
		learn_thread(harness, ring, item);
		return;
	}
	if (item->probe == RT_PROBE_TEXT) {
		learn_text(harness, item);
		return;
	}
	if (item->probe == RT_PROBE_LOSS) {
		assert_int_equal(item->words, RT_LOSS_WORDS);
		if (harness->loss)
			harness->loss(harness, (const void *)item->payload);
		return;
	}
	check_event(ring, item);
	if (event)
		event(context, ring->source.cpu, item);
}

static void drain_ring(struct harness *harness, struct harness_ring *ring, harness_event event,
		       void *context)
{
	struct ring_item item;

	for (;;) {
		switch (ring_reader_next(ring->reader, &item)) {
		case RING_RECORD:
			take_record(harness, ring, &item, event, context);
			break;
		case RING_LOST:
			assert_true(item.seq >= ring->seq);
			ring->seq = item.seq + item.count;
			harness->lost += item.count;
			break;
		case RING_CORRUPT:
			fail_msg("CPU %u: the ring is corrupt", ring->source.cpu);
			return;
		case RING_EMPTY:
			ring_reader_release(ring->reader);
			return;
		}
	}
}

void harness_drain(struct harness *harness, harness_event event, void *context)
{
	for (unsigned i = 0; i < harness->rings; i++)
		drain_ring(harness, &harness->ring[i], event, context);
}

void harness_reset(struct harness *harness)
{
	const struct source_request nothing = { 0 };

	harness_configure(harness, &nothing);
	harness_drain(harness, NULL, NULL);
	for (unsigned i = 0; i < harness->rings; i++)
		memset(harness->ring[i].known, 0, HARNESS_TIDS_MAX / 8);
}

uint64_t harness_counter(const struct harness *harness, size_t offset)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < harness->rings; i++)
		sum += *(const volatile uint64_t *)((const char *)harness->ring[i].producer + offset);
	return sum;
}

const struct rt_attachment *harness_attachment(const struct ring_item *item, unsigned fixed,
					       enum rt_attachment_kind kind, unsigned arg)
{
	unsigned word = fixed;

	while (word < item->words) {
		const struct rt_attachment *attachment = (const void *)&item->payload[word];

		word += 1 + (attachment->bytes + 7) / 8;
		assert_true(word <= item->words);
		if (attachment->kind == kind && attachment->arg == arg)
			return attachment;
	}
	return NULL;
}

unsigned harness_fewer(unsigned times)
{
	const char *text = getenv("RINGTAIL_FEWER");
	unsigned by = text ? (unsigned)strtoul(text, NULL, 10) : 1;

	return by > 1 ? (times + by - 1) / by : times;
}

void harness_pin(unsigned cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	assert_int_equal(sched_setaffinity(0, sizeof(cpus), &cpus), 0);
}
