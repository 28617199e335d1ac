/*
 * drain: what a worker spends on each event: ring to frames, without the kernel's share, the mailbox
 * and the sockets. Events of a recording are written into a ring, untimed, and drained, timed, a ring
 * full at a time; one CPU of the recording after the other, as each has its own ring.
 *	usage: drain FILE [ROUNDS [meter]]; with a meter beside the batcher
 * Prints one line of JSON: CPU ns and wire bytes for each event, best and median of the rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/base/clock.h"
#include "daemon/collect/drain.h"
#include "daemon/source/recording.h"
#include "daemon/ring/writer.h"

#define RING_BYTES	(1u << 20)
#define ROUNDS_MAX	99

static uint64_t wire_bytes;
static bool metered;

static bool sink(void *context, uint32_t subscription, struct frame_ref *frame)
{
	(void)context, (void)subscription;
	wire_bytes += frame->bytes;
	frame_ref_put(frame);
	return true;
}

static int die(const struct error *error)
{
	fprintf(stderr, "drain: %s [%s]\n", error->what, error->code);
	return EXIT_FAILURE;
}

/* As the kernel does: whoever has not been seen on this ring is introduced first. */
static void introduce(struct ring_writer *writer, const struct batch_thread *who, uint8_t *known)
{
	struct rt_thread thread = {.pid = who->pid, .ppid = who->ppid, .uid = who->uid};
	struct ring_writer_record record = {
		.probe = RT_PROBE_THREAD, .tid = who->tid, .time_ns = 1,
		.payload = (const uint64_t *)&thread, .words = sizeof(thread) / 8};

	if (known[who->tid & 0xffff])
		return;
	known[who->tid & 0xffff] = 1;
	memcpy(thread.comm, who->comm, sizeof(thread.comm));
	ring_writer_write(writer, &record);
}

/* Fills the ring from the recording; false at its end. */
static bool fill(struct ring_writer *writer, struct recording *recording, unsigned stream,
		 uint8_t *known, uint64_t *events)
{
	struct recording_item item;
	uint64_t bytes = 0;
	struct error error;

	while (bytes < RING_BYTES * 3 / 4) {
		struct ring_writer_record record = {0};

		switch (recording_next(recording, &item, &error)) {
		case RECORDING_EVENT:
			break;
		case RECORDING_LOSS:
			continue;
		default:
			return false;
		}
		if (item.stream != stream)
			continue;
		introduce(writer, item.batch->thread, known);
		record.probe = item.batch->event.probe;
		record.tid = item.batch->thread->tid;
		record.time_ns = item.batch->event.time_ns;
		record.payload = item.batch->event.field;
		record.words = item.batch->event.fields;
		bytes += RT_RECORD_HEADER_BYTES + 8 * record.words;
		*events += ring_writer_write(writer, &record) == 0;
	}
	return true;
}

/* A meter for the drain, of everything; NULL without one. */
static struct meters *add_meter(struct drain *drain, const struct recording *recording)
{
	struct probe_set all;
	struct meters_config config = {.workers = 1, .catalog = recording_catalog(recording),
				       .probes = &all, .slow_ns = 100000000};
	struct meters *meters;

	if (!metered)
		return NULL;
	memset(&all, 0xff, sizeof(all));
	meters = meters_create(&config);
	drain->meter = meters ? meters_get(meters, 0) : NULL;
	return meters;
}

static void end_pass(struct drain *drain)
{
	if (!drain->meter)
		return;
	meter_end_run(drain->meter, &drain->metered, drain->threads, drain->last_time_ns);
	meter_end_pass(drain->meter, drain->last_time_ns, drain->last_time_ns);
}

/* Adds what one CPU's events took, and how many they were. 1: there is no such CPU. */
static int run_stream(const char *path, unsigned stream, uint64_t *spent, uint64_t *events,
		      struct error *error)
{
	struct ring_writer_config config = {.ring_bytes = RING_BYTES, .policy = RT_POLICY_DROP};
	static uint8_t known[1 << 16];
	struct batcher_spec spec = {0};
	struct recording *recording;
	struct ring_writer *writer;
	struct ring_handle source;
	struct meters *meters;
	struct drain drain;
	bool more;

	memset(known, 0, sizeof(known));
	memset(&spec.probes, 0xff, sizeof(spec.probes));
	if (recording_open(path, &recording, error) != 0)
		return -1;
	if (stream == recording_streams(recording)) {
		recording_close(recording);
		return 1;
	}
	if (ring_writer_create(&config, &writer, error) != 0)
		return -1;
	ring_writer_describe(writer, &source);
	if (drain_init(&drain, 0, &source, recording_probes(recording), error) != 0)
		return -1;
	struct batcher_config batcher = {.spec = &spec, .threads = drain.threads,
					 .codec = frame_codec_create(1), .sink = sink};
	drain_add(&drain, 0, batcher_create(&batcher));
	meters = add_meter(&drain, recording);
	do {
		uint64_t begin;

		more = fill(writer, recording, stream, known, events);
		begin = clock_read(CLOCK_THREAD_CPUTIME_ID);
		while (drain_read(&drain, UINT32_MAX))
			;
		end_pass(&drain);
		if (!more)
			drain_flush(&drain, UINT64_MAX);
		*spent += clock_read(CLOCK_THREAD_CPUTIME_ID) - begin;
	} while (more);
	drain_fini(&drain);
	meters_destroy(meters);
	frame_codec_destroy(batcher.codec);
	ring_writer_destroy(writer);
	recording_close(recording);
	return 0;
}

static int run(const char *path, double *ns, uint64_t *events, struct error *error)
{
	uint64_t spent = 0;
	int end = 0;

	*events = wire_bytes = 0;
	for (unsigned stream = 0; end == 0; stream++)
		end = run_stream(path, stream, &spent, events, error);
	*ns = (double)spent / (double)*events;
	return end < 0 ? end : 0;
}

static int ascending(const void *a, const void *b)
{
	return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

int main(int argc, char **argv)
{
	int rounds = argc > 2 ? atoi(argv[2]) : 7;
	double ns[ROUNDS_MAX];
	struct error error;
	uint64_t events;

	if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) {
		fprintf(stderr, "usage: drain FILE [ROUNDS, at most %d [meter]]\n", ROUNDS_MAX);
		return 2;
	}
	metered = argc > 3;
	for (int i = 0; i < rounds; i++)
		if (run(argv[1], &ns[i], &events, &error) != 0)
			return die(&error);
	qsort(ns, (size_t)rounds, sizeof(ns[0]), ascending);
	printf("{\"name\":\"drain\",\"events\":%llu,\"rounds\":%d,\"best_ns\":%.1f,"
	       "\"median_ns\":%.1f,\"wire_bytes\":%.2f}\n",
	       (unsigned long long)events, rounds, ns[0], ns[rounds / 2],
	       (double)wire_bytes / (double)events);
	return EXIT_SUCCESS;
}
