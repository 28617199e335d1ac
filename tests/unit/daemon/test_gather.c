/*
 * Small frames of a stream become large ones: each event comes once, as it was, in order, no attempt is left
 * untold, and the ledger closes after every step, whatever the log gives up, the disk answers, and wherever memory
 * ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/lib/failing_memory.h"

#include "daemon/base/clock.h"
#include "daemon/base/limits.h"
#include "daemon/spool/frame.h"
#include "daemon/stream/catch_up.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/gather.h"
#include "proto/batch_decode.h"

#include "tests/unit/daemon/small_catalog.h"
#include "tests/unit/daemon/small_spool.h"

#define RINGS		2
#define SEQS		65536
#define MS		1000000ull
#define TICK_NS		(40 * MS)
#define INTERVAL_NS	(5 * NS_PER_S)
#define THREADS		3u

static struct consumer somebody;
static const uint32_t cpu_of[RINGS] = {0, 5};
static uint64_t now_ns;

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

/* ---- What is recorded ------------------------------------------------------------------------ */

struct fixture {
	struct subscription *subscription;
	struct frame_codec *codec;
	struct batch_encoder *encoder;
	struct batch_decoder *decoder;
	struct batch_probe probe[RT_PROBE_MAX];
	struct stream *stream;
	uint64_t interval_ns;
	bool wide;			/* events take many bytes, which compress well */
	uint64_t seq[RINGS], quiet[RINGS], time_ns;

	uint8_t kind[RINGS][SEQS];	/* 'e': an event; 'l': lost; 's': skipped */
	uint8_t came[RINGS][SEQS];	/* how often it came, as what it was, or was in a gap */
	uint64_t known[RINGS];		/* what is before it the client was told of */
	uint64_t told_ns;
	uint64_t events, gaps, batches, watermarks, raw_bytes_most;
};

static void on_read(void *context)
{
	(void)context;
}

static void open_all(struct fixture *f, uint64_t history_bytes, uint64_t lag_bytes)
{
	static const char *const glob[] = {"syscall:openat:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct error error;

	memset(f, 0, sizeof(*f));
	allocations_left = failures_left = 0;
	reader_fails = false;
	now_ns = 1000 * NS_PER_S;
	f->interval_ns = INTERVAL_NS;
	f->codec = frame_codec_create(1);
	f->encoder = batch_encoder_create(RT_PROBE_MAX);
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, history_bytes, &f->subscription,
					     &error), 0);
	f->probe[SMALL_OPENAT] = (struct batch_probe){6, true, true};
	f->decoder = batch_decoder_create(f->probe, RT_PROBE_MAX);
	f->subscription->spool.spool = &disk;
	f->subscription->spool.read = on_read;
	f->subscription->spool.hello = frame_ref_create(FRAME_SERVER_HELLO, 4);
	f->subscription->spool.catalog = frame_ref_create(FRAME_CATALOG, 4);
	f->stream = stream_create(f->subscription, f->codec, cpu_of, lag_bytes, NULL,
				  LOSS_REASON_UNKNOWN);
	f->stream->consumer = &somebody;
	assert_int_equal(gather_begin(f->stream, small_catalog_get(), &f->interval_ns), 0);
}

static void close_all(struct fixture *f)
{
	stream_destroy(f->stream);
	assert_null(reader);
	subscription_destroy(f->subscription);
	batch_decoder_destroy(f->decoder);
	batch_encoder_destroy(f->encoder);
	frame_codec_destroy(f->codec);
}

static void encode_event(struct fixture *f, uint64_t seq, uint64_t *slot)
{
	uint32_t who = (uint32_t)(seq % THREADS);
	struct batch_thread thread = {.tid = 100 + who, .pid = 100 + who};
	uint64_t wide = f->wide ? UINT64_MAX / (2 + seq % 2) : 0;
	uint64_t field[6] = {10, seq % 7 + wide, seq, wide, seq * seq, 1 + wide};
	struct batch_event event = {.probe = SMALL_OPENAT, .fields = 6, .has_duration = true,
				    .time_ns = 1000000 + 100 * seq, .field = field};

	snprintf(thread.comm, sizeof(thread.comm), "t%u", who);
	event.thread = batch_encode_thread(f->encoder, &thread, &slot[who]);
	assert_true(batch_encode_event(f->encoder, &event));
}

/* `what`: a letter for each attempt. */
static void append_batch(struct fixture *f, unsigned ring, const char *what, uint64_t times)
{
	struct frame_ref *frame, meta = {.losses = 0};
	uint64_t slot[THREADS] = {0}, first = f->seq[ring];
	const uint8_t *raw;
	size_t bytes;

	batch_encode_begin(f->encoder, cpu_of[ring], first, 1000000 + 100 * first);
	for (uint64_t i = 0; i < times * strlen(what); i++) {
		char kind = what[i % strlen(what)];

		f->kind[ring][f->seq[ring]] = (uint8_t)kind;
		if (kind == 'e')
			encode_event(f, f->seq[ring], slot);
		else if (kind == 'l')
			assert_true(batch_encode_loss(f->encoder, 1, 1, 1));
		else
			batch_encode_skip(f->encoder, 1);
		f->seq[ring]++;
		meta.events += kind == 'e';
		meta.skipped += kind == 's';
		meta.loss[0].count += kind == 'l';
	}
	raw = batch_encode_finish(f->encoder, &bytes);
	frame = frame_ref_seal(f->codec, FRAME_BATCH, raw, (uint32_t)bytes);
	frame->ring = ring;
	frame->cpu = cpu_of[ring];
	frame->first_seq = first;
	frame->end_seq = f->seq[ring];
	frame->events = meta.events;
	frame->skipped = meta.skipped;
	frame->losses = meta.loss[0].count != 0;
	frame->loss[0] = (struct loss_count){1, 1, meta.loss[0].count};
	f->quiet[ring] = 0;
	subscription_append(f->subscription, frame);
}

static void append_skips(struct fixture *f, unsigned ring, uint64_t attempts)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 0);

	frame->ring = ring;
	frame->cpu = cpu_of[ring];
	frame->first_seq = f->seq[ring];
	frame->skipped = attempts;
	memset(&f->kind[ring][f->seq[ring]], 's', attempts);
	frame->end_seq = f->seq[ring] += attempts;
	f->quiet[ring] += attempts;
	subscription_append(f->subscription, frame);
}

static void append_gap(struct fixture *f, unsigned ring, uint64_t attempts)
{
	struct frame_ref *frame = frame_ref_gap(f->codec, cpu_of[ring], f->seq[ring], f->seq[ring] + attempts, 1, 1, 0);

	frame->ring = ring;
	memset(&f->kind[ring][f->seq[ring]], 'l', attempts);
	f->seq[ring] += attempts;
	f->quiet[ring] = 0;
	subscription_append(f->subscription, frame);
}

static void append_watermark(struct fixture *f)
{
	Ringtail__V1__Position position[RINGS], *list[RINGS];
	struct frame_ref *frame;

	for (unsigned i = 0; i < RINGS; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = cpu_of[i];
		position[i].seq = f->seq[i];
		position[i].skipped = f->quiet[i];
		f->quiet[i] = 0;
		list[i] = &position[i];
	}
	frame = spool_frame_watermark(f->codec, ++f->time_ns, list, RINGS);
	frame->time_ns = f->time_ns;
	subscription_append(f->subscription, frame);
}

/* A pass of the worker, which found that on each ring. */
static void tick(struct fixture *f, const char *what)
{
	now_ns += TICK_NS;
	for (unsigned ring = 0; *what && ring < RINGS; ring++)
		append_batch(f, ring, what, 1);
	append_watermark(f);
}

/* ---- The client ------------------------------------------------------------------------------ */

static void check_ledger(const struct fixture *f)
{
	struct stream_stat stat;

	stream_stat(f->stream, &stat);
	assert_int_equal(stat.residual, 0);
}

static const uint8_t *body_of(struct fixture *f, const struct frame_ref *frame, uint8_t *raw, size_t *bytes)
{
	struct frame_header header;
	const uint8_t *body;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, FRAME_RAW_BYTES_MAX, &header), FRAME_OK);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	*bytes = header.raw_bytes;
	return body;
}

static void take_event(struct fixture *f, unsigned ring, const struct batch_item *item)
{
	char comm[16];

	snprintf(comm, sizeof(comm), "t%u", (unsigned)(item->seq % THREADS));
	assert_int_equal(f->kind[ring][item->seq], 'e');
	assert_int_equal(item->event.field[2], item->seq);
	assert_int_equal(item->event.field[4], item->seq * item->seq);
	assert_int_equal(item->event.time_ns, 1000000 + 100 * item->seq);
	assert_int_equal(item->thread->tid, 100 + item->seq % THREADS);
	assert_string_equal(item->thread->comm, comm);
	assert_int_equal(++f->came[ring][item->seq], 1);
	f->events++;
}

static void take_batch(struct fixture *f, const struct frame_ref *frame)
{
	static uint8_t raw[FRAME_RAW_BYTES_MAX + 1];
	struct batch_summary summary;
	struct batch_item item;
	size_t bytes;
	const uint8_t *body = body_of(f, frame, raw, &bytes);

	assert_int_equal(batch_decode_open(f->decoder, body, bytes, &summary), 0);
	assert_int_equal(summary.cpu, cpu_of[frame->ring]);
	assert_int_equal(summary.first_seq, frame->first_seq);
	assert_int_equal(summary.end_seq, frame->end_seq);
	assert_int_equal(frame->events + frame->skipped + frame_ref_losses(frame), frame_ref_attempts(frame));
	while (batch_decode_next(f->decoder, &item) != BATCH_END) {
		if (item.kind == BATCH_EVENT) {
			take_event(f, frame->ring, &item);
			continue;
		}
		assert_int_equal(item.kind, BATCH_LOSS);
		for (uint64_t i = 0; i < item.loss.count; i++) {
			assert_int_equal(f->kind[frame->ring][item.loss.first_seq + i], 'l');
			assert_int_equal(++f->came[frame->ring][item.loss.first_seq + i], 1);
		}
	}
	f->batches++;
	if (bytes > f->raw_bytes_most)
		f->raw_bytes_most = bytes;
}

/* No hole in front of it: what was skipped is in it, or was told before. */
static void take_range(struct fixture *f, unsigned ring, uint64_t first, uint64_t end, bool gap)
{
	assert_int_equal(first, f->known[ring]);
	for (uint64_t seq = first; gap && seq < end; seq++)
		assert_int_equal(++f->came[ring][seq], 1);
	f->known[ring] = end;
	f->gaps += gap;
}

static void take_watermark(struct fixture *f, const Ringtail__V1__Watermark *watermark)
{
	assert_true(watermark->time_ns >= f->told_ns);
	f->told_ns = watermark->time_ns;
	f->watermarks++;
	for (size_t i = 0; i < watermark->n_position; i++) {
		const Ringtail__V1__Position *at = watermark->position[i];
		unsigned ring = at->cpu == cpu_of[1];

		assert_true(at->seq >= f->known[ring]);
		assert_int_equal(at->seq - f->known[ring], at->skipped);
		for (; f->known[ring] < at->seq; f->known[ring]++)
			assert_int_equal(f->kind[ring][f->known[ring]], 's');
	}
}

static void on_tell(void *context, struct frame_ref *frame)
{
	struct fixture *f = context;
	unsigned left = allocations_left, failures = failures_left;
	uint8_t raw[1024];
	size_t bytes;
	const uint8_t *body;

	allocations_left = failures_left = 0;	/* the client has memory */
	body = body_of(f, frame, raw, &bytes);
	if (frame->type == FRAME_GAP) {
		Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, bytes, body);

		take_range(f, gap->cpu == cpu_of[1], gap->first_seq, gap->end_seq, true);
		ringtail__v1__gap__free_unpacked(gap, NULL);
	} else {
		Ringtail__V1__Watermark *watermark = ringtail__v1__watermark__unpack(NULL, bytes, body);

		take_watermark(f, watermark);
		ringtail__v1__watermark__free_unpacked(watermark, NULL);
	}
	allocations_left = left;
	failures_left = failures;
	frame_ref_put(frame);
}

static void take(struct fixture *f, const struct frame_ref *frame)
{
	if (!frame_ref_is_range(frame))
		return;
	take_range(f, frame->ring, frame->first_seq, frame->end_seq, frame->type == FRAME_GAP);
	if (frame->type == FRAME_BATCH)
		take_batch(f, frame);
}

/* Sends up to n frames, the first in two parts if n is odd. False: nothing was there. */
static bool send_some(struct fixture *f, unsigned n)
{
	struct frame_ref *frame[8];
	uint64_t told = f->watermarks + f->gaps;
	unsigned peeked = stream_peek(f->stream, frame, n < 8 ? n : 8, on_tell, f);

	allocations_left = failures_left = 0;
	check_ledger(f);
	for (unsigned i = 0; i < peeked; i++) {
		take(f, frame[i]);
		if (i == 0 && n % 2) {
			stream_begin(f->stream);
			check_ledger(f);
			stream_ended(f->stream);
		} else {
			stream_sent(f->stream);
		}
		check_ledger(f);
	}
	return peeked || f->watermarks + f->gaps > told;
}

/* As a session does that is woken: until nothing is left to do now. */
static void send_all(struct fixture *f)
{
	unsigned idle = 0;

	for (unsigned i = 0; i < 100000 && idle < 2; i++) {
		catch_up_poke(f->stream);
		answer(FRAMES);
		idle = send_some(f, 8) || f->stream->catch_up ? 0 : idle + 1;
	}
	assert_false(stream_has_work(f->stream));
}

static void check_all_came(struct fixture *f)
{
	for (unsigned i = 0; i < RINGS; i++) {
		assert_int_equal(f->known[i], f->seq[i]);
		for (uint64_t seq = 0; seq < f->seq[i]; seq++)
			assert_int_equal(f->kind[i][seq] == 's' || f->came[i][seq], 1);
	}
	check_ledger(f);
}

static struct fixture *begin(void)
{
	struct fixture *f = malloc(sizeof(*f));

	open_all(f, 1 << 20, 1 << 20);
	return f;
}

static void finish(struct fixture *f)
{
	close_all(f);
	free(f);
}

/* ---- When ------------------------------------------------------------------------------------ */

static void first_at_once_then_one_for_each_ring(void **state)
{
	struct fixture *f = begin();

	(void)state;
	tick(f, "ee");
	send_all(f);
	assert_int_equal(f->batches + f->watermarks, RINGS + 1);
	check_all_came(f);
	for (unsigned i = 1; i * TICK_NS < INTERVAL_NS; i++) {
		tick(f, i % 3 ? "selee" : "");
		send_all(f);
		assert_int_equal(f->batches, RINGS);
	}
	tick(f, "e");
	send_all(f);
	assert_int_equal(f->batches, 2 * RINGS);
	assert_int_equal(f->watermarks, 2);
	assert_int_equal(f->told_ns, f->time_ns);
	check_all_came(f);
	finish(f);
}

static void one_frame_a_minute_where_nothing_is_recorded(void **state)
{
	struct fixture *f = begin();
	uint64_t before;

	(void)state;
	send_all(f);
	for (unsigned i = 0; i < 600; i++) {
		now_ns += NS_PER_S;
		append_skips(f, i % RINGS, 1 + i % 5);
		append_watermark(f);
		send_all(f);
	}
	assert_int_equal(f->batches, 0);
	assert_in_range(f->watermarks, 10, 11);
	/* What is recorded then does not wait for the minute; and where nothing is any more, a minute is as long. */
	tick(f, "e");
	send_all(f);
	assert_int_equal(f->batches, RINGS);
	before = f->watermarks;
	for (unsigned i = 0; i < 600; i++) {
		now_ns += NS_PER_S;
		append_watermark(f);
		send_all(f);
	}
	assert_in_range(f->watermarks - before, 9, 11);
	check_all_came(f);
	finish(f);
}

static void each_frame_at_once_without_an_interval(void **state)
{
	struct fixture *f = begin();

	(void)state;
	f->interval_ns = 0;
	for (unsigned i = 1; i <= 10; i++) {
		tick(f, "se");
		send_all(f);
		assert_int_equal(f->batches, i * RINGS);
		assert_int_equal(f->watermarks, i);
	}
	/* Time alone goes at once, too. */
	tick(f, "");
	send_all(f);
	assert_int_equal(f->watermarks, 11);
	check_all_came(f);
	finish(f);
}

/* More than a minute: what is asked for is not made less where nothing is recorded. */
static void a_long_interval_is_as_long_without_news(void **state)
{
	struct fixture *f = begin();

	(void)state;
	f->interval_ns = 2 * RELAY_QUIET_NS;
	tick(f, "e");
	send_all(f);
	assert_int_equal(f->watermarks, 1);
	now_ns += f->interval_ns - TICK_NS - 1;
	tick(f, "");
	send_all(f);
	assert_int_equal(f->watermarks, 1);
	now_ns++;
	send_all(f);
	assert_int_equal(f->watermarks, 2);
	check_all_came(f);
	finish(f);
}

/* The clock counts from the boot: what comes first then does not wait either. */
static void first_at_once_after_a_boot(void **state)
{
	struct fixture *f = begin();

	(void)state;
	now_ns = NS_PER_S;
	assert_true(now_ns + TICK_NS < INTERVAL_NS);
	tick(f, "ee");
	send_all(f);
	assert_int_equal(f->batches, RINGS);
	check_all_came(f);
	finish(f);
}

/* A seam of the disk may have an older time behind a newer one. */
static void the_newest_time_is_told(void **state)
{
	struct fixture *f = begin();

	(void)state;
	f->time_ns = 100;
	append_batch(f, 0, "e", 1);
	append_watermark(f);
	f->time_ns = 50;
	append_batch(f, 0, "e", 1);
	append_watermark(f);
	send_all(f);
	assert_int_equal(f->watermarks, 1);
	assert_int_equal(f->told_ns, 101);
	check_all_came(f);
	finish(f);
}

/* All that is left is the time, and that is work. */
static void time_comes_behind_what_it_is_of(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *frame[8];
	uint64_t time_ns;

	(void)state;
	append_batch(f, 0, "e", 2);
	append_watermark(f);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1);
	assert_false(gather_owes_time(f->stream->gather, &time_ns));
	assert_int_equal(time_ns, f->time_ns);
	take(f, frame[0]);
	stream_sent(f->stream);
	assert_true(gather_owes_time(f->stream->gather, &time_ns));
	assert_true(stream_has_work(f->stream));
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 0);
	assert_int_equal(f->told_ns, f->time_ns);
	assert_false(gather_owes_time(f->stream->gather, &time_ns));
	assert_false(stream_has_work(f->stream));
	check_all_came(f);
	finish(f);
}

static void waits_no_longer_than_the_log_keeps_it(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	uint64_t waits;

	(void)state;
	open_all(f, 64 << 10, 64 << 10);
	tick(f, "e");
	send_all(f);
	while (f->batches == RINGS && f->seq[0] < SEQS - 100) {
		append_batch(f, 0, "e", 50);
		append_batch(f, 1, "e", 50);
		append_watermark(f);
		waits = frame_log_bytes_from(f->subscription->log, f->stream->next);
		send_all(f);
		assert_int_equal(f->batches == RINGS, waits < 32 << 10);
		assert_null(f->stream->catch_up);
	}
	assert_int_equal(f->batches, 2 * RINGS);
	check_all_came(f);
	finish(f);
}

/* Time is told before it, whether the frames were joined or not. */
static void check_bye(unsigned ticks)
{
	struct fixture *f = begin();
	struct frame_ref *frame[8];

	tick(f, "e");
	send_all(f);
	for (unsigned i = 0; i < ticks; i++)
		tick(f, "ee");
	if (ticks > 1)
		append_batch(f, 0, "e", 1);
	subscription_append(f->subscription, frame_ref_create(FRAME_BYE, 4));
	assert_true(send_some(f, 8));
	assert_int_equal(f->batches, 2 * RINGS);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 0);
	check_all_came(f);
	while (!stream_peek(f->stream, frame, 8, on_tell, f))
		assert_true(stream_has_work(f->stream));
	assert_int_equal(frame[0]->type, FRAME_BYE);
	stream_sent(f->stream);
	assert_false(stream_has_work(f->stream));
	finish(f);
}

static void a_bye_ends_the_wait(void **state)
{
	(void)state;
	check_bye(2);
	check_bye(1);
}

/* ---- What becomes one ------------------------------------------------------------------------ */

static void gather_now(struct fixture *f)
{
	now_ns += INTERVAL_NS;
	append_watermark(f);
	send_all(f);
	check_all_came(f);
}

static void many_events_go_as_they_are(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *large, *frame[8];

	(void)state;
	gather_now(f);
	append_batch(f, 0, "e", 3);
	append_batch(f, 0, "e", GATHER_EVENTS);
	large = frame_log_get(f->subscription->log, frame_log_end(f->subscription->log) - 1);
	append_batch(f, 0, "e", 3);
	append_batch(f, 0, "e", 3);
	now_ns += INTERVAL_NS;
	append_watermark(f);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 3);
	assert_ptr_equal(frame[1], large);
	assert_int_equal(frame[2]->events, 6);
	send_all(f);
	check_all_came(f);
	finish(f);
}

static void a_gap_stays_in_its_place(void **state)
{
	struct fixture *f = begin();

	(void)state;
	gather_now(f);
	append_batch(f, 0, "es", 2);
	append_skips(f, 0, 7);
	append_gap(f, 0, 10);
	append_batch(f, 0, "se", 2);
	append_batch(f, 1, "e", 1);
	append_batch(f, 0, "el", 2);
	gather_now(f);
	assert_int_equal(f->batches, 3);
	assert_int_equal(f->gaps, 1);
	finish(f);
}

/* It stands between two runs, and has to come before what any ring has of the later one. */
static void a_gap_of_no_size_comes_before_other_rings(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *frame[8];

	(void)state;
	append_batch(f, 0, "e", 1);
	append_batch(f, 1, "e", 1);
	append_gap(f, 1, 0);
	append_batch(f, 0, "e", 1);
	append_batch(f, 0, "e", 1);
	append_batch(f, 1, "e", 1);
	append_watermark(f);
	now_ns += INTERVAL_NS;
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 2);
	assert_true(frame[0]->type == FRAME_BATCH && frame[1]->type == FRAME_BATCH);
	assert_true(frame[0]->end_seq == 1 && frame[1]->end_seq == 1);
	for (unsigned i = 0; i < 2; i++) {
		take(f, frame[i]);
		stream_sent(f->stream);
	}
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1);
	assert_int_equal(frame[0]->type, FRAME_GAP);
	assert_int_equal(frame[0]->ring, 1);
	send_all(f);
	now_ns += INTERVAL_NS;
	append_watermark(f);
	send_all(f);
	check_all_came(f);
	assert_int_equal(f->gaps, 1);
	finish(f);
}

/* They wait for the client, though the log has them no more; and nobody holds them once they were sent. */
static void what_is_gathered_waits_for_the_client(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *alone, *joined, *frame[8];
	struct stream_stat stat;
	unsigned before;

	(void)state;
	gather_now(f);
	append_batch(f, 0, "e", 3);
	joined = frame_log_get(f->subscription->log, frame_log_end(f->subscription->log) - 1);
	append_batch(f, 0, "e", 3);
	append_batch(f, 1, "e", 3);
	alone = frame_log_get(f->subscription->log, frame_log_end(f->subscription->log) - 1);
	before = alone->refs;
	assert_int_equal(joined->refs, before);
	now_ns += INTERVAL_NS;
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 2);
	assert_ptr_equal(frame[1], alone);
	assert_int_equal(alone->refs, before + 1);
	assert_int_equal(joined->refs, before);
	stream_stat(f->stream, &stat);
	assert_int_equal(stat.lag_bytes, frame[0]->bytes + frame[1]->bytes);
	assert_int_equal(stat.in_flight, 9);
	send_all(f);
	check_all_came(f);
	assert_int_equal(alone->refs, before);
	stream_stat(f->stream, &stat);
	assert_int_equal(stat.lag_bytes, 0);
	finish(f);
}

static void no_batch_has_more_events_than_one_may(void **state)
{
	struct fixture *f = begin();
	unsigned batches = 2 * BATCH_EVENTS_MAX / (GATHER_EVENTS - 1);

	(void)state;
	gather_now(f);
	for (unsigned i = 0; i < batches; i++)
		append_batch(f, 0, "e", GATHER_EVENTS - 1);
	gather_now(f);
	assert_in_range(f->batches, 2, 5);
	assert_in_range(f->raw_bytes_most, 1, GATHER_RAW_BYTES);
	finish(f);
}

static void a_batch_may_be_full(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *frame[8];

	(void)state;
	for (unsigned i = 0; i < BATCH_EVENTS_MAX / 512; i++)
		append_batch(f, 0, "e", 512);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1);
	assert_int_equal(frame[0]->events, BATCH_EVENTS_MAX);
	take(f, frame[0]);
	stream_sent(f->stream);
	gather_now(f);
	finish(f);
}

/* Fewer events than one may have, of more bytes. */
static void no_batch_is_longer_than_one_may(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *frame[8];

	(void)state;
	f->wide = true;
	for (unsigned i = 0; i < 8; i++)
		append_batch(f, 0, "e", GATHER_EVENTS - 1);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 2);
	assert_in_range(frame[0]->raw_bytes, GATHER_RAW_BYTES / 2, GATHER_RAW_BYTES);
	assert_in_range(frame[1]->events, GATHER_EVENTS - 1, BATCH_EVENTS_MAX);
	gather_now(f);
	finish(f);
}

/* What is between two frames and in neither is not in what becomes of them. */
static void a_hole_is_not_joined_over(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *frame[8];

	(void)state;
	append_batch(f, 0, "e", 2);
	append_batch(f, 0, "e", 2);
	f->seq[0] += 3;
	append_batch(f, 0, "e", 2);
	append_batch(f, 0, "e", 2);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 2);
	assert_int_equal(frame[0]->end_seq, 4);
	assert_int_equal(frame[1]->first_seq, 7);
	assert_int_equal(frame[1]->end_seq, 11);
	finish(f);
}

/* The log has room for more than a turn takes, and no disk is needed. */
static struct fixture *open_large(void)
{
	struct fixture *f = malloc(sizeof(*f));

	open_all(f, 16 << 20, 16 << 20);
	disk.deaf = true;
	return f;
}

/* So many frames, the last `alone` (0 or 1) of ring 1: of those before only the first and the last have events. */
static void append_turn(struct fixture *f, unsigned frames, unsigned alone)
{
	append_batch(f, 0, "e", 2);
	for (unsigned i = 2 + alone; i < frames; i++)
		append_skips(f, 0, 1);
	append_batch(f, 0, "e", 2);
	if (alone)
		append_batch(f, 1, "e", 2);
}

/* Who has decoded and encoded a turn's frames lets others have their turn before the next. */
static void check_rest(unsigned alone)
{
	struct fixture *f = open_large();
	struct frame_ref *frame[8];

	append_turn(f, GATHER_FRAMES_MAX, alone);
	append_batch(f, 0, "e", 2);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1 + alone);
	assert_int_equal(frame_ref_attempts(frame[0]), GATHER_FRAMES_MAX + 2 - alone);
	for (unsigned i = 0; i <= alone; i++) {
		take(f, frame[i]);
		stream_sent(f->stream);
	}
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 0);
	assert_true(stream_has_work(f->stream));
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1);
	assert_int_equal(frame[0]->events, 2);
	gather_now(f);
	finish(f);
}

static void others_have_their_turn_after_one_of_joining(void **state)
{
	(void)state;
	check_rest(0);
	check_rest(1);
}

/* Where none was joined, that was no work. */
static void what_is_alone_is_followed_at_once(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *frame[8];

	(void)state;
	append_batch(f, 0, "e", 2);
	append_batch(f, 1, "e", 2);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 2);
	for (unsigned i = 0; i < 2; i++) {
		take(f, frame[i]);
		stream_sent(f->stream);
	}
	now_ns += INTERVAL_NS;
	append_batch(f, 0, "e", 2);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1);
	gather_now(f);
	finish(f);
}

/* Memory ends when the time is to be told: it is told before anything that was after it. */
static void time_that_could_not_be_told_comes_first(void **state)
{
	struct fixture *f = open_large();
	struct frame_ref *frame[8];

	(void)state;
	append_turn(f, GATHER_FRAMES_MAX - 1, 0);
	append_watermark(f);
	append_turn(f, 2, 0);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1);
	take(f, frame[0]);
	stream_sent(f->stream);
	memory_fails_after(0);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 0);
	memory_suffices();
	assert_int_equal(f->watermarks, 0);
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 0);
	assert_int_equal(f->watermarks, 1);
	gather_now(f);
	finish(f);
}

static void who_goes_away_holds_nothing(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *alone, *frame[8];
	unsigned before;

	(void)state;
	append_batch(f, 0, "e", 3);
	alone = frame_log_get(f->subscription->log, frame_log_end(f->subscription->log) - 1);
	before = alone->refs;
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), 1);
	assert_ptr_equal(frame[0], alone);
	assert_int_equal(alone->refs, before + 1);
	stream_destroy(f->stream);
	f->stream = NULL;
	assert_int_equal(alone->refs, before);
	finish(f);
}

/* It goes as it is: whoever reads it says so. */
static void what_cannot_be_read_is_not_joined(void **state)
{
	struct fixture *f = begin();
	struct frame_ref *bad, *frame[8];
	unsigned n;

	(void)state;
	gather_now(f);
	append_batch(f, 0, "e", 3);
	append_batch(f, 0, "e", 3);
	bad = frame_log_get(f->subscription->log, frame_log_end(f->subscription->log) - 1);
	bad->data[bad->bytes - 1] ^= 0x55;
	append_batch(f, 0, "e", 3);
	now_ns += INTERVAL_NS;
	append_watermark(f);
	n = stream_peek(f->stream, frame, 8, on_tell, f);
	assert_int_equal(n, 3);
	assert_ptr_equal(frame[1], bad);
	while (n--)
		stream_sent(f->stream);
	check_ledger(f);
	finish(f);
}

static void no_memory_to_begin(void **state)
{
	struct fixture *f = begin();
	unsigned n = 0;
	int err;

	(void)state;
	gather_destroy(f->stream->gather);
	f->stream->gather = NULL;
	do {
		allocations_left = n++;
		failures_left = 1;
		err = gather_begin(f->stream, small_catalog_get(), &f->interval_ns);
		assert_true(!err == !!f->stream->gather);
		if (failures_left == 0 && !err) {	/* it did without */
			append_batch(f, 0, "e", 2);
			append_batch(f, 0, "e", 2);
			gather_now(f);
			gather_destroy(f->stream->gather);
			f->stream->gather = NULL;
		}
	} while (err || failures_left == 0);
	allocations_left = failures_left = 0;
	assert_true(n > 4);
	finish(f);
}

/* ---- The disk -------------------------------------------------------------------------------- */

/* What was gathered and not sent when the log gave up what follows comes off the disk, once. */
static void gathered_and_not_sent_comes_off_the_disk(void **state)
{
	struct fixture *f = malloc(sizeof(*f));
	struct frame_ref *frame[8];
	uint64_t time_ns;

	(void)state;
	open_all(f, 16 << 10, 8 << 10);
	tick(f, "e");
	send_all(f);
	for (unsigned i = 0; i < 4; i++)
		tick(f, "ese");
	now_ns += INTERVAL_NS;
	assert_int_equal(stream_peek(f->stream, frame, 8, on_tell, f), RINGS);
	take(f, frame[0]);
	stream_begin(f->stream);
	while (!f->stream->catch_up)
		tick(f, "eee");
	check_ledger(f);
	/* Its time would be told too early: what comes off the disk is older. */
	assert_false(gather_owes_time(f->stream->gather, &time_ns));
	assert_int_equal(time_ns, 0);
	stream_ended(f->stream);
	send_all(f);
	check_all_came(f);
	assert_int_equal(f->gaps, 0);
	finish(f);
}

static void backlog_is_gathered(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	open_all(f, 4096, 2048);
	for (unsigned i = 0; i < 1000; i++)
		tick(f, i % 4 ? "es" : "");
	assert_non_null(f->stream->catch_up);
	send_all(f);
	now_ns += INTERVAL_NS;
	append_watermark(f);
	send_all(f);
	check_all_came(f);
	assert_int_equal(f->gaps, 0);
	assert_in_range(f->batches, 2 * RINGS, 5 * RINGS);
	finish(f);
}

static struct run run_of(uint64_t epoch)
{
	struct run run = {.epoch = epoch};

	memset(run.boot_id, 7, sizeof(run.boot_id));
	return run;
}

/* Of CPU 0 of an earlier run, and of this one what begins at 0. */
static void fill_disk(struct fixture *f, unsigned earlier)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct run run = run_of(3);

	hello.boot_id.data = run.boot_id;
	hello.boot_id.len = sizeof(run.boot_id);
	hello.epoch = run.epoch;
	spool_append(&disk, frame_ref_pack(f->codec, FRAME_SERVER_HELLO, &hello.base));
	spool_append(&disk, frame_ref_pack(f->codec, FRAME_CATALOG, &catalog.base));
	spool_append(&disk, frame_ref_pack(f->codec, FRAME_SUBSCRIBED, &subscribed.base));
	for (unsigned i = 0; i < earlier; i++) {
		struct frame_ref *frame = frame_ref_create(FRAME_BATCH, 100);

		frame->ring = RING_EARLIER;
		frame->cpu = cpu_of[0];
		frame->first_seq = 10 * i;
		frame->end_seq = 10 * (i + 1);
		frame->events = 10;
		spool_append(&disk, frame);
	}
}

/* What it says is of rings that are no more: none is moved, none is joined, and none is in flight from a ring. */
static void of_an_earlier_run_each_stays_in_its_place(void **state)
{
	struct fixture *f = begin();
	struct cursor *cursor = cursor_create(1);
	struct frame_ref *frame[8];
	struct stream_stat stat;
	unsigned came = 0;

	(void)state;
	f->subscription->spool.run = run_of(4);
	fill_disk(f, 3);
	cursor->run = run_of(3);
	cursor_append(cursor, cpu_of[0], 0);
	assert_int_equal(catch_up_begin(f->stream, &(struct spool_place){.cursor = cursor}), 0);
	free(cursor);
	for (unsigned i = 0; i < 100 && came < 3; i++) {
		answer(FRAMES);
		if (!stream_peek(f->stream, frame, 1, on_tell, f))
			continue;
		if (frame[0]->type == FRAME_BATCH) {
			assert_ptr_equal(frame[0], disk.frame[3 + came++]);
			stat = (struct stream_stat){.in_flight = 0};
			gather_stat(f->stream->gather, &stat);
			assert_int_equal(stat.in_flight, 0);
			assert_int_equal(stat.lag_bytes, 100);
		}
		stream_sent(f->stream);
		check_ledger(f);
	}
	assert_int_equal(came, 3);
	assert_int_equal(f->stream->foreign, 30);
	finish(f);
	for (unsigned i = 0; i < somebody.runs; i++)
		free(somebody.sent[i]);
	memset(&somebody, 0, sizeof(somebody));
}

static void step(struct fixture *f, bool memory_ends)
{
	int what = rand() % 20;
	unsigned ring = (unsigned)rand() % RINGS;

	if (what < 6)
		append_batch(f, ring, what % 2 ? "esl" : "e", 1 + (unsigned)rand() % 6);
	else if (what < 8)
		append_skips(f, ring, 1 + (unsigned)rand() % 8);
	else if (what < 9)
		append_gap(f, ring, 1 + (unsigned)rand() % 8);
	else if (what < 11)
		append_watermark(f);
	else if (what < 13)
		now_ns += (uint64_t)rand() % (2 * INTERVAL_NS);
	else if (what < 14)
		catch_up_poke(f->stream);
	allocations_left = memory_ends ? (unsigned)rand() % 20 : 0;
	failures_left = memory_ends ? (unsigned)rand() % 3 : 0;
	if (what >= 14)
		send_some(f, (unsigned)rand() % 8 + 1);
	if (rand() % 4 == 0)
		answer((unsigned)rand() % 30);
	allocations_left = failures_left = 0;
	check_ledger(f);
}

/* Anything in any order, with a log that keeps little and memory that ends now and then. */
static void at_random(void **state)
{
	unsigned seed = (unsigned)time(NULL);
	struct fixture *f = malloc(sizeof(*f));

	(void)state;
	if (getenv("RINGTAIL_SEED"))
		seed = (unsigned)strtoul(getenv("RINGTAIL_SEED"), NULL, 0);
	printf("seed %u\n", seed);
	for (unsigned history = 0; history < 60; history++) {
		srand(seed + history);
		open_all(f, 16 << 10, history % 3 ? 8 << 10 : 1 << 20);
		for (unsigned i = 0; i < 1500 && disk.end < FRAMES - 2; i++)
			step(f, history % 2);
		append_watermark(f);
		send_all(f);
		now_ns += RELAY_QUIET_NS;
		append_watermark(f);
		send_all(f);
		check_all_came(f);
		close_all(f);
	}
	free(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_at_once_then_one_for_each_ring),
		cmocka_unit_test(one_frame_a_minute_where_nothing_is_recorded),
		cmocka_unit_test(each_frame_at_once_without_an_interval),
		cmocka_unit_test(a_long_interval_is_as_long_without_news),
		cmocka_unit_test(first_at_once_after_a_boot),
		cmocka_unit_test(the_newest_time_is_told),
		cmocka_unit_test(time_comes_behind_what_it_is_of),
		cmocka_unit_test(waits_no_longer_than_the_log_keeps_it),
		cmocka_unit_test(a_bye_ends_the_wait),
		cmocka_unit_test(many_events_go_as_they_are),
		cmocka_unit_test(a_gap_stays_in_its_place),
		cmocka_unit_test(a_gap_of_no_size_comes_before_other_rings),
		cmocka_unit_test(what_is_gathered_waits_for_the_client),
		cmocka_unit_test(no_batch_has_more_events_than_one_may),
		cmocka_unit_test(a_batch_may_be_full),
		cmocka_unit_test(no_batch_is_longer_than_one_may),
		cmocka_unit_test(a_hole_is_not_joined_over),
		cmocka_unit_test(others_have_their_turn_after_one_of_joining),
		cmocka_unit_test(what_is_alone_is_followed_at_once),
		cmocka_unit_test(time_that_could_not_be_told_comes_first),
		cmocka_unit_test(who_goes_away_holds_nothing),
		cmocka_unit_test(what_cannot_be_read_is_not_joined),
		cmocka_unit_test(no_memory_to_begin),
		cmocka_unit_test(gathered_and_not_sent_comes_off_the_disk),
		cmocka_unit_test(backlog_is_gathered),
		cmocka_unit_test(of_an_earlier_run_each_stays_in_its_place),
		cmocka_unit_test(at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
