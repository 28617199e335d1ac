/*
 * maker: frames for tests, as a daemon would send them, in memory.
 */
#ifndef RINGTAIL_TESTS_CLIENT_MAKER_H
#define RINGTAIL_TESTS_CLIENT_MAKER_H

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proto/batch_encode.h"
#include "proto/frame.h"
#include "proto/limits.h"
#include "proto/ringtail.pb-c.h"

struct maker {
	struct frame_codec *codec;
	struct batch_encoder *encoder;
	uint64_t slot[1024];		/* the encoder's word for each tid */
	uint8_t *bytes;
	size_t size, max;
};

#define MAKER_OPENAT	0x1001
#define MAKER_EXIT	0x1002
#define MAKER_ENTRY	0x1401
#define MAKER_RETURN	0x1801
#define MAKER_SWITCH	0x0100
#define MAKER_WAKEUP	0x0101
#define MAKER_FORK	0x0102
#define MAKER_EXEC	0x0103
#define MAKER_EXITED	0x0104
#define MAKER_OTHER	0x0200
#define MAKER_MPROTECT	0x1003
#define MAKER_WALL_NS	1700000000000000000ull	/* the wall clock at monotonic 0 */

__attribute__((unused))
static void maker_init(struct maker *maker)
{
	memset(maker, 0, sizeof(*maker));
	maker->codec = frame_codec_create(1);
	maker->encoder = batch_encoder_create(0x1c00);
	assert(maker->codec && maker->encoder);
}

__attribute__((unused))
static void maker_fini(struct maker *maker)
{
	frame_codec_destroy(maker->codec);
	batch_encoder_destroy(maker->encoder);
	free(maker->bytes);
}

__attribute__((unused))
static void maker_raw(struct maker *maker, enum frame_type type, const uint8_t *raw, size_t bytes)
{
	size_t bound = frame_bound((uint32_t)bytes);

	if (maker->size + bound > maker->max) {
		maker->max = (maker->size + bound) * 2;
		maker->bytes = realloc(maker->bytes, maker->max);
		assert(maker->bytes);
	}
	maker->size += frame_seal(maker->codec, type, raw, (uint32_t)bytes,
				  maker->bytes + maker->size);
}

__attribute__((unused)) static void maker_message(struct maker *maker, enum frame_type type,
						  const ProtobufCMessage *message)
{
	size_t bytes = protobuf_c_message_get_packed_size(message);
	uint8_t *raw = malloc(bytes + 1);

	assert(raw);
	protobuf_c_message_pack(message, raw);
	maker_raw(maker, type, raw, bytes);
	free(raw);
}

__attribute__((unused))
static void maker_hello(struct maker *maker, uint32_t version, uint64_t epoch)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	uint8_t boot_id[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };

	hello.version = version;
	hello.software = "ringtaild test";
	hello.hostname = "here";
	hello.kernel = "6.1";
	hello.machine = "x86_64";
	hello.source = "replay";
	hello.boot_id.data = boot_id;
	hello.boot_id.len = sizeof(boot_id);
	hello.epoch = epoch;
	hello.monotonic_ns = 0;
	hello.realtime_ns = MAKER_WALL_NS;
	hello.cpus = 2;
	maker_message(maker, FRAME_SERVER_HELLO, &hello.base);
}

struct maker_field {
	const char *name;
	int type, bits;
};

__attribute__((unused))
static void maker_catalog(struct maker *maker)
{
	static const struct {
		uint32_t id;
		const char *provider, *function, *name;
		struct maker_field field[6];
	} probes[] = {
		{ MAKER_OPENAT, "syscall", "openat", "call",
		  { { "duration", 3, 64 }, { "ret", 4, 64 }, { "dfd", 5, 32 },
		    { "filename", 7, 64 }, { "flags", 2, 32 },
		    { "mode", 0, 16 } } },
		{ MAKER_EXIT, "syscall", "exit_group", "call",
		  { { "duration", 3, 64 }, { "ret", 4, 64 }, { "error_code", 1, 32 } } },
		{ MAKER_ENTRY, "syscall", "openat", "entry",
		  { { "dfd", 5, 32 }, { "filename", 7, 64 } } },
		{ MAKER_RETURN, "syscall", "openat", "return", { { "ret", 4, 64 } } },
		{ MAKER_SWITCH, "tracepoint", "sched", "sched_switch",
		  { { "prev_prio", 1, 32 }, { "prev_state", 2, 64 }, { "next_tid", 6, 32 },
		    { "next_prio", 1, 32 } } },
		{ MAKER_WAKEUP, "tracepoint", "sched", "sched_wakeup",
		  { { "target_tid", 6, 32 }, { "prio", 1, 32 }, { "target_cpu", 0, 32 } } },
		{ MAKER_FORK, "tracepoint", "sched", "sched_process_fork",
		  { { "child_tid", 6, 32 }, { "child_pid", 0, 32 } } },
		{ MAKER_EXEC, "tracepoint", "sched", "sched_process_exec",
		  { { "old_tid", 0, 32 }, { "filename", 7, 64 } } },
		{ MAKER_EXITED, "tracepoint", "sched", "sched_process_exit",
		  { { "prio", 1, 32 }, { "group_dead", 0, 8 } } },
		{ MAKER_MPROTECT, "syscall", "mprotect", "call",
		  { { "duration", 3, 64 }, { "ret", 4, 64 },
		    { "start", 0, 64 }, { "len", 0, 64 }, { "prot", 2, 64 } } },
		{ MAKER_OTHER, "tracepoint", "net", "net_dev_xmit",
		  { { "len", 0, 32 }, { "rc", 1, 8 }, { "took", 3, 64 } } },
	};
	enum { MADE = sizeof(probes) / sizeof(*probes) };
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Probe probe[MADE], *probe_list[MADE];
	Ringtail__V1__Field field[MADE][6], *field_list[MADE][6];

	catalog.n_probe = MADE;
	catalog.probe = probe_list;
	for (size_t i = 0; i < MADE; i++) {
		ringtail__v1__probe__init(&probe[i]);
		probe_list[i] = &probe[i];
		probe[i].id = probes[i].id;
		probe[i].provider = (char *)probes[i].provider;
		probe[i].function = (char *)probes[i].function;
		probe[i].name = (char *)probes[i].name;
		probe[i].field = field_list[i];
		for (size_t j = 0; j < 6 && probes[i].field[j].name; j++) {
			ringtail__v1__field__init(&field[i][j]);
			field_list[i][j] = &field[i][j];
			field[i][j].name = (char *)probes[i].field[j].name;
			field[i][j].type = probes[i].field[j].type;
			field[i][j].bits = (uint32_t)probes[i].field[j].bits;
			field[i][j].c_type = !strcmp(field[i][j].name, "mode") ? "umode_t" :
					     !field[i][j].type && field[i][j].bits == 64 ?
					     "unsigned long" : "long";
			probe[i].n_field = j + 1;
		}
	}
	maker_message(maker, FRAME_CATALOG, &catalog.base);
}

__attribute__((unused))
static void maker_subscribed(struct maker *maker, uint32_t cpus, const uint64_t *seq)
{
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	Ringtail__V1__Cursor start = RINGTAIL__V1__CURSOR__INIT;
	Ringtail__V1__Position position[8], *list[8];

	for (uint32_t i = 0; i < cpus; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = i;
		position[i].seq = seq[i];
		list[i] = &position[i];
	}
	start.n_position = cpus;
	start.position = list;
	subscribed.start = &start;
	maker_message(maker, FRAME_SUBSCRIBED, &subscribed.base);
}

__attribute__((unused))
static void maker_start(struct maker *maker)
{
	static const uint64_t zero[2];

	maker_hello(maker, 1, 7);
	maker_catalog(maker);
	maker_subscribed(maker, 2, zero);
}

/* An event of thread tid (named "t<tid>"), in the batch that is open. */
__attribute__((unused))
static void maker_event(struct maker *maker, uint16_t probe, uint32_t tid, uint64_t time_ns,
			const uint64_t *field, unsigned fields)
{
	struct batch_thread thread = { .tid = tid, .pid = tid, .uid = 1000, .ppid = 1 };
	struct batch_event event = {
		.probe = probe,
		.fields = (uint8_t)fields,
		.has_duration = (probe & 0x1c00) == 0x1000,
		.time_ns = time_ns,
		.field = field,
	};
	char comm[24];
	bool good;

	assert(tid < sizeof(maker->slot) / sizeof(*maker->slot));

	snprintf(comm, sizeof(comm), "t%u", tid);
	memcpy(thread.comm, comm, sizeof(thread.comm));
	event.thread = batch_encode_thread(maker->encoder, &thread, &maker->slot[tid]);
	good = batch_encode_event(maker->encoder, &event);
	assert(good);
}

__attribute__((unused))
static void maker_open(struct maker *maker, uint32_t tid, uint64_t time_ns, uint64_t ret)
{
	uint64_t field[6] = { 12345, ret, (uint32_t)-100, 0x7f0000001000, 0x80000, 0644 };

	maker_event(maker, MAKER_OPENAT, tid, time_ns, field, 6);
}

__attribute__((unused))
static void maker_begin(struct maker *maker, uint32_t cpu, uint64_t first_seq, uint64_t time_ns)
{
	batch_encode_begin(maker->encoder, cpu, first_seq, time_ns);
}

/* Returns the batch's end_seq. */
__attribute__((unused))
static uint64_t maker_end(struct maker *maker)
{
	uint64_t end_seq = batch_encode_end_seq(maker->encoder);
	const uint8_t *raw;
	size_t bytes;

	raw = batch_encode_finish(maker->encoder, &bytes);
	maker_raw(maker, FRAME_BATCH, raw, bytes);
	return end_seq;
}

/* A batch of `events` openat calls, times from time_ns in steps of step_ns. */
__attribute__((unused))
static uint64_t maker_batch(struct maker *maker, uint32_t cpu, uint64_t first_seq, uint64_t time_ns,
			    uint64_t step_ns, unsigned events)
{
	maker_begin(maker, cpu, first_seq, time_ns);
	for (unsigned i = 0; i < events; i++)
		maker_open(maker, 100 + cpu % 100, time_ns + i * step_ns, 3);
	return maker_end(maker);
}

__attribute__((unused))
static void maker_watermark(struct maker *maker, uint64_t time_ns, uint64_t cpu0, uint64_t cpu1)
{
	Ringtail__V1__Watermark watermark = RINGTAIL__V1__WATERMARK__INIT;
	Ringtail__V1__Position position[2], *list[2] = { &position[0], &position[1] };

	ringtail__v1__position__init(&position[0]);
	ringtail__v1__position__init(&position[1]);
	position[1].cpu = 1;
	position[0].seq = cpu0;
	position[1].seq = cpu1;
	watermark.time_ns = time_ns;
	watermark.n_position = 2;
	watermark.position = list;
	maker_message(maker, FRAME_WATERMARK, &watermark.base);
}

__attribute__((unused))
static void maker_gap(struct maker *maker, uint32_t cpu, uint64_t first_seq, uint64_t end_seq,
		      uint64_t events, int stage, int reason)
{
	Ringtail__V1__Gap gap = RINGTAIL__V1__GAP__INIT;

	gap.cpu = cpu;
	gap.first_seq = first_seq;
	gap.end_seq = end_seq;
	gap.events = events;
	gap.stage = stage;
	gap.reason = reason;
	maker_message(maker, FRAME_GAP, &gap.base);
}

__attribute__((unused))
static inline void maker_leave(struct maker *maker, const char *reason, bool final)
{
	Ringtail__V1__Bye bye = RINGTAIL__V1__BYE__INIT;

	bye.reason = (char *)reason;
	bye.final = final;
	maker_message(maker, FRAME_BYE, &bye.base);
}

static inline void maker_bye(struct maker *maker, const char *reason)
{
	maker_leave(maker, reason, true);
}

__attribute__((unused))
static void maker_error(struct maker *maker, const char *code, const char *what, const char *hint,
			uint32_t column)
{
	Ringtail__V1__Error error = RINGTAIL__V1__ERROR__INIT;

	error.code = (char *)code;
	error.what = (char *)what;
	error.hint = (char *)hint;
	error.column = column;
	error.fatal = true;
	maker_message(maker, FRAME_ERROR, &error.base);
}

/* The bytes as an unlinked file, ready to be read. */
__attribute__((unused))
static int maker_file(const struct maker *maker, size_t bytes)
{
	char path[] = "/tmp/ringtail-test-XXXXXX";
	int fd = mkstemp(path);
	ssize_t n;

	assert(fd >= 0);
	unlink(path);
	n = write(fd, maker->bytes, bytes);
	assert(n == (ssize_t)bytes);
	lseek(fd, 0, SEEK_SET);
	return fd;
}

#endif
