/*
 * A client's place in a subscription's log: what it is sent, what it loses when it lags, what it is told
 * of that, where a cursor begins; and its ledger, which has to close after every step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "daemon/base/counters.h"
#include "daemon/stream/stream.h"
#include "tests/lib/failing_memory.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS 2
static const uint32_t cpu_of[RINGS] = {0, 5};

struct fixture {
	struct subscription *subscription;
	struct frame_codec *codec;
	struct stream *stream;
	uint64_t seq[RINGS];

	/* What the client knows: it checks that nothing is missing that it was not told of. */
	uint64_t known[RINGS];
	uint64_t events, gaps, gap_events, watermarks;
	uint64_t told_ns;		/* the time of the places behind the last gap */
};

static void open_subscription(struct fixture *f, uint64_t history_bytes)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct error error;

	memset(f, 0, sizeof(*f));
	f->codec = frame_codec_create(1);
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, history_bytes,
					     &f->subscription, &error), 0);
}

static void join(struct fixture *f, uint64_t lag_bytes, const uint64_t *since)
{
	struct cursor *cursor = since ? cursor_create(RINGS) : NULL;

	for (unsigned i = 0; cursor && i < RINGS; i++)
		if (since[i] != UINT64_MAX)
			cursor_append(cursor, cpu_of[i], since[i]);
	f->stream = stream_create(f->subscription, f->codec, cpu_of, lag_bytes, cursor,
				  since ? LOSS_REASON_HISTORY_GONE
					: LOSS_REASON_UNKNOWN);
	free(cursor);
	assert_non_null(f->stream);
	for (unsigned i = 0; i < RINGS; i++)
		f->known[i] = f->stream->ring[i].told;
}

static void close_all(struct fixture *f)
{
	stream_destroy(f->stream);
	subscription_destroy(f->subscription);
	frame_codec_destroy(f->codec);
}

static void check_ledger(const struct fixture *f)
{
	struct stream_stat stat;

	stream_stat(f->stream, &stat);
	assert_int_equal(stat.residual, 0);
}

static void append(struct fixture *f, unsigned ring, size_t bytes, uint64_t events,
		   uint64_t skipped, uint64_t lost)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, bytes);

	memset(frame->data, 0, bytes);
	frame->ring = ring;
	frame->cpu = cpu_of[ring];
	frame->first_seq = f->seq[ring];
	frame->end_seq = f->seq[ring] += events + skipped + lost;
	frame->events = events;
	frame->skipped = skipped;
	if (lost) {
		frame->losses = 1;
		frame->loss[0] = (struct loss_count){
			.stage = LOSS_STAGE_RING,
			.reason = LOSS_REASON_RING_FULL,
			.count = lost,
		};
	}
	subscription_append(f->subscription, frame);
}

static void append_watermark(struct fixture *f, uint64_t time_ns)
{
	struct frame_ref *frame = frame_ref_create(FRAME_WATERMARK, 20);

	memset(frame->data, 0, 20);
	frame->time_ns = time_ns;
	subscription_append(f->subscription, frame);
}

/* What tells gaps and places is packed by the stream itself: unpack it as a client would. */
static void on_tell(void *context, struct frame_ref *frame)
{
	struct fixture *f = context;
	struct frame_header header;
	uint8_t raw[1024];
	const uint8_t *body;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header),
			 FRAME_OK);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	if (frame->type == FRAME_GAP) {
		Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, header.raw_bytes, body);
		unsigned ring = gap->cpu == cpu_of[1];

		assert_int_equal(gap->first_seq, f->known[ring]);
		assert_true(gap->end_seq >= gap->first_seq);
		assert_int_equal(gap->stage, gap->events ? LOSS_STAGE_QUEUE : LOSS_STAGE_HISTORY);
		assert_int_equal(gap->reason, gap->events ? f->stream->drop_reason :
							    f->stream->missing_reason);
		f->known[ring] = gap->end_seq;
		f->gaps++;
		f->gap_events += gap->events;
		ringtail__v1__gap__free_unpacked(gap, NULL);
	} else {
		Ringtail__V1__Watermark *watermark =
			ringtail__v1__watermark__unpack(NULL, header.raw_bytes, body);

		assert_int_equal(frame->type, FRAME_WATERMARK);
		assert_int_equal(watermark->n_position, RINGS);
		for (unsigned i = 0; i < RINGS; i++) {
			assert_int_equal(watermark->position[i]->seq - f->known[i],
					 watermark->position[i]->skipped);
			f->known[i] = watermark->position[i]->seq;
		}
		f->told_ns = watermark->time_ns;
		ringtail__v1__watermark__free_unpacked(watermark, NULL);
	}
	frame_ref_put(frame);
}

static void receive(struct fixture *f, const struct frame_ref *frame)
{
	if (frame->type == FRAME_WATERMARK) {
		for (unsigned i = 0; i < RINGS; i++)
			f->known[i] = f->stream->ring[i].seen;
		f->watermarks++;
		return;
	}
	assert_int_equal(frame->first_seq, f->known[frame->ring]);
	f->known[frame->ring] = frame->end_seq;
	f->events += frame->events;
}

/* Takes at most n frames, the first of them in two parts. */
static unsigned take(struct fixture *f, unsigned n)
{
	struct frame_ref *frame[4];
	unsigned taken = 0;

	while (taken < n && stream_has_work(f->stream)) {
		unsigned peeked = stream_peek(f->stream, frame, 4, on_tell, f);

		for (unsigned i = 0; i < peeked && taken < n; i++, taken++) {
			if (taken == 0 && i == 0) {
				stream_begin(f->stream);
				check_ledger(f);
				receive(f, f->stream->begun);
				stream_ended(f->stream);
			} else {
				receive(f, frame[i]);
				stream_sent(f->stream);
			}
			check_ledger(f);
		}
	}
	return taken;
}

static void test_everything_arrives(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	append(&f, 0, 100, 50, 0, 0);	/* before the client came */
	join(&f, 1 << 20, NULL);
	for (unsigned i = 0; i < 20; i++) {
		append(&f, i % RINGS, 100, 10, 3, i % 5 == 0 ? 2 : 0);
		append(&f, i % RINGS, 0, 0, 7, 0);
		append_watermark(&f, i);
		check_ledger(&f);
	}
	assert_int_equal(take(&f, 1000), 40);
	assert_int_equal(f.events, 200);
	assert_int_equal(f.stream->delivered, 200);
	assert_int_equal(f.stream->filtered, 20 * 10);
	assert_int_equal(f.stream->lost[LOSS_STAGE_RING][LOSS_REASON_RING_FULL], 8);
	assert_int_equal(f.gaps, 0);
	assert_false(stream_has_work(f.stream));
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(f.known[i], f.seq[i]);
	close_all(&f);
}

static void test_slow_client(void **state)
{
	struct fixture f;
	unsigned seed = 42;
	uint64_t sent = 0;

	(void)state;
	print_message("seed %u\n", seed);
	open_subscription(&f, 1 << 20);
	join(&f, 20000, NULL);
	for (unsigned i = 0; i < 3000; i++) {
		unsigned events = (unsigned)rand_r(&seed) % 20;

		append(&f, (unsigned)rand_r(&seed) % RINGS, events ? 300 : 0, events,
		       1 + (unsigned)rand_r(&seed) % 3, 0);
		sent += events;
		/* As workers do: after a range of nothing but skips, a watermark says where. */
		if (!events || i % 7 == 0)
			append_watermark(&f, i);
		check_ledger(&f);
		if (i % 50 == 0)
			take(&f, 5);
	}
	take(&f, 100000);
	assert_true(f.gaps > 0);
	assert_int_equal(f.events + f.gap_events, sent);
	assert_int_equal(f.stream->lost[LOSS_STAGE_QUEUE][LOSS_REASON_QUEUE_FULL], f.gap_events);
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(f.known[i], f.seq[i]);
	close_all(&f);
}

/* Events, and behind them skips, of one ring, and skips alone of the other: one gap, and both places. */
static void test_skips_among_what_was_dropped(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 4000, NULL);
	for (unsigned i = 0; i < 5; i++)
		append(&f, 0, 300, 10, 0, 0);
	append(&f, 0, 0, 0, 3, 0);
	append(&f, 1, 0, 0, 4, 0);
	assert_false(f.stream->gaps);
	append(&f, 1, 3900, 10, 0, 0);
	check_ledger(&f);
	assert_int_equal(take(&f, 10), 1);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.gap_events, 50);
	assert_int_equal(f.events, 10);
	assert_int_equal(f.stream->filtered, 7);
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(f.known[i], f.seq[i]);
	close_all(&f);
}

/*
 * What is dropped while a frame goes out in part is a gap behind that frame; and a watermark that went out
 * in part has told of the skips before it.
 */
static void test_dropped_behind_a_frame_in_parts(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 4000, NULL);
	append(&f, 0, 0, 0, 3, 0);
	append_watermark(&f, 1);
	assert_int_equal(take(&f, 1), 1);
	assert_int_equal(f.known[0], 3);
	append(&f, 0, 300, 10, 0, 0);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	stream_begin(f.stream);
	receive(&f, f.stream->begun);
	for (unsigned i = 0; i < 5; i++)
		append(&f, 0, 300, 10, 0, 0);
	append(&f, 1, 3900, 10, 0, 0);
	assert_true(f.stream->gaps);
	check_ledger(&f);
	stream_ended(f.stream);
	check_ledger(&f);
	assert_int_equal(take(&f, 10), 1);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.gap_events, 50);
	for (unsigned i = 0; i < RINGS; i++)
		assert_int_equal(f.known[i], f.seq[i]);
	close_all(&f);
}

/* And behind a watermark in part: that has told of what was before it, and of nothing that was dropped. */
static void test_dropped_behind_a_watermark_in_parts(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 4000, NULL);
	append(&f, 0, 0, 0, 3, 0);
	append_watermark(&f, 1);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	stream_begin(f.stream);
	receive(&f, f.stream->begun);
	assert_int_equal(f.known[0], 3);
	for (unsigned i = 0; i < 5; i++)
		append(&f, 0, 300, 10, 0, 0);
	append(&f, 1, 3900, 10, 0, 0);
	stream_ended(f.stream);
	assert_int_equal(take(&f, 10), 1);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.gap_events, 50);
	check_ledger(&f);
	close_all(&f);
}

/* A client that lags too far loses what is older than half of that: not a frame at a time, and not all. */
static void test_drops_down_to_half(void **state)
{
	struct stream_stat stat;
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 20000, NULL);
	while (!f.stream->gaps && f.seq[0] < 1000) {
		append(&f, 0, 300, 10, 0, 0);
		stream_stat(f.stream, &stat);
		assert_true(stat.lag_bytes <= 20000);
	}
	assert_true(stat.lag_bytes <= 10000 && stat.lag_bytes > 9000);
	close_all(&f);
}

/* The log itself gives up what a client that reads nothing has not been sent. */
static void test_evicted_under_the_client(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 5000);
	join(&f, 1 << 20, NULL);
	for (unsigned i = 0; i < 500; i++) {
		append(&f, i % RINGS, 300, 10, 0, 1);
		check_ledger(&f);
	}
	take(&f, 1000);
	assert_int_equal(f.events + f.gap_events + f.stream->lost[0][1],
			 500 * 11 + (f.gap_events - f.gap_events / 11 * 10));
	assert_int_equal(f.events / 10 + f.gap_events / 11, 500);
	check_ledger(&f);
	close_all(&f);
}

static void test_resume_within_history(void **state)
{
	uint64_t since[RINGS] = {100, 40};
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	for (unsigned i = 0; i < 20; i++) {
		append(&f, 0, 100, 10, 0, 0);
		append(&f, 1, 100, 10, 0, 0);
	}
	join(&f, 1 << 20, since);
	assert_true(f.stream->resumed);
	/* It may begin somewhat before the cursor, never after it. */
	assert_true(f.known[0] <= 100 && f.known[1] <= 40);
	take(&f, 1000);
	assert_int_equal(f.known[0], 200);
	assert_int_equal(f.known[1], 200);
	assert_int_equal(f.gaps, 0);
	assert_true(f.events >= 100 + 160);
	close_all(&f);
}

static void test_resume_too_late(void **state)
{
	uint64_t since[RINGS] = {15, UINT64_MAX};
	struct fixture f;

	(void)state;
	open_subscription(&f, 5000);
	for (unsigned i = 0; i < 100; i++)
		append(&f, 0, 300, 10, 0, 0);
	join(&f, 1 << 20, since);
	assert_false(f.stream->resumed);
	assert_int_equal(f.known[0], 15);
	check_ledger(&f);
	take(&f, 1000);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.gap_events, 0);
	assert_int_equal(f.known[0], 1000);
	assert_int_equal(f.stream->lost[LOSS_STAGE_HISTORY][LOSS_REASON_HISTORY_GONE],
			 f.subscription->floor[0] - 15);
	close_all(&f);
}

/* How much was gone before is not known, and of what was dropped since it is: those are two gaps. */
static void test_dropped_behind_what_was_gone(void **state)
{
	uint64_t since[RINGS] = {15, UINT64_MAX}, floor;
	struct fixture f;

	(void)state;
	open_subscription(&f, 5000);
	for (unsigned i = 0; i < 100; i++)
		append(&f, 0, 300, 10, 0, 0);
	floor = f.subscription->floor[0];
	join(&f, 1000, since);
	for (unsigned i = 0; i < 10; i++)
		append(&f, 0, 300, 7, 3, 0);
	take(&f, 1000);
	assert_int_equal(f.gaps, 2);
	assert_int_equal(f.stream->lost[LOSS_STAGE_HISTORY][LOSS_REASON_HISTORY_GONE], floor - 15);
	assert_int_equal(f.gap_events, f.stream->lost[LOSS_STAGE_QUEUE][LOSS_REASON_QUEUE_FULL]);
	assert_true(f.gap_events);
	assert_int_equal(f.known[0], 1100);
	check_ledger(&f);
	close_all(&f);
}

/* A gap of no size is told, though something is dropped before it is. */
static void test_dropped_behind_a_doubt(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 5000);
	join(&f, 1000, NULL);
	stream_doubt(f.stream, LOSS_REASON_OTHER_EPOCH);
	for (unsigned i = 0; i < 10; i++)
		append(&f, 0, 300, 7, 3, 0);
	take(&f, 1000);
	/* One of each ring, and one of what was dropped. */
	assert_int_equal(f.gaps, RINGS + 1);
	assert_true(f.gap_events);
	assert_int_equal(f.known[0], 100);
	check_ledger(&f);
	close_all(&f);
}

static void test_cursor_of_another_run(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 5000);
	append(&f, 0, 100, 10, 0, 0);
	f.stream = stream_create(f.subscription, f.codec, cpu_of, 5000, NULL,
				 LOSS_REASON_OTHER_EPOCH);
	f.known[0] = 10;
	assert_true(stream_has_work(f.stream));
	take(&f, 10);
	assert_int_equal(f.gaps, RINGS);
	assert_int_equal(f.events, 0);
	check_ledger(&f);
	close_all(&f);
}

/* The client has had no frame of them: the places behind the next gap tell of them. */
static void test_skips_passed_before_a_gap(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 4000, NULL);
	append(&f, 1, 0, 0, 4, 0);
	assert_int_equal(take(&f, 10), 0);
	assert_int_equal(f.stream->ring[1].seen, 4);
	assert_int_equal(f.known[1], 0);
	append(&f, 0, 300, 10, 0, 0);
	append(&f, 0, 3900, 10, 0, 0);
	take(&f, 10);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.known[1], 4);
	check_ledger(&f);
	close_all(&f);
}

/* As far as time has come for the client, be it with a watermark that it was sent or that was dropped. */
static void test_places_behind_a_gap_have_a_time(void **state)
{
	uint64_t frames = counter_read(COUNTER_frames_dropped), events = counter_read(COUNTER_events_dropped);
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 4000, NULL);
	append_watermark(&f, 77);
	assert_int_equal(take(&f, 10), 1);
	append(&f, 0, 300, 10, 0, 0);
	append(&f, 0, 3900, 10, 0, 0);
	take(&f, 10);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.told_ns, 77);
	append(&f, 0, 300, 10, 0, 0);
	append_watermark(&f, 99);
	append(&f, 0, 3900, 10, 0, 0);
	take(&f, 10);
	assert_int_equal(f.gaps, 2);
	assert_int_equal(f.told_ns, 99);
	assert_int_equal(f.stream->frames_dropped, 2);
	assert_int_equal(counter_read(COUNTER_frames_dropped), frames + 2);
	assert_int_equal(counter_read(COUNTER_events_dropped), events + 20);
	close_all(&f);
}

struct missed {
	struct frame_codec *codec;
	unsigned gaps, reasons;		/* a bit for each reason */
};

static void on_missed(void *context, struct frame_ref *frame)
{
	struct missed *missed = context;
	struct frame_header header;
	uint8_t raw[1024];
	const uint8_t *body;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(frame_open(missed->codec, frame->data, &header, raw, &body), FRAME_OK);
	if (frame->type == FRAME_GAP) {
		Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, header.raw_bytes, body);

		assert_int_equal(gap->stage, LOSS_STAGE_HISTORY);
		assert_int_equal(gap->cpu, cpu_of[0]);
		assert_int_equal(gap->first_seq, 10);
		assert_int_equal(gap->end_seq, 10);
		missed->gaps++;
		missed->reasons |= 1u << gap->reason;
		ringtail__v1__gap__free_unpacked(gap, NULL);
	}
	frame_ref_put(frame);
}

/* Each reason once, where the client is; and nobody is told that it goes on where it was. */
static void test_what_was_missed_has_every_reason(void **state)
{
	struct missed missed = {0};
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	append(&f, 0, 300, 10, 0, 0);
	f.stream = stream_create(f.subscription, f.codec, cpu_of, 4000, NULL, LOSS_REASON_UNKNOWN);
	f.stream->resumed = true;
	stream_miss(f.stream, LOSS_REASON_HISTORY_GONE);
	assert_false(f.stream->resumed);
	stream_miss(f.stream, LOSS_REASON_OTHER_EPOCH);
	assert_true(stream_has_work(f.stream));
	missed.codec = f.codec;
	assert_int_equal(stream_peek(f.stream, frame, 4, on_missed, &missed), 0);
	assert_int_equal(missed.gaps, 2);
	assert_int_equal(missed.reasons, 1u << LOSS_REASON_HISTORY_GONE |
					 1u << LOSS_REASON_OTHER_EPOCH);
	assert_false(stream_has_work(f.stream));
	f.stream->resumed = true;
	stream_doubt(f.stream, LOSS_REASON_HISTORY_GONE);
	assert_false(f.stream->resumed);
	close_all(&f);
}

/* It has had its share, and then some; and more waits. */
static void open_over_its_rate(struct fixture *f)
{
	open_subscription(f, 1 << 20);
	join(f, 4000, NULL);
	stream_set_rate(f->stream, 1);
	append(f, 0, 300, 1000, 0, 0);
	assert_int_equal(take(f, 1), 1);
	append(f, 0, 300, 10, 0, 0);
}

/* It was not too slow; and it is told, also where the bound is lifted meanwhile. */
static void test_over_its_rate(void **state)
{
	uint64_t over = counter_read(COUNTER_events_over_rate), dropped = counter_read(COUNTER_frames_dropped);
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_over_its_rate(&f);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
	assert_int_equal(f.gaps, 0);
	assert_int_equal(f.stream->lost[LOSS_STAGE_QUEUE][LOSS_REASON_RATE_LIMIT], 10);
	assert_int_equal(counter_read(COUNTER_events_over_rate), over + 10);
	assert_int_equal(counter_read(COUNTER_frames_dropped), dropped);
	assert_int_equal(f.stream->frames_dropped, 0);
	stream_set_rate(f.stream, 0);
	stream_peek(f.stream, frame, 4, on_tell, &f);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.gap_events, 10);
	check_ledger(&f);
	close_all(&f);
}

static void test_evicted_for_a_reason(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 4000, NULL);
	append(&f, 0, 300, 10, 0, 0);
	append(&f, 0, 300, 10, 0, 0);
	frame_log_evict_oldest(f.subscription->log, LOSS_REASON_MEMORY);
	assert_int_equal(f.stream->lost[LOSS_STAGE_QUEUE][LOSS_REASON_MEMORY], 10);
	check_ledger(&f);
	close_all(&f);
}

/* As many bytes as may be are no lag, and what has gone out in part still waits. */
static void test_lag_to_the_byte(void **state)
{
	struct frame_ref *frame[4];
	struct stream_stat stat;
	struct fixture f;
	uint64_t first;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 1 << 20, NULL);
	append(&f, 0, 300, 10, 0, 0);
	stream_stat(f.stream, &stat);
	first = stat.lag_bytes;
	f.stream->lag_bytes_max = 2 * first;
	append(&f, 0, 300, 10, 0, 0);
	assert_false(f.stream->gaps);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 2);
	stream_begin(f.stream);
	stream_stat(f.stream, &stat);
	assert_int_equal(stat.lag_bytes, first + f.stream->begun->bytes);
	assert_int_equal(stat.in_flight, 20);
	stream_ended(f.stream);
	stream_stat(f.stream, &stat);
	assert_int_equal(stat.lag_bytes, first);
	close_all(&f);
}

/* The last word comes, behind the gap; and an earlier gap is told with it. */
static void test_bye_over_the_rate(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_over_its_rate(&f);
	subscription_append(f.subscription, frame_ref_create(FRAME_BYE, 20));
	frame_log_evict_oldest(f.subscription->log, LOSS_REASON_MEMORY);
	frame_log_evict_oldest(f.subscription->log, LOSS_REASON_MEMORY);
	assert_true(f.stream->gaps);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
	assert_int_equal(f.gaps, 1);
	assert_int_equal(f.gap_events, 10);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	assert_int_equal(frame[0]->type, FRAME_BYE);
	close_all(&f);
}

/* It is on the disk, and is taken as fast as can be. */
static void test_durable_consumer_has_no_rate(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_over_its_rate(&f);
	f.stream->consumer = (void *)&f;
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	f.stream->consumer = NULL;
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
	close_all(&f);
}

/* Where the disk leaves off in the log: what only that watermark would have told is told all the same. */
static void test_watermark_of_the_log_older_than_one_told(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 1 << 20, NULL);
	f.stream->last_time_ns = 100;
	append_watermark(&f, 99);
	append(&f, 0, 100, 10, 0, 0);
	append_watermark(&f, 100);
	append(&f, 1, 0, 0, 5, 0);
	append_watermark(&f, 50);
	append(&f, 1, 100, 10, 0, 0);
	append_watermark(&f, 101);
	assert_int_equal(take(&f, 1000), 4);
	assert_int_equal(f.watermarks, 2);
	assert_int_equal(f.told_ns, 100);
	assert_int_equal(f.events, 20);
	assert_int_equal(f.stream->last_time_ns, 101);
	assert_int_equal(f.gaps, 0);
	assert_false(stream_has_work(f.stream));
	close_all(&f);
}

/* A later frame that was looked at with it is newer than it, and older than what is there before. */
static void test_old_watermark_behind_a_new_one(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 1 << 20, NULL);
	append_watermark(&f, 60);
	append_watermark(&f, 50);
	append_watermark(&f, 70);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	stream_sent(f.stream);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	assert_int_equal(frame[0]->time_ns, 70);
	close_all(&f);
}

/* What was skipped goes out before what is behind it, in one word; and not while a frame goes out in parts. */
static void test_skips_told_before_what_is_behind_them(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	for (unsigned by_batch = 0; by_batch < 2; by_batch++) {
		open_subscription(&f, 1 << 20);
		join(&f, 1 << 20, NULL);
		f.stream->last_time_ns = 100;
		append(&f, 0, 100, 10, 0, 0);
		append(&f, 1, 0, 0, 5, 0);
		append(&f, 1, 0, 0, 3, 0);
		if (!by_batch)
			append_watermark(&f, 50);
		append(&f, 1, 100, 10, 0, 0);
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
		stream_begin(f.stream);
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
		assert_int_equal(f.told_ns, 0);
		stream_ended(f.stream);
		f.known[0] = 10;
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
		assert_int_equal(f.told_ns, 100);
		assert_int_equal(f.stream->ring[1].told, 8);
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
		assert_int_equal(frame[0]->events, 10);
		close_all(&f);
	}
}

/* What takes frames as they are has the old one, too; the time that was told stays the later one. */
static void test_time_told_never_goes_back(void **state)
{
	struct fixture f;

	(void)state;
	open_subscription(&f, 1 << 20);
	join(&f, 1 << 20, NULL);
	append_watermark(&f, 60);
	append_watermark(&f, 50);
	frame_ref_put(stream_take(f.stream));
	frame_ref_put(stream_take(f.stream));
	assert_int_equal(f.stream->last_time_ns, 60);
	close_all(&f);
}

/* There is no memory to tell where it was skipped to: it is told before anything else, and the stream says so. */
static void test_skips_untold_for_want_of_memory(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	for (unsigned by_batch = 0; by_batch < 2; by_batch++) {
		open_subscription(&f, 1 << 20);
		join(&f, 1 << 20, NULL);
		f.stream->last_time_ns = 100;
		append(&f, 1, 0, 0, 5, 0);
		if (!by_batch)
			append_watermark(&f, 50);
		append(&f, 1, 100, 10, 0, 0);
		memory_fails_after(0);
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
		memory_suffices();
		assert_true(f.stream->gaps);
		assert_int_equal(f.told_ns, 0);
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
		assert_false(f.stream->gaps);
		assert_int_equal(f.told_ns, 100);
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
		assert_int_equal(frame[0]->events, 10);
		close_all(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything_arrives),
		cmocka_unit_test(test_slow_client),
		cmocka_unit_test(test_skips_among_what_was_dropped),
		cmocka_unit_test(test_dropped_behind_a_frame_in_parts),
		cmocka_unit_test(test_dropped_behind_a_watermark_in_parts),
		cmocka_unit_test(test_drops_down_to_half),
		cmocka_unit_test(test_evicted_under_the_client),
		cmocka_unit_test(test_resume_within_history),
		cmocka_unit_test(test_resume_too_late),
		cmocka_unit_test(test_dropped_behind_what_was_gone),
		cmocka_unit_test(test_dropped_behind_a_doubt),
		cmocka_unit_test(test_cursor_of_another_run),
		cmocka_unit_test(test_skips_passed_before_a_gap),
		cmocka_unit_test(test_places_behind_a_gap_have_a_time),
		cmocka_unit_test(test_watermark_of_the_log_older_than_one_told),
		cmocka_unit_test(test_old_watermark_behind_a_new_one),
		cmocka_unit_test(test_skips_told_before_what_is_behind_them),
		cmocka_unit_test(test_time_told_never_goes_back),
		cmocka_unit_test(test_skips_untold_for_want_of_memory),
		cmocka_unit_test(test_what_was_missed_has_every_reason),
		cmocka_unit_test(test_over_its_rate),
		cmocka_unit_test(test_evicted_for_a_reason),
		cmocka_unit_test(test_lag_to_the_byte),
		cmocka_unit_test(test_bye_over_the_rate),
		cmocka_unit_test(test_durable_consumer_has_no_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
