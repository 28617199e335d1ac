/*
 * The replay source, from a file made here to the rings as the engine sees them: mapped from their
 * descriptors and drained by ring_reader.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "daemon/clock.h"
#include "daemon/ring_reader.h"
#include "daemon/source.h"
#include "proto/batch_encode.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

#define CALL		(RT_PROBE_SYSCALL_CALL + 39)	/* duration, ret, filename */
#define WAKEUP		RT_PROBE_SCHED_WAKEUP		/* target_tid, prio, target_cpu */
#define EXEC		RT_PROBE_SCHED_EXEC		/* old_tid, filename */
#define RECORDED_NS	(1000 * NS_PER_S)		/* the first event's time then */
#define STEP_NS		1000000
#define GRACE_NS	(NS_PER_S / 5)	/* from the first request to the start */
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

static void put_frame(struct file *file, enum frame_type type, const uint8_t *raw, size_t bytes)
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

static void put_hello(struct file *file)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;

	hello.version = 1;
	hello.cpus = CPUS;
	put_message(file, FRAME_SERVER_HELLO, &hello.base);
}

static void put_catalog(struct file *file, unsigned exec_fields)
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

static void open_file(struct file *file)
{
	*file = (struct file){ .path = "/tmp/test_source_replay.XXXXXX" };
	file->fd = mkstemp(file->path);
	file->codec = frame_codec_create(1);
	file->encoder = batch_encoder_create(RT_PROBE_MAX);
	assert_true(file->fd >= 0 && file->codec && file->encoder);
}

static void open_recording(struct file *file)
{
	open_file(file);
	put_hello(file);
	put_catalog(file, 2);
}

static void remove_file(struct file *file)
{
	unlink(file->path);
	close(file->fd);
	frame_codec_destroy(file->codec);
	batch_encoder_destroy(file->encoder);
}

static void begin_batch(struct file *file, uint32_t cpu, uint64_t seq)
{
	batch_encode_begin(file->encoder, cpu, seq, RECORDED_NS);
}

/* The n-th moment, as both times and payloads have it. */
static void put_event(struct file *file, uint16_t probe, unsigned thread, uint64_t n)
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

static void end_batch(struct file *file)
{
	size_t bytes;
	const uint8_t *raw = batch_encode_finish(file->encoder, &bytes);

	put_frame(file, FRAME_BATCH, raw, bytes);
}

static void put_gap(struct file *file, uint32_t cpu, uint64_t first, uint64_t end, uint64_t events)
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

static void start(struct engine *e, const char *path, bool fast)
{
	struct source_config config = {
		.ring_bytes = RT_RING_BYTES_MIN, .path = path, .replay_fast = fast,
	};
	struct source_ring ring;
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

static void want(struct engine *e, uint16_t probe)
{
	e->request.probes[probe / 8] |= 1 << probe % 8;
}

static void configure(struct engine *e)
{
	struct error error;

	e->request.generation++;
	assert_int_equal(source_replay.configure(e->source, &e->request, &error), 0);
}

static void end(struct engine *e)
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

static void drain(struct engine *e)
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

static void drain_to_the_end(struct engine *e)
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
static void drain_at_the_end(struct engine *e)
{
	uint64_t until = clock_monotonic() + PATIENCE_NS;

	while (!source_replay.finished(e->source) && clock_monotonic() < until)
		usleep(1000);
	drain_to_the_end(e);
}

static const struct seen *nth_of(const struct engine *e, uint16_t probe, unsigned n)
{
	for (unsigned i = 0; i < e->n; i++)
		if (e->seen[i].read == RING_RECORD && e->seen[i].probe == probe && n-- == 0)
			return &e->seen[i];
	fail_msg("probe %#x does not come so often", probe);
	return NULL;
}

static unsigned count_of(const struct engine *e, uint16_t probe)
{
	unsigned n = 0;

	for (unsigned i = 0; i < e->n; i++)
		n += e->seen[i].read == RING_RECORD && e->seen[i].probe == probe;
	return n;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void replays_events_threads_and_times(void **state)
{
	struct file file;
	struct engine e;
	uint64_t before;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 10);
	put_event(&file, CALL, 0, 0);
	put_event(&file, CALL, 0, 2);
	put_event(&file, WAKEUP, 1, 4);
	end_batch(&file);
	begin_batch(&file, 1, 0);
	put_event(&file, CALL, 1, 1);
	end_batch(&file);

	start(&e, file.path, true);
	assert_int_equal(e.rings, 2);
	assert_int_equal(source_replay.catalog(e.source)->n_probe, 3);
	before = clock_monotonic();
	want(&e, CALL);
	want(&e, WAKEUP);
	configure(&e);
	drain_at_the_end(&e);

	assert_int_equal(count_of(&e, RT_PROBE_THREAD), 4);	/* 100 and 201 and 7; 201 again */
	assert_int_equal(count_of(&e, CALL), 3);
	assert_int_equal(count_of(&e, WAKEUP), 1);
	for (unsigned i = 0; i < 3; i++) {
		const struct seen *call = nth_of(&e, CALL, i);
		uint64_t n = i < 2 ? i * 2 : 1;		/* CPU 1's is last */

		assert_int_equal(call->words, 3);
		assert_int_equal(call->payload[0], n);
		assert_int_equal(call->payload[1], n + 1);
		assert_int_equal(call->payload[2], n + 2);
		assert_int_equal(call->tid, n == 1 ? 201 : 100);
		assert_in_range(call->time_ns, before + GRACE_NS, clock_monotonic() + NS_PER_S);
		assert_int_equal(call->time_ns - nth_of(&e, CALL, 0)->time_ns, n * STEP_NS);
	}
	assert_int_equal(e.seen[0].probe, RT_PROBE_THREAD);	/* before its first event */
	assert_int_equal(e.seen[0].tid, 100);
	assert_string_equal(((struct rt_thread *)e.seen[0].payload)->comm, "shell");
	assert_int_equal(((struct rt_thread *)e.seen[0].payload)->uid, 1000);
	assert_int_equal(nth_of(&e, RT_PROBE_THREAD, 2)->tid, 7);	/* named by a field */
	assert_int_equal(((struct rt_thread *)nth_of(&e, RT_PROBE_THREAD, 2)->payload)->flags,
			 RT_THREAD_KERNEL);
	end(&e);
	remove_file(&file);
}

static void records_nothing_before_a_probe_is_enabled(void **state)
{
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	end_batch(&file);
	start(&e, file.path, true);
	configure(&e);
	usleep(20000);
	drain(&e);
	assert_int_equal(e.records, 0);
	assert_false(source_replay.finished(e.source));
	want(&e, CALL);
	configure(&e);
	drain_to_the_end(&e);
	assert_int_equal(count_of(&e, CALL), 1);
	end(&e);
	remove_file(&file);
}

static void honours_probes_and_clauses(void **state)
{
	static const struct rt_filter_clause clause[] = {
		{ .pid_op = RT_FILTER_EQ, .pid = 200 },
		{ .pid_op = RT_FILTER_NE, .pid = 200 },
		{ .tid_op = RT_FILTER_EQ, .tid = 100 },
		{ .uid_op = RT_FILTER_EQ, .uid = 0 },
		{ .comm_op = RT_FILTER_EQ, .comm = "shell" },
		{ .comm_op = RT_FILTER_NE, .comm = "shell" },
		{ .comm_op = RT_FILTER_EQ, .comm = "shell", .uid_op = RT_FILTER_EQ },
	};
	static const unsigned passing[] = { 2, 1, 1, 2, 1, 2, 0 };
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	put_event(&file, CALL, 1, 1);
	put_event(&file, WAKEUP, 1, 2);
	put_event(&file, CALL, 1, 3);
	end_batch(&file);
	for (unsigned i = 0; i < sizeof(clause) / sizeof(clause[0]); i++) {
		start(&e, file.path, true);
		e.request.clauses = 1;
		e.request.clause[0] = clause[i];
		want(&e, CALL);
		configure(&e);
		drain_to_the_end(&e);
		assert_int_equal(count_of(&e, CALL), passing[i]);
		assert_int_equal(count_of(&e, WAKEUP), 0);
		end(&e);
	}
	start(&e, file.path, true);
	e.request.clauses = 2;
	e.request.clause[0] = clause[0];
	e.request.clause[1] = clause[2];
	want(&e, CALL);
	configure(&e);
	drain_to_the_end(&e);
	assert_int_equal(count_of(&e, CALL), 3);
	end(&e);
	remove_file(&file);
}

static void carries_attachments_that_are_asked_for(void **state)
{
	static const uint64_t frame[] = { 0xffff1, 0xffff2 };
	const struct seen *call;
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	assert_true(batch_encode_string(file.encoder, 2, "/etc/passwd", 11));
	assert_true(batch_encode_stack(file.encoder, true, frame, 2));
	put_event(&file, EXEC, 0, 1);
	assert_true(batch_encode_string(file.encoder, 1, "/bin/sh", 7));
	end_batch(&file);

	start(&e, file.path, true);
	want(&e, CALL);
	want(&e, EXEC);
	e.request.flags = RT_FLAG_KSTACK;
	configure(&e);
	drain_to_the_end(&e);
	call = nth_of(&e, CALL, 0);
	assert_int_equal(call->words, 3 + 1 + 2);
	assert_int_equal(call->payload[3], RT_ATTACH_KSTACK | 16ull << 32);
	assert_memory_equal(&call->payload[4], frame, sizeof(frame));
	assert_int_equal(nth_of(&e, EXEC, 0)->words, 2 + 1 + 1);	/* always */
	end(&e);

	start(&e, file.path, true);
	want(&e, CALL);
	e.request.flags = RT_FLAG_STRINGS;
	configure(&e);
	drain_to_the_end(&e);
	call = nth_of(&e, CALL, 0);
	assert_int_equal(call->words, 3 + 1 + 2);
	assert_int_equal(call->payload[3], RT_ATTACH_STRING | 0ull << 16 | 11ull << 32);
	assert_memory_equal(&call->payload[4], "/etc/passwd\0\0\0\0\0", 16);
	end(&e);
	remove_file(&file);
}

static void replays_losses_and_gaps_in_place(void **state)
{
	static const struct {
		uint32_t reason;
		enum rt_lost lost;
	} reason[] = {
		{ RINGTAIL__V1__LOSS_REASON__REASON_RING_FULL, RT_LOST_FULL },
		{ RINGTAIL__V1__LOSS_REASON__REASON_NEST, RT_LOST_NEST },
		{ RINGTAIL__V1__LOSS_REASON__REASON_STOPPED, RT_LOST_STOPPED },
		{ RINGTAIL__V1__LOSS_REASON__REASON_BUSY, RT_LOST_BUSY },
		{ RINGTAIL__V1__LOSS_REASON__REASON_BAD_RECORD, RT_LOST_FULL },
	};
	unsigned reasons = sizeof(reason) / sizeof(reason[0]);
	uint64_t lost[RT_LOST_REASONS] = { 0 };
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	for (unsigned i = 0; i < reasons; i++)
		batch_encode_loss(file.encoder, i + 1, 0, reason[i].reason);
	put_event(&file, CALL, 0, 1);
	end_batch(&file);
	put_gap(&file, 0, 17, 117, 30);
	put_gap(&file, 0, 117, 118, 0);
	begin_batch(&file, 0, 118);
	put_event(&file, CALL, 0, 2);
	end_batch(&file);
	put_gap(&file, 0, 119, 121, 0);

	start(&e, file.path, true);
	want(&e, CALL);
	configure(&e);
	drain_to_the_end(&e);
	assert_int_equal(count_of(&e, CALL), 3);
	assert_int_equal(e.lost, 15 + 30 + 1 + 2);
	for (unsigned i = 0, calls = 0, so_far = 0; i < e.n; i++) {
		static const unsigned before[] = { 0, 15, 46 };

		if (e.seen[i].read == RING_LOST) {
			so_far += e.seen[i].count;
			lost[e.seen[i].reason] += e.seen[i].count;
		} else if (e.seen[i].probe == CALL) {
			assert_int_equal(so_far, before[calls++]);
		}
	}
	assert_int_equal(lost[RT_LOST_FULL], 1 + 5 + 30 + 1 + 2);
	assert_int_equal(lost[RT_LOST_NEST], 2);
	assert_int_equal(lost[RT_LOST_STOPPED], 3);
	assert_int_equal(lost[RT_LOST_BUSY], 4);
	end(&e);
	remove_file(&file);
}

/* Far more than the ring holds, through a reader that is often away. */
static void fast_loses_nothing(void **state)
{
	enum { BATCHES = 20, EVENTS = 2000 };
	struct file file;
	struct engine e;

	(void)state;
	open_recording(&file);
	for (unsigned i = 0; i < BATCHES; i++) {
		begin_batch(&file, i % CPUS, i * EVENTS);
		for (unsigned j = 0; j < EVENTS; j++)
			put_event(&file, CALL, 0, i * EVENTS + j);
		end_batch(&file);
	}
	start(&e, file.path, true);
	want(&e, CALL);
	configure(&e);
	for (unsigned i = 0; i < 10; i++) {
		usleep(2000);
		drain(&e);
	}
	drain_to_the_end(&e);
	assert_int_equal(e.records, BATCHES * EVENTS + CPUS);
	assert_int_equal(e.lost, 0);
	end(&e);
	remove_file(&file);
}

/* Replays a file of so many events; whether each was there by its time, and in no watermark's past. */
static bool is_in_time(const char *path, unsigned events)
{
	struct engine e;
	uint64_t before, until, looked, read = 0;
	unsigned late = 0, broken = 0;

	start(&e, path, false);
	want(&e, CALL);
	configure(&e);
	before = looked = clock_monotonic();
	for (until = before + PATIENCE_NS; read < events && looked < until;) {
		uint64_t now = clock_monotonic();

		drain(&e);
		for (; read < count_of(&e, CALL); read++) {
			uint64_t time_ns = nth_of(&e, CALL, read)->time_ns;

			broken += time_ns < looked;	/* what a watermark promises */
			late += clock_monotonic() > time_ns + 20000000;
		}
		looked = now;
	}
	assert_int_equal(read, events);
	assert_true(clock_monotonic() - before >= (events - 1) * 4 * STEP_NS);
	drain_to_the_end(&e);
	end(&e);
	return late == 0 && broken == 0;
}

/* An event is there by its time, and not long before it. A machine that is not ours alone puts the
 * player, or who looks, off for longer than that, but not each time. */
static void keeps_the_recorded_pace(void **state)
{
	enum { EVENTS = 20, TRIES_MAX = 100 };
	struct file file;
	unsigned tries;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	for (unsigned i = 0; i < EVENTS; i++)
		put_event(&file, CALL, 0, i * 4);
	end_batch(&file);
	for (tries = 0; tries < TRIES_MAX && !is_in_time(file.path, EVENTS); tries++)
		;
	assert_true(tries < TRIES_MAX);
	remove_file(&file);
}

/* With the ring full, and with the next event an hour away. */
static void closes_while_it_waits(void **state)
{
	struct file file;
	struct engine e;
	uint64_t before;

	(void)state;
	open_recording(&file);
	begin_batch(&file, 0, 0);
	for (unsigned i = 0; i < 2000; i++)
		put_event(&file, CALL, 0, i);
	put_event(&file, CALL, 0, 3600000);
	end_batch(&file);
	for (unsigned fast = 0; fast < 2; fast++) {
		start(&e, file.path, fast);
		want(&e, CALL);
		configure(&e);
		usleep(fast ? GRACE_NS / 1000 + 30000 : 30000);
		before = clock_monotonic();
		end(&e);
		assert_true(clock_monotonic() - before < PATIENCE_NS);
	}
	source_replay.close(NULL);
	remove_file(&file);
}

/* ---- Files that cannot be replayed ----------------------------------------------------------- */

static void refuse(const char *path, int err, const char *code, const char *says)
{
	struct source_config config = { .ring_bytes = RT_RING_BYTES_MIN, .path = path };
	struct source *source = NULL;
	struct error error = { 0 };

	assert_int_equal(source_replay.open(&config, &source, &error), err);
	assert_null(source);
	assert_string_equal(error.code, code);
	if (!strstr(error.what, says))
		fail_msg("\"%s\" does not say \"%s\"", error.what, says);
}

static void refuses_what_cannot_be_read(void **state)
{
	(void)state;
	refuse(NULL, -EINVAL, "replay-no-file", "replay:FILE");
	refuse("/nonexistent/x.rt", -ENOENT, "recording-unreadable", "/nonexistent/x.rt");
	refuse("/tmp", -EISDIR, "recording-unreadable", "/tmp");
	refuse("/dev/null", -EBADMSG, "recording-foreign", "at byte 0");
	refuse("/proc/self/exe", -EBADMSG, "recording-foreign", "not a ringtail frame");
}

static void refuses_corrupt_files_with_the_offset(void **state)
{
	uint64_t catalog_at, batch_at;
	char says[64];
	struct file file;
	uint8_t byte;

	(void)state;
	open_file(&file);
	put_catalog(&file, 2);
	refuse(file.path, -EBADMSG, "recording-foreign", "begins with a catalog");
	remove_file(&file);

	open_file(&file);
	put_hello(&file);
	catalog_at = file.bytes;
	put_catalog(&file, 2);
	batch_at = file.bytes;
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	end_batch(&file);
	snprintf(says, sizeof(says), "at byte %zu:", (size_t)batch_at);

	assert_int_equal(ftruncate(file.fd, file.bytes - 1), 0);
	refuse(file.path, -EBADMSG, "recording-corrupt", says);
	assert_int_equal(ftruncate(file.fd, batch_at + 5), 0);
	refuse(file.path, -EBADMSG, "recording-corrupt", says);

	snprintf(says, sizeof(says), "at byte %zu:", (size_t)catalog_at);
	assert_int_equal(pread(file.fd, &byte, 1, batch_at - 3), 1);
	byte ^= 1;
	assert_int_equal(pwrite(file.fd, &byte, 1, batch_at - 3), 1);
	refuse(file.path, -EBADMSG, "recording-corrupt", says);
	remove_file(&file);
}

static void refuses_frames_that_do_not_fit(void **state)
{
	struct file file;

	(void)state;
	open_recording(&file);
	put_catalog(&file, 1);
	refuse(file.path, -EBADMSG, "recording-corrupt", "not what it was");
	remove_file(&file);

	open_file(&file);	/* events before the catalog that explains them */
	put_hello(&file);
	begin_batch(&file, 0, 0);
	put_event(&file, CALL, 0, 0);
	end_batch(&file);
	refuse(file.path, -EBADMSG, "recording-corrupt", "catalog");
	remove_file(&file);

	open_recording(&file);
	put_frame(&file, FRAME_BATCH, (const uint8_t *)"\xff\xff\xff", 3);
	refuse(file.path, -EBADMSG, "recording-corrupt", "at byte");
	remove_file(&file);

	open_recording(&file);
	put_gap(&file, RT_CPUS_MAX, 0, 1, 0);
	refuse(file.path, -EBADMSG, "recording-corrupt", "CPU 1024");
	remove_file(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replays_events_threads_and_times),
		cmocka_unit_test(records_nothing_before_a_probe_is_enabled),
		cmocka_unit_test(honours_probes_and_clauses),
		cmocka_unit_test(carries_attachments_that_are_asked_for),
		cmocka_unit_test(replays_losses_and_gaps_in_place),
		cmocka_unit_test(fast_loses_nothing),
		cmocka_unit_test(keeps_the_recorded_pace),
		cmocka_unit_test(closes_while_it_waits),
		cmocka_unit_test(refuses_what_cannot_be_read),
		cmocka_unit_test(refuses_corrupt_files_with_the_offset),
		cmocka_unit_test(refuses_frames_that_do_not_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
