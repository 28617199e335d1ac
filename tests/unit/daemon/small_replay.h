/*
 * small_replay: a recording that a test makes, event by event, and a replay source of it, its rings
 * mapped from their descriptors and drained by ring_reader, as in the engine.
 */
#ifndef RINGTAIL_TESTS_UNIT_DAEMON_SMALL_REPLAY_H
#define RINGTAIL_TESTS_UNIT_DAEMON_SMALL_REPLAY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "daemon/base/clock.h"
#include "daemon/ring/reader.h"
#include "daemon/source/source.h"
#include "proto/batch_encode.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define CALL		(RT_PROBE_SYSCALL_CALL + 39)	/* duration, ret, filename */
#define WAKEUP		RT_PROBE_SCHED_WAKEUP		/* target_tid, prio, target_cpu */
#define EXEC		RT_PROBE_SCHED_EXEC		/* old_tid, filename */
#define RECORDED_NS	(1000 * NS_PER_S)		/* the first event's time then */
#define STEP_NS		1000000
#define LEAD_NS		20000000	/* from the start to the first event */
#define PATIENCE_NS	(20 * NS_PER_S)
#define CPUS		2

static const struct batch_thread threads[] = {
	{ .tid = 100, .pid = 100, .ppid = 1, .uid = 1000, .comm = "shell" },
	{ .tid = 201, .pid = 200, .ppid = 1, .uid = 0, .comm = "daemon" },
	{ .tid = 7, .pid = 7, .ppid = 2, .kernel = true, .comm = "kworker/0:1" },
};

/* ---- A file ---------------------------------------------------------------------------------- */

struct file {
	char path[64];
	int fd;
	uint64_t bytes;
	struct frame_codec *codec;
	struct batch_encoder *encoder;
	uint64_t slot[3];		/* the encoder's, of `threads` */
};

static inline void put_frame(struct file *file, enum frame_type type, const uint8_t *raw,
			     size_t bytes)
{
	uint8_t *out = malloc(frame_bound(bytes));
	size_t n = frame_seal(file->codec, type, raw, bytes, out);

	assert_true(n > 0);
	assert_int_equal(write(file->fd, out, n), n);
	file->bytes += n;
	free(out);
}

static void put_message(struct file *file, enum frame_type type, const ProtobufCMessage *message)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *raw = malloc(bytes + 1);

	protobuf_c_message_pack(message, raw);
	put_frame(file, type, raw, bytes);
	free(raw);
}

static inline void put_hello(struct file *file)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.version = 1;
	hello.cpus = CPUS;
	put_message(file, FRAME_SERVER_HELLO, &hello.base);
}

static inline void put_catalog(struct file *file, unsigned exec_fields)
{
	Ringtail__V1__Field field[] = {
		RINGTAIL__V1__FIELD__INIT, RINGTAIL__V1__FIELD__INIT, RINGTAIL__V1__FIELD__INIT,
		RINGTAIL__V1__FIELD__INIT,
	};
	Ringtail__V1__Field *of_call[] = { &field[0], &field[1], &field[2] };
	Ringtail__V1__Field *of_wakeup[] = { &field[3], &field[1], &field[1] };
	Ringtail__V1__Field *of_exec[] = { &field[1], &field[2] };
	Ringtail__V1__Probe probe[] = {
		RINGTAIL__V1__PROBE__INIT, RINGTAIL__V1__PROBE__INIT, RINGTAIL__V1__PROBE__INIT,
	};
	Ringtail__V1__Probe *of_catalog[] = { &probe[0], &probe[1], &probe[2] };
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;

	field[0].type = RINGTAIL__V1__FIELD_TYPE__FIELD_DURATION;
	field[2].type = RINGTAIL__V1__FIELD_TYPE__FIELD_STRING;
	field[3].type = RINGTAIL__V1__FIELD_TYPE__FIELD_THREAD;
	probe[0].id = CALL;
	probe[0].n_field = 3;
	probe[0].field = of_call;
	probe[1].id = WAKEUP;
	probe[1].n_field = 3;
	probe[1].field = of_wakeup;
	probe[2].id = EXEC;
	probe[2].n_field = exec_fields;
	probe[2].field = of_exec;
	catalog.n_probe = 3;
	catalog.probe = of_catalog;
	put_message(file, FRAME_CATALOG, &catalog.base);
}

static inline void open_file(struct file *file)
{
	*file = (struct file){ .path = "/tmp/test_source_replay.XXXXXX" };
	file->fd = mkstemp(file->path);
	file->codec = frame_codec_create(1);
	file->encoder = batch_encoder_create(RT_PROBE_MAX);
	assert_true(file->fd >= 0 && file->codec && file->encoder);
}

static inline void open_recording(struct file *file)
{
	open_file(file);
	put_hello(file);
	put_catalog(file, 2);
}

static inline void remove_file(struct file *file)
{
	unlink(file->path);
	close(file->fd);
	frame_codec_destroy(file->codec);
	batch_encoder_destroy(file->encoder);
}

static inline void begin_batch(struct file *file, uint32_t cpu, uint64_t seq)
{
	batch_encode_begin(file->encoder, cpu, seq, RECORDED_NS);
}

/* The n-th moment, as both times and payloads have it. */
static inline void put_event(struct file *file, uint16_t probe, unsigned thread, uint64_t n)
{
	uint64_t field[] = { n, n + 1, n + 2 };
	struct batch_event event = {
		.probe = probe, .fields = probe == EXEC ? 2 : 3, .has_duration = probe == CALL,
		.time_ns = RECORDED_NS + n * STEP_NS, .field = field,
	};

	if (probe == WAKEUP) {
		field[0] = threads[2].tid;
		batch_encode_thread(file->encoder, &threads[2], &file->slot[2]);
	}
	event.thread = batch_encode_thread(file->encoder, &threads[thread],
					   &file->slot[thread]);
	assert_true(event.thread != UINT32_MAX);
	assert_true(batch_encode_event(file->encoder, &event));
}

static inline void end_batch(struct file *file)
{
	size_t bytes;
	const uint8_t *raw = batch_encode_finish(file->encoder, &bytes);

	put_frame(file, FRAME_BATCH, raw, bytes);
}

static inline void put_gap(struct file *file, uint32_t cpu, uint64_t first, uint64_t end,
			   uint64_t events)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;

	gap.cpu = cpu;
	gap.first_seq = first;
	gap.end_seq = end;
	gap.events = events;
	gap.reason = RINGTAIL__V1__LOSS_REASON__REASON_QUEUE_FULL;
	put_message(file, FRAME_GAP, &gap.base);
}

/* ---- A source, drained as the engine would --------------------------------------------------- */

struct seen {
	unsigned cpu;
	enum ring_read read;
	uint16_t probe;
	uint32_t tid;
	uint64_t time_ns, payload[8];
	uint32_t words;
	uint64_t count;
	enum rt_lost reason;
};

struct engine {
	struct source *source;
	struct source_request request;
	unsigned rings;
	struct ring_reader *reader[CPUS];
	void *map[CPUS], *consumer[CPUS];
	size_t bytes[CPUS];
	struct seen seen[64];
	unsigned n;		/* of `seen`; more are only counted */
	uint64_t records, lost;
};

static inline void start(struct engine *e, const char *path, bool fast)
{
	struct source_config config = {
		.ring_bytes = RT_RING_BYTES_MIN, .path = path, .replay_fast = fast,
	};
	struct ring_handle ring;
	struct error error;

	memset(e, 0, sizeof(*e));
	if (source_replay.open(&config, &e->source, &error))
		fail_msg("%s", error.what);
	for (; source_replay.ring(e->source, e->rings, &ring) == 0; e->rings++) {
		unsigned i = e->rings;

		assert_true(i < CPUS);
		assert_int_equal(ring.cpu, i);
		e->bytes[i] = ring.ring_bytes;
		e->map[i] = mmap(NULL, ring.ring_bytes, PROT_READ, MAP_SHARED, ring.ring_fd,
				 ring.ring_offset);
		e->consumer[i] = mmap(NULL, RT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
				      ring.consumer_fd, ring.consumer_offset);
		assert_int_equal(ring_reader_create(e->map[i], e->bytes[i], e->consumer[i],
						    &e->reader[i], &error), 0);
	}
}

static inline void want(struct engine *e, uint16_t probe)
{
	e->request.probes[probe / 8] |= 1 << probe % 8;
}

static inline void ask(struct engine *e)
{
	struct error error;

	e->request.generation++;
	assert_int_equal(source_replay.configure(e->source, &e->request, &error), 0);
}

/* Asks, and says that it reads what it asked for. */
static inline void configure(struct engine *e)
{
	ask(e);
	source_replay.joined(e->source);
}

static inline void end(struct engine *e)
{
	source_replay.close(e->source);
	for (unsigned i = 0; i < e->rings; i++) {
		ring_reader_destroy(e->reader[i]);
		munmap(e->map[i], e->bytes[i]);
		munmap(e->consumer[i], RT_PAGE_BYTES);
	}
}

static void note(struct engine *e, unsigned cpu, enum ring_read read, const struct ring_item *item)
{
	struct seen *seen = &e->seen[e->n];

	e->records += read == RING_RECORD;
	e->lost += read == RING_LOST ? item->count : 0;
	if (e->n == sizeof(e->seen) / sizeof(e->seen[0]))
		return;
	e->n++;
	*seen = (struct seen){ .cpu = cpu, .read = read };
	if (read == RING_LOST) {
		seen->count = item->count;
		seen->reason = item->reason;
		return;
	}
	seen->probe = item->probe;
	seen->tid = item->tid;
	seen->time_ns = item->time_ns;
	seen->words = item->words;
	memcpy(seen->payload, item->payload, (item->words < 8 ? item->words : 8) * 8);
}

static inline void drain(struct engine *e)
{
	struct ring_item item;
	enum ring_read read;

	for (unsigned i = 0; i < e->rings; i++) {
		while ((read = ring_reader_next(e->reader[i], &item)) != RING_EMPTY) {
			assert_int_not_equal(read, RING_CORRUPT);
			note(e, i, read, &item);
		}
		ring_reader_release(e->reader[i]);
	}
}

static inline void drain_to_the_end(struct engine *e)
{
	uint64_t until = clock_monotonic() + PATIENCE_NS;
	bool finished = false;

	while (!finished && clock_monotonic() < until) {
		finished = source_replay.finished(e->source);
		drain(e);
	}
	assert_true(finished);
}

/* For files that fit the rings: CPU 0's records come first. */
static inline void drain_at_the_end(struct engine *e)
{
	uint64_t until = clock_monotonic() + PATIENCE_NS;

	while (!source_replay.finished(e->source) && clock_monotonic() < until)
		usleep(1000);
	drain_to_the_end(e);
}

static inline const struct seen *nth_of(const struct engine *e, uint16_t probe, unsigned n)
{
	for (unsigned i = 0; i < e->n; i++)
		if (e->seen[i].read == RING_RECORD && e->seen[i].probe == probe && n-- == 0)
			return &e->seen[i];
	fail_msg("probe %#x does not come so often", probe);
	return NULL;
}

static inline unsigned count_of(const struct engine *e, uint16_t probe)
{
	unsigned n = 0;

	for (unsigned i = 0; i < e->n; i++)
		n += e->seen[i].read == RING_RECORD && e->seen[i].probe == probe;
	return n;
}

#endif
