/*
 * What a durable stream is told on its way from the disk to its log: every frame that comes, in order, with
 * its place and its reason; where the disk is asked to begin, and where the ledger does. The disk holds
 * here what each test puts there, whatever the log has.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/failing_memory.h"

#include "daemon/spool/frame.h"
#include "daemon/stream/catch_up.h"
#include "daemon/stream/consumers.h"
#include "daemon/stream/stream.h"

#include "tests/unit/daemon/small_catalog.h"
#include "tests/unit/daemon/small_spool.h"

#define RINGS	3
#define GONE	4	/* a CPU that has no ring any more */
#define EPOCH	5	/* of this run */
#define OTHER_BOOT 99	/* a run of it */
#define ROUNDS	20000

static const uint32_t cpu_of[RINGS] = {2, 5, 0};

struct story {
	struct subscription *subscription;
	struct frame_codec *codec;
	struct stream *stream;
	struct consumer consumer;
	unsigned reads;
	char text[8192];
};

static struct run run_of(uint64_t epoch)
{
	return (struct run){.boot_id = {7, 8, 9, epoch == OTHER_BOOT}, .epoch = epoch};
}

static void on_read(void *context)
{
	((struct story *)context)->reads++;
}

/* The log begins at those places, and a stream is at its end. */
static void open_story(struct story *s, uint64_t place0, uint64_t place1, uint64_t place2)
{
	static const char *const glob[] = {"syscall:read:call"};
	struct subscription_request request = {.glob = glob, .globs = 1};
	const uint64_t place[RINGS] = {place0, place1, place2};
	struct error error;

	memset(s, 0, sizeof(*s));
	memory_suffices();
	reader_fails = false;
	s->codec = frame_codec_create(1);
	assert_int_equal(subscription_create(&request, small_catalog_get(), RINGS, 1 << 20,
					     &s->subscription, &error), 0);
	for (unsigned i = 0; i < RINGS; i++)
		s->subscription->position[i] = s->subscription->floor[i] = place[i];
	s->subscription->spool.spool = &disk;
	s->subscription->spool.read = on_read;
	s->subscription->spool.context = s;
	s->subscription->spool.run = run_of(EPOCH);
	s->subscription->spool.hello = frame_ref_create(FRAME_SERVER_HELLO, 4);
	s->subscription->spool.catalog = frame_ref_create(FRAME_CATALOG, 4);
	disk.deaf = true;
	s->stream = stream_create(s->subscription, s->codec, cpu_of, 1 << 20, NULL,
				  LOSS_REASON_UNKNOWN);
	s->stream->consumer = &s->consumer;
}

static void close_story(struct story *s)
{
	stream_destroy(s->stream);
	assert_null(reader);
	for (unsigned i = 0; i < s->consumer.runs; i++)
		free(s->consumer.sent[i]);
	/* Nobody has any of it any more. */
	for (unsigned i = disk.first; i < disk.end; i++)
		assert_int_equal(disk.frame[i]->refs, 1);
	assert_int_equal(s->subscription->spool.hello->refs, 1);
	assert_int_equal(s->subscription->spool.catalog->refs, 1);
	subscription_destroy(s->subscription);
	frame_codec_destroy(s->codec);
}

static void check_ledger(const struct story *s)
{
	struct stream_stat stat;

	stream_stat(s->stream, &stat);
	assert_int_equal(stat.residual, 0);
}

static void check_ring(const struct story *s, unsigned ring, uint64_t start, uint64_t seen)
{
	const struct stream_ring *at = &s->stream->ring[ring];

	assert_false(at->unknown);
	assert_int_equal(at->start, start);
	assert_int_equal(at->seen, seen);
	assert_int_equal(at->told, seen);
}

/* ---- What is there --------------------------------------------------------------------------- */

static struct frame_ref *make_batch(uint32_t ring, uint32_t cpu, uint64_t first, uint64_t end, bool events)
{
	struct frame_ref *frame = frame_ref_create(FRAME_BATCH, events ? 100 : 0);

	frame->ring = ring;
	frame->cpu = cpu;
	frame->first_seq = first;
	frame->end_seq = end;
	if (events)
		frame->events = end - first;
	else
		frame->skipped = end - first;
	return frame;
}

static struct frame_ref *make_mark(struct story *s, uint64_t time_ns, const uint64_t (*at)[2], unsigned n,
				   uint32_t ring)
{
	Ringtail__V1__Position position[RINGS + 1], *list[RINGS + 1];
	struct frame_ref *frame;

	for (unsigned i = 0; i < n; i++) {
		ringtail__v1__position__init(&position[i]);
		position[i].cpu = i < RINGS ? cpu_of[i] : GONE;
		position[i].seq = at[i][0];
		position[i].skipped = at[i][1];
		list[i] = &position[i];
	}
	frame = spool_frame_watermark(s->codec, time_ns, list, n);
	frame->ring = ring;
	return frame;
}

/* In the log alone, from where that is; and a watermark there: by ring, how many it says were skipped. */
static void log_batch(struct story *s, unsigned ring, uint64_t attempts, bool events)
{
	uint64_t first = s->subscription->position[ring];

	subscription_append(s->subscription,
			    make_batch(ring, cpu_of[ring], first, first + attempts, events));
}

static void log_mark(struct story *s, uint64_t time_ns, uint64_t skipped0, uint64_t skipped1, uint64_t skipped2)
{
	const uint64_t at[RINGS][2] = {{s->subscription->position[0], skipped0},
				       {s->subscription->position[1], skipped1},
				       {s->subscription->position[2], skipped2}};

	subscription_append(s->subscription, make_mark(s, time_ns, at, RINGS, 0));
}

/* On the disk alone. */
static void on_disk(struct frame_ref *frame)
{
	disk.deaf = false;
	spool_append(&disk, frame);
	disk.deaf = true;
}

static void disk_batch(unsigned ring, uint64_t first, uint64_t end)
{
	on_disk(make_batch(ring, cpu_of[ring], first, end, true));
}

static void disk_mark(struct story *s, uint64_t time_ns, const uint64_t (*at)[2], unsigned n)
{
	on_disk(make_mark(s, time_ns, at, n, 0));
}

static void disk_gap(struct story *s, uint32_t ring, uint32_t cpu, uint64_t first, uint64_t end,
		     enum loss_reason reason)
{
	struct frame_ref *gap = spool_frame_gap(s->codec, cpu, first, end, 0, reason);

	gap->ring = ring;
	on_disk(gap);
}

/* Another run begins there; boot_bytes 16: it has a name. */
static void disk_run(struct story *s, uint64_t epoch, size_t boot_bytes)
{
	Ringtail__V1__ServerHello hello = RINGTAIL__V1__SERVER_HELLO__INIT;
	Ringtail__V1__Catalog catalog = RINGTAIL__V1__CATALOG__INIT;
	Ringtail__V1__Subscribed subscribed = RINGTAIL__V1__SUBSCRIBED__INIT;
	struct run run = run_of(epoch);

	hello.boot_id.data = run.boot_id;
	hello.boot_id.len = boot_bytes;
	hello.epoch = epoch;
	on_disk(frame_ref_pack(s->codec, FRAME_SERVER_HELLO, &hello.base));
	on_disk(frame_ref_pack(s->codec, FRAME_CATALOG, &catalog.base));
	on_disk(frame_ref_pack(s->codec, FRAME_SUBSCRIBED, &subscribed.base));
}

static void earlier_batch(uint32_t cpu, uint64_t first, uint64_t end)
{
	on_disk(make_batch(RING_EARLIER, cpu, first, end, true));
}

static void earlier_mark(struct story *s, uint64_t time_ns, const uint64_t (*at)[2], unsigned n)
{
	on_disk(make_mark(s, time_ns, at, n, RING_EARLIER));
}

/* The stream begins at a cursor of that run, which has these CPUs, of these places. */
static void begin_at(struct story *s, uint64_t epoch, const uint64_t (*at)[2], unsigned n)
{
	struct cursor *cursor = cursor_create(n);

	cursor->run = run_of(epoch);
	for (unsigned i = 0; i < n; i++)
		cursor_append(cursor, (uint32_t)at[i][0], at[i][1]);
	assert_int_equal(catch_up_begin(s->stream, &(struct spool_place){.cursor = cursor}), 0);
	free(cursor);
}

/* Of this run, of each ring. */
static void begin_home(struct story *s, uint64_t place0, uint64_t place1, uint64_t place2)
{
	const uint64_t at[RINGS][2] = {{cpu_of[0], place0}, {cpu_of[1], place1}, {cpu_of[2], place2}};

	begin_at(s, EPOCH, at, RINGS);
}

/* ---- What comes ------------------------------------------------------------------------------ */

static void *open_frame(struct story *s, const struct frame_ref *frame,
			const ProtobufCMessageDescriptor *descriptor)
{
	struct frame_header header;
	uint8_t raw[1024];
	const uint8_t *body;

	assert_int_equal(frame_parse_header(frame->data, frame->bytes, sizeof(raw), &header), FRAME_OK);
	assert_int_equal(frame_open(s->codec, frame->data, &header, raw, &body), FRAME_OK);
	return protobuf_c_message_unpack(descriptor, NULL, header.raw_bytes, body);
}

static const char *reason_of(enum loss_reason reason)
{
	switch (reason) {
	case LOSS_REASON_SPOOL_FULL:
		return "full";
	case LOSS_REASON_MEMORY:
		return "memory";
	case LOSS_REASON_RESTART:
		return "restart";
	case LOSS_REASON_CORRUPT:
		return "corrupt";
	default:
		return "?";
	}
}

static void say(struct story *s, const char *format, ...)
{
	size_t used = strlen(s->text);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(s->text + used, sizeof(s->text) - used, format, arguments);
	va_end(arguments);
}

/* What the message says is what the ledger is told. */
static void say_gap(struct story *s, const struct frame_ref *frame)
{
	Ringtail__V1__Gap *gap = open_frame(s, frame, &ringtail__v1__gap__descriptor);

	assert_non_null(gap);
	assert_int_equal(gap->cpu, frame->cpu);
	assert_int_equal(gap->first_seq, frame->first_seq);
	assert_int_equal(gap->end_seq, frame->end_seq);
	assert_int_equal(gap->stage, LOSS_STAGE_SPOOL);
	assert_int_equal(gap->reason, frame->loss[0].reason);
	assert_int_equal(frame_ref_losses(frame), frame_ref_attempts(frame));
	assert_true(!gap->events || gap->events == gap->end_seq - gap->first_seq);
	say(s, "=%s", reason_of((enum loss_reason)gap->reason));
	ringtail__v1__gap__free_unpacked(gap, NULL);
}

/* gap 0:10-20=full of a ring of ours, GAP 5:10-20=full of a CPU of an earlier run; skip and batch so, too. */
static void say_range(struct story *s, const struct frame_ref *frame)
{
	bool earlier = frame_ref_is_earlier(frame), gap = frame->type == FRAME_GAP;
	const char *lower = gap ? "gap" : frame->bytes ? "batch" : "skip";
	const char *upper = gap ? "GAP" : frame->bytes ? "BATCH" : "SKIP";

	if (!earlier)
		assert_int_equal(frame->cpu, cpu_of[frame->ring]);
	if (!gap && !frame->bytes)
		assert_int_equal(frame->skipped, frame_ref_attempts(frame));
	say(s, "%s %u:%llu-%llu", earlier ? upper : lower, earlier ? frame->cpu : frame->ring,
	    (unsigned long long)frame->first_seq, (unsigned long long)frame->end_seq);
	if (gap)
		say_gap(s, frame);
}

static void say_subscribed(struct story *s, const struct frame_ref *frame)
{
	Ringtail__V1__Subscribed *subscribed = open_frame(s, frame, &ringtail__v1__subscribed__descriptor);
	struct run run;

	assert_non_null(subscribed);
	assert_true(subscribed->resumed);
	assert_non_null(subscribed->start);
	assert_int_equal(subscribed->start->n_position, 0);
	run = run_of(subscribed->start->epoch);
	assert_int_equal(subscribed->start->boot_id.len, sizeof(run.boot_id));
	assert_memory_equal(subscribed->start->boot_id.data, run.boot_id, sizeof(run.boot_id));
	say(s, "run%llu", (unsigned long long)run.epoch);
	ringtail__v1__subscribed__free_unpacked(subscribed, NULL);
}

static void say_frame(struct story *s, const struct frame_ref *frame)
{
	const struct subscription_spool *home = &s->subscription->spool;

	if (frame_ref_is_range(frame))
		say_range(s, frame);
	else if (frame->type == FRAME_WATERMARK)
		say(s, "mark%llu", (unsigned long long)frame->time_ns);
	else if (frame->type == FRAME_SUBSCRIBED)
		say_subscribed(s, frame);
	else if (frame->type == FRAME_CATALOG)
		say(s, frame == home->catalog ? "catalog" : "CATALOG");
	else if (frame == home->hello)
		say(s, "hello");
	else
		say(s, "HELLO%llu", (unsigned long long)frame->run.epoch);
	say(s, ", ");
}

/* Takes what there is, as the disk answers with so many frames at a time. */
static void take_all(struct story *s, unsigned frames)
{
	for (unsigned idle = 0, i = 0; idle < 16 && i < ROUNDS; i++) {
		struct frame_ref *frame = stream_take(s->stream);

		check_ledger(s);
		if (frame) {
			say_frame(s, frame);
			frame_ref_put(frame);
			idle = 0;
			continue;
		}
		idle++;
		catch_up_poke(s->stream);
		answer(frames);
	}
}

static void assert_comes(struct story *s, unsigned frames, const char *wanted)
{
	s->text[0] = '\0';
	take_all(s, frames);
	assert_string_equal(s->text, wanted);
}

static void check_home(const struct story *s)
{
	assert_null(s->stream->catch_up);
	assert_null(reader);
}

/* ---- Where it begins ------------------------------------------------------------------------- */

static void check_place(uint64_t epoch, uint64_t place0, uint64_t place1, uint64_t place2)
{
	struct run run = run_of(epoch);

	assert_non_null(reader_cursor);
	assert_true(run_equal(&reader_cursor->run, &run));
	assert_int_equal(cursor_seq(reader_cursor, cpu_of[0], 9999), place0);
	assert_int_equal(cursor_seq(reader_cursor, cpu_of[1], 9999), place1);
	assert_int_equal(cursor_seq(reader_cursor, cpu_of[2], 9999), place2);
	assert_int_equal(reader_cursor->n, RINGS);
	assert_int_equal(reader_realtime_ns, 0);
}

/* It lags: the disk goes on where the stream is. */
static void lagging_stream_goes_on_where_it_is(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 10, 20, 30);
	log_batch(&s, 0, 5, true);
	log_batch(&s, 1, 5, true);
	assert_comes(&s, 1, "batch 0:10-15, batch 1:20-25, ");
	s.stream->lag_bytes_max = 500;
	for (unsigned i = 0; i < 6; i++)
		log_batch(&s, i % 2, 10, true);
	assert_non_null(s.stream->catch_up);
	check_place(EPOCH, 15, 25, 30);
	check_ring(&s, 0, 10, 15);
	check_ring(&s, 2, 30, 30);
	close_story(&s);
}

static void put_told(void *context, struct frame_ref *frame)
{
	(void)context;
	frame_ref_put(frame);
}

/* What is still going out in part tells of itself: nobody says behind it that its events were skipped. */
static void lagging_stream_goes_on_behind_a_frame_in_parts(void **state)
{
	struct frame_ref *frame[1];
	struct story s;

	(void)state;
	open_story(&s, 10, 20, 30);
	log_batch(&s, 0, 15, true);
	assert_int_equal(stream_peek(s.stream, frame, 1, put_told, NULL), 1);
	stream_begin(s.stream);
	s.stream->lag_bytes_max = 500;
	for (unsigned i = 0; i < 6; i++)
		log_batch(&s, 1, 10, true);
	assert_non_null(s.stream->catch_up);
	check_place(EPOCH, 25, 20, 30);
	stream_ended(s.stream);
	/* The log gives up what comes next. */
	log_batch(&s, 0, 5, true);
	s.subscription->floor[0] = 30;
	disk_batch(0, 10, 25);
	disk_batch(1, 20, 80);
	disk_batch(0, 25, 30);
	assert_comes(&s, 1, "batch 1:20-80, batch 0:25-30, ");
	check_ring(&s, 0, 10, 30);
	check_ring(&s, 1, 20, 80);
	close_story(&s);
}

/* A place beyond what there is, is the end; a CPU that the cursor has not, too. */
static void cursor_of_this_run(void **state)
{
	const uint64_t first[2][2] = {{5, 140}, {2, 70}};
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	begin_at(&s, EPOCH, first, 2);
	check_place(EPOCH, 70, 140, 300);
	check_ring(&s, 0, 70, 70);
	check_ring(&s, 1, 140, 140);
	check_ring(&s, 2, 300, 300);
	check_ledger(&s);
	close_story(&s);

	open_story(&s, 100, 200, 300);
	begin_home(&s, 70, 250, 300);
	check_place(EPOCH, 70, 200, 300);
	check_ring(&s, 1, 200, 200);
	disk_batch(0, 70, 90);
	disk_batch(0, 90, 100);
	assert_comes(&s, 1, "batch 0:70-90, batch 0:90-100, ");
	check_home(&s);
	check_ring(&s, 0, 70, 100);
	close_story(&s);
}

/* Where a ring begins, the disk's first frame of it says. */
static void ring_from_the_first_that_was_recorded(void **state)
{
	const uint64_t end[RINGS][2] = {{100, 0}, {200, 0}, {300, 50}};
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	begin_home(&s, SINCE_BEGIN, 150, SINCE_BEGIN);
	check_place(EPOCH, 0, 150, 0);
	assert_true(s.stream->ring[0].unknown && s.stream->ring[2].unknown);
	check_ring(&s, 1, 150, 150);
	disk_batch(0, 40, 100);
	disk_batch(1, 150, 200);
	disk_mark(&s, 9, end, RINGS);
	assert_comes(&s, 1, "batch 0:40-100, batch 1:150-200, mark9, ");
	check_home(&s);
	check_ring(&s, 0, 40, 100);
	check_ring(&s, 1, 150, 200);
	check_ring(&s, 2, 300, 300);	/* a watermark alone told of it */
	close_story(&s);
}

/* A cursor of another run, or a time: what the spool is asked for is just that. */
static void cursor_of_an_earlier_run_and_time(void **state)
{
	const uint64_t at[1][2] = {{5, 140}};
	struct spool_place time = {.realtime_ns = 77};
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	begin_at(&s, 3, at, 1);
	assert_int_equal(reader_cursor->run.epoch, 3);
	assert_int_equal(reader_cursor->n, 1);
	assert_int_equal(cursor_seq(reader_cursor, 5, 0), 140);
	assert_int_equal(reader_realtime_ns, 0);
	for (unsigned i = 0; i < RINGS; i++)
		assert_true(s.stream->ring[i].unknown);
	close_story(&s);

	open_story(&s, 100, 200, 300);
	assert_int_equal(catch_up_begin(s.stream, &time), 0);
	assert_null(reader_cursor);
	assert_int_equal(reader_realtime_ns, 77);
	for (unsigned i = 0; i < RINGS; i++)
		assert_true(s.stream->ring[i].unknown);
	check_ledger(&s);
	close_story(&s);
}

/* Whatever finds no memory to begin with: that is said, and nothing is left of it. */
static void no_memory_to_begin(void **state)
{
	const uint64_t at[1][2] = {{5, 140}};
	struct spool_place place = {0};
	struct cursor *cursor;
	struct story s;

	(void)state;
	for (unsigned earlier = 0; earlier < 2; earlier++) {
		open_story(&s, 100, 200, 300);
		cursor = cursor_create(1);
		cursor->run = run_of(earlier ? 3 : EPOCH);
		cursor_append(cursor, (uint32_t)at[0][0], at[0][1]);
		place.cursor = cursor;
		for (unsigned n = 0; n < 2; n++) {
			memory_fails_after(n);
			assert_int_equal(catch_up_begin(s.stream, &place), -ENOMEM);
			memory_suffices();
			assert_null(s.stream->catch_up);
			assert_null(reader);
		}
		reader_fails = true;
		assert_int_equal(catch_up_begin(s.stream, &place), -ENOMEM);
		assert_null(s.stream->catch_up);
		free(cursor);
		close_story(&s);
	}
}

/* The cursor is amid what one frame holds: that comes whole, and the ledger begins with it. */
static void cursor_amid_a_frame(void **state)
{
	struct story s;

	(void)state;
	for (unsigned failures = 0; failures < 3; failures++) {
		open_story(&s, 100, 200, 300);
		begin_home(&s, 45, 145, 300);
		disk_batch(0, 40, 60);
		disk_batch(1, 145, 200);
		disk_batch(0, 60, 100);
		failures_left = failures;	/* it is begun once all the same */
		assert_comes(&s, 1, "batch 0:40-60, batch 1:145-200, batch 0:60-100, ");
		assert_int_equal(failures_left, 0);
		check_home(&s);
		check_ring(&s, 0, 40, 100);
		check_ring(&s, 1, 145, 200);
		close_story(&s);
	}
}

/* Amid what the log has; the disk has nothing. */
static void cursor_amid_an_entry_of_the_log(void **state)
{
	struct story s;

	(void)state;
	for (unsigned gap = 0; gap < 2; gap++) {
		struct frame_ref *entry;

		open_story(&s, 50, 200, 300);
		entry = gap ? spool_frame_gap(s.codec, cpu_of[0], 50, 60, 0, LOSS_REASON_RESTART) :
			      make_batch(0, cpu_of[0], 50, 60, true);
		entry->ring = 0;
		subscription_append(s.subscription, entry);
		log_mark(&s, 8, 0, 0, 0);
		log_batch(&s, 0, 5, true);
		begin_home(&s, 55, 200, 300);
		assert_comes(&s, 1, gap ? "gap 0:50-60=restart, mark8, batch 0:60-65, " :
					  "batch 0:50-60, mark8, batch 0:60-65, ");
		check_home(&s);
		check_ring(&s, 0, 50, 65);
		check_ring(&s, 1, 200, 200);
		close_story(&s);
	}
}

/* ---- Holes ----------------------------------------------------------------------------------- */

/* Why what is missing is: as the spool says of that ring and that place. */
static void holes_have_the_reason_of_their_place(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	disk.began[0] = 50;
	disk.began[1] = 150;
	begin_home(&s, 40, 140, 300);
	disk_batch(0, 50, 60);
	disk_batch(1, 151, 160);
	disk_batch(0, 61, 100);
	disk_batch(1, 160, 200);
	assert_comes(&s, 1, "gap 0:40-50=restart, batch 0:50-60, gap 1:140-151=full, batch 1:151-160, "
			    "gap 0:60-61=full, batch 0:61-100, batch 1:160-200, ");
	check_home(&s);
	close_story(&s);
}

/* Of what is before its place, a watermark says how much was skipped; the rest is missing, and before that. */
static void watermark_says_how_much_was_skipped(void **state)
{
	const uint64_t first[RINGS][2] = {{60, 4}, {160, 7}, {290, 0}};
	const uint64_t again[RINGS + 1][2] = {{60, 60}, {165, 5}, {300, 10}, {500, 3}};
	struct story s;

	(void)state;
	open_story(&s, 60, 165, 300);
	begin_home(&s, 40, 153, 290);
	disk_mark(&s, 7, first, RINGS);
	disk_mark(&s, 8, again, RINGS + 1);
	assert_comes(&s, 1, "gap 0:40-56=full, skip 0:56-60, skip 1:153-160, mark7, "
			    "skip 1:160-165, skip 2:290-300, mark8, ");
	check_home(&s);
	check_ring(&s, 0, 40, 60);
	check_ring(&s, 1, 153, 165);
	check_ring(&s, 2, 290, 300);
	assert_int_equal(s.stream->filtered, 26);
	close_story(&s);
}

/* What the disk gives twice comes once. */
static void what_came_already_does_not_come_again(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	begin_home(&s, 40, 200, 300);
	disk_batch(0, 40, 60);
	disk_batch(0, 50, 60);
	disk_batch(0, 60, 100);
	assert_comes(&s, 1, "batch 0:40-60, batch 0:60-100, ");
	check_home(&s);
	close_story(&s);
}

/* A loss of no known size is told at once where its ring is known; else where that begins. */
static void loss_of_no_known_size(void **state)
{
	const enum loss_reason corrupt = LOSS_REASON_CORRUPT;
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	begin_home(&s, 40, SINCE_BEGIN, 300);
	disk_gap(&s, 0, cpu_of[0], 40, 40, corrupt);
	disk_batch(0, 40, 100);
	disk_gap(&s, 1, cpu_of[1], 0, 0, corrupt);
	disk_batch(1, 170, 200);
	assert_comes(&s, 1, "gap 0:40-40=corrupt, batch 0:40-100, gap 1:170-170=corrupt, batch 1:170-200, ");
	check_home(&s);
	check_ring(&s, 1, 170, 200);
	close_story(&s);

	/* Before a watermark, or where nothing follows but the log. */
	for (unsigned mark = 0; mark < 2; mark++) {
		const uint64_t end[RINGS][2] = {{100, 0}, {200, 0}, {300, 0}};

		open_story(&s, 100, 200, 300);
		begin_home(&s, 100, SINCE_BEGIN, 300);
		disk_gap(&s, 1, cpu_of[1], 0, 0, corrupt);
		if (mark)
			disk_mark(&s, 6, end, RINGS);
		assert_comes(&s, 1, mark ? "gap 0:100-100=corrupt, mark6, " : "gap 0:100-100=corrupt, ");
		check_home(&s);
		close_story(&s);
	}
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* Between their own hello and this run's; of the cursor's run, its numbers go on. */
static void earlier_runs(void **state)
{
	const uint64_t cursor[2][2] = {{5, 10}, {0, 20}};
	const uint64_t third[RINGS][2] = {{90, 3}, {40, 10}, {50, 5}};
	const uint64_t fourth[RINGS][2] = {{50, 3}, {12, 3}, {70, 0}};
	const uint64_t ours[RINGS][2] = {{100, 0}, {200, 0}, {300, 0}};
	const enum loss_reason restart = LOSS_REASON_RESTART;
	struct run run = run_of(3);
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	disk.began[0] = disk.began[1] = disk.began[2] = 1000;	/* which says nothing of other runs */
	begin_at(&s, 3, cursor, 2);
	disk_run(&s, 3, 16);
	earlier_batch(5, 15, 30);
	earlier_mark(&s, 1, third, RINGS);
	disk_gap(&s, RING_EARLIER, 5, 40, 40, restart);
	disk_run(&s, 4, 16);
	earlier_batch(5, 7, 9);
	earlier_batch(GONE, 1, 2);
	earlier_mark(&s, 2, fourth, RINGS);
	disk_gap(&s, RING_EARLIER, GONE, 2, 2, restart);
	disk_mark(&s, 3, ours, 1);
	disk_batch(0, 100, 110);
	disk_batch(1, 150, 200);
	disk_mark(&s, 4, ours, RINGS);
	s.subscription->position[0] = 110;
	assert_comes(&s, 1, "HELLO3, run3, CATALOG, GAP 5:10-15=full, BATCH 5:15-30, SKIP 5:30-40, "
			    "GAP 0:20-45=full, SKIP 0:45-50, mark1, "
			    "HELLO4, run4, GAP 2:0-0=restart, CATALOG, BATCH 5:7-9, BATCH 4:1-2, SKIP 5:9-12, mark2, "
			    "hello, catalog, run5, gap 0:0-0=restart, mark3, batch 0:100-110, "
			    "batch 1:150-200, mark4, ");
	check_home(&s);
	check_ring(&s, 0, 100, 110);
	check_ring(&s, 1, 150, 200);
	assert_int_equal(consumer_sent_upto(&s.consumer, &run, 5), 40);
	assert_int_equal(consumer_sent_upto(&s.consumer, &run, 0), 50);
	run = run_of(4);
	assert_int_equal(consumer_sent_upto(&s.consumer, &run, 5), 12);
	close_story(&s);
}

/* Amid a frame of that run: this run's ledger does not begin there. */
static void cursor_amid_a_frame_of_an_earlier_run(void **state)
{
	const uint64_t cursor[1][2] = {{2, 55}};
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	begin_at(&s, 3, cursor, 1);
	disk_run(&s, 3, 16);
	earlier_batch(2, 50, 60);
	disk_batch(0, 80, 100);
	disk_batch(1, 180, 200);
	disk_batch(2, 280, 300);
	assert_comes(&s, 1, "HELLO3, run3, CATALOG, BATCH 2:50-60, hello, catalog, run5, "
			    "batch 0:80-100, batch 1:180-200, batch 2:280-300, ");
	check_home(&s);
	check_ring(&s, 0, 80, 100);
	assert_int_equal(s.stream->foreign, 10);
	close_story(&s);
}

/* Nobody can name it: none of its frames come, and that is told behind the next hello. */
static void run_that_has_no_name(void **state)
{
	const uint64_t at[RINGS][2] = {{70, 10}, {80, 10}, {90, 10}};
	struct story s;

	(void)state;
	for (unsigned again = 0; again < 2; again++) {
		open_story(&s, 100, 200, 300);
		assert_int_equal(catch_up_begin(s.stream, &(struct spool_place){.realtime_ns = 1}), 0);
		disk_run(&s, 3, 16);
		earlier_batch(5, 10, 20);
		disk_run(&s, 4, 3);
		earlier_batch(5, 30, 40);
		earlier_mark(&s, 1, at, RINGS);
		if (again) {
			disk_run(&s, 4, 16);
			earlier_batch(5, 60, 70);
		}
		disk_batch(0, 80, 100);
		disk_batch(1, 180, 200);
		disk_batch(2, 280, 300);
		assert_comes(&s, 1, again ? "HELLO3, run3, CATALOG, BATCH 5:10-20, "
					    "HELLO4, run4, GAP 2:0-0=corrupt, CATALOG, BATCH 5:60-70, hello, catalog, "
					    "run5, batch 0:80-100, batch 1:180-200, batch 2:280-300, " :
					    "HELLO3, run3, CATALOG, BATCH 5:10-20, hello, catalog, run5, "
					    "gap 0:0-0=corrupt, batch 0:80-100, batch 1:180-200, "
					    "batch 2:280-300, ");
		check_home(&s);
		close_story(&s);
	}
}

/* The disk has earlier runs alone: this one comes out of the log, behind its own hello. */
static void only_earlier_runs_on_disk(void **state)
{
	struct story s;

	(void)state;
	for (unsigned named = 0; named < 2; named++) {
		open_story(&s, 100, 200, 300);
		assert_int_equal(catch_up_begin(s.stream, &(struct spool_place){.realtime_ns = 1}), 0);
		disk_run(&s, 3, named ? 16 : 3);
		earlier_batch(5, 10, 20);
		log_batch(&s, 1, 10, true);
		disk.in_flight = 1;
		assert_comes(&s, 1, named ? "HELLO3, run3, CATALOG, BATCH 5:10-20, " : "");
		assert_non_null(s.stream->catch_up);
		disk.in_flight = 0;
		assert_comes(&s, 1, named ? "hello, catalog, run5, batch 1:200-210, " :
					    "hello, catalog, run5, gap 0:0-0=corrupt, batch 1:200-210, ");
		check_home(&s);
		check_ring(&s, 0, 100, 100);
		check_ring(&s, 1, 200, 210);
		close_story(&s);
	}
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* So many frames come off the disk, one at a time, and go on; the disk is asked for the next one. */
static void take_answers(struct story *s, unsigned answers)
{
	for (unsigned i = 0; i <= answers; i++) {
		struct frame_ref *frame;

		catch_up_poke(s->stream);
		while ((frame = stream_take(s->stream)))
			say_frame(s, frame), frame_ref_put(frame);
		if (i < answers)
			answer(1);
		check_ledger(s);
	}
	assert_true(reader && reader->asked);
}

/* Each of them has more than the queue has room for at first, with all that can stand between. */
static void fill_disk(struct story *s, unsigned kind, unsigned frames)
{
	const uint64_t third[RINGS][2] = {{1000, 0}, {40, 10}, {50, 5}};
	const uint64_t ours[RINGS][2] = {{1000, 20}, {200, 0}, {300, 60}};
	const enum loss_reason restart = LOSS_REASON_RESTART;

	for (unsigned i = 0; kind && i < frames; i++) {
		if (i % frames == 0)
			disk_run(s, 3, 16);
		earlier_batch(0, 10 * i, 10 * i + 10 - i % 3);
	}
	if (kind)
		earlier_mark(s, 1, third, RINGS);
	if (kind)
		disk_gap(s, RING_EARLIER, 5, 40, 40, restart);
	if (kind > 1)
		disk_run(s, 4, kind == 2 ? 16 : 3);
	if (kind > 1)
		earlier_batch(5, 70, 90);
	if (kind < 3)
		disk_gap(s, 0, cpu_of[0], 0, 0, kind ? LOSS_REASON_MEMORY : restart);
	for (unsigned i = 0; i < frames; i++)
		disk_batch(0, 10 * i, 10 * i + 10 - i % 2);
	disk_batch(1, 170, 200);
	disk_mark(s, 2, ours, RINGS);
	for (unsigned i = 0; i < 3; i++) {
		log_batch(s, 1, 5, false);
		log_mark(s, 10 + i, 0, 5, 0);
		log_batch(s, 0, 10, true);
	}
	/* The disk has come further on ring 0 than on the others. */
	disk_batch(0, 1000, 1020);
}

static void open_full(struct story *s, unsigned kind, unsigned frames)
{
	open_story(s, 1000, 200, 300);
	fill_disk(s, kind, frames);
	if (kind)
		assert_int_equal(catch_up_begin(s->stream, &(struct spool_place){.realtime_ns = 1}), 0);
	else
		begin_home(s, 5, SINCE_BEGIN, 240);
}

/* Losses of no known size may come later, too, where a ring begins: they are left out here. */
static void leave_out_unsized(char *text)
{
	char *to = text;

	for (char *at = text, *next; *at; at = next) {
		unsigned long long cpu, first, end;

		next = strstr(at, ", ") + 2;
		if (sscanf(at, "%*[gapGAP] %llu:%llu-%llu", &cpu, &first, &end) == 3 && first == end)
			continue;
		memmove(to, at, (size_t)(next - at));
		to += next - at;
	}
	*to = '\0';
}

/* Says where they part. */
static void check_same(const char *text, const char *wanted)
{
	size_t same = 0;

	while (text[same] && text[same] == wanted[same])
		same++;
	if (text[same] != wanted[same])
		fail_msg("at %zu: \"%.80s\" for \"%.80s\"", same, text + same, wanted + same);
}

/* Memory ends, wherever that is, and is there again: all comes, late, and nothing of it is lost or torn apart. */
static void late_wherever_memory_ends(void **state)
{
	static char whole[sizeof(((struct story *)NULL)->text)];
	static const char *const unsized[] = {"=restart", "=memory", "=corrupt"};
	static const unsigned told[] = {1, 3, 3, 5};	/* by kind, which of these */
	struct story s;

	(void)state;
	for (unsigned kind = 0; kind < 4; kind++) {
		for (unsigned frames = 57; frames < 64; frames += 3) {
			bool ended = false;

			open_full(&s, kind, frames);
			take_all(&s, FRAMES);
			check_home(&s);
			assert_true(strlen(s.text) < sizeof(s.text) - 1);
			leave_out_unsized(strcpy(whole, s.text));
			close_story(&s);
			for (unsigned n = 0; !ended; n++) {
				open_full(&s, kind, frames);
				allocations_left = n;
				failures_left = 1 + n % 3;
				take_all(&s, FRAMES);
				ended = failures_left == 1 + n % 3;
				memory_suffices();
				for (unsigned i = 0; i < 3; i++)
					assert_int_equal(!!strstr(s.text, unsized[i]), !!(told[kind] & 1 << i));
				leave_out_unsized(s.text);
				check_same(s.text, whole);
				check_home(&s);
				close_story(&s);
			}
		}
	}
}

/* It is late by no more than that: what is on the disk behind it is not given up for what the log has. */
static void nothing_given_up_for_want_of_memory(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 60, 200, 300);
	begin_home(&s, 0, 200, 300);
	for (unsigned i = 0; i < 5; i++)
		disk_batch(0, 10 * i, 10 * i + 10);
	log_batch(&s, 0, 10, true);
	take_answers(&s, 1);
	failures_left = 1;
	answer(1);
	take_all(&s, 1);
	assert_string_equal(s.text, "batch 0:0-10, batch 0:10-20, batch 0:20-30, batch 0:30-40, batch 0:40-50, "
				    "gap 0:50-60=full, batch 0:60-70, ");
	check_home(&s);
	close_story(&s);
}

/* An answer waits for memory: who has more to give is not asked again, the reader's turn is. */
static void answer_that_waits_for_memory(void **state)
{
	struct story s;
	unsigned reads;

	(void)state;
	open_story(&s, 100, 200, 300);
	assert_int_equal(catch_up_begin(s.stream, &(struct spool_place){.realtime_ns = 1}), 0);
	disk_run(&s, 3, 16);
	take_answers(&s, 0);
	failures_left = 1;
	answer(FRAMES);
	reads = s.reads;
	catch_up_poke(s.stream);
	assert_int_equal(s.reads, reads + 1);
	assert_false(reader->asked);
	assert_comes(&s, 1, "HELLO3, run3, CATALOG, hello, catalog, run5, ");
	close_story(&s);

	/* Or it ends while it waits. */
	open_story(&s, 100, 200, 300);
	assert_int_equal(catch_up_begin(s.stream, &(struct spool_place){.realtime_ns = 1}), 0);
	disk_run(&s, 3, 16);
	take_answers(&s, 0);
	failures_left = 1;
	answer(FRAMES);
	assert_int_equal(disk.frame[0]->refs, 2);
	close_story(&s);
}

/* ---- Into the log ---------------------------------------------------------------------------- */

/* What the log gave up may still come off the disk: as long as there is anything on the way there, or more on it. */
static void stranded_only_when_the_disk_has_no_more(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 50, 200, 300);
	disk.in_flight = 1;
	begin_home(&s, 0, 200, 300);
	disk_batch(0, 0, 20);
	log_batch(&s, 0, 10, true);
	assert_comes(&s, 1, "batch 0:0-20, ");
	assert_non_null(s.stream->catch_up);
	/* It is there when it is asked next. */
	disk_batch(0, 20, 30);
	disk.in_flight = 0;
	assert_null(stream_take(s.stream));
	assert_comes(&s, 1, "batch 0:20-30, gap 0:30-50=full, batch 0:50-60, ");
	check_home(&s);
	close_story(&s);
}

/* What the log has of before, and the disk has not told yet, comes out of the log; with its watermarks. */
static void rest_of_the_past_out_of_the_log(void **state)
{
	struct story s;

	(void)state;
	for (unsigned unknown = 0; unknown < 2; unknown++) {
		open_story(&s, 0, 0, 10);
		log_mark(&s, 1, 0, 0, 0);
		log_batch(&s, 1, 5, false);
		log_mark(&s, 2, 0, 5, 0);
		log_batch(&s, 2, 10, true);
		log_mark(&s, 3, 0, 0, 0);
		log_batch(&s, 1, 5, true);
		begin_home(&s, unknown ? SINCE_BEGIN : 0, 0, 0);
		disk.in_flight = 1;
		disk_batch(2, 0, 10);
		disk_batch(2, 10, 20);
		assert_comes(&s, 2, "batch 2:0-10, batch 2:10-20, skip 1:0-5, mark2, mark3, batch 1:5-10, ");
		check_home(&s);
		check_ring(&s, 1, 0, 10);
		check_ring(&s, 2, 0, 20);
		close_story(&s);
	}
}

/* The disk has come to the log's end: a watermark that only the log has comes, too. */
static void watermark_that_only_the_log_has(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 10, 0, 0);
	log_batch(&s, 0, 10, true);
	log_mark(&s, 3, 0, 0, 0);
	begin_home(&s, 0, 0, 0);
	disk.in_flight = 1;
	disk_batch(0, 0, 10);
	disk_batch(0, 10, 20);
	assert_comes(&s, 2, "batch 0:0-10, batch 0:10-20, mark3, ");
	check_home(&s);
	close_story(&s);
}

/* The disk got nothing of a ring, and gets no more: what the log has of it comes, before what is behind it. */
static void ring_that_the_disk_never_got(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 50, 10, 0);
	log_batch(&s, 0, 10, true);
	log_mark(&s, 4, 0, 0, 0);
	log_batch(&s, 1, 10, true);
	log_batch(&s, 0, 10, true);
	begin_home(&s, SINCE_BEGIN, 0, 0);
	disk_batch(1, 0, 10);
	disk_batch(1, 10, 20);
	assert_comes(&s, 2, "batch 1:0-10, batch 1:10-20, batch 0:50-60, mark4, batch 0:60-70, ");
	check_home(&s);
	check_ring(&s, 0, 50, 70);
	close_story(&s);
}

/* The disk lost where a ring began, and will say so: the log does not take over before that. */
static void ring_whose_begin_the_disk_lost(void **state)
{
	const enum loss_reason reason = LOSS_REASON_RESTART;
	struct story s;

	(void)state;
	for (unsigned unknown = 0; unknown < RINGS; unknown++) {
		unsigned other = (unknown + 1) % RINGS;

		open_story(&s, 50, 50, 50);
		log_batch(&s, unknown, 10, true);
		log_batch(&s, other, 10, true);
		log_batch(&s, unknown, 10, true);
		begin_home(&s, unknown == 0 ? SINCE_BEGIN : 40, unknown == 1 ? SINCE_BEGIN : 40,
			   unknown == 2 ? SINCE_BEGIN : 40);
		for (unsigned ring = 0; ring < RINGS; ring++)
			if (ring != unknown)
				disk_batch(ring, 40, ring == other ? 60 : 50);
		disk.in_flight = 1;
		s.text[0] = '\0';
		take_all(&s, 8);
		assert_non_null(s.stream->catch_up);
		disk_gap(&s, unknown, cpu_of[unknown], 45, 60, reason);
		s.text[0] = '\0';
		take_all(&s, 8);
		check_home(&s);
		assert_non_null(strstr(s.text, ":45-60=restart, batch "));
		assert_non_null(strstr(s.text, ":60-70, "));
		check_ring(&s, unknown, 45, 70);
		close_story(&s);
	}
}

/* What it came back for is no lag. */
static void what_it_came_for_is_no_lag(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 10, 0, 0);
	for (unsigned i = 0; i < 10; i++)
		log_batch(&s, 0, 10, true);
	begin_home(&s, 0, 0, 0);
	disk_batch(0, 0, 10);
	s.stream->lag_bytes_max = 500;
	take_answers(&s, 0);
	answer(1);
	while (s.stream->catch_up)
		frame_ref_put(stream_take(s.stream));
	log_batch(&s, 0, 10, true);
	assert_null(s.stream->catch_up);
	s.text[0] = '\0';
	take_all(&s, 1);
	check_home(&s);
	check_ring(&s, 0, 0, 120);
	assert_int_equal(s.stream->delivered, 120);
	close_story(&s);
}

/* As long as there are frames to send, the disk is not asked for more. */
static void disk_not_asked_before_its_turn(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 100, 200, 300);
	begin_home(&s, 0, 200, 300);
	disk_batch(0, 0, 10);
	disk_batch(0, 10, 20);
	take_answers(&s, 0);
	answer(2);
	catch_up_poke(s.stream);
	assert_false(reader->asked);
	assert_comes(&s, 1, "batch 0:0-10, batch 0:10-20, gap 0:20-100=full, ");
	check_home(&s);
	close_story(&s);
}

/* ---- Watermarks take nothing back ------------------------------------------------------------ */

/* The next frame is a watermark of that time, which has ring 0 there, behind so many that were skipped. */
static void check_mark(struct story *s, uint64_t time_ns, uint64_t seq, uint64_t skipped)
{
	struct frame_ref *frame = stream_take(s->stream);
	Ringtail__V1__Watermark *watermark;

	assert_non_null(frame);
	assert_int_equal(frame->type, FRAME_WATERMARK);
	assert_int_equal(frame->time_ns, time_ns);
	watermark = open_frame(s, frame, &ringtail__v1__watermark__descriptor);
	assert_int_equal(watermark->time_ns, time_ns);
	assert_int_equal(watermark->position[0]->cpu, cpu_of[0]);
	assert_int_equal(watermark->position[0]->seq, seq);
	assert_int_equal(watermark->position[0]->skipped, skipped);
	ringtail__v1__watermark__free_unpacked(watermark, NULL);
	frame_ref_put(frame);
	check_ledger(s);
}

static void check_range(struct story *s, uint64_t end_seq)
{
	struct frame_ref *frame = stream_take(s->stream);

	assert_non_null(frame);
	assert_true(frame_ref_is_range(frame));
	assert_int_equal(frame->end_seq, end_seq);
	frame_ref_put(frame);
}

/* The disk has the watermarks of before the place that a consumer has acknowledged. */
static void watermark_of_before_the_cursor(void **state)
{
	const uint64_t before[RINGS][2] = {{55, 5}, {70, 0}, {90, 0}};
	const uint64_t behind[RINGS][2] = {{64, 2}, {80, 0}, {90, 0}};
	struct story s;

	(void)state;
	open_story(&s, 100, 100, 100);
	disk_mark(&s, 5, before, RINGS);
	disk_batch(0, 60, 62);
	disk_mark(&s, 6, behind, RINGS);
	begin_home(&s, 60, 80, 90);
	assert_null(stream_take(s.stream));
	answer(16);
	check_mark(&s, 5, 60, 0);
	check_range(&s, 62);
	check_range(&s, 64);
	check_mark(&s, 6, 64, 2);
	close_story(&s);
}

/* Behind what was skipped, one of before says where that ends: nobody else may. */
static void watermark_of_before_what_was_skipped(void **state)
{
	const uint64_t before[RINGS][2] = {{61, 1}, {80, 0}, {90, 0}};
	struct story s;

	(void)state;
	open_story(&s, 100, 100, 100);
	on_disk(make_batch(0, cpu_of[0], 60, 64, false));
	disk_mark(&s, 6, before, RINGS);
	begin_home(&s, 60, 80, 90);
	assert_null(stream_take(s.stream));
	answer(16);
	check_range(&s, 64);
	check_mark(&s, 6, 64, 4);
	close_story(&s);
}

/* One that has nothing new does not go out; a made-up one has no time, if none is known. */
static void watermark_of_an_earlier_time(void **state)
{
	const uint64_t at[RINGS][2] = {{60, 0}, {80, 0}, {90, 0}};
	struct story s;

	(void)state;
	open_story(&s, 100, 100, 100);
	s.stream->last_time_ns = 8;
	disk_mark(&s, 7, at, RINGS);
	disk_mark(&s, 9, at, RINGS);
	disk_mark(&s, 9, at, RINGS);
	disk_mark(&s, 0, at, RINGS);
	begin_home(&s, 60, 80, 90);
	assert_comes(&s, 16, "mark9, gap 0:60-100=full, gap 1:80-100=full, gap 2:90-100=full, ");
	close_story(&s);
}

/* Which has another clock. */
static void watermark_of_another_boot(void **state)
{
	const uint64_t first[1][2] = {{2, 60}}, at[1][2] = {{60, 0}};
	struct story s;

	(void)state;
	open_story(&s, 100, 100, 100);
	s.subscription->spool.hello->run = s.subscription->spool.run;
	disk_run(&s, OTHER_BOOT, 16);
	earlier_mark(&s, 900, at, 1);
	disk_run(&s, 3, 16);
	earlier_mark(&s, 800, at, 1);
	earlier_mark(&s, 700, at, 1);
	disk_mark(&s, 7, at, 1);
	begin_at(&s, OTHER_BOOT, first, 1);
	assert_comes(&s, 16, "HELLO99, run99, CATALOG, mark900, HELLO3, run3, CATALOG, mark800, mark800, "
			     "hello, catalog, run5, mark800, gap 0:60-100=full, ");
	assert_int_equal(s.stream->last_time_ns, 800);
	close_story(&s);
}

/* ---- What was skipped is told before what comes behind it ------------------------------------------- */

/* The log skipped 60-70 of ring 0, untold yet, when the stream fell back to the disk, which goes to 80. */
static void open_with_skips_untold(struct story *s)
{
	open_story(s, 60, 80, 90);
	s->stream->last_time_ns = 7;
	log_batch(s, 0, 10, false);
	frame_ref_put(stream_take(s->stream));
	assert_int_equal(s->stream->ring[0].told, 60);
	assert_int_equal(catch_up_begin(s->stream, NULL), 0);
	s->subscription->position[0] = s->subscription->floor[0] = 80;
}

static void skips_untold_before_a_batch(void **state)
{
	struct story s;

	(void)state;
	open_with_skips_untold(&s);
	on_disk(make_batch(0, cpu_of[0], 70, 75, false));
	disk_batch(0, 75, 78);
	disk_batch(0, 78, 80);
	assert_null(stream_take(s.stream));
	answer(16);
	check_range(&s, 75);
	check_mark(&s, 7, 75, 15);
	check_range(&s, 78);
	check_range(&s, 80);
	close_story(&s);
}

static void skips_untold_before_a_gap(void **state)
{
	struct story s;

	(void)state;
	open_with_skips_untold(&s);
	disk_batch(0, 75, 80);
	assert_null(stream_take(s.stream));
	answer(16);
	check_mark(&s, 7, 70, 10);
	check_range(&s, 75);
	check_range(&s, 80);
	close_story(&s);
}

/* Whichever allocation fails, it is told once, and nothing behind it comes before. */
static void skips_told_once_where_memory_ends(void **state)
{
	struct story s;

	(void)state;
	for (unsigned n = 0; n < 8; n++) {
		open_with_skips_untold(&s);
		disk_batch(0, 75, 80);
		assert_null(stream_take(s.stream));
		memory_fails_after(n);
		answer(16);
		memory_suffices();
		check_mark(&s, 7, 70, 10);
		check_range(&s, 75);
		check_range(&s, 80);
		close_story(&s);
	}
}

/* What comes first begins in the middle of what was skipped: that far nobody knows of it. */
static void skips_untold_up_to_what_comes_again(void **state)
{
	struct story s;

	(void)state;
	open_with_skips_untold(&s);
	disk_batch(0, 65, 80);
	assert_null(stream_take(s.stream));
	answer(16);
	assert_int_equal(s.stream->ring[0].told, 60);
	check_mark(&s, 7, 65, 5);
	check_range(&s, 80);
	close_story(&s);
}

/* A watermark off the disk knows of less than was skipped; and one of no later time has news all the same. */
static void skips_told_by_the_disks_watermark(void **state)
{
	const uint64_t at[RINGS][2] = {{70, 3}, {80, 0}, {90, 0}};
	struct story s;

	(void)state;
	for (uint64_t time_ns = 7; time_ns < 9; time_ns++) {
		open_with_skips_untold(&s);
		disk_mark(&s, time_ns, at, RINGS);
		disk_batch(0, 70, 80);
		assert_null(stream_take(s.stream));
		answer(16);
		check_mark(&s, time_ns, 70, 10);
		check_range(&s, 80);
		close_story(&s);
	}
}

static void skips_that_the_disk_alone_knows_of(void **state)
{
	const uint64_t at[RINGS][2] = {{65, 5}, {80, 0}, {90, 0}}, before[RINGS][2] = {{55, 0}, {80, 0}, {90, 0}};
	struct story s;

	(void)state;
	open_story(&s, 100, 100, 100);
	s.stream->last_time_ns = 7;
	disk_mark(&s, 8, before, RINGS);
	disk_mark(&s, 8, at, RINGS);
	begin_home(&s, 60, 80, 90);
	assert_null(stream_take(s.stream));
	answer(16);
	assert_non_null(catch_up_get(s.stream->catch_up, 2));	/* told now, not only before the gap */
	check_mark(&s, 8, 60, 0);
	check_range(&s, 65);
	check_mark(&s, 8, 65, 5);
	assert_comes(&s, 16, "gap 0:65-100=full, gap 1:80-100=full, gap 2:90-100=full, ");
	close_story(&s);
}

/* Of another run: whatever is said anew is of that one. */
static void skips_of_an_earlier_run(void **state)
{
	const uint64_t first[1][2] = {{2, 10}}, at[1][2] = {{22, 9}};
	struct frame_ref *frame;
	unsigned marks = 0;
	struct story s;

	(void)state;
	open_story(&s, 100, 100, 100);
	s.subscription->spool.hello->run = s.subscription->spool.run;
	disk_run(&s, 3, 16);
	on_disk(make_batch(RING_EARLIER, cpu_of[0], 10, 15, false));
	earlier_batch(cpu_of[0], 15, 20);
	earlier_mark(&s, 800, at, 1);
	begin_at(&s, 3, first, 1);
	assert_null(stream_take(s.stream));
	answer(16);
	while (s.stream->catch_up && stream_has_work(s.stream)) {
		stream_peek(s.stream, &frame, 1, NULL, NULL);
		frame = stream_take(s.stream);
		if (frame->type == FRAME_WATERMARK) {
			Ringtail__V1__Watermark *watermark =
				open_frame(&s, frame, &ringtail__v1__watermark__descriptor);

			assert_true(frame_ref_is_earlier(frame));
			assert_int_equal(watermark->position[0]->cpu, cpu_of[0]);
			assert_int_equal(watermark->position[0]->seq, marks ? 22 : 15);
			assert_int_equal(watermark->position[0]->skipped, marks ? 2 : 5);
			ringtail__v1__watermark__free_unpacked(watermark, NULL);
			marks++;
		}
		frame_ref_put(frame);
	}
	assert_int_equal(marks, 2);
	close_story(&s);
}

/* The log goes on behind them, and has no watermark that tells of them: the stream does. */
static void skips_untold_where_the_log_takes_over(void **state)
{
	struct story s;

	(void)state;
	open_story(&s, 60, 80, 90);
	log_batch(&s, 0, 10, false);
	frame_ref_put(stream_take(s.stream));
	assert_int_equal(catch_up_begin(s.stream, NULL), 0);
	log_batch(&s, 0, 10, true);
	assert_false(s.stream->gaps);
	catch_up_go_on(s.stream);
	assert_null(s.stream->catch_up);
	assert_true(s.stream->gaps);
	close_story(&s);
}

/* This run is of another boot than what came off the disk before it: so is its clock. */
static void watermark_of_this_boot_behind_another(void **state)
{
	const uint64_t first[1][2] = {{2, 60}}, at[1][2] = {{60, 0}};
	struct story s;

	(void)state;
	open_story(&s, 100, 100, 100);
	s.subscription->spool.hello->run = s.subscription->spool.run;
	disk_run(&s, OTHER_BOOT, 16);
	earlier_mark(&s, 900, at, 1);
	disk_mark(&s, 7, at, 1);
	begin_at(&s, OTHER_BOOT, first, 1);
	assert_comes(&s, 16, "HELLO99, run99, CATALOG, mark900, hello, catalog, run5, mark7, "
			     "gap 0:60-100=full, ");
	assert_int_equal(s.stream->last_time_ns, 7);
	close_story(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lagging_stream_goes_on_where_it_is),
		cmocka_unit_test(lagging_stream_goes_on_behind_a_frame_in_parts),
		cmocka_unit_test(cursor_of_this_run),
		cmocka_unit_test(ring_from_the_first_that_was_recorded),
		cmocka_unit_test(cursor_of_an_earlier_run_and_time),
		cmocka_unit_test(no_memory_to_begin),
		cmocka_unit_test(cursor_amid_a_frame),
		cmocka_unit_test(cursor_amid_an_entry_of_the_log),
		cmocka_unit_test(holes_have_the_reason_of_their_place),
		cmocka_unit_test(watermark_says_how_much_was_skipped),
		cmocka_unit_test(what_came_already_does_not_come_again),
		cmocka_unit_test(loss_of_no_known_size),
		cmocka_unit_test(earlier_runs),
		cmocka_unit_test(cursor_amid_a_frame_of_an_earlier_run),
		cmocka_unit_test(run_that_has_no_name),
		cmocka_unit_test(only_earlier_runs_on_disk),
		cmocka_unit_test(late_wherever_memory_ends),
		cmocka_unit_test(nothing_given_up_for_want_of_memory),
		cmocka_unit_test(answer_that_waits_for_memory),
		cmocka_unit_test(stranded_only_when_the_disk_has_no_more),
		cmocka_unit_test(rest_of_the_past_out_of_the_log),
		cmocka_unit_test(watermark_that_only_the_log_has),
		cmocka_unit_test(ring_that_the_disk_never_got),
		cmocka_unit_test(ring_whose_begin_the_disk_lost),
		cmocka_unit_test(what_it_came_for_is_no_lag),
		cmocka_unit_test(disk_not_asked_before_its_turn),
		cmocka_unit_test(watermark_of_before_the_cursor),
		cmocka_unit_test(watermark_of_before_what_was_skipped),
		cmocka_unit_test(watermark_of_an_earlier_time),
		cmocka_unit_test(watermark_of_another_boot),
		cmocka_unit_test(skips_untold_before_a_batch),
		cmocka_unit_test(skips_untold_before_a_gap),
		cmocka_unit_test(skips_told_once_where_memory_ends),
		cmocka_unit_test(skips_untold_up_to_what_comes_again),
		cmocka_unit_test(skips_told_by_the_disks_watermark),
		cmocka_unit_test(skips_that_the_disk_alone_knows_of),
		cmocka_unit_test(skips_of_an_earlier_run),
		cmocka_unit_test(skips_untold_where_the_log_takes_over),
		cmocka_unit_test(watermark_of_this_boot_behind_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
