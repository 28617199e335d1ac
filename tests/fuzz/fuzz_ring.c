/*
 * fuzz_ring: a ring whose producer does what it likes, through the reader, the drain, its batchers
 * and a meter. Nothing is read outside the ring, the reader comes to an end, and whatever the
 * records say, each subscription's frames decode and account for every attempt that was numbered.
 *
 * The input is a program. Its first byte: bits 0 and 1, the ring's policy; bit 2, the reader goes
 * on from a note in its page. Then one step after the other, by a byte: a record, from a producer
 * that keeps the rules but fills it with anything; bytes of the ring, its page or the reader's that
 * are just overwritten; losses; reading. At the end all is read.
 */
#include <stdlib.h>
#include <string.h>

#include "daemon/collect/drain.h"
#include "daemon/ring/reader.h"
#include "proto/batch_decode.h"
#include "tests/unit/daemon/small_catalog.h"

#define RING_BYTES	RT_RING_BYTES_MIN
#define SUBBUF_BYTES	RT_SUBBUF_BYTES_MIN
#define MAP_BYTES	(RT_PAGE_BYTES + RING_BYTES + RT_PAGE_BYTES)
#define KEY		0x1122334455000000ull
#define STEPS_MAX	512u	/* of one input; each writes at most a few records */
#define READS_MAX	8192u	/* records and losses that one ring can hold, and more */
#define SUBSCRIPTIONS	2u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint16_t probe_id[] = {
	SMALL_READ, SMALL_KILL, SMALL_GETPPID, SMALL_EXIT, SMALL_OPENAT, SMALL_OPENAT_ENTRY,
	RT_PROBE_LOSS, RT_PROBE_SCHED_SWITCH, RT_PROBE_SCHED_WAKEUP, RT_PROBE_THREAD,
	RT_PROBE_PAD, RT_PROBE_SUBBUF, RT_PROBE_SCHED_EXEC, RT_PROBE_SYSCALL_CALL + 900,
	RT_PROBE_MAX, 0xffff,
};

static struct ring {
	uint8_t *map;			/* producer page, data, slack */
	struct rt_ring_producer *producer;
	struct rt_ring_consumer *consumer;
	struct drain drain;
	struct probe_table probes;
	struct meters *meters;
	struct frame_codec *codec;
	struct batch_decoder *decoder;
	struct batcher_spec spec[SUBSCRIPTIONS];
	struct batch_probe batch_probe[RT_PROBE_MAX];
	uint64_t told[SUBSCRIPTIONS];	/* attempts that the frames spoke of */
	uint64_t reads;
	uint64_t pos, lost;		/* the producer's own */
} ring;

struct input {
	const uint8_t *at;
	size_t left;
};

static uint64_t take(struct input *input, size_t bytes)
{
	uint64_t value = 0;

	if (bytes > input->left)
		bytes = input->left;
	memcpy(&value, input->at, bytes);
	input->at += bytes;
	input->left -= bytes;
	return value;
}

/* ---- What comes out -------------------------------------------------------------------------- */

static void check_batch(const struct frame_ref *frame)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX];
	uint64_t events = 0, lost = 0;
	struct batch_summary summary;
	struct frame_header header;
	struct batch_item item;
	const uint8_t *body;

	if (frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header) != FRAME_OK ||
	    frame_open(ring.codec, frame->data, &header, raw, &body) != FRAME_OK ||
	    batch_decode_open(ring.decoder, body, header.raw_bytes, &summary) != 0 ||
	    summary.first_seq != frame->first_seq || summary.end_seq != frame->end_seq)
		abort();
	while (batch_decode_next(ring.decoder, &item) != BATCH_END) {
		if (item.kind == BATCH_ERROR)
			abort();
		events += item.kind == BATCH_EVENT;
		lost += item.kind == BATCH_LOSS ? item.loss.count : 0;
	}
	if (events != frame->events || lost != frame_ref_losses(frame))
		abort();
}

static bool on_frame(void *context, uint32_t subscription, struct frame_ref *frame)
{
	(void)context;
	if (frame->first_seq != ring.told[subscription] ||
	    frame->end_seq - frame->first_seq !=
		    frame->events + frame->skipped + frame_ref_losses(frame))
		abort();
	ring.told[subscription] = frame->end_seq;
	if (frame->bytes)
		check_batch(frame);
	frame_ref_put(frame);
	return true;
}

/* ---- What goes in ---------------------------------------------------------------------------- */

static uint8_t *place(uint64_t pos)
{
	return ring.map + RT_PAGE_BYTES + (pos & (RING_BYTES - 1));
}

static void put_record(uint16_t probe, uint32_t words, uint32_t tid, uint64_t time_ns,
		       const uint64_t *payload)
{
	struct rt_record *record = (void *)place(ring.pos);

	memcpy(record->payload, payload, words * 8 - RT_RECORD_HEADER_BYTES);
	record->time_ns = time_ns;
	record->tid = tid;
	record->lost = (uint32_t)ring.lost;
	record->commit = rt_record_commit(ring.pos, KEY, words, probe);
	ring.pos += words * 8;
}

static void fill_up(uint64_t end)
{
	static const uint64_t nothing[RT_RECORD_WORDS_MAX];

	while (ring.pos < end) {
		uint64_t words = (end - ring.pos) / 8;

		if (words > RT_RECORD_WORDS_MAX)
			words = RT_RECORD_WORDS_MAX;
		if (words > 3) {
			put_record(RT_PROBE_PAD, (uint32_t)words, 0, 0, nothing);
			continue;
		}
		*(uint64_t *)(void *)place(ring.pos) = rt_record_commit(ring.pos, KEY, 1, 0);
		ring.pos += 8;
	}
}

/* As any producer does it: into the sub-buffer, or with a filler and a head into the next. */
static void produce(uint16_t probe, uint32_t words, uint32_t tid, uint64_t time_ns,
		    const uint64_t *payload)
{
	uint64_t end = (ring.pos | (SUBBUF_BYTES - 1)) + 1;
	struct rt_subbuf head = {.lost_total = ring.lost};

	if (ring.pos + words * 8 + SUBBUF_BYTES - ring.consumer->consumer_pos > RING_BYTES &&
	    ring.producer->policy != RT_POLICY_OVERWRITE)
		return;
	if (ring.pos & (SUBBUF_BYTES - 1) && ring.pos + words * 8 > end)
		fill_up(end);
	if (!(ring.pos & (SUBBUF_BYTES - 1))) {
		head.pos = ring.pos;
		put_record(RT_PROBE_SUBBUF, 6, 0, 0, (const uint64_t *)&head);
	}
	put_record(probe, words, tid, time_ns, payload);
	ring.producer->producer_pos = ring.pos;
}

/* A probe, words, a tid, a time, and the payload's words, each of one byte or of eight. */
static void step_record(struct input *input)
{
	uint64_t payload[RT_RECORD_WORDS_MAX] = {0};
	uint8_t shape = (uint8_t)take(input, 1);
	uint32_t words = 3 + (uint32_t)take(input, 1) % (RT_RECORD_WORDS_MAX - 2);
	uint32_t tid = (uint32_t)take(input, 1);
	uint64_t time_ns = take(input, 2);

	for (uint32_t i = 0; i < words - 3 && input->left; i++)
		payload[i] = take(input, shape & 0x80 ? 8 : 1);
	produce(probe_id[shape % (sizeof(probe_id) / sizeof(probe_id[0]))], words, tid, time_ns,
		payload);
}

/* Some bytes at a place: of the producer's page, the reader's, or the data. */
static void step_damage(struct input *input)
{
	uint32_t at = (uint32_t)take(input, 2), bytes = 1 + (uint32_t)take(input, 1) % 16;
	uint8_t *to = ring.map + at % MAP_BYTES;
	uint8_t *end = ring.map + MAP_BYTES;

	if (at >= 0xff00) {
		to = (uint8_t *)ring.producer + at % sizeof(*ring.producer);
	} else if (at >= 0xfc00) {
		to = (uint8_t *)ring.consumer + at % sizeof(*ring.consumer);
		end = (uint8_t *)ring.consumer + RT_PAGE_BYTES;
	}
	while (bytes-- && to < end)
		*to++ = (uint8_t)take(input, 1);
}

static void step_lose(struct input *input)
{
	uint64_t count = take(input, 1);

	ring.producer->lost[take(input, 1) % RT_LOST_REASONS] += count;
	ring.producer->lost_total += count;
	ring.lost += count;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void read_some(uint32_t records)
{
	uint64_t seq = ring.drain.seq;
	uint32_t read = drain_read(&ring.drain, records);

	ring.reads += read;
	if (ring.reads > READS_MAX || ring.drain.seq != ring_reader_seq(ring.drain.reader) ||
	    (read && ring.drain.seq == seq) ||
	    ring.drain.corrupt != (ring_reader_error(ring.drain.reader) != NULL))
		abort();
}

/* As a worker ends a pass. */
static void end_pass(void)
{
	drain_flush(&ring.drain, UINT64_MAX);
	meter_end_run(meters_get(ring.meters, 0), &ring.drain.metered, ring.drain.threads, 1 << 17);
	meter_end_pass(meters_get(ring.meters, 0), drain_watermark(&ring.drain, 1 << 17), 1 << 17);
}

static bool open_reader(void)
{
	struct drain *drain = &ring.drain;
	struct error error = {0};

	if (ring_reader_create(ring.map, MAP_BYTES, ring.consumer, &drain->reader, &error) != 0) {
		if (!error.code[0] || !error.what[0])
			abort();
		return false;
	}
	drain->seq = ring_reader_seq(drain->reader);
	drain->last_time_ns = 0;
	drain->corrupt = false;
	drain->meta = 0;
	drain->cached_thread = THREAD_NONE;
	drain->metered = (struct meter_ring){0};
	ring.reads = 0;
	for (unsigned i = 0; i < SUBSCRIPTIONS; i++) {
		ring.told[i] = drain->seq;
		batcher_start(drain->batcher[i], drain->seq, 0);
	}
	return true;
}

static void close_reader(void)
{
	/* Nobody is known to the next input: a record's tid is a byte, unless it was damaged. */
	for (uint32_t tid = 0; tid < 256 && ring.drain.meta; tid++) {
		uint32_t thread = thread_table_find(ring.drain.threads, tid);

		if (thread == THREAD_NONE)
			continue;
		thread_table_forget(ring.drain.threads, tid);
		for (unsigned i = 0; i < SUBSCRIPTIONS; i++)
			batcher_forget_thread(ring.drain.batcher[i], thread);
	}
	ring_reader_destroy(ring.drain.reader);
	ring.drain.reader = NULL;
}

/* ---- Once ------------------------------------------------------------------------------------ */

static void add_batcher(uint32_t i, const char *glob, const char *filter, uint32_t flags)
{
	struct batcher_config config = {
		.spec = &ring.spec[i],
		.threads = ring.drain.threads,
		.codec = ring.codec,
		.sink = on_frame,
		.subscription = i,
	};
	struct filter *made = NULL;
	struct error error;

	if (probe_set_add_glob(&ring.spec[i].probes, glob, small_catalog_get(), &error) != 0 ||
	    (filter && filter_compile(filter, small_catalog_get(), &made, &error) != 0))
		abort();
	ring.spec[i].filter = made;
	ring.spec[i].flags = flags;
	if (drain_add(&ring.drain, i, batcher_create(&config)) != 0)
		abort();
}

static void make_all(void)
{
	static struct probe_set all;
	struct meters_config config = {
		.workers = 1, .catalog = small_catalog_get(), .probes = &all, .slow_ns = 1000,
		.comm = true,
	};
	struct error error;

	ring.map = aligned_alloc(RT_PAGE_BYTES, MAP_BYTES);
	ring.producer = (void *)ring.map;
	ring.consumer = aligned_alloc(RT_PAGE_BYTES, RT_PAGE_BYTES);
	ring.codec = frame_codec_create(1);
	ring.drain.threads = thread_table_create(THREADS_PER_RING_MAX);
	ring.drain.probes = &ring.probes;
	if (!ring.map || !ring.consumer || !ring.codec || !ring.drain.threads ||
	    probe_table_init(&ring.probes, small_catalog_get(), &error) != 0 ||
	    probe_set_add_glob(&all, "*:*:*", small_catalog_get(), &error) != 0)
		abort();
	for (unsigned i = 0; i < RT_PROBE_MAX; i++)
		ring.batch_probe[i] = (struct batch_probe){
			.fields = ring.probes.probe[i].fields,
			.has_duration = ring.probes.probe[i].has_duration,
			.known = ring.probes.probe[i].known,
		};
	ring.decoder = batch_decoder_create(ring.batch_probe, RT_PROBE_MAX);
	ring.meters = meters_create(&config);
	if (!ring.decoder || !ring.meters)
		abort();
	ring.drain.meter = meters_get(ring.meters, 0);
	add_batcher(0, "*:*:*", NULL, RT_FLAG_KSTACK | RT_FLAG_USTACK | RT_FLAG_STRINGS);
	add_batcher(1, "syscall:*:call", "pid != 7 && ret < 100 && comm != \"x\"", 0);
}

/* An empty ring, as a producer that keeps the rules has made it. */
static void begin(uint8_t flags)
{
	struct rt_ring_note note = {.seq = 1000};

	memset(ring.map, 0, MAP_BYTES);
	memset(ring.consumer, 0, sizeof(*ring.consumer));
	ring.pos = ring.lost = 0;
	*ring.producer = (struct rt_ring_producer){
		.magic = RT_RING_MAGIC,
		.version = RT_ABI_VERSION,
		.size_bytes = RING_BYTES,
		.subbuf_bytes = SUBBUF_BYTES,
		.key = KEY,
		.policy = flags & 3,
	};
	if (flags & 4) {
		ring.consumer->epoch = 1;
		ring_note_write(ring.consumer, &note);
	}
}

static void step(struct input *input)
{
	uint8_t kind = (uint8_t)take(input, 1);

	if (kind < 0xa0)
		step_record(input);
	else if (kind < 0xd0)
		step_damage(input);
	else if (kind < 0xe0)
		step_lose(input);
	else if (ring.drain.reader || open_reader())
		read_some(kind & 0x1f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = {data, size};

	if (!ring.map)
		make_all();
	begin((uint8_t)take(&input, 1));
	for (unsigned i = 0; i < STEPS_MAX && input.left; i++)
		step(&input);
	if (!ring.drain.reader && !open_reader())
		return 0;
	read_some(READS_MAX + 1);
	end_pass();
	if (ring.told[0] != ring.drain.seq || ring.told[1] != ring.drain.seq)
		abort();
	close_reader();
	return 0;
}
