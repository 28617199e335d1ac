/*
 * encode: what the wire costs: ns and bytes per event to encode, seal, open and decode batches.
 *
 *	encode [-j] [-r ROUNDS] [FILE]...
 *
 * FILE is a sequence of frames, as `tracectl record -w` makes it: its catalog and its batches are
 * decoded once and re-encoded over and over. Without a FILE the events are made up: two threads
 * that talk over sockets, as tbench does. -j prints JSON lines for the bench table. One thread;
 * times are of this thread's CPU, best of the rounds.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "proto/batch_decode.h"
#include "proto/batch_encode.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define PROBE_IDS	65536u
#define ROUNDS_MAX	1000
#define EVENTS_MAX	2000000u		/* of one file: the rest is not read */
#define THREADS_MAX	65536u

/* As compact as a record of the ring, so that the cache sees what it sees in the daemon. */
struct stored_event {
	uint64_t time_ns;
	uint32_t thread;			/* index in load.thread */
	uint16_t probe, cpu;
	uint64_t *field;
};

struct load {
	struct stored_event *event;
	size_t events;
	uint64_t *field;
	size_t fields;
	struct batch_thread *thread;
	uint64_t *slot;
	size_t threads;
	struct batch_probe *probe;
};

struct result {
	double encode_ns, seal_ns, open_ns, decode_ns;
	uint64_t raw_bytes, wire_bytes;
	size_t frames;
};

static void die(const char *what)
{
	fprintf(stderr, "encode: %s: %s\n", what, errno ? strerror(errno) : "failed");
	exit(1);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void *allocate(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		die("memory");
	return memory;
}

static void load_init(struct load *load)
{
	*load = (struct load){
		.event = allocate(EVENTS_MAX, sizeof(*load->event)),
		.field = allocate(EVENTS_MAX, PROBE_FIELDS_MAX * sizeof(*load->field)),
		.thread = allocate(THREADS_MAX, sizeof(*load->thread)),
		.slot = allocate(THREADS_MAX, sizeof(*load->slot)),
		.probe = allocate(PROBE_IDS, sizeof(*load->probe)),
	};
}

static void load_fini(struct load *load)
{
	free(load->event);
	free(load->field);
	free(load->thread);
	free(load->slot);
	free(load->probe);
}

static uint32_t add_thread(struct load *load, const struct batch_thread *thread)
{
	/* From the back: the threads of the batch at hand were added last. */
	for (size_t i = load->threads; i-- > 0;)
		if (!memcmp(&load->thread[i], thread, sizeof(*thread)))
			return (uint32_t)i;
	if (load->threads == THREADS_MAX) {
		errno = E2BIG;
		die("threads");
	}
	load->thread[load->threads] = *thread;
	return (uint32_t)load->threads++;
}

static void add_event(struct load *load, const struct batch_event *event, uint32_t cpu,
		      uint32_t thread)
{
	uint64_t *field = load->field + load->fields;

	load->event[load->events++] = (struct stored_event){
		.time_ns = event->time_ns,
		.thread = thread,
		.probe = event->probe,
		.cpu = (uint16_t)cpu,
		.field = field,
	};
	for (unsigned i = 0; i < event->fields; i++)
		field[i] = event->field[i];
	load->fields += event->fields;
}

/* ---- Events out of a file ------------------------------------------------------------------- */

static void load_catalog(struct load *load, const uint8_t *body, size_t bytes)
{
	Ringtail__V1__Catalog *catalog = ringtail__v1__catalog__unpack(NULL, bytes, body);

	if (!catalog)
		die("the catalog is not one");
	for (size_t i = 0; i < catalog->n_probe; i++) {
		const Ringtail__V1__Probe *probe = catalog->probe[i];

		if (probe->id >= PROBE_IDS || probe->n_field > PROBE_FIELDS_MAX)
			die("the catalog has a probe over its bounds");
		load->probe[probe->id] = (struct batch_probe){
			.known = true,
			.fields = (uint8_t)probe->n_field,
			.has_duration = probe->n_field &&
				probe->field[0]->type == RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION,
		};
	}
	ringtail__v1__catalog__free_unpacked(catalog, NULL);
}

static void load_batch(struct load *load, struct batch_decoder *decoder, const uint8_t *body,
		       size_t bytes)
{
	uint32_t index[BATCH_THREADS_MAX];
	struct batch_summary summary;
	struct batch_item item;

	memset(index, 0xff, sizeof(index));
	if (batch_decode_open(decoder, body, bytes, &summary))
		die(batch_decode_error(decoder));
	while (batch_decode_next(decoder, &item) == BATCH_EVENT || item.kind == BATCH_LOSS) {
		uint32_t *thread;

		if (item.kind == BATCH_LOSS)
			continue;
		if (load->events == EVENTS_MAX)
			return;
		thread = &index[item.event.thread];
		if (*thread == UINT32_MAX)
			*thread = add_thread(load, item.thread);
		add_event(load, &item.event, summary.cpu, *thread);
	}
	if (item.kind == BATCH_ERROR)
		die(batch_decode_error(decoder));
}

static uint8_t *read_file(const char *path, size_t *bytes)
{
	FILE *file = fopen(path, "rb");
	uint8_t *data;
	long size;

	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
		die(path);
	rewind(file);
	data = allocate(1, (size_t)size + 1);
	*bytes = fread(data, 1, (size_t)size, file);
	fclose(file);
	return data;
}

static void load_file(struct load *load, const char *path)
{
	struct batch_decoder *decoder = batch_decoder_create(load->probe, PROBE_IDS);
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t *raw = allocate(1, FRAME_RAW_BYTES_MAX), *data;
	struct frame_header header;
	size_t bytes, at = 0;
	const uint8_t *body;

	if (!decoder || !codec)
		die("memory");
	data = read_file(path, &bytes);
	for (; at < bytes && load->events < EVENTS_MAX;
	     at += FRAME_HEADER_BYTES + header.body_bytes) {
		enum frame_status status = frame_parse_header(data + at, bytes - at,
							      FRAME_RAW_BYTES_MAX, &header);

		if (!status && header.body_bytes > bytes - at - FRAME_HEADER_BYTES)
			break;			/* a recording that was cut */
		if (!status)
			status = frame_open(codec, data + at, &header, raw, &body);
		if (status)
			die(frame_status_text(status));
		if (header.type == FRAME_CATALOG)
			load_catalog(load, body, header.raw_bytes);
		else if (header.type == FRAME_BATCH)
			load_batch(load, decoder, body, header.raw_bytes);
	}
	free(data);
	free(raw);
	frame_codec_destroy(codec);
	batch_decoder_destroy(decoder);
}

/* ---- Events made up ------------------------------------------------------------------------- */

static uint64_t random_next(uint64_t *state)
{
	/* xorshift64 (Marsaglia 2003); a fixed seed, so that every run encodes the same. */
	*state ^= *state << 13;
	*state ^= *state >> 7;
	return *state ^= *state << 17;
}

/* A client and a server on one CPU that answer each other; the receiver sleeps for the sender. */
static void load_synthetic(struct load *load)
{
	enum { SEND = 0x1000 + 44, RECEIVE = 0x1000 + 45, EVENTS = 400000 };
	struct batch_thread thread[2] = {
		{ .tid = 4711, .pid = 4711, .ppid = 4710, .comm = "client" },
		{ .tid = 4712, .pid = 4712, .ppid = 4710, .comm = "server" },
	};
	uint64_t state = 88172645463325252ULL, now = 1000000000, last_end[2] = { now, now };

	load->probe[SEND] = load->probe[RECEIVE] =
		(struct batch_probe){ .fields = 8, .has_duration = true, .known = true };
	for (unsigned i = 0; i < EVENTS; i++) {
		unsigned side = i / 2 & 1;
		bool send = i & 1;
		uint64_t start = last_end[side] + 120 + random_next(&state) % 90;
		uint64_t begin = start > now ? start : now;
		uint64_t bytes = random_next(&state) % 8 ? 64 : random_next(&state) % 4096;
		uint64_t field[8] = {
			0, bytes, 4 + side, 0x7f3a00001000 + side * 0x20000, send ? bytes : 65536,
		};
		struct batch_event event = {
			.probe = send ? SEND : RECEIVE,
			.fields = 8,
			.has_duration = true,
			.field = field,
		};

		now = begin + 400 + random_next(&state) % 300 + random_next(&state) % 300;
		last_end[side] = event.time_ns = now;
		field[0] = now - start;
		add_event(load, &event, 0, add_thread(load, &thread[side]));
	}
}

/* ---- The measurement ------------------------------------------------------------------------ */

/* Encodes one batch from event `at` on; returns how many went in. */
static size_t encode(struct load *load, struct batch_encoder *encoder, size_t at,
		     size_t events_max)
{
	size_t n = 0;

	batch_encode_begin(encoder, load->event[at].cpu, at, load->event[at ? at - 1 : 0].time_ns);
	for (; at + n < load->events && n < events_max; n++) {
		const struct stored_event *stored = &load->event[at + n];
		const struct batch_probe *probe = &load->probe[stored->probe];
		struct batch_event event = {
			.probe = stored->probe,
			.fields = probe->fields,
			.has_duration = probe->has_duration,
			.time_ns = stored->time_ns,
			.field = stored->field,
		};

		if (stored->cpu != load->event[at].cpu)
			break;
		event.thread = batch_encode_thread(encoder, &load->thread[stored->thread],
						   &load->slot[stored->thread]);
		if (event.thread == UINT32_MAX || !batch_encode_event(encoder, &event))
			break;
	}
	return n;
}

static size_t decode(struct batch_decoder *decoder, const uint8_t *body, size_t bytes)
{
	struct batch_summary summary;
	struct batch_item item;
	size_t events = 0;

	if (batch_decode_open(decoder, body, bytes, &summary))
		die(batch_decode_error(decoder));
	while (batch_decode_next(decoder, &item) == BATCH_EVENT)
		events++;
	return item.kind == BATCH_END ? events : 0;
}

static struct result measure(struct load *load, size_t events_max)
{
	struct batch_encoder *encoder = batch_encoder_create(PROBE_IDS);
	struct batch_decoder *decoder = batch_decoder_create(load->probe, PROBE_IDS);
	struct frame_codec *codec = frame_codec_create(1);
	uint8_t *frame = allocate(1, frame_bound(FRAME_RAW_BYTES_MAX));
	uint8_t *raw = allocate(1, FRAME_RAW_BYTES_MAX);
	struct result result = { 0 };

	if (!encoder || !decoder || !codec)
		die("memory");
	memset(load->slot, 0, load->threads * sizeof(*load->slot));
	for (size_t at = 0, n; at < load->events; at += n) {
		double t0, t1, t2, t3, t4;
		struct frame_header header;
		const uint8_t *message, *body;
		size_t bytes, frame_bytes;

		/* Twice, the second is timed: records come to the daemon warm from the kernel. */
		n = encode(load, encoder, at, events_max);
		t0 = now_ns();
		n = encode(load, encoder, at, events_max);
		message = batch_encode_finish(encoder, &bytes);
		t1 = now_ns();
		frame_bytes = frame_seal(codec, FRAME_BATCH, message, (uint32_t)bytes, frame);
		t2 = now_ns();
		if (frame_parse_header(frame, frame_bytes, FRAME_RAW_BYTES_MAX, &header) ||
		    frame_open(codec, frame, &header, raw, &body))
			die("a frame does not open");
		t3 = now_ns();
		if (!n || decode(decoder, body, bytes) != n)
			die("a batch does not decode to what it was");
		t4 = now_ns();
		result.encode_ns += t1 - t0;
		result.seal_ns += t2 - t1;
		result.open_ns += t3 - t2;
		result.decode_ns += t4 - t3;
		result.raw_bytes += bytes;
		result.wire_bytes += frame_bytes;
		result.frames++;
	}
	free(raw);
	free(frame);
	frame_codec_destroy(codec);
	batch_decoder_destroy(decoder);
	batch_encoder_destroy(encoder);
	return result;
}

static void print_json(const char *name, const char *what, double value, const char *unit,
		       unsigned rounds)
{
	printf("{\"name\":\"encode.%s.%s\",\"value\":%.2f,\"unit\":\"%s\",\"rounds\":%u}\n", name,
	       what, value, unit, rounds);
}

static void keep_least(double *best, double value, bool first)
{
	if (first || value < *best)
		*best = value;
}

static void report(struct load *load, const char *name, size_t events_max, unsigned rounds,
		   bool json)
{
	const double events = (double)load->events;
	struct result best = { 0 };

	for (unsigned round = 0; round < rounds; round++) {
		struct result result = measure(load, events_max);

		keep_least(&best.encode_ns, result.encode_ns / events, !round);
		keep_least(&best.seal_ns, result.seal_ns / events, !round);
		keep_least(&best.open_ns, result.open_ns / events, !round);
		keep_least(&best.decode_ns, result.decode_ns / events, !round);
		best.raw_bytes = result.raw_bytes;
		best.wire_bytes = result.wire_bytes;
		best.frames = result.frames;
	}
	if (json) {
		print_json(name, "encode", best.encode_ns, "ns/event", rounds);
		print_json(name, "seal", best.seal_ns, "ns/event", rounds);
		print_json(name, "open", best.open_ns, "ns/event", rounds);
		print_json(name, "decode", best.decode_ns, "ns/event", rounds);
		print_json(name, "raw", (double)best.raw_bytes / events, "B/event", rounds);
		print_json(name, "wire", (double)best.wire_bytes / events, "B/event", rounds);
		return;
	}
	printf("%-12s %7zu events, %5zu per batch: encode %5.1f seal %5.1f open %5.1f "
	       "decode %5.1f ns; raw %5.2f wire %5.2f B\n", name, load->events,
	       load->events / best.frames, best.encode_ns, best.seal_ns, best.open_ns,
	       best.decode_ns, (double)best.raw_bytes / events, (double)best.wire_bytes / events);
}

static void run(const char *path, unsigned rounds, bool json)
{
	const char *name = path ? strrchr(path, '/') : "synthetic";
	struct load load;

	name = path ? (name ? name + 1 : path) : name;
	load_init(&load);
	if (path)
		load_file(&load, path);
	else
		load_synthetic(&load);
	if (!load.events)
		die("no events to encode");
	report(&load, name, BATCH_EVENTS_MAX, rounds, json);
	if (!json)
		report(&load, name, 1000, rounds, json);
	load_fini(&load);
}

int main(int argc, char **argv)
{
	unsigned rounds = 5;
	bool json = false;
	int option;

	while ((option = getopt(argc, argv, "jr:")) != -1) {
		if (option == 'j') {
			json = true;
		} else if (option == 'r') {
			rounds = (unsigned)atoi(optarg);
		} else {
			fprintf(stderr, "usage: encode [-j] [-r ROUNDS] [FILE]...\n");
			return 2;
		}
	}
	if (rounds < 1 || rounds > ROUNDS_MAX)
		rounds = 5;
	if (optind == argc)
		run(NULL, rounds, json);
	for (; optind < argc; optind++)
		run(argv[optind], rounds, json);
	return 0;
}
