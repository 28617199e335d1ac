/*
 * export: what an exported event costs the export thread: out of its frame, chosen, made part of a
 * body, compressed; all but the sending. And what it costs while its back end is away and AWAY_EVENTS
 * wait for it: out of its frame, chosen, put to the others, reported.
 *
 *	export [-r ROUNDS]
 *
 * Prints JSON lines for the bench table: ns of this thread's CPU and bytes of body per event, best of
 * the rounds. The events are slow calls of many processes.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "daemon/export/intake.h"
#include "daemon/export/sender.h"
#include "daemon/base/limits.h"
#include "proto/batch_encode.h"
#include "proto/frame.h"
#include "tests/unit/daemon/export_make.h"

#define SLOW_NS 1000000u
#define AWAY_EVENTS 300000u
#define AWAY_FRAMES 64u			/* of EXPORT_BATCH_EVENTS, that are measured */

static void die(const char *what)
{
	fprintf(stderr, "export: %s\n", what);
	exit(1);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* One frame of as many slow calls as go into one request. */
static uint8_t *make_frame(size_t *frame_bytes)
{
	struct batch_encoder *encoder = batch_encoder_create(MAKE_PROBES);
	struct frame_codec *codec = frame_codec_create(1);
	uint64_t slot[50] = {0};
	const uint8_t *message;
	uint8_t *frame;
	size_t bytes;

	if (!encoder || !codec)
		die("out of memory");
	batch_encode_begin(encoder, 0, 1, 0);
	for (uint32_t i = 0; i < EXPORT_BATCH_EVENTS; i++) {
		const struct batch_thread thread = {.tid = 1000 + i % 50, .pid = 1000 + i % 50,
						    .ppid = 1, .comm = "worker"};
		const uint64_t field[3] = {SLOW_NS + i * 137, i, i % 20};
		struct batch_event event = {.probe = MAKE_OPENAT, .fields = 3,
					    .has_duration = true, .field = field,
					    .time_ns = 2 * SLOW_NS + i * 1000};

		event.thread = batch_encode_thread(encoder, &thread, &slot[i % 50]);
		if (!batch_encode_event(encoder, &event))
			die("a batch does not hold a request's events");
	}
	message = batch_encode_finish(encoder, &bytes);
	frame = malloc(frame_bound((uint32_t)bytes));
	*frame_bytes = frame ? frame_seal(codec, FRAME_BATCH, message, (uint32_t)bytes, frame) : 0;
	if (!*frame_bytes)
		die("out of memory");
	frame_codec_destroy(codec);
	batch_encoder_destroy(encoder);
	return frame;
}

/* One request: returns its compressed bytes. */
static size_t export_once(const struct export_kind *kind, const struct export_maker *maker,
			  struct export_intake *intake, const uint8_t *frame, size_t frame_bytes)
{
	struct export_list list = TAILQ_HEAD_INITIALIZER(list);
	struct export_intake_counts counts = {0};
	struct export_body body = {0};
	struct export_event *event;
	uint8_t *out;
	size_t bytes;

	export_intake_frame(intake, 1, frame, frame_bytes, EXPORT_BATCH_EVENTS, &list, &counts);
	export_intake_flush(intake, &list, &counts);
	if (counts.filtered || counts.memory)
		die("an event is not exported");
	if (kind->build(maker, &list, &body) != 0 ||
	    export_compress(kind->encoding, body.data, body.bytes, &out, &bytes) != 0)
		die("out of memory");
	while ((event = TAILQ_FIRST(&list)) != NULL) {
		TAILQ_REMOVE(&list, event, link);
		export_event_destroy(event);
	}
	free(body.data);
	free(out);
	return bytes;
}

static void measure(const struct export_kind *kind, struct export_host *host, unsigned rounds)
{
	struct export_intake *intake = export_intake_create(host, kind, 0);
	struct export_arena arena = {0};
	const struct export_maker maker = {host->run, &arena, 0};
	size_t frame_bytes, bytes = 0;
	uint8_t *frame = make_frame(&frame_bytes);
	uint64_t best = UINT64_MAX;

	if (!intake)
		die("out of memory");
	for (unsigned i = 0; i < rounds * 20; i++) {
		uint64_t began = cpu_ns(), took;

		bytes = export_once(kind, &maker, intake, frame, frame_bytes);
		took = cpu_ns() - began;
		if (took < best)
			best = took;
	}
	printf("{\"name\":\"export.%s.cpu\",\"value\":%.1f,\"unit\":\"ns/event\",\"rounds\":%u}\n",
	       kind->name, (double)best / EXPORT_BATCH_EVENTS, rounds * 20);
	printf("{\"name\":\"export.%s.body\",\"value\":%.1f,\"unit\":\"B/event\",\"rounds\":%u}\n",
	       kind->name, (double)bytes / EXPORT_BATCH_EVENTS, rounds * 20);
	export_intake_destroy(intake);
	export_arena_fini(&arena);
	free(frame);
}

/* ---- Away ------------------------------------------------------------------------------------ */

static void ignore(void *context)
{
	(void)context;
}

/* A frame, and the report that follows it. */
static void give(struct export_sender *sender, struct event_base *base, uint64_t serial,
		 const uint8_t *frame, size_t bytes)
{
	export_sender_frame(sender, serial, frame, bytes, EXPORT_BATCH_EVENTS);
	export_sender_flush(sender);
	event_base_loop(base, EVLOOP_NONBLOCK);
	if (export_sender_counts(sender)->settled_frame)
		die("somebody accepted what went nowhere");
}

static void measure_away(const struct export_kind *kind, const struct export_host *host)
{
	struct event_base *base = event_base_new();
	struct export_http *http = base ? export_http_create(base, NULL) : NULL;
	const struct export_sender_config config = {
		.base = base, .http = http, .host = host, .kind = kind, .name = kind->name,
		.url = "http://127.0.0.1:1/", .queue_bytes_max = UINT64_MAX,
		.timeout_ns = 10000000000ull, .spooled = true, .changed = ignore,
	};
	struct export_sender *sender = http ? export_sender_create(&config) : NULL;
	uint64_t serial = 0, best = UINT64_MAX;
	size_t bytes;
	uint8_t *frame = make_frame(&bytes);

	if (!sender)
		die("out of memory");
	while (serial * EXPORT_BATCH_EVENTS < AWAY_EVENTS)
		give(sender, base, ++serial, frame, bytes);
	for (unsigned i = 0; i < AWAY_FRAMES; i++) {
		uint64_t began = cpu_ns(), took;

		give(sender, base, ++serial, frame, bytes);
		took = cpu_ns() - began;
		if (took < best)
			best = took;
	}
	printf("{\"name\":\"export.%s.away\",\"value\":%.1f,\"unit\":\"ns/event\",\"rounds\":%u}\n",
	       kind->name, (double)best / EXPORT_BATCH_EVENTS, AWAY_FRAMES);
	free(frame);
	export_sender_destroy(sender);
	export_http_destroy(http);
	event_base_free(base);
}

int main(int argc, char **argv)
{
	struct export_host *host = make_host(SLOW_NS, NULL);
	unsigned rounds = 5;

	if (argc == 3 && strcmp(argv[1], "-r") == 0)
		rounds = (unsigned)strtoul(argv[2], NULL, 10);
	for (unsigned i = 0; export_kinds[i]; i++)
		if (export_kinds[i]->build)
			measure(export_kinds[i], host, rounds ? rounds : 1);
	measure_away(&export_otlp_logs, host);
	export_host_destroy(host);
	return 0;
}
