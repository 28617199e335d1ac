/*
 * A stream's whole ledger, and all that its client is told, word for word: after each kind of frame, with
 * a past and a spool behind it that are lists here, at each share of its rate, and wherever memory ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "tests/lib/failing_memory.h"

#include "daemon/base/clock.h"
#include "daemon/base/counters.h"
#include "daemon/stream/catch_up.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/past.h"
#include "daemon/stream/stream.h"
#include "tests/unit/daemon/small_catalog.h"

#define RINGS		2
#define LISTED		8
#define QUEUE_FULL	LOSS_REASON_QUEUE_FULL
#define HISTORY_GONE	LOSS_REASON_HISTORY_GONE
#define OTHER_EPOCH	LOSS_REASON_OTHER_EPOCH
#define LOST_MEMORY	LOSS_REASON_MEMORY

static const uint32_t cpu_of[RINGS] = {3, 5};
static uint64_t now_ns;

uint64_t __wrap_clock_monotonic(void);
uint64_t __wrap_clock_monotonic(void)
{
	return now_ns;
}

/* What comes before the log, or in its stead: frames in a list, of which so many are there already. */
struct listed {
	struct frame_ref *frame[LISTED];
	unsigned first, ready, end;
	unsigned asked;			/* to go on */
	bool waits;			/* there is more, but not now */
	uint64_t left_out;		/* below this number it has had everything */
};

struct past {
	struct listed list;
};

struct catch_up {
	struct listed list;
};

static struct frame_ref *listed_get(const struct listed *list, uint32_t i)
{
	return list->first + i < list->ready ? list->frame[list->first + i] : NULL;
}

static void listed_free(struct listed *list)
{
	while (list->first < list->end)
		frame_ref_put(list->frame[list->first++]);
}

struct frame_ref *__wrap_past_get(const struct past *past, uint32_t i);
struct frame_ref *__wrap_past_get(const struct past *past, uint32_t i)
{
	return listed_get(&past->list, i);
}

void __wrap_past_pass(struct past *past);
void __wrap_past_pass(struct past *past)
{
	frame_ref_put(past->list.frame[past->list.first++]);
}

/* Whoever asks finds nothing ready; where the list ends, the log begins. */
void __wrap_past_go_on(struct stream *stream);
void __wrap_past_go_on(struct stream *stream)
{
	struct listed *list = &stream->past->list;

	assert_true(list->first == list->ready);
	list->asked++;
	if (list->ready < list->end)
		list->ready++;
	else if (!list->waits)
		stream->past = NULL;
}

bool __wrap_past_has_work(const struct past *past);
bool __wrap_past_has_work(const struct past *past)
{
	return past->list.ready < past->list.end;
}

bool __wrap_past_leave_out(struct past *past, const struct frame_ref *frame, struct frame_ref *part);
bool __wrap_past_leave_out(struct past *past, const struct frame_ref *frame, struct frame_ref *part)
{
	if (frame->end_seq <= past->list.left_out)
		return false;
	*part = *frame;
	part->first_seq = past->list.left_out;
	part->events = part->end_seq - part->first_seq;
	return true;
}

uint64_t __wrap_past_end(const struct past *past, uint32_t ring);
uint64_t __wrap_past_end(const struct past *past, uint32_t ring)
{
	return past->list.left_out + ring;
}

void __wrap_past_stat(const struct past *past, struct stream_stat *stat);
void __wrap_past_stat(const struct past *past, struct stream_stat *stat)
{
	stat->in_flight = past->list.left_out;
	stat->lag_bytes = 4;
}

void __wrap_past_destroy(struct past *past);
void __wrap_past_destroy(struct past *past)
{
	if (past)
		listed_free(&past->list);
}

struct frame_ref *__wrap_catch_up_get(const struct catch_up *catch_up, uint32_t i);
struct frame_ref *__wrap_catch_up_get(const struct catch_up *catch_up, uint32_t i)
{
	return listed_get(&catch_up->list, i);
}

void __wrap_catch_up_pass(struct catch_up *catch_up);
void __wrap_catch_up_pass(struct catch_up *catch_up)
{
	frame_ref_put(catch_up->list.frame[catch_up->list.first++]);
}

void __wrap_catch_up_go_on(struct stream *stream);
void __wrap_catch_up_go_on(struct stream *stream)
{
	struct listed *list = &stream->catch_up->list;

	assert_true(list->first == list->ready);
	list->asked++;
	if (list->ready < list->end)
		list->ready++;
}

static unsigned fallen_back;
static bool no_way_back;
static struct catch_up spooled;

int __wrap_catch_up_begin(struct stream *stream, const struct spool_place *place);
int __wrap_catch_up_begin(struct stream *stream, const struct spool_place *place)
{
	assert_null(place);
	fallen_back++;
	if (!no_way_back)
		stream->catch_up = &spooled;
	return no_way_back ? -ENOMEM : 0;
}

void __wrap_catch_up_destroy(struct catch_up *catch_up);
void __wrap_catch_up_destroy(struct catch_up *catch_up)
{
	if (catch_up)
		listed_free(&catch_up->list);
}

/* ---- What is said ---------------------------------------------------------------------------- */

struct fixture {
	struct subscription *subscription;
	struct frame_codec *codec;
	struct stream *stream;
	uint64_t seq[RINGS];
	uint64_t frames_dropped, events_dropped, events_over_rate;	/* before */
	char said[2048];
};

static struct fixture *told_to;		/* whose consumer is sent something */

static void __attribute__((format(printf, 2, 3))) say(struct fixture *f, const char *format, ...)
{
	size_t used = strlen(f->said);
	va_list arguments;

	va_start(arguments, format);
	assert_true(vsnprintf(f->said + used, sizeof(f->said) - used, format, arguments) <
		    (int)(sizeof(f->said) - used));
	va_end(arguments);
}

/* All that was said since it was asked before. */
static void expect_said(struct fixture *f, const char *said)
{
	assert_string_equal(f->said, said);
	f->said[0] = '\0';
}

void __wrap_consumer_note_sent(struct consumer *consumer, const struct run *run, uint32_t cpu, uint64_t seq);
void __wrap_consumer_note_sent(struct consumer *consumer, const struct run *run, uint32_t cpu, uint64_t seq)
{
	assert_non_null(consumer);
	say(told_to, "consumer %llu: %u at %llu\n", (unsigned long long)run->epoch, cpu, (unsigned long long)seq);
}

/* Where and why something was lost, as the proto names it. */
static const char *stage_name(unsigned stage)
{
	return protobuf_c_enum_descriptor_get_value(&ringtail__v1__loss_stage__descriptor, (int)stage)->name +
	       strlen("LOSS_");
}

static const char *reason_name(unsigned reason)
{
	return protobuf_c_enum_descriptor_get_value(&ringtail__v1__loss_reason__descriptor, (int)reason)->name +
	       strlen("REASON_");
}

static void say_gap(struct fixture *f, const uint8_t *body, uint32_t bytes)
{
	Ringtail__V1__Gap *gap = ringtail__v1__gap__unpack(NULL, bytes, body);

	assert_non_null(gap);
	say(f, "gap %u %llu-%llu of %llu: %s, %s\n", gap->cpu, (unsigned long long)gap->first_seq,
	    (unsigned long long)gap->end_seq, (unsigned long long)gap->events, stage_name(gap->stage),
	    reason_name(gap->reason));
	ringtail__v1__gap__free_unpacked(gap, NULL);
}

static void say_places(struct fixture *f, const uint8_t *body, uint32_t bytes)
{
	Ringtail__V1__Watermark *watermark = ringtail__v1__watermark__unpack(NULL, bytes, body);

	assert_non_null(watermark);
	say(f, "places at %llu", (unsigned long long)watermark->time_ns);
	for (size_t i = 0; i < watermark->n_position; i++)
		say(f, " %u:%llu+%llu", watermark->position[i]->cpu,
		    (unsigned long long)watermark->position[i]->seq,
		    (unsigned long long)watermark->position[i]->skipped);
	say(f, "\n");
	ringtail__v1__watermark__free_unpacked(watermark, NULL);
}

static void on_tell(void *context, struct frame_ref *frame)
{
	struct fixture *f = context;
	struct frame_header header;
	uint8_t raw[1024];
	const uint8_t *body;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(frame_open(f->codec, frame->data, &header, raw, &body), FRAME_OK);
	if (frame->type == FRAME_GAP)
		say_gap(f, body, header.raw_bytes);
	else
		say_places(f, body, header.raw_bytes);
	frame_ref_put(frame);
}

static void say_frame(struct fixture *f, const struct frame_ref *frame)
{
	if (frame_ref_is_range(frame))
		say(f, "%llu-%llu of %u\n", (unsigned long long)frame->first_seq,
		    (unsigned long long)frame->end_seq, frame->cpu);
	else
		say(f, "%s %llu\n", frame->type == FRAME_WATERMARK ? "watermark" :
				    frame->type == FRAME_BYE ? "bye" : "frame", (unsigned long long)frame->time_ns);
}

/* Asks once, and takes what is there. */
static unsigned take(struct fixture *f)
{
	struct frame_ref *frame[4];
	unsigned n = stream_peek(f->stream, frame, 4, on_tell, f);

	for (unsigned i = 0; i < n; i++) {
		say_frame(f, frame[i]);
		stream_sent(f->stream);
	}
	return n;
}

/* As its client does: until there is nothing for it. */
static void take_all(struct fixture *f)
{
	for (unsigned i = 0; i < 16 && stream_has_work(f->stream); i++)
		take(f);
	assert_false(stream_has_work(f->stream));
}

/* The whole ledger: what it has come to, by ring, and what was lost, by stage and reason. */
static void say_ledger(struct fixture *f)
{
	const struct stream *stream = f->stream;
	struct stream_stat stat;

	stream_stat(stream, &stat);
	say(f, "%llu = %llu + %llu + %llu", (unsigned long long)stat.produced,
	    (unsigned long long)stream->delivered, (unsigned long long)stream->filtered,
	    (unsigned long long)stat.in_flight);
	for (unsigned i = 0; i < LOSS_STAGES; i++)
		for (unsigned j = 0; j < LOSS_REASONS; j++)
			if (stream->lost[i][j])
				say(f, " + %llu %s, %s", (unsigned long long)stream->lost[i][j], stage_name(i),
				    reason_name(j));
	say(f, "%+lld", (long long)stat.residual);
	for (unsigned i = 0; i < RINGS; i++)
		say(f, "; %u: %llu %llu %llu", cpu_of[i], (unsigned long long)stream->ring[i].start,
		    (unsigned long long)stream->ring[i].told, (unsigned long long)stream->ring[i].seen);
	say(f, "%s%s\n", stream->resumed ? ", resumed" : "", stream->gaps ? ", gaps" : "");
}

static void say_dropped(struct fixture *f)
{
	say(f, "dropped %llu: %llu frames, %llu events; over its rate %llu\n",
	    (unsigned long long)f->stream->frames_dropped,
	    (unsigned long long)(counter_read(COUNTER_frames_dropped) - f->frames_dropped),
	    (unsigned long long)(counter_read(COUNTER_events_dropped) - f->events_dropped),
	    (unsigned long long)(counter_read(COUNTER_events_over_rate) - f->events_over_rate));
}

/* ---- Making ---------------------------------------------------------------------------------- */

static void open_log(struct fixture *f)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	struct error error;

	memory_suffices();
	*f = (struct fixture){.codec = frame_codec_create(1),
			      .frames_dropped = counter_read(COUNTER_frames_dropped),
			      .events_dropped = counter_read(COUNTER_events_dropped),
			      .events_over_rate = counter_read(COUNTER_events_over_rate)};
	told_to = f;
	now_ns = NS_PER_S;
	fallen_back = 0;
	no_way_back = false;
	spooled = (struct catch_up){0};
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, 1 << 20,
					     &f->subscription, &error), 0);
}

static void join(struct fixture *f, uint64_t lag_bytes, const struct cursor *since,
		 enum loss_reason reason)
{
	f->stream = stream_create(f->subscription, f->codec, cpu_of, lag_bytes, since, reason);
	assert_non_null(f->stream);
	assert_ptr_equal(f->stream->codec, f->codec);
}

static void open_all(struct fixture *f, uint64_t lag_bytes)
{
	open_log(f);
	join(f, lag_bytes, NULL, LOSS_REASON_UNKNOWN);
}

static void close_all(struct fixture *f)
{
	f->subscription->spool.spool = NULL;
	stream_destroy(f->stream);
	subscription_destroy(f->subscription);
	frame_codec_destroy(f->codec);
}

/* Of which so many were events, the first two were skipped or lost in the ring. What is beyond is not its. */
static struct frame_ref *make_range(uint32_t ring, uint32_t cpu, uint64_t first, uint64_t events, size_t bytes,
				    uint64_t skipped, uint64_t lost)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, bytes);

	memset(frame->data, 0, bytes);
	frame->ring = ring;
	frame->cpu = cpu;
	frame->first_seq = first;
	frame->end_seq = first + events + skipped + lost;
	frame->events = events;
	frame->skipped = skipped;
	frame->losses = lost ? 2 : 0;
	for (unsigned i = 0; i < 3; i++)
		frame->loss[i] = (struct loss_count){.stage = LOSS_STAGE_RING,
						     .reason = LOSS_REASON_RING_FULL,
						     .count = i == 0 ? lost - 1 : i == 1 ? 1 : 1000};
	return frame;
}

static void append(struct fixture *f, unsigned ring, uint64_t events, size_t bytes, uint64_t skipped,
		   uint64_t lost)
{
	struct frame_ref *frame = make_range(ring, cpu_of[ring], f->seq[ring], events, bytes, skipped, lost);

	f->seq[ring] = frame->end_seq;
	subscription_append(f->subscription, frame);
}

static struct frame_ref *make_frame(enum frame_type type, uint64_t time_ns)
{
	struct frame_ref *frame = frame_ref_create(type, 20);

	memset(frame->data, 0, 20);
	frame->time_ns = time_ns;
	return frame;
}

static void append_frame(struct fixture *f, enum frame_type type, uint64_t time_ns)
{
	subscription_append(f->subscription, make_frame(type, time_ns));
}

static struct cursor *cursor_at(const uint64_t *seq, unsigned n)
{
	struct cursor *cursor = cursor_create(RINGS);

	for (unsigned i = 0; i < n; i++)
		cursor_append(cursor, cpu_of[i], seq[i]);
	return cursor;
}

static void resume(struct fixture *f, const uint64_t *seq, unsigned n)
{
	struct cursor *since = cursor_at(seq, n);

	join(f, 1 << 20, since, HISTORY_GONE);
	free(since);
}

static void evict(struct fixture *f)
{
	frame_log_evict_oldest(f->subscription->log, LOST_MEMORY);
}

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Of one ring, of both, of none; and what is before the cursor is passed, up to the attempt. */
static void test_where_a_cursor_begins(void **state)
{
	struct fixture f;

	(void)state;
	open_log(&f);
	for (unsigned i = 0; i < 2; i++) {
		append(&f, 0, 10, 100, 0, 0);
		append(&f, 1, 7, 100, 0, 0);
		append_frame(&f, FRAME_WATERMARK, 50 + i);
	}
	resume(&f, (const uint64_t[]){10, 7}, 2);
	say_ledger(&f);
	take_all(&f);
	expect_said(&f, "17 = 0 + 0 + 17+0; 3: 10 10 10; 5: 7 7 7, resumed\n"
			"10-20 of 3\n7-14 of 5\nwatermark 51\n");
	stream_destroy(f.stream);
	/* One attempt less, and the frame goes out whole. */
	resume(&f, (const uint64_t[]){9, 7}, 2);
	say_ledger(&f);
	take_all(&f);
	expect_said(&f, "34 = 0 + 0 + 34+0; 3: 0 0 0; 5: 0 0 0, resumed\n"
			"0-10 of 3\n0-7 of 5\nwatermark 50\n10-20 of 3\n7-14 of 5\nwatermark 51\n");
	stream_destroy(f.stream);
	/* A CPU that it does not name is at the log's end. */
	resume(&f, (const uint64_t[]){10}, 1);
	say_ledger(&f);
	take_all(&f);
	expect_said(&f, "17 = 0 + 0 + 17+0; 3: 10 10 10; 5: 7 7 7, resumed\n"
			"10-20 of 3\n7-14 of 5\nwatermark 51\n");
	close_all(&f);
}

static void test_what_history_misses_is_a_gap_of_each_ring(void **state)
{
	struct fixture f;

	(void)state;
	open_log(&f);
	for (unsigned i = 0; i < 3; i++) {
		append(&f, 0, 10, 100, 0, 0);
		append(&f, 1, 7, 100, 0, 0);
	}
	for (unsigned i = 0; i < 4; i++)
		evict(&f);
	resume(&f, (const uint64_t[]){15, 3}, 2);
	say_ledger(&f);
	take_all(&f);
	say_ledger(&f);
	expect_said(&f, "33 = 0 + 0 + 17 + 16 HISTORY, HISTORY_GONE+0; 3: 15 15 20; 5: 3 3 14, gaps\n"
			"gap 3 15-20 of 0: HISTORY, HISTORY_GONE\ngap 5 3-14 of 0: HISTORY, HISTORY_GONE\nplaces at 0 3:20+0 5:14+0\n"
			"20-30 of 3\n14-21 of 5\n"
			"33 = 17 + 0 + 0 + 16 HISTORY, HISTORY_GONE+0; 3: 15 30 30; 5: 3 21 21\n");
	stream_destroy(f.stream);
	/* Of the second alone. */
	resume(&f, (const uint64_t[]){20, 3}, 2);
	take_all(&f);
	say_ledger(&f);
	expect_said(&f, "gap 5 3-14 of 0: HISTORY, HISTORY_GONE\nplaces at 0 3:20+0 5:14+0\n20-30 of 3\n14-21 of 5\n"
			"28 = 17 + 0 + 0 + 11 HISTORY, HISTORY_GONE+0; 3: 20 30 30; 5: 3 21 21\n");
	close_all(&f);
}

/* Who comes when all is over is told so: the last word alone, or all from its cursor on. */
static void test_who_comes_late_hears_the_last_word(void **state)
{
	struct fixture f;

	(void)state;
	open_log(&f);
	append(&f, 0, 10, 100, 0, 0);
	append(&f, 0, 10, 100, 0, 0);
	append_frame(&f, FRAME_BYE, 0);
	join(&f, 1 << 20, NULL, LOSS_REASON_UNKNOWN);
	take_all(&f);
	expect_said(&f, "bye 0\n");
	stream_destroy(f.stream);
	resume(&f, (const uint64_t[]){10, 0}, 2);
	take_all(&f);
	expect_said(&f, "10-20 of 3\nbye 0\n");
	close_all(&f);
}

/* First what nobody knows the size of, then each ring, then where they are. */
static void test_doubt_and_what_is_missed_are_told_once(void **state)
{
	struct fixture f;

	(void)state;
	open_log(&f);
	append(&f, 0, 10, 100, 0, 0);
	join(&f, 1 << 20, NULL, OTHER_EPOCH);
	f.stream->resumed = true;
	stream_miss(f.stream, HISTORY_GONE);
	say_ledger(&f);
	take_all(&f);
	say_ledger(&f);
	f.stream->resumed = true;
	stream_doubt(f.stream, LOSS_REASON_NOT_RECORDED);
	take_all(&f);
	say_ledger(&f);
	expect_said(&f, "0 = 0 + 0 + 0+0; 3: 10 10 10; 5: 0 0 0, gaps\n"
			"gap 3 10-10 of 0: HISTORY, HISTORY_GONE\n"
			"gap 3 10-10 of 0: HISTORY, OTHER_EPOCH\ngap 5 0-0 of 0: HISTORY, OTHER_EPOCH\nplaces at 0 3:10+0 5:0+0\n"
			"0 = 0 + 0 + 0+0; 3: 10 10 10; 5: 0 0 0\n"
			"gap 3 10-10 of 0: HISTORY, NOT_RECORDED\ngap 5 0-0 of 0: HISTORY, NOT_RECORDED\nplaces at 0 3:10+0 5:0+0\n"
			"0 = 0 + 0 + 0+0; 3: 10 10 10; 5: 0 0 0\n");
	close_all(&f);
}

/* ---- What each kind of frame does ------------------------------------------------------------- */

static void sent(struct fixture *f, struct frame_ref *frame)
{
	f->stream->begun = frame;
	assert_true(stream_has_work(f->stream));
	stream_ended(f->stream);
	assert_null(f->stream->begun);
}

/* Of an earlier run, out of the spool: all of it adds up, and the consumer was sent it under that run. */
static void test_frames_of_an_earlier_run_add_up(void **state)
{
	struct consumer consumer = {0};
	struct frame_ref *hello;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	for (unsigned durable = 0; durable < 2; durable++) {
		f.stream->consumer = durable ? &consumer : NULL;
		hello = make_frame(FRAME_SERVER_HELLO, 66);
		hello->run.epoch = 9;
		sent(&f, hello);
		sent(&f, make_frame(FRAME_CATALOG, 66));
		sent(&f, make_range(RING_EARLIER, 7, 100, 5, 10, 3, 2));
		sent(&f, make_range(RING_EARLIER, 8, 200, 4, 10, 2, 4));
		say_ledger(&f);
	}
	assert_int_equal(f.stream->last_time_ns, 0);
	assert_int_equal(f.stream->run.epoch, 9);
	f.stream->consumer = NULL;
	expect_said(&f, "20 = 9 + 5 + 0 + 6 RING, RING_FULL+0; 3: 0 0 0; 5: 0 0 0\n"
			"consumer 9: 7 at 110\nconsumer 9: 8 at 210\n"
			"40 = 18 + 10 + 0 + 12 RING, RING_FULL+0; 3: 0 0 0; 5: 0 0 0\n");
	close_all(&f);
}

/* Skips alone are passed, and told with the next watermark; a frame tells of itself. */
static void test_frames_of_this_run_add_up(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	append(&f, 0, 5, 100, 3, 2);
	append(&f, 1, 0, 0, 4, 0);
	append(&f, 1, 6, 100, 1, 5);
	append(&f, 0, 0, 0, 2, 0);
	say_ledger(&f);
	take_all(&f);
	say_ledger(&f);
	append_frame(&f, FRAME_WATERMARK, 70);
	take_all(&f);
	say_ledger(&f);
	append_frame(&f, FRAME_BYE, 5);
	take_all(&f);
	append(&f, 1, 0, 0, 3, 0);
	append(&f, 0, 0, 0, 3, 0);
	take_all(&f);
	for (unsigned i = 0; i < 2; i++) {
		stream_miss(f.stream, HISTORY_GONE);
		take_all(&f);
	}
	assert_int_equal(f.stream->last_time_ns, 70);
	assert_int_equal(f.stream->run.epoch, 0);
	expect_said(&f, "28 = 0 + 0 + 28+0; 3: 0 0 0; 5: 0 0 0\n"
			"0-10 of 3\nplaces at 0 3:10+0 5:4+4\n4-16 of 5\n"
			"28 = 11 + 10 + 0 + 7 RING, RING_FULL+0; 3: 0 10 12; 5: 0 16 16\n"
			"watermark 70\n"
			"28 = 11 + 10 + 0 + 7 RING, RING_FULL+0; 3: 0 12 12; 5: 0 16 16\n"
			"bye 5\n"
			"gap 3 12-12 of 0: HISTORY, HISTORY_GONE\nplaces at 70 3:15+3 5:19+3\n"
			"gap 3 15-15 of 0: HISTORY, HISTORY_GONE\nplaces at 70 3:15+0 5:19+0\n");
	close_all(&f);
}

/* All of it, with what was lost and skipped within; only what had bytes was a frame that it was too slow for. */
static void test_what_is_dropped_adds_up(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	append(&f, 0, 5, 100, 3, 2);
	append(&f, 1, 0, 0, 4, 0);
	append(&f, 1, 6, 100, 1, 5);
	append_frame(&f, FRAME_WATERMARK, 70);
	append_frame(&f, FRAME_BYE, 5);
	append(&f, 0, 1, 100, 0, 0);
	for (unsigned i = 0; i < 5; i++)
		evict(&f);
	say_dropped(&f);
	say_ledger(&f);
	take_all(&f);
	say_ledger(&f);
	expect_said(&f, "dropped 2: 2 frames, 11 events; over its rate 0\n"
			"27 = 0 + 8 + 1 + 7 RING, RING_FULL + 11 QUEUE, MEMORY+0; 3: 0 0 10; 5: 0 0 16, gaps\n"
			"gap 3 0-10 of 7: QUEUE, MEMORY\ngap 5 0-16 of 11: QUEUE, MEMORY\nplaces at 70 3:10+0 5:16+0\n"
			"10-11 of 3\n"
			"27 = 1 + 8 + 0 + 7 RING, RING_FULL + 11 QUEUE, MEMORY+0; 3: 0 11 11; 5: 0 16 16\n");
	close_all(&f);
}

/* While a frame is out in part nothing may be told; what was dropped meanwhile is told behind it. */
static void test_nothing_is_told_inside_a_frame(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	append(&f, 0, 5, 100, 0, 0);
	append(&f, 0, 5, 100, 0, 0);
	append(&f, 1, 5, 100, 0, 0);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 3);
	stream_begin(f.stream);
	evict(&f);
	evict(&f);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
	assert_int_equal(stream_place(f.stream, 0), 5);
	assert_int_equal(stream_place(f.stream, 1), 0);
	say_ledger(&f);
	stream_ended(f.stream);
	take_all(&f);
	say_ledger(&f);
	expect_said(&f, "15 = 0 + 0 + 10 + 5 QUEUE, MEMORY+0; 3: 0 0 10; 5: 0 0 0, gaps\n"
			"gap 3 5-10 of 5: QUEUE, MEMORY\nplaces at 0 3:10+0 5:0+0\n0-5 of 5\n"
			"15 = 10 + 0 + 0 + 5 QUEUE, MEMORY+0; 3: 0 10 10; 5: 0 5 5\n");
	close_all(&f);
}

/* What is out in part is in flight, if it is of this run; and a watermark's place is where its rings are. */
static void test_what_is_out_in_part(void **state)
{
	struct frame_ref *frame[4];
	struct stream_stat stat;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	append(&f, 0, 5, 100, 0, 0);
	append_frame(&f, FRAME_WATERMARK, 70);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 2);
	stream_begin(f.stream);
	stream_stat(f.stream, &stat);
	assert_int_equal(stat.in_flight, 5);
	stream_ended(f.stream);
	stream_begin(f.stream);
	assert_int_equal(stream_place(f.stream, 0), 5);
	stream_ended(f.stream);
	f.stream->begun = make_range(RING_EARLIER, 7, 100, 5, 10, 0, 0);
	stream_stat(f.stream, &stat);
	assert_int_equal(stat.in_flight, 0);
	assert_int_equal(stat.lag_bytes, 10);
	assert_int_equal(stat.residual, 0);
	close_all(&f);
}

/* Wherever memory ends while all of it is told, all of it is told in the end, and no ledger is the worse. */
static void test_no_memory_to_tell(void **state)
{
	struct frame_ref *frame[4];
	struct fixture f;

	(void)state;
	for (unsigned n = 0; n < 32; n++) {
		open_log(&f);
		append(&f, 0, 0, 0, 6, 0);
		append(&f, 0, 5, 100, 0, 0);
		join(&f, 1 << 20, NULL, OTHER_EPOCH);
		append(&f, 1, 0, 0, 3, 0);
		append(&f, 0, 5, 100, 0, 0);
		append(&f, 0, 2, 100, 0, 0);
		evict(&f), evict(&f), evict(&f), evict(&f);
		stream_miss(f.stream, HISTORY_GONE);
		memory_fails_after(n / 2);
		if (n % 2)
			failures_left = 1;
		assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 0);
		memory_suffices();
		take_all(&f);
		say_ledger(&f);
		expect_said(&f, "gap 3 11-11 of 0: HISTORY, HISTORY_GONE\n"
				"gap 3 11-11 of 0: HISTORY, OTHER_EPOCH\n"
				"gap 3 11-16 of 5: QUEUE, MEMORY\ngap 5 0-3 of 0: HISTORY, OTHER_EPOCH\n"
				"places at 0 3:16+0 5:3+0\n16-18 of 3\n"
				"10 = 2 + 3 + 0 + 5 QUEUE, MEMORY+0; 3: 11 18 18; 5: 0 3 3\n");
		close_all(&f);
	}
}

/* ---- Rings whose start is not known ------------------------------------------------------------ */

/* They are in no account and no place until the spool has said where they begin. */
static void test_ring_of_unknown_start_is_left_out(void **state)
{
	struct run run = {.epoch = 4};
	struct consumer consumer = {0};
	struct fixture f;

	(void)state;
	for (unsigned unknown = 0; unknown < RINGS; unknown++) {
		open_all(&f, 1 << 20);
		stream_note_sent(f.stream, &run);
		f.stream->consumer = &consumer;
		f.stream->ring[unknown].unknown = true;
		append(&f, 0, 10, 100, 0, 0);
		append(&f, 1, 7, 100, 0, 0);
		append_frame(&f, FRAME_BYE, 1);
		evict(&f), evict(&f);
		f.stream->ring[unknown].gap = false;
		stream_note_sent(f.stream, &run);
		take_all(&f);
		f.stream->consumer = NULL;
		expect_said(&f, unknown == 0 ? "consumer 4: 5 at 7\ngap 5 0-7 of 7: QUEUE, MEMORY\nplaces at 0 5:7+0\nbye 1\n" :
					       "consumer 4: 3 at 10\ngap 3 0-10 of 10: QUEUE, MEMORY\nplaces at 0 3:10+0\nbye 1\n");
		close_all(&f);
	}
}

/* ---- What comes before the log, and in its stead ------------------------------------------------ */

/* Its frames, as they are ready, then what is missing, then the log's. */
static void test_past_comes_before_gaps_and_log(void **state)
{
	struct past past = {.list = {.ready = 1, .end = 2}};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	past.list.frame[0] = make_range(0, 3, 0, 10, 50, 0, 0);
	past.list.frame[1] = make_range(0, 3, 10, 10, 50, 0, 0);
	f.stream->past = &past;
	append(&f, 0, 30, 100, 0, 0);
	stream_set_rate(f.stream, 1);
	f.stream->rate.credit = -5;
	stream_doubt(f.stream, OTHER_EPOCH);
	take(&f);
	expect_said(&f, "0-10 of 3\n");
	assert_int_equal(past.list.asked, 0);
	take(&f);
	expect_said(&f, "gap 3 10-10 of 0: HISTORY, OTHER_EPOCH\ngap 5 0-0 of 0: HISTORY, OTHER_EPOCH\n"
			"places at 0 3:10+0 5:0+0\n");
	assert_int_equal(past.list.asked, 0);
	assert_true(stream_has_work(f.stream));
	take(&f);
	expect_said(&f, "10-20 of 3\n");
	assert_int_equal(past.list.asked, 1);
	stream_set_rate(f.stream, 0);
	take(&f);
	expect_said(&f, "0-30 of 3\n");
	assert_int_equal(past.list.asked, 2);
	assert_null(f.stream->past);
	close_all(&f);
}

/* The log gave up what is behind the past's last frame: none of it was skipped, and it is told behind that frame. */
static void test_dropped_at_the_seam_is_not_told_as_skipped(void **state)
{
	struct past past = {.list = {.ready = 2, .end = 2, .left_out = 20}};
	struct fixture f;

	(void)state;
	open_all(&f, 150);
	past.list.frame[0] = make_range(0, 3, 0, 10, 50, 0, 0);
	past.list.frame[1] = make_range(0, 3, 10, 10, 50, 0, 0);
	f.stream->past = &past;
	append(&f, 0, 30, 100, 0, 0);
	append(&f, 1, 10, 100, 0, 0);
	assert_true(f.stream->ring[0].gap);
	assert_int_equal(f.stream->ring[0].seen, 30);
	assert_int_equal(take(&f), 2);
	expect_said(&f, "0-10 of 3\n10-20 of 3\n");
	take(&f);
	expect_said(&f, "gap 3 20-30 of 10: QUEUE, QUEUE_FULL\nplaces at 0 3:30+0 5:0+0\n");
	take(&f);
	expect_said(&f, "0-10 of 5\n");
	assert_null(f.stream->past);
	close_all(&f);
}

/* A past that has nothing for now, and a log and a spool that have: it is the past's turn still. */
static void test_past_without_work_waits(void **state)
{
	struct past past = {0};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	f.stream->past = &past;
	append(&f, 0, 30, 100, 0, 0);
	assert_false(stream_has_work(f.stream));
	past.list.waits = true;
	f.stream->catch_up = &spooled;
	assert_int_equal(take(&f), 0);
	assert_int_equal(past.list.asked, 1);
	assert_int_equal(spooled.list.asked, 0);
	f.stream->catch_up = NULL;
	past.list.end = 1;
	past.list.frame[0] = make_range(0, 3, 0, 10, 50, 0, 0);
	assert_true(stream_has_work(f.stream));
	close_all(&f);
}

/* The log gives up what the past has had, or the rest of it; and no past falls back to the spool. */
static void test_log_gives_up_what_the_past_has_had(void **state)
{
	struct past past = {.list = {.left_out = 14}};
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	f.stream->past = &past;
	f.stream->patient = true;
	f.subscription->spool.spool = NULL;
	append(&f, 0, 10, 100, 0, 0);
	append(&f, 0, 10, 100, 0, 0);
	append(&f, 0, 1, 100, 0, 0);
	f.subscription->spool.spool = (struct spool *)&f;
	evict(&f);
	say_ledger(&f);
	evict(&f);
	say_ledger(&f);
	assert_int_equal(fallen_back, 0);
	expect_said(&f, "29 = 0 + 0 + 14+15; 3: 0 0 0; 5: 0 0 0\n"
			"29 = 0 + 0 + 14 + 6 QUEUE, MEMORY+9; 3: 0 0 20; 5: 0 0 0, gaps\n");
	f.stream->past = NULL;
	close_all(&f);
}

/* Out of the spool nothing has a rate; of what it has to tell it is asked on once all is passed. */
static void test_spool_in_the_logs_stead(void **state)
{
	struct frame_ref *frame[4];
	struct stream_stat stat;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	append(&f, 0, 30, 100, 0, 0);
	spooled.list.frame[0] = make_range(0, 3, 0, 10, 50, 0, 0);
	spooled.list.frame[1] = make_range(0, 3, 10, 10, 50, 0, 0);
	spooled.list.end = 2;
	f.stream->catch_up = &spooled;
	stream_set_rate(f.stream, 1);
	f.stream->rate.credit = -5;
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	assert_int_equal(stream_peek(f.stream, frame, 4, on_tell, &f), 1);
	assert_int_equal(spooled.list.asked, 1);
	stream_begin(f.stream);
	stream_stat(f.stream, &stat);
	assert_int_equal(stat.lag_bytes, 50);
	assert_int_equal(stat.in_flight, 30);
	stream_ended(f.stream);
	take(&f);
	stream_stat(f.stream, &stat);
	assert_int_equal(stat.lag_bytes, 0);
	say_ledger(&f);
	expect_said(&f, "10-20 of 3\n30 = 20 + 0 + 10+0; 3: 0 20 20; 5: 0 0 0\n");
	f.stream->catch_up = NULL;
	close_all(&f);
}

/* Nobody sends it: each frame is taken once, with a reference, accounted for, and asked for more. */
static void test_taken_by_hand(void **state)
{
	struct frame_ref *frame;
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	append(&f, 0, 5, 100, 0, 0);
	append(&f, 1, 0, 0, 4, 0);
	for (unsigned i = 0; i < 2; i++) {
		frame = stream_take(f.stream);
		assert_non_null(frame);
		assert_int_equal(frame->refs, 2);
		say_frame(&f, frame);
		frame_ref_put(frame);
	}
	assert_null(stream_take(f.stream));
	say_ledger(&f);
	spooled.list.frame[0] = make_range(0, 3, 5, 1, 50, 0, 0);
	spooled.list.end = 1;
	f.stream->catch_up = &spooled;
	frame = stream_take(f.stream);
	assert_non_null(frame);
	say_frame(&f, frame);
	frame_ref_put(frame);
	f.stream->catch_up = NULL;
	expect_said(&f, "0-5 of 3\n0-4 of 5\n9 = 5 + 4 + 0+0; 3: 0 5 5; 5: 0 0 4\n5-6 of 3\n");
	close_all(&f);
}

/* ---- Back to the spool -------------------------------------------------------------------------- */

struct way_back {
	bool durable, patient, spool, gaps, blocked;
	unsigned tried;
	bool back;			/* else it loses something */
};

/* Who is durable, or patient, has a spool, and nothing to tell that is no more there. */
static void test_who_falls_back(void **state)
{
	static const struct way_back ways[] = {
		{.durable = true, .spool = true, .tried = 1, .back = true},
		{.patient = true, .spool = true, .tried = 1, .back = true},
		{.spool = true},
		{.durable = true},
		{.patient = true},
		{.durable = true, .spool = true, .gaps = true},
		{.durable = true, .spool = true, .blocked = true, .tried = 1},
	};
	struct consumer consumer = {0};
	struct fixture f;

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(*ways); i++)
		for (unsigned lags = 0; lags < 2; lags++) {
			open_all(&f, 1 << 20);
			append(&f, 0, 5, 100, 0, 0);
			append(&f, 0, 5, 100, 0, 0);
			f.stream->consumer = ways[i].durable ? &consumer : NULL;
			f.stream->patient = ways[i].patient;
			f.stream->gaps = ways[i].gaps;
			f.subscription->spool.spool = ways[i].spool ? (struct spool *)&f : NULL;
			no_way_back = ways[i].blocked;
			f.stream->lag_bytes_max = 150;
			if (lags)
				stream_on_append(f.stream);
			else
				evict(&f);
			assert_int_equal(fallen_back, ways[i].tried);
			assert_int_equal(f.stream->catch_up != NULL, ways[i].back);
			assert_int_equal(f.stream->frames_dropped, !ways[i].back);
			f.stream->consumer = NULL;
			close_all(&f);
		}
}

/* ---- The rate ----------------------------------------------------------------------------------- */

static void pass_ms(unsigned ms)
{
	now_ns += (uint64_t)ms * 1000000;
}

/* A second's share at once; then nothing until a quarter of one is there again, and then that is told. */
static void test_rate_to_the_event(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	stream_set_rate(f.stream, 100);
	append(&f, 0, 99, 100, 0, 0);
	take(&f);
	append(&f, 0, 1, 100, 0, 0);
	take(&f);
	expect_said(&f, "0-99 of 3\n99-100 of 3\n");
	append(&f, 0, 10, 100, 0, 0);
	append_frame(&f, FRAME_WATERMARK, 8);
	take(&f);
	pass_ms(125);
	append(&f, 0, 10, 100, 2, 0);
	take(&f);
	take(&f);
	expect_said(&f, "");
	say_dropped(&f);
	pass_ms(125);
	append(&f, 0, 1, 100, 0, 0);
	take(&f), take(&f);
	say_ledger(&f);
	expect_said(&f, "dropped 0: 0 frames, 0 events; over its rate 20\n"
			"gap 3 100-122 of 20: QUEUE, RATE_LIMIT\nplaces at 8 3:122+0 5:0+0\n122-123 of 3\n"
			"123 = 101 + 2 + 0 + 20 QUEUE, RATE_LIMIT+0; 3: 0 123 123; 5: 0 0 0\n");
	/* What was not used in a second is not kept for the next. */
	pass_ms(60000);
	append(&f, 1, 100, 100, 0, 0);
	take(&f);
	append(&f, 1, 1, 100, 0, 0);
	take(&f);
	expect_said(&f, "0-100 of 5\n");
	/* It owes what it was sent too much. */
	pass_ms(1000);
	take(&f);
	expect_said(&f, "gap 5 100-101 of 1: QUEUE, RATE_LIMIT\nplaces at 8 3:123+0 5:101+0\n");
	append(&f, 1, 200, 100, 0, 0);
	take(&f);
	pass_ms(1000);
	append(&f, 1, 1, 100, 0, 0);
	take(&f);
	pass_ms(300);
	take(&f);
	expect_said(&f, "101-301 of 5\ngap 5 301-302 of 1: QUEUE, RATE_LIMIT\nplaces at 8 3:123+0 5:302+0\n");
	close_all(&f);
}

/* What was to be told before it had its share waits, and is told with what was dropped; once. */
static void test_gap_waits_while_over_the_rate(void **state)
{
	struct fixture f;

	(void)state;
	open_all(&f, 1 << 20);
	stream_set_rate(f.stream, 100);
	append(&f, 0, 100, 100, 0, 0);
	take(&f);
	stream_miss(f.stream, HISTORY_GONE);
	assert_int_equal(take(&f), 0);
	assert_int_equal(take(&f), 0);
	expect_said(&f, "0-100 of 3\n");
	pass_ms(1000);
	take_all(&f);
	append(&f, 0, 1, 100, 0, 0);
	take_all(&f);
	expect_said(&f, "gap 3 100-100 of 0: HISTORY, HISTORY_GONE\nplaces at 0 3:100+0 5:0+0\n100-101 of 3\n");
	close_all(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_where_a_cursor_begins),
		cmocka_unit_test(test_what_history_misses_is_a_gap_of_each_ring),
		cmocka_unit_test(test_who_comes_late_hears_the_last_word),
		cmocka_unit_test(test_doubt_and_what_is_missed_are_told_once),
		cmocka_unit_test(test_frames_of_an_earlier_run_add_up),
		cmocka_unit_test(test_frames_of_this_run_add_up),
		cmocka_unit_test(test_what_is_dropped_adds_up),
		cmocka_unit_test(test_nothing_is_told_inside_a_frame),
		cmocka_unit_test(test_what_is_out_in_part),
		cmocka_unit_test(test_no_memory_to_tell),
		cmocka_unit_test(test_ring_of_unknown_start_is_left_out),
		cmocka_unit_test(test_past_comes_before_gaps_and_log),
		cmocka_unit_test(test_dropped_at_the_seam_is_not_told_as_skipped),
		cmocka_unit_test(test_past_without_work_waits),
		cmocka_unit_test(test_log_gives_up_what_the_past_has_had),
		cmocka_unit_test(test_spool_in_the_logs_stead),
		cmocka_unit_test(test_taken_by_hand),
		cmocka_unit_test(test_who_falls_back),
		cmocka_unit_test(test_rate_to_the_event),
		cmocka_unit_test(test_gap_waits_while_over_the_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
